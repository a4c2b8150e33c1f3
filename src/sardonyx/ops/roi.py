"""RoiAlign and MaxRoiPool: regions of an image, each pooled to one size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sardonyx import types as t
from sardonyx.dims import Dim
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, alu, cast, lift, where
from sardonyx.ops.common import compute_type, maximum, minimum
from sardonyx.ops.index import index_type
from sardonyx.ops.registry import operator


@operator("RoiAlign", 10, accuracy="rounding")
def roi_align_10(
    k: Builder,
    x: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    *,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    size = output_height, output_width
    return _align(k, x, rois, batch_indices, mode, size, sampling_ratio, spatial_scale, False)


@operator("RoiAlign", 16, 22, accuracy="rounding")
def roi_align(
    k: Builder,
    x: Tensor,
    rois: Tensor,
    batch_indices: Tensor,
    *,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Tensor:
    if coordinate_transformation_mode not in ("half_pixel", "output_half_pixel"):
        raise InvalidModel(f"unknown mode of coordinates {coordinate_transformation_mode!r}")
    size, half = (output_height, output_width), coordinate_transformation_mode == "half_pixel"
    return _align(k, x, rois, batch_indices, mode, size, sampling_ratio, spatial_scale, half)


@dataclass(frozen=True, slots=True)
class _Grid:
    """The samples of a region on each axis (height, width), as tensors of (region, axis).

    start: of the region. bin: the size of one bin. count: the samples in a bin. first: the first
    of them that can lie in the image; `window` samples from there on reach beyond its end.
    """

    start: Tensor
    bin: Tensor
    count: Tensor
    window: tuple[Dim, Dim]

    def base(self, n: Axis, axis: int, p: Expr) -> Expr:
        return self.start[n, axis] + cast(p, self.bin.dtype) * self.bin[n, axis]

    def spacing(self, n: Axis, axis: int) -> Expr:
        return self.bin[n, axis] / cast(self.count[n, axis], self.bin.dtype)

    def first(self, n: Axis, axis: int, p: Expr) -> Expr:
        before = (-1 - self.base(n, axis, p)) / self.spacing(n, axis) - 0.5
        return maximum(cast(alu("floor", before), t.int64), 0)

    def outside(self, n: Axis, axis: int, p: Expr) -> Expr:
        """Whether samples are left out of the window; all of them are 0."""
        before = self.first(n, axis, p) > 0
        return before | (self.count[n, axis] > self.window[axis])

    def place(self, n: Axis, axis: int, p: Expr, i: Expr) -> Expr:
        """base + (i + 0.5) * bin / count."""
        half = cast(i, self.bin.dtype) + 0.5
        size, count = self.bin[n, axis], cast(self.count[n, axis], self.bin.dtype)
        return self.base(n, axis, p) + half * size / count


def _align(
    k: Builder,
    x: Tensor,
    rois: Tensor,
    batch: Tensor,
    mode: str,
    size: tuple[int, int],
    sampling_ratio: int,
    scale: float,
    half_pixel: bool,
) -> Tensor:
    """The mean of samples, or the maximum of their weighted neighbours, in each bin of each region.
    Without a sampling_ratio there are ceil(bin) samples on an axis: at most two in a pixel, so that
    a window of twice the image holds all that are not zero."""
    if mode not in ("avg", "max"):
        raise InvalidModel(f"mode {mode!r} is not avg or max")
    k.need_shape(rois, (rois.shape[0], 4), "rois")
    k.need_shape(batch, (rois.shape[0],), "batch_indices")
    height, width = x.shape[2:]
    grid = _grid(k, rois, size, sampling_ratio, scale, half_pixel, (height, width))

    fixed = sampling_ratio > 0
    sides = (
        _side(k, grid, 0, size[0], height, width, fixed),
        _side(k, grid, 1, size[1], width, 1, fixed),
    )
    images = _images(k, x, rois, lambda n: batch[n])
    pixels = x.reshaped((*x.shape[:2], height * width))

    def element(n: Axis, c: Axis, *p: Axis) -> Expr:
        def at(r: Sequence[Axis]) -> list[tuple[Expr, Expr, Expr]]:
            return [s.at(n, q, i) for s, q, i in zip(sides, p, r, strict=True)]

        def sample(*r: Axis) -> Expr:
            (top, bottom, v), (left, right, u) = at(r)
            corners = [[pixels.guard((images[n], c, i + j)) for j in (left, right)]
                       for i in (top, bottom)]  # fmt: skip
            return where((top >= 0) & (left >= 0), _bilinear(corners, v, u), 0)

        def corner(*r: Axis) -> Expr:
            """One of the four weighted neighbours of a sample."""
            (top, bottom, v), (left, right, u) = at(r[:2])
            first, second = (q.eq(0) for q in r[2:])
            row, column = where(first, top, bottom), where(second, left, right)
            weight = where(first, 1 - v, v) * where(second, 1 - u, u)
            value = weight * pixels.guard((images[n], c, row + column))
            return where((top >= 0) & (left >= 0), value, 0)

        def there(*r: Axis) -> Expr:
            first, second = (i < s.left[n, q] for s, q, i in zip(sides, p, r[:2], strict=True))
            return first & second

        when = None if sampling_ratio > 0 else there
        if mode == "avg":
            total = k.sum(grid.window, sample, when)
        else:
            total = k.fold("max", (*grid.window, 2, 2), corner, when)
        if mode == "avg":
            samples = grid.count[n, 0] * grid.count[n, 1]
            return total / cast(maximum(samples, 1), total.dtype)
        empty = (grid.count[n, 0] <= 0) | (grid.count[n, 1] <= 0)
        outside = sides[0].outside[n, p[0]] | sides[1].outside[n, p[1]]
        return where(empty, 0, where(outside, maximum(total, 0), total))

    return k.compute((rois.shape[0], x.shape[1], *size), element, x.dtype)


def _images(k: Builder, x: Tensor, rois: Tensor, image: Callable[[Axis], Expr]) -> Tensor:
    """The image that each region is of; a run-time error where there is none."""
    numbers = k.compute((x.shape[0],), lambda i: i)
    return k.compute((rois.shape[0],), lambda n: numbers.trap((cast(image(n), t.int64),)))


@dataclass(frozen=True, slots=True)
class _Side:
    """The samples along one axis, as tensors of (region, bin, sample): where the pixels before and
    after each begin, the first -1 for one more than a pixel outside the image, and how far it lies
    from the first. By (region, bin): left: how many samples of the window there are; outside:
    whether others are left out."""

    before: Tensor
    after: Tensor
    rest: Tensor
    left: Tensor
    outside: Tensor

    def at(self, n: Axis, p: Axis, i: Axis) -> tuple[Expr, Expr, Expr]:
        index = n, p, i
        before, after = (cast(x[index], t.int64) for x in (self.before, self.after))
        return before, after, self.rest[index]


def _side(
    k: Builder, grid: _Grid, axis: int, bins: int, size: Dim, step: Dim, fixed: bool
) -> _Side:
    """The samples along an axis of the image, whose pixels are `step` apart: the same for all
    channels."""
    regions = grid.count.shape[0]
    shape, kind = (regions, bins, grid.window[axis]), index_type(size * step)

    def place(n: Axis, p: Axis, r: Axis) -> Expr:
        return grid.place(n, axis, p, r if fixed else grid.first(n, axis, p) + r)

    at = k.compute(shape, place, grid.bin.dtype)

    def before(*i: Axis) -> Expr:
        return where(_near(at[i], size), _neighbours(at[i], size)[0] * step, -1)

    def left(n: Axis, p: Axis) -> Expr:
        return grid.count[n, axis] - grid.first(n, axis, p)

    return _Side(
        k.compute(shape, before, kind),
        k.compute(shape, lambda *i: _neighbours(at[i], size)[1] * step, kind),
        k.compute(shape, lambda *i: _neighbours(at[i], size)[2], grid.bin.dtype),
        k.compute((regions, bins), left),
        k.compute((regions, bins), lambda n, p: grid.outside(n, axis, p)),
    )


def _grid(
    k: Builder,
    rois: Tensor,
    size: tuple[int, int],
    sampling_ratio: int,
    scale: float,
    half_pixel: bool,
    image: tuple[Dim, Dim],
) -> _Grid:
    """A region is (x1, y1, x2, y2); without half pixels it is at least one pixel large."""
    wide, shape = compute_type(rois.dtype), (rois.shape[0], 2)

    def edge(n: Axis, column: Expr) -> Expr:
        return cast(rois[n, column], wide) * scale - (0.5 if half_pixel else 0.0)

    start = k.compute(shape, lambda n, a: edge(n, 1 - a), wide)

    def bin_size(n: Axis, a: Axis) -> Expr:
        extent = edge(n, 3 - a) - start[n, a]
        extent = extent if half_pixel else maximum(extent, 1)
        return extent / where(a.eq(0), lift(float(size[0]), wide), float(size[1]))

    bins = k.compute(shape, bin_size, wide)
    if sampling_ratio > 0:
        count = k.compute(shape, lambda n, a: lift(sampling_ratio), t.int64)
        return _Grid(start, bins, count, (sampling_ratio, sampling_ratio))
    count = k.compute(shape, lambda n, a: alu("ceil", bins[n, a]), t.int64)
    return _Grid(start, bins, count, (image[0] * 2 + 6, image[1] * 2 + 6))


def _bilinear(corners: Sequence[Sequence[Expr]], v: Expr, u: Expr) -> Expr:
    """The image between four pixels."""
    (a, b), (c, d) = corners
    return (1 - v) * (1 - u) * a + (1 - v) * u * b + v * (1 - u) * c + v * u * d


def _near(p: Expr, size: Dim) -> Expr:
    return (p >= -1) & (p <= cast(lift(size), p.dtype))


def _neighbours(p: Expr, size: Dim) -> tuple[Expr, Expr, Expr]:
    """The pixels before and after a place, and its distance from the first."""
    p, last = maximum(p, 0), lift(size) - 1
    low = minimum(maximum(cast(p, t.int64), 0), last)
    rest = where(low >= last, 0, p - cast(low, p.dtype))
    return low, minimum(low + 1, last), rest


@operator("MaxRoiPool", 1, 22)
def max_roi_pool(
    k: Builder,
    x: Tensor,
    rois: Tensor,
    *,
    pooled_shape: Sequence[int],
    spatial_scale: float = 1.0,
) -> Tensor:
    """The maximum in each bin of each region (batch, x1, y1, x2, y2), both corners rounded and
    inside; an empty bin is 0."""
    rows, columns = pooled_shape
    k.need_shape(rois, (rois.shape[0], 5), "rois")
    wide, image = compute_type(x.dtype), x.shape[2:]
    images = _images(k, x, rois, lambda n: cast(rois[n, 0], wide))

    def corner(n: Axis, column: int) -> Expr:
        v = cast(rois[n, column], wide) * spatial_scale
        return cast(alu("trunc", v + where(v < 0, lift(-0.5, wide), 0.5)), t.int64)

    def bound(a: int, last: bool) -> Tensor:
        """Where the bins of each region begin along an axis, or end."""

        def place(n: Axis, p: Axis) -> Expr:
            start, end = corner(n, 2 - a), corner(n, 4 - a)
            size = cast(maximum(end - start + 1, 1), wide) / float(pooled_shape[a])
            v = cast(p + 1 if last else p, wide) * size
            v = cast(alu("ceil" if last else "floor", v), t.int64)
            return minimum(maximum(v + start, 0), image[a])

        return k.compute((rois.shape[0], pooled_shape[a]), place)

    (tops, bottoms), (lefts, rights) = ([bound(a, last) for last in (False, True)] for a in (0, 1))

    def element(n: Axis, c: Axis, p: Axis, q: Axis) -> Expr:
        top, bottom, left, right = tops[n, p], bottoms[n, p], lefts[n, q], rights[n, q]
        largest = k.fold(
            "max",
            image,
            lambda i, j: x.guard((images[n], c, i, j)),
            lambda i, j: (top <= i) & (i < bottom) & (left <= j) & (j < right),
        )
        return where((bottom <= top) | (right <= left), 0, largest)

    return k.compute((rois.shape[0], x.shape[1], rows, columns), element, x.dtype)
