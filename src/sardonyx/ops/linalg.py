"""Det."""

from __future__ import annotations

from sardonyx import types as t
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, alu, cast, lift, where
from sardonyx.ops.common import compute_type
from sardonyx.ops.registry import operator
from sardonyx.ops.scatter import loops
from sardonyx.ops.sizes import agree


@operator("Det", 11, 22, accuracy="rounding")
def det(k: Builder, x: Tensor) -> Tensor:
    """The determinant of each matrix: Gaussian elimination, the pivot being the first of the
    largest magnitudes of its column; the product of the pivots, from the left."""
    if x.rank < 2:
        raise InvalidModel(f"Det takes matrices, found rank {x.rank}")
    *batch, rows, columns = x.shape
    n = agree(rows, columns, "the sizes of a square matrix")
    wide = compute_type(x.dtype)
    a = k.compute(x.shape, lambda *i: x[i], wide)
    out = k.tensor(batch, x.dtype)
    with loops(k, batch) as outer:
        result = k.local(lift(1.0, wide))
        with k.loop(n) as c:
            chosen = pivot_row(k, a, outer, c)
            k.set(result, where(chosen.eq(c), result, -result))
            with k.loop(n) as j:
                swap(k, a, (*outer, c, j), (*outer, chosen, j))
            pivot = k.local(a[(*outer, c, c)])
            k.set(result, result * pivot)
            with k.when(pivot.ne(0)):
                _eliminate(k, a, outer, c, pivot)
        k.store(out, outer, result)
    return out


def pivot_row(k: Builder, a: Tensor, outer: tuple[Axis, ...], c: Axis) -> Expr:
    """The first row from c on with the largest magnitude in column c."""
    best, row = k.local(alu("abs", a[(*outer, c, c)])), k.local(cast(c, t.int64))
    with k.loop(a.shape[-1]) as r:
        size = k.local(alu("abs", a[(*outer, r, c)]))
        with k.when((r > c) & (size > best)):
            k.set(best, size)
            k.set(row, r)
    return row


def swap(k: Builder, a: Tensor, i: tuple[Expr, ...], j: tuple[Expr, ...]) -> None:
    """Exchanges two elements."""
    kept = k.local(a.trap(i))
    k.store(a, i, a.trap(j))
    k.store(a, j, kept)


def _eliminate(k: Builder, a: Tensor, outer: tuple[Axis, ...], c: Axis, pivot: Expr) -> None:
    """Rows below c, less the multiple of row c that makes their column c zero."""
    with k.loop(a.shape[-1]) as r, k.when(r > c):
        factor = k.local(a[(*outer, r, c)] / pivot)
        with k.loop(a.shape[-1]) as j, k.when(j > c):
            at = (*outer, r, j)
            k.store(a, at, a[at] - factor * a[(*outer, c, j)])
