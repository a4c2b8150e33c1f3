"""The optimizers of ai.onnx.preview.training: one step for each of n tensors.

The variadic operands are the n tensors X, then their gradients G, then their states; the outputs
are the new X, then the new states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sardonyx.dims import product
from sardonyx.errors import InvalidModel
from sardonyx.kernel import elementary as fn
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Expr, alu, cast, lift, where
from sardonyx.ops.common import elementwise
from sardonyx.ops.registry import operator, refused
from sardonyx.types import DType

DOMAIN = "ai.onnx.preview.training"
Step = Callable[..., tuple[Tensor, ...]]

refused(
    "Gradient",
    1,
    domain=DOMAIN,
    reason="the gradient of a graph is another graph, which the exporter must write out "
    "(onnxruntime-training and PyTorch do)",
)


@operator("Adagrad", 1, domain=DOMAIN)
def adagrad(
    k: Builder,
    R: Tensor,
    T: Tensor,
    *inputs: Tensor,
    decay_factor: float = 0.0,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
) -> tuple[Tensor, ...]:
    """H' = H + G * G; X' = X - R / (1 + T * decay_factor) * G / (sqrt(H') + epsilon), where G has
    norm_coefficient * X added."""

    def step(x: Tensor, g: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        rate = _scalar(R, x.dtype) / (_scalar(T, x.dtype) * decay_factor + 1)
        g = _regularized(k, x, g, norm_coefficient)
        h = elementwise(k, lambda h, g: h + g * g, h, g)
        x = elementwise(k, lambda x, g, h: x - rate * g / (alu("sqrt", h) + epsilon), x, g, h)
        return x, h

    return _each(k, (R, T), step, inputs, 3)


@operator("Adam", 1, domain=DOMAIN, accuracy="approximate")
def adam(
    k: Builder,
    R: Tensor,
    T: Tensor,
    *inputs: Tensor,
    alpha: float = 0.9,
    beta: float = 0.999,
    epsilon: float = 1e-6,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
) -> tuple[Tensor, ...]:
    """V' = alpha * V + (1 - alpha) * G; H' = beta * H + (1 - beta) * G * G;
    X' = (1 - norm_coefficient_post) * (X - R' * V' / (sqrt(H') + epsilon)), where
    R' = R * sqrt(1 - beta ** T) / (1 - alpha ** T) for T > 0, else R."""

    def rate(dtype: DType) -> Expr:
        r, t = _scalar(R, dtype), _scalar(T, dtype)
        first, second = (1 - fn.pow(lift(b, dtype), t) for b in (alpha, beta))
        return where(t > 0, r * alu("sqrt", second) / first, r)

    def step(x: Tensor, g: Tensor, v: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        r = rate(x.dtype)
        g = _regularized(k, x, g, norm_coefficient)
        v = elementwise(k, lambda v, g: v * alpha + g * (1 - lift(alpha, v.dtype)), v, g)
        h = elementwise(k, lambda h, g: h * beta + g * g * (1 - lift(beta, h.dtype)), h, g)
        x = elementwise(k, lambda x, v, h: x - r * v / (alu("sqrt", h) + epsilon), x, v, h)
        if norm_coefficient_post:
            x = elementwise(k, lambda x: x * (1 - lift(norm_coefficient_post, x.dtype)), x)
        return x, v, h

    return _each(k, (R, T), step, inputs, 4)


@operator("Momentum", 1, domain=DOMAIN)
def momentum(
    k: Builder,
    R: Tensor,
    T: Tensor,
    *inputs: Tensor,
    alpha: float,
    beta: float,
    mode: str,
    norm_coefficient: float,
) -> tuple[Tensor, ...]:
    """V' = alpha * V + B * G, where B is beta for T > 0, else 1; X' = X - R * V' in the standard
    mode, X' = X - R * (G + alpha * V') in the nesterov mode."""
    if mode not in ("standard", "nesterov"):
        raise InvalidModel(f"mode {mode!r} is not standard or nesterov")

    def step(x: Tensor, g: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        r = _scalar(R, x.dtype)
        b = where(T[_first(T)] > 0, lift(beta, x.dtype), 1.0)
        g = _regularized(k, x, g, norm_coefficient)
        v = elementwise(k, lambda v, g: v * alpha + b * g, v, g)
        if mode == "standard":
            x = elementwise(k, lambda x, v: x - r * v, x, v)
        else:
            x = elementwise(k, lambda x, g, v: x - r * (g + v * alpha), x, g, v)
        return x, v

    return _each(k, (R, T), step, inputs, 3)


def _each(
    k: Builder, rates: Sequence[Tensor], step: Step, inputs: Sequence[Tensor], kinds: int
) -> tuple[Tensor, ...]:
    """The outputs of the step of each tensor, given and returned kind by kind; rates: R and T."""
    count = len(inputs) // kinds
    if count * kinds != len(inputs) or not count:
        raise InvalidModel(f"{len(inputs)} operands are not {kinds} for each tensor")
    for x in rates:
        k.need_equal(product(x.shape), 1, "the number of elements of R and of T")
    for i, x in enumerate(inputs):
        k.need_shape(x, inputs[i % count].shape, "a gradient or state of a tensor")
    steps = [step(*inputs[i::count]) for i in range(count)]
    return tuple(s[i] for i in range(kinds - 1) for s in steps)


def _regularized(k: Builder, x: Tensor, g: Tensor, norm_coefficient: float) -> Tensor:
    return elementwise(k, lambda x, g: x * norm_coefficient + g, x, g)


def _first(x: Tensor) -> tuple[int, ...]:
    return (0,) * x.rank


def _scalar(x: Tensor, dtype: DType) -> Expr:
    return cast(x[_first(x)], dtype)
