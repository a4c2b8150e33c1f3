"""Pools of com.microsoft over quantised tensors, and with channels last.

Averages are exact int32 sums, rounded once (ops/qlinear.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeAlias

from sardonyx import types as t
from sardonyx.dims import product
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, cast, lift
from sardonyx.ops.movement import channels_behind, channels_first
from sardonyx.ops.ms_common import contrib, needed
from sardonyx.ops.pool import counts, global_shape, max_pool
from sardonyx.ops.qlinear import at_axis, centred, requantized
from sardonyx.ops.quantize import quantized
from sardonyx.ops.registry import Definition, attributes_of
from sardonyx.ops.window import Window, window

Count: TypeAlias = Callable[[Builder, Window, bool], Callable[[Sequence[Axis]], Expr]]


@contrib("QLinearGlobalAveragePool", "rounding")
def qlinear_global_average_pool(
    k: Builder,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor,
    y_scale: Tensor,
    y_zero_point: Tensor,
    *,
    channels_last: int = 0,
) -> Tensor:
    """round(float32(exact sum) * (x_scale * (1 / count) / y_scale)) + zero point."""
    if channels_last:
        y = qlinear_global_average_pool(
            k, channels_first(k, x), x_scale, x_zero_point, y_scale, y_zero_point
        )
        return channels_behind(k, y)
    q, places = centred(k, x, x_zero_point, 0), x.shape[2:]
    total = k.compute(
        global_shape(x), lambda n, c, *_: k.sum(places, lambda *r: q[(n, c, *r)]), t.int32
    )
    count = product(places)
    share = k.compute((), lambda: 1.0 / cast(lift(count), t.float32), t.float32)
    scales = at_axis(x_scale, 1), at_axis(share, 1), at_axis(y_scale, 1)
    return requantized(k, total, *scales, y_zero_point, 1)


def _average_pool(
    k: Builder,
    x: Tensor,
    x_scale: Tensor,
    x_zero_point: Tensor | None,
    y_scale: Tensor | None,
    y_zero_point: Tensor | None,
    count: Count,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    channels_last: int = 0,
    count_include_pad: int = 0,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """round(float32(exact sum) * (x_scale * (1 / count) / y_scale)) + zero point; padding that
    counts stands for zeros."""
    x = channels_first(k, x) if channels_last else x
    win = window(x.shape[2:], kernel_shape, strides, None, auto_pad, pads, ceil_mode)
    number = count(k, win, bool(count_include_pad))
    shape, wide = (*x.shape[:2], *win.output), t.float32 if x.dtype.is_float else t.int32
    step = needed(y_scale, "y_scale")
    middle = None if x_zero_point is None else at_axis(x_zero_point, 0)

    def element(n: Axis, c: Axis, *o: Axis) -> Expr:
        around = lift(0, x.dtype) if middle is None else middle((n, c))

        def term(*r: Axis) -> Expr:
            found = cast(x.guard((n, c, *win.at(o, r)), around), wide)
            return found - cast(around, wide) if wide.is_float else found

        total = k.sum(win.kernel, term)
        if not wide.is_float:  # int32 wraps: so many zero points less
            total = total - cast(around, wide) * prod(win.kernel)
        share = 1.0 / cast(number(o), t.float32)
        factor = at_axis(x_scale, 1)((n, c)) * share / at_axis(step, 1)((n, c))
        zero = None if y_zero_point is None else at_axis(y_zero_point, 1)((n, c))
        return quantized(cast(total, t.float32) * factor, zero, dtype)

    dtype = x.dtype if y_zero_point is None else y_zero_point.dtype
    y = k.compute(shape, element, dtype)
    return channels_behind(k, y) if channels_last else y


def _positions(k: Builder, win: Window, padding: bool) -> Callable[[Sequence[Axis]], Expr]:
    """As onnxruntime counts: where padding does, all of the window, what is past it included."""
    whole = lift(prod(win.kernel))
    return (lambda _: whole) if padding else counts(k, win, padding)


def _definition(count: Count) -> Definition:
    @attributes_of(_average_pool)
    def define(
        k: Builder,
        x: Tensor,
        x_scale: Tensor,
        x_zero_point: Tensor | None = None,
        y_scale: Tensor | None = None,
        y_zero_point: Tensor | None = None,
        **attributes: Any,
    ) -> Tensor:
        given = x, x_scale, x_zero_point, y_scale, y_zero_point
        return _average_pool(k, *given, count, **attributes)

    return define


contrib("QLinearAveragePool", "rounding")(_definition(_positions))
q_average_pool = _definition(counts)  # AveragePool of integers: what is past the padding is none


@contrib("NhwcMaxPool")
def nhwc_max_pool(
    k: Builder,
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    y, _ = max_pool(
        k,
        channels_first(k, x),
        kernel_shape=kernel_shape,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
        dilations=dilations,
        pads=pads,
        strides=strides,
    )
    return channels_behind(k, y)
