"""TopK: the first element of a row is taken away, as often as elements are wanted; elements of 64
bits go by a heap of the best. Of short rows, of which much is wanted: how many are before each."""

from __future__ import annotations

from dataclasses import dataclass

from sardonyx import types as t
from sardonyx.dims import Dim, extreme, floordiv
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, Operand, lift, where, widen
from sardonyx.kernel.folds import LANES
from sardonyx.ops.common import normalize_axis
from sardonyx.ops.contest import WIDTH, contest, entry_of, index_of
from sardonyx.ops.index import replaced
from sardonyx.ops.order import element_at, heapify, less, ordering, put, sift
from sardonyx.ops.registry import operator
from sardonyx.ops.scatter import loops
from sardonyx.types import DType

MUCH = 128  # comparisons of all pairs that take as long as taking the first element away
LEAST = 8  # elements that are sorted by their places
HEAPED = 40, 4  # the same of a heap: comparisons for one of its steps, elements


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
    """
    a = normalize_axis(axis, x.rank)
    size = x.shape[a]
    write = _by_heap if x.dtype.bits > 32 else _by_contest
    if isinstance(size, int) and isinstance(count, int):
        if not 0 <= count <= size:
            raise InvalidModel(f"k is {count}, the axis has {size} elements")
        write = _by_places if _is_much(count, size, x.dtype) else write
    k.need_least(size, count, "the axis of which the first k elements are taken: its size")
    found = k.tensor([count if d == a else n for d, n in enumerate(x.shape)], t.int64)
    with loops(k, [1 if d == a else n for d, n in enumerate(x.shape)]) as i:
        write(k, _Row(x, found, a, i, count, largest))
    return k.compute(found.shape, lambda *i: x.trap(replaced(i, a, found[i]))), found


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    """A row of x along axis a, the others being i, of which the first `count` are found."""

    x: Tensor
    found: Tensor
    a: int
    i: tuple[Axis, ...]
    count: Dim
    largest: bool

    def at(self, j: Operand) -> tuple[Operand, ...]:
        return tuple(replaced(self.i, self.a, j))

    def beats(self, x: Expr, y: Expr) -> Expr:
        return less(y, x) if self.largest else less(x, y)

    def entry(self, j: Expr) -> Expr:
        return entry_of(self.x.guard(self.at(j)), j, self.largest)

    def write(self, k: Builder, j: Operand, place: Operand) -> None:
        k.store(self.found, self.at(j), place)


def _by_contest(k: Builder, row: _Row) -> None:
    """The first element is taken, as often as elements are wanted."""
    found = contest(k, row.x.shape[row.a], row.entry)
    with k.loop(row.count) as j:
        row.write(k, j, index_of(found.first))
        with k.when(j + 1 < row.count):
            found.take()


def _by_heap(k: Builder, row: _Row) -> None:
    """A heap of the best elements, of 64 bits, sorted in place, where any are wanted."""
    with k.when(lift(row.count) > 0):
        _sort(k, row)


def _sort(k: Builder, row: _Row) -> None:
    """The heap begins as the first elements; its root is the last of them in that order, and gives
    way to each later element that is before it."""
    count, later = row.count, ordering(row.largest)

    def value(j: Operand) -> Expr:
        return row.x.guard(row.at(j))

    first = k.compute((count,), lambda j: j, t.int64)
    heap = first, k.compute((count,), lambda j: widen(value(j)), widen(value(0)).dtype)
    heapify(k, heap, lift(count), later)
    least = k.local(heap[1].guard((0,)))

    def offer(j: Expr) -> None:
        with k.when(row.beats(value(j), least)):
            put(k, heap, lift(0), (j, widen(value(j))))
            sift(k, heap, lift(0), lift(count), later)
            k.set(least, heap[1].guard((0,)))

    more = extreme("max", row.x.shape[row.a] - count, 0)
    blocks = floordiv(more, LANES)
    with k.loop(blocks) as block:
        start = block * LANES + count
        found_one = k.fold("or", (LANES,), lambda j: row.beats(value(start + j), least))
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
        row.write(k, j, first[j])


def _is_much(count: int, size: int, dtype: DType) -> bool:
    """Whether all pairs are compared sooner than so many are taken away, or sorted in a heap."""
    if dtype.bits > 32:
        much, least = HEAPED
        return count >= least and size * size <= much * count * count.bit_length()
    return size > WIDTH and count >= LEAST and size * size <= MUCH * count


def _by_places(k: Builder, row: _Row) -> None:
    """An element's place is how many are before it."""
    size = row.x.shape[row.a]

    def place(j: Expr) -> Expr:
        def is_before(o: Expr) -> Expr:
            own, other = row.x[row.at(j)], row.x[row.at(o)]
            return where(o < j, ~row.beats(own, other), row.beats(other, own))

        return k.fold("sum", (size,), lambda o: is_before(o).cast(t.int32))

    places = k.compute((size,), place, t.int32)
    with k.loop(size) as j, k.when(places[j] < row.count):
        row.write(k, places[j].cast(t.int64), j)
