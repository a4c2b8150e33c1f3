"""Folds under a contiguous output axis: sixteen neighbours at a time, each in a lane of its own.

    for strip of 16: acc[16] = start; for fold axes: for lane: acc[lane] += term; for lane: store

Depthwise convolutions, pools and reductions over outer axes take this form: the loads of a strip
lie together, and each lane keeps the order of its own fold. A 16-way sum has sixteen partial sums
a lane, or as many as it has terms: the others stay +0, which changes no sum that began at +0.
"""

from __future__ import annotations

from collections.abc import Callable

from sardonyx.dims import product
from sardonyx.kernel.affine import affine, coefficient
from sardonyx.kernel.expr import Axis, Expr, Fold, Load, free_axes, walk
from sardonyx.kernel.folds import LANES, identity
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.spelling import c_type, literal
from sardonyx.kernel.write import Writer, bare, evaluate, fold_step, stored

LEAST = 8  # a shorter innermost axis is not worth a strip


def suits_lanes(s: Compute) -> bool:
    """Whether s has one fold along the last axis of s, whose terms are neighbours there."""
    return _fold_of(s) is not None


def _fold_of(s: Compute) -> Fold | None:
    """The fold to take in lanes. Other folds must not depend on the last axis."""
    if not s.axes:
        return None
    axis = s.axes[-1]
    if isinstance(axis.extent, int) and axis.extent < LEAST:
        return None
    if any(isinstance(e, Load) and e.mode == "trap" for e in walk(s.expr)):
        return None
    found = [e for e in walk(s.expr) if isinstance(e, Fold)]
    inner = {id(e) for f in found for e in walk(*f.terms)}
    free = free_axes(s.expr)
    found = [e for e in found if axis in free[id(e)]]
    if len(found) != 1 or id(found[0]) in inner:
        return None
    (fold,) = found
    if fold.kind == "prod" and fold.dtype.is_float:
        return None
    return fold if any(_along(e, axis) for term in fold.terms for e in walk(term)) else None


def _along(e: Expr, axis: Axis) -> bool:
    """Whether e is a load whose neighbours along the axis are neighbours in memory."""
    if not isinstance(e, Load) or not e.index:
        return False
    last = affine(e.index[-1])
    return last is not None and coefficient(last, axis) == 1


def print_lanes(s: Compute, names: Writer) -> list[str]:
    """The loop nest of s in strips along its last axis."""
    axis, fold = s.axes[-1], _fold_of(s)
    assert fold is not None
    heads = [names.loop(a) for a in s.axes[:-1]]
    others = [e for e in walk(s.expr) if isinstance(e, Fold) and e is not fold]
    before, texts = evaluate(names, others)
    names.given.update(zip(others, texts, strict=True))
    strip, lane = names.fresh("s"), names.fresh("l")
    names.given[axis] = names.fresh("i")
    here = f"const int64_t {names.given[axis]} = {strip} + {lane};"
    result, folding = _folding(fold, names, lane, here)
    names.given[fold] = result
    element, (value,) = evaluate(names, [s.expr])
    target = names.element(s.buffer, [names.given[a] for a in s.axes])
    store = f"{target} = {bare(stored(value, s.expr, s.buffer.dtype))};"

    def over(width: str) -> list[str]:
        each = f"for (int64_t {lane} = 0; {lane} < {width}; {lane}++) {{"
        return [*folding(each), each, here, *element, store, "}"]

    n = names.size(axis.extent)
    whole = isinstance(axis.extent, int) and axis.extent % LANES == 0
    inner = [f"int64_t {strip} = 0;", f"for (; {strip} + {LANES} <= {n}; {strip} += {LANES}) {{"]
    inner += [*over(str(LANES)), "}"]
    if not whole:
        inner += [f"if ({strip} < {n}) {{", *over(f"{n} - {strip}"), "}"]
    return [*heads, "{", *before, *inner, "}", *["}"] * len(heads)]


Folding = Callable[[str], list[str]]


def _folding(fold: Fold, names: Writer, lane: str, here: str) -> tuple[str, Folding]:
    """The text of a lane's result, and the statements that find it, given the loop over lanes."""
    loops = [names.loop(a) for a in fold.axes]
    kind, start = c_type(fold.dtype), bare(literal(identity(fold), fold.dtype))
    acc = names.fresh("acc")
    ends = ["}"] * len(loops)
    if fold.kind != "sum" or not fold.dtype.is_float:
        one = f"{acc}[{lane}]"
        terms = _terms(fold, names, one)

        def simple(each: str) -> list[str]:
            first = [f"{kind} {acc}[{LANES}];", f"{each[:-2]} {one} = {start};"]
            return [*first, *loops, each, here, *terms, "}", *ends]

        return one, simple
    count, terms_in = names.fresh("q"), product(tuple(a.extent for a in fold.axes))
    used = max(1, min(terms_in, LANES)) if isinstance(terms_in, int) else LANES
    terms = _terms(fold, names, f"{acc}[{count} & {LANES - 1}][{lane}]")

    def sixteen(each: str) -> list[str]:
        first = [f"{kind} {acc}[{used}][{LANES}] = {{{{0}}}};", f"int64_t {count} = 0;"]
        lines = [*first, *loops, each, here, *terms, "}", f"{count}++;", *ends]
        for n in (8, 4, 2, 1):
            for j in range(min(n, used - n)):
                lines.append(f"{each[:-2]} {acc}[{j}][{lane}] += {acc}[{j + n}][{lane}];")
        return lines

    return f"{acc}[0][{lane}]", sixteen


def _terms(fold: Fold, names: Writer, acc: str) -> list[str]:
    """The statements that take one term into acc."""
    if fold.when is None:
        lines, texts = evaluate(names, list(fold.terms))
        return [*lines, f"{acc} = {bare(fold_step(fold, acc, texts))};"]
    guard, (condition,) = evaluate(names, [fold.when])
    lines, texts = evaluate(names, list(fold.terms))
    step = [*lines, f"{acc} = {bare(fold_step(fold, acc, texts))};"]
    return [*guard, f"if ({bare(condition)}) {{", *step, "}"]
