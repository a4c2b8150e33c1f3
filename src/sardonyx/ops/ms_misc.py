"""What com.microsoft has besides: Inverse, CDist, GatherBlockQuantized, and names of ONNX's own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx import types as t
from sardonyx.errors import InvalidModel, UnsupportedModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, Operand, alu, cast, lift, where
from sardonyx.ops.common import compute_type, normalize_axis
from sardonyx.ops.constant import range_, trilu
from sardonyx.ops.elementwise import square
from sardonyx.ops.gather import gather_nd
from sardonyx.ops.index import wrapped
from sardonyx.ops.linalg import pivot_row, swap
from sardonyx.ops.ms_common import contrib
from sardonyx.ops.ms_matmul import unpacked
from sardonyx.ops.scatter import loops
from sardonyx.ops.sizes import agree, ceil_div


@contrib("Trilu")
def ms_trilu(k: Builder, x: Tensor, diagonal: Tensor | None = None, *, upper: int = 1) -> Tensor:
    return trilu(k, x, diagonal, upper=upper)


@contrib("GatherND")
def ms_gather_nd(k: Builder, data: Tensor, indices: Tensor) -> Tensor:
    return gather_nd(k, data, indices)


@contrib("ExpandDims")
def expand_dims(k: Builder, x: Tensor, axis: Tensor) -> Tensor:
    """x with a new axis of 1."""
    (at,) = axis.ints()
    a = normalize_axis(at, x.rank + 1)
    return k.view(x, (*x.shape[:a], 1, *x.shape[a:]))


@contrib("Range", "rounding")
def ms_range(k: Builder, start: Tensor, limit: Tensor, delta: Tensor | None = None) -> Tensor:
    """start, start + delta, ... below limit; delta is 1 where it is absent."""
    step = k.constant(np.ones((), start.dtype.numpy)) if delta is None else delta
    return range_(k, *(_scalar(x) for x in (start, limit, step)))


def _scalar(x: Tensor) -> Tensor:
    """A tensor of one element as a scalar, with its value."""
    return Tensor(x.reshaped(()).buffer, None if x.value is None else x.value.reshape(()))


@contrib("CDist", "rounding")
def cdist(k: Builder, a: Tensor, b: Tensor, *, metric: str = "sqeuclidean") -> Tensor:
    """The distance of each row of a (M, K) from each of b (N, K): the sum of the squares of their
    differences, or its root."""
    if metric not in ("sqeuclidean", "euclidean"):
        raise InvalidModel(f"the metric is sqeuclidean or euclidean, found {metric!r}")
    depth = agree(a.shape[1], b.shape[1], "the lengths of the rows")

    def element(i: Axis, j: Axis) -> Expr:
        total = k.sum((depth,), lambda q: square(a[i, q] - b[j, q]))
        return alu("sqrt", total) if metric == "euclidean" else total

    return k.compute((a.shape[0], b.shape[0]), element, a.dtype)


@contrib("GatherBlockQuantized")
def gather_block_quantized(
    k: Builder,
    data: Tensor,
    indices: Tensor,
    scales: Tensor,
    zero_points: Tensor | None = None,
    *,
    bits: int = 4,
    block_size: int = 128,
    gather_axis: int = 0,
    quantize_axis: int = 1,
) -> Tensor:
    """Gather of (data - zero point) * scale, one scale for each block along quantize_axis.

    uint8 holds several numbers of 2 or 4 bits along its last axis, the lowest first; their zero
    point is half of the range where none is given, that of 4-bit types is 0.
    """
    if data.dtype is t.uint8 and bits not in (2, 4, 8):
        raise UnsupportedModel(f"GatherBlockQuantized of {bits} bits is not supported")
    each = 8 // bits if data.dtype is t.uint8 else 1
    a, q = normalize_axis(gather_axis, data.rank), normalize_axis(quantize_axis, data.rank)
    if each > 1 and a == data.rank - 1:
        raise InvalidModel("packed numbers are not gathered along their last axis")
    full = (*data.shape[:-1], data.shape[-1] * each)
    default = 1 << (bits - 1) if data.dtype is t.uint8 else 0
    end = a + indices.rank
    blocks = [ceil_div(n, block_size) if d == q else n for d, n in enumerate(full)]
    k.need_shape(scales, blocks, "scales")
    k.need_shape(zero_points, (*blocks[:-1], ceil_div(blocks[-1], each)), "zero_points")

    def element(*i: Axis) -> Expr:
        place = [*i[:a], wrapped(indices[i[a:end]], full[a]), *i[end:]]
        block = [e // block_size if d == q else e for d, e in enumerate(place)]
        zero = lift(default, t.int32)
        if zero_points is not None:
            zero = _number(zero_points, block, each, bits)
        value = cast(_number(data, place, each, bits) - zero, t.float32)
        return value * cast(scales.trap(block), t.float32)

    return k.compute((*full[:a], *indices.shape, *full[a + 1 :]), element, scales.dtype)


def _number(x: Tensor, place: Sequence[Operand], each: int, bits: int) -> Expr:
    """The number at a place of a tensor that holds `each` in one element of its last axis."""
    *rest, last = place
    if each == 1:
        return cast(x.trap(place), t.int32)
    return unpacked(x.trap((*rest, lift(last) // each)), lift(last) % each, bits)


@contrib("Inverse", "rounding")
def inverse(k: Builder, x: Tensor) -> Tensor:
    """The inverse of each matrix, by Gauss and Jordan: the pivot is the first of the largest
    magnitudes of its column; its row is divided by it, then it is taken off every other row."""
    if x.rank < 2:
        raise InvalidModel(f"Inverse takes matrices, found rank {x.rank}")
    *batch, rows, columns = x.shape
    n = agree(rows, columns, "the sizes of a square matrix")
    wide = compute_type(x.dtype)
    a = k.compute(x.shape, lambda *i: x[i], wide)
    out = k.compute(x.shape, lambda *i: where(i[-1].eq(i[-2]), lift(1.0, wide), 0.0), wide)
    with loops(k, batch) as outer, k.loop(n) as c:
        pivot = pivot_row(k, a, outer, c)
        with k.loop(n) as j:
            for m in (a, out):
                swap(k, m, (*outer, c, j), (*outer, pivot, j))
        factor = k.local(a[(*outer, c, c)])
        with k.loop(n) as j:
            for m in (a, out):
                k.store(m, (*outer, c, j), m[(*outer, c, j)] / factor)
        _take_off(k, (a, out), outer, c)
    return out if wide is x.dtype else k.compute(x.shape, lambda *i: out[i], x.dtype)


def _take_off(k: Builder, pair: tuple[Tensor, Tensor], outer: tuple[Axis, ...], c: Axis) -> None:
    """Every row but c of both, less the multiple of row c that makes column c of the first 0."""
    with k.loop(pair[0].shape[-1]) as r, k.when(r.ne(c)):
        factor = k.local(pair[0][(*outer, r, c)])
        with k.loop(pair[0].shape[-1]) as j:
            for m in pair:
                at = (*outer, r, j)
                k.store(m, at, m[at] - factor * m[(*outer, c, j)])
