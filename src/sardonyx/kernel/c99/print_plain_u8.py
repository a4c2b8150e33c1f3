"""Sums of bytes that become bytes again while they are in registers, as print_plain.py does it of
float32: bias, the factor of each filter and the zero point, and a residual that is added as bytes.

    out = byte(float(sum + bias[lane]) * slope[lane], zero);  byte(x, z) = rint(x) + z, saturated
    out = byte((byte(.., z) - z) * factor + (rest - less) * other, zero)

Targets whose tiles do not (sx_target of product.h) have the function of print_finish.py do it.
"""

from __future__ import annotations

from sardonyx import types as t
from sardonyx.kernel.c99.contract import MOST_ROWS, Contraction
from sardonyx.kernel.c99.print_plain import Bytes, Place, Plain, is_read, place_of, rows_with
from sardonyx.kernel.c99.strips import rounded
from sardonyx.kernel.expr import Alu, Cast, Const, Expr, Load, cast

Term = tuple[Expr, Expr, Expr]  # a byte, its zero point as float32, its factor
NONE = Const(0.0, t.float32)


def plain_of_bytes(c: Contraction) -> Plain | None:
    """What becomes of the sums of c, where it has this form."""
    s = c.compute
    last = rounded(s.expr) if s.buffer.dtype is t.uint8 and c.fold.dtype is t.int32 else None
    if last is None:
        return None
    value, zero = last
    with_rest = _with_rest(value)
    rest, inner = None, None
    if with_rest is not None:
        value, load, inner = with_rest
        rest = place_of(load.buffer, load.index, c)
    found, out = _scaled(value, c), place_of(s.buffer, s.axes, c)
    if found is None or out is None or (with_rest is not None and rest is None):
        return None
    bias, slope = found
    steps = {x.block for x in (bias, slope) if x is not None and x.block != 0}
    rows = rows_with(c, out, rest)
    if len(rows) > MOST_ROWS or len(steps) > 1:
        return None
    about = Bytes(NONE if zero is None else zero, inner)
    return Plain(rows, out, bias, slope, rest, 0.0, 0.0, None, about)


def _scaled(value: Expr, c: Contraction) -> tuple[Place | None, Place] | None:
    """Where the bias is, if there is one, and the factor: of each lane, or one (no step)."""
    match value:
        case Alu("mul", (Cast(sums, t.float32), Load() as factor)):
            pass
        case Alu("mul", (Load() as factor, Cast(sums, t.float32))):
            pass
        case _:
            return None
    slope = _vector(factor, c)
    if slope is None or factor.dtype is not t.float32:
        return None
    if sums is c.fold:
        return None, slope
    match sums:
        case Alu("add", (x, Load() as bias)) | Alu("add", (Load() as bias, x)) if x is c.fold:
            place = _vector(bias, c)
            return (place, slope) if place is not None and place.block != 0 else None
    return None


def _vector(x: Load, c: Contraction) -> Place | None:
    """Where lanes have their values, the same for all rows; with no step where they have one."""
    if not is_read(x):
        return None
    if not x.index:
        return Place(x.buffer, 0, (), (0,) * len(c.m), 0)
    place = place_of(x.buffer, x.index, c)
    return place if place is not None and place.is_vector and place.block != 0 else None


def _with_rest(value: Expr) -> tuple[Expr, Load, tuple[Expr, Expr, Expr, Expr]] | None:
    """What the own byte is rounded from, the load of the other, and the numbers of Bytes.inner."""
    if not isinstance(value, Alu) or value.op != "add":
        return None
    terms = [_term(x) for x in value.args]
    for own, other in (terms, terms[::-1]):
        byte = None if own is None else rounded(own[0])
        if own is None or other is None or byte is None or not isinstance(other[0], Load):
            continue
        same = _same(own[1], NONE if byte[1] is None else byte[1])
        if same and is_read(other[0]) and other[0].dtype is t.uint8:
            return byte[0], other[0], (own[1], own[2], other[2], other[1])
    return None


def _term(e: Expr) -> Term | None:
    """A byte less its zero point, times a number."""
    match e:
        case Alu("mul", (Cast(x, t.float32), Load(_, ()) as factor)) if is_read(factor):
            pass
        case Alu("mul", (Load(_, ()) as factor, Cast(x, t.float32))) if is_read(factor):
            pass
        case _:
            return None
    match x:
        case Alu("sub", (Cast(byte), Cast(Load(z, (), "proven") as zero))) if z.dtype is t.uint8:
            return (byte, cast(zero, t.float32), factor) if byte.dtype is t.uint8 else None
        case Cast(byte) if byte.dtype is t.uint8:
            return byte, NONE, factor
    return (x, NONE, factor) if x.dtype is t.uint8 else None


def _same(a: Expr, b: Expr) -> bool:
    """Whether both are the same zero point as a float."""
    match a, b:
        case Cast(Load(x, ())), Cast(Load(y, ())):
            return x is y
    return a is b
