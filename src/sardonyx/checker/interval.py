"""Intervals: between which numbers the elements of a tensor lie, and whether they may be NaN.

Bounds are float64 and hold for the rounded results: add, multiply and divide are monotone, so a
bound computed in float64 and widened by `OUT` (far more than one rounding of float32 or float64)
is outside of what the operator can give. float16 and bfloat16 are rounded to their type's step.
Integers beyond 2^53 get the whole range of their type. An integer result outside of its type may
wrap: it also gets the whole range. An operator without a rule gets it too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod

import numpy as np

from sardonyx import types as t
from sardonyx.graph import Graph, Operation
from sardonyx.types import Array, DType

OUT = 2.0**-20  # relative widening: above the error of any rounding or elementary function
TINY = 2.0**-126


@dataclass(frozen=True, slots=True)
class Interval:
    """low <= x <= high for every element that is no NaN; `nan`: whether one may be NaN."""

    low: float
    high: float
    nan: bool = False

    def __str__(self) -> str:
        return f"[{self.low:g}, {self.high:g}]" + (" or NaN" if self.nan else "")

    @property
    def magnitude(self) -> float:
        return max(abs(self.low), abs(self.high))

    @property
    def finite(self) -> bool:
        return self.magnitude < inf


Rule = Callable[[Operation, "Sequence[Interval]", "Shapes"], Interval | None]
Shapes = Mapping[str, tuple[int, ...]]


def whole(dtype: DType) -> Interval:
    """Everything that a type holds."""
    if dtype.is_float:
        return Interval(-inf, inf, True)
    if dtype is t.bool_:
        return Interval(0, 1)
    return Interval(float(dtype.min), float(dtype.max))


def of_array(value: Array) -> Interval:
    """The interval of a constant."""
    if not value.size:
        return Interval(0.0, 0.0)
    wide = value.astype(np.float64)
    nan = bool(np.isnan(wide).any())
    rest = wide[~np.isnan(wide)]
    return Interval(float(rest.min()), float(rest.max()), nan) if rest.size else Interval(0, 0, nan)


def intervals(
    graph: Graph, declared: Mapping[str, Interval], constants: Mapping[str, Array]
) -> dict[str, Interval]:
    """The interval of every tensor that has a type. `declared`: of inputs, as the user states."""
    found: dict[str, Interval] = {}
    shapes = {n: _sizes(tt.shape) for n, tt in graph.types.items()}
    known: dict[str, tuple[int, ...]] = {n: s for n, s in shapes.items() if s is not None}
    for name, kind in graph.types.items():
        found[name] = declared.get(name, whole(kind.dtype))
    for name, value in constants.items():
        if value.dtype != object and value.dtype.kind != "c":
            found[name] = of_array(value)
    for op in graph.operations:
        _step(graph, op, found, known, constants)
    return found


def _step(
    graph: Graph,
    op: Operation,
    found: dict[str, Interval],
    shapes: Shapes,
    constants: Mapping[str, Array],
) -> None:
    rule = RULES.get(op.op_type) if not op.domain else None
    operands = [found.get(name) for name in op.inputs if name]
    if rule is None or any(x is None for x in operands):
        return
    result = rule(op, [x for x in operands if x is not None], shapes)
    name = next(filter(None, op.outputs), "")
    kind = graph.types.get(name)
    if result is None or kind is None or name in constants:
        return
    found[name] = _fitted(result, kind.dtype)


def _fitted(x: Interval, dtype: DType) -> Interval:
    """The interval as a type's values: widened, overflow to infinity, wrapping to everything."""
    if not dtype.is_float:
        whole_range = whole(dtype)
        fits = x.low >= whole_range.low and x.high <= whole_range.high and x.magnitude < 2.0**53
        return x if fits and not x.nan else whole_range
    small = dtype.bits == 16
    top = float(_largest(dtype))
    low, high = _widened(x.low, -1, small), _widened(x.high, 1, small)
    return Interval(-inf if low < -top else low, inf if high > top else high, x.nan)


def _largest(dtype: DType) -> float:
    return {"float16": 65504.0, "bfloat16": 3.39e38, "float32": 3.4028235e38}.get(
        dtype.name, 1.7976931348623157e308
    )


def _widened(x: float, sign: int, small: bool = False) -> float:
    """x moved outwards by more than one rounding (of a 16-bit float where `small`), never across
    zero; 0, 1, -1 and infinities, which every operation here gives exactly, stay."""
    if x in (0.0, 1.0, -1.0) or math.isinf(x) or math.isnan(x):
        return 0.0 if math.isnan(x) else x
    out, tiny = (2.0**-7, 2.0**-14) if small else (OUT, TINY)
    moved = x + sign * (abs(x) * out + tiny)
    return moved if moved * x > 0 else 0.0


