"""Sorting in the kernel IR, and the total order of elements."""

from __future__ import annotations

from collections.abc import Callable

from sardonyx import types as t
from sardonyx.dims import Dim
from sardonyx.kernel.build import Builder
from sardonyx.kernel.expr import Expr, alu, lift, where
from sardonyx.ops.common import minimum

PASSES = 48  # of a merge sort; no tensor has more than 2**48 elements
At = Callable[[Expr], Expr]


def less(x: Expr, y: Expr) -> Expr:
    """x < y, where a NaN is larger than any number."""
    if not x.dtype.is_float:
        return x < y
    return ~(y <= x) & ~alu("isnan", x)


def differs(x: Expr, y: Expr) -> Expr:
    """x != y, where all NaN are equal."""
    if not x.dtype.is_float:
        return x.ne(y)
    return x.ne(y) & ~(alu("isnan", x) & alu("isnan", y))


def stable_order(
    k: Builder,
    n: Dim,
    before: Callable[[Expr, Expr], Expr],
) -> At:
    """The indices below n in the order of before(i, j), equal ones as they stand: a merge sort.

    The result gives the index at a position; it holds for statements that follow, here.
    """
    end = lift(n)
    order = k.compute((2, n), lambda _, i: i, t.int64)  # two sides, merged to and fro
    side, width = k.local(lift(0)), k.local(lift(1))
    with (
        k.loop((n - 1).bit_length() if isinstance(n, int) and n else PASSES),
        k.when(width < end),
    ):
        a, a_end, b, b_end = (k.local(lift(0)) for _ in range(4))
        with k.loop(n) as position, k.when(position < end):
            with k.when((position % (width * 2)).eq(0)):
                k.set(a, position)
                k.set(a_end, minimum(position + width, end))
                k.set(b, a_end)
                k.set(b_end, minimum(position + width * 2, end))
            left, right = order.guard((side, a)), order.guard((side, b))
            second = k.local(where(a < a_end, (b < b_end) & before(right, left), True))
            k.store(order, (1 - side, position), where(second, right, left))
            k.set(a, where(second, a, a + 1))
            k.set(b, where(second, b + 1, b))
        k.set(side, 1 - side)
        k.set(width, width * 2)
    return lambda position: order.guard((side, position))
