"""Windows of integers in lanes: every term of a lane at once, without a loop over the terms."""

from __future__ import annotations

from itertools import product as cartesian
from math import prod

from sardonyx import types as t
from sardonyx.kernel.expr import Fold, Load, walk
from sardonyx.kernel.place import checked
from sardonyx.kernel.write import Writer, bare, evaluate, fold_step

SHORT = 32  # terms of a window that is not looped over


def is_short(fold: Fold) -> bool:
    """Whether a fold is a sum of few products in int32, each of which is there."""
    extents = [a.extent for a in fold.axes if isinstance(a.extent, int)]
    if fold.kind != "dot" or fold.dtype is not t.int32 or fold.when is not None:
        return False
    if any(isinstance(e, Load) and any(checked(e)) for e in walk(*fold.terms)):
        return False
    return len(extents) == len(fold.axes) and prod(extents) <= SHORT


def _places(fold: Fold) -> list[tuple[int, ...]]:
    return list(cartesian(*(range(a.extent) for a in fold.axes if isinstance(a.extent, int))))


def unrolled(fold: Fold, names: Writer, acc: str) -> list[str]:
    """The statements that take every term into acc."""
    lines: list[str] = []
    for place in _places(fold):
        names.given |= {a: str(i) for a, i in zip(fold.axes, place, strict=True)}
        before, texts = evaluate(names, list(fold.terms))
        lines += [*before, f"{acc} = {bare(fold_step(fold, acc, texts))};"]
    return lines
