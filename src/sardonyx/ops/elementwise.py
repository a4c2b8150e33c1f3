"""Arithmetic, comparison and logic, element by element over broadcast operands."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from sardonyx import types as t
from sardonyx.errors import InvalidModel
from sardonyx.kernel import elementary as fn
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Expr, alu, cast, const, where, widen
from sardonyx.ops.common import elementwise, maximum, minimum
from sardonyx.ops.registry import Accuracy, operator
from sardonyx.types import DType

INFINITY = float("inf")


def sign(x: Expr) -> Expr:
    """1, -1 or 0; a NaN stays."""
    steps = cast(x > 0, x.dtype) - cast(x < 0, x.dtype)
    return where(alu("isnan", x), x, steps) if x.dtype.is_float else steps


UNARY: tuple[tuple[str, tuple[int, ...], Callable[[Expr], Expr], Accuracy], ...] = (
    ("Abs", (1, 6, 13), lambda x: alu("abs", x), "exact"),
    ("Acos", (7, 22), fn.acos, "approximate"),
    ("Acosh", (9, 22), fn.acosh, "approximate"),
    ("Asin", (7, 22), fn.asin, "approximate"),
    ("Asinh", (9, 22), fn.asinh, "approximate"),
    ("Atan", (7, 22), fn.atan, "approximate"),
    ("Atanh", (9, 22), fn.atanh, "approximate"),
    ("BitwiseNot", (18,), lambda x: ~x, "exact"),
    ("Ceil", (1, 6, 13), lambda x: alu("ceil", x), "exact"),
    ("Cos", (7, 22), fn.cos, "approximate"),
    ("Cosh", (9, 22), fn.cosh, "approximate"),
    ("Erf", (9, 13), fn.erf, "approximate"),
    ("Exp", (1, 6, 13), fn.exp, "approximate"),
    ("Floor", (1, 6, 13), lambda x: alu("floor", x), "exact"),
    ("Log", (1, 6, 13), fn.log, "approximate"),
    ("Neg", (1, 6, 13), lambda x: -x, "exact"),
    ("Not", (1,), lambda x: ~x, "exact"),
    ("Reciprocal", (1, 6, 13), lambda x: 1 / x, "exact"),
    ("Round", (11, 22), lambda x: alu("rint", x), "exact"),
    ("Sign", (9, 13), sign, "exact"),
    ("Sin", (7, 22), fn.sin, "approximate"),
    ("Sinh", (9, 22), fn.sinh, "approximate"),
    ("Sqrt", (1, 6, 13), lambda x: alu("sqrt", x), "exact"),
    ("Tan", (7, 22), fn.tan, "approximate"),
    ("Tanh", (1, 6, 13), fn.tanh, "approximate"),
)  # fmt: skip


def _unary(
    name: str, since: tuple[int, ...], f: Callable[[Expr], Expr], accuracy: Accuracy
) -> None:
    @operator(name, *since, accuracy=accuracy)
    def define(k: Builder, x: Tensor) -> Tensor:
        return elementwise(k, lambda e: f(widen(e)), x)


for _row in UNARY:
    _unary(*_row)


# name, versions before 7 (one-sided broadcasting by attributes), versions since, meaning, result
BINARY: tuple[
    tuple[str, tuple[int, ...], tuple[int, ...], Callable[[Expr, Expr], Expr], DType | None], ...
] = (
    ("Add", (1, 6), (7, 13, 14), lambda a, b: a + b, None),
    ("And", (1,), (7,), lambda a, b: a & b, None),
    ("BitwiseAnd", (), (18,), lambda a, b: a & b, None),
    ("BitwiseOr", (), (18,), lambda a, b: a | b, None),
    ("BitwiseXor", (), (18,), lambda a, b: a ^ b, None),
    ("Div", (1, 6), (7, 13, 14), lambda a, b: a / b, None),  # integers: towards zero
    ("Equal", (1,), (7, 11, 13, 19), lambda a, b: a.eq(b), t.bool_),
    ("Greater", (1,), (7, 9, 13), lambda a, b: a > b, t.bool_),
    ("GreaterOrEqual", (), (12, 16), lambda a, b: a >= b, t.bool_),
    ("Less", (1,), (7, 9, 13), lambda a, b: a < b, t.bool_),
    ("LessOrEqual", (), (12, 16), lambda a, b: a <= b, t.bool_),
    ("Mul", (1, 6), (7, 13, 14), lambda a, b: a * b, None),
    ("Or", (1,), (7,), lambda a, b: a | b, None),
    ("Sub", (1, 6), (7, 13, 14), lambda a, b: a - b, None),
    ("Xor", (1,), (7,), lambda a, b: a ^ b, None),
)  # fmt: skip


def _binary(
    name: str,
    legacy: tuple[int, ...],
    since: tuple[int, ...],
    f: Callable[[Expr, Expr], Expr],
    result: DType | None,
) -> None:
    @operator(name, *legacy)
    def define_legacy(
        k: Builder, a: Tensor, b: Tensor, *, axis: int | None = None, broadcast: int = 0
    ) -> Tensor:
        return elementwise(k, f, a, aligned(a, b, axis, broadcast), dtype=result)

    @operator(name, *since)
    def define(k: Builder, a: Tensor, b: Tensor) -> Tensor:
        return elementwise(k, f, a, b, dtype=result)


def aligned(a: Tensor, b: Tensor, axis: int | None, broadcast: int) -> Tensor:
    """b with the trailing dims of 1 that make its shape stand at `axis` of a's (before opset 7)."""
    if not broadcast and a.shape != b.shape:
        raise InvalidModel(f"without broadcast=1 the shapes {a.shape} and {b.shape} must be equal")
    start = a.rank - b.rank if axis is None or not broadcast else axis % max(a.rank, 1)
    trailing = a.rank - start - b.rank
    if start < 0 or trailing < 0:
        raise InvalidModel(f"the shape {b.shape} does not fit {a.shape} at axis {start}")
    return b.reshaped((*b.shape, *[1] * trailing)) if trailing else b


