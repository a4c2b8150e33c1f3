"""Compress: the slices where a condition holds; their number must be known."""

from __future__ import annotations

import numpy as np

from sardonyx.dims import product
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr
from sardonyx.ops.common import normalize_axis
from sardonyx.ops.index import replaced
from sardonyx.ops.registry import operator


@operator("Compress", 9, 11, 28)
def compress(k: Builder, x: Tensor, condition: Tensor, *, axis: int | None = None) -> Tensor:
    """The slices of x (without an axis: the elements of x flattened) where condition is true.

    A condition shorter than the axis leaves the rest out. Undetermined until its value is known.
    """
    if axis is None:
        x, axis = x.reshaped((product(x.shape),)), 0
    a = normalize_axis(axis, x.rank)
    chosen = np.flatnonzero(condition.ints())
    size = x.shape[a]
    if isinstance(size, int) and chosen.size and chosen[-1] >= size:
        raise InvalidModel(f"the condition is true at {chosen[-1]}, the axis has {size} elements")
    table = k.constant(chosen.astype(np.int64))
    shape = [len(chosen) if d == a else n for d, n in enumerate(x.shape)]

    def element(*i: Axis) -> Expr:
        return x.trap(replaced(i, a, table[i[a]]))

    return k.compute(shape, element, x.dtype)
