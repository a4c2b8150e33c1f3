"""Kernels that walk the trees of a forest for every row, and bring together what they pay out.

    paid[t, n]   what tree t pays for input row n: the end of a walk, one step iterated
    out[c, n]    sum over the trees that pay to target c, in the model's order, one accumulator

Tree by tree, so that the nodes of one tree stay in the cache while all rows pass through it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sardonyx import types as t
from sardonyx.errors import InternalError, LimitExceeded
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Expr, alu, cast, lift, where
from sardonyx.ops.ml_common import need
from sardonyx.ops.ml_forest import EQ, MISSING, Forest, Payout
from sardonyx.types import Array, DType

WEIGHTS = 1 << 27  # more weights than this are refused
TARGETS = 1 << 20  # likewise
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    """What leaves pay, one row of a tree's targets per leaf.

    values: the weights, present: which of them are there. offsets: where each leaf's row starts.
    tree, slot (targets, k): the k-th tree that pays to a target, and the target's place in its
    rows; counts: how many trees pay to it.
    """

    values: Array
    present: Array
    offsets: Array
    tree: Array
    slot: Array
    counts: Array


def weigh(forest: Forest, targets: int, dtype: DType, aggregate: str) -> Weights:
    """The tables of a forest's weights. A leaf's weights for one target are brought together in
    the order of the model."""
    if targets > TARGETS:
        raise LimitExceeded(f"the forest has {targets} targets, more than {TARGETS}")
    kinds = [sorted({c for leaf in tree for c, _ in leaf}) for tree in forest.leaves]
    size = sum(len(k) * len(tree) for k, tree in zip(kinds, forest.leaves, strict=True))
    if size > WEIGHTS:
        raise LimitExceeded(f"the forest has {size} weights, more than {WEIGHTS}")
    values, present = np.zeros(size, dtype.numpy), np.zeros(size, np.bool_)
    offsets: list[int] = []
    users: list[list[tuple[int, int]]] = [[] for _ in range(targets)]
    start = 0
    for number, (known, tree) in enumerate(zip(kinds, forest.leaves, strict=True)):
        place = {c: i for i, c in enumerate(known)}
        for c, i in place.items():
            users[c].append((number, i))
        for leaf in tree:
            offsets.append(start)
            for c, w in _merged(leaf, aggregate, dtype):
                values[start + place[c]], present[start + place[c]] = w, True
            start += len(known)
    longest = max(map(len, users), default=0)
    pairs = np.zeros((targets, longest, 2), np.int32)
    for c, list_ in enumerate(users):
        pairs[c, : len(list_)] = np.array(list_, np.int32).reshape(-1, 2)
    counts = np.array([len(u) for u in users], np.int32)
    return Weights(
        values, present, np.array(offsets, np.int64), pairs[..., 0], pairs[..., 1], counts
    )


def _merged(leaf: Payout, aggregate: str, dtype: DType) -> list[tuple[int, float]]:
    """One weight for each target of a leaf."""
    scalar = dtype.numpy.type
    if len(leaf) == 1:
        return leaf
    found: dict[int, np.generic] = {}
    join = {"MIN": np.minimum, "MAX": np.maximum}.get(aggregate, np.add)
    for c, w in leaf:
        found[c] = join(found[c], scalar(w)) if c in found else scalar(w)
    return [(c, float(w)) for c, w in found.items()]


def check_targets(forest: Forest, targets: int) -> None:
    for tree in forest.leaves:
        for leaf in tree:
            for c, _ in leaf:
                need(0 <= c < targets, f"a leaf pays to target {c} of {targets}")


def collect(
    k: Builder, forest: Forest, x: Tensor, targets: int, aggregate: str
) -> tuple[Tensor, Tensor | None]:
    """(targets, n): what the trees pay for each row of x (n, features); and whether any tree pays
    to a target at all, None where one always does. Where none does, the first is 0."""
    need(aggregate in AGGREGATES, f"aggregate_function {aggregate!r} is unknown")
    check_targets(forest, targets)
    weights = weigh(forest, targets, x.dtype, aggregate)
    single = targets == 1 and bool(weights.present.all())
    if not single and not len(weights.values):
        return k.compute((targets, x.shape[0]), lambda c, n: lift(0.0, x.dtype)), _never(
            k, x, targets
        )
    held = weights.values if single else weights.offsets.astype(np.uint32)
    paid = _payouts(k, forest, held[forest.leaf], x)
    if single:
        total = k.compute((1, x.shape[0]), lambda c, n: _fold(k, aggregate, forest, paid, n))
        return total, None
    return _per_target(k, weights, paid, aggregate, x)


def _never(k: Builder, x: Tensor, targets: int) -> Tensor:
    return k.compute((targets, x.shape[0]), lambda c, n: lift(False, t.bool_), t.bool_)


def _fold(k: Builder, aggregate: str, forest: Forest, paid: Tensor, n: Expr) -> Expr:
    """The payouts of the trees for row n brought together."""
    trees = len(forest.roots)
    if aggregate in ("MIN", "MAX"):
        return k.fold(aggregate.lower(), (trees,), lambda tree: paid[tree, n])
    one = lift(1.0, paid.dtype)
    total = k.dot((trees,), lambda tree: (paid[tree, n], one))
    return total / trees if aggregate == "AVERAGE" else total


def _per_target(
    k: Builder, weights: Weights, paid: Tensor, aggregate: str, x: Tensor
) -> tuple[Tensor, Tensor | None]:
    targets, users = weights.tree.shape
    trees = paid.shape[0]
    width = int(weights.slot.max()) + 1
    padded = np.concatenate([weights.values, np.zeros(width, weights.values.dtype)])
    values, last = k.constant(padded), len(weights.values) - 1
    order = np.arange(users, dtype=np.int32)
    dense = bool((weights.tree == order).all() and users == trees)
    by_tree, by_slot = k.constant(weights.tree), k.constant(weights.slot)
    counts = k.constant(weights.counts)
    ragged = bool((weights.counts != users).any())
    whole = bool(weights.present.all())
    there = None if whole else k.constant(np.concatenate([weights.present, [False] * width]))

    def place(c: Expr, j: Expr, n: Expr) -> Expr:
        tree = j if dense else cast(by_tree[c, j], t.int64)
        slot = lift(0) if width == 1 else cast(by_slot[c, j], t.int64)
        return alu("min", cast(paid[tree, n], t.int64), last) + slot

    def when(c: Expr, n: Expr, j: Expr, absent: bool) -> Expr | None:
        """Whether the j-th tree of target c is there, and its leaf pays to it."""
        known = j < cast(counts[c], t.int64) if ragged else None
        if there is None or not absent:
            return known
        paying = there[place(c, j, n)]
        return paying if known is None else known & paying

    def total(c: Expr, n: Expr) -> Expr:
        least = aggregate in ("MIN", "MAX")
        predicate = when(c, n, lift(0), least) is not None
        condition = (lambda j: _sure(when(c, n, j, least))) if predicate else None
        if least:
            return k.fold(aggregate.lower(), (users,), lambda j: values[place(c, j, n)], condition)
        one = lift(1.0, values.dtype)
        found = k.dot((users,), lambda j: (values[place(c, j, n)], one), condition)
        return found / trees if aggregate == "AVERAGE" else found

    def any_there(c: Expr, n: Expr) -> Expr:
        return k.fold("or", (users,), lambda j: _sure(when(c, n, j, True) or lift(True, t.bool_)))

    shape = (targets, x.shape[0])
    if whole and not (weights.counts == 0).any():
        return k.compute(shape, total, x.dtype), None
    if aggregate == "SUM" and (weights.values[weights.present] > 0).all():
        sums = k.compute(shape, total, x.dtype)
        return sums, k.compute(shape, lambda c, n: sums[c, n] > 0, t.bool_)
    has = k.compute(shape, any_there, t.bool_)
    if aggregate not in ("MIN", "MAX"):
        return k.compute(shape, total, x.dtype), has
    return k.compute(shape, lambda c, n: where(has[c, n], total(c, n), 0.0), x.dtype), has


def _sure(e: Expr | None) -> Expr:
    if e is None:
        raise InternalError("a term has no predicate")
    return e


def _payouts(k: Builder, forest: Forest, held: Array, x: Tensor) -> Tensor:
    """(trees, n): what is held, of (rows,), where the walk of each tree ends."""
    tests, feature = forest.tests, forest.feature
    width, sides = 1 << max(forest.features - 1, 0).bit_length(), 1
    if tests is not None and not (tests & EQ).any():
        feature = feature + width * (tests // MISSING)
        tests, sides = None, 2
    link = forest.child * (sides * width) + feature
    fits = link.max() <= np.iinfo(forest.threshold.dtype).max
    nodes = np.zeros((len(link) + 1, 2), forest.threshold.dtype if fits else np.uint64)
    nodes[:-1, 0], nodes[:-1, 1] = link, forest.threshold
    walk = _Walk(
        k.constant(nodes),
        None if tests is None else k.constant(np.append(tests, tests[:1] * 0)),
        _ranks(k, x, forest.features, width, sides),
    )
    roots, payouts = k.constant(forest.roots), k.constant(np.append(held, held[:1] * 0))

    def found(tree: Expr, n: Expr) -> Expr:
        def step(s: Expr) -> Expr:
            return walk.ahead(s, n)

        start = cast(roots[tree], t.int64)
        return payouts[k.iterate(len(nodes), start, step, forest.depth)]

    return k.compute((len(forest.roots), x.shape[0]), found, payouts.dtype)


def _ranks(k: Builder, x: Tensor, features: int, width: int, sides: int) -> Tensor:
    """(n, sides * width): the ranks of x (ml_forest.ranks), but that of NaN, which is above them
    all. On a second side that of NaN is below them all: it is at most any threshold there, which
    tests the nodes that lead a NaN to the true side. What is behind the features is never read."""
    word, least = (t.uint64, t.int64.min) if x.dtype is t.float64 else (t.uint32, t.int32.min)
    most = lift(word.max, word)

    def rank(nan: Expr, n: Expr, f: Expr) -> Expr:
        value = x[n, f] if width == features else where(f < features, x[n, f], 0.0)
        bits = alu("bits", value + 0.0)
        found = cast(where(bits < 0, ~bits, bits ^ least), word)
        return where(alu("isnan", value), nan, found)

    if sides == 1:
        return k.compute((x.shape[0], width), lambda n, f: rank(most, n, f), word)
    found = k.tensor((x.shape[0], sides * width), word)
    apart = found.reshaped((x.shape[0], sides, width))
    k.compute(
        apart.shape, lambda n, side, f: rank(where(side.eq(0), most, ~most), n, f), into=apart
    )
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Walk:
    """nodes: (rows + 1, 2), child * the number of ranks + feature, and the rank of the threshold.
    x: (n, a power of two), the ranks of what is tested."""

    nodes: Tensor
    tests: Tensor | None
    x: Tensor

    def ahead(self, s: Expr, n: Expr) -> Expr:
        """The row that a step from s leads to; leaves lead to themselves."""
        link, columns = self.nodes[s, 0], int(self.x.shape[1])  # type: ignore[arg-type]
        value = self.x[n, cast(link & (columns - 1), t.int64)]
        child = alu("shr", link, columns.bit_length() - 1)
        return cast(child, t.int64) + cast(self._holds(s, value), t.int64)

    def _holds(self, s: Expr, value: Expr) -> Expr:
        """Whether the test of row s holds for a rank."""
        threshold = self.nodes[s, 1]
        value = cast(value, threshold.dtype)
        if self.tests is None:
            return value <= threshold
        test = cast(self.tests[s], t.int32)
        nan = lift(self.x.dtype.max, threshold.dtype)
        equal = value.eq(threshold)
        holds = equal | ((test & EQ).eq(0) & (value <= threshold))
        return holds | ((test >= MISSING) & value.eq(nan))
