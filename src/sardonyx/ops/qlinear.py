"""Integer and quantised products: exact int32 sums of values less their zero points.

A quantised result is round(float32(sum) * float32(scale)) + zero point, saturated, where the scale
is (sa * sb) / sy, each operation rounded to float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sardonyx import types as t
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, Operand, cast, lift
from sardonyx.ops.conv import conv
from sardonyx.ops.matmul import matmul
from sardonyx.ops.quantize import quantized
from sardonyx.ops.registry import attributes_of, operator

Parameter = Callable[[Sequence[Operand]], Expr]


@operator("MatMulInteger", 10)
def matmul_integer(
    k: Builder,
    a: Tensor,
    b: Tensor,
    a_zero_point: Tensor | None = None,
    b_zero_point: Tensor | None = None,
) -> Tensor:
    """(a - a_zero_point) @ (b - b_zero_point); a vector of zero points is one for each row of a,
    or column of b."""
    return matmul(k, centred(k, a, a_zero_point, -2), centred(k, b, b_zero_point, -1))


@operator("ConvInteger", 10)
@attributes_of(conv)
def conv_integer(
    k: Builder,
    x: Tensor,
    w: Tensor,
    x_zero_point: Tensor | None = None,
    w_zero_point: Tensor | None = None,
    **attributes: Any,
) -> Tensor:
    """Conv of x - x_zero_point and w - w_zero_point; padding stands for the zero point."""
    return conv(
        k,
        centred(k, x, x_zero_point, 0),
        centred(k, w, w_zero_point, 0),
        **attributes,
    )


@operator("QLinearMatMul", 10, 21)
def qlinear_matmul(
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
    """Scales and zero points: one for the tensor, for each row of a and y, or column of b."""
    total = matmul_integer(k, a, b, a_zero_point, b_zero_point)
    return requantized(
        k, total, at_axis(a_scale, -2), at_axis(b_scale, -1), at_axis(y_scale, -2), y_zero_point, -2
    )


@operator("QLinearConv", 10)
@attributes_of(conv)
def qlinear_conv(
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
    """w_scale and w_zero_point: one for the tensor or for each output channel; b is added to the
    int32 sum."""
    total = conv(
        k,
        centred(k, x, x_zero_point, 0),
        centred(k, w, w_zero_point, 0),
        b,
        **attributes,
    )
    return requantized(
        k, total, at_axis(x_scale, 1), at_axis(w_scale, 1), at_axis(y_scale, 1), y_zero_point, 1
    )


def centred(k: Builder, x: Tensor, zero_point: Tensor | None, axis: int) -> Tensor:
    """x less its zero point, as int32; floats of 8 bits as float32."""
    wide = t.float32 if x.dtype.is_float else t.int32
    if zero_point is None:
        return k.compute(x.shape, lambda *i: x[i], wide)
    zero = at_axis(zero_point, axis)
    return k.compute(x.shape, lambda *i: cast(x[i], wide) - cast(zero(i), wide), wide)


def requantized(
    k: Builder,
    total: Tensor,
    a_scale: Parameter,
    b_scale: Parameter,
    y_scale: Parameter,
    zero_point: Tensor,
    axis: int,
) -> Tensor:
    zero = at_axis(zero_point, axis)

    def element(*i: Axis) -> Expr:
        a, b, y = (cast(s(i), t.float32) for s in (a_scale, b_scale, y_scale))
        return quantized(cast(total[i], t.float32) * (a * b / y), zero(i), zero_point.dtype)

    return k.compute(total.shape, element, zero_point.dtype)


def at_axis(p: Tensor, axis: int) -> Parameter:
    """How a scale or zero point is loaded at an index: one for the tensor, one for each index of
    the axis, or one that broadcasts."""
    if all(n == 1 for n in p.shape):
        return lambda i: p[(lift(0),) * p.rank]
    if p.rank == 1:
        return lambda i: p.broadcast((i[axis],))
    return lambda i: p.broadcast(i)
