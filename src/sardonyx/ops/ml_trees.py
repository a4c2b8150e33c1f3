"""TreeEnsembleRegressor, TreeEnsembleClassifier and TreeEnsemble.

Thresholds, weights and sums are float32, or float64 where the input or one of the tensors among
the attributes is. Trees are counted in the order in which the model lists them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sardonyx import types as t
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Expr, lift, where
from sardonyx.ops.ml_collect import AGGREGATES, collect
from sardonyx.ops.ml_common import (
    DOMAIN,
    TRANSFORMS,
    both_classes,
    chosen_label,
    first_greatest,
    in_type,
    labels_of,
    need,
    rows,
    table,
    transformed,
)
from sardonyx.ops.ml_encoding import indexed, listed
from sardonyx.ops.ml_forest import Forest
from sardonyx.ops.registry import operator, refused
from sardonyx.types import Array, DType

Ints = Sequence[int] | None
Floats = Sequence[float] | None

for name in ("TreeEnsembleRegressor", "TreeEnsembleClassifier"):
    refused(name, 5, domain=DOMAIN, reason="it is deprecated; TreeEnsemble takes its place")


@operator("TreeEnsembleRegressor", 1, 3, domain=DOMAIN, accuracy="approximate")
def tree_ensemble_regressor(
    k: Builder,
    X: Tensor,
    *,
    aggregate_function: str = "SUM",
    base_values: Floats = None,
    base_values_as_tensor: Array | None = None,
    n_targets: int | None = None,
    nodes_falsenodeids: Ints = None,
    nodes_featureids: Ints = None,
    nodes_hitrates: Floats = None,
    nodes_hitrates_as_tensor: Array | None = None,
    nodes_missing_value_tracks_true: Ints = None,
    nodes_modes: Sequence[str] | None = None,
    nodes_nodeids: Ints = None,
    nodes_treeids: Ints = None,
    nodes_truenodeids: Ints = None,
    nodes_values: Floats = None,
    nodes_values_as_tensor: Array | None = None,
    post_transform: str = "NONE",
    target_ids: Ints = None,
    target_nodeids: Ints = None,
    target_treeids: Ints = None,
    target_weights: Floats = None,
    target_weights_as_tensor: Array | None = None,
) -> Tensor:
    """(n, n_targets), float32: for each target the aggregate of what its trees pay, plus its base
    value, transformed."""
    tensors = base_values_as_tensor, nodes_values_as_tensor, target_weights_as_tensor
    wide = _wide(X, tensors)
    forest = listed(
        wide,
        (nodes_treeids, nodes_nodeids, nodes_featureids, nodes_truenodeids, nodes_falsenodeids),
        nodes_modes,
        _either(nodes_values, nodes_values_as_tensor, "nodes_values"),
        nodes_missing_value_tracks_true,
        (target_treeids, target_nodeids, target_ids),
        _either(target_weights, target_weights_as_tensor, "target_weights"),
    )
    base = table(_either(base_values, base_values_as_tensor, "base_values"), wide)
    count = _targets(n_targets)
    need(len(base) in (0, count), f"there are {len(base)} base values for {count} targets")
    scores = _scores(k, forest, _features(k, X, wide, forest), count, aggregate_function, base)
    return in_type(k, transformed(k, scores, post_transform), t.float32)


@operator("TreeEnsembleClassifier", 1, 3, domain=DOMAIN, accuracy="approximate")
def tree_ensemble_classifier(
    k: Builder,
    X: Tensor,
    *,
    base_values: Floats = None,
    base_values_as_tensor: Array | None = None,
    class_ids: Ints = None,
    class_nodeids: Ints = None,
    class_treeids: Ints = None,
    class_weights: Floats = None,
    class_weights_as_tensor: Array | None = None,
    classlabels_int64s: Ints = None,
    classlabels_strings: Sequence[str] | None = None,
    nodes_falsenodeids: Ints = None,
    nodes_featureids: Ints = None,
    nodes_hitrates: Floats = None,
    nodes_hitrates_as_tensor: Array | None = None,
    nodes_missing_value_tracks_true: Ints = None,
    nodes_modes: Sequence[str] | None = None,
    nodes_nodeids: Ints = None,
    nodes_treeids: Ints = None,
    nodes_truenodeids: Ints = None,
    nodes_values: Floats = None,
    nodes_values_as_tensor: Array | None = None,
    post_transform: str = "NONE",
) -> tuple[Tensor, Tensor]:
    """The label (n,) of each row's top class, and the scores (n, classes), float32."""
    wide = _wide(X, (base_values_as_tensor, nodes_values_as_tensor, class_weights_as_tensor))
    labels = labels_of(classlabels_int64s, classlabels_strings)
    weights = _either(class_weights, class_weights_as_tensor, "class_weights")
    forest = listed(
        wide,
        (nodes_treeids, nodes_nodeids, nodes_featureids, nodes_truenodeids, nodes_falsenodeids),
        nodes_modes,
        _either(nodes_values, nodes_values_as_tensor, "nodes_values"),
        nodes_missing_value_tracks_true,
        (class_treeids, class_nodeids, class_ids),
        weights,
    )
    base = table(_either(base_values, base_values_as_tensor, "base_values"), wide)
    need(
        len(base) in ((0, 1, 2) if len(labels) <= 2 else (0, len(labels))),
        f"there are {len(base)} base values for {len(labels)} classes",
    )
    x = _features(k, X, wide, forest)
    used = set(class_ids or ())
    need(all(0 <= c < len(labels) for c in used), "a class id is not one of the classes")
    positive = bool((table(weights, wide) >= 0).all())
    if len(labels) > 2:
        index, scores = _top_class(k, forest, x, len(labels), base)
        label = chosen_label(k, index, labels)
        scores = transformed(k, scores, post_transform)
    else:
        label, scores = _binary(k, forest, x, labels, used, base, positive, post_transform)
    return label, in_type(k, scores, t.float32)


