"""What stands for integers already is not quantised for the same integers again.

    x = (q - z) * s, moved;   y = (saturate(round(x / s) + z) - z) * s   =>   y = x

Quantisers write such pairs around each operator that only moves elements. Integers of 8 bits move
by themselves (resolve/islands.py); those of 16 are floats between operators that take floats, and
are left so. Of at most 16 bits, x / s is off by less than 2^-7, and rounds to q - z.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from sardonyx import types as t
from sardonyx.dims import at_least
from sardonyx.kernel.expr import Alu, Buffer, Cast, Const, Expr, Fold, Load, Where
from sardonyx.kernel.ir import Compute
from sardonyx.passes.constants import drop_unused
from sardonyx.passes.known import Known, known_to
from sardonyx.passes.program import Program
from sardonyx.passes.quotients import number_of
from sardonyx.types import DType

LEAST, MOST = 2.0**-100, 2.0**100  # scales whose products and quotients are normal numbers


@dataclass(frozen=True, slots=True)
class _Grid:
    """The numbers (q - zero) * scale of the integers q of a type."""

    dtype: DType
    scale: float
    zero: float


def leave_rounded(program: Program) -> Program:
    """The program without such pairs."""
    grids: dict[str, _Grid] = {}  # what the elements of a tensor stand for
    quantised: dict[str, tuple[str, _Grid]] = {}  # what integers are made of, and as which
    same: dict[str, str] = {}
    fixed = {*program.outputs, *program.joined}
    launches = []
    for launch in program.launches:
        reads = tuple(n and same.get(n, n) for n in launch.reads)
        launches.append(replace(launch, reads=reads))
        known = known_to(launch, program.weights)
        names = {b: n for n, b in zip(reads, launch.kernel.inputs, strict=True) if n and b}
        written = dict(zip(launch.kernel.outputs, launch.writes, strict=True))
        for s in launch.kernel.body:
            if not isinstance(s, Compute) or s.buffer.root not in written:
                continue
            write = written[s.buffer.root]
            match _numbers(s, known):
                case Load(b), grid if b in names:
                    x, as_ = quantised.get(names[b], ("", None))
                    if as_ == grid and grids.get(x) == grid and write not in fixed:
                        same[write] = x
                    grids[write] = grid
            match _integers(s, known):
                case Load(b), grid if b in names:
                    quantised[write] = names[b], grid
            moved = _moved(s.expr, {b: grids[n] for b, n in names.items() if n in grids})
            if moved is not None:
                grids[write] = moved
    return drop_unused(replace(program, launches=tuple(launches)))


def _numbers(s: Compute, known: Known) -> tuple[Load, _Grid] | None:
    """The integers that s makes numbers of, at their places."""
    zero: Expr = Const(0, t.int32)
    match s.expr:
        case Alu("mul", (Cast(Alu("sub", (Cast(Load() as x), Cast() as zero), t.int32)), scale)):
            pass
        case Alu("mul", (Cast(Cast(Load() as x, t.int32), t.float32), scale)):
            pass
        case _:
            return None
    return _at(s, x, x.dtype, scale, zero, known)


def _integers(s: Compute, known: Known) -> tuple[Load, _Grid] | None:
    """The numbers that s makes integers of, at their places."""
    zero: Expr = Const(0.0, t.float32)
    match s.expr:
        case Cast(Alu("add", (Alu("rint", (quotient,)), zero)), dtype, True):
            pass
        case Cast(Alu("rint", (quotient,)), dtype, True):
            pass
        case _:
            return None
    match quotient:
        case Alu("div", (Load() as x, scale), t.float32):
            return _at(s, x, dtype, scale, zero, known)
    return None


def _at(
    s: Compute, x: Load, dtype: DType, scale: Expr, zero: Expr, known: Known
) -> tuple[Load, _Grid] | None:
    """x, if it is at the place that s writes, and its grid, if one scale is known."""
    step, shift = number_of(scale, known), number_of(zero, known)
    if step is None or shift is None or not LEAST < step < MOST:
        return None
    plain = dtype.is_integer and dtype.bits <= 16 and s.expr.dtype in (t.float32, dtype)
    there = x.index == s.axes and x.buffer.shape == s.buffer.shape and x.mode == "proven"
    return (x, _Grid(dtype, step, shift)) if plain and there else None


def _moved(e: Expr, grids: Mapping[Buffer, _Grid]) -> _Grid | None:
    """The grid of an element of another tensor, or of one of several of the same grid, or 0."""
    found = set[_Grid | None]()
    todo = [e]
    while todo:
        match todo.pop():
            case Load(b, _, _, default):
                found.add(grids.get(b.root))
                todo += () if default is None else (default,)
            case Const(value, t.float32) if value == 0 and not np.signbit(value):
                pass
            case Where(_, a, b) | Alu("max" | "min", (a, b)):
                todo += (a, b)
            case Fold("max" | "min", axes, (x,), None) if all(at_least(a.extent, 1) for a in axes):
                todo.append(x)
            case _:
                return None
    return found.pop() if len(found) == 1 else None
