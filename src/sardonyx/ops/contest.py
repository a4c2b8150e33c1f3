"""Which element of a row is first, when those before it are taken away one by one.

An entry stands for an element, and is larger for what is earlier: one number of rank and index, or,
where a rank has 64 bits, one of each. A tree has the first of every WIDTH entries, of every WIDTH
of these, and so on; taking the first away costs its branch of the tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from sardonyx import types as t
from sardonyx.dims import Dim, floordiv
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Expr, Local, alu, const, lift, reinterpret, where, widen
from sardonyx.ops.common import maximum, minimum

BITS = 4
WIDTH = 1 << BITS
LEVELS = 3
INDEX = (1 << 32) - 1  # the bits of an entry that hold an index
LEAST, MOST = t.int64.min, t.int64.max
NOTHING = LEAST + 1  # below all entries; no LEAST, from which folds start: gcc would branch on it
Entry = tuple[Expr, ...]  # (rank and index,) or (rank, index): the later, the less
Level = tuple[Tensor, ...]


def entry_of(x: Expr, index: Expr, largest: bool) -> Entry:
    """The entry of the element x, of which the largest, or the smallest, is first. A NaN is larger
    than any number; equal elements are in the order of their indices."""
    rank = _of_float(widen(x)) if x.dtype.is_float else _of_integer(x)
    rank = rank if largest else ~rank
    later = INDEX - index
    return (rank, later) if x.dtype.bits > 32 else ((rank.cast(t.int64) << 32) + later,)


def _of_float(x: Expr) -> Expr:
    word = reinterpret(x + 0.0, t.by_name(f"int{x.dtype.bits}"))  # +0 for both zeros
    most = const(word.dtype.max, word.dtype)
    return where(alu("isnan", x), most, word ^ ((word >> (x.dtype.bits - 1)) & most))


def _of_integer(x: Expr) -> Expr:
    if x.dtype is t.uint64:
        return reinterpret(x ^ const(1 << 63, t.uint64), t.int64)
    return x.cast(t.int64) - (1 << 31 if x.dtype is t.uint32 else 0)


def index_of(entry: Entry) -> Expr:
    return INDEX - (entry[1] if len(entry) > 1 else entry[0] & INDEX)


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """entry(i): the entry of the element i < size. nothing: what is after all of them."""

    k: Builder
    size: Dim
    entry: Callable[[Expr], Entry]
    nothing: Entry

    def held(self, entry: Entry, held: Expr) -> Entry:
        """The entry, or nothing. Extremes rather than a choice, since gcc does not make vectors of
        loads under a condition."""
        pairs = zip(entry, self.nothing, strict=True)
        return tuple(alu("min", e, where(held, MOST, n)) for e, n in pairs)

    def at(self, level: Level, i: Expr, held: Expr) -> Entry:
        return self.held(tuple(part.guard((i,)) for part in level), held)

    def first(self, count: Dim, entry: Callable[[Expr], Entry], keep: bool = True) -> Entry:
        """The first of `count` entries; to be kept for statements that follow."""
        kept = self.k.local if keep else lift
        rank = kept(self.k.fold("max", (count,), lambda j: entry(j)[0]))
        if len(self.nothing) == 1:
            return (rank,)

        def index(j: Expr) -> Expr:
            own = entry(j)
            return where(own[0].eq(rank), own[1], NOTHING)

        return rank, kept(self.k.fold("max", (count,), index))


@dataclass(frozen=True, slots=True, eq=False)
class Contest:
    """The tree over a row, its levels from the bottom up; first: the first entry that is left."""

    row: Row
    levels: list[Level]
    first: tuple[Local, ...]

    def take(self) -> None:
        """Takes the first entry away. What is beside its branch is looked up before anything is
        written, so that nothing waits for a store."""
        k, row = self.row.k, self.row
        place = k.local(index_of(self.first) >> BITS if self.levels else lift(0))
        best = row.first(WIDTH if self.levels else row.size, lambda j: self._left(place, j))
        written = list[tuple[Level, Expr, Entry]]()
        for level in self.levels:
            written.append((level, place, best))
            best, place = self._joined(level, place, best), k.local(place >> BITS)
        for level, at, entry in written:
            for part, value in zip(level, entry, strict=True):
                k.store(part, (at,), value)
        for local, value in zip(self.first, best, strict=True):
            k.set(local, value)

    def _left(self, place: Expr, j: Expr) -> Entry:
        """The entry j of a block, if it is after the first."""
        i, own = _block(place, j, self.row.size)
        entry = self.row.entry(i)
        return self.row.held(entry, own & _is_before(self.first, entry))

    def _joined(self, level: Level, place: Expr, entry: Entry) -> Entry:
        """The first of an entry, which is to stand at that place, and those beside it."""
        top, (count,) = level is self.levels[-1], level[0].shape

        def beside(j: Expr) -> Entry:
            i, own = (j, lift(True, t.bool_)) if top else _block(place >> BITS, j, count)
            return self.row.at(level, i, own & i.ne(place))

        other = self.row.first(count if top else WIDTH, beside)
        before = _is_before(entry, other)
        pairs = zip(entry, other, strict=True)
        return tuple(self.row.k.local(where(before, e, o)) for e, o in pairs)


def contest(k: Builder, size: Dim, entry: Callable[[Expr], Entry]) -> Contest:
    """The tree as it begins: entry(i) stands for the element i < size."""
    row = Row(k, size, entry, _nothing(k, size, entry))
    if isinstance(size, int) and size <= WIDTH:
        return Contest(row, [], _locals(k, row.first(size, entry)))
    levels = [_bottom(row)]
    while len(levels) < LEVELS and not _is_few(levels[-1][0].shape[0]):
        levels.append(_above(row, levels[-1]))
    yes, top = lift(True, t.bool_), levels[-1]
    first = row.first(top[0].shape[0], lambda j: row.at(top, j, yes))
    return Contest(row, levels, _locals(k, first))


def _nothing(k: Builder, size: Dim, entry: Callable[[Expr], Entry]) -> Entry:
    """Where an element may have any rank, the least one that is there, with no index."""
    nothing = lift(NOTHING)
    if len(entry(lift(0))) == 1:
        k.need_least(INDEX, size, "the size that an index has bits for")
        return (nothing,)
    return k.local(k.fold("min", (size,), lambda i: entry(i)[0])), nothing


def _locals(k: Builder, entry: Entry) -> tuple[Local, ...]:
    return tuple(k.local(e) for e in entry)


def _is_few(count: Dim) -> bool:
    return isinstance(count, int) and count <= WIDTH


def _bottom(row: Row) -> Level:
    """The first of every WIDTH entries; where some are left over, the first of these too."""
    whole = floordiv(row.size, WIDTH)
    rest = not isinstance(row.size, int) or row.size % WIDTH > 0
    level = tuple(row.k.tensor((whole + rest,), t.int64) for _ in row.nothing)

    def first(g: Expr, p: int) -> Expr:
        return row.first(WIDTH, lambda j: row.entry(g * WIDTH + j), keep=False)[p]

    for p, part in enumerate(level):
        box = Tensor(replace(part.buffer, base=part.buffer, start=(0,)))
        row.k.compute((whole,), partial(first, p=p), into=box)
    if rest:

        def left_over(j: Expr) -> Entry:
            i, own = _block(lift(whole), j, row.size)
            return row.held(row.entry(i), own)

        for part, value in zip(level, row.first(WIDTH, left_over), strict=True):
            row.k.store(part, (whole,), value)
    return level


def _above(row: Row, level: Level) -> Level:
    """The first of every WIDTH entries of a level."""
    (count,) = level[0].shape

    def first(g: Expr, p: int) -> Expr:
        return row.first(WIDTH, lambda j: row.at(level, *_block(g, j, count)), keep=False)[p]

    blocks = (floordiv(count + (WIDTH - 1), WIDTH),)
    return tuple(row.k.compute(blocks, partial(first, p=p)) for p in range(len(level)))


def _is_before(one: Entry, other: Entry) -> Expr:
    if len(one) == 1:
        return one[0] > other[0]
    return (one[0] > other[0]) | (one[0].eq(other[0]) & (one[1] > other[1]))


def _block(place: Expr, j: Expr, count: Dim) -> tuple[Expr, Expr]:
    """The index of the element j of a block, and whether it is the block's: the last one begins
    before its own, so as to be as long as the others."""
    if isinstance(count, int) and count <= WIDTH:
        return j, lift(True, t.bool_)
    i = maximum(minimum(place << BITS, lift(count) - WIDTH), 0) + j
    own = (i >> BITS).eq(place)
    return i, own if isinstance(count, int) else own & (i < lift(count))
