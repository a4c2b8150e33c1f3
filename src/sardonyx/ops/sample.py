"""Operators that sample their input at places that another input holds: GridSample, DeformConv."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from operator import mul

from sardonyx import types as t
from sardonyx.dims import Dim, product
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, alu, lift, where
from sardonyx.ops.common import compute_type, minimum, one_of
from sardonyx.ops.conv import check_weights, grouped, sum_of_products, weight_loader
from sardonyx.ops.index import flat_index, index_type
from sardonyx.ops.interpolate import Filter, clamped, kernel
from sardonyx.ops.registry import operator
from sardonyx.ops.sizes import agree, numbers
from sardonyx.ops.window import window, within

REACH = {"nearest": 0, "linear": 1, "cubic": 2}  # pixels on each side of a place
MODES = {"bilinear": "linear", "bicubic": "cubic"}


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
    """y[n, c, o] is x[n, c] at the place grid[n, o], whose last spatial axis comes first. Which
    pixels that are, and their weights, is computed once for all channels."""
    spatial, rank = x.shape[2:], x.rank - 2
    agree(grid.shape[-1], rank, "the last axis of grid and the number of spatial axes")
    agree(grid.shape[0], x.shape[0], "the batch of grid and of the input")
    one_of(mode, tuple(REACH), "mode")
    one_of(padding, ("zeros", "border", "reflection"), "padding_mode")
    dtype = compute_type(x.dtype)
    at = [_places(k, grid, j, d, align, mode, padding) for j, d in enumerate(spatial)]

    def offset(index: list[Expr]) -> Expr:
        if padding == "zeros":
            return _inside(index, spatial)
        inner = zip(index, spatial, strict=True)
        return flat_index([_pixel_index(i, d, align, padding) for i, d in inner], spatial)

    around = _around(k, at, mode, offset, spatial, dtype)
    value = _sampled(k, x, around)
    return k.compute((*x.shape[:2], *grid.shape[1:-1]), value, x.dtype)


@dataclass(frozen=True, slots=True)
class _Around:
    """The pixels around places, (batch, *taps, *places): their offsets in the image, out of bounds
    for those that are 0, and their weights (none: one pixel is the value)."""

    taps: tuple[int, ...]
    offsets: Tensor
    weights: Tensor | None


def _around(
    k: Builder,
    at: Sequence[Tensor],
    mode: str,
    offset: Callable[[list[Expr]], Expr],
    spatial: Sequence[Dim],
    dtype: t.DType,
) -> _Around:
    """Of places with these coordinates (batch, *places), one tensor of them for each spatial axis;
    offset(index) is the place of a pixel in memory."""
    reach, (batch, *rest) = REACH[mode], at[0].shape
    taps = (2 * reach,) * len(spatial) if reach else ()

    def place(n: Axis, *i: Axis) -> Expr:
        r, o = i[: len(taps)], i[len(taps) :]
        index = [alu("floor", v[(n, *o)]).cast(t.int64) for v in at]
        return offset(
            [i + (j + (1 - reach)) for i, j in zip(index, r, strict=True)] if r else index
        )

    def weight(n: Axis, *i: Axis) -> Expr:
        r, o = i[: len(taps)], i[len(taps) :]
        return reduce(mul, _factors(Filter(mode), [v[(n, *o)] for v in at], r)).cast(dtype)

    shape = (batch, *taps, *rest)
    offsets = k.compute(shape, place, index_type(product(tuple(spatial))))
    return _Around(taps, offsets, k.compute(shape, weight, dtype) if reach else None)


def _inside(index: Sequence[Expr], spatial: Sequence[Dim]) -> Expr:
    """The offset of a pixel of the image, -1 outside."""
    return where(within(index, [0] * len(index), spatial), flat_index(index, spatial), -1)


def _sampled(k: Builder, x: Tensor, around: _Around) -> Callable[..., Expr]:
    """The value at (batch, channel, *place)."""
    pixels = x.reshaped((*x.shape[:2], product(x.shape[2:])))

    def value(n: Axis, c: Expr, *o: Expr) -> Expr:
        def pixel(*r: Axis) -> Expr:
            return pixels.guard((n, c, around.offsets[(n, *r, *o)].cast(t.int64)))

        weights = around.weights
        if weights is None:
            return pixel()
        return k.dot(around.taps, lambda *r: (weights[(n, *r, *o)], pixel(*r).cast(weights.dtype)))

    return value


def _places(
    k: Builder, grid: Tensor, axis: int, d: Dim, align: bool, mode: str, padding: str
) -> Tensor:
    """The coordinates along a spatial axis of size d."""
    wide, last = compute_type(grid.dtype), grid.shape[-1]

    def place(*i: Axis) -> Expr:
        v = _denormalized(grid[(*i, (last - 1) - axis)].cast(wide), d, align)
        v = alu("rint", v) if mode == "nearest" else v
        return _reflected(v, d, align) if padding == "reflection" else v

    return k.compute(grid.shape[:-1], place, wide)


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


def _factors(f: Filter, at: Sequence[Expr], n: Sequence[Expr]) -> list[Expr]:
    """The weight along each axis of the n-th pixels around a place."""
    steps = [(j + (1 - REACH[f.mode])).cast(v.dtype) for v, j in zip(at, n, strict=True)]
    pairs = zip(at, steps, strict=True)
    return [kernel(f, alu("abs", j - (v - alu("floor", v)))) for v, j in pairs]


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
    rank, filters, places = len(size), total // group, offset_group * prod(size)
    k.need_shape(offset, (x.shape[0], places * rank, *win.output), "offset")
    k.need_shape(mask, (x.shape[0], places, *win.output), "mask")
    shared = channels * group // offset_group  # input channels that move together
    moves = offset.reshaped((x.shape[0], offset_group, *size, rank, *win.output))
    masks = mask and mask.reshaped((x.shape[0], offset_group, *size, *win.output))
    weight = weight_loader(w, channels)
    dtype = compute_type(x.dtype)

    image = [r * d for r, d in zip(size, win.output, strict=True)]  # (position, place) by axis

    def parted(i: Sequence[Expr]) -> tuple[list[Expr], list[Expr]]:
        """The kernel position and the place that an index of the image stands for."""
        pairs = list(zip(i, win.output, strict=True))
        return [y // d for y, d in pairs], [y % d for y, d in pairs]

    def along(j: int) -> Tensor:
        def coordinate(n: Axis, a: Axis, *i: Axis) -> Expr:
            r, o = parted(i)
            return win.at(o, r)[j].cast(dtype) + moves.guard((n, a, *r, lift(j), *o)).cast(dtype)

        return k.compute((x.shape[0], offset_group, *image), coordinate, dtype)

    at = [along(j) for j in range(rank)]
    around = _around(k, at, "linear", lambda i: _inside(i, x.shape[2:]), x.shape[2:], dtype)
    value = _sampled(k, x, around)
    factors = masks and k.compute(
        at[0].shape, lambda n, a, *i: masks.guard((n, a, *(v for p in parted(i) for v in p))), dtype
    )

    def column(n: Axis, c: Axis, *i: Axis) -> Expr:
        a = c // shared if offset_group > 1 else lift(0)
        found = value(n, c, a, *i)
        return found if factors is None else found * factors[(n, a, *i)]

    columns = k.compute((*x.shape[:2], *image), column, dtype)

    def element(n: Axis, g: Expr, m: Expr, o: Sequence[Axis]) -> Expr:
        def term(c: Expr, r: Sequence[Expr]) -> tuple[Expr, Expr]:
            place = [i + j * d for i, d, j in zip(o, win.output, r, strict=True)]
            column = columns.guard((n, g * channels + c, *place))
            return column, weight((g * filters + m, c, *r))

        return sum_of_products(k, channels, size, term)

    return grouped(k, x, b, group, filters, win.output, element)
