"""Numbers from a seed, the same with every version of NumPy and on every machine: SplitMix64."""

from __future__ import annotations

import zlib

import numpy as np

from sardonyx import types as t
from sardonyx.types import Array, DType


def words(seed: str, count: int) -> Array:
    """uint64 numbers, evenly distributed."""
    start = np.uint64(zlib.crc32(seed.encode()) << 32)
    with np.errstate(over="ignore"):
        x = start + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def normal(seed: str, *shape: int) -> Array:
    """float32 of about a normal distribution: sums of four even ones. Every step is exact."""
    count = int(np.prod(shape))
    parts = (words(seed, 4 * count) >> np.uint64(44)).astype(np.int64).reshape(4, count).sum(0)
    return ((parts - (1 << 21)) / np.float64(1 << 19)).astype(np.float32).reshape(shape)


def positive(seed: str, *shape: int) -> Array:
    """float32 in (0.5, 1.5]."""
    count = int(np.prod(shape))
    steps = (words(seed, count) >> np.uint64(41)).astype(np.float64) + 1
    return (steps / (1 << 23) + 0.5).astype(np.float32).reshape(shape)


def integers(seed: str, low: int, high: int, *shape: int) -> Array:
    """int64 from low to high, which is not among them."""
    count = int(np.prod(shape))
    return (words(seed, count) % np.uint64(high - low)).astype(np.int64).reshape(shape) + low


def bit_patterns(seed: str, dtype: DType, *shape: int) -> Array:
    """Values of dtype whose bits are random: NaNs with payloads, subnormals, all magnitudes."""
    count = int(np.prod(shape))
    if dtype is t.bool_:
        return (words(seed, count) & np.uint64(1)).astype(np.bool_).reshape(shape)
    raw = words(seed, count).astype(f"u{dtype.size}")
    return raw.view(dtype.numpy).reshape(shape)


def delicate(seed: str, exponent: int, *shape: int) -> Array:
    """float32 near 2^exponent with twelve or thirteen significant bits: their products lie often
    midway between two float32, or are cut off at the least subnormal."""
    count = int(np.prod(shape))
    w = words(seed, count)
    significand = (w % np.uint64(1 << 13)).astype(np.float64) + (1 << 12)
    power = exponent - 12 + (w >> np.uint64(20)).astype(np.int64) % 3
    sign = 1.0 - 2.0 * (w >> np.uint64(63)).astype(np.float64)
    return np.ldexp(sign * significand, power).astype(np.float32).reshape(shape)


def values(seed: str, dtype: DType, *shape: int) -> Array:
    """Numbers of usual size: normal for floats, -9 to 9 for integers (0 to 18 unsigned)."""
    if dtype is t.bool_:
        return bit_patterns(seed, dtype, *shape)
    if dtype.is_integer:
        low = -9 if dtype.min < 0 else 0
        return integers(seed, low, low + 19, *shape).astype(dtype.numpy)
    return normal(seed, *shape).astype(dtype.numpy)
