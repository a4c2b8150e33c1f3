"""Coordinates and weights along one axis that is resized (the text of Resize-19).

Coordinates and weights are float32. Each axis gets tables in temporaries of the kernel, so that
they are computed once per place of the axis and not once per element.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import floor

from sardonyx import types as t
from sardonyx.dims import Dim
from sardonyx.errors import InvalidModel, Undetermined
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, alu, const, lift, where
from sardonyx.ops.common import maximum, minimum


@dataclass(frozen=True, slots=True)
class Side:
    """One axis that is resized from `size` to `out`.

    `scale` is None where symbolic dims leave it to be out / size at run time. `length` is the
    length that scale asks for, before it is cut to `out`, as a float32; None: `out`. `roi` is the
    part taken.
    """

    axis: int
    size: Dim
    out: Dim
    scale: float | None
    length: Expr | None
    roi: tuple[float, float] = (0.0, 1.0)


@dataclass(frozen=True, slots=True)
class Filter:
    """What interpolates: its mode, and the attributes of Resize that shape it."""

    mode: str
    nearest: str = "round_prefer_floor"
    cubic_a: float = -0.75
    antialias: bool = False
    exclude_outside: bool = False


@dataclass(frozen=True, slots=True)
class Taps:
    """`index(o, n)` and `weight(o, n)` of the n-th of `count` elements that make up place o."""

    count: int
    index: Callable[[Axis, Expr], Expr]
    weight: Callable[[Axis, Expr], Expr]


def real(x: float) -> Expr:
    return const(x, t.float32)


def measure(d: Dim) -> Expr:
    """A size as a float32."""
    return real(float(d)) if isinstance(d, int) else lift(d).cast(t.float32)


def clamped(i: Expr, size: Dim) -> Expr:
    """An index, or the end that it passes."""
    return minimum(maximum(i, 0), size - 1)


def coordinate(s: Side, mode: str, o: Axis) -> Expr:
    """x_original: where place o of the output lies in the input."""
    x = o.cast(t.float32)
    scale = measure(s.out) / measure(s.size) if s.scale is None else real(s.scale)
    length = measure(s.out) if s.length is None else s.length
    last = measure(s.size) - 1.0
    single = lift(s.out).eq(1)
    half = (x + 0.5) / scale - 0.5
    match mode:
        case "half_pixel":
            return half
        case "pytorch_half_pixel":
            return where(single, 0.0, half)
        case "half_pixel_symmetric":
            left = measure(s.size) / 2.0 * (1.0 - measure(s.out) / length)
            return left + (x + 0.5) / scale - 0.5
        case "asymmetric":
            return x / scale
        case "align_corners":
            return where(single, 0.0, x * last / (length - 1.0))
        case "tf_crop_and_resize":
            start, end = real(s.roi[0]), real(s.roi[1])
            spread = start * last + x * (end - start) * last / (length - 1.0)
            return where(single, 0.5 * (start + end) * last, spread)
    raise InvalidModel(f"coordinate_transformation_mode {mode!r} is not known")


def nearest(x: Expr, mode: str) -> Expr:
    """The place nearest to a coordinate."""
    low = alu("floor", x)
    match mode:
        case "floor":
            return low
        case "ceil":
            return alu("ceil", x)
        case "round_prefer_floor":
            return where(x - low > 0.5, low + 1.0, low)
        case "round_prefer_ceil":
            return where(x - low < 0.5, low, low + 1.0)
    raise InvalidModel(f"nearest_mode {mode!r} is not known")


def taps(k: Builder, s: Side, f: Filter, at: Tensor) -> Taps:
    """The elements that interpolation takes for each place, and their weights; `at` holds the
    coordinates. An index outside the input is that of the nearest element inside."""
    if f.mode == "nearest":
        index = k.compute((s.out,), lambda o: nearest(at[o], f.nearest).cast(t.int64))
        return Taps(1, lambda o, n: clamped(index[o], s.size), lambda o, n: real(1.0))
    if f.mode not in ("linear", "cubic"):
        raise InvalidModel(f"mode {f.mode!r} is not nearest, linear or cubic")
    reach = 1 if f.mode == "linear" else 2
    stretch = min(_known_scale(s), 1.0) if f.antialias else 1.0
    first = floor(-reach / stretch) + 1
    count = 2 - 2 * first
    base = k.compute((s.out,), lambda o: alu("floor", at[o]).cast(t.int64))

    def place(o: Axis, n: Expr) -> Expr:
        return base[o] + (n + first)

    def raw(n: Axis, o: Axis) -> Expr:
        distance = ((n + first).cast(t.float32) - (at[o] - alu("floor", at[o]))) * stretch
        found = kernel(f, alu("abs", distance))
        inside = alu("and", place(o, n) >= 0, place(o, n) < s.size)
        return where(inside, found, 0.0) if f.exclude_outside else found

    weight = k.compute((count, s.out), raw)
    if f.antialias or f.exclude_outside:
        whole = weight
        weight = k.compute(
            (count, s.out), lambda n, o: whole[n, o] / k.sum((count,), lambda m: whole[m, o])
        )
    return Taps(count, lambda o, n: clamped(place(o, n), s.size), lambda o, n: weight[n, o])


def kernel(f: Filter, x: Expr) -> Expr:
    """The weight of an element at distance x >= 0."""
    if f.mode == "linear":
        return maximum(1.0 - x, 0.0)
    a = f.cubic_a
    near = ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    far = ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    return where(x <= 1.0, near, where(x < 2.0, far, 0.0))


def _known_scale(s: Side) -> float:
    if s.scale is None:
        raise Undetermined("antialias needs a scale that is a number")
    return s.scale
