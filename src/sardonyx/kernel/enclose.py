"""Enclosures of real numbers as expressions of the kernel IR: two float64 nodes, low and high.

    down(x), up(x)   x moved outwards by more than the rounding of the operation that made it
    arithmetic(op, pairs), function(name, pairs)

An operation is done in float64, to nearest, on the ends that matter; its result is then moved
outwards by 2^-52 of its size and the least subnormal: at least the distance to the next float64,
which is more than the rounding error. What has no bound (0 * inf, a quotient by an interval that
holds 0, a logarithm of a negative) becomes NaN, which `settled` makes the whole line.
"""

from __future__ import annotations

from typing import TypeAlias

from sardonyx import types as t
from sardonyx.errors import UnsupportedModel
from sardonyx.kernel import elementary
from sardonyx.kernel.expr import Const, Expr, alu, const, where

Pair: TypeAlias = tuple[Expr, Expr]
LARGEST = 1.7976931348623157e308
TINY = 5e-324
UNIT = 2.0**-52
# The functions are within 2 ulp on samples against mpmath (docs/accuracy.md): twice that is taken.
FUNCTION_ULPS = 4
PI = 3.141592653589793
RISING = (
    "asin", "asinh", "atan", "atanh", "acosh", "erf", "exp", "exp2", "expm1", "log", "log1p",
    "log2", "sigmoid", "sinh", "softplus", "tanh", "tanh_softplus",
)  # fmt: skip
DOMAIN = {  # the arguments for which a function is a real number
    "asin": (-1.0, 1.0), "acos": (-1.0, 1.0), "atanh": (-1.0, 1.0), "acosh": (1.0, None),
    "log": (0.0, None), "log2": (0.0, None), "log1p": (-1.0, None),
}  # fmt: skip
RANGE = {  # what a function cannot leave, whatever is added to its ends
    "sigmoid": (0.0, 1.0), "tanh": (-1.0, 1.0), "erf": (-1.0, 1.0), "exp": (0.0, None),
    "exp2": (0.0, None), "softplus": (0.0, None), "sin": (-1.0, 1.0), "cos": (-1.0, 1.0),
    "cosh": (1.0, None), "expm1": (-1.0, None), "acos": (0.0, None), "acosh": (0.0, None),
    "tanh_softplus": (0.0, 1.0),
}  # fmt: skip


def number(value: float) -> Const:
    return const(value, t.float64)


def least(*xs: Expr) -> Expr:
    """The minimum; NaN if one is."""
    first, *rest = xs
    for x in rest:
        first = alu("min", first, x)
    return first


def greatest(*xs: Expr) -> Expr:
    """The maximum; NaN if one is."""
    first, *rest = xs
    for x in rest:
        first = alu("max", first, x)
    return first


def down(x: Expr, ulps: int = 1) -> Expr:
    """Below x; an overflow to +inf was of a number above the largest."""
    x = alu("min", x, LARGEST)
    return x - (alu("abs", x) * (ulps * UNIT) + ulps * TINY)


def up(x: Expr, ulps: int = 1) -> Expr:
    """Above x."""
    x = alu("max", x, -LARGEST)
    return x + (alu("abs", x) * (ulps * UNIT) + ulps * TINY)


def settled(pair: Pair) -> Pair:
    """The pair with the whole line where an end is NaN."""
    low, high = pair
    nan = alu("or", alu("isnan", low), alu("isnan", high))
    return where(nan, number(-float("inf")), low), where(nan, number(float("inf")), high)


def arithmetic(op: str, args: tuple[Pair, ...]) -> Pair:
    """An operation of ALU on floats, its exact result enclosed. UnsupportedModel for others."""
    a, b = args[0], args[-1]
    match op:
        case "add":
            return down(a[0] + b[0]), up(a[1] + b[1])
        case "sub":
            return down(a[0] - b[1]), up(a[1] - b[0])
        case "mul":
            return product(a, b)
        case "div":
            return _quotient(a, b)
        case "fma":
            return arithmetic("add", (product(a, args[1]), b))
        case "neg":
            return -a[1], -a[0]
        case "abs":
            return greatest(a[0], -a[1], number(0)), greatest(-a[0], a[1])
        case "sqrt":
            low, high = alu("sqrt", a[0]), alu("sqrt", a[1])
            return greatest(down(low), number(0)), up(high)
        case "floor" | "ceil" | "trunc" | "rint" | "min" | "max":
            low, high = (alu(op, *(x[i] for x in args)) for i in (0, 1))
            return low, high
    raise UnsupportedModel(f"the operation {op} on floats has no enclosure")


def product(a: Pair, b: Pair) -> Pair:
    corners = [x * y for x in a for y in b]
    return down(least(*corners)), up(greatest(*corners))


def _quotient(a: Pair, b: Pair) -> Pair:
    apart = alu("or", alu("lt", b[1], 0.0), alu("lt", 0.0, b[0]))
    corners = [x / y for x in a for y in b]
    nan = number(float("nan"))
    return where(apart, down(least(*corners)), nan), where(apart, up(greatest(*corners)), nan)


