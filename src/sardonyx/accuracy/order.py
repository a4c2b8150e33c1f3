"""Whether enclosures decide an order, so that the first elements of the machine's run surely are.

A kernel that takes elements by their ranks (ops/contest.py) compares integers that are others for
another rounding; where their order is decided, all ranks in that order give the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx.accuracy.held import Held
from sardonyx.graph import Operation
from sardonyx.types import Array

RANKED = {"TopK": 0, "NonMaxSuppressionCount": 1}  # the operand that is ranked


def is_ordered(op: Operation, given: Sequence[Held], values: Sequence[Array]) -> bool:
    """Whether the elements that are taken surely are, in this order."""
    x = given[RANKED[op.op_type]]
    if not x.ends or not values[0].size:
        return True
    axis, sign = op.attributes.get("axis", -1), 1 if op.attributes.get("largest", 1) else -1
    low, high = reach(x)[::sign]
    rows = [
        np.moveaxis(sign * e.astype(np.float64), axis, -1).reshape(-1, e.shape[axis])
        for e in (x.value, low, high)
    ]
    order = np.argsort(-rows[0], axis=1, kind="stable")
    if op.op_type == "TopK":
        counts = [values[0].shape[axis]] * len(order)
    else:
        counts = _taken(order, x.value.shape[1], values[1][: int(values[0])])
    return all(map(_is_head, rows[1], rows[2], order, counts))


def _taken(order: Array, classes: int, selected: Array) -> list[int]:
    """How many elements of each row are up to the last that is selected."""
    counts = [0] * len(order)
    for batch, of_class, box in selected:
        row = batch * classes + of_class
        counts[row] = int(np.flatnonzero(order[row] == box)[0]) + 1
    return counts


def _is_head(low: Array, high: Array, order: Array, count: int) -> bool:
    """Whether each of the first `count` elements surely is before all that follow it: it is larger,
    or no less and of the lower index."""
    taken = order[:count]
    low, high = low[taken], high[order]
    pairs = [(low[:-1], high[1:count], taken[:-1], taken[1:])]
    if count:
        pairs.append((low[-1], high[count:], taken[-1], order[count:]))
    return all(((x > y) | ((x == y) & (i < j))).all() for x, y, i, j in pairs)


def is_extreme(op: Operation, x: Held, found: Array) -> bool:
    """Whether each extremum of an ArgMax or ArgMin surely lies where the machine found it, away
    from all other elements. The kernel compares the greatest with itself, which is not told."""
    if not x.ends or not found.size:
        return False
    axis = op.attributes.get("axis", 0)
    low, high = reach(x)
    if op.op_type == "ArgMin":
        low, high = -high, -low
    at = found if op.attributes.get("keepdims", 1) else np.expand_dims(found, axis)
    others = high.copy()
    np.put_along_axis(others, at, -np.inf, axis)
    ahead = np.take_along_axis(low, at, axis) > others.max(axis, keepdims=True)
    return bool(ahead.all())


def reach(x: Held) -> tuple[Array, Array]:
    """Where the floats of x lie, exact or the machine's."""
    low, high = x.ends[:2]
    if len(x.ends) < 3:
        return low, high
    exact, error = x.ends[2] == 0, x.ends[2]
    outer = np.nextafter(low - error, -np.inf), np.nextafter(high + error, np.inf)
    return np.where(exact, low, outer[0]), np.where(exact, high, outer[1])
