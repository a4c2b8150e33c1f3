"""Inputs and outputs of a graph, as ONNX Runtime's Graph::SetGraphInputsOutputs finds them.

A graph made of nodes may leave its inputs or outputs unsaid. Then each node input that no node
makes is a graph input (in the order in which the nodes read them), unless it is an initializer or
a name of an outer scope; and each node output that no node reads is a graph output (in the order in
which the nodes make them). What a node's subgraphs capture counts as read by the node.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from onnx import NodeProto

from sardonyx.errors import InvalidModel
from sardonyx.resolve.names import node_reads

OVERRIDE_IR = 4
"""From this IR version on, an initializer need not be an input, and one that is may be fed."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """What a graph takes and gives. `inputs` excludes initializers, `all_inputs` includes those
    that are inputs too, `overridable` is the difference where the IR version allows to feed them,
    `intermediate` are the tensors that nodes make and read (value_info)."""

    inputs: tuple[str, ...]
    all_inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    overridable: tuple[str, ...]
    intermediate: tuple[str, ...]


def boundary(
    nodes: Sequence[NodeProto],
    initializers: Collection[str],
    ir_version: int,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    outer: Collection[str] = (),
) -> Boundary:
    """The inputs and outputs of a graph; None means unsaid.

    With `inputs` given, InvalidModel if a node reads what is neither one of them, nor an
    initializer, nor made by a node.
    """
    made = [name for node in nodes for name in node.output if name]
    read = list(dict.fromkeys(name for node in nodes for name in node_reads(node)))
    sources = set(made)
    needed = [name for name in read if name not in sources and name not in outer]
    if inputs is None:
        early = ir_version < OVERRIDE_IR
        all_inputs = [name for name in needed if early or name not in initializers]
    else:
        all_inputs = list(dict.fromkeys(inputs))
        allowed = {*all_inputs, *initializers}
        for name in needed:
            if name not in allowed:
                raise InvalidModel(
                    f"{name} must be either specified in graph inputs or graph initializers."
                )
    known = set(read)
    fed = tuple(name for name in all_inputs if name not in initializers)
    return Boundary(
        fed,
        tuple(all_inputs),
        tuple(n for n in made if n not in known) if outputs is None else tuple(outputs),
        tuple(n for n in all_inputs if n in initializers) if ir_version >= OVERRIDE_IR else (),
        tuple(name for name in read if name in sources),
    )
