"""log and its kin: x = 2**k (1 + f), log(1 + f) by way of s = f / (2 + f)."""

from __future__ import annotations

from sardonyx.kernel.elementary.exp import limits, long, one_more
from sardonyx.kernel.elementary.parts import (
    Format,
    Pair,
    argument,
    as_float,
    at_least,
    below_infinity,
    bits,
    exact_sum,
    fast_sum,
    format_of,
    mad,
    magnitude,
    minus_infinity,
    nan,
    number,
    product,
    tail,
)
from sardonyx.kernel.expr import Expr, where


def decompose(x: Expr, f: Format) -> tuple[Expr, Expr]:
    """k and m with x = 2**k m, m in [sqrt(1/2), sqrt(2)), for a positive normal x."""
    pattern = bits(x)
    k = (pattern - f.root) >> f.digits
    return k, bits(pattern - (k << f.digits))


def normal(x: Expr, f: Format) -> tuple[Expr, Expr]:
    """x scaled up where it is subnormal, and what to add to its exponent for that."""
    small = x < f.tiny
    shift = f.digits + 2
    extra = where(small, number(-float(shift), f), number(0.0, f))
    return where(small, x * 2.0**shift, x), extra


def _series(r: Expr, below: Expr | None = None) -> Expr:
    """log(1 + r + below) - r for |r| <= 0.415."""
    half = 0.5 * r * r
    s = r / (r + 2.0)
    z = s * s
    rest = s * (half + 2.0 * (z * tail("log", z)))
    if below is not None:
        rest = rest + mad(-below, r, below)
    return rest - half


def of_pair(x: Pair, extra: Expr) -> Pair:
    """log(x) + extra * log(2) for a positive normal pair."""
    f = format_of(x[0])
    k, m = decompose(x[0], f)
    low_k = where(k < 60, k, 60)
    unit = bits((f.bias - low_k) << f.digits)
    r, below = fast_sum(m - 1.0, x[1] * unit)
    n = as_float(k, f) + extra
    high, low = fast_sum(n * f.ln2[0], r)
    return high, low + mad(n, f.ln2[1], _series(r, below))


def of_single(x: Expr, extra: Expr) -> Pair:
    """log(x) + extra * log(2) for a positive normal x."""
    f = format_of(x)
    k, m = decompose(x, f)
    r = m - 1.0
    n = as_float(k, f) + extra
    high, low = fast_sum(n * f.ln2[0], r)
    return high, low + mad(n, f.ln2[1], _series(r))


def _ends(x: Expr, value: Expr, f: Format) -> Expr:
    """value, and the logarithms of 0, negative numbers, infinity and NaN."""
    edge = where(x.eq(0.0), minus_infinity(f), where(x < 0.0, nan(f), x))
    return where((x > 0.0) & (below_infinity(x)), value, edge)


def log(x: Expr) -> Expr:
    """The natural logarithm."""
    x, f = argument(x)
    high, low = of_single(*normal(x, f))
    return _ends(x, high + low, f)


def log2(x: Expr) -> Expr:
    """The logarithm to base 2."""
    x, f = argument(x)
    scaled, extra = normal(x, f)
    k, m = decompose(scaled, f)
    r = m - 1.0
    ratio = ((1.4426950216293335, 1.925963033500011e-08),
             (1.4426950408889634, 2.0355273740931033e-17))[f.row]  # fmt: skip
    high, low = product(fast_sum(r, _series(r)), (number(ratio[0], f), number(ratio[1], f)))
    total, rest = fast_sum(as_float(k, f) + extra, high)
    return _ends(x, total + (rest + low), f)


def log1p(x: Expr) -> Expr:
    """log(1 + x), accurate near 0."""
    x, f = argument(x)
    u = exact_sum(number(1.0, f), x)
    high, low = of_pair(u, number(0.0, f))
    value = where(magnitude(x) < 2.0 ** -(f.digits + 2), x, high + low)
    edge = where(x.eq(-1.0), minus_infinity(f), where(x < -1.0, nan(f), x))
    return where((x > -1.0) & (below_infinity(x)), value, edge)


def softplus(x: Expr) -> Expr:
    """log(1 + e**x) = max(x, 0) + log1p(exp(-|x|))."""
    x, f = argument(x)
    y, power = long(at_least(-magnitude(x), limits(f)[0]))
    e = one_more(y)
    scaled = power.times(e[0] + e[1])
    high, low = exact_sum(number(1.0, f), power.times(e[0]))
    high, low = of_pair((high, low + power.times(e[1])), number(0.0, f))
    small = scaled < 2.0 ** -(f.digits + 4)
    high, low = where(small, scaled, high), where(small, number(0.0, f), low)
    total, rest = exact_sum(where(x > 0.0, x, number(0.0, f)), high)
    return where(below_infinity(magnitude(x)), total + (rest + low),
                 where(x < 0.0, number(0.0, f), x))  # fmt: skip
