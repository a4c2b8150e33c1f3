"""CumSum and CumProd: running folds along an axis, one operation per element, in order."""

from __future__ import annotations

from collections.abc import Callable
from operator import add, mul

from sardonyx.dims import product
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Expr, cast, lift
from sardonyx.ops.common import compute_type, normalize_axis
from sardonyx.ops.registry import operator
from sardonyx.ops.scatter import loops


@operator("CumSum", 11, 14, accuracy="rounding")
def cum_sum(k: Builder, x: Tensor, axis: Tensor, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
    """y[i] = x[0] + ... + x[i], added from the left; an exclusive sum starts at +0."""
    start = 0 if exclusive or not x.dtype.is_float else -0.0  # -0 + x is x, for -0 too
    return _running(k, x, axis, add, start, bool(exclusive), bool(reverse))


@operator("CumProd", 26, accuracy="rounding")
def cum_prod(
    k: Builder, x: Tensor, axis: Tensor, *, exclusive: int = 0, reverse: int = 0
) -> Tensor:
    """y[i] = x[0] * ... * x[i], multiplied from the left."""
    return _running(k, x, axis, mul, 1, bool(exclusive), bool(reverse))


def _running(
    k: Builder,
    x: Tensor,
    axis: Tensor,
    combine: Callable[[Expr, Expr], Expr],
    start: float,
    exclusive: bool,
    reverse: bool,
) -> Tensor:
    """The running total of each line of x, kept in the compute type and rounded where stored.

    `exclusive` leaves out the element itself; `reverse` runs from the end. Neighbouring lines are
    walked together.
    """
    (given,) = axis.ints()
    a, wide = normalize_axis(given, x.rank), compute_type(x.dtype)
    out, inner = k.tensor(x.shape, x.dtype), x.shape[a + 1 :]
    alone = product(inner) == 1
    totals = k.tensor(inner, wide)
    with loops(k, x.shape[:a]) as outer:
        if alone:
            total = k.local(lift(start, wide))
        else:
            with loops(k, inner) as j:
                k.store(totals, j, start)
        with k.loop(x.shape[a]) as step:
            place = lift(x.shape[a]) - 1 - step if reverse else step
            with loops(k, inner) as j:
                i, before = (*outer, place, *j), total if alone else totals[j]
                if exclusive:
                    k.store(out, i, before)
                after = combine(before, cast(x[i], wide))
                if alone:
                    k.set(total, after)
                else:
                    k.store(totals, j, after)
                if not exclusive:
                    k.store(out, i, total if alone else totals[j])
    return out
