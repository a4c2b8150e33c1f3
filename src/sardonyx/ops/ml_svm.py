"""SVMClassifier and SVMRegressor. The input is converted to float32 first.

Decisions between two classes are sums of float64 over the support vectors of both; votes choose
the class. Probabilities come from the decisions by Platt's sigmoids and the second method of Wu,
Lin and Weng, Probability Estimates for Multi-class Classification by Pairwise Coupling (2004).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx import types as t
from sardonyx.kernel import elementary as fn
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, Local, alu, cast, lift, where
from sardonyx.ops.common import maximum, minimum, one_of
from sardonyx.ops.ml_common import (
    DOMAIN,
    TRANSFORMS,
    both_classes,
    chosen_label,
    columns,
    first_greatest,
    in_type,
    labels_of,
    logistic,
    need,
    rows,
    table,
    transformed,
)
from sardonyx.ops.ml_linear import affine
from sardonyx.ops.registry import operator
from sardonyx.types import Array

Floats = Sequence[float] | None
KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
ROUNDS = 100  # of the coupling of probabilities, at most
LEAST = 1e-7  # a probability of a pair is kept so far from 0 and 1
CLASSES = 1 << 10  # more are refused: pairs are tables of their square


@operator("SVMRegressor", 1, domain=DOMAIN, accuracy="approximate")
def svm_regressor(
    k: Builder,
    X: Tensor,
    *,
    coefficients: Floats = None,
    kernel_params: Floats = None,
    kernel_type: str = "LINEAR",
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: str = "NONE",
    rho: Floats = None,
    support_vectors: Floats = None,
) -> Tensor:
    """(n, 1): the sum of coefficient times kernel over the support vectors, plus rho; without
    support vectors x w + rho. one_class: 1 where that is positive, else -1."""
    w, offset = table(coefficients, t.float32), table(rho, t.float32)[:1]
    need(len(w) > 0 and len(offset) == 1, "coefficients and rho must not be empty")
    if n_supports > 0:
        need(len(w) == n_supports, f"there are {len(w)} coefficients for {n_supports} vectors")
        near = similar(
            k, X, table(support_vectors, t.float32), n_supports, kernel_type, kernel_params
        )
        scores = affine(k, near, w, 1, offset)
    else:
        scores = affine(k, X, w, 1, offset)
    if one_class:
        return k.compute(scores.shape, lambda *i: where(scores[i] > 0, 1.0, -1.0), t.float32)
    return transformed(k, scores, post_transform)


@operator("SVMClassifier", 1, domain=DOMAIN, accuracy="approximate")
def svm_classifier(
    k: Builder,
    X: Tensor,
    *,
    classlabels_ints: Sequence[int] | None = None,
    classlabels_strings: Sequence[str] | None = None,
    coefficients: Floats = None,
    kernel_params: Floats = None,
    kernel_type: str = "LINEAR",
    post_transform: str = "NONE",
    prob_a: Floats = None,
    prob_b: Floats = None,
    rho: Floats = None,
    support_vectors: Floats = None,
    vectors_per_class: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor]:
    """The label (n,), and the scores: probabilities (n, classes) where prob_a is given, else the
    decisions (n, pairs of classes), for two classes (n, 2). Without support vectors (n, classes)
    linear scores."""
    labels = labels_of(classlabels_ints, classlabels_strings)
    one_of(post_transform, TRANSFORMS, "post_transform")
    w, offsets = table(coefficients, t.float32), table(rho, t.float32)
    need(len(w) > 0 and len(offsets) > 0, "coefficients and rho must not be empty")
    positive = bool((w >= 0).all())
    counts = np.asarray([] if vectors_per_class is None else vectors_per_class, np.int64)
    if not counts.sum():
        shared = np.repeat(offsets[:1], len(labels))
        scores = affine(k, X, w, len(labels), shared)
        label = _linear_label(k, scores, labels, positive)
        return label, transformed(k, scores, post_transform)
    need(len(counts) == len(labels), f"there are {len(counts)} counts for {len(labels)} classes")
    need(bool((counts >= 0).all()) and len(labels) in range(2, CLASSES), "vectors_per_class")
    vectors = table(support_vectors, t.float32)
    near = similar(k, X, vectors, int(counts.sum()), kernel_type, kernel_params)
    decisions = _decisions(k, near, w, offsets, counts)
    index = first_greatest(k, _votes(k, decisions, len(labels)))
    a, b = table(prob_a, t.float32), table(prob_b, t.float32)
    pairs = len(labels) * (len(labels) - 1) // 2
    need(len(a) == len(b) and len(a) in (0, pairs), f"prob_a and prob_b are not {pairs} numbers")
    label = chosen_label(k, index, labels)
    if len(a):
        scores = _probabilities(k, decisions, a, b, len(labels))
        return label, transformed(k, scores, post_transform)
    single = in_type(k, decisions, t.float32)
    if pairs == 1:
        return label, both_classes(
            k, single, post_transform, post_transform not in ("NONE", "PROBIT")
        )
    return label, transformed(k, single, post_transform)


def similar(
    k: Builder,
    x: Tensor,
    vectors: Array,
    count: int,
    kind: str,
    params: Floats,
) -> Tensor:
    """(n, vectors): the kernel of each row with each support vector."""
    one_of(kind, KERNELS, "kernel_type")
    need(len(vectors) % count == 0, f"{len(vectors)} numbers are not {count} support vectors")
    known = table(params, t.float32)
    need(len(known) in (0, 3), f"kernel_params has {len(known)} elements, expected 3")
    gamma, coef0, degree = (float(v) for v in known) if len(known) else (0.0, 0.0, 0.0)
    if kind != "RBF":
        offsets = np.zeros(0, np.float32)
        return _shaped(k, affine(k, x, vectors, count, offsets), kind, (gamma, coef0, degree))
    given = rows(x)
    features = len(vectors) // count
    columns(k, given, features, "the support vectors have")
    given, held = in_type(k, given, t.float32), k.constant(vectors.reshape(count, features).T)

    def near(i: Axis, v: Axis) -> Expr:
        def square(f: Axis) -> Expr:
            difference = given[i, f] - held[f, v]
            return difference * difference

        return fn.exp(k.sum((features,), square) * -gamma)

    return k.compute((given.shape[0], count), near, t.float32)


def _shaped(k: Builder, dots: Tensor, kind: str, params: tuple[float, float, float]) -> Tensor:
    """LINEAR, POLY and SIGMOID kernels from the products."""
    gamma, coef0, degree = params

    def shaped(*i: Axis) -> Expr:
        if kind == "LINEAR":
            return dots[i]
        x = dots[i] * gamma + coef0
        if kind == "SIGMOID":
            return fn.tanh(x)
        if degree in (2.0, 3.0):
            return x * x if degree == 2.0 else x * x * x
        return fn.pow(x, lift(degree, t.float32))

    return dots if kind == "LINEAR" else k.compute(dots.shape, shaped, t.float32)


def _decisions(k: Builder, near: Tensor, w: Array, rho: Array, counts: Array) -> Tensor:
    """(n, pairs) float64: for classes i < j, the sum over the vectors of both, plus rho; positive
    speaks for class i. coefficients are (classes - 1, vectors): row j - 1 for those of class i,
    row i for those of class j."""
    classes, total = len(counts), int(counts.sum())
    pairs = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    need(len(w) == (classes - 1) * total, f"there are {len(w)} coefficients")
    need(len(rho) >= len(pairs), f"there are {len(rho)} offsets for {len(pairs)} pairs of classes")
    rows_ = w.reshape(classes - 1, total).astype(np.float64)
    own = np.split(np.arange(total, dtype=np.int32), np.cumsum(counts)[:-1])
    both = [np.concatenate([own[i], own[j]]) for i, j in pairs]
    weights = [np.concatenate([rows_[j - 1, own[i]], rows_[i, own[j]]]) for i, j in pairs]
    at, held = (k.constant(_side_by_side(x)) for x in (both, weights))
    ends, offsets = k.constant(np.array([len(x) for x in both])), k.constant(rho[: len(pairs)])

    def decision(n: Axis, p: Axis) -> Expr:
        def term(v: Axis) -> tuple[Expr, Expr]:
            return cast(near[n, cast(at[v, p], t.int64)], t.float64), held[v, p]

        found = k.dot((max(map(len, both)),), term, lambda v: v < ends[p])
        return found + cast(offsets[p], t.float64)

    return k.compute((near.shape[0], len(pairs)), decision, t.float64)


def _side_by_side(columns_: Sequence[Array]) -> Array:
    """(longest, columns): the columns, zeros below those that are shorter."""
    found = np.zeros((max(map(len, columns_)), len(columns_)), columns_[0].dtype)
    for c, x in enumerate(columns_):
        found[: len(x), c] = x
    return found


def _votes(k: Builder, decisions: Tensor, classes: int) -> Tensor:
    """(n, classes): how many decisions are for each class."""
    pairs = decisions.shape[1]
    found = [(i, j) for i in range(classes) for j in range(i + 1, classes)]
    first, second = (k.constant(np.array(side, np.int64)) for side in zip(*found, strict=True))

    def votes(n: Axis, c: Axis) -> Expr:
        def voted(p: Axis) -> Expr:
            return where(decisions[n, p] > 0, first[p], second[p]).eq(c)

        return k.sum((pairs,), lambda p: lift(1), voted)

    return k.compute((decisions.shape[0], classes), votes, t.int64)


def _linear_label(k: Builder, scores: Tensor, labels: Array, positive: bool) -> Tensor:
    """The label of the greatest score; of two classes the second one where it is positive, or at
    least 0.5 where no coefficient is negative."""
    index = first_greatest(k, scores)
    if len(labels) != 2:
        return chosen_label(k, index, labels)

    def second(n: Axis) -> Expr:
        top = maximum(scores[n, 0], scores[n, 1])
        sure = top >= 0.5 if positive else top > 0
        return where(sure, lift(1), index[n])

    return chosen_label(k, k.compute((scores.shape[0],), second, t.int64), labels)


def _probabilities(k: Builder, decisions: Tensor, a: Array, b: Array, classes: int) -> Tensor:
    """(n, classes) float32, from the probabilities of the pairs."""
    n = decisions.shape[0]
    held_a, held_b = k.constant(a), k.constant(b)

    def pair(i: Axis, p: Axis) -> Expr:
        score = cast(decisions[i, p], t.float32) * held_a[p] + held_b[p]
        return minimum(maximum(1 - logistic(score), LEAST), float(np.float32(1 - LEAST)))

    for_first = k.compute((n, decisions.shape[1]), pair, t.float32)
    place = np.zeros((classes, classes), np.int32)
    upper = np.triu_indices(classes, 1)
    place[upper] = np.arange(len(upper[0]))
    at = k.constant(np.maximum(place, place.T))

    def ratio(i: Axis, c: Axis, d: Axis) -> Expr:
        """The probability of c where it is c or d; 0 on the diagonal."""
        p = for_first[i, cast(at[c, d], t.int64)]
        return where(c.eq(d), 0.0, where(c < d, p, 1 - p))

    return couple(k, k.compute((n, classes, classes), ratio, t.float32), classes)


def couple(k: Builder, r: Tensor, classes: int) -> Tensor:
    """(n, classes): the p that minimises the sum of (r[d, c] p[c] - r[c, d] p[d])^2, by at most
    ROUNDS rounds; a row is done when no gradient differs from their mean by 0.005 / classes."""
    n = r.shape[0]

    def quadratic(i: Axis, c: Axis, d: Axis) -> Expr:
        own = k.sum((classes,), lambda j: r[i, j, c] * r[i, j, c])
        return where(c.eq(d), own, -r[i, d, c] * r[i, c, d])

    q = k.compute((n, classes, classes), quadratic, t.float32)
    p = k.compute((n, classes), lambda i, c: lift(1.0 / classes, t.float32))
    qp = k.compute((n, classes), lambda i, c: lift(0.0, t.float32))
    limit = float(np.float32(0.005) / np.float32(classes))
    with k.loop(n) as i:
        going = k.local(lift(True, t.bool_))
        with k.loop(ROUNDS), k.when(going):
            with k.loop(classes) as c:
                k.store(qp, (i, c), k.dot((classes,), lambda d: (q[i, c, d], p.trap((i, d)))))
            mean = k.local(k.dot((classes,), lambda c: (p.trap((i, c)), qp.trap((i, c)))))
            error = k.fold("max", (classes,), lambda c: alu("abs", qp.trap((i, c)) - mean))
            k.set(going, ~(error < limit))
            with k.when(going):
                _round(k, q, p, qp, mean, i, classes)
    return k.compute((n, classes), lambda i, c: p[i, c], t.float32)


def _round(
    k: Builder, q: Tensor, p: Tensor, qp: Tensor, mean: Local, i: Axis, classes: int
) -> None:
    """Each probability moved once, all of them scaled to sum to 1 again."""
    with k.loop(classes) as c:
        own = q[i, c, c]
        step = k.local((mean - qp[i, c]) / own)
        scale = k.local(step + 1)
        k.set(mean, (mean + step * (step * own + qp[i, c] * 2)) / scale / scale)
        k.store(p, (i, c), p[i, c] + step)
        with k.loop(classes) as d:
            k.store(qp, (i, d), (qp[i, d] + step * q[i, c, d]) / scale)
            k.store(p, (i, d), p[i, d] / scale)
