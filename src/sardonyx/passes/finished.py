"""Which sums of products what reads them does not finish, as tiles would be none or store worse."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import types as t
from sardonyx.dims import product
from sardonyx.kernel.expr import Axis, Expr, Fold, Load
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.walk import walk
from sardonyx.passes.groups import is_split

FEW, MANY = 8, 4096  # filters that fill no vector of sums; elements for which that counts


def is_tile(e: Expr) -> bool:
    """Whether it is an integer convolution, which register tiles compute: in one launch with a pool
    it would have no layout."""
    return any(len(x.axes) >= 3 for x in integer_sums(e))


def turns(last: Compute, reader: Compute, loads: Sequence[Load]) -> bool:
    """Whether a convolution of bytes would be stored with places side by side that are neither its
    channels nor its last dimension: register tiles, whose lanes are channels, do not."""
    inner, own = _innermost(reader.axes), _innermost(last.axes)
    axes = last.axes[is_split(last.buffer) :]  # what it stores by groups is read without them
    places = [(d, i) for x in loads for d, i in enumerate(x.index)]
    dims = {d for d, i in places if inner is not None and inner in walk(i)}
    bytes_ = any(isinstance(x, Load) and x.dtype is t.uint8 for x in walk(last.expr))
    return bytes_ and not dims <= {1, *(d for d, a in enumerate(axes) if a is own)}


def _innermost(axes: Sequence[Axis]) -> Axis | None:
    """The last axis of more than one place."""
    return next((a for a in reversed(axes) if a.extent != 1), None)


def integer_sums(e: Expr) -> list[Fold]:
    """The sums of products of integers."""
    folds = [x for x in walk(e) if isinstance(x, Fold)]
    return [x for x in folds if x.kind == "dot" and x.dtype is t.int32]


def is_narrow(s: Compute) -> bool:
    """Whether it is a convolution to few filters, whose sums would be finished few at a time."""
    folds = [x for x in walk(s.expr) if isinstance(x, Fold) and x.kind == "dot"]
    points, filters = (
        product(tuple(a.extent for a in s.axes)),
        s.axes[1].extent if len(s.axes) > 2 else MANY,
    )
    large = isinstance(points, int) and points >= MANY
    few = isinstance(filters, int) and filters <= FEW
    return large and few and any(x.dtype is t.float32 and len(x.axes) >= 3 for x in folds)
