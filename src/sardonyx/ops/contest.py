"""Which element of a row is first, when those before it are taken away one by one.

    ranks      an integer for each element, larger for what is earlier
    contest    a tree of the first ones: of every WIDTH elements, of every WIDTH of these, and so on

An entry stands for an element by its rank and, of equal ranks, its index: one number that holds
both where a rank has 32 bits, else one of each. Taking the first away costs its branch of the tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from sardonyx import types as t
from sardonyx.dims import Dim, floordiv
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Expr, Local, Operand, alu, const, lift, reinterpret, where, widen
from sardonyx.ops.common import maximum, minimum

BITS = 4
WIDTH = 1 << BITS
FEW = 16  # entries that are no level above
LEVELS = 3
INDEX = (1 << 32) - 1  # the bits of an entry that hold an index
LEAST, MOST = t.int64.min, t.int64.max
NOTHING = LEAST + 1
Entry = tuple[Expr, ...]  # (rank and index,) or (rank, index)
Level = tuple[Tensor, ...]


def entry_of(x: Expr, index: Expr, largest: bool, held: Operand = True) -> Entry:
    """The entry of the element x: the largest, or the smallest, is first. A NaN is larger than any
    number; equal elements are in the order of their indices. Where it is not held, it is nothing.
    """
    rank = _of_float(widen(x)) if x.dtype.is_float else _of_integer(x)
    rank = rank if largest else ~rank
    if x.dtype.bits > 32:
        return where(held, rank, LEAST), where(held, index, MOST)
    return (where(held, (rank.cast(t.int64) << 32) + (INDEX - index), LEAST),)


def _of_float(x: Expr) -> Expr:
    word = reinterpret(x + 0.0, t.by_name(f"int{x.dtype.bits}"))  # +0 for both zeros
    most = const(word.dtype.max, word.dtype)
    return where(alu("isnan", x), most, word ^ ((word >> (x.dtype.bits - 1)) & most))


def _of_integer(x: Expr) -> Expr:
    if x.dtype is t.uint64:
        return reinterpret(x ^ const(1 << 63, t.uint64), t.int64)
    return x.cast(t.int64) - (1 << 31 if x.dtype is t.uint32 else 0)


def index_of(entry: Entry) -> Expr:
    return entry[1] if len(entry) > 1 else INDEX - (entry[0] & INDEX)


@dataclass(frozen=True, slots=True, eq=False)
class Contest:
    """The tree over the entries (entry(i), i < size), its levels from the bottom up; first: the
    first entry that is left. Of nothing, its first number is LEAST."""

    k: Builder
    size: Dim
    entry: Callable[[Expr], Entry]
    levels: list[Level]
    first: tuple[Local, ...]

    def take(self) -> None:
        """Takes the first entry away. What is beside its branch is looked up before anything is
        written, so that nothing waits for a store."""
        place = self.k.local(index_of(self.first) >> BITS if self.levels else lift(0))
        width = WIDTH if self.levels else self.size
        best = _first(
            self.k, width, lambda j: self._left(*_block(place, j, self.size)), self.k.local
        )
        written = list[tuple[Level, Expr, Entry]]()
        for level in self.levels:
            written.append((level, place, best))
            best, place = self._joined(level, place, best), self.k.local(place >> BITS)
        for level, at, entry in written:
            for part, value in zip(level, entry, strict=True):
                self.k.store(part, (at,), value)
        for local, value in zip(self.first, best, strict=True):
            self.k.set(local, value)

    def _left(self, i: Expr, own: Expr) -> Entry:
        """The entry i, if it is after the first."""
        entry = self.entry(i)
        return _held(entry, own & _is_before(self.first, entry))

    def _joined(self, level: Level, place: Expr, entry: Entry) -> Entry:
        """The first of an entry, which is to stand at that place of a level, and those beside it."""
        top = level is self.levels[-1]
        (count,) = level[0].shape
        width = count if top else WIDTH

        def beside(j: Expr) -> Entry:
            i, own = (j, lift(True, t.bool_)) if top else _block(place >> BITS, j, count)
            return _held(_at(level, i), own & i.ne(place))

        other = _first(self.k, width, beside, self.k.local)
        before = _is_before(entry, other)
        return tuple(self.k.local(where(before, e, o)) for e, o in zip(entry, other, strict=True))


def contest(k: Builder, size: Dim, entry: Callable[[Expr], Entry]) -> Contest:
    """The tree as it begins: entry(i) stands for the element i < size."""
    if isinstance(size, int) and size <= WIDTH:
        return Contest(k, size, entry, [], _locals(k, size, entry))
    levels = [_bottom(k, size, entry)]
    while len(levels) < LEVELS and not _is_few(count := levels[-1][0].shape[0]):
        levels.append(_above(k, levels[-1], floordiv(count + (WIDTH - 1), WIDTH)))
    top = levels[-1]
    return Contest(k, size, entry, levels, _locals(k, top[0].shape[0], lambda j: _at(top, j)))


def _is_few(count: Dim) -> bool:
    return isinstance(count, int) and count <= FEW


def _locals(k: Builder, count: Dim, entry: Callable[[Expr], Entry]) -> tuple[Local, ...]:
    return tuple(k.local(e) for e in _first(k, count, entry))


def _bottom(k: Builder, size: Dim, entry: Callable[[Expr], Entry]) -> Level:
    """The first of every WIDTH entries; where some are left over, the first of these too."""
    whole, rest = floordiv(size, WIDTH), not isinstance(size, int) or size % WIDTH > 0
    level = tuple(k.tensor((whole + rest,), t.int64) for _ in entry(lift(0)))
    for p, part in enumerate(level):

        def first(g: Expr, p: int = p) -> Expr:
            return _first(k, WIDTH, lambda j: entry(g * WIDTH + j))[p]

        k.compute((whole,), first, into=Tensor(replace(part.buffer, base=part.buffer, start=(0,))))
    if rest:

        def left_over(j: Expr) -> Entry:
            i, own = _block(lift(whole), j, size)
            return _held(entry(i), own)

        last = _first(k, WIDTH, left_over, k.local)
        for part, value in zip(level, last, strict=True):
            k.store(part, (whole,), value)
    return level


def _above(k: Builder, level: Level, count: Dim) -> Level:
    """The first of every WIDTH entries of a level."""

    def first(g: Expr, p: int) -> Expr:
        def entry(j: Expr) -> Entry:
            i, own = _block(g, j, level[0].shape[0])
            return _held(_at(level, i), own)

        return _first(k, WIDTH, entry)[p]

    return tuple(k.compute((count,), partial(first, p=p)) for p in range(len(level)))


def _first(
    k: Builder,
    count: Dim,
    entry: Callable[[Expr], Entry],
    keep: Callable[[Expr], Expr] = lambda e: e,
) -> Entry:
    """The first of `count` entries."""
    rank = keep(k.fold("max", (count,), lambda j: entry(j)[0]))
    if len(entry(lift(0))) == 1:
        return (rank,)

    def index(j: Expr) -> Expr:
        own = entry(j)
        return where(own[0].eq(rank), own[1], MOST)

    return rank, keep(k.fold("min", (count,), index))


def _is_before(one: Entry, other: Entry) -> Expr:
    if len(one) == 1:
        return one[0] > other[0]
    return (one[0] > other[0]) | (one[0].eq(other[0]) & (one[1] < other[1]))


def _at(level: Level, i: Expr) -> Entry:
    return tuple(p.guard((i,), d) for p, d in zip(level, (LEAST, MOST), strict=False))


def _held(entry: Entry, held: Expr) -> Entry:
    """The entry, or nothing. Extremes rather than a choice, since gcc does not make vectors of
    loads under a condition."""
    least = NOTHING if len(entry) == 1 else LEAST
    rank = alu("min", entry[0], where(held, MOST, least))
    return rank, *(alu("max", e, where(held, LEAST, MOST)) for e in entry[1:])


def _block(place: Expr, j: Expr, count: Dim) -> tuple[Expr, Expr]:
    """The index of the element j of a block, and whether it is the block's: the last one begins
    before its own, so as to be as long as the others."""
    if isinstance(count, int) and count <= WIDTH:
        return j, lift(True, t.bool_)
    i = maximum(minimum(place << BITS, lift(count) - WIDTH), 0) + j
    own = (i >> BITS).eq(place)
    return i, own if isinstance(count, int) else own & (i < lift(count))
