"""One term of a fold in lanes: what each lane adds to its own, or compares with it. Whether a term
is there is asked outside of the lanes, where all agree; bytes are widened first (print_strip.py).

    for lane: acc[lane] += term
    int32_t q[16]; sx_widen_u8(q, &in[..]); for lane: acc[lane] += q[lane] - zero
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sardonyx import types as t
from sardonyx.dims import at_least
from sardonyx.kernel.c99.place import checked
from sardonyx.kernel.c99.spelling import c_type, suffix
from sardonyx.kernel.c99.strips import is_along, used
from sardonyx.kernel.c99.write import Writer, bare, evaluate, fold_step, inside_text
from sardonyx.kernel.expr import Axis, Const, Expr, Fold, Load, Where
from sardonyx.kernel.folds import LANES
from sardonyx.kernel.walk import children, free_axes, is_plus_zero, walk

Folding = Callable[[str], list[str]]
Steps = Callable[[str, str], list[str]]


def print_steps(fold: Fold, names: Writer, acc: str, axis: Axis) -> Steps:
    """The loop over lanes that takes one term into acc, given its head and its first line. What
    all lanes decide alike stands outside it: whether the term is there, whether a load is, which
    of two values it has."""
    when = fold.when
    if when is None or axis in free_axes(when)[id(when)]:
        return _steps(fold, names, acc, axis, when is None)
    opening, (condition,) = evaluate(names, [when])
    steps = _steps(fold, names, acc, axis, True)
    opening.append(f"if ({bare(condition)}) {{")
    return lambda each, here: [*opening, *steps(each, here), "}"]


def _steps(fold: Fold, names: Writer, acc: str, axis: Axis, there: bool) -> Steps:
    """As print_steps; `there` if the term is known not to be absent."""
    match fold.terms:
        case (Where(cond, a, b),) if there and axis not in free_axes(cond)[id(cond)]:
            return _either(
                replace(fold, terms=(a,)), replace(fold, terms=(b,)), cond, names, acc, axis
            )
    guards = _guards(fold, axis)
    if there and guards and all(map(_is_sampled, guards)):
        opening = [line for x in guards for line in _masked(x, names)]
        opening += _alike(fold.terms, axis, names)
    elif len(guards) == 1:
        return _guarded(guards[0], fold, names, acc, axis, there)
    else:
        opening = []
    terms = _terms(fold, names, acc, there)
    return lambda each, here: [*opening, each, *used(here, terms), *terms, "}"]


def _either(one: Fold, other: Fold, cond: Expr, names: Writer, acc: str, axis: Axis) -> Steps:
    """The steps of one fold where the condition holds, of the other where it does not."""
    opening, (condition,) = evaluate(names, [cond])
    given = dict(names.given)
    then = _steps(one, names, acc, axis, True)
    names.given = dict(given)
    otherwise = _steps(other, names, acc, axis, True)
    names.given = given
    return lambda each, here: [
        *(*opening, f"if ({bare(condition)}) {{", *then(each, here)),
        *("} else {", *otherwise(each, here), "}"),
    ]


def _guarded(guard: Load, fold: Fold, names: Writer, acc: str, axis: Axis, there: bool) -> Steps:
    """The steps where a load is in bounds, and where it is not."""
    condition, first = _asked(guard, names)
    place, index = evaluate(names, list(guard.index))
    names.given[guard] = names.element(guard.buffer, [bare(i) for i in index])
    within = [*place, *_terms(fold, names, acc, there)]
    assert guard.default is not None
    place, (names.given[guard],) = evaluate(names, [guard.default])
    outside = [*place, *_terms(fold, names, acc, there)]
    return lambda each, here: [
        *(*first, f"if ({condition}) {{", each, here, *within, "}"),
        *("} else {", each, *used(here, outside), *outside, "}", "}"),
    ]


def _masked(guard: Load, names: Writer) -> list[str]:
    """What stands before the lanes where another element is loaded in place of what is not there,
    and 0 taken."""
    condition, first = _asked(guard, names)
    place, index = evaluate(names, list(guard.index))
    mask = names.fresh("k")
    lines = [*first, f"const int32_t {mask} = -({condition});", *place]
    for d, asked in enumerate(checked(guard)):
        if asked:
            name = names.fresh("k")
            lines.append(f"const int64_t {name} = {mask} & {index[d]};")
            index[d] = name
    names.given[guard] = f"sx_either_f32({mask}, {names.element(guard.buffer, index)}, 0.0f)"
    return lines


def _alike(terms: Sequence[Expr], axis: Axis, names: Writer) -> list[str]:
    """Declares the floats that all lanes take alike, which compilers may not find among others."""
    free, found = free_axes(*terms), list[Expr]()
    todo = list(terms)
    while todo:
        e = todo.pop()
        if e in names.given or isinstance(e, Const):
            continue
        if axis not in free[id(e)] and e.dtype.is_float:
            found.append(e)
        elif not isinstance(e, Where | Load | Fold):
            todo += children(e)
    lines, texts = evaluate(names, found)
    for e, text in zip(found, texts, strict=True):
        name = names.given[e] = names.fresh("k")
        lines.append(f"const {c_type(e.dtype)} {name} = {bare(text)};")
    return lines


def _asked(guard: Load, names: Writer) -> tuple[str, list[str]]:
    """The condition that an element is there, and the statements before it."""
    check = checked(guard)
    first, texts = evaluate(names, [i for i, c in zip(guard.index, check, strict=True) if c])
    asked = iter(texts)
    outside = [next(asked) if c else "" for c in check]
    return inside_text(names, guard.buffer, outside, check), first


def _guards(fold: Fold, axis: Axis) -> list[Load]:
    """The loads of the terms that may be out of bounds, if each is for all lanes or for none."""
    found = [e for e in walk(*fold.terms) if isinstance(e, Load) and any(checked(e))]
    asked = [i for e in found for i, c in zip(e.index, checked(e), strict=True) if c]
    free = free_axes(*asked)
    alike = all(e.mode == "guard" for e in found) and all(axis not in free[id(i)] for i in asked)
    return found if alike else []


def _is_sampled(guard: Load) -> bool:
    """Whether data decide if the load is in bounds, so that no branch would be foreseen: then
    another element is loaded where it is not, and 0 taken in its place."""
    asked = [i for i, c in zip(guard.index, checked(guard), strict=True) if c]
    told = any(isinstance(e, Load) for e in walk(*asked))
    some = all(at_least(d, 1) for d in guard.buffer.shape)
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
