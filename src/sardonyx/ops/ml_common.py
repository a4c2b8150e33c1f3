"""What the operators of ai.onnx.ml share: rows, labels, and the transforms of scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sardonyx import types as t
from sardonyx.errors import InvalidModel, UnsupportedModel
from sardonyx.kernel import elementary as fn
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Expr, alu, lift, where
from sardonyx.ops.common import one_of
from sardonyx.ops.reduce import is_nan
from sardonyx.ops.softmax import softmax
from sardonyx.types import Array, DType

DOMAIN = "ai.onnx.ml"
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
NEAR_ZERO = 1e-7  # SOFTMAX_ZERO leaves scores within this of 0 out of its sum
ERFINV = 0.147  # of Winitzki's approximation of the inverse error function, as ONNX Runtime has it
PI = 3.14159  # likewise


def need(holds: bool, message: str) -> None:
    """Refuses a model for what does not hold."""
    if not holds:
        raise InvalidModel(message)


def rows(x: Tensor) -> Tensor:
    """x as a matrix (rows, features): a vector is one row."""
    need(x.rank in (1, 2), f"the input has rank {x.rank}, expected 1 or 2")
    return x.reshaped((1, x.shape[0])) if x.rank == 1 else x


def in_type(k: Builder, x: Tensor, dtype: DType) -> Tensor:
    """x converted once, or x itself."""
    return x if x.dtype is dtype else k.compute(x.shape, lambda *i: x[i].cast(dtype), dtype)


def columns(k: Builder, x: Tensor, expected: int, what: str) -> None:
    """Refuses a matrix that has another number of columns."""
    k.need_equal(x.shape[-1], expected, f"the features of the input and those that {what}")


def table(values: Sequence[float] | Array | None, dtype: DType) -> Array:
    """A list attribute as an array; empty where it is absent."""
    return np.asarray([] if values is None else values, dtype.numpy).reshape(-1)


def labels_of(ints: Sequence[int] | None, strings: Sequence[str] | None) -> Array:
    """The class labels of a classifier, int64. Labels that are strings are refused for now: what
    a classifier computes before it looks the label up is the same for both."""
    need(bool(ints) != bool(strings), "exactly one of the two lists of class labels must be given")
    if strings:
        raise UnsupportedModel("class labels that are strings are not supported")
    return np.asarray(ints, np.int64)


def first_greatest(k: Builder, scores: Tensor) -> Tensor:
    """(n,): where each row of (n, c) has its greatest element, the first of equal ones. A NaN is
    never greater, as with `>`, nor is anything greater than a NaN that is the first."""
    n, c = scores.shape

    low = lift(-np.inf if scores.dtype.is_float else 0, scores.dtype)

    def first(i: Expr) -> Expr:
        best = k.fold("max", (c,), lambda j: where(is_nan(scores[i, j]), low, scores[i, j]))
        equal = k.fold("min", (c,), lambda j: where(scores[i, j].eq(best), j, lift(c) - 1))
        return where(is_nan(scores[i, 0]), 0, equal)

    return k.compute((n,), first, t.int64)


def chosen_label(k: Builder, index: Tensor, labels: Array) -> Tensor:
    """(n,): the label at each index, which is within the labels by construction."""
    known, last = k.constant(labels), len(labels) - 1
    return k.compute(
        index.shape, lambda i: known[alu("max", alu("min", index[i], last), 0)], t.int64
    )


def transformed(k: Builder, scores: Tensor, transform: str) -> Tensor:
    """post_transform of scores (n, classes), as float32 or the scores' own type."""
    one_of(transform, TRANSFORMS, "post_transform")
    each: dict[str, Callable[[Expr], Expr]] = {"LOGISTIC": logistic, "PROBIT": probit}
    if transform in each:
        return k.compute(scores.shape, lambda *i: each[transform](scores[i]), scores.dtype)
    if transform == "SOFTMAX":
        return softmax(k, scores, [1])
    return softmax_zero(k, scores) if transform == "SOFTMAX_ZERO" else scores


def logistic(x: Expr) -> Expr:
    """1 / (1 + exp(-x)), by way of -|x| so that exp does not overflow."""
    v = lift(1, x.dtype) / (fn.exp(-alu("abs", x)) + 1)
    return where(x < 0, 1 - v, v)


def probit(x: Expr) -> Expr:
    """sqrt(2) * erfinv(2x - 1), by the approximation that ONNX Runtime takes."""
    y = x * 2 - 1
    log = fn.log((1 - y) * (y + 1))
    v = log * 0.5 + 2 / (PI * ERFINV)
    root = alu("sqrt", alu("sqrt", v * v - log * (1 / ERFINV)) - v)
    return where(y < 0, -root, root) * float(np.float32(np.sqrt(2)))


def softmax_zero(k: Builder, scores: Tensor) -> Tensor:
    """Softmax in which scores of 0 stay 0: they are no term of the sum."""
    n, c = scores.shape
    top = k.compute((n, 1), lambda i, _: k.fold("max", (c,), lambda j: scores[i, j]), scores.dtype)

    def share(i: Expr, j: Expr) -> Expr:
        x = scores[i, j]
        zero = x * fn.exp(-top[i, 0])
        return where(alu("abs", x) > NEAR_ZERO, fn.exp(x - top[i, 0]), zero)

    e = k.compute((n, c), share, scores.dtype)

    def total(i: Expr, _: Expr) -> Expr:
        return k.sum((c,), lambda j: e[i, j], lambda j: alu("abs", scores[i, j]) > NEAR_ZERO)

    sums = k.compute((n, 1), total, scores.dtype)
    return k.compute((n, c), lambda i, j: e[i, j] / sums[i, 0], scores.dtype)


def both_classes(k: Builder, score: Tensor, transform: str, positive: bool) -> Tensor:
    """(n, 2) from the one score (n, 1) of a binary classifier. `positive`: the weights are
    probabilities, so that the other class has 1 - score; else it has -score."""
    one_of(transform, TRANSFORMS, "post_transform")

    def element(i: Expr, j: Expr) -> Expr:
        s = score[i, 0]
        if transform == "PROBIT":
            p = probit(s)
            return where(j.eq(0), -p, p)
        if transform == "LOGISTIC":
            return logistic(where(j.eq(0), -s, s))
        return where(j.eq(0), (1 if positive else 0) - s, s)

    return k.compute((score.shape[0], 2), element, score.dtype)
