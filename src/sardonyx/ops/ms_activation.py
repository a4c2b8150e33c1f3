"""Activations of com.microsoft, and products with an activation fused to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sardonyx.errors import InvalidModel
from sardonyx.kernel import elementary as fn
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Expr
from sardonyx.ops.activation import gelu, gelu_erf, gelu_tanh
from sardonyx.ops.common import elementwise, maximum, minimum
from sardonyx.ops.conv import conv
from sardonyx.ops.matmul import gemm
from sardonyx.ops.ms_common import contrib
from sardonyx.ops.recurrent_activation import TABLE
from sardonyx.ops.registry import attributes_of


@contrib("Gelu", "approximate")
def ms_gelu(k: Builder, x: Tensor) -> Tensor:
    return gelu(k, x)


@contrib("BiasGelu", "approximate")
def bias_gelu(k: Builder, a: Tensor, b: Tensor) -> Tensor:
    """Gelu of a + b, with erf."""
    k.need_shape(b, a.shape[-1:], "B")
    return elementwise(k, lambda x, y: gelu_erf(x + y), a, b)


@contrib("FastGelu", "approximate")
def fast_gelu(k: Builder, x: Tensor, bias: Tensor | None = None) -> Tensor:
    """Gelu of x + bias, with tanh."""
    k.need_shape(bias, x.shape[-1:], "bias")
    if bias is None:
        return elementwise(k, gelu_tanh, x)
    return elementwise(k, lambda e, b: gelu_tanh(e + b), x, bias)


@contrib("QuickGelu", "approximate")
def quick_gelu(k: Builder, x: Tensor, *, alpha: float = 1.702) -> Tensor:
    return elementwise(k, lambda e: e * fn.sigmoid(e * alpha), x)


@contrib("FusedConv", "approximate")
@attributes_of(conv)
def fused_conv(
    k: Builder,
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    z: Tensor | None = None,
    *,
    activation: str | None = None,
    activation_params: Sequence[float] | None = None,
    **attributes: Any,
) -> Tensor:
    """activation(Conv(x, w, b) + z)."""
    y = conv(k, x, w, b, **attributes)
    apply = named_activation(activation, activation_params or ())
    k.need_shape(z, y.shape, "Z")
    if z is not None:
        return elementwise(k, lambda e, s: apply(e + s), y, z)
    return elementwise(k, apply, y)


@contrib("FusedGemm", "approximate")
@attributes_of(gemm)
def fused_gemm(
    k: Builder,
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    activation: str | None = None,
    activation_alpha: float | None = None,
    activation_beta: float | None = None,
    activation_gamma: float | None = None,
    **attributes: Any,
) -> Tensor:
    """activation(Gemm(a, b, c))."""
    given = [p for p in (activation_alpha, activation_beta, activation_gamma) if p is not None]
    y = gemm(k, a, b, c, **attributes)
    return elementwise(k, named_activation(activation, given), y)


def named_activation(name: str | None, params: Sequence[float]) -> Callable[[Expr], Expr]:
    """The activation of that name with its parameters in order, or their defaults."""
    if not name:
        return lambda e: e
    if name == "Clip":
        low, high = params
        return lambda e: minimum(maximum(e, low), high)
    if name.lower() not in TABLE:
        raise InvalidModel(f"the activation {name!r} is not known")
    shape, defaults = TABLE[name.lower()]
    found = (*params, *defaults[len(params) :], 0.0, 0.0)
    return lambda e: shape(e, found[0], found[1])