@operator("TreeEnsemble", 5, domain=DOMAIN, accuracy="approximate")
def tree_ensemble(
    k: Builder,
    X: Tensor,
    *,
    aggregate_function: int = 1,
    leaf_targetids: Sequence[int],
    leaf_weights: Array,
    membership_values: Array | None = None,
    n_targets: int | None = None,
    nodes_falseleafs: Sequence[int],
    nodes_falsenodeids: Sequence[int],
    nodes_featureids: Sequence[int],
    nodes_hitrates: Array | None = None,
    nodes_missing_value_tracks_true: Ints = None,
    nodes_modes: Array,
    nodes_splits: Array,
    nodes_trueleafs: Sequence[int],
    nodes_truenodeids: Sequence[int],
    post_transform: int = 0,
    tree_roots: Sequence[int],
) -> Tensor:
    """(n, n_targets) of the input's type: the aggregate of what the trees pay, transformed."""
    need(0 <= aggregate_function < len(AGGREGATES), "aggregate_function is not one of 0 to 3")
    need(0 <= post_transform < len(TRANSFORMS), "post_transform is not one of 0 to 4")
    wide = _wide(X, (nodes_splits, leaf_weights))
    forest = indexed(
        wide,
        (
            nodes_featureids,
            nodes_truenodeids,
            nodes_falsenodeids,
            nodes_trueleafs,
            nodes_falseleafs,
        ),
        nodes_modes,
        nodes_splits,
        nodes_missing_value_tracks_true,
        membership_values,
        (leaf_targetids, leaf_weights),
        tree_roots,
    )
    x = _features(k, X, wide, forest)
    aggregate = AGGREGATES[aggregate_function]
    scores = _scores(k, forest, x, _targets(n_targets), aggregate, table(None, wide))
    return in_type(k, transformed(k, scores, TRANSFORMS[post_transform]), X.dtype)


def _targets(n_targets: int | None) -> int:
    need(n_targets is not None and n_targets > 0, "n_targets must be a positive number")
    assert n_targets is not None
    return n_targets


