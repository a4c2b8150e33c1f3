"""QuantizeLinear and DequantizeLinear: per tensor, per axis, and blocked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sardonyx import types as t
from sardonyx.errors import InvalidModel, Undetermined
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, alu, cast, lift
from sardonyx.ops.common import maximum, minimum, need_dtype, normalize_axis
from sardonyx.ops.registry import operator, version_of
from sardonyx.ops.sizes import agree, ceil_div
from sardonyx.types import DType

Place: TypeAlias = Callable[[tuple[Axis, ...]], tuple[Expr, ...]]


@operator("QuantizeLinear", 19)
@operator("QuantizeLinear", 21)
@operator("QuantizeLinear", 23, 24, 25, 28)
def quantize_linear(
    k: Builder,
    x: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
    precision: int = 0,
    saturate: int = 1,
) -> Tensor:
    """saturate(round(x / y_scale) + y_zero_point), rounding to nearest even; a NaN gives the 0 of
    an integer type. To a float type: x / y_scale + y_zero_point, rounded once.

    The quotient is one division in float32, rounded to `precision` where that is a 16-bit float;
    from version 23 on the type of y_scale stands in for `precision`.
    """
    zero_type = t.uint8 if y_zero_point is None else y_zero_point.dtype
    dtype = need_dtype(output_dtype) if output_dtype else zero_type
    if y_zero_point is not None and dtype is not zero_type:
        raise InvalidModel(f"output_dtype is {dtype}, the zero point has the type {zero_type}")
    narrow = need_dtype(precision) if precision else t.float32
    if k.since >= 23 and not precision and y_scale.dtype in (t.float16, t.bfloat16):
        narrow = y_scale.dtype
    _check_zero_point(k, y_zero_point, y_scale)
    scale = _parameter(x, y_scale, axis, block_size)
    zero = None if y_zero_point is None else _parameter(x, y_zero_point, axis, block_size)

    def element(*i: Axis) -> Expr:
        quotient = cast(cast(x[i], t.float32) / cast(y_scale[scale(i)], t.float32), narrow)
        shift = None if y_zero_point is None or zero is None else y_zero_point[zero(i)]
        return quantized(cast(quotient, t.float32), shift, dtype, bool(saturate))

    return k.compute(x.shape, element, dtype)


_quantize_linear_13 = version_of(
    quantize_linear, "block_size", "output_dtype", "precision", "saturate"
)
operator("QuantizeLinear", 13)(_quantize_linear_13)
operator("QuantizeLinear", 10)(version_of(_quantize_linear_13, "axis"))


def quantized(value: Expr, zero_point: Expr | None, dtype: DType, saturate: bool = True) -> Expr:
    """saturate(round(value) + zero_point) of a float32; floats are not rounded before the end."""
    value = alu("rint", value) if dtype.is_integer else value
    value = value if zero_point is None else value + cast(zero_point, t.float32)
    if dtype.is_integer and dtype.is_storage:  # their casts keep the low bits
        value = minimum(maximum(value, dtype.min), dtype.max)
    return cast(value, dtype, saturate)


@operator("DequantizeLinear", 21)
@operator("DequantizeLinear", 23, 24, 25, 28)
def dequantize_linear(
    k: Builder,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    output_dtype: int = 0,
) -> Tensor:
    """(x - x_zero_point) * x_scale: the difference (of integers: exact) in float32, one product."""
    dtype = need_dtype(output_dtype) if output_dtype else x_scale.dtype
    if dtype is t.float8e8m0:
        raise InvalidModel("DequantizeLinear by scales of float8e8m0 needs an output_dtype")
    wide = t.float32 if x.dtype.is_float else t.int64 if x.dtype.bits > 16 else t.int32
    _check_zero_point(k, x_zero_point, x_scale)
    scale = _parameter(x, x_scale, axis, block_size)
    zero = None if x_zero_point is None else _parameter(x, x_zero_point, axis, block_size)

    def element(*i: Axis) -> Expr:
        value = cast(x[i], wide)
        if x_zero_point is not None and zero is not None:
            value = value - cast(x_zero_point[zero(i)], wide)
        return cast(value, t.float32) * cast(x_scale[scale(i)], t.float32)

    return k.compute(x.shape, element, dtype)


_dequantize_linear_13 = version_of(dequantize_linear, "block_size", "output_dtype")
operator("DequantizeLinear", 13, 19)(_dequantize_linear_13)
operator("DequantizeLinear", 10)(version_of(_dequantize_linear_13, "axis"))


def _check_zero_point(k: Builder, zero_point: Tensor | None, scale: Tensor) -> None:
    """A zero point has the shape of the scale; where both are one number, any."""
    if zero_point is None:
        return
    others = [n for n in (*zero_point.shape, *scale.shape) if n != 1]
    if zero_point.rank != scale.rank and others and not any(isinstance(n, int) for n in others):
        raise Undetermined(f"whether {others[0]} is 1, as of one scale, depends on symbolic dims")
    if others:
        k.need_shape(zero_point, scale.shape, "the zero point")


def _parameter(x: Tensor, p: Tensor, axis: int, block_size: int) -> Place:
    """Where the scale or zero point p of an element of x stands: one for the tensor, one for each
    index of the axis, or one for each block of `block_size` elements along it."""
    if all(n == 1 for n in p.shape) and not block_size:
        return lambda i: (lift(0),) * p.rank
    a = normalize_axis(axis, x.rank)
    if not block_size:
        if p.rank != 1:
            raise InvalidModel(f"a scale or zero point of rank {p.rank} needs a block_size")
        agree(p.shape[0], x.shape[a], "the scales and the size of their axis")
        return lambda i: (i[a],)
    if p.rank != x.rank:
        raise InvalidModel(f"blocked scales have the rank of the data, found {p.rank}, {x.rank}")
    for d, (n, m) in enumerate(zip(p.shape, x.shape, strict=True)):
        agree(n, ceil_div(m, block_size) if d == a else m, "the scales and the blocks of the data")
    return lambda i: (*i[:a], i[a] // block_size, *i[a + 1 :])
