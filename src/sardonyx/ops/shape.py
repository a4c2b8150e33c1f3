"""Shape and Size: what a tensor's type says, as values."""

from __future__ import annotations

from sardonyx import types as t
from sardonyx.dims import product
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, lift, where
from sardonyx.ops.registry import operator


@operator("Shape", 1, 13, 15, 19, 21, 23, 24, 25)
def shape(k: Builder, data: Tensor, *, end: int | None = None, start: int = 0) -> Tensor:
    """The dims from start to end; both count from the end if negative, and are clamped."""
    dims = data.shape[slice(start, end)]

    def element(i: Axis) -> Expr:
        value = lift(0)
        for n, d in reversed(list(enumerate(dims))):
            value = lift(d) if n == len(dims) - 1 else where(i.eq(n), d, value)
        return value

    return k.compute((len(dims),), element, t.int64)


@operator("Size", 1, 13, 19, 21, 23, 24, 25)
def size(k: Builder, data: Tensor) -> Tensor:
    """The number of elements."""
    return k.compute((), lambda: lift(product(data.shape)), t.int64)
