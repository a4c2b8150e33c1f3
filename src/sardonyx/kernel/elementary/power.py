"""x**y. Float32 by way of float64; float64 with a logarithm of twice the precision."""

from __future__ import annotations

from sardonyx import types as t
from sardonyx.kernel.elementary.exp import exp_nonpositive, limits, long, one_more
from sardonyx.kernel.elementary.log import decompose, normal, of_single
from sardonyx.kernel.elementary.parts import (
    Format,
    Pair,
    argument,
    as_float,
    at_least,
    at_most,
    below_infinity,
    exact_product,
    exact_sum,
    fast_sum,
    format_of,
    magnitude,
    minus_infinity,
    nan,
    number,
    product,
    quotient,
    tail,
)
from sardonyx.kernel.expr import Expr, alu, cast, const, where


def _long_log(x: Expr, f: Format) -> Pair:
    """log(x) for x >= 0 to about 2^-64: 2 s (1 + w / 3 + w w Q(w)), s = f / (2 + f), w = s s."""
    scaled, extra = normal(x, f)
    k, m = decompose(scaled, f)
    s = fast_sum(*quotient((m - 1.0, number(0.0, f)), exact_sum(m, number(1.0, f))))
    w = product(s, s)
    third = product(w, (number(1 / 3, f), number(1.850371707708594e-17, f)))
    high, low = fast_sum(number(1.0, f), third[0])
    low = low + (third[1] + w[0] * (w[0] * tail("log_long", w[0])))
    total, rest = product((2.0 * s[0], 2.0 * s[1]), (high, low))
    n = as_float(k, f) + extra
    high, low = exact_sum(n * f.ln2[0], total)
    high, low = fast_sum(high, low + (rest + n * f.ln2[1]))
    end = where(x.eq(0.0), minus_infinity(f), where(below_infinity(x), high, x))
    return end, where(below_infinity(magnitude(end)), low, number(0.0, f))


def _double(a: Expr, y: Expr, f: Format) -> Expr:
    """a**y in float64, for a >= 0."""
    high, low = _long_log(a, f)
    p, error = exact_product(y, high)
    total = p + (error + y * low)
    below = (p - total) + (error + y * low)
    inside = magnitude(p) < 800.0
    least, most = limits(f)
    x = at_least(at_most(where(inside, total, p), most), least)
    z, power = long(x, where(inside & x.eq(total), below, number(0.0, f)))
    high, low = one_more(z)
    return power.times(high + low)


def _single(a: Expr, y: Expr) -> Expr:
    """a**y in float32, for a >= 0: the error before the one rounding is below 2^-44. The bits of
    exp(y * log(a)): in float64 no float32 but 0 is subnormal, and e**200 is infinite in float32."""
    x, zero = cast(a, t.float64), const(0.0, t.float64)
    high, low = of_single(x, zero)
    end = where(x.eq(0.0), minus_infinity(format_of(x)), x)
    product = cast(y, t.float64) * where((x > 0.0) & below_infinity(x), high + low, end)
    return cast(exp_nonpositive(at_most(product, 200.0)), t.float32)


def pow(x: Expr, y: Expr) -> Expr:
    """x**y with the special values of IEEE 754-2019 and C99 Annex F."""
    x, f = argument(x)
    y, _ = argument(y)
    a = magnitude(x)
    value = _single(a, y) if f.row == 0 else _double(a, y, f)
    one = number(1.0, f)
    value = where(y.eq(0.0) | (a.eq(1.0) & y.eq(y)) | x.eq(1.0), one, value)
    value = where(y.eq(0.0) | x.eq(1.0), one, where(x.ne(x) | y.ne(y), nan(f), value))
    whole = alu("trunc", y).eq(y)
    half = 0.5 * y
    odd = whole & alu("trunc", half).ne(half)
    signed = where(odd & alu("signbit", x), -value, value)
    finite = (a > 0.0) & (below_infinity(a))
    return where((x < 0.0) & finite & ~whole, nan(f), signed)
