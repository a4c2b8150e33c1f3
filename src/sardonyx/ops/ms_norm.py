"""Normalizations of com.microsoft: of a sum of inputs, by the root mean square alone."""

from __future__ import annotations

from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr
from sardonyx.ops.common import compute_type, kept_index, need_dtype, normalize_axis
from sardonyx.ops.ms_common import DOMAIN, contrib
from sardonyx.ops.norm import inverse_deviation, layer_normalization, mean_along, standardized
from sardonyx.ops.registry import operator
from sardonyx.types import DType

# What ONNX Runtime took under this name before operator set 17 had it.
for _domain in ("", DOMAIN):
    operator("LayerNormalization", 1, domain=_domain, accuracy="rounding")(layer_normalization)


@operator("SimplifiedLayerNormalization", 1, accuracy="rounding")
@operator("SimplifiedLayerNormalization", 1, domain=DOMAIN, accuracy="rounding")
def simplified_layer_normalization(
    k: Builder,
    x: Tensor,
    scale: Tensor,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> tuple[Tensor, Tensor]:
    """(Y, 1 / rms), Y = x * (1 / sqrt(mean(x * x) + epsilon)) * scale."""
    k.need_broadcast(scale, x.shape, "scale")
    normal, inverse = _by_rms(k, x, normalize_axis(axis, x.rank), epsilon)
    y = k.compute(x.shape, lambda *i: normal[i] * scale.broadcast(i), x.dtype)
    stash = need_dtype(stash_type)
    return y, k.compute(inverse.shape, lambda *i: inverse[i], stash)


def _by_rms(k: Builder, x: Tensor, axis: int, epsilon: float) -> tuple[Tensor, Tensor]:
    """(x * (1 / rms), 1 / rms) over the axes from `axis` on, in the compute type."""
    axes, wide = range(axis, x.rank), compute_type(x.dtype)
    squares = k.compute(x.shape, lambda *i: x[i] * x[i], wide)
    inverse = inverse_deviation(k, mean_along(k, squares, axes), epsilon)
    normal = k.compute(x.shape, lambda *i: x[i] * inverse[kept_index(i, axes, x.rank)], wide)
    return normal, inverse


@contrib("SkipLayerNormalization", "rounding")
def skip_layer_normalization(
    k: Builder,
    input: Tensor,
    skip: Tensor,
    gamma: Tensor,
    beta: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(LayerNormalization of s, mean, 1 / deviation, s) over the last axis, s = input + skip +
    bias."""
    total = _sum(k, input, skip, bias)
    mean, inverse, normal = standardized(k, total, [total.rank - 1], epsilon)
    return _affine(k, input, normal, gamma, beta), mean, inverse, stored(k, total, input.dtype)


@contrib("SkipSimplifiedLayerNormalization", "rounding")
def skip_simplified_layer_normalization(
    k: Builder,
    input: Tensor,
    skip: Tensor,
    gamma: Tensor,
    bias: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(s / rms * gamma, mean, 1 / rms, s) over the last axis, s = input + skip + bias."""
    total = _sum(k, input, skip, bias)
    normal, inverse = _by_rms(k, total, total.rank - 1, epsilon)
    mean = mean_along(k, total, [total.rank - 1])
    return _affine(k, input, normal, gamma, None), mean, inverse, stored(k, total, input.dtype)


def _sum(k: Builder, x: Tensor, skip: Tensor, bias: Tensor | None) -> Tensor:
    """x + skip (+ bias), in the compute type; skip may lack the batch, or have one of 1."""
    k.need_broadcast(skip, x.shape, "skip")
    k.need_shape(bias, x.shape[-1:], "bias")

    def element(*i: Axis) -> Expr:
        total = x[i] + skip.broadcast(i)
        return total if bias is None else total + bias.broadcast(i)

    return k.compute(x.shape, element, compute_type(x.dtype))


def _affine(k: Builder, x: Tensor, normal: Tensor, gamma: Tensor, beta: Tensor | None) -> Tensor:
    k.need_shape(gamma, x.shape[-1:], "gamma")
    k.need_shape(beta, x.shape[-1:], "beta")

    def element(*i: Axis) -> Expr:
        y = normal[i] * gamma.broadcast(i)
        return y if beta is None else y + beta.broadcast(i)

    return k.compute(x.shape, element, x.dtype)


def stored(k: Builder, x: Tensor, dtype: DType) -> Tensor:
    """x in that type."""
    return x if x.dtype is dtype else k.compute(x.shape, lambda *i: x[i], dtype)
