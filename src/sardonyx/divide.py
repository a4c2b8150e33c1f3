"""Operations that are two: one whose size depends on data counts, then fills; a classifier with
names for its classes gives numbers, then the names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sardonyx.graph import Operation
from sardonyx.ops import registry
from sardonyx.ops.registry import INTERNAL, find, sized_by


def divided(operations: Sequence[Operation]) -> tuple[Operation, ...]:
    """Each operation whose sizes depend on data as two: one counts, the other fills. A classifier
    with names for its classes as two: one gives numbers, the other the names."""
    found: list[Operation] = []
    for op in operations:
        pair = sized_by(op.domain, op.op_type, op.since)
        texts = op.attributes.get("classlabels_strings")
        if texts and find(op.domain, op.op_type, op.since):
            found += _named(op, texts)
            continue
        if pair is None:
            found.append(op)
            continue
        count, fill = (registry.internal(name) for name in pair)
        inputs = registry.arity(count)
        work = registry.arity(fill) - inputs
        made = tuple(f"{op.outputs[0] or op.origin}/{count.name}.{i}" for i in range(work))
        padded = (*op.inputs, *[""] * (inputs - len(op.inputs)))
        internal = replace(op, domain=INTERNAL, since=1)
        found.append(replace(internal, op_type=count.name, outputs=made))
        found.append(replace(internal, op_type=fill.name, inputs=(*padded, *made)))
    return tuple(found)


def _named(op: Operation, texts: Sequence[str]) -> tuple[Operation, Operation]:
    """A classifier that gives the numbers of its classes, and what names them."""
    others = {a: v for a, v in op.attributes.items() if a != "classlabels_strings"}
    number = f"{op.outputs[0] or op.origin}/number"
    known = "classlabels_int64s" if op.op_type.startswith("Tree") else "classlabels_ints"
    numbers = {**others, known: tuple(range(len(texts)))}
    first = replace(op, attributes=numbers, outputs=(number, *op.outputs[1:]))
    internal = replace(op, domain=INTERNAL, since=1, op_type="Labels", attributes={"texts": texts})
    return first, replace(internal, inputs=(number,), outputs=op.outputs[:1])
