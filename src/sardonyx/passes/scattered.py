"""Stores at places that weights decide (Scatter of weights), as Computes and one assignment.

    y = data;  for i: y[at[i]] = updates[i]   =>   y = data;  y[places] = values, all at once

Of several stores to one element the last one in the order of the loops stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sardonyx import types as t
from sardonyx.kernel.expr import Axis, Buffer, Load
from sardonyx.kernel.ir import Compute, For, Kernel, Store, expressions
from sardonyx.kernel.walk import walk
from sardonyx.types import Array


@dataclass(frozen=True, slots=True, eq=False)
class Scatter:
    """What a kernel computes that then stores to it: the tensor before, and over the axes of the
    loops the index along each of its dimensions and the value."""

    before: Compute
    places: tuple[Compute, ...]
    values: Compute


def scatter_of(kernel: Kernel) -> Scatter | None:
    """The kernel as such, where its stores do not read what they write."""
    if len(kernel.body) != 2:
        return None
    before, inner = kernel.body
    axes = list[Axis]()
    while isinstance(inner, For) and len(inner.body) == 1:
        axes.append(inner.axis)
        (inner,) = inner.body
    if not isinstance(before, Compute) or not isinstance(inner, Store):
        return None
    target = before.buffer
    read = {e.buffer.root for e in walk(*expressions(inner)) if isinstance(e, Load)}
    if inner.buffer is not target or target.base is not None or target in read:
        return None
    shape = tuple(a.extent for a in axes)
    places = tuple(
        Compute(Buffer(f"place{d}", t.int64, shape), tuple(axes), i)
        for d, i in enumerate(inner.index)
    )
    values = Compute(Buffer("values", target.dtype, shape), tuple(axes), inner.expr)
    return Scatter(before, places, values)


def assigned(before: Array, places: Sequence[Array], values: Array) -> Array | None:
    """The tensor with the values at their places; None where one is outside."""
    flat = np.zeros(values.size, np.int64)
    for n, place in zip(before.shape, places, strict=True):
        along = place.reshape(-1)
        if np.any((along < 0) | (along >= n)):
            return None
        flat = flat * n + along
    where, last = np.unique(flat[::-1], return_index=True)  # the first from behind
    after = before.reshape(-1).copy()
    after[where] = values.reshape(-1)[::-1][last]
    return after.reshape(before.shape)
