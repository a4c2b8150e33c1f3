"""Which element of a row is first, when those before it are taken away one by one.

An entry stands for an element of up to 32 bits: one number of its rank and its index, larger for
what is earlier. A tree has the first of every WIDTH entries, of every WIDTH of these, and so on;
taking the first away costs its branch of the tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sardonyx import types as t
from sardonyx.dims import Dim, floordiv
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Expr, Local, alu, const, lift, reinterpret, where, widen
from sardonyx.ops.common import maximum, minimum

BITS = 4
WIDTH = 1 << BITS
LEVELS = 3
INDEX = (1 << 32) - 1  # the bits of an entry that hold an index
NOTHING = t.int64.min + 1  # below all entries; gcc would branch on what folds start from
Entries = Callable[[Expr], Expr]


def entry_of(x: Expr, index: Expr, largest: bool) -> Expr:
    """The entry of the element x, of which the largest, or the smallest, is first. A NaN is larger
    than any number; equal elements are in the order of their indices."""
    rank = _of_float(widen(x)) if x.dtype.is_float else x.cast(t.int64)
    rank = rank - (1 << 31) if x.dtype is t.uint32 else rank
    return ((rank if largest else ~rank).cast(t.int64) << 32) + (INDEX - index)


def _of_float(x: Expr) -> Expr:
    word = reinterpret(x + 0.0, t.int32)  # +0 for both zeros
    most = const(t.int32.max, t.int32)
    return where(alu("isnan", x), most, word ^ ((word >> 31) & most))


def index_of(entry: Expr) -> Expr:
    return INDEX - (entry & INDEX)


@dataclass(frozen=True, slots=True, eq=False)
class Contest:
    """The tree over entry(i), i < size, its levels from the bottom up; first: the first entry that
    is left, or at most NOTHING."""

    k: Builder
    size: Dim
    entry: Entries
    levels: list[Tensor]
    first: Local

    def take(self) -> None:
        """Takes the first entry away. What is beside its branch is looked up before anything is
        written, so that nothing waits for a store."""
        k = self.k
        place = k.local(index_of(self.first) >> BITS if self.levels else lift(0))
        width = WIDTH if self.levels else self.size
        best = k.local(_first(k, width, lambda j: self._left(place, j)))
        written = list[tuple[Tensor, Expr, Expr]]()
        for level in self.levels:
            written.append((level, place, best))
            best = k.local(maximum(best, self._beside(level, place)))
            place = k.local(place >> BITS)
        for level, at, value in written:
            k.store(level, (at,), value)
        k.set(self.first, best)

    def _left(self, place: Expr, j: Expr) -> Expr:
        """The entry j of a block, if it is after the first."""
        i, own = _block(place, j, self.size)
        entry = self.entry(i)
        return _held(entry, own & (entry < self.first))

    def _beside(self, level: Tensor, place: Expr) -> Expr:
        """The first of those that stand beside a place of a level."""
        top, (count,) = level is self.levels[-1], level.shape

        def beside(j: Expr) -> Expr:
            i, own = (j, lift(True, t.bool_)) if top else _block(place >> BITS, j, count)
            return _held(level.guard((i,)), own & i.ne(place))

        return self.k.local(_first(self.k, count if top else WIDTH, beside))


def contest(k: Builder, size: Dim, entry: Entries) -> Contest:
    """The tree as it begins: entry(i) stands for the element i < size."""
    k.need_least(INDEX, size, "the size that an index has bits for")
    if isinstance(size, int) and size <= WIDTH:
        return Contest(k, size, entry, [], k.local(_first(k, size, entry)))
    levels = [_bottom(k, size, entry)]
    while len(levels) < LEVELS and not _is_few(levels[-1].shape[0]):
        levels.append(_above(k, levels[-1]))
    top = levels[-1]
    first = k.local(_first(k, top.shape[0], lambda j: top[j]))
    return Contest(k, size, entry, levels, first)


def _is_few(count: Dim) -> bool:
    return isinstance(count, int) and count <= WIDTH


def _bottom(k: Builder, size: Dim, entry: Entries) -> Tensor:
    """The first of every WIDTH entries; where some are left over, the first of these too."""
    whole, rest = floordiv(size, WIDTH), not isinstance(size, int) or size % WIDTH > 0
    level = k.tensor((whole + rest,), t.int64)
    box = Tensor(replace(level.buffer, base=level.buffer, start=(0,)))
    k.compute((whole,), lambda g: _first(k, WIDTH, lambda j: entry(g * WIDTH + j)), into=box)
    if rest:

        def left_over(j: Expr) -> Expr:
            i, own = _block(lift(whole), j, size)
            return _held(entry(i), own)

        k.store(level, (whole,), _first(k, WIDTH, left_over))
    return level


def _above(k: Builder, level: Tensor) -> Tensor:
    """The first of every WIDTH entries of a level."""
    (count,) = level.shape

    def entry(g: Expr, j: Expr) -> Expr:
        i, own = _block(g, j, count)
        return _held(level.guard((i,)), own)

    blocks = floordiv(count + (WIDTH - 1), WIDTH)
    return k.compute((blocks,), lambda g: _first(k, WIDTH, lambda j: entry(g, j)))


def _first(k: Builder, count: Dim, entry: Entries) -> Expr:
    return k.fold("max", (count,), entry)


def _held(entry: Expr, held: Expr) -> Expr:
    """The entry, or nothing. A minimum rather than a choice, since gcc does not make vectors of
    loads under a condition."""
    return minimum(entry, where(held, t.int64.max, NOTHING))


def _block(place: Expr, j: Expr, count: Dim) -> tuple[Expr, Expr]:
    """The index of the element j of a block, and whether it is the block's: the last one begins
    before its own, so as to be as long as the others."""
    if isinstance(count, int) and count <= WIDTH:
        return j, lift(True, t.bool_)
    i = maximum(minimum(place << BITS, lift(count) - WIDTH), 0) + j
    own = (i >> BITS).eq(place)
    return i, own if isinstance(count, int) else own & (i < lift(count))
