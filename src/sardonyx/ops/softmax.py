"""Softmax, LogSoftmax and Hardmax.

Before opset 13 the input is seen as a matrix: all axes from `axis` on are one row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sardonyx.kernel import elementary as fn
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, Operand
from sardonyx.ops.common import (
    compute_type,
    fold_along,
    kept_index,
    normalize_axis,
    reduced_shape,
)
from sardonyx.ops.index import flat_index
from sardonyx.ops.reduce import position
from sardonyx.ops.registry import Accuracy, operator

Rows = Callable[[Builder, Tensor, Sequence[int]], Tensor]


def softmax(k: Builder, x: Tensor, axes: Sequence[int]) -> Tensor:
    """exp(x - max) / sum(exp(x - max))."""
    rows, wide = reduced_shape(x, axes), compute_type(x.dtype)
    top = k.compute(rows, lambda *i: fold_along(k, "max", x, axes, i), x.dtype)

    def exponential(*i: Axis) -> Expr:
        return fn.exp_nonpositive(x[i] - top[kept_index(i, axes, x.rank)])

    e = k.compute(x.shape, exponential, wide)
    total = k.compute(rows, lambda *i: fold_along(k, "sum", e, axes, i), wide)
    return k.compute(x.shape, lambda *i: e[i] / total[kept_index(i, axes, x.rank)], x.dtype)


def log_softmax(k: Builder, x: Tensor, axes: Sequence[int]) -> Tensor:
    """(x - max) - log(sum(exp(x - max)))."""
    rows, wide = reduced_shape(x, axes), compute_type(x.dtype)
    top = k.compute(rows, lambda *i: fold_along(k, "max", x, axes, i), x.dtype)
    shifted = k.compute(x.shape, lambda *i: x[i] - top[kept_index(i, axes, x.rank)], wide)

    def total_of(*i: Operand) -> Expr:
        return fn.log(fold_along(k, "sum", shifted, axes, i, fn.exp_nonpositive))

    total = k.compute(rows, total_of, wide)
    return k.compute(x.shape, lambda *i: shifted[i] - total[kept_index(i, axes, x.rank)], x.dtype)


def hardmax(k: Builder, x: Tensor, axes: Sequence[int]) -> Tensor:
    """1 at the first maximum of the row, 0 elsewhere."""
    first = position(k, "max", x, axes)
    extents = [x.shape[a] for a in axes]
    return k.compute(
        x.shape,
        lambda *i: flat_index([i[a] for a in axes], extents).eq(first[kept_index(i, axes, x.rank)]),
        x.dtype,
    )


def _row_operator(name: str, rows: Rows, accuracy: Accuracy) -> None:
    @operator(name, 1, 11, accuracy=accuracy)
    def define_legacy(k: Builder, x: Tensor, *, axis: int = 1) -> Tensor:
        return rows(k, x, range(normalize_axis(axis, x.rank), x.rank))

    @operator(name, 13, accuracy=accuracy)
    def define(k: Builder, x: Tensor, *, axis: int = -1) -> Tensor:
        return rows(k, x, [normalize_axis(axis, x.rank)])


_row_operator("Softmax", softmax, "approximate")
_row_operator("LogSoftmax", log_softmax, "approximate")
_row_operator("Hardmax", hardmax, "exact")