def function(name: str, args: tuple[Pair, ...]) -> Pair:
    """An elementary function, enclosed. UnsupportedModel for one that has no enclosure."""
    if name == "pow":
        return _power(*args)
    f = getattr(elementary, name)
    (low, high) = args[0]
    bottom, top = DOMAIN.get(name, (None, None))
    inside: Expr = const(True, t.bool_)
    if bottom is not None:
        inside = alu("and", inside, alu("le", bottom, low))
    if top is not None:
        inside = alu("and", inside, alu("le", high, top))
    if name in RISING:
        found = f(low), f(high)
    elif name == "acos":
        found = f(high), f(low)
    elif name == "cosh":
        near, far = arithmetic("abs", args)
        found = f(near), f(far)
    elif name in ("sin", "cos"):
        return _wave(name, low, high)
    elif name == "tan":
        return _tangent(low, high)
    else:
        raise UnsupportedModel(f"the function {name} has no enclosure")
    nan = number(float("nan"))
    made = (
        (where(inside, found[0], nan), where(inside, found[1], nan)) if DOMAIN.get(name) else found
    )
    return _within(name, down(made[0], FUNCTION_ULPS), up(made[1], FUNCTION_ULPS))


def _within(name: str, low: Expr, high: Expr) -> Pair:
    """The ends, not beyond what the function can give; NaN stays NaN."""
    bottom, top = RANGE.get(name, (None, None))
    low = low if bottom is None else alu("max", low, bottom)
    return low, high if top is None else alu("min", high, top)


def _turns(low: Expr, high: Expr, at: float, period: float) -> Expr:
    """Whether at + k * period may lie between low and high."""
    first, last = (
        alu("floor", (x - at) / period + sign * 1e-9) for x, sign in ((low, -1), (high, 1))
    )
    far = alu("lt", 1e6, greatest(alu("abs", low), alu("abs", high)))
    return alu("or", alu("lt", first, last), alu("or", far, alu("not", alu("le", low, high))))


def _wave(name: str, low: Expr, high: Expr) -> Pair:
    """sin or cos: the ends, and 1 and -1 where an extreme may lie between them."""
    f = getattr(elementary, name)
    a, b = f(low), f(high)
    crest = 0.0 if name == "cos" else PI / 2
    top = where(_turns(low, high, crest, 2 * PI), number(1), up(greatest(a, b), FUNCTION_ULPS))
    trough = _turns(low, high, crest - PI, 2 * PI)
    bottom = where(trough, number(-1), down(least(a, b), FUNCTION_ULPS))
    return _within(name, bottom, top)


def _tangent(low: Expr, high: Expr) -> Pair:
    poles, nan = _turns(low, high, PI / 2, PI), number(float("nan"))
    a, b = elementary.tan(low), elementary.tan(high)
    return where(poles, nan, down(a, FUNCTION_ULPS)), where(poles, nan, up(b, FUNCTION_ULPS))


def _power(x: Pair, y: Pair) -> Pair:
    """x to the power y: of a base >= 0 from its corners; of any base for an exponent that is a
    whole number and not negative; NaN for others."""
    x = x[0] + 0.0, x[1] + 0.0  # a zero without a sign, which the functions tell apart
    corners = [elementary.pow(a, b) for a in x for b in y]
    nan, n = number(float("nan")), y[0]
    whole = alu("and", alu("eq", n, y[1]), alu("eq", n, alu("floor", n)))
    whole = alu("and", whole, alu("le", 0.0, n))
    even = alu("eq", n * 0.5, alu("floor", n * 0.5))
    size = arithmetic("abs", (x,))
    ends = [elementary.pow(where(even, s, e), n) for s, e in zip(size, x, strict=True)]
    plain = alu("le", 0.0, x[0])
    low = where(plain, least(*corners), where(whole, ends[0], nan))
    high = where(plain, greatest(*corners), where(whole, ends[1], nan))
    return down(low, FUNCTION_ULPS), up(high, FUNCTION_ULPS)


def chosen(sure: Expr, maybe: Expr, a: Pair, b: Pair) -> Pair:
    """a or b, as a condition says that is true if `sure` and can be true if `maybe`."""
    both = least(a[0], b[0]), greatest(a[1], b[1])
    low = where(sure, a[0], where(maybe, both[0], b[0]))
    return low, where(sure, a[1], where(maybe, both[1], b[1]))


def compared(op: str, a: Pair, b: Pair) -> tuple[Expr, Expr]:
    """Whether a comparison is surely true, and whether it may be true."""
    no = const(False, t.bool_)
    match op:
        case "lt":
            return alu("lt", a[1], b[0]), alu("not", alu("le", b[1], a[0]))
        case "le":
            return alu("le", a[1], b[0]), alu("not", alu("lt", b[1], a[0]))
        case "isnan":
            return no, no
        case "signbit":
            return alu("lt", a[1], 0.0), alu("not", alu("lt", 0.0, a[0]))
    points = alu("and", alu("eq", a[0], a[1]), alu("eq", b[0], b[1]))
    same = alu("and", points, alu("eq", a[0], b[0]))
    apart = alu("or", alu("lt", a[1], b[0]), alu("lt", b[1], a[0]))
    if op == "eq":
        return same, alu("not", apart)
    return apart, alu("not", same)
