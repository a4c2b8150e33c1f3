"""exp and its kin: x = n log(2) + r, exp(x) = 2**n (1 + y), y a polynomial in r."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from sardonyx.kernel.elementary.coefficients import TABLE
from sardonyx.kernel.elementary.parts import (
    Format,
    Pair,
    argument,
    at_least,
    at_most,
    bits,
    exact_sum,
    fast_sum,
    format_of,
    mad,
    magnitude,
    number,
    paired,
    tail,
    upper,
    with_sign,
)
from sardonyx.kernel.expr import Expr, where

_TURN = 0.90625  # where tanh goes over to exp


@dataclass(frozen=True, slots=True)
class Power:
    """2**n in two factors, so that results may be subnormal or reach the last binade."""

    first: Expr
    second: Expr

    def times(self, x: Expr) -> Expr:
        return (x * self.first) * self.second


def limits(f: Format) -> tuple[float, float]:
    """Below the first exp is 0, above the second it is infinite."""
    return (-104.0, 89.0) if f.row == 0 else (-746.0, 710.0)


def _multiple(x: Expr, scale: float, offset: int) -> tuple[Expr, Expr]:
    """n, the integer next to x * scale, and an integer whose low bits are n + offset."""
    f = format_of(x)
    magic = 1.5 * 2.0**f.digits + offset
    shifted = mad(x, number(scale, f), magic)
    return shifted - magic, bits(shifted)


def _power(index: Expr, f: Format) -> Power:
    """2**n from an integer whose low bits are n + 2 * bias."""
    half = index >> 1
    return Power(bits(half << f.digits), bits((index - half) << f.digits))


def _reduced(x: Expr, n: Expr, f: Format) -> Pair:
    """x - n log(2) in two parts; the first is exact."""
    high, low = f.ln2
    return mad(n, number(-high, f), x), n * number(-low, f)


def simple(x: Expr, offset: int) -> tuple[Expr, Expr]:
    """y, and the integer whose low bits are n + offset."""
    f = format_of(x)
    n, index = _multiple(x, f.log2e, offset)
    high, low = _reduced(x, n, f)
    r = high + low
    return high + mad(r * r, tail("exp", r), low), index


def long(x: Expr, below: Expr | None = None, less: int = 0) -> tuple[Pair, Power]:
    """y as a pair, to about 2^-28 (2^-58) absolutely, and 2**(n - less); x + below is reduced."""
    f = format_of(x)
    n, index = _multiple(x, f.log2e, 2 * f.bias - less)
    high, low = _reduced(x, n, f)
    if below is not None:
        low = low + below
    r = high + low
    rest = (high - r) + low
    square = r * r
    third = mad(square * r, tail("exp_third", r), mad(rest, r, rest))
    return fast_sum(r, 0.5 * square + third), _power(index, f)


def one_more(y: Pair) -> Pair:
    """1 + y."""
    high, low = fast_sum(number(1.0, format_of(y[0])), y[0])
    return high, low + y[1]


def exp(x: Expr) -> Expr:
    """e**x. For the least n both factors are 0, so that what is masked underflows nowhere."""
    x, f = argument(x)
    bounded = at_least(at_most(x, limits(f)[1]), -2 * f.bias * log(2))
    y, index = simple(bounded, 2 * f.bias)
    power = _power(index, f)
    return mad(y, power.first, power.first) * power.second


def exp_nonpositive(x: Expr) -> Expr:
    """e**x for x <= 0 or NaN (and to 70, in float64 to 670), the bits of exp with fewer operations:
    2**n is one factor, scaled so that it is normal where a result may be more than 0, and 0 for the
    least n: an underflow takes some processors a hundred cycles.
    (1 + y) 2**(n + scale) is 1 + y without a rounding, so the second product rounds as exp's."""
    x, f = argument(x)
    offset = (f.bias + f.digits + 3) & ~1  # even: ties of n go as they do in exp
    y, index = simple(at_least(x, -offset * log(2)), offset)
    power = bits(index << f.digits)
    return mad(y, power, power) * number(2.0 ** (f.bias - offset), f)


def exp2(x: Expr) -> Expr:
    """2**x."""
    x, f = argument(x)
    x = at_least(at_most(x, f.bias + 1.0), -(f.bias + f.digits + 1.0))
    n, index = _multiple(x, 1.0, 2 * f.bias)
    r = x - n
    slope = f.ln2_pair
    second = mad(r, number(slope[1], f), r * r * tail("exp2_second", r))
    value, below = fast_sum(number(1.0, f), r * slope[0])
    return _power(index, f).times(value + (below + second))


