"""Bytes that a table has for bytes, as passes/tables.py makes them: a call for each row.

for rows: sx_look_up(&out[..], &in[..], table, elements of the row, flip)
"""

from __future__ import annotations

from dataclasses import dataclass

from sardonyx import types as t
from sardonyx.kernel.affine import coefficient, position
from sardonyx.kernel.c99.write import Writer, bare, evaluate
from sardonyx.kernel.expr import Alu, Axis, Buffer, Cast, Const, Expr, Load
from sardonyx.kernel.ir import Compute

BYTES = 256
LEAST = 16  # elements of a row that is worth a call
SIGN = 128  # int8 as the place in a table, without its sign


@dataclass(frozen=True, slots=True)
class LookUp:
    """The table, the bytes that choose, the axis along which they are neighbours, and what turns
    such a byte into a place."""

    table: Buffer
    x: Load
    axis: Axis
    flip: int


def look_up_of(s: Compute) -> LookUp | None:
    """s as such a call, if it is one."""
    axis = next((a for a in reversed(s.axes) if a.extent != 1), None)
    match s.expr:
        case Load(table, (index,), "proven", None) if table.shape == (BYTES,):
            x, flip = _chosen(index)
        case _:
            return None
    if axis is None or x is None or (isinstance(axis.extent, int) and axis.extent < LEAST):
        return None
    kinds = {table.dtype, s.buffer.dtype, x.dtype}
    rows = (position(i, tuple(b.shape)) for i, b in ((s.axes, s.buffer), (x.index, x.buffer)))
    along = all(row is not None and coefficient(row, axis) == 1 for row in rows)
    return LookUp(table, x, axis, flip) if along and kinds <= {t.uint8, t.int8} else None


def _chosen(index: Expr) -> tuple[Load | None, int]:
    """The byte whose place in the table the index is, and what turns it into that."""
    match index:
        case Cast(Load(_, _, "proven", None) as x, t.int64) if x.dtype is t.uint8:
            return x, 0
        case Alu("add", (Cast(Load(_, _, "proven", None) as x), Const(128)), t.int64):
            return (x, SIGN) if x.dtype is t.int8 else (None, 0)
    return None, 0


def print_look_up(found: LookUp, s: Compute, names: Writer) -> list[str]:
    """The calls for all rows of s."""
    heads = [names.loop(a) for a in s.axes if a is not found.axis]
    start, n = names.span(found.axis)
    names.given[found.axis] = start
    before, index = evaluate(names, list(found.x.index))
    to = names.element(s.buffer, [names.given[a] for a in s.axes])
    x = names.element(found.x.buffer, [bare(i) for i in index])
    table = names.element(found.table, ["0"])
    count = n if start == "0" else f"{n} - {start}"
    first = f"(uint8_t *)(void *)&{to}, (const uint8_t *)(const void *)&{x}"
    last = f"(const uint8_t *)(const void *)&{table}, {count}, {found.flip}"
    return [*heads, *before, f"sx_look_up({first}, {last});", *["}"] * len(heads)]
