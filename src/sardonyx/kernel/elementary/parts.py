"""What the elementary functions are made of: formats, bits, exact sums and products.

No result depends on whether a fused multiply-add rounds once: `mad` is used only where either way
is accurate enough, so that the bounds hold with numerics="unfused" too. A pair (h, l) of Exprs is
the unevaluated sum h + l, with l at most about half a unit in the last place of h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sardonyx import types as t
from sardonyx.errors import InternalError
from sardonyx.kernel.elementary.coefficients import TABLE
from sardonyx.kernel.expr import Const, Expr, alu, const, where, widen
from sardonyx.types import DType

Pair: TypeAlias = tuple[Expr, Expr]


@dataclass(frozen=True, slots=True)
class Format:
    """A compute type and the constants that its arithmetic needs.

    digits: stored bits of the significand. bias: of the exponent. sign, root: bit patterns of -0
    and of sqrt(1/2). high: mask that keeps the upper half of a significand. ln2: log(2) in two
    parts, products of the first with a binary exponent being exact; ln2_pair: as a pair. tiny: the
    least normal number. half_pi: pi/2 as a pair.
    """

    dtype: DType
    integer: DType
    row: int
    digits: int
    bias: int
    sign: int
    root: int
    high: int
    ln2: tuple[float, float]
    ln2_pair: tuple[float, float]
    tiny: float
    half_pi: tuple[float, float]
    log2e: float


_SINGLE = Format(
    t.float32, t.int32, 0, 23, 127, -(1 << 31), 0x3F3504F3, ~0xFFF,
    (0.693359375, -0.00021219444005469057), (0.6931471824645996, -1.904654299957768e-09),
    2.0**-126,
    (1.5707963705062866, -4.371138828673793e-08), 1.4426950408889634,
)  # fmt: skip
_DOUBLE = Format(
    t.float64, t.int64, 1, 52, 1023, -(1 << 63), 0x3FE6A09E667F3BCD, ~0x7FFFFFF,
    (0.6931471805598903, 5.497923018708371e-14), (0.6931471805599453, 2.3190468138462996e-17),
    2.0**-1022,
    (1.5707963267948966, 6.123233995736766e-17), 1.4426950408889634,
)  # fmt: skip


def format_of(x: Expr) -> Format:
    """The format of a float32 or float64 expression."""
    if x.dtype is t.float32:
        return _SINGLE
    if x.dtype is t.float64:
        return _DOUBLE
    raise InternalError(f"elementary functions take floats, not {x.dtype}")


def argument(x: Expr) -> tuple[Expr, Format]:
    """x in its compute type, and the format of that."""
    x = widen(x)
    return x, format_of(x)


def number(value: float, f: Format) -> Const:
    return const(value, f.dtype)


def below_infinity(x: Expr) -> Expr:
    """Whether x is neither +infinity nor a NaN."""
    return x <= (2.0 - 2.0 ** -format_of(x).digits) * 2.0 ** format_of(x).bias


def infinity(f: Format) -> Const:
    return const(float("inf"), f.dtype)


def minus_infinity(f: Format) -> Const:
    return const(float("-inf"), f.dtype)


def nan(f: Format) -> Const:
    return const(float("nan"), f.dtype)


def mad(a: Expr, b: Expr | float, c: Expr | float) -> Expr:
    """a * b + c, rounded once or twice."""
    return alu("fma", a, b, c) if a.dtype is t.float32 else a * b + c


def horner(x: Expr, coefficients: Sequence[float]) -> Expr:
    """The polynomial with these coefficients, lowest first."""
    total: Expr = const(coefficients[-1], x.dtype)
    for c in reversed(coefficients[:-1]):
        total = mad(total, x, c)
    return total


def paired(x: Expr, square: Expr, coefficients: Sequence[float]) -> Expr:
    """The same polynomial by pairs of terms: a chain of about half the length. square is x * x."""
    pairs = [
        mad(const(c[1], x.dtype), x, c[0]) if c[1:] else const(c[0], x.dtype)
        for c in (coefficients[i : i + 2] for i in range(0, len(coefficients), 2))
    ]
    total: Expr = pairs[-1]
    for p in reversed(pairs[:-1]):
        total = mad(total, square, p)
    return total


def tail(name: str, x: Expr) -> Expr:
    """The polynomial called `name` in coefficients.TABLE, at x."""
    return horner(x, TABLE[name][format_of(x).row])


def bits(x: Expr) -> Expr:
    return alu("bits", x)


def magnitude(x: Expr) -> Expr:
    return alu("abs", x)


def pick(by: Expr, among: Sequence[float]) -> Expr:
    """Of eight numbers the one that the lowest three bits of `by` number."""
    return alu("pick", by, *among)


def with_sign(x: Expr, like: Expr) -> Expr:
    """x, which is not negative, with the sign bit of `like`."""
    return bits(bits(x) | (bits(like) & format_of(x).sign))


def flip(x: Expr, like: Expr) -> Expr:
    """x, negated where the sign bit of `like` is set."""
    return bits(bits(x) ^ (bits(like) & format_of(x).sign))


def at_most(x: Expr, bound: float) -> Expr:
    """The lesser of the two; a NaN stays."""
    limit = const(bound, x.dtype)
    return where(limit < x, limit, x)


def at_least(x: Expr, bound: float) -> Expr:
    """The greater of the two; a NaN stays."""
    limit = const(bound, x.dtype)
    return where(x < limit, limit, x)


def upper(x: Expr) -> Expr:
    """x cut to the upper half of its significand; products of two such are exact."""
    return bits(bits(x) & format_of(x).high)


def split(x: Expr) -> Pair:
    """x as the sum of two halves of its significand."""
    h = upper(x)
    return h, x - h


def fast_sum(a: Expr, b: Expr) -> Pair:
    """a + b exactly, where |a| >= |b| or a is 0."""
    s = a + b
    return s, b - (s - a)


def exact_sum(a: Expr, b: Expr) -> Pair:
    """a + b exactly."""
    s = a + b
    back = s - a
    return s, (a - (s - back)) + (b - back)


def exact_product(a: Expr, b: Expr) -> Pair:
    """a * b exactly (in float64 to within 2^-106 of it)."""
    p = a * b
    (ah, al), (bh, bl) = split(a), split(b)
    return p, al * bl - (((p - ah * bh) - al * bh) - ah * bl)


def product(a: Pair, b: Pair) -> Pair:
    """The product of two pairs, to about twice the precision."""
    high, low = exact_product(a[0], b[0])
    return fast_sum(high, low + (a[0] * b[1] + a[1] * b[0]))


def quotient(n: Pair, d: Pair) -> Pair:
    """n / d as an upper half and the rest, whose sum is the quotient to about 1.5 precisions."""
    inverse = 1.0 / d[0]
    q = upper(n[0] * inverse)
    dh, dl = split(d[0])
    rest = ((n[0] - q * dh) - q * dl) + (n[1] - q * d[1])
    return q, rest * inverse


def root(x: Pair) -> Pair:
    """The square root of a positive pair as an upper half and the rest."""
    s = alu("sqrt", x[0])
    h = upper(s)
    return h, ((x[0] - h * h) + x[1]) / (s + h)


def pair(value: tuple[float, float], f: Format) -> Pair:
    return number(value[0], f), number(value[1], f)


def as_float(k: Expr, f: Format) -> Expr:
    """A small integer expression as a float, by addition: compilers vectorise it."""
    magic = 1.5 * 2.0**f.digits
    pattern = ((f.bias + f.digits) << f.digits) + (1 << (f.digits - 1))
    return bits(k + pattern) - magic
