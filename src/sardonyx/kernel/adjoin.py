"""Whether two axes are walked as one would be: over neighbours in all that is read and written."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.dims import Dim
from sardonyx.kernel.expr import Axis, Expr, Load
from sardonyx.kernel.walk import children, walk


def read_as_one(a: Axis, b: Axis, parts: Sequence[Expr]) -> bool:
    """Whether a and b occur in the parts as one axis would: side by side in the index of loads."""
    for e in walk(*parts):
        below = children(e)
        if a not in below and b not in below:
            continue
        if not isinstance(e, Load) or e.mode != "proven":
            return False
        if not adjoin(a, b, e.index, e.buffer.shape):
            return False
    return a not in parts and b not in parts


def adjoin(a: Axis, b: Axis, index: Sequence[Expr], shape: Sequence[Dim]) -> bool:
    """Whether the index has a, then b over the whole of its dimension, and neither elsewhere."""
    places = [i for i, e in enumerate(index) if e is a or e is b]
    if len(places) != 2 or places[1] != places[0] + 1:
        return False
    at = places[0]
    return index[at] is a and index[at + 1] is b and shape[at + 1] == b.extent
