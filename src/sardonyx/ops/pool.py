"""Pools: the maximum or the average of a window, or of all places of a channel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from operator import mul

from sardonyx import types as t
from sardonyx.dims import Dim, product
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, alu, lift
from sardonyx.ops.common import compute_type
from sardonyx.ops.index import flat_index, unflatten
from sardonyx.ops.registry import operator
from sardonyx.ops.window import Window, per_axis, window, within
from sardonyx.types import DType


@operator("MaxPool", 1, 8, 10, 11, 12, 22)
def max_pool(
    k: Builder,
    x: Tensor,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    storage_order: int = 0,
    strides: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor]:
    """The largest element of each window, and the index of the first that is as large."""
    win = window(x.shape[2:], kernel_shape, strides, dilations, auto_pad, pads, ceil_mode)
    shape = (*x.shape[:2], *win.output)
    largest = k.compute(
        shape,
        lambda n, c, *o: k.fold(
            "max", win.kernel, lambda *r: x.guard((n, c, *win.at(o, r)), lowest(x.dtype))
        ),
        x.dtype,
    )

    def index(n: Axis, c: Axis, *o: Axis) -> Expr:
        def found(*r: Axis) -> Expr:
            at = win.at(o, r)
            value = x.guard((n, c, *at))
            hit = value.eq(largest[(n, c, *o)])
            return win.inside(at) & (hit | alu("isnan", value) if x.dtype.is_float else hit)

        first = k.fold("min", win.kernel, lambda *r: flat_index(r, win.kernel), found)
        at, spatial = win.at(o, unflatten(first, win.kernel)), x.shape[2:]
        if storage_order:
            at, spatial = at[::-1], spatial[::-1]
        return flat_index((n, c, *at), (*x.shape[:2], *spatial))

    return largest, k.compute(shape, index, t.int64)


@operator("AveragePool", 1, 7, 10, 11, 19, 22, accuracy="rounding")
def average_pool(
    k: Builder,
    x: Tensor,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """The sum of each window over the number of its elements that count: those in the input, and
    with count_include_pad those in the padding as well. What does not count is absent."""
    win = window(x.shape[2:], kernel_shape, strides, dilations, auto_pad, pads, ceil_mode)
    padded = any(p != 0 for p in (*win.begin, *win.end))
    whole = not ceil_mode and (bool(count_include_pad) or not padded)
    number = None if whole else counts(k, win, bool(count_include_pad))

    def element(n: Axis, c: Axis, *o: Axis) -> Expr:
        # +0 for what does not count: it changes no sum that began at +0
        total = k.sum(win.kernel, lambda *r: x.guard((n, c, *win.at(o, r))))
        return total / (prod(win.kernel) if number is None else number(o).cast(total.dtype))

    return k.compute((*x.shape[:2], *win.output), element, x.dtype)


def counts(k: Builder, win: Window, padding: bool) -> Callable[[Sequence[Axis]], Expr]:
    """How many elements of the window at a place count: those in the input, or in its padding
    too."""
    dtype = t.int32 if prod(win.kernel) < 1 << 31 else t.int64

    def along(d: int) -> Tensor:
        low, high = (-1 * win.begin[d], win.input[d] + win.end[d]) if padding else (0, win.input[d])

        def element(o: Axis) -> Expr:
            start = o * win.strides[d] - win.begin[d]
            return k.sum(
                (win.kernel[d],),
                lambda _: lift(1).cast(dtype),
                lambda r: within([start + r * win.dilations[d]], [low], [high]),
            )

        return k.compute((win.output[d],), element, dtype)

    tables = [along(d) for d in range(len(win.kernel))]
    return lambda o: reduce(mul, (a[i] for a, i in zip(tables, o, strict=True)))


@operator("GlobalMaxPool", 1, 22)
def global_max_pool(k: Builder, x: Tensor) -> Tensor:
    places = x.shape[2:]
    return k.compute(
        global_shape(x), lambda n, c, *_: k.fold("max", places, lambda *r: x[(n, c, *r)]), x.dtype
    )


@operator("GlobalAveragePool", 1, 22, accuracy="rounding")
def global_average_pool(k: Builder, x: Tensor) -> Tensor:
    places = x.shape[2:]
    count = lift(product(places)).cast(compute_type(x.dtype))
    return k.compute(
        global_shape(x), lambda n, c, *_: k.sum(places, lambda *r: x[(n, c, *r)]) / count, x.dtype
    )


@operator("MaxUnpool", 9, 11, 22)
def max_unpool(
    k: Builder,
    x: Tensor,
    i: Tensor,
    output_shape: Tensor | None = None,
    *,
    kernel_shape: Sequence[int],
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """Zeros, and each element of x at its index i in the flattened tensor that was pooled.

    That tensor stands at the beginning of each axis of an output_shape that is larger.
    """
    rank = len(kernel_shape)
    k.need_shape(i, x.shape, "I")
    s = per_axis(strides, rank, 1, "strides")
    p = per_axis(pads, 2 * rank, 0, "pads")
    pooled = [*x.shape[:2]]
    for axis, (n, size) in enumerate(zip(x.shape[2:], kernel_shape, strict=True)):
        pooled.append((n - 1) * s[axis] + size - (p[axis] + p[rank + axis]))
    shape = tuple(pooled) if output_shape is None else tuple(output_shape.known())
    if len(shape) != x.rank:
        raise InvalidModel(f"output_shape has {len(shape)} entries for rank {x.rank}")
    out = k.compute(shape, lambda *_: lift(0).cast(x.dtype), x.dtype)
    flat, source = x.reshaped((product(x.shape),)), i.reshaped((product(x.shape),))
    whole = out.reshaped((product(shape),))
    with k.loop(product(x.shape)) as e:
        if shape == tuple(pooled):
            k.store(whole, (source[e],), flat[e])
        else:
            k.store(out, unflatten(source[e], pooled), flat[e])
    return out


def lowest(dtype: DType) -> float | int:
    """What is below every value of the type, or as low."""
    return float("-inf") if dtype.is_float else dtype.min


def global_shape(x: Tensor) -> tuple[Dim, ...]:
    """The shape of one value per channel."""
    if x.rank < 3:
        raise InvalidModel(f"a pool needs spatial axes, found the rank {x.rank}")
    return (*x.shape[:2], *[1] * (x.rank - 2))
