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
    """The mean (or maximum) of samples in each bin of each region. Without a sampling_ratio there
    are ceil(bin) samples on an axis: at most two in a pixel, so that a window of twice the image
    holds all that are not zero."""
    if mode not in ("avg", "max"):
        raise InvalidModel(f"mode {mode!r} is not avg or max")
    height, width = x.shape[2:]
    grid = _grid(k, rois, size, sampling_ratio, scale, half_pixel, (height, width))

    def element(n: Axis, c: Axis, *p: Axis) -> Expr:
        def index(r: Sequence[Axis]) -> list[Expr]:
            if sampling_ratio > 0:
                return list(r)
            return [grid.first(n, a, p[a]) + r[a] for a in range(2)]

        def sample(*r: Axis) -> Expr:
            y, z = (grid.place(n, a, p[a], i) for a, i in enumerate(index(r)))
            b = cast(batch[n], t.int64)
            return _bilinear(lambda i, j: x.trap((b, c, i, j)), (height, width), y, z, mode)

        def there(*r: Axis) -> Expr:
            i, j = index(r)
            return (i < grid.count[n, 0]) & (j < grid.count[n, 1])

        kind = "sum" if mode == "avg" else "max"
        total = k.fold(kind, grid.window, sample, None if sampling_ratio > 0 else there)
        if mode == "avg":
            samples = grid.count[n, 0] * grid.count[n, 1]
            return total / cast(maximum(samples, 1), total.dtype)
        empty = (grid.count[n, 0] <= 0) | (grid.count[n, 1] <= 0)
        outside = grid.outside(n, 0, p[0]) | grid.outside(n, 1, p[1])
        return where(empty, 0, where(outside, maximum(total, 0), total))

    return k.compute((rois.shape[0], x.shape[1], *size), element, x.dtype)


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


def _bilinear(
    pixel: Callable[[Expr, Expr], Expr],
    image: tuple[Dim, Dim],
    y: Expr,
    x: Expr,
    mode: str,
) -> Expr:
    """The image at a place, 0 more than a pixel outside of it; "max" takes the largest of the four
    weighted neighbours in place of their sum."""
    (top, bottom, v), (left, right, u) = (
        _neighbours(p, n) for p, n in zip((y, x), image, strict=True)
    )
    inside = _near(y, image[0]) & _near(x, image[1])
    terms = [
        (1 - v) * (1 - u) * pixel(top, left),
        (1 - v) * u * pixel(top, right),
        v * (1 - u) * pixel(bottom, left),
        v * u * pixel(bottom, right),
    ]
    value = terms[0]
    for term in terms[1:]:
        value = value + term if mode == "avg" else maximum(value, term)
    return where(inside, value, 0)


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
    wide, image = compute_type(x.dtype), x.shape[2:]

    def corner(n: Axis, column: int) -> Expr:
        v = cast(rois[n, column], wide) * spatial_scale
        return cast(alu("trunc", v + where(v < 0, lift(-0.5, wide), 0.5)), t.int64)

    def bounds(n: Axis, a: int, p: Expr) -> tuple[Expr, Expr]:
        start, end = corner(n, 2 - a), corner(n, 4 - a)
        size = cast(maximum(end - start + 1, 1), wide) / float(pooled_shape[a])
        low = cast(alu("floor", cast(p, wide) * size), t.int64)
        high = cast(alu("ceil", cast(p + 1, wide) * size), t.int64)
        clipped = (minimum(maximum(v + start, 0), image[a]) for v in (low, high))
        return next(clipped), next(clipped)

    def element(n: Axis, c: Axis, *p: Axis) -> Expr:
        (top, bottom), (left, right) = (bounds(n, a, p[a]) for a in range(2))
        b = cast(cast(rois[n, 0], wide), t.int64)
        largest = k.fold(
            "max",
            image,
            lambda i, j: x.trap((b, c, i, j)),
            lambda i, j: (top <= i) & (i < bottom) & (left <= j) & (j < right),
        )
        return where((bottom <= top) | (right <= left), 0, largest)

    return k.compute((rois.shape[0], x.shape[1], rows, columns), element, x.dtype)
