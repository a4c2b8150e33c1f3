"""Resize and Upsample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import reduce
from math import floor
from operator import mul

import numpy as np

from sardonyx import types as t
from sardonyx.dims import Dim, floordiv
from sardonyx.errors import InvalidModel, Undetermined
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, lift, where
from sardonyx.ops.common import compute_type, normalize_axes
from sardonyx.ops.interpolate import Filter, Side, coordinate, measure, real, taps
from sardonyx.ops.registry import operator
from sardonyx.ops.sizes import numbers


@operator("Upsample", 1, accuracy="rounding")
def upsample_1(
    k: Builder, x: Tensor, *, height_scale: float, width_scale: float, mode: str = "nearest"
) -> Tensor:
    return _asymmetric(k, x, [1.0, 1.0, height_scale, width_scale], mode)


@operator("Upsample", 7, accuracy="rounding")
def upsample_7(k: Builder, x: Tensor, *, scales: Sequence[float], mode: str = "nearest") -> Tensor:
    return _asymmetric(k, x, scales, mode)


@operator("Upsample", 9, 10, accuracy="rounding")
@operator("Resize", 10, accuracy="rounding")
def resize_10(k: Builder, x: Tensor, scales: Tensor, *, mode: str = "nearest") -> Tensor:
    return _asymmetric(k, x, scales.floats(), mode)


def _asymmetric(k: Builder, x: Tensor, scales: Sequence[float], mode: str) -> Tensor:
    """What Resize was before it had coordinate transformations: x_original = x_resized / scale.

    The text leaves the nearest element open: it is onnxruntime's, ceil for a scale below 1.
    """
    sides = _scaled_sides(x, range(x.rank), scales)
    linear = "linear" if mode == "bilinear" else mode

    def shaped(s: Side) -> Filter:
        return Filter(linear, "ceil" if s.scale is not None and s.scale < 1 else "floor")

    return _resize(k, x, sides, shaped, "asymmetric", 0.0)


@operator("Resize", 11, 13, 18, 19, accuracy="rounding")
def resize(
    k: Builder,
    x: Tensor,
    roi: Tensor | None = None,
    scales: Tensor | None = None,
    sizes: Tensor | None = None,
    *,
    antialias: int = 0,
    axes: Sequence[int] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Tensor:
    at = normalize_axes(range(x.rank) if axes is None else axes, x.rank)
    crop = coordinate_transformation_mode == "tf_crop_and_resize"
    part = roi.floats() if crop and roi is not None else []
    if sizes is not None and sizes.shape != (0,):
        sides = _sized_sides(x, at, sizes.known(), keep_aspect_ratio_policy)
    elif scales is not None and scales.shape != (0,):
        sides = _scaled_sides(x, at, scales.floats())
    else:
        raise InvalidModel("Resize needs scales or sizes")
    filter = Filter(mode, nearest_mode, cubic_coeff_a, bool(antialias), bool(exclude_outside))
    cropped = [_with_roi(s, part, n, len(at)) for n, s in enumerate(sides)]
    return _resize(
        k, x, cropped, lambda s: filter, coordinate_transformation_mode, extrapolation_value
    )


def _with_roi(s: Side, roi: Sequence[float], n: int, count: int) -> Side:
    if not roi:
        return s
    if len(roi) != 2 * count:
        raise InvalidModel(f"roi has {len(roi)} entries for {count} axes")
    return Side(s.axis, s.size, s.out, s.scale, s.length, (roi[n], roi[count + n]))


def _scaled_sides(x: Tensor, axes: Sequence[int], scales: Sequence[float]) -> list[Side]:
    """The axes where scales say how they are resized."""
    if len(scales) != len(axes) or min(scales, default=1.0) <= 0:
        raise InvalidModel(f"scales {list(scales)} are not one positive number for each axis")
    sides = []
    for a, scale in zip(axes, scales, strict=True):
        size = x.shape[a]
        if isinstance(size, int):
            sides.append(Side(a, size, floor(size * scale), scale, real(size * scale)))
        else:
            sides.append(_scaled(a, size, scale))
    return sides


def _scaled(axis: int, size: Dim, scale: float) -> Side:
    """An axis of a symbolic dim, for a scale that is a simple fraction. Its denominator, a power of
    two, rounds nothing of the length."""
    ratio = Fraction(scale)
    if ratio.denominator > 64:
        raise Undetermined(f"{size} times {scale} needs a number for {size}")
    long = size * ratio.numerator
    length = measure(long) / real(ratio.denominator) if ratio.denominator > 1 else None
    return Side(axis, size, floordiv(long, ratio.denominator), scale, length)


def _sized_sides(x: Tensor, axes: Sequence[int], sizes: Sequence[Dim], policy: str) -> list[Side]:
    """The axes where sizes say how they are resized."""
    if len(sizes) != len(axes):
        raise InvalidModel(f"sizes has {len(sizes)} entries for {len(axes)} axes")
    shape = [x.shape[a] for a in axes]
    if policy == "stretch":
        return [
            Side(a, size, out, _ratio(out, size), None)
            for a, size, out in zip(axes, shape, sizes, strict=True)
        ]
    if policy not in ("not_larger", "not_smaller"):
        raise InvalidModel(f"keep_aspect_ratio_policy {policy!r} is not known")
    found = numbers(shape, "the shape to resize")
    ratios = [
        np.float32(w) / np.float32(n) for w, n in zip(numbers(sizes, "sizes"), found, strict=True)
    ]
    scale = float(min(ratios) if policy == "not_larger" else max(ratios))
    return [
        Side(a, n, int(np.floor(np.float32(scale * n) + np.float32(0.5))), scale, None)
        for a, n in zip(axes, found, strict=True)
    ]


def _ratio(out: Dim, size: Dim) -> float | None:
    if out == size:
        return 1.0
    if isinstance(out, int) and isinstance(size, int) and size:
        return float(np.float32(out) / np.float32(size))
    return None


def _resize(
    k: Builder,
    x: Tensor,
    sides: Sequence[Side],
    shaped: Callable[[Side], Filter],
    transformation: str,
    extrapolation_value: float,
) -> Tensor:
    """Each element is the weighted sum of the elements around its place, over all resized axes."""
    moved = [s for s in sides if s.scale != 1.0 or s.size != s.out or s.roi != (0.0, 1.0)]
    shape = list(x.shape)
    for s in moved:
        shape[s.axis] = s.out
    if not moved:
        return k.view(x, shape)
    places = [k.compute((s.out,), lambda o, s=s: coordinate(s, transformation, o)) for s in moved]
    around = [taps(k, s, shaped(s), at) for s, at in zip(moved, places, strict=True)]

    def source(i: Sequence[Axis], n: Sequence[Expr]) -> Expr:
        index: list[Expr] = list(i)
        for s, tap, j in zip(moved, around, n, strict=True):
            index[s.axis] = tap.index(i[s.axis], j)
        return x[tuple(index)]

    def term(i: Sequence[Axis], n: Sequence[Expr]) -> tuple[Expr, Expr]:
        value = source(i, n).cast(compute)
        factors = [tap.weight(i[s.axis], j) for s, tap, j in zip(moved, around, n, strict=True)]
        return reduce(mul, factors).cast(compute), value

    def element(*i: Axis) -> Expr:
        if all(tap.count == 1 for tap in around):
            value = source(i, [lift(0)] * len(moved))
        else:
            value = k.dot([tap.count for tap in around], lambda *n: term(i, n)).cast(x.dtype)
        if transformation != "tf_crop_and_resize":
            return value
        for s, at in zip(moved, places, strict=True):
            outside = (at[i[s.axis]] < 0.0) | (at[i[s.axis]] > measure(s.size - 1))
            value = where(outside, extrapolation_value, value)
        return value

    compute = t.float32 if not x.dtype.is_float else compute_type(x.dtype)
    return k.compute(shape, element, x.dtype)
