"""Operators that move elements along axes: Transpose, Concat, Split, Slice, Expand, Tile."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.dims import Dim, extreme, product
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, where
from sardonyx.ops.common import broadcast_shapes, normalize_axes, normalize_axis
from sardonyx.ops.index import replaced
from sardonyx.ops.registry import operator
from sardonyx.ops.sizes import agree, ceil_div, clamp, is_negative, quotient

FAR = 2**31 - 1  # a Slice writes "to the end" as this or a larger number


@operator("Transpose", 1, 13, 21, 23, 24, 25)
def transpose(k: Builder, data: Tensor, *, perm: Sequence[int] | None = None) -> Tensor:
    order = range(data.rank)[::-1] if perm is None else perm
    if sorted(order) != list(range(data.rank)):
        raise InvalidModel(f"perm {list(order)} is not a permutation of {data.rank} axes")
    shape = [data.shape[a] for a in order]
    moved = [a for a in order if data.shape[a] != 1]
    if moved == sorted(moved):
        return k.view(data, shape)
    return k.compute(shape, lambda *i: data[tuple(i[order.index(a)] for a in range(data.rank))])


def channels_first(k: Builder, x: Tensor) -> Tensor:
    """(N, ..., C) as (N, C, ...)."""
    return transpose(k, x, perm=(0, x.rank - 1, *range(1, x.rank - 1)))


def channels_behind(k: Builder, x: Tensor) -> Tensor:
    """(N, C, ...) as (N, ..., C)."""
    return transpose(k, x, perm=(0, *range(2, x.rank), 1))


@operator("Concat", 1)
def concat_1(k: Builder, *inputs: Tensor, axis: int | None = None) -> Tensor:
    return _concat(k, inputs, 1 if axis is None else axis)


@operator("Concat", 4, 11, 13)
def concat(k: Builder, *inputs: Tensor, axis: int) -> Tensor:
    return _concat(k, inputs, axis)


def _concat(k: Builder, inputs: Sequence[Tensor], axis: int) -> Tensor:
    if not inputs:
        raise InvalidModel("Concat needs at least one input")
    at = normalize_axis(axis, inputs[0].rank)
    for x in inputs[1:]:
        _fits(x, inputs[0], at)
    if len(inputs) == 1:
        return k.view(inputs[0], inputs[0].shape)
    ends: list[Dim] = [0]
    for x in inputs:
        ends.append(ends[-1] + x.shape[at])

    def element(*i: Axis) -> Expr:
        parts = [
            x.guard(replaced(i, at, i[at] - start)) for x, start in zip(inputs, ends, strict=False)
        ]
        out = parts[-1]
        for part, end in zip(parts[-2::-1], ends[-2:0:-1], strict=True):
            out = where(i[at] < end, part, out)
        return out

    return k.compute(_resized(inputs[0], at, ends[-1]), element)


def _fits(x: Tensor, like: Tensor, axis: int) -> None:
    agree(x.rank, like.rank, "the ranks of Concat's inputs")
    for i, (a, b) in enumerate(zip(x.shape, like.shape, strict=True)):
        if i != axis:
            agree(a, b, f"axis {i} of Concat's inputs")


def _resized(x: Tensor, axis: int, size: Dim) -> list[Dim]:
    return [size if i == axis else d for i, d in enumerate(x.shape)]


@operator("Split", 1)
def split_1(
    k: Builder,
    input: Tensor,
    lengths: Tensor | None = None,
    *,
    axis: int | None = None,
    split: Sequence[int] | None = None,
) -> tuple[Tensor, ...]:
    return _split(k, input, axis or 0, (split or None) if lengths is None else lengths.known())


@operator("Split", 2, 11)
def split_11(
    k: Builder, input: Tensor, *, axis: int = 0, split: Sequence[int] | None = None
) -> tuple[Tensor, ...]:
    return _split(k, input, axis, split or None)


@operator("Split", 13)
def split_13(
    k: Builder, input: Tensor, split: Tensor | None = None, *, axis: int = 0
) -> tuple[Tensor, ...]:
    return _split(k, input, axis, None if split is None else split.known())


@operator("Split", 18)
def split_18(
    k: Builder,
    input: Tensor,
    split: Tensor | None = None,
    *,
    axis: int = 0,
    num_outputs: int | None = None,
) -> tuple[Tensor, ...]:
    """Parts of the sizes `split`, or num_outputs parts, of which the last may be smaller."""
    if num_outputs is None:
        return _split(k, input, axis, None if split is None else split.known())
    agree(num_outputs, k.outputs, "num_outputs and the number of outputs")
    total = input.shape[normalize_axis(axis, input.rank)]
    part = ceil_div(total, num_outputs)
    return _split(k, input, axis, [*[part] * (num_outputs - 1), total - part * (num_outputs - 1)])


def _split(k: Builder, x: Tensor, axis: int, sizes: Sequence[Dim] | None) -> tuple[Tensor, ...]:
    at = normalize_axis(axis, x.rank)
    parts = _equal_parts(x.shape[at], k.outputs) if sizes is None else sizes
    if any(isinstance(n, int) and n < 0 for n in parts):
        raise InvalidModel(f"split {list(parts)} has a negative size")
    agree(len(parts), k.outputs, "the number of sizes and of outputs")
    agree(sum(parts), x.shape[at], "the sum of split and the size of the axis")
    if len(parts) == 1:
        return (k.view(x, x.shape),)
    return tuple(_taken(k, x, at, sum(parts[:n]), size) for n, size in enumerate(parts))


def _equal_parts(total: Dim, parts: int) -> list[Dim]:
    return [quotient(total, parts, f"{total} does not split into {parts} equal parts")] * parts


def _taken(k: Builder, x: Tensor, axis: int, start: Dim, size: Dim) -> Tensor:
    """x[start : start + size] along an axis."""
    return k.compute(_resized(x, axis, size), lambda *i: x[replaced(i, axis, i[axis] + start)])


@operator("Slice", 1)
def slice_1(
    k: Builder,
    data: Tensor,
    *,
    ends: Sequence[int],
    starts: Sequence[int],
    axes: Sequence[int] | None = None,
) -> Tensor:
    return _slice(k, data, starts, ends, axes, None)


@operator("Slice", 10, 11, 13)
def slice_(
    k: Builder,
    data: Tensor,
    starts: Tensor,
    ends: Tensor,
    axes: Tensor | None = None,
    steps: Tensor | None = None,
) -> Tensor:
    return _slice(
        k,
        data,
        starts.known(),
        ends.known(),
        None if axes is None else axes.ints(),
        None if steps is None else steps.ints(),
    )


def _slice(
    k: Builder,
    x: Tensor,
    starts: Sequence[Dim],
    ends: Sequence[Dim],
    axes: Sequence[int] | None,
    steps: Sequence[int] | None,
) -> Tensor:
    """NumPy's x[start:end:step] on each of the axes."""
    at = normalize_axes(range(len(starts)) if axes is None else axes, x.rank)
    if not len(starts) == len(ends) == len(at) == len(at if steps is None else steps):
        raise InvalidModel("starts, ends, axes and steps differ in length")
    by = [1] * x.rank
    first: list[Dim] = [0] * x.rank
    shape = list(x.shape)
    for n, a in enumerate(at):
        by[a] = 1 if steps is None else steps[n]
        first[a], shape[a] = _range(x.shape[a], starts[n], ends[n], by[a])
    if tuple(shape) == x.shape and min(by, default=1) > 0:
        return k.view(x, shape)
    return k.compute(
        shape, lambda *i: x[tuple(j * s + f for j, s, f in zip(i, by, first, strict=True))]
    )


