"""Folds under a contiguous output axis: sixteen neighbours at a time, each in a lane of its own.

    for strip of 16: acc[16] = start; for fold axes: for lane: acc[lane] += term; for lane: store

Depthwise convolutions, pools and reductions over outer axes take this form: the loads of a strip
lie together, and each lane keeps the order of its own fold.
"""

from __future__ import annotations

from sardonyx.kernel.affine import affine, coefficient
from sardonyx.kernel.expr import Axis, Expr, Fold, Load, walk
from sardonyx.kernel.folds import LANES, identity
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.spelling import c_type, literal
from sardonyx.kernel.write import Writer, bare, evaluate, fold_step, stored

LEAST = 8  # a shorter innermost axis is not worth a strip


def suits_lanes(s: Compute) -> bool:
    """Whether s has one fold, taken term by term, whose terms run along the last axis of s."""
    if not s.axes:
        return False
    axis = s.axes[-1]
    if isinstance(axis.extent, int) and axis.extent < LEAST:
        return False
    folds = [e for e in walk(s.expr) if isinstance(e, Fold)]
    if len(folds) != 1 or (folds[0].kind in ("sum", "prod") and folds[0].dtype.is_float):
        return False
    if any(isinstance(e, Load) and e.mode == "trap" for e in walk(s.expr)):
        return False
    return any(_along(e, axis) for term in folds[0].terms for e in walk(term))


def _along(e: Expr, axis: Axis) -> bool:
    """Whether e is a load whose neighbours along the axis are neighbours in memory."""
    if not isinstance(e, Load) or not e.index:
        return False
    last = affine(e.index[-1])
    return last is not None and coefficient(last, axis) == 1


def print_lanes(s: Compute, names: Writer) -> list[str]:
    """The loop nest of s in strips along its last axis."""
    axis = s.axes[-1]
    (fold,) = [e for e in walk(s.expr) if isinstance(e, Fold)]
    heads = [names.loop(a) for a in s.axes[:-1]]
    strip, lane, acc = names.fresh("s"), names.fresh("l"), names.fresh("acc")
    names.given[axis] = names.fresh("i")
    names.given[fold] = f"{acc}[{lane}]"
    here = f"const int64_t {names.given[axis]} = {strip} + {lane};"
    kind, start = c_type(fold.dtype), bare(literal(identity(fold), fold.dtype))
    loops = [names.loop(a) for a in fold.axes]
    del names.given[fold]
    terms = _terms(fold, names, f"{acc}[{lane}]")
    names.given[fold] = f"{acc}[{lane}]"
    element, (value,) = evaluate(names, [s.expr])
    target = names.element(s.buffer, [names.given[a] for a in s.axes])
    store = f"{target} = {bare(stored(value, s.expr, s.buffer.dtype))};"

    def over(width: str) -> list[str]:
        each = f"for (int64_t {lane} = 0; {lane} < {width}; {lane}++) {{"
        return [
            f"{kind} {acc}[{LANES}];",
            f"{each[:-2]} {acc}[{lane}] = {start};",
            *loops,
            *[each, here, *terms, "}"],
            *["}"] * len(loops),
            *[each, here, *element, store, "}"],
        ]

    n = names.size(axis.extent)
    whole = isinstance(axis.extent, int) and axis.extent % LANES == 0
    inner = [f"int64_t {strip} = 0;", f"for (; {strip} + {LANES} <= {n}; {strip} += {LANES}) {{"]
    inner += [*over(str(LANES)), "}"]
    if not whole:
        inner += [f"if ({strip} < {n}) {{", *over(f"{n} - {strip}"), "}"]
    return [*heads, "{", *inner, "}", *["}"] * len(heads)]


def _terms(fold: Fold, names: Writer, acc: str) -> list[str]:
    """The statements that take one term into acc."""
    if fold.when is None:
        lines, texts = evaluate(names, list(fold.terms))
        return [*lines, f"{acc} = {bare(fold_step(fold, acc, texts))};"]
    guard, (condition,) = evaluate(names, [fold.when])
    lines, texts = evaluate(names, list(fold.terms))
    step = [*lines, f"{acc} = {bare(fold_step(fold, acc, texts))};"]
    return [*guard, f"if ({bare(condition)}) {{", *step, "}"]
