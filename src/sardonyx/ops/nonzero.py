"""NonZero and Compress: what a condition selects, counted first, then filled in."""

from __future__ import annotations

from sardonyx import types as t
from sardonyx.dims import product
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, lift
from sardonyx.ops.common import normalize_axis
from sardonyx.ops.index import replaced
from sardonyx.ops.registry import INTERNAL, operator, sized
from sardonyx.ops.scatter import loops

sized("NonZero", 9, 13, count="NonZeroCount", fill="NonZeroFill")
sized("Compress", 9, 11, 28, count="CompressCount", fill="CompressFill")


@operator("NonZeroCount", 1, domain=INTERNAL)
def non_zero_count(k: Builder, x: Tensor) -> Tensor:
    """How many elements are not 0; a NaN is not."""
    return _count(k, x)


@operator("NonZeroFill", 1, domain=INTERNAL)
def non_zero_fill(k: Builder, x: Tensor, size: Tensor) -> Tensor:
    """The index of each element that is not 0, a column each, row-major: [rank, size]."""
    out = k.tensor((x.rank, size.known()[0]), t.int64)
    column = k.local(lift(0))
    with loops(k, x.shape) as index, k.when(x[index].cast(t.bool_)):
        for d, i in enumerate(index):
            k.store(out, (lift(d), column), i)
        k.set(column, column + 1)
    return out


@operator("CompressCount", 1, domain=INTERNAL)
def compress_count(k: Builder, x: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    """How often the condition is true."""
    return _count(k, condition)


@operator("CompressFill", 1, domain=INTERNAL)
def compress_fill(
    k: Builder, x: Tensor, condition: Tensor, size: Tensor, *, axis: int | None = None
) -> Tensor:
    """The slices of x (without an axis: the elements of x flattened) where the condition is true.

    A condition shorter than the axis leaves the rest out; being true beyond it is a run-time error.
    """
    if axis is None:
        x, axis = x.reshaped((product(x.shape),)), 0
    a, n = normalize_axis(axis, x.rank), size.known()[0]
    chosen = k.tensor((n + 1,), t.int64)  # one more: without a branch, which none could foresee
    found = k.local(lift(0))
    with k.loop(condition.shape[0]) as i:
        k.store(chosen, (found,), i)
        k.set(found, found + condition[i].cast(t.int64))
    shape = [n if d == a else extent for d, extent in enumerate(x.shape)]

    def element(*i: Axis) -> Expr:
        return x.trap(replaced(i, a, chosen[i[a]]))

    return k.compute(shape, element, x.dtype)


def _count(k: Builder, x: Tensor) -> Tensor:
    """How many elements of x are not 0, a scalar."""

    def one(*i: Axis) -> Expr:
        return x[i].cast(t.bool_).cast(t.int64)

    return k.compute((), lambda: k.sum(x.shape, one) if x.rank else one(), t.int64)
