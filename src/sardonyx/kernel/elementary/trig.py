"""sin, cos and tan, of arguments of any size.

|x| = m 2**e with an integer m. The bits of 2/pi that make a multiple of 4 in the product are
skipped, those after them are multiplied by m in pieces of 32 bits, and the integer part modulo 4
is the quadrant. What is left is exact enough for the worst argument there is.

A float32 that is not large takes a short way in float64, which gives the same bits: tried on every
one of them (tests/test_near.py).
"""

from __future__ import annotations

from sardonyx import types as t
from sardonyx.kernel.elementary.parts import (
    Format,
    Pair,
    argument,
    below_infinity,
    bits,
    exact_product,
    fast_sum,
    flip,
    mad,
    magnitude,
    nan,
    number,
    product,
    quotient,
    tail,
)
from sardonyx.kernel.expr import Expr, cast, const, where

TWO_OVER_PI = int(  # 1216 bits of the fraction
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea09d1"
    "921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b1ff897ff"
    "de05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb"
    "5fb11f8d5d0856033046fc7b6bab",
    16,
)
_LOW = (1 << 32) - 1
NEAR = 2.0**16  # below it the short way gives the same sines, cosines and tangents of float32
_LEADING = 0x145F306D * 2.0**-29  # 2/pi to 29 bits: times a float32 it is exact
_REST = float.fromhex("0x1.9391054a7f09dp-30")
_WHOLE = 1.5 * 2.0**52  # added, it leaves an integer in the low bits


def _integer(value: int) -> Expr:
    return const(value, t.uint64)


def _digits(f: Format, count: int) -> list[int]:
    """2/pi as pieces of 32 bits, after the zeros that the smallest arguments need."""
    have = TWO_OVER_PI.bit_length() + f.digits + 3
    padded = TWO_OVER_PI << (32 * count - have) if have <= 32 * count else (
        TWO_OVER_PI >> (have - 32 * count))  # fmt: skip
    return [(padded >> (32 * (count - 1 - i))) & _LOW for i in range(count)]


def _window(start: Expr, f: Format, pieces: int) -> list[Expr]:
    """`pieces` times 32 bits of 2/pi from the bit `start` on."""
    steps = (4, 2, 1) if f.row == 0 else (32, 16, 8, 4, 2, 1)
    reach = pieces + 1
    row: list[Expr] = [_integer(d) for d in _digits(f, sum(steps) + reach)]
    word = start >> 5
    for step in steps:
        chosen = (word & step).ne(0)
        row = [where(chosen, row[i + step], row[i]) for i in range(len(row) - step)]
    back = 32 - (start & 31)
    return [(((row[i] << 32) | row[i + 1]) >> back) & _LOW for i in range(pieces)]


def _fraction(m: list[Expr], window: list[Expr]) -> list[Expr]:
    """m times the window as a binary fraction, without its integer part; m from its low end."""
    carry: Expr = _integer(0)
    found = []
    cells = [[piece * w for w in window] for piece in m]
    for column in range(len(window) - 1, -1, -1):
        total = carry
        for j in range(len(m)):
            if column + j < len(window):
                total = total + (cells[j][column + j] & _LOW)
            if column + j + 1 < len(window):
                total = total + (cells[j][column + j + 1] >> 32)
        found.append(total & _LOW)
        carry = total >> 32
    return found[::-1]


def _turned(a: Expr, f: Format) -> tuple[Expr, Pair]:
    """The quadrant and the remainder in [-pi/4, pi/4] as a pair, for a >= 1/2."""
    pattern = cast(bits(a), t.uint64)
    exponent = pattern >> f.digits
    lowest = f.bias - 1
    start = where(exponent < lowest, _integer(0), exponent - lowest)
    whole = (pattern & ((1 << f.digits) - 1)) | (1 << f.digits)
    m = [whole] if f.row == 0 else [whole & _LOW, whole >> 32]
    pieces = _fraction(m, _window(start, f, 3 if f.row == 0 else 6))
    quadrant = ((pieces[0] + (1 << 29)) >> 30) & 3
    negative = (pieces[0] & (1 << 29)).ne(0)
    mask = where(negative, _integer(_LOW), _integer(0))
    first, *others = (p ^ mask for p in pieces)
    high, low = (_single if f.row == 0 else _double)([first & ((1 << 29) - 1), *others])
    pair = where(negative, -high, high), where(negative, -low, low)
    return cast(quadrant, f.integer), pair


