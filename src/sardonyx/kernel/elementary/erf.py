"""The error function."""

from __future__ import annotations

from sardonyx.kernel.elementary.exp import simple
from sardonyx.kernel.elementary.parts import (
    argument,
    at_most,
    bits,
    mad,
    magnitude,
    pick,
    tail,
    with_sign,
)
from sardonyx.kernel.elementary.pieces import CENTRES, PER_UNIT, POWERS, VALUES
from sardonyx.kernel.expr import Expr, where

_EDGE = 0.875
_LEFT = 0.21592493894014034  # erfc(_EDGE)
_MOST = 3.92  # from there on erf rounds to 1 in float32; the last piece ends beyond
_WHOLE = 1.5 * 2.0**23  # numbers near it are integers, which their lowest bits are


def erf(x: Expr) -> Expr:
    """The error function, odd."""
    x, f = argument(x)
    return with_sign((_by_pieces, _by_exp)[f.row](magnitude(x)), x)


def _by_pieces(a: Expr) -> Expr:
    """a + a P(a) in the first of eight pieces; in the others erf(c) + t P(t), t = a - c, where c is
    a float32 whose erf and its slope are almost float32."""
    a = at_most(a, _MOST)
    n = mad(a, PER_UNIT, _WHOLE)
    t = a - pick(n, CENTRES)
    p = pick(n, POWERS[-1])
    for c in reversed(POWERS[:-1]):
        p = mad(t, p, pick(n, c))
    return mad(t, p, where(n < _WHOLE + 1, a, pick(n, VALUES)))


def _by_exp(a: Expr) -> Expr:
    """a + a P(a a) below the edge; above, 1 - erfc(edge) exp(t Q(t)), t = a - edge."""
    near = mad(a, tail("erf_near", a * a), a)
    t = at_most(a, 6.0) - _EDGE
    y, index = simple(t * tail("erf_far", t), 1023)
    left = _LEFT * bits(index << 52)
    return where(a < _EDGE, near, 1.0 - mad(y, left, left))
