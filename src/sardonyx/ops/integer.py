"""What DequantizeLinear -> operator -> QuantizeLinear becomes: the named integer definitions.

    sum     exact, of int32 (resolve makes sure that it fits)
    y       saturate(round(float32(sum) * float32(float32(sx * sw) / sy)) + zero point)

with one rounding each, halves to even. sw is the weights' scale, one for each output channel or for
all; for an average it is float32(1 / count). Only resolve puts these operators in a graph.
"""

from __future__ import annotations

from sardonyx import types as t
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, cast
from sardonyx.ops.common import broadcast_shapes, elementwise, maximum, minimum
from sardonyx.ops.ms_qlinear import (
    q_gemm,
    qlinear_average_pool,
    qlinear_global_average_pool,
)
from sardonyx.ops.qlinear import at_axis, qlinear_conv, qlinear_matmul, requantized
from sardonyx.ops.registry import INTERNAL, Definition, operator

SAME: dict[str, Definition] = {
    "QConv": qlinear_conv,
    "QMatMul": qlinear_matmul,
    "QGemm": q_gemm,
    "QAveragePool": qlinear_average_pool,
    "QGlobalAveragePool": qlinear_global_average_pool,
}
for _name, _define in SAME.items():
    operator(_name, 1, domain=INTERNAL)(_define)


@operator("QMul", 1, domain=INTERNAL)
def q_mul(
    k: Builder,
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
) -> Tensor:
    """The exact int32 product, rescaled; every scale is one for its tensor."""
    shape = broadcast_shapes(a.shape, b.shape)

    def term(x: Tensor, zero: Tensor, i: tuple[Axis, ...]) -> Expr:
        return cast(x.broadcast(i), t.int32) - cast(at_axis(zero, 0)(i), t.int32)

    total = k.compute(
        shape, lambda *i: term(a, a_zero_point, i) * term(b, b_zero_point, i), t.int32
    )
    scales = at_axis(a_scale, 0), at_axis(b_scale, 0), at_axis(y_scale, 0)
    return requantized(k, total, *scales, y_zero_point, 0)


@operator("QRelu", 1, domain=INTERNAL)
def q_relu(k: Builder, x: Tensor, zero_point: Tensor) -> Tensor:
    """Relu of a quantised tensor, which is exact: max(q, zero point)."""
    zero = at_axis(zero_point, 0)
    return k.compute(x.shape, lambda *i: maximum(x[i], zero(i)), x.dtype)


@operator("QClip", 1, domain=INTERNAL)
def q_clip(k: Builder, x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
    """Clip of a quantised tensor by quantised bounds, which is exact: rounding is monotonic."""
    y = x if low is None else elementwise(k, maximum, x, low)
    return y if high is None else elementwise(k, minimum, y, high)
