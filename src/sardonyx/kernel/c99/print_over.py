"""Rows that one number divides: a division occupies its unit, so that where vectors are wide its
reciprocal takes the place, and what is left is mended (quotients.h).

    for (i..) sx_over_f32(&out[i, 0], &in[i, 0], by[i], n);
"""

from __future__ import annotations

from dataclasses import dataclass

from sardonyx import types as t
from sardonyx.dims import at_least
from sardonyx.kernel.c99.strips import is_along
from sardonyx.kernel.c99.write import Writer, bare, evaluate
from sardonyx.kernel.expr import Alu, Load
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.walk import free_axes

LEAST = 64  # elements of a row that is worth a call


@dataclass(frozen=True, slots=True, eq=False)
class Over:
    """x / by, rows along the last axis; by is the same in each row."""

    x: Load
    by: Load


def over_of(s: Compute) -> Over | None:
    """What s divides by what, where that is all that it does."""
    match s.expr:
        case Alu("div", (Load(mode="proven") as x, Load(mode="proven") as by), t.float32):
            axis = s.axes[-1] if s.axes else None
            if axis is None or axis in free_axes(by)[id(by)] or not at_least(axis.extent, LEAST):
                return None
            lie = is_along(x.index, x.buffer.shape, axis) and x.dtype is by.dtype is t.float32
            return Over(x, by) if lie and is_along(s.axes, s.buffer.shape, axis) else None
    return None


def print_over(s: Compute, over: Over, names: Writer) -> list[str]:
    """The loops over rows, and the call for each."""
    heads, axis = [names.loop(a) for a in s.axes[:-1]], s.axes[-1]
    start, end = names.span(axis)
    names.given[axis] = start
    before, (divisor, *index) = evaluate(names, [over.by, *over.x.index])
    source = names.element(over.x.buffer, [bare(i) for i in index])
    target = names.element(s.buffer, [names.given[a] for a in s.axes])
    count = end if start == "0" else f"{end} - {start}"
    call = f"sx_over_f32(&{target}, &{source}, {bare(divisor)}, {count});"
    return [*heads, "{", *before, call, "}", *["}"] * len(heads)]
