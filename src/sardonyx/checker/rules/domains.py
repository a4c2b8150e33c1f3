"""Rules about values: obligations that hold when the model runs.

Where a constant decides, they are errors or nothing; where the intervals of the tensors (constants,
and ranges that --range declares) show that they hold, they are nothing; else they are left to the
run-time monitor.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from sardonyx.checker.context import Context
from sardonyx.checker.finding import Decided, Severity
from sardonyx.checker.interval import Interval
from sardonyx.checker.nodes import Node
from sardonyx.checker.registry import Found, Seen, at, rule
from sardonyx.types import Array, DType

LATER = Decided.AT_RUN_TIME
D = Severity.DYNAMIC


def obligation(
    check: Context,
    node: Node,
    tensor: str,
    expected: str,
    holds: Callable[[Array], bool],
    surely: Callable[[Interval], bool],
    never: Severity = Severity.ERROR,
    monitor: str = "",
) -> Found:
    """What is to be said of a tensor whose values are to fulfil something. `holds` asks a
    constant, `surely` an interval. never: the severity where a constant breaks it. monitor: the
    kind under which the monitor sees it."""
    value = check.constant(tensor)
    if value is not None and value.dtype != object:
        if not holds(value):
            yield at(node, "a constant that breaks it", expected, tensor=tensor, severity=never)
        return
    interval = check.interval(tensor)
    if not surely(interval):
        yield _later(node, interval, expected, tensor, monitor)


def _later(node: Node, interval: Interval, expected: str, tensor: str, monitor: str = "") -> Seen:
    return at(node, interval, expected, tensor=tensor, severity=D, decided=LATER, monitor=monitor)


def _dtype(check: Context, name: str) -> DType | None:
    found = check.type(name)
    return None if found is None else found.dtype


CLIP = "g (float[2] x) => (float[2] y) <float l = {%s}, float h = {1.0}> { y = Clip (x, l, h) }"


@rule("Clip.2", "Clip's bounds are ordered", Severity.WARNING, "Clip, constraints",
      good=CLIP % "0.0", bad=CLIP % "2.0")  # fmt: skip
def clip_order(check: Context) -> Found:
    """min <= max, neither is NaN, and they are not +0 and -0.

    Why: with min > max Clip gives max everywhere; a NaN bound is no bound; between +0 and -0 the
    document's value is +0. In the last two cases Sardonyx, as ONNX's text, gives NaN and -0.
    Example: Clip with min 2 and max 1.
    Limits: both results are defined, hence a warning; bounds that are no constants are left to the
    run-time monitor.
    """
    for node in check.of("Clip"):
        low, high = node.input(1), node.input(2)
        if not low or not high:
            continue
        least, most = check.constant(low), check.constant(high)
        if least is not None and most is not None and least.size and most.size:
            pair = float(least.reshape(-1)[0]), float(most.reshape(-1)[0])
            zeros = pair == (0, 0) and math.copysign(1, pair[0]) > math.copysign(1, pair[1])
            if not pair[0] <= pair[1] or zeros:
                yield at(node, f"{least} and {most}", "min <= max", tensor=low)
            continue
        a, b = check.interval(low), check.interval(high)
        if a.nan or b.nan or a.high > b.low:
            yield _later(node, a, f"min <= max, which is {b}", low, "domain")


DIV = "g (int32[2] x) => (int32[2] y) <int32[2] d = {%s}> { y = Div (x, d) }"


@rule("Div.1", "no integer is divided by zero", Severity.ERROR, "E_DIV_INT_CONSTR_B_0030",
      good=DIV % "3, 2", bad=DIV % "3, 0")  # fmt: skip
def div_zero(check: Context) -> Found:
    """The divisor of an integer Div is not 0.

    Why: the result is implementation dependent; processors trap.
    Example: a constant divisor with a zero in it.
    Limits: float Div by zero is defined. Sardonyx gives 0 for an integer divided by 0.
    """
    for node in check.of("Div"):
        dtype = _dtype(check, node.input(1))
        if dtype is not None and dtype.is_integer:
            yield from obligation(check, node, node.input(1), "not 0",
                                  lambda v: bool((v != 0).all()),
                                  lambda i: not i.low <= 0 <= i.high,
                                  monitor="division")  # fmt: skip


@rule("Div.2", "the least integer is not divided by -1", Severity.DYNAMIC, "Div, int: undecided",
      good="g (int32[1] x) => (int32[1] y) <int32[1] d = {2}> { y = Div (x, d) }",
      bad="g (int32[1] x) => (int32[1] y) <int32[1] d = {-1}> { y = Div (x, d) }")  # fmt: skip
def div_overflow(check: Context) -> Found:
    """No integer Div divides the least value of its type by -1.

    Why: the result does not fit the type; what it is, is undecided. Processors trap.
    Example: int32 data of any value, divided by -1.
    Limits: nothing is to be done where the intervals show that it cannot happen. Sardonyx wraps.
    """
    for node in check.of("Div"):
        dtype = _dtype(check, node.input(0))
        if dtype is None or dtype.kind != "i":
            continue
        a, b = check.interval(node.input(0)), check.interval(node.input(1))
        value = check.constant(node.input(1))
        minus = b.low <= -1 <= b.high if value is None else bool((value == -1).any())
        if a.low <= dtype.min and minus:
            yield _later(node, a, f"not {dtype.min} over -1", node.input(0), "wrap")


@rule("Abs.1", "Abs fits", Severity.DYNAMIC, "E_ABS_INT_CONSTR_X_020",
      good="g (float[1] x) => (float[1] y) { y = Abs (x) }",
      bad="g (int8[1] x) => (int8[1] y) { y = Abs (x) }")  # fmt: skip
def abs_least(check: Context) -> Found:
    """The operand of a signed integer Abs is not the least value of its type.

    Why: its magnitude does not fit the type.
    Example: Abs of int8 data of any value: -128.
    Limits: with --range x=-100:100 nothing is left to the monitor. Sardonyx wraps.
    """
    for node in check.of("Abs"):
        dtype = _dtype(check, node.input(0))
        if dtype is not None and dtype.kind == "i":
            holds, surely = _above(dtype.min)
            yield from obligation(check, node, node.input(0), f"above {dtype.min}", holds, surely,
                                  monitor="wrap")  # fmt: skip


def _above(least: int) -> tuple[Callable[[Array], bool], Callable[[Interval], bool]]:
    """Whether a constant, and an interval, is without the least value of a type."""
    return lambda v: bool((v != least).all()), lambda i: i.low > least


POW = "g (int32[2] x) => (int32[2] y) <int32[2] e = {%s}> { y = Pow (x, e) }"


@rule("Pow.1", "integer exponents are not negative", Severity.ERROR, "Pow, int, constraints",
      good=POW % "2, 0", bad=POW % "2, -1")  # fmt: skip
def pow_negative(check: Context) -> Found:
    """The exponent of an integer Pow is at least 0.

    Why: the result of a negative one is no integer.
    Example: a constant exponent with -1 in it.
    Limits: none.
    """
    for node in check.of("Pow"):
        types = [_dtype(check, name) for name in node.inputs[:2]]
        if all(dtype is not None and dtype.is_integer for dtype in types):
            yield from obligation(check, node, node.input(1), "at least 0",
                                  lambda v: bool((v >= 0).all()), lambda i: i.low >= 0,
                                  monitor="domain")  # fmt: skip


BELOW = "g (float[2] x) => (float[2] y) { p = %s (x)  y = %s (p) }"


@rule("Log.1", "arguments of Log are positive", Severity.DYNAMIC, "Log, real: X > 0",
      good="""g (float[2] x) => (float[2] y) <float l = {0.5}, float h = {2.0}>
              { p = Clip (x, l, h)  y = Log (p) }""",
      bad=BELOW % ("Relu", "Log"))  # fmt: skip
def log_positive(check: Context) -> Found:
    """The argument of Log is above 0.

    Why: the real function is not defined elsewhere; floats give -inf and NaN.
    Example: Log of Relu, which may be 0.
    Limits: floats are defined everywhere, hence no error; a constant that breaks it is a warning.
    """
    for node in check.of("Log"):
        yield from obligation(check, node, node.input(0), "above 0", lambda v: bool((v > 0).all()),
                              lambda i: i.low > 0, Severity.WARNING, "domain")  # fmt: skip


@rule("Sqrt.1", "arguments of Sqrt are not negative", Severity.DYNAMIC, "Sqrt, real: X >= 0",
      good=BELOW % ("Relu", "Sqrt"), bad=BELOW % ("Tanh", "Sqrt"))  # fmt: skip
def sqrt_positive(check: Context) -> Found:
    """The argument of Sqrt is at least 0.

    Why: the real function is not defined elsewhere; floats give NaN.
    Example: Sqrt of Tanh, which may be negative.
    Limits: as for Log.1. A NaN that comes in is not counted: it was made elsewhere.
    """
    for node in check.of("Sqrt"):
        yield from obligation(check, node, node.input(0), "at least 0",
                              lambda v: bool((v >= 0).all()), lambda i: i.low >= 0,
                              Severity.WARNING, "domain")  # fmt: skip