for _entry in BINARY:
    _binary(*_entry)


@operator("Max", 1, 6, 8, 12, 13)
def max_(k: Builder, *data: Tensor) -> Tensor:
    return elementwise(k, lambda *x: reduce(maximum, x), *data)


@operator("Min", 1, 6, 8, 12, 13)
def min_(k: Builder, *data: Tensor) -> Tensor:
    return elementwise(k, lambda *x: reduce(minimum, x), *data)


@operator("Sum", 1, 6, 8, 13, accuracy="rounding")
def sum_(k: Builder, *data: Tensor) -> Tensor:
    return elementwise(k, lambda *x: reduce(lambda a, b: a + b, x), *data)


@operator("Mean", 1, 6, 8, 13, accuracy="rounding")
def mean(k: Builder, *data: Tensor) -> Tensor:
    return elementwise(k, lambda *x: reduce(lambda a, b: a + b, x) / len(x), *data)


@operator("BitShift", 11, 28)
def bit_shift(k: Builder, x: Tensor, y: Tensor, *, direction: str) -> Tensor:
    if direction not in ("LEFT", "RIGHT"):
        raise InvalidModel(f"direction is LEFT or RIGHT, found {direction}")
    return elementwise(k, lambda a, b: a << b if direction == "LEFT" else a >> b, x, y)


@operator("Mod", 10, 13, 28)
def mod(k: Builder, a: Tensor, b: Tensor, *, fmod: int = 0) -> Tensor:
    if fmod:
        return elementwise(k, lambda x, y: alu("fmod", x, y), a, b)
    return elementwise(k, floored_modulo if a.dtype.is_float else lambda x, y: x % y, a, b)


def floored_modulo(x: Expr, y: Expr) -> Expr:
    """x - floor(x / y) * y of floats, with the sign of y."""
    rest = alu("fmod", x, y)
    zero = where(alu("signbit", y), const(-0.0, rest.dtype), const(0.0, rest.dtype))
    return where(rest.eq(0), zero, where((rest < 0) ^ (y < 0), rest + y, rest))


@operator("Where", 9, 16)
def where_(k: Builder, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return elementwise(k, where, condition, x, y, dtype=x.dtype)


@operator("IsNaN", 9, 13, 20)
def is_nan(k: Builder, x: Tensor) -> Tensor:
    return elementwise(k, lambda e: alu("isnan", e), x, dtype=t.bool_)


@operator("IsInf", 10, 20)
def is_inf(k: Builder, x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    def found(e: Expr) -> Expr:
        positive, negative = e.eq(INFINITY), e.eq(-INFINITY)
        return positive & bool(detect_positive) | negative & bool(detect_negative)

    return elementwise(k, found, x, dtype=t.bool_)


@operator("Pow", 1, accuracy="approximate")
def pow_legacy(
    k: Builder, x: Tensor, y: Tensor, *, axis: int | None = None, broadcast: int = 0
) -> Tensor:
    return power(k, x, aligned(x, y, axis, broadcast))


@operator("Pow", 7, 12, 13, 15, accuracy="approximate")
def power(k: Builder, x: Tensor, y: Tensor) -> Tensor:
    """x ** y in the type of x; arithmetic in the type that NumPy gives the pair, at least float32.

    x ** 2 and x ** 0.5 are x * x and the square root, rounded once, x ** 3 the product in float64.
    """
    if x.dtype.is_integer and y.dtype.is_integer:
        return elementwise(k, integer_power, x, y)
    types = [np.dtype(d.compute if d.is_float else d.name) for d in (x.dtype, y.dtype)]
    common = t.by_name(np.result_type(*types, np.float32).name)
    exponents = [] if y.value is None else [*np.unique(y.value.astype(common.numpy))]
    known = float(exponents[0]) if len(exponents) == 1 else None

    def raised(a: Expr, b: Expr) -> Expr:
        wide = cast(a, common)
        if known is None:
            return float_power(wide, cast(b, common))
        return POWERS[known](wide) if known in POWERS else fn.pow(wide, const(known, common))

    return elementwise(k, raised, x, y)


def square(x: Expr) -> Expr:
    return x * x


def cube(x: Expr) -> Expr:
    wide = cast(x, t.float64)
    return cast(wide * wide * wide, x.dtype)


def root(x: Expr) -> Expr:
    """The square root, of -0 and -infinity that of +0 and +infinity, as of a power."""
    found = alu("sqrt", where(x.eq(0.0), 0.0, x))
    return where(x.eq(-INFINITY), INFINITY, found)


POWERS: dict[float, Callable[[Expr], Expr]] = {2: square, 3: cube, 0.5: root}


def float_power(x: Expr, y: Expr) -> Expr:
    value = fn.pow(x, y)
    for exponent, simple in POWERS.items():
        value = where(y.eq(exponent), simple(x), value)
    return value


def integer_power(x: Expr, y: Expr) -> Expr:
    """x ** y, wrapping; a negative exponent takes the power of 1 / x, truncated."""
    negative = y < 0
    base = where(negative, 1 / x, x)
    exponent = cast(where(negative, -y, y), t.uint64)
    result: Expr = where((exponent & 1).ne(0), base, 1)
    for bit in range(1, y.dtype.bits):
        base = base * base
        result = where((exponent >> bit & 1).ne(0), result * base, result)
    return result
