"""One term of a fold in lanes: what each lane adds to its own, or compares with it. Whether a term
is there is asked outside of the lanes, where all agree; bytes are widened first (print_strip.py).

    for lane: acc[lane] += term
    int32_t q[16]; sx_widen_u8(q, &in[..]); for lane: acc[lane] += q[lane] - zero
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sardonyx import types as t
from sardonyx.kernel.c99.place import checked
from sardonyx.kernel.c99.spelling import suffix
from sardonyx.kernel.c99.strips import is_along, used
from sardonyx.kernel.c99.write import Writer, bare, evaluate, fold_step, inside_text
from sardonyx.kernel.expr import Axis, Fold, Load
from sardonyx.kernel.folds import LANES
from sardonyx.kernel.walk import free_axes, is_plus_zero, walk

Folding = Callable[[str], list[str]]
Steps = Callable[[str, str], list[str]]


def print_steps(fold: Fold, names: Writer, acc: str, axis: Axis) -> Steps:
    """The loop over lanes that takes one term into acc, given its head and its first line. What
    all lanes decide alike stands outside it: whether the term is there, whether a load is."""
    free = free_axes(*fold.terms, *([] if fold.when is None else [fold.when]))
    opening: list[str] = []
    alike = fold.when is not None and axis not in free[id(fold.when)]
    if fold.when is not None and alike:
        opening, (condition,) = evaluate(names, [fold.when])
        opening.append(f"if ({bare(condition)}) {{")
    guard = _guard(fold, axis)
    if guard is None:
        terms = _terms(fold, names, acc, alike)
        return lambda each, here: [*opening, each, here, *terms, "}", *["}"] * alike]
    check = checked(guard)
    first, texts = evaluate(names, [i for i, c in zip(guard.index, check, strict=True) if c])
    asked = iter(texts)
    outside = [next(asked) if c else "" for c in check]
    condition = inside_text(names, guard.buffer, outside, check)
    place, index = evaluate(names, list(guard.index))
    if _is_sampled(guard):
        mask = names.fresh("k")
        index = [
            f"({mask} & {bare(i)})" if c else bare(i) for i, c in zip(index, check, strict=True)
        ]
        element = names.element(guard.buffer, index)
        names.given[guard] = f"sx_either_f32({mask}, {element}, 0.0f)"
        opening += [*first, f"const int32_t {mask} = -({condition});", *place]
        terms = _terms(fold, names, acc, alike)
        return lambda each, here: [*opening, each, here, *terms, "}", *["}"] * alike]
    names.given[guard] = names.element(guard.buffer, [bare(i) for i in index])
    there = [*place, *_terms(fold, names, acc, alike)]
    assert guard.default is not None
    place, (names.given[guard],) = evaluate(names, [guard.default])
    absent = [*place, *_terms(fold, names, acc, alike)]
    named = any(re.search(rf"\b{names.given[axis]}\b", line) for line in absent)
    return lambda each, here: [
        *(*opening, *first, f"if ({condition}) {{", each, here, *there, "}"),
        *("} else {", each, *[here] * named, *absent, "}", "}", *["}"] * alike),
    ]


def _guard(fold: Fold, axis: Axis) -> Load | None:
    """The one load of the terms that may be out of bounds, if it is for all lanes or for none."""
    found = [e for e in walk(*fold.terms) if isinstance(e, Load) and any(checked(e))]
    if len(found) != 1 or found[0].mode != "guard":
        return None
    asked = [i for i, c in zip(found[0].index, checked(found[0]), strict=True) if c]
    free = free_axes(*asked)
    return None if any(axis in free[id(i)] for i in asked) else found[0]


def _is_sampled(guard: Load) -> bool:
    """Whether data decide if the load is in bounds, so that no branch would be foreseen: then
    another element is loaded where it is not, and 0 taken in its place."""
    asked = [i for i, c in zip(guard.index, checked(guard), strict=True) if c]
    told = any(isinstance(e, Load) for e in walk(*asked))
    some = all(isinstance(d, int) and d > 0 for d in guard.buffer.shape)
    return told and some and guard.dtype is t.float32 and is_plus_zero(guard.default)


def is_ranked(fold: Fold) -> bool:
    """Whether the fold is a minimum or maximum that integers in the order of floats can take."""
    return fold.kind in ("min", "max") and fold.dtype.is_float


def is_least(fold: Fold) -> bool:
    """Whether the fold is a minimum or maximum of integers that are smaller than int."""
    return fold.kind in ("min", "max") and fold.dtype.is_integer and fold.dtype.bits <= 16


def _terms(fold: Fold, names: Writer, acc: str, there: bool) -> list[str]:
    """The statements that take one term into acc; `there` if it is known not to be absent."""
    guard: list[str] = []
    condition = ""
    if fold.when is not None and not there:
        guard, (condition,) = evaluate(names, [fold.when])
    lines, texts = evaluate(names, list(fold.terms))
    step = bare(fold_step(fold, acc, texts))
    if is_least(fold):
        term, sign = names.fresh("v"), ">" if fold.kind == "max" else "<"
        lines.append(f"const {fold.dtype.c} {term} = {bare(texts[0])};")
        step = f"{term} {sign} {acc} ? {term} : {acc}"  # in vectors of such integers
    if is_ranked(fold):
        rank = f"sx_{fold.kind}rank_{suffix(fold.dtype)}"
        step = f"sx_{fold.kind}_i{fold.dtype.bits}({acc}, {rank}({bare(texts[0])}))"
    taken = [*lines, f"{acc} = {step};"]
    return [*guard, f"if ({bare(condition)}) {{", *taken, "}"] if condition else taken


def print_widened(
    fold: Fold, names: Writer, acc: str, axis: Axis, lane: str, here: str
) -> Folding | None:
    """The loop over lanes that adds bytes along them to acc, which are widened first
    (print_strip.py); None for other sums."""
    loads = [e for e in walk(*fold.terms) if isinstance(e, Load)]
    small = [e for e in loads if e.dtype.is_integer and e.dtype.bits == 8]
    if fold.kind != "sum" or fold.dtype is not t.int32 or fold.when is not None:
        return None
    small = [e for e in small if is_along(e.index, e.buffer.shape, axis)]
    if len(small) != 1 or any(any(checked(e)) for e in loads):
        return None
    (x,), q = small, names.fresh("q")
    before, index = evaluate(names, list(x.index))
    source = names.element(x.buffer, [bare(i) for i in index])
    widen = f"sx_widen_{suffix(x.dtype)}({q}, &{source});"
    names.given[x] = f"{q}[{lane}]"
    terms = _terms(fold, names, acc, True)
    del names.given[x]
    first = ["{", f"const int64_t {lane} = 0;", here, *before, widen, "}"]
    return lambda each: [
        *(f"int32_t {q}[{LANES}];", *first, f"sx_rolled() {each}", *used(here, terms), *terms, "}")
    ]
