"""What the trees of a forest pay, brought together for each target.

out[c, n]    sum over the trees that pay to target c, in the model's order, one accumulator
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sardonyx import types as t
from sardonyx.errors import InternalError, LimitExceeded
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Expr, alu, cast, lift, where
from sardonyx.ops.ml_common import need
from sardonyx.ops.ml_forest import Forest, Payout
from sardonyx.ops.ml_walk import payouts
from sardonyx.ops.movement import concat
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
    parts: list[tuple[Tensor, Tensor | None]] = []
    for paid in payouts(k, forest, held, x):
        if single:
            parts.append((k.compute((1, paid.shape[1]), _fold(k, aggregate, forest, paid)), None))
        else:
            parts.append(_per_target(k, weights, paid, aggregate, x.dtype))
    has = [h for _, h in parts if h is not None]
    return _joined(k, [scores for scores, _ in parts]), _joined(k, has) if has else None


def _joined(k: Builder, parts: Sequence[Tensor]) -> Tensor:
    """(targets, rows) of one or two parts of the rows."""
    return parts[0] if len(parts) == 1 else concat(k, *parts, axis=1)


def _never(k: Builder, x: Tensor, targets: int) -> Tensor:
    return k.compute((targets, x.shape[0]), lambda c, n: lift(False, t.bool_), t.bool_)


def _fold(k: Builder, aggregate: str, forest: Forest, paid: Tensor) -> Callable[[Expr, Expr], Expr]:
    """The payouts of the trees for each row brought together, for the one target."""
    trees, one = len(forest.roots), lift(1.0, paid.dtype)

    def total(_: Expr, n: Expr) -> Expr:
        if aggregate in ("MIN", "MAX"):
            return k.fold(aggregate.lower(), (trees,), lambda tree: paid[tree, n])
        found = k.dot((trees,), lambda tree: (paid[tree, n], one))
        return found / trees if aggregate == "AVERAGE" else found

    return total


def _per_target(
    k: Builder, weights: Weights, paid: Tensor, aggregate: str, dtype: DType
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

    shape = (targets, paid.shape[1])
    if whole and not (weights.counts == 0).any():
        return k.compute(shape, total, dtype), None
    if aggregate == "SUM" and (weights.values[weights.present] > 0).all():
        sums = k.compute(shape, total, dtype)
        return sums, k.compute(shape, lambda c, n: sums[c, n] > 0, t.bool_)
    has = k.compute(shape, any_there, t.bool_)
    if aggregate not in ("MIN", "MAX"):
        return k.compute(shape, total, dtype), has
    return k.compute(shape, lambda c, n: where(has[c, n], total(c, n), 0.0), dtype), has


def _sure(e: Expr | None) -> Expr:
    if e is None:
        raise InternalError("a term has no predicate")
    return e