def expm1(x: Expr) -> Expr:
    """e**x - 1, accurate near 0."""
    x, f = argument(x)
    bound = at_least(at_most(x, limits(f)[1]), -2.0 * f.digits)
    y, power = long(bound)
    inverse = bits((2 * f.bias << f.digits) - bits(power.second))
    c, rest = exact_sum(power.first, -inverse)
    high, low = fast_sum(c, y[0] * power.first)
    value = (high + (low + (rest + y[1] * power.first))) * power.second
    return where(magnitude(x) < 2.0 ** -(f.digits + 2), x, value)


def sigmoid(x: Expr) -> Expr:
    """2**n / (2**n + e**r) for x = n log(2) - r: a quotient of upper halves and what it leaves out.

    The reciprocal and 2**n are taken negative, so that no product has its sign turned. The last
    product rounds a result that is subnormal; 2**n is exact, or 0 for the least n."""
    x, f = argument(x)
    bound = at_least(at_most(x, (18.0, 38.0)[f.row]), limits(f)[0])
    scale = f.bias // 2 + 1
    n, index = _multiple(bound, f.log2e, f.bias + scale)
    r = mad(n, number(f.ln2[1], f), mad(n, number(f.ln2[0], f), -bound))
    power = bits(index << f.digits) * -(2.0**-scale)
    square, one = r * r, number(1.0, f)
    y = paired(r, square, TABLE["exp"][f.row])
    whole = mad(square, y, (one - power) + r)
    d = upper(whole)
    below = mad(square, y, ((one - d) - power) + r)
    inverse = -1.0 / whole
    q = upper(inverse)
    rest = mad(q, below, mad(q, d, one))
    return mad(rest, inverse, q) * power


def tanh(x: Expr) -> Expr:
    """|x| + |x| u / q(u), u = x x, where |x| is below 0.90625; above, 1 - 2 / (exp(2|x|) + 1)."""
    x, f = argument(x)
    a = magnitude(x)
    bound = at_most(a, (10.0, 20.0)[f.row])
    n, index = _multiple(bound, 2.0 * f.log2e, f.bias)
    high, low = (number(-0.5 * part, f) for part in f.ln2)
    r, power = mad(n, low, mad(n, high, bound)), bits(index << f.digits)
    twice = [c * 2.0 ** (i + 1) for i, c in enumerate(TABLE["exp"][f.row])]
    square = r * r
    y = mad(square, paired(r, square, twice), r)  # (exp(2r) - 1) / 2
    far = mad(power, y, mad(power, number(0.5, f), 0.5))
    near, u = a < _TURN, a * a
    unit = where(near, a, 1.0)
    part = where(near, u, -1.0) / where(near, tail("tanh", u), far)
    return with_sign(mad(part, unit, unit), x)


def tanh_softplus(x: Expr) -> Expr:
    """tanh(log(1 + e**x)) = m 2**n / (2 + m 2**n), m = c (2 + c 2**n), c = e**r: what Mish takes
    times x. m and the denominator are each an upper half and a rest, as in sigmoid, and subnormal
    results are rounded as there."""
    x, f = argument(x)
    bound = at_least(at_most(x, (9.25, 19.25)[f.row]), limits(f)[0])
    scale = f.bias // 2 + 1
    n, index = _multiple(bound, f.log2e, f.bias + scale)
    r = mad(n, number(-f.ln2[1], f), mad(n, number(-f.ln2[0], f), bound))
    two, p, square = number(2.0, f), bits(index << f.digits) * 2.0**-scale, r * r
    y = square * paired(r, square, TABLE["exp"][f.row])
    z = y + r
    high, low = fast_sum(two, r + r)
    more = mad(p, mad(z, z, z + z), y + y) + p  # m - 2 - 2 r
    m = upper(high + more)
    m_rest = ((high - m) + more) + low
    whole = mad(p, m + m_rest, two)
    d = upper(whole)
    d_rest = mad(p, m_rest, mad(p, m, two - d))
    inverse = 1.0 / whole
    q = upper(inverse)
    rest = mad(-q, d_rest, mad(-q, d, number(1.0, f))) * inverse
    return mad(m, q, mad(m_rest, q, (m + m_rest) * rest)) * p


def _half_exp(a: Expr, f: Format) -> Pair:
    """exp(a) / 2 as a pair, for a >= 0."""
    y, power = long(at_most(a, limits(f)[1] + 1.0), less=1)
    high, low = one_more(y)
    return power.times(high), power.times(low)


def sinh(x: Expr) -> Expr:
    """A polynomial below 1, (e**a - e**-a) / 2 above."""
    x, f = argument(x)
    a = magnitude(x)
    u = a * a
    near = mad(a * u, tail("sinh", u), a)
    high, low = _half_exp(a, f)
    return with_sign(where(a < 1.0, near, high + (low - 0.25 / high)), x)


def cosh(x: Expr) -> Expr:
    """(e**|x| + e**-|x|) / 2."""
    x, f = argument(x)
    high, low = _half_exp(magnitude(x), f)
    return high + (low + 0.25 / high)
