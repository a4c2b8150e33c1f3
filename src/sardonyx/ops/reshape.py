"""Operators that give the same elements another shape."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.dims import Dim, divide, product
from sardonyx.errors import InvalidModel, Undetermined
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.ops.common import normalize_axes, one_of
from sardonyx.ops.registry import operator
from sardonyx.ops.sizes import agree, quotient


@operator("Reshape", 1)
def reshape_1(k: Builder, data: Tensor, *, shape: Sequence[int] | None = None) -> Tensor:
    return k.view(data, target_shape(data.shape, shape or (), allowzero=False))


@operator("Reshape", 5, 13, 14, 19, 21, 23, 24, 25)
def reshape(k: Builder, data: Tensor, shape: Tensor, *, allowzero: int = 0) -> Tensor:
    return k.view(data, target_shape(data.shape, shape.known(), bool(allowzero)))


def target_shape(shape: Sequence[Dim], asked: Sequence[Dim], allowzero: bool) -> list[Dim]:
    """The shape asked for, where 0 copies a dim (unless allowzero) and one -1 takes the rest."""
    if not allowzero and any(d == 0 for d in asked[len(shape) :]):
        raise InvalidModel(f"shape {list(asked)} copies a dim that {tuple(shape)} does not have")
    out = [shape[i] if d == 0 and not allowzero else d for i, d in enumerate(asked)]
    if -1 in out:
        free = out.index(-1)
        out[free] = _rest(product(tuple(shape)), product(out[:free] + out[free + 1 :]), asked)
    if any(isinstance(d, int) and d < 0 for d in out):
        raise InvalidModel(f"shape {list(asked)} has a negative dim, or more than one -1")
    agree(product(tuple(shape)), product(out), "the number of elements before and after")
    return out


def _rest(total: Dim, others: Dim, asked: Sequence[Dim]) -> Dim:
    found = None if others == 0 else divide(total, others)
    if found is not None:
        return found
    if isinstance(total, int) and isinstance(others, int):
        raise InvalidModel(f"{total} elements do not fill the shape {list(asked)}")
    raise Undetermined(f"{total} / {others} depends on symbolic dims")


@operator("Flatten", 1, 9, 11, 13, 21, 23, 24, 25)
def flatten(k: Builder, input: Tensor, *, axis: int = 1) -> Tensor:
    if not -input.rank <= axis <= input.rank:
        raise InvalidModel(f"axis {axis} is not in [{-input.rank}, {input.rank}]")
    split = axis + input.rank if axis < 0 else axis
    return k.view(input, (product(input.shape[:split]), product(input.shape[split:])))


@operator("Squeeze", 1, 11)
def squeeze_11(k: Builder, data: Tensor, *, axes: Sequence[int] | None = None) -> Tensor:
    return _squeeze(k, data, axes)


@operator("Squeeze", 13, 21, 23, 24, 25)
def squeeze(k: Builder, data: Tensor, axes: Tensor | None = None) -> Tensor:
    return _squeeze(k, data, None if axes is None else axes.ints())


def _squeeze(k: Builder, x: Tensor, axes: Sequence[int] | None) -> Tensor:
    """x without the given axes of size 1; without all axes of size 1 where none are given."""
    if axes is None:
        if not all(isinstance(d, int) for d in x.shape):
            raise Undetermined(f"which axes of {tuple(x.shape)} have size 1 is not known yet")
        return k.view(x, [d for d in x.shape if d != 1])
    gone = normalize_axes(axes, x.rank)
    for a in gone:
        agree(x.shape[a], 1, f"axis {a} to squeeze")
    return k.view(x, [d for i, d in enumerate(x.shape) if i not in gone])


@operator("Unsqueeze", 1, 11)
def unsqueeze_11(k: Builder, data: Tensor, *, axes: Sequence[int]) -> Tensor:
    return _unsqueeze(k, data, axes)


@operator("Unsqueeze", 13, 21, 23, 24, 25)
def unsqueeze(k: Builder, data: Tensor, axes: Tensor) -> Tensor:
    return _unsqueeze(k, data, axes.ints())


def _unsqueeze(k: Builder, x: Tensor, axes: Sequence[int]) -> Tensor:
    """x with axes of size 1 that stand at `axes` of the result."""
    rank = x.rank + len(axes)
    new, old = normalize_axes(axes, rank), iter(x.shape)
    return k.view(x, [1 if i in new else next(old) for i in range(rank)])


@operator("DepthToSpace", 1, 11, 13, 28)
def depth_to_space(k: Builder, input: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Blocks of channels become blocks of places: (depth, column, row) or (column, row, depth)."""
    one_of(mode, ("DCR", "CRD"), "mode")
    n, c, h, w = _four(input)
    depth = _divided(c, blocksize * blocksize)
    out = k.tensor((n, depth, h * blocksize, w * blocksize), input.dtype)
    spread = out.reshaped((n, depth, h, blocksize, w, blocksize))
    if mode == "DCR":
        x = input.reshaped((n, blocksize, blocksize, depth, h, w))
        k.compute(spread.shape, lambda b, d, y, i, z, j: x[b, i, j, d, y, z], into=spread)
    else:
        x = input.reshaped((n, depth, blocksize, blocksize, h, w))
        k.compute(spread.shape, lambda b, d, y, i, z, j: x[b, d, i, j, y, z], into=spread)
    return out


@operator("SpaceToDepth", 1, 13, 28)
def space_to_depth(k: Builder, input: Tensor, *, blocksize: int, mode: str = "DCR") -> Tensor:
    """Blocks of places become blocks of channels: the inverse of DepthToSpace."""
    one_of(mode, ("DCR", "CRD"), "mode")
    n, c, h, w = _four(input)
    high, wide = _divided(h, blocksize), _divided(w, blocksize)
    x = input.reshaped((n, c, high, blocksize, wide, blocksize))
    out = k.tensor((n, c * blocksize * blocksize, high, wide), input.dtype)
    if mode == "DCR":
        spread = out.reshaped((n, blocksize, blocksize, c, high, wide))
        k.compute(spread.shape, lambda b, i, j, d, y, z: x[b, d, y, i, z, j], into=spread)
    else:
        spread = out.reshaped((n, c, blocksize, blocksize, high, wide))
        k.compute(spread.shape, lambda b, d, i, j, y, z: x[b, d, y, i, z, j], into=spread)
    return out


def _four(x: Tensor) -> tuple[Dim, ...]:
    if x.rank != 4:
        raise InvalidModel(f"the input must have rank 4, found {x.rank}")
    return x.shape


def _divided(d: Dim, by: int) -> Dim:
    return quotient(d, by, f"blocksize: {by} does not divide {d}")
