"""Kernels that find for every row where it ends in each tree of a forest.

    paid[t, n]   what tree t pays for input row n: the end of a walk, one step iterated

Tree by tree, so that the nodes of one tree stay in the cache while all rows pass through it. Small
trees are not walked where there are sixteen rows or more (ml_masks.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sardonyx import types as t
from sardonyx.dims import Dim, floordiv
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Expr, Operand, alu, cast, lift, where
from sardonyx.ops.ml_forest import EQ, MISSING, Forest
from sardonyx.ops.ml_masks import FOLD, ROWS, Masks, masks
from sardonyx.types import Array, DType

SPARSE = 4  # of so many features at most one is tested: the others have no rank


def payouts(k: Builder, forest: Forest, held: Array, x: Tensor) -> list[Tensor]:
    """(trees, rows) of one or two parts of the rows of x, (rows, features): what is held, of
    (leaves,), where each tree ends."""
    ranks = _ranks_of(k, forest, x)
    whole: Dim = floordiv(x.shape[0], ROWS) * ROWS
    small = masks(forest) if ranks.tests is None and whole != 0 else None
    parts = []
    if small is None:
        whole = 0
    else:
        parts.append(_tested(k, forest, small, held, ranks, whole))
    if whole != x.shape[0] or not parts:
        parts.append(_walked(k, forest, held, ranks, whole))
    return parts


@dataclass(frozen=True, slots=True, eq=False)
class _Ranks:
    """The ranks of x, (rows, features), as ml_forest.ranks has them, but that of NaN, which is
    above them all. On a second side that of NaN is below them all: it is at most any threshold
    there, which tests the nodes that lead a NaN to the true side.

    used: how many features are read; chosen: which, None for the first ones. width: of a side, a
    power of two; what is behind the features is never read. at: (rows of the forest,), which rank
    each tests. tests: as in Forest, None where all are x <= threshold."""

    k: Builder
    x: Tensor
    used: int
    chosen: Tensor | None
    width: int
    sides: int
    at: Array
    tests: Array | None

    @property
    def word(self) -> DType:
        return t.uint64 if self.x.dtype is t.float64 else t.uint32

    def by_row(self, first: Dim) -> Tensor:
        """(rows, sides * width), from a row on."""
        count = self.x.shape[0] - first
        if self.sides == 1:
            return self.k.compute(
                (count, self.width), lambda n, f: self._rank(0, n + first, f), self.word
            )
        found = self.k.tensor((count, self.sides * self.width), self.word)
        apart = found.reshaped((count, self.sides, self.width))
        self.k.compute(apart.shape, lambda n, s, f: self._rank(s, n + first, f), into=apart)
        return found

    def by_feature(self, count: Dim) -> Tensor:
        """(sides * width, count), of the first rows."""
        found = self.k.tensor((self.sides * self.width, count), self.word)
        apart = found.reshaped((self.sides, self.width, count))
        self.k.compute(apart.shape, lambda s, f, n: self._rank(s, n, f), into=apart)
        return found

    def _rank(self, side: Operand, n: Expr, f: Expr) -> Expr:
        least = t.int64.min if self.word is t.uint64 else t.int32.min
        value = self.x[n, f if self.chosen is None else cast(self.chosen[f], t.int64)]
        if self.width > self.used:
            value = where(f < self.used, value, 0.0)
        bits = alu("bits", value + 0.0)
        rank = cast(where(bits < 0, ~bits, bits ^ least), self.word)
        above = lift(self.word.max, self.word)
        nan = above if self.sides == 1 else where(lift(side).eq(0), above, 0)
        return where(alu("isnan", value), nan, rank)


def _ranks_of(k: Builder, forest: Forest, x: Tensor) -> _Ranks:
    at, tests, sides = forest.feature, forest.tests, 1
    used, chosen, known = forest.features, None, np.unique(at)
    if SPARSE * len(known) < used:
        at, used, chosen = np.searchsorted(known, at), len(known), k.constant(known)
    width = 1 << max(used - 1, 0).bit_length()
    if tests is not None and not (tests & EQ).any():
        at, tests, sides = at + width * (tests // MISSING), None, 2
    return _Ranks(k, x, used, chosen, width, sides, at, tests)


def _tested(
    k: Builder, forest: Forest, small: Masks, held: Array, ranks: _Ranks, rows: Dim
) -> Tensor:
    """(trees, rows) for the first rows, by the tests of all nodes."""
    x, at = ranks.by_feature(rows), k.constant(ranks.at[small.row].astype(np.int32))
    thresholds, stay = k.constant(forest.threshold[small.row]), k.constant(small.mask)
    ends = k.constant(held[small.leaf])
    trees, words, tests = small.row.shape

    def left(tree: Expr, word: Expr, n: Expr) -> Expr:
        """The leaves that all tests leave."""

        def by(j: Expr) -> Expr:
            fails = thresholds[tree, word, j] < x[cast(at[tree, word, j], t.int64), n]
            return stay[tree, word, j] | (cast(fails, t.uint32) - 1)

        return k.fold("and", (tests,), by)

    leaves = k.compute((trees, words, rows), left)

    def end(tree: Expr, n: Expr) -> Expr:
        first, word = leaves[tree, 0, n], lift(0)
        if words == 2:
            some = alu("shr", first | (~first + 1), 31)  # 1 where the first word has a leaf
            first, word = first | (leaves[tree, 1, n] & (some - 1)), 1 - cast(some, t.int64)
        bit = first & (~first + 1)
        return ends[tree, word, cast(alu("shr", bit * FOLD, 27), t.int64)]

    return k.compute((trees, rows), end, ends.dtype)


def _walked(k: Builder, forest: Forest, held: Array, ranks: _Ranks, first: Dim) -> Tensor:
    """(trees, rows) for the rows from `first` on, by walks.

    nodes[s] = (child * the number of ranks + the rank that is tested, the rank of the threshold)
    """
    columns = ranks.sides * ranks.width
    link = forest.child * columns + ranks.at
    fits = link.max() <= np.iinfo(forest.threshold.dtype).max
    table = np.zeros((len(link) + 1, 2), forest.threshold.dtype if fits else np.uint64)
    table[:-1, 0], table[:-1, 1] = link, forest.threshold
    nodes, x, tests = k.constant(table), ranks.by_row(first), None
    if ranks.tests is not None:
        tests = k.constant(np.append(ranks.tests, ranks.tests[:1]))
    roots, ends = k.constant(forest.roots), k.constant(np.append(held[forest.leaf], held[:1]))

    def holds(s: Expr, rank: Expr) -> Expr:
        """Whether the test of row s holds."""
        threshold = nodes[s, 1]
        rank = cast(rank, threshold.dtype)
        if tests is None:
            return rank <= threshold
        test, equal = cast(tests[s], t.int32), rank.eq(threshold)
        found = equal | ((test & EQ).eq(0) & (rank <= threshold))
        return found | ((test >= MISSING) & rank.eq(lift(ranks.word.max, rank.dtype)))

    def end(tree: Expr, n: Expr) -> Expr:
        def step(s: Expr) -> Expr:
            rank = x[n, cast(nodes[s, 0] & (columns - 1), t.int64)]
            child = alu("shr", nodes[s, 0], columns.bit_length() - 1)
            return cast(child, t.int64) + cast(holds(s, rank), t.int64)

        start = cast(roots[tree], t.int64)
        return ends[k.iterate(len(table), start, step, forest.depth)]

    return k.compute((len(forest.roots), x.shape[0]), end, ends.dtype)
