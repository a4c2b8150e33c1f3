"""BitCast: the bits of each element under another type of the same width.

float32 and float64 keep every bit. The 16-bit floats are computed in float32, so that their bits
are taken apart and put together as numbers; a NaN among them becomes the canonical one.
"""

from __future__ import annotations

from sardonyx import types as t
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Expr, alu, cast, lift, where, widen
from sardonyx.ops.common import need_dtype
from sardonyx.ops.registry import operator
from sardonyx.types import DType

FRACTION, BIAS = 10, 127 - 15  # of float16, against float32


@operator("BitCast", 26)
def bit_cast(k: Builder, x: Tensor, *, to: int) -> Tensor:
    """A byte cast to bool is false where it is 0, else true."""
    dtype = need_dtype(to)
    if dtype.bits != x.dtype.bits:
        raise InvalidModel(f"BitCast keeps the width of an element: {x.dtype} to {dtype}")
    if dtype is x.dtype:
        return x
    return k.compute(x.shape, lambda *i: _from_bits(_bits(x[i], dtype), dtype), dtype)


def _bits(e: Expr, to: DType) -> Expr:
    """The bits of e as an integer; integers and bool stay what they are."""
    match e.dtype:
        case t.float16:
            return _bits_of_half(e)
        case t.bfloat16:
            return where(alu("isnan", e), 0x7FC0, alu("bits", widen(e)) >> 16)
    return alu("bits", e) if e.dtype.is_float else e


def _from_bits(e: Expr, to: DType) -> Expr:
    """The element of type `to` with the bits of the integer e."""
    match to:
        case t.float16:
            return _half(cast(e, t.int32))
        case t.bfloat16:
            return cast(alu("bits", cast(e, t.int32) << 16), to)
    return alu("bits", e) if to.is_float else cast(e, to)


def _bits_of_half(e: Expr) -> Expr:
    """The 16 bits of a float16 as an int32: those of float32, rebiased."""
    wide = alu("bits", widen(e))
    size, sign = alu("abs", e), (wide >> 16) & 0x8000
    normal = ((wide & 0x7FFFFFFF) >> (23 - FRACTION)) - (BIAS << FRACTION)
    small = cast(size * 2.0**24, t.int32)  # of a subnormal: a whole number of the least ones
    finite = where(size < 2.0**-14, small, where(size.eq(float("inf")), 0x7C00, normal))
    return where(alu("isnan", e), 0x7E00, sign | finite)


def _half(e: Expr) -> Expr:
    """The float16 whose bits are the low 16 of an int32."""
    exponent, fraction = (e >> FRACTION) & 31, e & 0x3FF
    normal = alu("bits", ((e & 0x7FFF) << (23 - FRACTION)) + (BIAS << 23))
    special = where(fraction.eq(0), lift(float("inf"), t.float32), float("nan"))
    small = cast(fraction, t.float32) * 2.0**-24
    size = where(exponent.eq(0), small, where(exponent.eq(31), special, normal))
    return cast(where((e & 0x8000).eq(0), size, -size), t.float16)
