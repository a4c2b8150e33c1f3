"""Inverse circular and hyperbolic functions: a polynomial near 0, an identity far from it."""

from __future__ import annotations

from sardonyx.kernel.elementary.log import of_pair
from sardonyx.kernel.elementary.parts import (
    Format,
    Pair,
    argument,
    at_least,
    at_most,
    below_infinity,
    exact_product,
    exact_sum,
    fast_sum,
    infinity,
    mad,
    magnitude,
    nan,
    number,
    pair,
    quotient,
    root,
    tail,
    with_sign,
)
from sardonyx.kernel.expr import Expr, where


def _near(name: str, a: Expr) -> Expr:
    """What the polynomial adds to a."""
    u = a * a
    return a * (u * tail(name, u))


def _half_angle(a: Expr, f: Format) -> Pair:
    """acos(a) = 2 asin(sqrt((1 - a) / 2)) as a pair, for a in [0.5, 1]."""
    z = 0.5 - 0.5 * a
    high, low = root((z, number(0.0, f)))
    low = where(z > 0.0, low, z)
    s = high + low
    return 2.0 * high, 2.0 * mad(s, z * tail("asin", z), low)


def asin(x: Expr) -> Expr:
    """The inverse sine; NaN outside [-1, 1]."""
    x, f = argument(x)
    a = magnitude(x)
    right, below = pair(f.half_pi, f)
    angle, rest = _half_angle(a, f)
    high, low = fast_sum(right, -angle)
    far = high + (low - (rest - below))
    value = where(a < 0.5, a + _near("asin", a), far)
    return with_sign(where(a > 1.0, nan(f), value), x)


def acos(x: Expr) -> Expr:
    """The inverse cosine; NaN outside [-1, 1]."""
    x, f = argument(x)
    a = magnitude(x)
    right, below = pair(f.half_pi, f)
    angle, rest = _half_angle(a, f)
    high, low = fast_sum(right, -x)
    middle = high + (low - (_near("asin", x) - below))
    high, low = fast_sum(2.0 * right, -angle)
    left = high + (low - (rest - 2.0 * below))
    value = where(a < 0.5, middle, where(x > 0.0, angle + rest, left))
    return where(a > 1.0, nan(f), value)


def atan(x: Expr) -> Expr:
    """The inverse tangent: of a near 0, pi/4 + atan((a - 1) / (a + 1)), pi/2 + atan(-1 / a)."""
    x, f = argument(x)
    a = at_most(magnitude(x), 2.0**60)
    zero, one = number(0.0, f), number(1.0, f)
    small, large = a < 0.41421356, a > 2.4142135
    n, d = fast_sum(-one, a), fast_sum(one, a)
    n = where(large, -one, n[0]), where(large, zero, n[1])
    d = where(large, a, d[0]), where(large, zero, d[1])
    high, low = quotient(n, d)
    high, low = where(small, a, high), where(small, zero, low)
    half, below = f.half_pi
    base = where(small, zero, where(large, number(half, f), number(0.5 * half, f)))
    rest = where(small, zero, where(large, number(below, f), number(0.5 * below, f)))
    total, lost = fast_sum(base, high)
    return with_sign(total + (lost + (rest + (low + _near("atan", high + low)))), x)


def asinh(x: Expr) -> Expr:
    """sign(x) log(a + sqrt(a a + 1)), a = |x|; log(2 a) where a is large."""
    x, f = argument(x)
    a = magnitude(x)
    limit = 2.0 ** (f.digits // 2 + 2)
    c = at_most(a, limit)
    square, error = exact_product(c, c)
    high, low = exact_sum(square, number(1.0, f))
    s, below = root((high, low + error))
    high, low = exact_sum(s, c)
    large, zero = a > limit, number(0.0, f)
    of = where(large, a, 0.5 * high), where(large, zero, 0.5 * (low + below))
    finite = where(below_infinity(a), of[0], number(1.0, f)), of[1]
    total, rest = of_pair(finite, number(1.0, f))
    value = where(a < 0.5, a + _near("asinh", a), total + rest)
    return with_sign(where(below_infinity(a), value, a), x)


def acosh(x: Expr) -> Expr:
    """log(1 + d + sqrt(2 d + d d)), d = x - 1; log(2 x) where x is large."""
    x, f = argument(x)
    limit = 2.0 ** (f.digits // 2 + 2)
    d = at_most(x - 1.0, limit)
    square, error = exact_product(d, d)
    high, low = exact_sum(2.0 * d, square)
    s, below = root((at_least(high, f.tiny), low + error))
    high, low = exact_sum(s, d)
    below = low + below
    high, low = exact_sum(number(1.0, f), high)
    large, zero = x > limit, number(0.0, f)
    of = where(large, x, high), where(large, zero, low + below)
    total, rest = of_pair(of, where(large, number(1.0, f), zero))
    value = where(x > 1.0, total + rest, where(x.eq(1.0), zero, nan(f)))
    return where(~below_infinity(x) & x.eq(x), x, value)


def atanh(x: Expr) -> Expr:
    """sign(x) log((1 + a) / (1 - a)) / 2, a = |x|; NaN outside [-1, 1]."""
    x, f = argument(x)
    a = magnitude(x)
    one, zero = number(1.0, f), number(0.0, f)
    high, low = quotient(fast_sum(one, a), (at_least(1.0 - a, 2.0 ** -(f.digits + 2)), zero))
    total, rest = of_pair(fast_sum(high, low), zero)
    far = where(a < 1.0, 0.5 * (total + rest), where(a.eq(1.0), infinity(f), nan(f)))
    return with_sign(where(a < 0.5, a + _near("atanh", a), far), x)