def _range(d: Dim, start: Dim, end: Dim, step: int) -> tuple[Dim, Dim]:
    """The first index and the number of indices of start:end:step on an axis of size d."""
    if step == 0:
        raise InvalidModel("a step of Slice is 0")
    if step > 0:
        low = _position(start, d, 0, d)
        span = _position(end, d, 0, d) - low
    else:
        low = _position(start, d, 0, d - 1)
        span = low - _position(end, d, -1, d - 1)
    return low, extreme("max", ceil_div(span, abs(step)), 0)


def _position(v: Dim, d: Dim, low: Dim, high: Dim) -> Dim:
    """v, counted from the end d if it is negative, clamped."""
    if isinstance(v, int) and abs(v) >= FAR:
        return high if v > 0 else low
    return clamp(v + d if is_negative(v) else v, low, high)


@operator("Expand", 8, 13)
def expand(k: Builder, input: Tensor, shape: Tensor) -> Tensor:
    target = broadcast_shapes(input.shape, shape.known())
    if product(target) == product(input.shape):
        return k.view(input, target)
    return k.compute(target, lambda *i: input.broadcast(i))


@operator("Tile", 1)
def tile_1(k: Builder, input: Tensor, tiles: Tensor, axis: Tensor) -> Tensor:
    (count,), (along,) = tiles.known(), axis.ints()
    repeats: list[Dim] = [1] * input.rank
    repeats[normalize_axis(along, input.rank)] = count
    return _tile(k, input, repeats)


@operator("Tile", 6, 13)
def tile(k: Builder, input: Tensor, repeats: Tensor) -> Tensor:
    return _tile(k, input, repeats.known())


def _tile(k: Builder, x: Tensor, repeats: Sequence[Dim]) -> Tensor:
    agree(len(repeats), x.rank, "the number of repeats and the rank")
    if all(n == 1 for n in repeats):
        return k.view(x, x.shape)
    pairs = list(zip(repeats, x.shape, strict=True))
    shape = [n * d for n, d in pairs]
    if all(n == 1 or d == 1 for n, d in pairs):
        return k.compute(shape, lambda *i: x.broadcast(i))
    out = k.tensor(shape, x.dtype)
    apart = [m for pair in pairs for m in pair]  # two axes for each: no remainder by element
    k.compute(apart, lambda *i: x[tuple(i[1::2])], into=out.reshaped(apart))
    return out
