"""LinearClassifier and LinearRegressor. The input is converted to float32 first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx import types as t
from sardonyx.dims import Dim
from sardonyx.errors import Undetermined
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, lift, where
from sardonyx.ops.ml_common import (
    DOMAIN,
    both_classes,
    chosen_label,
    columns,
    first_greatest,
    in_type,
    labels_of,
    need,
    rows,
    table,
    transformed,
)
from sardonyx.ops.registry import operator
from sardonyx.types import Array

Floats = Sequence[float] | None


@operator("LinearRegressor", 1, domain=DOMAIN, accuracy="approximate")
def linear_regressor(
    k: Builder,
    X: Tensor,
    *,
    coefficients: Floats = None,
    intercepts: Floats = None,
    post_transform: str = "NONE",
    targets: int = 1,
) -> Tensor:
    """(n, targets): x W' + b, transformed. Intercepts that are not one for each target are left
    out, as in ONNX Runtime."""
    need(targets > 0, f"targets is {targets}")
    b = table(intercepts, t.float32)
    scores = affine(
        k, X, table(coefficients, t.float32), targets, b if len(b) == targets else b[:0]
    )
    return transformed(k, scores, post_transform)


@operator("LinearClassifier", 1, domain=DOMAIN, accuracy="approximate")
def linear_classifier(
    k: Builder,
    X: Tensor,
    *,
    classlabels_ints: Sequence[int] | None = None,
    classlabels_strings: Sequence[str] | None = None,
    coefficients: Sequence[float],
    intercepts: Floats = None,
    multi_class: int = 0,
    post_transform: str = "NONE",
) -> tuple[Tensor, Tensor]:
    """The label (n,) of each row's greatest score, and the scores x W' + b, transformed. One score
    for two labels decides by its sign, and is written with that of the other class."""
    labels = labels_of(classlabels_ints, classlabels_strings)
    w, b = table(coefficients, t.float32), table(intercepts, t.float32)
    classes = len(b) or _score_count(w, rows(X).shape[1])
    scores = affine(k, X, w, classes, b)
    if classes > 1:
        need(classes == len(labels), f"there are {classes} scores for {len(labels)} labels")
        label = chosen_label(k, first_greatest(k, scores), labels)
        return label, transformed(k, scores, post_transform)
    need(len(labels) <= 2, f"there is one score for {len(labels)} labels")
    no, yes = int(labels[0]), int(labels[-1])
    label = k.compute(
        (scores.shape[0],), lambda i: where(scores[i, 0] > 0, lift(yes), lift(no)), t.int64
    )
    if len(labels) == 2:
        return label, both_classes(k, scores, post_transform, positive=True)
    return label, transformed(k, scores, post_transform) if post_transform == "PROBIT" else scores


def _score_count(w: Array, features: Dim) -> int:
    """How many scores the coefficients give where there are no intercepts to tell."""
    if not isinstance(features, int):
        raise Undetermined("the number of features must be known")
    need(features > 0 and len(w) % features == 0, f"{len(w)} coefficients for {features} features")
    return len(w) // features


def affine(k: Builder, x: Tensor, weights: Array, outputs: int, offsets: Array) -> Tensor:
    """(n, outputs) float32: the products of x's rows with those of weights (outputs, features),
    flat, plus the offsets, one for each output or none."""
    need(outputs > 0 and len(weights) % outputs == 0, "the coefficients do not divide into rows")
    need(len(offsets) in (0, outputs), f"there are {len(offsets)} offsets for {outputs} scores")
    features = len(weights) // outputs
    given = rows(x)
    columns(k, given, features, "the coefficients are for")
    given = in_type(k, given, t.float32)
    w = k.constant(np.ascontiguousarray(weights.reshape(outputs, features).T))
    b = k.constant(offsets) if len(offsets) else None

    def score(i: Axis, c: Axis) -> Expr:
        total = k.dot((features,), lambda f: (given[i, f], w[f, c]))
        return total if b is None else total + b[c]

    return k.compute((given.shape[0], outputs), score, t.float32)
