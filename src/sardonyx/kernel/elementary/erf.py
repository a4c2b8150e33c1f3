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

_EDGE = 0.875
_LEFT = 0.21592493894014034  # erfc(_EDGE)


def erf(x: Expr) -> Expr:
    """x + x P(x x) below the edge; above, 1 - erfc(edge) exp(t Q(t)), t = |x| - edge."""
    x, f = argument(x)
    a = magnitude(x)
    near = mad(a, tail("erf_near", a * a), a)
    t = at_most(a, (4.0, 6.0)[f.row]) - _EDGE
    y, index = simple(t * tail("erf_far", t), f.bias)
    left = _LEFT * bits(index << f.digits)
    far = 1.0 - mad(y, left, left)
    return with_sign(where(a < _EDGE, near, far), x)
