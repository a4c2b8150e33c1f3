"""Windows of integers in lanes: every term of a lane at once, without a loop over the terms.

Where the factors are bytes and weights within a limit (kernel/contract.py), both along the lanes,
the window is a call of sx_taps (prelude.h); else the terms stand one behind the other.
"""

from __future__ import annotations

from itertools import product as cartesian
from math import prod

from sardonyx import types as t
from sardonyx.dims import Dim
from sardonyx.kernel.affine import coefficient
from sardonyx.kernel.contract import factors, flat
from sardonyx.kernel.expr import Axis, Fold, Load, walk
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


def called(fold: Fold, names: Writer, axis: Axis, acc: str) -> tuple[str, list[str]] | None:
    """The table of where the terms are, and the statements that fill acc, whose first lane is
    at `axis`; None where the window is no such call."""
    terms = factors(fold)
    if terms is None or tuple(x.dtype for x in terms) != (t.uint8, t.int8):
        return None
    x, w = terms
    if not isinstance(x, Load) or not isinstance(w, Load):
        return None
    of_x, of_w = _offsets(x, fold, axis), _offsets(w, fold, axis)
    step = of_w[1] if of_w and len(of_w) > 1 else 0
    if of_x is None or of_w is None or any(n != i * step for i, n in enumerate(of_w)):
        return None
    names.given |= dict.fromkeys(fold.axes, "0")
    at, (first, second) = names.fresh("at"), (_element(e, names) for e in (x, w))
    table = f"const int64_t {at}[{len(of_x)}] = {{{', '.join(map(names.size, of_x))}}};"
    call = f"sx_taps({acc}, &{first[1]}, {at}, &{second[1]}, {names.size(step)}, {len(of_x)});"
    return table, [*first[0], *second[0], call]


def _element(e: Load, names: Writer) -> tuple[list[str], str]:
    before, index = evaluate(names, list(e.index))
    return before, names.element(e.buffer, [bare(i) for i in index])


def _offsets(e: Load, fold: Fold, axis: Axis) -> list[Dim] | None:
    """Where each term lies behind the first; None where sixteen of them do not lie together."""
    address = flat(e)
    if address is None or coefficient(address, axis) != 1:
        return None
    steps = [coefficient(address, a) for a in fold.axes]
    known = [s for s in steps if s is not None]
    if len(known) != len(steps):
        return None
    found: list[Dim] = []
    for place in _places(fold):
        total: Dim = 0
        for i, s in zip(place, known, strict=True):
            total = total + s * i
        found.append(total)
    return found
