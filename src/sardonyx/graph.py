"""The graph G: tensors, and operations on them; frozen, typed, acyclic, single assignment.

A tensor is named by a string, unique in its graph. An operation is
``[op_type, inputs, outputs, attributes, subgraphs]`` with its operator resolved to
(domain, op_type, since_version); "" stands for an absent optional input or output. Operations are
in a topological order. A subgraph may read tensors of the graphs around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sardonyx import types as t
from sardonyx.dims import Dim, symbols
from sardonyx.types import Array, Container, TensorType, ValueType


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an operation comes from: its NodeProto's name, its place in the model (the indices of
    nodes from the main graph inwards) and the attributes that the node itself states."""

    name: str
    path: tuple[int, ...]
    explicit: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.name or "#" + ".".join(map(str, self.path))


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """One operator applied to tensors."""

    op_type: str
    domain: str
    since: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    origin: Origin
    subgraphs: Mapping[str, Graph] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.op_type} '{self.origin}'"


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Graph:
    """G.

    inputs: names the caller must feed (graph inputs excluding initializers).
    overridable: initializers that are also graph inputs (IR version >= 4) and may be fed.
    initializers: name -> value. types: name -> type, for every tensor. declared: the types the
    model itself states. values: what is known of small integer tensors (arrays of Dims), found
    when shapes were propagated. unnamed: the symbolic dims that stand for a size which the model
    leaves out. containers: the types of what is no tensor (sequences, optionals, maps). supposed:
    what of the symbolic dims must be at least 0 for the graph to be fed so (supposed.py).
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    overridable: tuple[str, ...]
    initializers: Mapping[str, Array]
    operations: tuple[Operation, ...]
    types: Mapping[str, TensorType]
    declared: Mapping[str, TensorType]
    values: Mapping[str, Array]
    opsets: Mapping[str, int]
    metadata: Mapping[str, str] = field(default_factory=dict)
    unnamed: frozenset[str] = frozenset()
    containers: Mapping[str, Container] = field(default_factory=dict)
    extents: tuple[str, ...] = ()
    supposed: tuple[Dim, ...] = ()

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbolic dims of the inputs, in order of appearance; and the symbols that stand for
        an input's value."""
        found: dict[str, None] = {}
        for name in (*self.inputs, *self.overridable):
            known = self.types.get(name)
            value = self.values.get(name)
            symbolic = value.flat if value is not None and value.dtype == object else ()
            for dim in (*((known and known.shape) or ()), *symbolic):
                found.update(dict.fromkeys(sorted(symbols(dim))))
        return tuple(found)

    def kind(self, name: str) -> ValueType | None:
        """The type of a tensor or of a container; None where it is not known."""
        return self.types.get(name) or self.containers.get(name)

    def is_outside(self, name: str) -> bool:
        """Whether M never holds it: a container, or a tensor of strings."""
        known = self.types.get(name)
        return name in self.containers or (known is not None and known.dtype is t.string)

    def producers(self) -> dict[str, int]:
        """tensor -> the index of the operation that writes it."""
        return {o: i for i, op in enumerate(self.operations) for o in op.outputs if o}

    def consumers(self) -> dict[str, list[int]]:
        """tensor -> the indices of the operations that read it, captures included."""
        readers: dict[str, list[int]] = {}
        for i, op in enumerate(self.operations):
            for name in dict.fromkeys(reads(op)):
                readers.setdefault(name, []).append(i)
        return readers


def reads(op: Operation) -> Iterator[str]:
    """The tensors that op reads: its inputs, then what its subgraphs capture."""
    yield from filter(None, op.inputs)
    for sub in op.subgraphs.values():
        yield from captures(sub)


def captures(graph: Graph) -> Iterator[str]:
    """The tensors of outer scopes that a subgraph reads."""
    own = {*graph.inputs, *graph.overridable, *graph.initializers, *graph.producers()}
    for op in graph.operations:
        yield from (name for name in reads(op) if name not in own)
    yield from (name for name in graph.outputs if name not in own)