def _single(pieces: list[Expr]) -> Pair:
    """A fraction of four quadrants as radians in two float32."""
    joined = cast((pieces[0] << 32) | pieces[1], t.int64)
    return _halves(cast(joined, t.float64) * (1.5707963267948966 * 2.0**-62))


def _halves(x: Expr) -> Pair:
    """A float64 as two float32."""
    high = cast(x, t.float32)
    return high, cast(x - cast(high, t.float64), t.float32)


def _double(pieces: list[Expr]) -> Pair:
    """A fraction of four quadrants as radians in two float64."""
    parts = [cast(cast(p, t.int64), t.float64) * 2.0 ** (2 - 32 * (i + 1))
             for i, p in enumerate(pieces[:5])]  # fmt: skip
    high, low = fast_sum(parts[0], parts[1])
    high, low = fast_sum(high, low + (parts[2] + (parts[3] + parts[4])))
    half_pi = (number_64(1.5707963267948966), number_64(6.123233995736766e-17))
    return product((high, low), half_pi)


def number_64(value: float) -> Expr:
    return const(value, t.float64)


def _reduced(x: Expr, f: Format) -> tuple[Expr, Pair]:
    """The quadrant of |x| and the remainder."""
    a = magnitude(x)
    quadrant, (high, low) = _turned(a, f)
    if f.row == 0:
        near, (turn, (top, rest)) = a < NEAR, _turned_near(a)
        quadrant = where(near, turn, quadrant)
        high, low = where(near, top, high), where(near, rest, low)
    small = a < 0.78515625
    zero = number(0.0, f)
    chosen = where(small, a, high), where(small, zero, low)
    return where(small, const(0, f.integer), quadrant), chosen


def _turned_near(a: Expr) -> tuple[Expr, Pair]:
    """What _turned gives for a float32 below NEAR: the fraction of four quadrants is the same
    float64, but for one in some thousands, whose last bit the results do not show."""
    wide = cast(a, t.float64)
    turns, rest = wide * _LEADING, wide * _REST
    whole = (turns + rest) + _WHOLE
    radians = ((turns - (whole - _WHOLE)) + rest) * 1.5707963267948966
    return cast(bits(whole), t.int32) & 3, _halves(radians)


def _sine(r: Pair) -> Pair:
    u = r[0] * r[0]
    return r[0], mad(r[0] * u, tail("sin", u), mad(-0.5 * u, r[1], r[1]))


def _cosine(r: Pair, f: Format, below: Expr | None = None) -> Pair:
    """The cosine; `below` is what the square of r[0] loses by rounding."""
    u = r[0] * r[0]
    high, low = fast_sum(number(1.0, f), -0.5 * u)
    low = low if below is None else low - 0.5 * below
    return high, low + (u * (u * tail("cos", u)) - r[0] * r[1])


def _chosen(turn: Expr, r: Pair, f: Format) -> Expr:
    """sin(r + turn pi / 2)."""
    (s, sl), (c, cl) = _sine(r), _cosine(r, f)
    value = where((turn & 1).eq(0), s + sl, c + cl)
    return where((turn & 2).eq(0), value, -value)


def sin(x: Expr) -> Expr:
    """The sine of x radians; NaN of infinity."""
    x, f = argument(x)
    turn, r = _reduced(x, f)
    return where(below_infinity(magnitude(x)), flip(_chosen(turn, r, f), x), nan(f))


def cos(x: Expr) -> Expr:
    """The cosine of x radians; NaN of infinity."""
    x, f = argument(x)
    turn, r = _reduced(x, f)
    return where(below_infinity(magnitude(x)), _chosen(turn + 1, r, f), nan(f))


def _exchanged(mask: Expr, a: Expr, b: Expr) -> Expr:
    """b where all bits of the mask are set, a where none is: gcc does not take several selections
    under one condition for vectors."""
    return bits(bits(a) ^ ((bits(a) ^ bits(b)) & mask))


def tan(x: Expr) -> Expr:
    """The tangent of x radians; NaN of infinity."""
    x, f = argument(x)
    turn, r = _reduced(x, f)
    s, c = fast_sum(*_sine(r)), fast_sum(*_cosine(r, f, exact_product(r[0], r[0])[1]))
    odd = -(turn & 1)
    n = _exchanged(odd, s[0], -c[0]), _exchanged(odd, s[1], -c[1])
    d = _exchanged(odd, c[0], s[0]), _exchanged(odd, c[1], s[1])
    high, low = quotient(n, d)
    value = where(magnitude(x) < 2.0 ** -(f.digits // 2 + 2), magnitude(x), high + low)
    return where(below_infinity(magnitude(x)), flip(value, x), nan(f))
