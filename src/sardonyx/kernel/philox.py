"""Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random
numbers: as easy as 1, 2, 3" (SC 2011), in the kernel IR, and numbers made of its words."""

from __future__ import annotations

from collections.abc import Sequence
from math import pi

from sardonyx import types as t
from sardonyx.kernel import elementary as fn
from sardonyx.kernel.expr import Expr, alu, cast, lift
from sardonyx.types import DType

ROUNDS = 10
MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
WEYL = 0x9E3779B9, 0xBB67AE85
MASK = 0xFFFFFFFF


def philox(counter: Sequence[Expr], key: int) -> tuple[Expr, ...]:
    """The four uint32 words of a block, for a counter of four uint32 and a key of 64 bits."""
    a, b, c, d = counter
    k0, k1 = key & MASK, key >> 32 & MASK
    for _ in range(ROUNDS):
        high_a, low_a = _product(a, MULTIPLIERS[0])
        high_c, low_c = _product(c, MULTIPLIERS[1])
        a, b, c, d = high_c ^ b ^ k0, low_c, high_a ^ d ^ k1, low_a
        k0, k1 = (k0 + WEYL[0]) & MASK, (k1 + WEYL[1]) & MASK
    return a, b, c, d


def _product(x: Expr, by: int) -> tuple[Expr, Expr]:
    """The high and the low word of a product of uint32."""
    product = cast(x, t.uint64) * by
    return cast(product >> 32, t.uint32), cast(product, t.uint32)


def block(position: Expr, key: int) -> tuple[Expr, ...]:
    """The words that belong to the element at a position (int64)."""
    zero = lift(0, t.uint32)
    return philox((cast(position, t.uint32), cast(position >> 32, t.uint32), zero, zero), key)


def uniform(words: Sequence[Expr], dtype: DType) -> Expr:
    """A float in [0, 1): 24 bits of one word for float32, 53 bits of two for float64."""
    if dtype is t.float64:
        high, low = cast(words[0] >> 5, dtype), cast(words[1] >> 6, dtype)
        return (high * 2.0**26 + low) * 2.0**-53
    return cast(words[0] >> 8, t.float32) * 2.0**-24


def normal(words: Sequence[Expr], dtype: DType) -> Expr:
    """A float of the standard normal distribution, by Box and Muller's cosine:
    sqrt(-2 * log(1 - u)) * cos(2 * pi * v) with u and v of one word each (float64: two)."""
    half = 2 if dtype is t.float64 else 1
    u, v = uniform(words[:half], dtype), uniform(words[half:], dtype)
    return alu("sqrt", fn.log(1 - u) * -2.0) * fn.cos(v * (2 * pi))