def _loose(x: Interval) -> Interval:
    """x with room for the roundings of an intermediate result that may cancel afterwards."""
    if not x.finite:
        return x
    slack = x.magnitude * OUT + TINY
    return Interval(x.low - slack, x.high + slack, x.nan)


def _sizes(shape: Sequence[object] | None) -> tuple[int, ...] | None:
    if shape is None or not all(isinstance(d, int) for d in shape):
        return None
    return tuple(d for d in shape if isinstance(d, int))


def _span(values: Sequence[float], nan: bool) -> Interval:
    """The hull; a corner that is NaN (0 * inf, inf - inf) widens to everything."""
    if any(math.isnan(v) for v in values):
        return Interval(-inf, inf, True)
    return Interval(min(values), max(values), nan)


def _times(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b


def _product(a: Interval, b: Interval) -> Interval:
    nan = a.nan or b.nan
    zero_inf = any(x.low <= 0 <= x.high and not y.finite for x, y in ((a, b), (b, a)))
    corners = [_times(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return _span(corners, nan or zero_inf)


def _add(op: Operation, x: Sequence[Interval], shapes: Shapes) -> Interval:
    a, b = x
    clash = (a.high == inf and b.low == -inf) or (a.low == -inf and b.high == inf)
    low = -inf if -inf in (a.low, b.low) else a.low + b.low
    high = inf if inf in (a.high, b.high) else a.high + b.high
    return Interval(low, high, a.nan or b.nan or clash)


def _sub(op: Operation, x: Sequence[Interval], shapes: Shapes) -> Interval:
    return _add(op, (x[0], _neg(op, x[1:], shapes)), shapes)


def _mul(op: Operation, x: Sequence[Interval], shapes: Shapes) -> Interval:
    return _product(x[0], x[1])


def _div(op: Operation, x: Sequence[Interval], shapes: Shapes) -> Interval | None:
    a, b = x
    if b.low <= 0 <= b.high:
        zero = a.low <= 0 <= a.high
        return Interval(-inf, inf, a.nan or b.nan or zero or not (a.finite or b.finite))
    if not a.finite and not b.finite:
        return Interval(-inf, inf, True)
    corners = [p / q for p in (a.low, a.high) for q in (b.low, b.high)]
    return _span(corners, a.nan or b.nan)


def _neg(op: Operation, x: Sequence[Interval], shapes: Shapes) -> Interval:
    return Interval(-x[0].high, -x[0].low, x[0].nan)


def _abs(op: Operation, x: Sequence[Interval], shapes: Shapes) -> Interval:
    a = x[0]
    low = 0.0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
    return Interval(low, a.magnitude, a.nan)


def _relu(op: Operation, x: Sequence[Interval], shapes: Shapes) -> Interval:
    return Interval(max(x[0].low, 0.0), max(x[0].high, 0.0), x[0].nan)


def _leaky(op: Operation, x: Sequence[Interval], shapes: Shapes) -> Interval:
    slope = float(op.attributes.get("alpha", 0.01))
    scaled = _product(x[0], Interval(slope, slope))
    parts = (x[0].low, x[0].high, scaled.low, scaled.high)
    return Interval(min(parts), max(parts), x[0].nan or scaled.nan)


def _clip(op: Operation, x: Sequence[Interval], shapes: Shapes) -> Interval | None:
    names = (*op.inputs, "", "")
    rest = list(x[1:])
    low = rest.pop(0) if names[1] else Interval(-inf, -inf)
    high = rest.pop(0) if names[2] else Interval(inf, inf)
    if low.nan or high.nan:
        return None
    a = x[0]
    return Interval(
        min(max(a.low, low.low), high.low), min(max(a.high, low.high), high.high), a.nan
    )


def _monotone(f: Callable[[float], float], low: float = -inf, high: float = inf) -> Rule:
    """A rule for an increasing function whose values lie between low and high."""

    def rule(op: Operation, x: Sequence[Interval], shapes: Shapes) -> Interval:
        a = x[0]
        return Interval(max(low, _widened(f(a.low), -1)), min(high, _widened(f(a.high), 1)), a.nan)

    return rule


def _exp(v: float) -> float:
    return math.exp(v) if v < 709 else inf


def _domain(f: Callable[[float], float], least: float) -> Rule:
    """A rule for an increasing function that is NaN below `least`."""

    def rule(op: Operation, x: Sequence[Interval], shapes: Shapes) -> Interval:
        a = x[0]
        if a.high < least:
            return Interval(0, 0, True)
        return Interval(f(max(a.low, least)), f(a.high), a.nan or a.low < least)

    return rule


def _log(v: float) -> float:
    return math.log(v) if 0 < v < inf else (-inf if v <= 0 else inf)


def _hull(op: Operation, x: Sequence[Interval], shapes: Shapes) -> Interval:
    return Interval(min(a.low for a in x), max(a.high for a in x), any(a.nan for a in x))


def _move(op: Operation, x: Sequence[Interval], shapes: Shapes) -> Interval:
    return x[0]


def _max(op: Operation, x: Sequence[Interval], shapes: Shapes) -> Interval:
    return Interval(max(a.low for a in x), max(a.high for a in x), any(a.nan for a in x))


def _min(op: Operation, x: Sequence[Interval], shapes: Shapes) -> Interval:
    return Interval(min(a.low for a in x), min(a.high for a in x), any(a.nan for a in x))


def _softmax(op: Operation, x: Sequence[Interval], shapes: Shapes) -> Interval:
    return Interval(0.0, 1.0 + OUT, x[0].nan or not x[0].finite)


def _where(op: Operation, x: Sequence[Interval], shapes: Shapes) -> Interval:
    return _hull(op, x[1:], shapes)


def _dot(a: Interval, b: Interval, count: int) -> Interval:
    """A sum of `count` products, in any order, with room for its roundings."""
    one = _product(a, b)
    if one.nan or not one.finite:
        return Interval(-inf, inf, True)
    bound = max(abs(one.low), abs(one.high))
    slack = count * bound * count * 2.0**-23 + count * TINY
    return Interval(count * one.low - slack, count * one.high + slack)


def _with_zero(x: Interval) -> Interval:
    return Interval(min(x.low, 0.0), max(x.high, 0.0), x.nan)


def _matmul(op: Operation, x: Sequence[Interval], shapes: Shapes) -> Interval | None:
    shape = shapes.get(op.inputs[0])
    return _dot(x[0], x[1], shape[-1]) if shape else None


def _conv(op: Operation, x: Sequence[Interval], shapes: Shapes) -> Interval | None:
    shape = shapes.get(op.inputs[1])
    if shape is None:
        return None
    total = _dot(_with_zero(x[0]), x[1], prod(shape[1:]))
    return _add(op, (total, x[2]), shapes) if len(x) > 2 else total


def _gemm(op: Operation, x: Sequence[Interval], shapes: Shapes) -> Interval | None:
    shape = shapes.get(op.inputs[0])
    if not shape:
        return None
    alpha, beta = (float(op.attributes.get(k, 1.0)) for k in ("alpha", "beta"))
    count = shape[0] if op.attributes.get("transA", 0) else shape[-1]
    total = _product(_dot(x[0], x[1], count), Interval(alpha, alpha))
    if len(x) < 3:
        return total
    return _add(op, (_loose(total), _loose(_product(x[2], Interval(beta, beta)))), shapes)


def _argmax(op: Operation, x: Sequence[Interval], shapes: Shapes) -> Interval | None:
    shape = shapes.get(op.inputs[0])
    return Interval(0.0, float(max(1, max(shape, default=1)) - 1)) if shape is not None else None


def _batchnorm(op: Operation, x: Sequence[Interval], shapes: Shapes) -> Interval | None:
    if op.attributes.get("training_mode", 0) or len(x) != 5:
        return None
    data, scale, bias, mean, var = x
    if var.low < 0 or var.nan:
        return None
    eps = float(op.attributes.get("epsilon", 1e-5))
    root = Interval(1 / math.sqrt(var.high + eps), 1 / math.sqrt(var.low + eps))
    s = _loose(_product(scale, root))
    shift = _loose(_sub(op, (bias, _loose(_product(mean, s))), shapes))
    return _add(op, (_loose(_product(data, s)), shift), shapes)


def _average(op: Operation, x: Sequence[Interval], shapes: Shapes) -> Interval:
    low, high = min(x[0].low, 0.0), max(x[0].high, 0.0)
    return Interval(1.01 * low, 1.01 * high, x[0].nan or not x[0].finite)


def _sigmoid(v: float) -> float:
    return 1 / (1 + _exp(-v)) if v > -709 else 0.0


RULES: dict[str, Rule] = {
    "Abs": _abs, "Add": _add, "ArgMax": _argmax, "AveragePool": _average,
    "BatchNormalization": _batchnorm, "Clip": _clip, "Concat": _hull, "Conv": _conv, "Div": _div,
    "Exp": _monotone(_exp, 0.0), "Expand": _move, "Flatten": _move, "Gather": _move, "Gemm": _gemm,
    "GlobalAveragePool": _average, "Identity": _move, "LeakyRelu": _leaky, "Log": _domain(_log, 0),
    "MatMul": _matmul, "Max": _max, "MaxPool": _move, "Min": _min, "Mul": _mul, "Neg": _neg,
    "Relu": _relu, "Reshape": _move, "Sigmoid": _monotone(_sigmoid, 0.0, 1.0), "Slice": _move,
    "Softmax": _softmax, "Split": _move, "Sqrt": _domain(math.sqrt, 0.0), "Squeeze": _move,
    "Sub": _sub, "Tanh": _monotone(math.tanh, -1.0, 1.0), "Transpose": _move, "Unsqueeze": _move,
    "Where": _where,
}  # fmt: skip
