"""What com.microsoft has besides: Inverse, Trilu, ExpandDims, Range, GatherND, BiasSoftmax."""

from __future__ import annotations

from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, lift, where
from sardonyx.ops.common import compute_type, normalize_axis, same_dim
from sardonyx.ops.constant import trilu
from sardonyx.ops.gather import gather_nd
from sardonyx.ops.linalg import pivot_row, swap
from sardonyx.ops.ms_common import contrib
from sardonyx.ops.scatter import loops


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


@contrib("Inverse", "rounding")
def inverse(k: Builder, x: Tensor) -> Tensor:
    """The inverse of each matrix, by Gauss and Jordan: the pivot is the first of the largest
    magnitudes of its column; its row is divided by it, then it is taken off every other row."""
    if x.rank < 2:
        raise InvalidModel(f"Inverse takes matrices, found rank {x.rank}")
    *batch, rows, columns = x.shape
    n = same_dim(rows, columns, "the sizes of a square matrix")
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
