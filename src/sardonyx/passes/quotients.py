"""A quantised sum of two bytes without a division, where that gives the same bytes.

    round((a * sa + b * sb) / y) + z   ->   round(a * c + b * d) + z

a and b are differences of bytes, so that each takes 256 values: factors next to sa / y and sb / y
are tried on all 65536 pairs, and taken where every byte is the same. Else the quotient stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from sardonyx import types as t
from sardonyx.kernel.expr import Alu, Buffer, Cast, Const, Expr, Load, alu
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import walk
from sardonyx.passes.known import Known, with_known
from sardonyx.passes.program import Program
from sardonyx.types import Array, DType

BYTES = (t.uint8, t.int8)
AROUND = 2  # steps from the rounded quotient of two scales


@dataclass(frozen=True, slots=True, eq=False)
class _Sum:
    """byte = saturated round((a * sa + b * sb) / y) + zero. quotient: the node of the division;
    values: all those of a and of b; scales: sa, sb, y."""

    quotient: Alu
    a: Expr
    b: Expr
    values: tuple[Array, Array]
    scales: tuple[np.float32, np.float32, np.float32]
    zero: np.float32
    ends: tuple[int, int]


def without_quotients(program: Program) -> Program:
    """The program with such sums as two products."""
    return with_known(program, _statement)


def _statement(s: Compute, known: Known, own: dict[Buffer, Array]) -> Compute:
    given: dict[Expr, Expr] = {}
    for found in _sums(s.expr, known):
        factors = _factors(found)
        if factors is None:
            continue
        terms = []
        for x, factor in zip((found.a, found.b), factors, strict=True):
            b = Buffer(f"factor{len(own)}", t.float32, ())
            own[b] = np.array(factor)
            terms.append(alu("mul", x, Load(b, ())))
        given[found.quotient] = alu("add", *terms)
    return replace(s, expr=rewrite(s.expr, given)) if given else s


def _sums(root: Expr, known: Known) -> Iterator[_Sum]:
    """The quantised sums below root."""
    for e in walk(root):
        match e:
            case Cast(Alu("add", (Alu("rint", (Alu("div") as quotient,)), zero)), dtype, True):
                found = _sum(quotient, zero, dtype, known)
            case Cast(Alu("rint", (Alu("div") as quotient,)), dtype, True):
                found = _sum(quotient, Const(0.0, t.float32), dtype, known)
            case _:
                found = None
        if found is not None:
            yield found


def _sum(quotient: Alu, zero: Expr, dtype: DType, known: Known) -> _Sum | None:
    match quotient.args:
        case Alu("add", (Alu("mul", (a, sa)), Alu("mul", (b, sb)))), y:
            one, two = _differences(a, known), _differences(b, known)
            found = [number_of(x, known) for x in (sa, sb, y, zero)]
        case _:
            return None
    numbers = [np.float32(x) for x in found if x is not None]
    if one is None or two is None or len(numbers) != len(found) or dtype not in BYTES:
        return None
    scales, ends = (numbers[0], numbers[1], numbers[2]), (int(dtype.min), int(dtype.max))
    return _Sum(quotient, a, b, (one, two), scales, numbers[3], ends)


def _differences(e: Expr, known: Known) -> Array | None:
    """Every value of a byte less a known one, as a float; None where e is not that."""
    match e:
        case Cast(Alu("sub", (Cast(x), Cast() as z), t.int32), t.float32):
            zero = number_of(z, known)
        case Cast(x, t.float32):
            zero = 0.0
        case _:
            return None
    if x.dtype not in BYTES or zero is None:
        return None
    every = np.arange(int(x.dtype.min), int(x.dtype.max) + 1)
    return (every - int(zero)).astype(np.float32)


def number_of(e: Expr, known: Known) -> float | None:
    """The value of a constant, or of a known tensor of one element."""
    match e:
        case Const(value, _):
            return float(value)
        case Cast(x, dtype) if dtype in (t.float32, t.int32) and x.dtype.bits <= dtype.bits:
            return number_of(x, known)
        case Load(b, _, "proven") if b.root in known and known[b.root].size == 1:
            return float(known[b.root].reshape(-1)[0])
    return None


def _factors(found: _Sum) -> tuple[np.float32, np.float32] | None:
    """Two factors that give every byte that the quotient gives."""
    a, b = found.values[0][:, None], found.values[1][None]
    sa, sb, y = found.scales
    if not all(np.isfinite(x) and x > 0 for x in found.scales):
        return None

    def byte(x: Array) -> Array:
        return np.clip(np.rint(x) + found.zero, *found.ends)

    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        expected = (a * sa + b * sb) / y
        if not np.isfinite(expected).all():
            return None
        wanted = byte(expected)
        for c in _near(sa / y):
            for d in _near(sb / y):
                if np.array_equal(byte(a * c + b * d), wanted):
                    return c, d
    return None


def _near(x: np.float32) -> list[np.float32]:
    """A float and its neighbours, the nearest first."""
    found, above, below = [x], x, x
    for _ in range(AROUND):
        above = np.nextafter(above, np.float32(np.inf))
        below = np.nextafter(below, np.float32(0))
        found += [above, below]
    return found
