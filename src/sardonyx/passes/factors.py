"""What may become a factor of a sum of products when launches are fused."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import types as t
from sardonyx.dims import product
from sardonyx.kernel.c99.contract import contraction
from sardonyx.kernel.c99.print_product import is_walked
from sardonyx.kernel.expr import Alu, Axis, Expr, Fold, Load
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.walk import walk
from sardonyx.passes.program import Launch


def is_chosen(e: Expr) -> bool:
    """Whether it loads an element that a table or data choose, without a check."""
    if not isinstance(e, Load) or e.mode != "proven":
        return False
    return any(isinstance(x, Load) for x in walk(*e.index))


def scales(e: Expr) -> bool:
    """Whether it is an element of a tensor times one number."""
    match e:
        case Alu("mul", (Load(mode="proven") as a, Load(mode="proven") as b), t.float32):
            return product(a.buffer.shape) != 1 == product(b.buffer.shape) and not is_chosen(a)
    return False


def is_packed_by(s: Compute, loads: Sequence[Load]) -> bool:
    """Whether these are a factor of a sum of products that is read once where rows are few, and
    packed before where they are not (passes/pack.py)."""
    folds = [x for x in walk(s.expr) if isinstance(x, Fold)]
    if len(folds) != 1 or len(loads) != 1 or loads[0] not in folds[0].terms or not s.axes:
        return False
    c = contraction(s, s.axes[-1])
    return c is not None and c.b is loads[0]


def still_walks(merged: Launch, readers: Sequence[Compute], scaled: bool) -> bool:
    """Whether register tiles walk each sum of products of the readers as they did before: what lies
    in more pieces (windows of a picture, say) is moved first. scaled: along their last axes alone,
    as an operand is packed that is no more than read."""
    lanes = {s.axes[-1] for s in readers if s.axes}
    before = {axis for s in readers for axis in _walked(s) if not scaled or axis in lanes}
    if not before:
        return True
    after = {axis for s in merged.kernel.body if isinstance(s, Compute) for axis in _walked(s)}
    return before <= after


def _walked(s: Compute) -> list[Axis]:
    """The axes that may be lanes of register tiles."""
    if not any(isinstance(e, Fold) for e in walk(s.expr)):
        return []
    found = ((axis, contraction(s, axis)) for axis in s.axes)
    return [axis for axis, c in found if c is not None and is_walked(c)]