def _wide(x: Tensor, tensors: Sequence[Array | None]) -> DType:
    """The type that thresholds are compared and weights are added in."""
    double = x.dtype is t.float64 or any(a is not None and a.dtype == np.float64 for a in tensors)
    return t.float64 if double else t.float32


def _either(values: Floats, tensor: Array | None, name: str) -> Any:
    """The attribute that is given of a list and a tensor of the same meaning."""
    need(not values or tensor is None, f"both {name} and {name}_as_tensor are given")
    return values if tensor is None else tensor.reshape(-1)


def _features(k: Builder, x: Tensor, wide: DType, forest: Forest) -> Tensor:
    """The input as a matrix that has every feature which the forest asks for."""
    given = rows(x)
    what = f"a node tests feature {forest.features - 1}: the number of features"
    k.need_least(given.shape[1], forest.features, what)
    return in_type(k, given, wide)


def _scores(
    k: Builder, forest: Forest, x: Tensor, targets: int, aggregate: str, base: Array
) -> Tensor:
    """(n, targets): what the trees pay plus the base values."""
    paid, _ = collect(k, forest, x, targets, aggregate)
    return _with_base(k, paid, base)


def _with_base(k: Builder, paid: Tensor, base: Array) -> Tensor:
    """(n, targets) from (targets, n), with the base values, if any, added."""
    targets, n = paid.shape
    if not len(base):
        return k.compute((n, targets), lambda i, c: paid[c, i], paid.dtype)
    offsets = k.constant(base)
    return k.compute((n, targets), lambda i, c: paid[c, i] + offsets[c], paid.dtype)


def _top_class(
    k: Builder, forest: Forest, x: Tensor, classes: int, base: Array
) -> tuple[Tensor, Tensor]:
    """Where the greatest score of each row is, of the classes that a tree pays to or that have a
    base value; and the scores."""
    paid, has = collect(k, forest, x, classes, "SUM")
    scores = _with_base(k, paid, base)
    if has is None or len(base):
        return first_greatest(k, scores), scores
    low = lift(-np.inf, x.dtype)
    compared = k.compute(
        scores.shape, lambda i, c: where(has[c, i], scores[i, c], low), scores.dtype
    )
    return first_greatest(k, compared), scores


def _binary(
    k: Builder,
    forest: Forest,
    x: Tensor,
    labels: Array,
    used: set[int],
    base: Array,
    positive: bool,
    transform: str,
) -> tuple[Tensor, Tensor]:
    """Of one or two labels. Where all weights are of one class, its score decides: at more than
    0.5 where no weight is negative, else at more than 0."""
    if len(labels) == 2 and len(used) != 1:
        padded = np.concatenate([base, np.zeros(2 - len(base), base.dtype)]) if len(base) else base
        index, scores = _top_class(k, forest, x, 2, padded)
        return chosen_label(k, index, labels), transformed(k, scores, transform)
    (target,) = used or {0}
    paid, _ = collect(k, forest, x, len(labels), "SUM")
    own = base[target : target + 1] if len(base) > target else base[:1]
    alone = k.compute((1, x.shape[0]), lambda _, i: paid[target, i], x.dtype)
    score = _with_base(k, alone, own)
    if len(labels) == 1:
        label = k.compute((x.shape[0],), lambda i: lift(int(labels[0])), t.int64)
        return label, transformed(k, score, transform) if transform == "PROBIT" else score
    label = _decided(k, score, 0.5 if positive else 0.0, labels)
    if target == 0:
        return label, both_classes(k, score, transform, positive)
    other = float(base[0]) if len(base) == 2 else 0.0
    pair = k.compute((x.shape[0], 2), lambda i, c: where(c.eq(0), other, score[i, 0]), x.dtype)
    return label, transformed(k, pair, transform)


def _decided(k: Builder, score: Tensor, least: float, names: Array) -> Tensor:
    """The second name where the score is greater than `least`, else the first."""
    no, yes = (int(v) for v in names)

    def label(i: Expr) -> Expr:
        return where(score[i, 0] > least, lift(yes), lift(no))

    return k.compute((score.shape[0],), label, t.int64)
