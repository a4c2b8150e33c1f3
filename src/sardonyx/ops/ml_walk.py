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
    nodes = forest.nodes.copy()
    held = weights.values.view(nodes.dtype) if single else weights.offsets
    if not single and not len(weights.values):
        return k.compute((targets, x.shape[0]), lambda c, n: lift(0.0, x.dtype)), _never(
            k, x, targets
        )
    nodes[forest.inner :, 0, 1] = held
    paid = _payouts(k, forest, nodes, x, x.dtype if single else t.uint32)
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


def _payouts(k: Builder, forest: Forest, nodes: Array, x: Tensor, dtype: DType) -> Tensor:
    """(trees, n): what the walk of each tree finds in place of a threshold."""
    tests = forest.tests
    only_orders = tests is not None and not (tests & EQ).any()
    if tests is not None and only_orders:
        nodes[: forest.inner, 0, 0] += forest.features * (tests[: forest.inner] // MISSING)
        tests = None
    kinds = None if tests is None else k.constant(tests)
    walk = _Walk(k.constant(nodes), kinds, _ranks(k, x, forest.features if only_orders else 0))
    roots = k.constant(forest.roots)
    shape = (len(forest.roots), x.shape[0])

    def found(tree: Expr, n: Expr) -> Expr:
        def step(s: Expr) -> Expr:
            return walk.ahead(s, n)

        start = cast(roots[tree], t.int64)
        return walk.payout(k.iterate(len(nodes), start, step, forest.depth), dtype)

    return k.compute(shape, found, dtype)


def _nan(word: DType) -> Expr:
    """The rank of NaN in what is tested."""
    return lift((1 << (word.bits - 1)) - 1, word)


def _ranks(k: Builder, x: Tensor, twice: int) -> Tensor:
    """The ranks of x (ml_forest.ranks), but that of NaN, which is above them all. twice: so many
    features again behind the first, where that of NaN is below them all: it is at most any
    threshold there, which tests the nodes that lead a NaN to the true side."""
    word = t.int64 if x.dtype is t.float64 else t.int32
    most = _nan(word)

    def rank(nan: Expr, *i: Expr) -> Expr:
        bits = alu("bits", x[i] + 0.0)
        return where(alu("isnan", x[i]), nan, where(bits < 0, bits ^ most, bits))

    if not twice:
        return k.compute(x.shape, lambda *i: rank(most, *i), word)
    found = k.tensor((x.shape[0], 2 * twice), word)
    sides = found.reshaped((x.shape[0], 2, twice))
    k.compute(
        sides.shape, lambda n, side, f: rank(where(side.eq(0), most, ~most), n, f), into=sides
    )
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Walk:
    """x: the ranks of what is tested."""

    nodes: Tensor
    tests: Tensor | None
    x: Tensor

    def ahead(self, s: Expr, n: Expr) -> Expr:
        """The row that a step from s leads to; leaves lead to themselves."""
        return cast(self.nodes[s, 1, cast(self._holds(s, n), t.int64)], t.int64)

    def _holds(self, s: Expr, n: Expr) -> Expr:
        """Whether the test of row s holds for input row n."""
        value = self.x[n, cast(self.nodes[s, 0, 0], t.int64)]
        threshold = self.nodes[s, 0, 1]
        if self.tests is None:
            return value <= threshold
        test = cast(self.tests[s], t.int32)
        equal = value.eq(threshold)
        holds = equal | ((test & EQ).eq(0) & (value <= threshold))
        return holds | ((test >= MISSING) & value.eq(_nan(value.dtype)))

    def payout(self, s: Expr, dtype: DType) -> Expr:
        held = self.nodes[s, 0, 1]
        return alu("bits", held) if dtype.is_float else held.cast(dtype)
