"""Quantised operators of com.microsoft.

Each is its operator between DequantizeLinear and QuantizeLinear, in one kernel: x = (q - zero
point) * scale, an exact difference and one product; y = saturate(round(x / scale) + zero point).
Convolution and Gemm are the exact int32 sums of ops/qlinear.py instead. Pools: ms_qlinear_pool.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sardonyx import types as t
from sardonyx.dims import product
from sardonyx.errors import InvalidModel
from sardonyx.kernel import elementary as fn
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, cast, lift, where
from sardonyx.ops.common import broadcast_shapes, normalize_axis
from sardonyx.ops.elementwise import where_
from sardonyx.ops.movement import channels_behind, channels_first, concat, transpose
from sardonyx.ops.ms_common import contrib, needed
from sardonyx.ops.qlinear import at_axis, centred, qlinear_conv
from sardonyx.ops.quantize import dequantize_linear, quantize_linear, quantized
from sardonyx.ops.registry import Accuracy, Definition, attributes_of
from sardonyx.ops.softmax import softmax

Quantised = tuple[Tensor, Tensor, Tensor | None]


@contrib("QuantizeLinear")
def ms_quantize_linear(
    k: Builder,
    x: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
    *,
    axis: int | None = None,
) -> Tensor:
    return quantize_linear(k, x, y_scale, y_zero_point, axis=1 if axis is None else axis)


@contrib("DequantizeLinear")
def ms_dequantize_linear(
    k: Builder,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None = None,
    *,
    axis: int | None = None,
) -> Tensor:
    return dequantize_linear(k, x, x_scale, x_zero_point, axis=1 if axis is None else axis)


def real(x: Quantised, i: Sequence[Expr]) -> Expr:
    """The number that the element at an index stands for."""
    q, scale, zero = x
    value = difference(q.broadcast(i), zero)
    return cast(value, t.float32) * cast(at_axis(scale, 0)(i), t.float32)


def difference(q: Expr, zero: Tensor | None) -> Expr:
    """An integer less the zero point of its tensor, as int32."""
    value = cast(q, t.int32)
    return value if zero is None else value - cast(zero[(lift(0),) * zero.rank], t.int32)


def quantised(value: Expr, scale: Tensor, zero: Tensor | None, dtype: t.DType) -> Expr:
    """A number quantised: to the type of the zero point, or of the operand without one."""
    shift = None if zero is None else zero[(lift(0),) * zero.rank]
    dtype = dtype if zero is None else zero.dtype
    return quantized(value / cast(scale[(lift(0),) * scale.rank], t.float32), shift, dtype)


def _binary(name: str, combine: Callable[[Expr, Expr], Expr], accuracy: Accuracy) -> Definition:
    @contrib(name, accuracy)
    def define(
        k: Builder,
        a: Tensor,
        a_scale: Tensor,
        a_zero_point: Tensor | None = None,
        b: Tensor | None = None,
        b_scale: Tensor | None = None,
        b_zero_point: Tensor | None = None,
        c_scale: Tensor | None = None,
        c_zero_point: Tensor | None = None,
    ) -> Tensor:
        left = a, a_scale, a_zero_point
        right = needed(b, "B"), needed(b_scale, "B_scale"), b_zero_point
        step = needed(c_scale, "C_scale")
        return k.compute(
            broadcast_shapes(a.shape, right[0].shape),
            lambda *i: quantised(
                combine(real(left, i), real(right, i)), step, c_zero_point, a.dtype
            ),
        )

    return define


qlinear_add = _binary("QLinearAdd", lambda x, y: x + y, "rounding")
_binary("QLinearMul", lambda x, y: x * y, "rounding")


def _unary(
    k: Builder, x: Quantised, y: tuple[Tensor, Tensor | None], fn_: Callable[[Expr], Expr]
) -> Tensor:
    return k.compute(x[0].shape, lambda *i: quantised(fn_(real(x, i)), *y, x[0].dtype))


def _by_table(
    k: Builder, x: Quantised, y: tuple[Tensor, Tensor | None], fn_: Callable[[Expr], Expr]
) -> Tensor:
    """The same, computed once for each value of a byte."""
    q, scale, zero = x
    if q.dtype.bits != 8 or product(scale.shape) != 1:
        return _unary(k, x, y, fn_)
    low, step = int(q.dtype.min), scale.reshaped(())[()].cast(t.float32)

    def value(b: Axis) -> Expr:
        return quantised(fn_(difference(b + low, zero).cast(t.float32) * step), *y, q.dtype)

    values = k.compute((256,), value)
    return k.compute(q.shape, lambda *i: values[q[i].cast(t.int64) - low])


@contrib("QLinearSigmoid", "approximate")
def qlinear_sigmoid(
    k: Builder,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None = None,
    y_scale: Tensor | None = None,
    y_zero_point: Tensor | None = None,
) -> Tensor:
    step = needed(y_scale, "Y_scale")
    return _by_table(k, (x, x_scale, x_zero_point), (step, y_zero_point), fn.sigmoid)


@contrib("QLinearLeakyRelu", "rounding")
def qlinear_leaky_relu(
    k: Builder,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None = None,
    y_scale: Tensor | None = None,
    y_zero_point: Tensor | None = None,
    *,
    alpha: float = 0.01,
) -> Tensor:
    step = needed(y_scale, "Y_scale")

    def slope(e: Expr) -> Expr:
        return where(e < 0, e * alpha, e)

    return _unary(k, (x, x_scale, x_zero_point), (step, y_zero_point), slope)


@contrib("QLinearSoftmax", "approximate")
def qlinear_softmax(
    k: Builder,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None = None,
    y_scale: Tensor | None = None,
    y_zero_point: Tensor | None = None,
    *,
    axis: int = -1,
    opset: int,
) -> Tensor:
    """Softmax along the axis, or before operator set 13 over all axes from it on."""
    first = normalize_axis(axis, x.rank)
    axes = range(first, x.rank) if opset < 13 else [first]
    whole = x, x_scale, x_zero_point
    wide = k.compute(x.shape, lambda *i: real(whole, i), t.float32)
    p, step = softmax(k, wide, axes), needed(y_scale, "Y_scale")
    return k.compute(x.shape, lambda *i: quantised(p[i], step, y_zero_point, x.dtype))


@contrib("QLinearWhere", "rounding")
def qlinear_where(
    k: Builder,
    condition: Tensor,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    y: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
    z_scale: Tensor,
    z_zero_point: Tensor,
) -> Tensor:
    as_z = z_scale, z_zero_point
    left = _unary(k, (x, x_scale, x_zero_point), as_z, lambda e: e)
    right = _unary(k, (y, y_scale, y_zero_point), as_z, lambda e: e)
    return where_(k, condition, left, right)


@contrib("QLinearConcat", "rounding")
def qlinear_concat(
    k: Builder, y_scale: Tensor, y_zero_point: Tensor, *inputs: Tensor, axis: int
) -> Tensor:
    """The inputs (tensor, scale, zero point)..., each quantised anew, one after the other."""
    if len(inputs) % 3:
        raise InvalidModel("QLinearConcat takes a tensor, a scale and a zero point each")
    parts = []
    for j in range(0, len(inputs), 3):
        part = inputs[j], inputs[j + 1], inputs[j + 2]
        parts.append(_unary(k, part, (y_scale, y_zero_point), lambda e: e))
    return concat(k, *parts, axis=axis)


@contrib("QLinearConv", "rounding")
@attributes_of(qlinear_conv)
def ms_qlinear_conv(
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
    *,
    channels_last: int = 0,
    **attributes: Any,
) -> Tensor:
    """QLinearConv; with channels_last x and y, not w, have their channels last."""
    y = qlinear_conv(
        k,
        channels_first(k, x) if channels_last else x,
        x_scale,
        x_zero_point,
        w,
        w_scale,
        w_zero_point,
        y_scale,
        y_zero_point,
        b,
        **attributes,
    )
    return channels_behind(k, y) if channels_last else y


@contrib("QGemm", "rounding")
def q_gemm(
    k: Builder,
    a: Tensor,
    a_scale: Tensor,
    a_zero_point: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor,
    c: Tensor | None = None,
    y_scale: Tensor | None = None,
    y_zero_point: Tensor | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """The exact int32 sum of products and of c, times (alpha * a_scale * b_scale), which y_scale
    divides where there is one; without it the result is float32."""
    left = transpose(k, a, perm=(1, 0)) if transA else a
    right = transpose(k, b, perm=(1, 0)) if transB else b
    x, w = centred(k, left, a_zero_point, -2), centred(k, right, b_zero_point, -1)
    k.need_equal(x.shape[1], w.shape[0], "the inner sizes of QGemm")

    def element(i: Axis, j: Axis) -> Expr:
        y = k.dot((x.shape[1],), lambda q: (x[i, q], w[q, j]))
        return y if c is None else y + c.broadcast((i, j))

    total = k.compute((x.shape[0], w.shape[1]), element, t.int32)

    def step(i: Sequence[Expr]) -> Expr:
        first = at_axis(a_scale, -2)(i)
        first = first if alpha == 1 else first * alpha
        return first * at_axis(b_scale, -1)(i)

    if y_scale is None:
        return k.compute(total.shape, lambda *i: cast(total[i], t.float32) * step(i), t.float32)
    dtype = a.dtype if y_zero_point is None else y_zero_point.dtype

    def out(*i: Axis) -> Expr:
        factor = step(i) / at_axis(y_scale, -2)(i)
        zero = None if y_zero_point is None else at_axis(y_zero_point, -2)(i)
        return quantized(cast(total[i], t.float32) * factor, zero, dtype)

    return k.compute(total.shape, out, dtype)
