"""Windows in lanes: every term of a lane at once, without a loop over the terms.

A 16-way sum of at most 16 floats has each term in a partial sum of its own: where all terms are
there, the partial sums are variables, added as they would be in memory. That each begins at +0 is
seen only where all terms are -0, so +0 is added once, at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product as cartesian
from math import prod

from sardonyx import types as t
from sardonyx.kernel.affine import affine
from sardonyx.kernel.c99.place import checked
from sardonyx.kernel.c99.spelling import c_type
from sardonyx.kernel.c99.write import Writer, bare, evaluate, fold_step
from sardonyx.kernel.expr import Alu, Axis, Const, Expr, Fold, Load, alu, lift
from sardonyx.kernel.folds import LANES
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import free_axes, walk

SIMPLE = 4  # operations of a term that is printed for each partial sum
SHORT = 32  # terms of a window that is not looped over


def is_short(fold: Fold, lanes: Axis) -> bool:
    """Whether a fold is a sum of few products in int32 or float32, each of which is there; of
    float32 each lane may decide for itself whether it is."""
    extents = [a.extent for a in fold.axes if isinstance(a.extent, int)]
    if fold.kind != "dot" or fold.dtype not in (t.int32, t.float32) or fold.when is not None:
        return False
    free = free_axes(*fold.terms)
    for e in walk(*fold.terms):
        if isinstance(e, Load) and any(checked(e)):
            asked = [i for i, c in zip(e.index, checked(e), strict=True) if c]
            if fold.dtype is t.int32 or any(lanes not in free[id(i)] for i in asked):
                return False
    return len(extents) == len(fold.axes) and prod(extents) <= SHORT


def _places(fold: Fold) -> list[tuple[int, ...]]:
    return list(cartesian(*(range(_extent(a)) for a in fold.axes)))


def _extent(a: Axis) -> int:
    assert isinstance(a.extent, int)
    return a.extent


def unrolled(fold: Fold, names: Writer, acc: str) -> list[str]:
    """The statements that take every term into acc."""
    lines: list[str] = []
    for place in _places(fold):
        names.given |= {a: str(i) for a, i in zip(fold.axes, place, strict=True)}
        before, texts = evaluate(names, list(fold.terms))
        lines += [*before, f"{acc} = {bare(fold_step(fold, acc, texts))};"]
    return lines


@dataclass(frozen=True, slots=True, eq=False)
class Few:
    """The terms of a 16-way sum of at most 16 floats; the condition on which all are there, which
    no lane changes (None: they always are)."""

    terms: tuple[Expr, ...]
    whole: Expr | None


def few_of(fold: Fold, lanes: Axis) -> Few | None:
    """The terms of such a sum."""
    count = prod(a.extent if isinstance(a.extent, int) else LANES + 1 for a in fold.axes)
    if fold.kind != "sum" or not fold.dtype.is_float or not 1 < count <= LANES:
        return None
    (term,) = fold.terms
    guards = [e for e in walk(term) if isinstance(e, Load) and any(checked(e))]
    asked = [*(c for e in guards for c in _there(e)), *([] if fold.when is None else [fold.when])]
    alike = all(lanes not in free_axes(c)[id(c)] and _is_convex(c) for c in asked)
    if not alike or any(e.mode != "guard" for e in guards):
        return None

    def proven(e: Load) -> Load | None:
        return Load(e.buffer, e.index) if e.mode == "guard" else None

    corners = cartesian(*(sorted({0, _extent(a) - 1}) for a in fold.axes))
    needed = [rewrite(c, _at(fold, corner)) for corner in corners for c in asked]
    return Few(
        tuple(rewrite(term, _at(fold, place), proven) for place in _places(fold)),
        reduce(lambda a, b: alu("and", a, b), needed) if needed else None,
    )


def in_turns(
    fold: Fold, names: Writer, here: str, lane: str, acc: str
) -> Callable[[str], list[str]] | None:
    """The loop over the innermost axis of a 16-way sum, a term of each of its partial sums at a
    time, given the loop over lanes: these are variables then, which stay in registers."""
    *outer, axis = fold.axes
    n, loads = axis.extent, [e for e in walk(*fold.terms) if isinstance(e, Load)]
    work = [e for e in walk(*fold.terms) if isinstance(e, Alu) and e.dtype.is_float]
    if fold.when is not None or any(any(checked(e)) for e in loads) or len(work) > SIMPLE:
        return None
    if not isinstance(n, int) or n < LANES or (n % LANES and any(a.extent != 1 for a in outer)):
        return None
    r, end = names.given[axis], names.size(n)

    def taken(place: str, part: str) -> list[str]:
        names.given[axis] = place
        before, texts = evaluate(names, list(fold.terms))
        one = f"{acc}[{part}][{lane}]"
        return [*before, f"{one} = {bare(fold_step(fold, one, texts))};"]

    turn = [line for i in range(LANES) for line in taken(f"({r} + {i})" if i else r, str(i))]
    one = taken(r, f"{r} & {LANES - 1}")

    def loop(each: str) -> list[str]:
        head = f"for (; {r} + {LANES} <= {end}; {r} += {LANES}) {{"
        left = [f"for (; {r} < {end}; {r}++) {{", each, here, *one, "}", "}"] if n % LANES else []
        whole = [head, f"sx_rolled() {each}", here, *turn, "}", "}"]
        return ["{", f"int64_t {r} = 0;", *whole, *left, "}"]

    return loop


def _at(fold: Fold, place: Sequence[int]) -> dict[Axis, Expr]:
    return {a: lift(i) for a, i in zip(fold.axes, place, strict=True)}


def _there(e: Load) -> list[Expr]:
    """The conditions on which the element is there."""
    found = zip(e.index, e.buffer.shape, checked(e), strict=True)
    return [alu("and", alu("le", lift(0), i), alu("lt", i, lift(d))) for i, d, c in found if c]


def _is_convex(e: Expr) -> bool:
    """Whether e holds between places where it holds: comparisons of what is affine, all of them."""
    match e:
        case Alu("and", args, t.bool_):
            return all(map(_is_convex, args))
        case Alu("lt" | "le", args):
            return all(affine(x) is not None for x in args)
    return isinstance(e, Const)


def added(few: Few, names: Writer) -> tuple[list[str], str]:
    """The statements that add the terms up, and the text of the sum."""
    lines, texts = evaluate(names, list(few.terms))
    kind, parts = c_type(few.terms[0].dtype), [names.fresh("p") for _ in texts]
    lines += [f"{kind} {p} = {bare(x)};" for p, x in zip(parts, texts, strict=True)]
    for n in (8, 4, 2, 1):
        lines += [f"{a} += {b};" for a, b in zip(parts[:n], parts[n : 2 * n], strict=False)]
    zero = "0.0f" if few.terms[0].dtype is t.float32 else "0.0"
    return lines, f"({parts[0]} + {zero})"
