"""TopK: a heap of the best elements of a row, then sorted in place; of short rows, of which much is
wanted, how many elements are before each."""

from __future__ import annotations

from sardonyx import types as t
from sardonyx.dims import Dim, extreme, floordiv
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Expr, Operand, lift, where, widen
from sardonyx.kernel.folds import LANES
from sardonyx.ops.common import normalize_axis
from sardonyx.ops.index import replaced
from sardonyx.ops.order import element_at, heapify, less, ordering, put, sift
from sardonyx.ops.registry import operator
from sardonyx.ops.scatter import loops

MUCH = 40  # comparisons of all pairs that take as long as one of the steps of sorting a heap
LEAST = 4  # elements that are sorted by their places


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
    if isinstance(size, int) and isinstance(count, int) and _is_much(count, size):
        return _ranked(k, x, count, a, largest)
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


def _is_much(count: int, size: int) -> bool:
    """Whether all pairs are compared sooner than so many are sorted."""
    return count >= LEAST and size * size <= MUCH * count * count.bit_length()


def _ranked(k: Builder, x: Tensor, count: int, a: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The same; an element's place is how many are before it."""
    size = x.shape[a]
    found = k.tensor([count if d == a else n for d, n in enumerate(x.shape)], t.int64)
    with loops(k, [1 if d == a else n for d, n in enumerate(x.shape)]) as i:

        def value(j: Operand) -> Expr:
            return x[tuple(replaced(i, a, j))]

        def place(j: Expr) -> Expr:
            def is_before(o: Expr) -> Expr:
                low, high = (value(o), value(j)) if largest else (value(j), value(o))
                return where(o < j, ~less(low, high), less(high, low))

            return k.fold("sum", (size,), lambda o: is_before(o).cast(t.int32))

        places = k.compute((size,), place, t.int32)
        with k.loop(size) as j, k.when(places[j] < count):
            k.store(found, replaced(i, a, places[j].cast(t.int64)), j)
    return k.compute(found.shape, lambda *i: x.trap(replaced(i, a, found[i]))), found
