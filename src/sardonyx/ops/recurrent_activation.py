"""The activations of RNN, GRU and LSTM, by name, with the attributes that they take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from sardonyx.errors import InvalidModel
from sardonyx.kernel import elementary as fn
from sardonyx.kernel.expr import Expr, alu, where
from sardonyx.ops.activation import unit
from sardonyx.ops.common import maximum

Activation: TypeAlias = Callable[[Expr], Expr]
Shape: TypeAlias = Callable[[Expr, float, float], Expr]
TABLE: dict[str, tuple[Shape, tuple[float, ...]]] = {
    # name: (f(x, alpha, beta), the defaults of those that it takes)
    "affine": (lambda x, a, b: x * a + b, (1.0, 0.0)),
    "elu": (lambda x, a, b: where(x < 0, fn.expm1(x) * a, x), (1.0,)),
    "hardsigmoid": (lambda x, a, b: unit(x * a + b), (0.2, 0.5)),
    "leakyrelu": (lambda x, a, b: where(x < 0, x * a, x), (0.01,)),
    "relu": (lambda x, a, b: maximum(x, 0), ()),
    "scaledtanh": (lambda x, a, b: fn.tanh(x * b) * a, (1.0, 1.0)),
    "sigmoid": (lambda x, a, b: fn.sigmoid(x), ()),
    "softplus": (lambda x, a, b: fn.softplus(x), ()),
    "softsign": (lambda x, a, b: x / (alu("abs", x) + 1), ()),
    "tanh": (lambda x, a, b: fn.tanh(x), ()),
    "thresholdedrelu": (lambda x, a, b: where(x > a, x, 0), (1.0,)),
}


def functions(
    names: Sequence[str],
    alpha: Sequence[float] | None,
    beta: Sequence[float] | None,
    each: int,
    directions: int,
) -> list[list[Activation]]:
    """The `each` activations of every direction. An activation that takes an alpha (a beta)
    consumes the next one of the list; past its end the defaults hold."""
    if len(names) < each * directions:
        raise InvalidModel(f"{len(names)} activations, needed are {each} for each direction")
    alphas, betas = iter(alpha or ()), iter(beta or ())
    found = [_activation(name, alphas, betas) for name in names[: each * directions]]
    return [found[d * each : (d + 1) * each] for d in range(directions)]


def _activation(name: str, alphas: Iterator[float], betas: Iterator[float]) -> Activation:
    if name.lower() not in TABLE:
        raise InvalidModel(f"the activation {name!r} is not one of {', '.join(sorted(TABLE))}")
    shape, defaults = TABLE[name.lower()]
    a = next(alphas, defaults[0]) if defaults else 0.0
    b = next(betas, defaults[1]) if len(defaults) > 1 else 0.0
    return lambda x: shape(x, a, b)
