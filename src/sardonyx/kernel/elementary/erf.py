"""The error function."""

from __future__ import annotations

from sardonyx.kernel.elementary.exp import simple
from sardonyx.kernel.elementary.parts import (
    argument,
    at_most,
    bits,
    mad,
    magnitude,
    tail,
    with_sign,
)
from sardonyx.kernel.expr import Expr, where


def erf(x: Expr) -> Expr:
    """x + x P(x x) below 1; above, 1 - exp(Q(|x| - 1)), Q being log(erfc)."""
    x, f = argument(x)
    a = magnitude(x)
    near = mad(a, tail("erf_near", a * a), a)
    value, index = simple(tail("erf_far", at_most(a, (4.0, 6.0)[f.row]) - 1.0), f.bias)
    far = 1.0 - value * bits(index << f.digits)
    return with_sign(where(a < 1.0, near, far), x)
