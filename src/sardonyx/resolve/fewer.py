"""numerics="winograd": convolutions of 3 x 3 by the definition with fewer products.

    graph = fewer_products(graph)

Conv becomes WinogradConv (ops/winograd.py) where the weights' shape is known and suits it. The
sizes of pictures do not matter here: the definition itself looks at them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sardonyx import types as t
from sardonyx.graph import Graph, Operation
from sardonyx.infer import infer
from sardonyx.ops.registry import INTERNAL
from sardonyx.ops.winograd import NAME, suits
from sardonyx.types import TensorType


def fewer_products(graph: Graph) -> Graph:
    """The graph with these operations in the place of others, inferred again; the same graph if
    there are none."""
    found = _rewritten(graph, {})
    return graph if found is graph else infer(found)


def _rewritten(graph: Graph, around: Mapping[str, TensorType]) -> Graph:
    types = {**around, **graph.types}
    operations = tuple(_operation(op, types) for op in graph.operations)
    same = all(a is b for a, b in zip(operations, graph.operations, strict=True))
    return graph if same else replace(graph, operations=operations)


def _operation(op: Operation, types: Mapping[str, TensorType]) -> Operation:
    if op.op_type == "Conv" and not op.domain and _suits(op, types):
        return replace(op, op_type=NAME, domain=INTERNAL, since=1)
    bodies = {name: _rewritten(body, types) for name, body in op.subgraphs.items()}
    same = all(bodies[name] is body for name, body in op.subgraphs.items())
    return op if same else replace(op, subgraphs=bodies)


def _suits(op: Operation, types: Mapping[str, TensorType]) -> bool:
    weights = types.get(op.inputs[1])
    if weights is None or weights.shape is None or weights.dtype is not t.float32:
        return False
    given = op.attributes
    strides, steps = given.get("strides") or (), given.get("dilations") or ()
    return suits(weights.shape, given.get("group", 1), strides, steps)
