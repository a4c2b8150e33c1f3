"""Activation functions and Clip."""

from __future__ import annotations

from math import pi, sqrt

from sardonyx import types as t
from sardonyx.errors import InvalidModel
from sardonyx.kernel import elementary as fn
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Expr, alu, cast, where
from sardonyx.ops.common import broadcast_shapes, elementwise, maximum, minimum
from sardonyx.ops.registry import operator, version_of

LOWEST, HIGHEST = -3.4028234663852886e38, 3.4028234663852886e38  # of float32


@operator("Relu", 1, 6, 13, 14)
def relu(k: Builder, x: Tensor) -> Tensor:
    return elementwise(k, lambda e: maximum(e, 0), x)


@operator("LeakyRelu", 1, 6, 16)
def leaky_relu(k: Builder, x: Tensor, *, alpha: float = 0.01) -> Tensor:
    return elementwise(k, lambda e: where(e < 0, e * alpha, e), x)


@operator("PRelu", 1, 6)
def prelu_legacy(k: Builder, x: Tensor, slope: Tensor) -> Tensor:
    """The slope is one number, or one for each channel."""
    if slope.rank == 1 and slope.shape != (1,) and x.rank > 1:
        slope = slope.reshaped((*slope.shape, *[1] * (x.rank - 2)))
    return prelu(k, x, slope)


@operator("PRelu", 7, 9, 16)
def prelu(k: Builder, x: Tensor, slope: Tensor) -> Tensor:
    if broadcast_shapes(x.shape, slope.shape) != x.shape:
        raise InvalidModel(f"the slope's shape {slope.shape} does not broadcast to {x.shape}")
    return elementwise(k, lambda e, s: where(e < 0, s * e, e), x, slope)


@operator("ThresholdedRelu", 10, 22)
def thresholded_relu(k: Builder, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return elementwise(k, lambda e: where(e > alpha, e, 0), x)


@operator("Elu", 1, 6, 22, accuracy="approximate")
def elu(k: Builder, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return elementwise(k, lambda e: where(e < 0, fn.expm1(e) * alpha, e), x)


@operator("Selu", 6, 22, accuracy="approximate")
def selu(
    k: Builder,
    x: Tensor,
    *,
    alpha: float = 1.67326319217681884765625,
    gamma: float = 1.05070102214813232421875,
) -> Tensor:
    return elementwise(k, lambda e: where(e <= 0, fn.expm1(e) * alpha, e) * gamma, x)


operator("Selu", 1, accuracy="approximate")(version_of(selu, alpha=1.6732, gamma=1.0507))


@operator("Celu", 12, 28, accuracy="approximate")
def celu(k: Builder, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return elementwise(k, lambda e: maximum(e, 0) + minimum(fn.expm1(e / alpha) * alpha, 0), x)


@operator("Sigmoid", 1, 6, 13, accuracy="approximate")
def sigmoid(k: Builder, x: Tensor) -> Tensor:
    return elementwise(k, fn.sigmoid, x)


@operator("HardSigmoid", 1, 6, 22)
def hard_sigmoid(k: Builder, x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    return elementwise(k, lambda e: unit(e * alpha + beta), x)


@operator("HardSwish", 14, 22)
def hard_swish(k: Builder, x: Tensor) -> Tensor:
    return elementwise(k, lambda e: e * unit(e * (1 / 6) + 0.5), x)


def unit(x: Expr) -> Expr:
    """x clipped to [0, 1]."""
    return maximum(minimum(x, 1), 0)


@operator("Softplus", 1, 22, accuracy="approximate")
def softplus(k: Builder, x: Tensor) -> Tensor:
    return elementwise(k, fn.softplus, x)


@operator("Softsign", 1, 22, accuracy="rounding")
def softsign(k: Builder, x: Tensor) -> Tensor:
    return elementwise(k, lambda e: e / (alu("abs", e) + 1), x)


@operator("Mish", 18, 22, accuracy="approximate")
def mish(k: Builder, x: Tensor) -> Tensor:
    return elementwise(k, lambda e: e * fn.tanh_softplus(e), x)


@operator("Gelu", 20, accuracy="approximate")
def gelu(k: Builder, x: Tensor, *, approximate: str = "none") -> Tensor:
    if approximate not in ("none", "tanh"):
        raise InvalidModel(f"approximate is none or tanh, found {approximate}")
    shape = gelu_erf if approximate == "none" else gelu_tanh
    return elementwise(k, shape, x)


def gelu_erf(x: Expr) -> Expr:
    return x * 0.5 * (fn.erf(x * sqrt(0.5)) + 1)


def gelu_tanh(x: Expr) -> Expr:
    return x * 0.5 * (fn.tanh((x + x * x * x * 0.044715) * sqrt(2 / pi)) + 1)


@operator("Swish", 24, accuracy="approximate")
def swish(k: Builder, x: Tensor, *, alpha: float = 1.0) -> Tensor:
    return elementwise(k, lambda e: e * fn.sigmoid(e * alpha), x)


@operator("SwiGLU", 28, accuracy="approximate")
def swi_glu(k: Builder, a: Tensor, b: Tensor, *, alpha: float = 1.0) -> Tensor:
    if a.shape != b.shape:
        raise InvalidModel(f"the shapes {a.shape} and {b.shape} must be equal")
    return elementwise(k, lambda g, v: g * fn.sigmoid(g * alpha) * v, a, b)


@operator("Shrink", 9)
def shrink(k: Builder, x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    """Integers are computed in float64 and truncated."""
    wide = t.by_name(x.dtype.compute) if x.dtype.is_float else t.float64

    def element(e: Expr) -> Expr:
        v = cast(e, wide)
        return where(v < -lambd, v + bias, where(v > lambd, v - bias, 0))

    return elementwise(k, element, x)


@operator("Clip", 1)
def clip_1(k: Builder, x: Tensor, *, min: float | None = None, max: float | None = None) -> Tensor:
    return clip_6(k, x, min=LOWEST if min is None else min, max=HIGHEST if max is None else max)


@operator("Clip", 6)
def clip_6(k: Builder, x: Tensor, *, min: float = LOWEST, max: float = HIGHEST) -> Tensor:
    return elementwise(k, lambda e: minimum(maximum(e, min), max), x)


@operator("Clip", 11, 12, 13)
def clip(k: Builder, x: Tensor, min: Tensor | None = None, max: Tensor | None = None) -> Tensor:
    """Min(max, Max(x, min)): where min > max everything is max."""

    def element(*i: Expr) -> Expr:
        e = x[i]
        e = e if min is None else maximum(e, min.broadcast(i))
        return e if max is None else minimum(e, max.broadcast(i))

    return k.compute(x.shape, element, x.dtype)
