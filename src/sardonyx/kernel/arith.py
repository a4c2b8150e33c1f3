"""The arithmetic of the numerics contract on NumPy arrays: casts, fused multiply-add, integers.

Every function is exact as docs/numerics.md states it, whatever the CPU: no result depends on what
NumPy or the processor does on overflow, NaN or division by zero. Callers silence NumPy's warnings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sardonyx import types as t
from sardonyx.types import Array, DType

_QUIET = {
    t.float32: 0x7FC00000,
    t.float64: 0x7FF8000000000000,
    t.float16: 0x7E00,
    t.bfloat16: 0x7FC0,
    t.float8e8m0: 0xFF,
    **{d: d.format.nan for d in t.SMALL if d.format},
}
_ODD_BITS = np.int64(0x1FFFFFFF)  # what a float64 significand has beyond a float32's
_HALF = np.int64(0x10000000)


def canonical_nan(x: Array, dtype: DType) -> Array:
    """x with each NaN as the one quiet NaN of its type."""
    nan = np.isnan(x)
    if not nan.any():
        return x
    return np.where(nan, np.array(_QUIET[dtype], f"u{dtype.size}").view(dtype.numpy), x)


def cast(
    x: Array, source: DType, target: DType, saturate: bool = True, toward: str = "up"
) -> Array:
    """x in the target type: one rounding to nearest even, saturation into integers and floats of
    at most 8 bits. `saturate` is about the latter only, `toward` about float8e8m0."""
    if source.is_storage and source is not target:
        source, x = t.by_name(source.compute), _widened(x, source)
    if source is target:
        return x
    if target.kind == "b":
        return np.asarray(x != 0)
    if target.is_integer and target.is_storage:
        whole = _to_integer(x, t.int32) if source.is_float else x.astype(np.int64)
        return (whole & ((1 << target.bits) - 1)).astype(np.uint8).view(target.numpy)
    if source.is_float and target.is_integer:
        return _to_integer(x, target)
    if target.is_float and target.bits < 32:
        return _to_small_float(x, source, target, saturate, toward)
    return x.astype(target.numpy)


def _widened(x: Array, source: DType) -> Array:
    """Elements of a storage type in its compute type, exactly."""
    wide = x.astype(t.by_name(source.compute).numpy)
    return canonical_nan(wide, t.float32) if source.bits <= 8 and source.is_float else wide


def _to_integer(x: Array, target: DType) -> Array:
    low, high = float(target.min), float(target.max)  # high may round up: then it is out of range
    whole = np.trunc(x.astype(np.float64))
    above = whole >= high if float(target.max) != target.max else whole > high
    below, nan = whole < low, np.isnan(whole)
    safe = np.where(above | below | nan, 0.0, whole)
    out = safe.astype(target.numpy)
    out = np.where(above, np.array(target.max, target.numpy), out)
    return np.where(below, np.array(target.min, target.numpy), out)


def _to_small_float(x: Array, source: DType, target: DType, saturate: bool, toward: str) -> Array:
    """To a float below 32 bits with one rounding, by way of a float64 or float32 rounded to odd."""
    if source.is_integer:
        x = _sticky(x)
    elif source.kind == "b":
        x = x.astype(np.float64)
    if target is t.float16:
        return x.astype(np.float16)
    single = np.asarray(round_to_odd(x) if x.dtype == np.float64 else x.astype(np.float32))
    if target is t.float8e8m0:
        return _to_power(single, saturate, toward).view(target.numpy)
    if target.format is None:
        return single.astype(target.numpy)
    if saturate:
        top = float(np.array(target.format.top, np.uint8).view(target.numpy))
        single = np.clip(single, np.float32(-top), np.float32(top))
    return canonical_nan(_positive_nan(single).astype(target.numpy), target)


def _positive_nan(x: Array) -> Array:
    """x whose NaNs have no sign: where a type has no NaN, its sign would remain."""
    return np.where(np.isnan(x), np.float32(np.nan), x)


def _to_power(x: Array, saturate: bool, toward: str) -> Array:
    """The codes of float32 values as powers of two, float8e8m0 (numerics contract, section 7)."""
    bits = x.view(np.int32)
    exponent, fraction = bits >> 23, bits & 0x7FFFFF
    fraction = np.where(exponent == 0, (fraction << 1) & 0x7FFFFF, fraction)  # 2**-127 is subnormal
    least = {"up": 1, "nearest": 0x400000, "down": 0x800000}[toward]
    code = exponent + (fraction >= least)
    low, high = np.float32(2.0**-127), np.float32(2.0**127)
    code = np.where(x <= low, 0, np.where(x >= high, 254, code))
    missing = np.isnan(x) if saturate else ~((x >= low) & (x <= high))
    return np.where(missing, 255, code).astype(np.uint8)


def _sticky(x: Array) -> Array:
    """Integers as float64, keeping of what does not fit only that it was there."""
    if x.dtype.itemsize < 8:
        return x.astype(np.float64)
    low = x.dtype.type((1 << 12) - 1)
    kept = (x & ~low) | ((x & low) != 0).astype(x.dtype) * x.dtype.type(1 << 12)
    small = (x < (1 << 52)) & (x > -(1 << 52)) if x.dtype.kind == "i" else x < (1 << 52)
    return np.where(small, x.astype(np.float64), kept.astype(np.float64))


def round_to_odd(x: Array, error: Array | None = None) -> Array:
    """The float32 that rounding float64 values (plus an error below their last bit) to odd gives:
    rounding it again to a shorter type is as good as rounding once."""
    near = x.astype(np.float32)
    back = near.astype(np.float64)
    toward = np.where((back > x) == (x > 0), np.float32(0), np.copysign(np.float32(np.inf), near))
    inexact = (back != x) & np.isfinite(x)
    even = (near.view(np.int32) & 1) == 0
    return np.where(inexact & even, np.nextafter(near, toward), near)


def fma(a: Array, b: Array, c: Array) -> Array:
    """a * b + c in float32 with one rounding; in float64 multiplied, then added."""
    if c.dtype == np.float64 or a.dtype == np.float64:
        return np.asarray(a * b + c)
    return fma_terms(a.astype(np.float64), b.astype(np.float64), np.asarray(c, np.float32), True)


def fma_terms(a: Array, b: Array, c: Array, tiny: bool) -> Array:
    """float32(a * b + c) for float32 values a, b held as float64, and c in float32.

    The product is exact in float64. Rounding the float64 sum to float32 goes wrong only where that
    sum is inexact and lies halfway between two float32, or is subnormal in float32 (tiny=False
    promises that this cannot lose bits).
    """
    p = a * b
    s = np.asarray(p + c)
    doubtful = (s.view(np.int64) & _ODD_BITS) == _HALF
    if tiny:
        doubtful |= (np.abs(s) < 2.0**-125) & (s != 0)
    r = np.asarray(s.astype(np.float32))
    if doubtful.any():
        exact = np.broadcast_to(p, s.shape)[doubtful]
        added = np.broadcast_to(c, s.shape)[doubtful].astype(np.float64)
        r[doubtful] = _mend(exact, added, s[doubtful])
    return r


def _mend(p: Array, c: Array, s: Array) -> Array:
    """float32(p + c) with one rounding, s being float64(p + c)."""
    back = s - p
    error = (p - (s - back)) + (c - back)
    bits = s.view(np.int64)
    away = (error > 0) == (s > 0)
    step = np.where((error != 0) & np.isfinite(s) & ((bits & 1) == 0), np.where(away, 1, -1), 0)
    return (bits + step).view(np.float64).astype(np.float32)


def may_be_tiny(*operands: Array) -> bool:
    """Whether a product may have bits below the last place of the smallest float32."""
    for x in operands:
        magnitude = np.abs(x)
        if ((magnitude < 2.0**-51) & (magnitude != 0)).any():
            return True
    return False


def minimum(a: Array, b: Array) -> Array:
    """IEEE 754-2019 minimum: a NaN wins, -0 < +0."""
    if np.asarray(a).dtype.kind not in "f":
        return np.minimum(a, b)
    low = np.where((a < b) | ((a == b) & np.signbit(a)), a, b)
    return np.where(np.isnan(a), a, low)


def maximum(a: Array, b: Array) -> Array:
    """IEEE 754-2019 maximum: a NaN wins, -0 < +0."""
    if np.asarray(a).dtype.kind not in "f":
        return np.maximum(a, b)
    high = np.where((a > b) | ((a == b) & ~np.signbit(a)), a, b)
    return np.where(np.isnan(a), a, high)


def floor_divide(a: Array, b: Array) -> Array:
    """Towards minus infinity; by zero 0; the least integer by -1 wraps."""
    zero, minus = b == 0, (b == -1) & (b < 0)
    q = np.floor_divide(a, np.where(zero | minus, b.dtype.type(1), b))
    return np.where(zero, b.dtype.type(0), np.where(minus, negative(a), q))


def floor_modulo(a: Array, b: Array) -> Array:
    """a - floor_divide(a, b) * b: the sign of b; by zero the dividend."""
    return np.asarray(a - floor_divide(a, b) * b)


def truncate_divide(a: Array, b: Array) -> Array:
    """Towards zero; by zero 0; the least integer by -1 wraps."""
    q = floor_divide(a, b)
    rest = a - q * b
    up = (rest != 0) & ((rest < 0) != (a < 0)) & (b != 0)
    return np.asarray(q + up.astype(q.dtype))


def remainder(a: Array, b: Array) -> Array:
    """a - truncate(a / b) * b, exact: the sign of a. Integers by zero give the dividend."""
    if np.asarray(a).dtype.kind == "f":
        return np.fmod(a, b)
    return np.asarray(a - truncate_divide(a, b) * b)


def negative(a: Array) -> Array:
    """-a; unsigned integers wrap."""
    return np.negative(a)


def shift_left(a: Array, b: Array) -> Array:
    """a * 2**b, wrapped; 0 past the width."""
    past, count = _shift(a, b)
    return np.where(past, a.dtype.type(0), np.left_shift(a, count))


def shift_right(a: Array, b: Array) -> Array:
    """floor(a / 2**b): arithmetic on signed types; 0 or -1 past the width."""
    past, count = _shift(a, b)
    return np.where(past, np.where(a < 0, a - a - 1, a - a) if a.dtype.kind == "i" else a - a,
                    np.right_shift(a, count))  # fmt: skip


def _shift(a: Array, b: Array) -> tuple[Array, Array]:
    width = a.dtype.itemsize * 8
    past = (b < 0) | (b >= width)
    return past, np.where(past, b.dtype.type(0), b)


def reinterpret(a: Array, dtype: DType) -> Array:
    """The same bits as a type of the same width; a byte is true where it is not 0."""
    a = np.ascontiguousarray(a).reshape(np.shape(a))
    return a.view(np.uint8) != 0 if dtype is t.bool_ else a.view(dtype.numpy)


def pick(by: Array, *among: Array) -> Array:
    """Of eight values the one that the lowest three bits of `by` number; of a NaN any."""
    by = np.ascontiguousarray(by).reshape(np.shape(by))
    return np.choose(by.view(f"i{by.dtype.itemsize}") & 7, among)


MEANING: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "tdiv": truncate_divide,
    "idiv": floor_divide,
    "imod": floor_modulo,
    "fmod": remainder,
    "fma": fma,
    "neg": negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "min": minimum,
    "max": maximum,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "isnan": np.isnan,
    "signbit": np.signbit,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "not": np.invert,
    "shl": shift_left,
    "shr": shift_right,
    "pick": pick,
    "bits": reinterpret,
}
