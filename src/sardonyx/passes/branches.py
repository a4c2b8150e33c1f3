"""An If whose condition is known is the branch that is taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from sardonyx.graph import Graph, Operation
from sardonyx.infer import infer

IDENTITY = 13  # the version that stands for "this is that"


def known_value(graph: Graph, name: str) -> np.ndarray | None:
    """The value of a tensor, where it is known before the graph runs."""
    found = graph.values.get(name, graph.initializers.get(name))
    return None if found is None or name in graph.overridable or found.dtype == object else found


def taken(graph: Graph) -> Graph:
    """The graph without the Ifs whose conditions are known. Nothing is asked of the branches that
    are not taken."""
    while any(_choice(graph, op) for op in graph.operations):
        operations: list[Operation] = []
        initializers, types = dict(graph.initializers), dict(graph.types)
        for op in graph.operations:
            branch = _choice(graph, op)
            if branch is None:
                operations.append(op)
                continue
            inner = _inlined(op, branch)
            operations += inner.operations
            initializers |= inner.initializers
            types |= inner.types
        graph = infer(
            replace(graph, operations=tuple(operations), initializers=initializers, types=types)
        )
    return graph


def _choice(graph: Graph, op: Operation) -> Graph | None:
    """The branch of an If that is taken, where that is known."""
    if op.op_type != "If" or op.domain:
        return None
    condition = known_value(graph, op.inputs[0])
    if condition is None or condition.size != 1:
        return None
    return op.subgraphs["then_branch" if condition.reshape(()) else "else_branch"]


def _inlined(op: Operation, branch: Graph) -> Graph:
    """A branch under names of its own, and what it gives under the names of the If's outputs."""
    own = (*branch.initializers, *branch.producers())
    place = ".".join(map(str, op.origin.path))
    names = {n: f"{n}/{place}" for n in own}
    operations = [_renamed(x, names) for x in branch.operations]
    for inner, outer in zip(branch.outputs, op.outputs, strict=False):
        if outer:
            ends = (names.get(inner, inner),), (outer,)
            operations.append(Operation("Identity", "", IDENTITY, *ends, {}, op.origin))
    return replace(
        branch,
        operations=tuple(operations),
        initializers={names[n]: v for n, v in branch.initializers.items()},
        types={names[n]: k for n, k in branch.types.items() if n in branch.initializers},
    )


def _renamed(op: Operation, names: Mapping[str, str]) -> Operation:
    """The operation on tensors of other names, in its subgraphs too."""
    inputs, outputs = (tuple(names.get(n, n) for n in x) for x in (op.inputs, op.outputs))
    bodies = {k: renamed_within(body, names) for k, body in op.subgraphs.items()}
    return replace(op, inputs=inputs, outputs=outputs, subgraphs=bodies)


def renamed_within(body: Graph, names: Mapping[str, str]) -> Graph:
    """A subgraph that captures tensors of other names."""
    own = {*body.inputs, *body.overridable, *body.initializers, *body.producers()}
    outer = {a: b for a, b in names.items() if a not in own}
    operations = tuple(_renamed(op, outer) for op in body.operations)
    outputs = tuple(outer.get(n, n) for n in body.outputs)
    return replace(body, operations=operations, outputs=outputs)
