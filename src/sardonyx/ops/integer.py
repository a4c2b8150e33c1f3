"""What DequantizeLinear -> operator -> QuantizeLinear becomes: the named integer definitions.

Sums of products and averages are exact:

    sum     exact, of int32 (resolve makes sure that it fits)
    y       saturate(round(float32(sum) * float32(float32(sx * sw) / sy)) + zero point)

with one rounding each, halves to even. sw is the weights' scale, one for each output channel or for
all; for an average it is float32(1 / count). All others are those of com.microsoft, which are the
operator itself between the two, number by number. Where no QuantizeLinear follows (..ToFloat):

    y       float32(sum) * float32(sx * sw), then the float32 bias is added

Only resolve puts these operators in a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sardonyx import types as t
from sardonyx.kernel import elementary as fn
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, Operand, cast, lift
from sardonyx.ops import activation
from sardonyx.ops.common import broadcast_shapes, elementwise, maximum, minimum
from sardonyx.ops.conv import conv
from sardonyx.ops.conv_transpose import Finish, transposed
from sardonyx.ops.ms_matmul import matmul_integer_to_float
from sardonyx.ops.ms_qlinear import (
    q_gemm,
    qlinear_add,
    qlinear_leaky_relu,
    qlinear_sigmoid,
    qlinear_softmax,
    qlinear_where,
)
from sardonyx.ops.ms_qlinear_pool import q_average_pool, qlinear_global_average_pool
from sardonyx.ops.qlinear import (
    at_axis,
    centred,
    qlinear_conv,
    qlinear_matmul,
    requantized,
)
from sardonyx.ops.quantize import dequantize_linear, quantize_linear
from sardonyx.ops.registry import INTERNAL, Definition, attributes_of, operator

SAME: dict[str, Definition] = {
    "QConv": qlinear_conv,
    "QMatMul": qlinear_matmul,
    "QGemm": q_gemm,
    "QAveragePool": q_average_pool,
    "QGlobalAveragePool": qlinear_global_average_pool,
    "QAdd": qlinear_add,
    "QLeakyRelu": qlinear_leaky_relu,
    "QSigmoid": qlinear_sigmoid,
    "QSoftmax": qlinear_softmax,
    "QWhere": qlinear_where,
}
for _name, _define in SAME.items():
    operator(_name, 1, domain=INTERNAL)(_define)


def _channel(i: Sequence[Operand], each: int) -> tuple[Operand, ...]:
    """The index of what has one number for `each` channels along axis 1."""
    return tuple(i) if each == 1 else (i[0], lift(i[1]) // each, *i[2:])


@attributes_of(conv)
def _convolved(
    k: Builder, x: Tensor, w: Tensor, b: Tensor | None, finish: Finish, **attributes: Any
) -> Tensor:
    """As `transposed`."""
    return finish(conv(k, x, w, b, **attributes), 1)


def _to_float(sums: Callable[..., Tensor], filters: int) -> Definition:
    """The floats of sums of integers; filters: the axis of the weights that has them."""

    @attributes_of(sums)
    def define(
        k: Builder,
        x: Tensor,
        x_scale: Tensor,
        x_zero_point: Tensor,
        w: Tensor,
        w_scale: Tensor,
        w_zero_point: Tensor,
        b: Tensor | None = None,
        **attributes: Any,
    ) -> Tensor:
        """w_scale: one for the tensor or for each output channel; b, float32, has these."""

        def finish(total: Tensor, each: int) -> Tensor:
            def element(*i: Axis) -> Expr:
                c = _channel(i, each)
                y = cast(total[i], t.float32) * (at_axis(x_scale, 1)(c) * at_axis(w_scale, 1)(c))
                return y if b is None else y + b[c[1]]

            return k.compute(total.shape, element, t.float32)

        factors = centred(k, x, x_zero_point, 0), centred(k, w, w_zero_point, filters)
        return sums(k, *factors, None, finish, **attributes)

    return define


operator("QConvToFloat", 1, domain=INTERNAL)(_to_float(_convolved, 0))
operator("QConvTransposeToFloat", 1, domain=INTERNAL)(_to_float(transposed, 1))


@operator("QConvTranspose", 1, domain=INTERNAL)
@attributes_of(transposed)
def q_conv_transpose(
    k: Builder,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    w: Tensor,
    w_scale: Tensor,
    w_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
    b: Tensor | None = None,
    **attributes: Any,
) -> Tensor:
    """As QLinearConv, with the weights of ConvTranspose."""
    factors = centred(k, x, x_zero_point, 0), centred(k, w, w_zero_point, 1)

    def finish(total: Tensor, each: int) -> Tensor:
        step = at_axis(w_scale, 1)
        scales = at_axis(x_scale, 1), lambda i: step(_channel(i, each)), at_axis(y_scale, 1)
        return requantized(k, total, *scales, y_zero_point, 1)

    return transposed(k, *factors, b, finish, **attributes)


@operator("QMatMulToFloat", 1, domain=INTERNAL)
def q_matmul_to_float(
    k: Builder,
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor,
) -> Tensor:
    """b_scale: one for the tensor or for each column."""
    return matmul_integer_to_float(k, a, b, a_scale, b_scale, a_zero_point, b_zero_point)


@operator("QGemmToFloat", 1, domain=INTERNAL)
def q_gemm_to_float(
    k: Builder,
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor,
    c: Tensor | None = None,
    *,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """b_scale: one for the tensor or for each column; c, float32, broadcasts to the result."""
    both = (a, a_scale, a_zero_point, b, b_scale, b_zero_point)
    y = q_gemm(k, *both, transA=transA, transB=transB)
    return y if c is None else k.compute(y.shape, lambda *i: y[i] + c.broadcast(i), t.float32)


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
    bounds = [(b, f) for b, f in ((low, maximum), (high, minimum)) if b is not None]

    def clipped(value: Expr, *at: Expr) -> Expr:
        for (_, bound), other in zip(bounds, at, strict=True):
            value = bound(value, other)
        return value

    return elementwise(k, clipped, x, *(b for b, _ in bounds))


@operator("QIdentity", 1, domain=INTERNAL)
def q_identity(
    k: Builder,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
) -> Tensor:
    """x quantised anew."""
    real = dequantize_linear(k, x, x_scale, x_zero_point)
    return quantize_linear(k, real, y_scale, y_zero_point)


def _tanh(k: Builder, x: Tensor) -> Tensor:
    return elementwise(k, fn.tanh, x)


BETWEEN: dict[str, Definition] = {
    "QElu": activation.elu,
    "QGelu": activation.gelu,
    "QHardSigmoid": activation.hard_sigmoid,
    "QHardSwish": activation.hard_swish,
    "QSwish": activation.swish,
    "QTanh": _tanh,
}


def _between(define: Definition) -> Definition:
    """A function of one tensor between DequantizeLinear and QuantizeLinear."""

    @attributes_of(define)
    def quantised(
        k: Builder,
        x: Tensor,
        x_scale: Tensor,
        x_zero_point: Tensor,
        y_scale: Tensor,
        y_zero_point: Tensor,
        **attributes: Any,
    ) -> Tensor:
        y = define(k, dequantize_linear(k, x, x_scale, x_zero_point), **attributes)
        return quantize_linear(k, y, y_scale, y_zero_point)

    return quantised


for _name, _define in BETWEEN.items():
    operator(_name, 1, domain=INTERNAL, accuracy="approximate")(_between(_define))
