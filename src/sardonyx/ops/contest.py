"""Which element of a row is first, when those before it are taken away one by one.

    ranks      an integer for each element, larger for what is earlier
    contest    a tree of the first ones: of every WIDTH elements, of every WIDTH of these, and so on

An entry stands for an element by its rank and, of equal ranks, its index: one number that holds
both where a rank has 32 bits, else one of each. Taking the first away costs its branch of the tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sardonyx import types as t
from sardonyx.dims import Dim, floordiv
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Expr, Operand, alu, const, lift, reinterpret, where, widen

WIDTH = 16
LEVELS = 3  # of a tree whose size is a symbol
INDEX = (1 << 32) - 1  # the bits of an entry that hold an index
LEAST, MOST = t.int64.min, t.int64.max
Entry = tuple[Expr, ...]  # (rank and index,) or (rank, index)


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
    """The tree over the entries (entry(i), i < size); its levels from the bottom up."""

    k: Builder
    size: Dim
    entry: Callable[[Expr], Entry]
    levels: list[tuple[Tensor, ...]]

    def first(self) -> Entry:
        """The first entry that is left; of nothing, its first number is LEAST."""
        top = self.levels[-1]
        return _first(self.k, top[0].shape[0], lambda j: _at(top, j), self.k.local)

    def take(self, first: Entry) -> None:
        """Takes the first entry away."""
        place = index_of(first)
        for below, level in zip([None, *self.levels], self.levels, strict=False):
            start = self.k.local(place // WIDTH)
            place = start

            def entry(j: Expr, below=below, start=start) -> Entry:
                i = start * WIDTH + j
                return self._left(i, first) if below is None else _at(below, i)

            for part, value in zip(level, _first(self.k, WIDTH, entry, self.k.local), strict=True):
                self.k.store(part, (start,), value)

    def _left(self, i: Expr, first: Entry) -> Entry:
        """The entry i, if it is after the first."""
        entry = self.entry(i)
        is_after = entry[0] < first[0]
        if len(entry) > 1:
            is_after = is_after | (entry[0].eq(first[0]) & (first[1] < entry[1]))
        return _held(entry, (i < self.size) & is_after)


def contest(k: Builder, size: Dim, entry: Callable[[Expr], Entry]) -> Contest:
    """The tree as it begins: entry(i) stands for the element i < size."""
    whole = floordiv(size, WIDTH)
    count = whole + 1 if not isinstance(size, int) or size % WIDTH else whole
    parts = range(len(entry(lift(0))))
    bottom = tuple(k.tensor((count,), t.int64) for _ in parts)
    for p in parts:
        box = Tensor(replace(bottom[p].buffer, base=bottom[p].buffer, start=(0,)))
        k.compute(
            (whole,),
            lambda g: _first(k, WIDTH, lambda j: entry(g * WIDTH + j))[p],
            into=box,
        )
    if count is not whole:
        end = lift(whole) * WIDTH
        last = _first(k, WIDTH, lambda j: _held(entry(end + j), end + j < size), k.local)
        for part, value in zip(bottom, last, strict=True):
            k.store(part, (whole,), value)
    levels = [bottom]
    while len(levels) < LEVELS and not (isinstance(count, int) and count <= WIDTH):
        count = floordiv(count + (WIDTH - 1), WIDTH)
        below = levels[-1]
        levels.append(
            tuple(
                k.compute(
                    (count,), lambda g: _first(k, WIDTH, lambda j: _at(below, g * WIDTH + j))[p]
                )
                for p in parts
            )
        )
    return Contest(k, size, entry, levels)


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


def _at(level: tuple[Tensor, ...], i: Expr) -> Entry:
    return tuple(p.guard((i,), d) for p, d in zip(level, (LEAST, MOST), strict=False))


def _held(entry: Entry, held: Expr) -> Entry:
    return tuple(where(held, e, d) for e, d in zip(entry, (LEAST, MOST), strict=False))
