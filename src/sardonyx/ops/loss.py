"""Losses over classes: NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.

The bits are those of the functions that ONNX's schemas carry for them. A label is a class, at
least 0, or ignore_index; another is a run-time error.
"""

from __future__ import annotations

from sardonyx import types as t
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, lift, where
from sardonyx.ops.common import one_of
from sardonyx.ops.reduce import folded, mean
from sardonyx.ops.registry import operator
from sardonyx.ops.sizes import agree
from sardonyx.ops.softmax import log_softmax

REDUCTIONS = "none", "mean", "sum"
total = folded("sum")


@operator("NegativeLogLikelihoodLoss", 12, 13, 22, accuracy="rounding")
def negative_log_likelihood_loss(
    k: Builder,
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-input[n, target[n, d], d] * weight[target[n, d]], and 0 where the target is ignore_index.

    The mean is over the weights of the targets where these are given or some may be ignored.
    """
    one_of(reduction, REDUCTIONS, "reduction")
    if input.rank < 2:
        raise InvalidModel(f"input has rank {input.rank}, expected classes along axis 1")
    agree(target.rank, input.rank - 1, "the rank of target and that of input without its classes")
    k.need_shape(target, (input.shape[0], *input.shape[2:]), "target")
    k.need_shape(weight, input.shape[1:2], "weight")

    def counted(value: Expr, i: tuple[Axis, ...]) -> Expr:
        if ignore_index is None:
            return value
        return where(target[i].cast(t.int64).eq(ignore_index), 0, value)

    def label(i: tuple[Axis, ...]) -> Expr:
        return counted(target[i].cast(t.int64), i)

    def share(*i: Axis) -> Expr:
        return counted(lift(1, input.dtype) if weight is None else weight.trap((label(i),)), i)

    def loss(*i: Axis) -> Expr:
        return -counted(input.trap((i[0], label(i), *i[1:])), i)

    out = k.compute(target.shape, loss, input.dtype)
    axes = tuple(range(target.rank))
    if weight is None and ignore_index is None:
        if reduction == "none":
            return out
        return (mean if reduction == "mean" else total)(k, out, axes, False)
    shares = k.compute(target.shape, share, input.dtype)
    out = k.compute(target.shape, lambda *i: out[i] * shares[i], input.dtype)
    if reduction == "none":
        return out
    losses = total(k, out, axes, False)
    if reduction == "sum":
        return losses
    whole = total(k, shares, axes, False)
    return k.compute((), lambda: losses[()] / whole[()], input.dtype)


@operator("SoftmaxCrossEntropyLoss", 12, 13, accuracy="approximate")
def softmax_cross_entropy_loss(
    k: Builder,
    scores: Tensor,
    labels: Tensor,
    weights: Tensor | None = None,
    *,
    ignore_index: int | None = None,
    reduction: str = "mean",
) -> tuple[Tensor, Tensor]:
    """The negative log likelihood of the labels under softmax(scores) along axis 1, and that
    logarithm."""
    if scores.rank < 2:
        raise InvalidModel(f"scores have rank {scores.rank}, expected classes along axis 1")
    log_prob = log_softmax(k, scores, (1,))
    loss = negative_log_likelihood_loss(
        k, log_prob, labels, weights, ignore_index=ignore_index, reduction=reduction
    )
    return loss, log_prob
