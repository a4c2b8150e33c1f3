"""TopK: a heap of the best elements of a row, then sorted in place."""

from __future__ import annotations

from sardonyx import types as t
from sardonyx.dims import Dim
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Expr, Operand, lift
from sardonyx.ops.common import normalize_axis
from sardonyx.ops.index import replaced
from sardonyx.ops.order import less, sift
from sardonyx.ops.registry import operator
from sardonyx.ops.scatter import loops


@operator("TopK", 1)
def top_k_1(k_: Builder, x: Tensor, *, k: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    return _top_k(k_, x, k, axis, largest=True)


@operator("TopK", 10)
def top_k_10(k_: Builder, x: Tensor, k: Tensor, *, axis: int = -1) -> tuple[Tensor, Tensor]:
    return _top_k(k_, x, k.known()[0], axis, largest=True)


@operator("TopK", 11, 24)
def top_k(
    k_: Builder, x: Tensor, k: Tensor, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Tensor, Tensor]:
    return _top_k(k_, x, k.known()[0], axis, bool(largest))


def _top_k(k: Builder, x: Tensor, count: Dim, axis: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The first `count` elements of the axis in descending (or ascending) order, and where they
    are. A NaN is larger than any number; of equal elements the one with the lower index is first.

    The heap begins as the first elements; its root is the last of them in that order, and gives
    way to each later element that is before it.
    """
    a = normalize_axis(axis, x.rank)
    size = x.shape[a]
    if isinstance(size, int) and isinstance(count, int) and not 0 <= count <= size:
        raise InvalidModel(f"k is {count}, the axis has {size} elements")
    found = k.tensor([count if d == a else n for d, n in enumerate(x.shape)], t.int64)
    with (
        loops(k, [1 if d == a else n for d, n in enumerate(x.shape)]) as i,
        k.when(lift(count) > 0),
    ):

        def value(j: Operand) -> Expr:
            return x.guard(replaced(i, a, j))

        def beats(x: Expr, y: Expr) -> Expr:
            return less(y, x) if largest else less(x, y)

        def after(j: Expr, other: Expr) -> Expr:
            x, y = value(j), value(other)
            return beats(y, x) | (~beats(x, y) & (j > other))

        heap = k.compute((count,), lambda j: j, t.int64)
        with k.loop(count) as back:
            sift(k, heap, count - 1 - back, lift(count), after)
        least = k.local(value(heap.guard((0,))))
        with k.loop(size - count) as later, k.when(beats(value(later + count), least)):
            k.store(heap, (0,), later + count)
            sift(k, heap, lift(0), lift(count), after)
            k.set(least, value(heap.guard((0,))))
        with k.loop(count) as back:
            end = k.local(count - 1 - back)
            last, root = k.local(heap.guard((end,))), k.local(heap.guard((0,)))
            k.store(heap, (0,), last)
            k.store(heap, (end,), root)
            sift(k, heap, lift(0), end, after)
        with k.loop(count) as j:
            k.store(found, replaced(i, a, j), heap[j])
    return k.compute(found.shape, lambda *i: x.trap(replaced(i, a, found[i]))), found
