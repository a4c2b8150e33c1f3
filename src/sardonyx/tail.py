"""A graph whose end the host performs: its head, which engines run as one, and its tail.

    label = ArrayFeatureExtractor(names, ArgMax(p));  y = ZipMap(p)

    head: code = ArrayFeatureExtractor([0, 1, ...], ArgMax(p))     tail: label = names[code], ZipMap

What converters of classifiers end with: names of classes, which are moved as numbers for as long
as they are only moved, and maps from class to score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sardonyx import types as t
from sardonyx.divide import divided
from sardonyx.ending import Ending
from sardonyx.graph import Graph, Operation, reads
from sardonyx.infer import infer, on_host
from sardonyx.ops.registry import INTERNAL
from sardonyx.types import Array, TensorType

MOVES = {("ai.onnx.ml", "ArrayFeatureExtractor")} | {
    ("", name)
    for name in (
        *("Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Reshape"),
        *("Slice", "Squeeze", "Tile", "Transpose", "Unsqueeze"),
    )
}
LABELS = "Labels"


@dataclass(frozen=True, slots=True, eq=False)
class Tail:
    """What of a graph engines run, and what the host does of what that gives."""

    head: Graph
    ending: Ending


def tail_of(graph: Graph) -> Tail | None:
    """The graph in two; None where its end is not the host's, or all of it is."""
    whole = divided(graph.operations)
    taken = {n for op in whole for n in op.outputs}.union(graph.inputs, graph.initializers)
    coded = _Coded(graph, taken)
    operations = tuple(coded.operations(whole))
    last = _last(graph, operations)
    first = tuple(op for op in operations if op not in last)
    made = {n for op in first for n in op.outputs}
    weights = {**graph.initializers, **coded.weights}
    done = {n for op in last for n in op.outputs}
    read = (n for op in operations if op in last for n in op.inputs if n and n not in done)
    fixed = {n: w for n, w in graph.initializers.items() if n not in graph.overridable}
    outer = dict.fromkeys([*(n for n in graph.outputs if n not in done), *read])
    needed = [n for n in outer if n not in fixed]
    if not last or not needed or not made.issuperset(needed):
        return None
    used = {n for op in first for n in reads(op)}
    head = infer(
        replace(
            graph,
            outputs=tuple(needed),
            operations=first,
            initializers={n: w for n, w in weights.items() if n in used},
            types={**graph.types, **coded.types},
            containers={
                n: c for n, c in graph.containers.items() if n in made or n in graph.inputs
            },
            declared={n: kind for n, kind in graph.declared.items() if n in made},
        )
    )
    ending = replace(
        graph,
        inputs=tuple(needed),
        overridable=(),
        initializers={},
        operations=tuple(op for op in operations if op in last),
        types={n: graph.types[n] for n in (*needed, *done) if n in graph.types},
        declared={},
        values={},
        containers={n: c for n, c in graph.containers.items() if n in done},
    )
    return Tail(head, Ending(ending, {n: fixed[n] for n in outer if n in fixed}))


def _last(graph: Graph, operations: Sequence[Operation]) -> set[Operation]:
    """The operations of the host that only such operations follow."""
    users: dict[str, list[Operation]] = {}
    for op in operations:
        for name in reads(op):
            users.setdefault(name, []).append(op)
    last: set[Operation] = set()
    for op in reversed(operations):
        followers = [x for name in op.outputs for x in users.get(name, ())]
        alone = not op.subgraphs and on_host({}, graph, op)
        if alone and last.issuperset(followers):
            last.add(op)
    return last


@dataclass(slots=True, eq=False)
class _Coded:
    """Strings that stand in a table as their places there. codes: a tensor of strings -> its
    places; tables: what they are places in; taken: the names of tensors."""

    graph: Graph
    taken: set[str]
    codes: dict[str, str] = field(default_factory=dict)
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict)
    weights: dict[str, Array] = field(default_factory=dict)
    types: dict[str, TensorType] = field(default_factory=dict)

    def operations(self, found: Sequence[Operation]) -> list[Operation]:
        """The operations, in which what moves such strings moves their places, and names come
        where others read them."""
        for name, w in self.graph.initializers.items():
            if name not in self.graph.overridable:
                self._know(name, w)
        made: list[Operation] = []
        late: dict[str, Operation] = {}
        for op in found:
            texts = [n for n in op.inputs if n in self.codes]
            if op.op_type == "Constant" and self._know(op.outputs[0], _constant(op)):
                late[op.outputs[0]] = op
            elif op.op_type == LABELS and op.domain == INTERNAL:
                self.codes[op.outputs[0]] = op.inputs[0]
                self.tables[op.outputs[0]] = tuple(op.attributes["texts"])
                late[op.outputs[0]] = op
            elif (op.domain, op.op_type) in MOVES and texts == [op.inputs[0]]:
                (out,) = op.outputs
                self.codes[out], self.tables[out] = self._fresh(out), self.tables[texts[0]]
                inputs = (self.codes[texts[0]], *op.inputs[1:])
                made.append(replace(op, inputs=inputs, outputs=(self.codes[out],)))
                late[out] = self._labels(op, out)
            else:
                made += [late.pop(n) for n in dict.fromkeys(reads(op)) if n in late]
                made.append(op)
        outputs = set(self.graph.outputs)
        return [*made, *(op for name, op in late.items() if name in outputs)]

    def _know(self, name: str, value: Array | None) -> bool:
        """Whether it is a table of strings, which is known from now on."""
        if value is None or value.dtype != object:
            return False
        place = self.codes[name] = self._fresh(name)
        self.tables[name] = tuple(value.flat)
        self.weights[place] = np.arange(value.size).reshape(value.shape)
        self.types[place] = TensorType(t.int64, value.shape)
        return True

    def _fresh(self, name: str) -> str:
        """A name for the places of a tensor's strings, unless the model has chosen it."""
        found = f"{name}/place"
        while found in self.taken:
            found += "'"
        self.taken.add(found)
        return found

    def _labels(self, op: Operation, out: str) -> Operation:
        attributes: dict[str, Any] = {"texts": self.tables[out]}
        named = replace(op, op_type=LABELS, domain=INTERNAL, since=1, attributes=attributes)
        return replace(named, inputs=(self.codes[out],), outputs=(out,))


def _constant(op: Operation) -> Array | None:
    """The strings that a Constant gives."""
    found = [op.attributes[n] for n in ("value_string", "value_strings") if n in op.attributes]
    if found:
        return np.array(found[0], object)
    value = op.attributes.get("value")
    return value if isinstance(value, np.ndarray) else None
