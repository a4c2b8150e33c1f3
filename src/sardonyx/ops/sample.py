"""Operators that sample their input at places that another input holds: GridSample, DeformConv."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import mul

from sardonyx import types as t
from sardonyx.dims import Dim
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, alu, lift, where
from sardonyx.ops.common import compute_type, minimum
from sardonyx.ops.conv import check_weights, grouped, sum_of_products, weight_loader
from sardonyx.ops.interpolate import Filter, clamped, kernel
from sardonyx.ops.registry import operator
from sardonyx.ops.sizes import agree, numbers
from sardonyx.ops.window import window

MODES = {"bilinear": "linear", "bicubic": "cubic"}
Pixel = Callable[[Sequence[Expr]], Expr]


@operator("GridSample", 16, accuracy="rounding")
def grid_sample_16(
    k: Builder,
    x: Tensor,
    grid: Tensor,
    *,
    align_corners: int = 0,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
) -> Tensor:
    return _grid_sample(k, x, grid, bool(align_corners), MODES.get(mode, mode), padding_mode)


@operator("GridSample", 20, 22, accuracy="rounding")
def grid_sample(
    k: Builder,
    x: Tensor,
    grid: Tensor,
    *,
    align_corners: int = 0,
    mode: str = "linear",
    padding_mode: str = "zeros",
) -> Tensor:
    return _grid_sample(k, x, grid, bool(align_corners), mode, padding_mode)


def _grid_sample(
    k: Builder, x: Tensor, grid: Tensor, align: bool, mode: str, padding: str
) -> Tensor:
    """y[n, c, o] is x[n, c] at the place grid[n, o], whose last spatial axis comes first."""
    spatial, rank = x.shape[2:], x.rank - 2
    agree(grid.shape[-1], rank, "the last axis of grid and the number of spatial axes")
    agree(grid.shape[0], x.shape[0], "the batch of grid and of the input")
    _known(mode, ("nearest", "linear", "cubic"), "mode")
    _known(padding, ("zeros", "border", "reflection"), "padding_mode")

    def place(n: Axis, *rest: Axis) -> Expr:
        *o, j = rest
        return grid[(n, *o, (rank - 1) - j)]

    normalized = k.compute(grid.shape, place, compute_type(grid.dtype))

    def element(n: Axis, c: Axis, *o: Axis) -> Expr:
        at = []
        for j, d in enumerate(spatial):
            v = _denormalized(normalized[(n, *o, lift(j))], d, align)
            v = alu("rint", v) if mode == "nearest" else v
            at.append(_reflected(v, d, align) if padding == "reflection" else v)

        def pixel(index: Sequence[Expr]) -> Expr:
            if padding == "zeros":
                return x.guard((n, c, *index))
            inner = zip(index, spatial, strict=True)
            return x[(n, c, *[_pixel_index(i, d, align, padding) for i, d in inner])]

        if mode == "nearest":
            return pixel([v.cast(t.int64) for v in at])
        return interpolated(k, Filter(mode), pixel, at, compute_type(x.dtype))

    return k.compute((*x.shape[:2], *grid.shape[1:-1]), element, x.dtype)


def _known(value: str, values: Sequence[str], what: str) -> None:
    if value not in values:
        raise InvalidModel(f"{what} {value!r} is not one of {', '.join(values)}")


def _denormalized(v: Expr, d: Dim, align: bool) -> Expr:
    """-1 and 1 are the centers of the corner pixels (align), or their outer edges."""
    size = lift(d).cast(v.dtype)
    return (v + 1.0) / 2.0 * (size - 1.0) if align else ((v + 1.0) * size - 1.0) / 2.0


def _reflected(v: Expr, d: Dim, align: bool) -> Expr:
    """A coordinate outside the borders reflected at them until it is inside."""
    last = lift(d).cast(v.dtype) - 1.0
    low, span = (lift(0.0, v.dtype), last) if align else (lift(-0.5, v.dtype), last + 1.0)
    turn = alu("fmod", alu("abs", v - low), span * 2.0)
    inside = low + minimum(turn, span * 2.0 - turn)
    return where((v < low) | (v > low + span), inside, v)


def _pixel_index(i: Expr, d: Dim, align: bool, padding: str) -> Expr:
    """The index of the pixel that stands for pixel i, which may be outside."""
    if padding == "reflection":
        i = _reflected(i.cast(t.float64), d, align).cast(t.int64)
    return clamped(i, d)


def interpolated(k: Builder, f: Filter, pixel: Pixel, at: Sequence[Expr], dtype: t.DType) -> Expr:
    """The weighted sum of the pixels around a place, whose coordinates are `at`."""
    reach = 1 if f.mode == "linear" else 2
    low = [alu("floor", v) for v in at]

    def term(*n: Axis) -> tuple[Expr, Expr]:
        steps = [j + (1 - reach) for j in n]
        index = [v.cast(t.int64) + j for v, j in zip(low, steps, strict=True)]
        factors = [
            kernel(f, alu("abs", j.cast(v.dtype) - (v - base)))
            for v, base, j in zip(at, low, steps, strict=True)
        ]
        return reduce(mul, factors).cast(dtype), pixel(index).cast(dtype)

    return k.dot((2 * reach,) * len(at), term)


@operator("DeformConv", 19, 22, accuracy="rounding")
def deform_conv(
    k: Builder,
    x: Tensor,
    w: Tensor,
    offset: Tensor,
    b: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    offset_group: int = 1,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """Conv whose elements of x are sampled linearly at places moved by `offset`, zeros outside,
    and multiplied with `mask`."""
    total, channels, *size = numbers(w.shape, "the shape of the weights")
    check_weights(x, channels * group, total, group, size, kernel_shape)
    if channels * group % offset_group:
        raise InvalidModel(f"offset_group {offset_group} does not divide {channels * group}")
    win = window(x.shape[2:], size, strides, dilations, "NOTSET", pads)
    rank, filters = len(size), total // group
    shared = channels * group // offset_group  # input channels that move together
    moves = offset.reshaped((x.shape[0], offset_group, *size, rank, *win.output))
    masks = mask and mask.reshaped((x.shape[0], offset_group, *size, *win.output))
    weight = weight_loader(w, channels)
    dtype = compute_type(x.dtype)

    def element(n: Axis, g: Expr, m: Expr, o: Sequence[Axis]) -> Expr:
        def sampled(c: Expr, r: Sequence[Expr]) -> Expr:
            along = c // shared if offset_group > 1 else lift(0)
            at = [
                p.cast(dtype) + moves.guard((n, along, *r, lift(j), *o)).cast(dtype)
                for j, p in enumerate(win.at(o, r))
            ]
            value = interpolated(k, Filter("linear"), lambda i: x.guard((n, c, *i)), at, dtype)
            return value if masks is None else value * masks.guard((n, along, *r, *o))

        def term(c: Expr, r: Sequence[Expr]) -> tuple[Expr, Expr]:
            return sampled(g * channels + c, r), weight((g * filters + m, c, *r))

        return sum_of_products(k, channels, size, term)

    return grouped(k, x, b, group, filters, win.output, element)
