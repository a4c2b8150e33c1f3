"""TopK: a heap of the best elements of a row, then sorted in place."""

from __future__ import annotations

from sardonyx import types as t
from sardonyx.dims import Dim, extreme, floordiv
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Expr, Operand, lift, widen
from sardonyx.kernel.folds import LANES
from sardonyx.ops.common import normalize_axis
from sardonyx.ops.index import replaced
from sardonyx.ops.order import element_at, heapify, less, ordering, put, sift
from sardonyx.ops.registry import operator
from sardonyx.ops.scatter import loops


@operator("TopK", 1)
def top_k_1(k_: Builder, x: Tensor, *, k: int, axis: int = -1) -> tuple[Tensor, Tensor]:
    return _top_k(k_, x, k, axis, largest=True)


@operator("TopK", 10)
def top_k_10(k_: Builder, x: Tensor, k: Tensor, *, axis: int = -1) -> tuple[Tensor, Tensor]:
    return _top_k(k_, x, _count(k_, k), axis, largest=True)


@operator("TopK", 11, 24)
def top_k(
    k_: Builder, x: Tensor, k: Tensor, *, axis: int = -1, largest: int = 1, sorted: int = 1
) -> tuple[Tensor, Tensor]:
    return _top_k(k_, x, _count(k_, k), axis, bool(largest))


def _count(k: Builder, count: Tensor) -> Dim:
    k.need_shape(count, (1,), "K")
    return count.known()[0]


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

        later = ordering(largest)
        first = k.compute((count,), lambda j: j, t.int64)
        heap = first, k.compute((count,), lambda j: widen(value(j)), widen(value(0)).dtype)
        heapify(k, heap, lift(count), later)
        least = k.local(heap[1].guard((0,)))

        def offer(j: Expr) -> None:
            with k.when(beats(value(j), least)):
                put(k, heap, lift(0), (j, widen(value(j))))
                sift(k, heap, lift(0), lift(count), later)
                k.set(least, heap[1].guard((0,)))

        more = extreme("max", size - count, 0)
        blocks = floordiv(more, LANES)
        with k.loop(blocks) as block:
            start = block * LANES + count
            found_one = k.fold("or", (LANES,), lambda j: beats(value(start + j), least))
            with k.when(found_one), k.loop(LANES) as j:
                offer(start + j)
        with k.loop(more - blocks * LANES) as rest:
            offer(rest + count + blocks * LANES)
        with k.loop(count) as back:
            end = k.local(count - 1 - back)
            last, root = (element_at(k, heap, at) for at in (end, lift(0)))
            put(k, heap, lift(0), last)
            put(k, heap, end, root)
            sift(k, heap, lift(0), end, later)
        with k.loop(count) as j:
            k.store(found, replaced(i, a, j), first[j])
    return k.compute(found.shape, lambda *i: x.trap(replaced(i, a, found[i]))), found
