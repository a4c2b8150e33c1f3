"""Rules about numbers that may overflow: hazards, found by intervals."""

from __future__ import annotations

from sardonyx import types as t
from sardonyx.checker.context import Context
from sardonyx.checker.finding import Severity
from sardonyx.checker.nodes import Node
from sardonyx.checker.registry import Found, at, rule

CLIPPED = """g (float[2] x) => (float[2] y) <float l = {-1.0}, float h = {%s}>
             { c = Clip (x, l, h)  y = Exp (c) }"""


@rule("N01", "floats stay finite", Severity.WARNING, "AI-007 (numerical stability)",
      good=CLIPPED % "1.0", bad=CLIPPED % "100.0", stage="graph")  # fmt: skip
def overflow(check: Context) -> Found:
    """Exp, Pow, Div and Softmax make no infinity or NaN of finite operands.

    Why: an overflow is defined, but seldom meant; a bounded operand shows that there is none.
    Example: Exp of what is clipped to [-1, 100], in float32: exp(89) is infinite.
    Limits: said only where the operands' intervals are finite (constants, Clip, Tanh, ranges that
    --range declares): of unbounded operands nothing can be said. Intervals are upper bounds: the
    hazard may not be real.
    """
    for node in check.of("Exp", "Pow", "Div", "Softmax"):
        kind = check.type(node.output())
        operands = [check.interval(n) for n in node.inputs]
        bounded = all(i.finite for i in operands)
        if kind is None or not kind.dtype.is_float or not bounded:
            continue
        if node.op == "Pow":
            base, exponent = operands
            wide = max(base.magnitude, 1 / max(base.low, 1e-300) if base.low > 0 else 0.0)
            hazard = base.low <= 0 > exponent.low or _pow(wide, exponent.magnitude) > 3e38
        else:
            found = check.interval(node.output())
            hazard = not found.finite or (found.nan and not any(i.nan for i in operands))
        if hazard:
            yield at(node, f"operands in {' and '.join(map(str, operands))}",
                     "operands that cannot overflow")  # fmt: skip


def _pow(base: float, exponent: float) -> float:
    try:
        return float(base**exponent)
    except OverflowError:
        return float("inf")


def _product(low: str) -> str:
    return f"""g (int32[1,2] x) => (int32[1,1] y)
               <int32 l = {{{low}}}, int32 h = {{1000}}, int32[2,1] w = {{30000, 30000}}>
               {{ c = Clip (x, l, h)  y = MatMul (c, w) }}"""


@rule("N02", "integer sums do not wrap", Severity.WARNING, "E_MATMUL_INT_*, REQ-OP-050",
      good=_product("-1000"), bad=_product("-100000"), stage="graph")  # fmt: skip
def accumulators(check: Context) -> Found:
    """In MatMul, MatMulInteger and ConvInteger k * max|a| * max|b| fits the accumulator.

    Why: integer sums wrap silently. The worst case of int8 in int32, (-128)^2, wraps from
    k = 131072 (127^2, which the text uses, from 133145).
    Example: operands up to 100,000 and 30,000 in int32.
    Limits: an operand without an interval has the whole range of its type. Zero points are not
    taken into account: they widen an 8-bit operand to [-255, 255].
    """
    for node in check.of("MatMul", "MatMulInteger", "ConvInteger"):
        kind = check.type(node.output())
        count = _terms(check, node)
        if kind is None or not kind.dtype.is_integer or count is None:
            continue
        sizes = [_largest(check, node, i) for i in (0, 1)]
        worst = count * sizes[0] * sizes[1]
        if worst > kind.dtype.max:
            yield at(node, f"up to {count} * {sizes[0]:g} * {sizes[1]:g}",
                     f"at most {kind.dtype.max}")  # fmt: skip


def _largest(check: Context, node: Node, i: int) -> float:
    found = check.interval(node.input(i)).magnitude
    narrow = check.type(node.input(i))
    zero_point = len(node.inputs) > 2 and narrow is not None and narrow.dtype in (t.int8, t.uint8)
    return max(found, 255.0) if zero_point else found


def _terms(check: Context, node: Node) -> int | None:
    shape = check.shape(node.input(1))
    if not shape:
        return None
    if node.op == "ConvInteger":
        terms = 1
        for d in shape[1:]:
            terms *= d
        return terms
    return shape[-2] if len(shape) > 1 else shape[0]
