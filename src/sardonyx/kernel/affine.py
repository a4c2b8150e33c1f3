"""Index expressions as linear forms over axes and dims, and back.

A form is a Dim whose atoms are the symbols of dims.py and kernel axes. An axis runs over
[0, extent - 1]; loops without iterations do not evaluate anything, so an extent counts as >= 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from sardonyx import types as t
from sardonyx.dims import Dim, Sym, at_least, atom, floordiv, substitute
from sardonyx.kernel.expr import Alu, Axis, Const, Expr, Size, alu, lift
from sardonyx.kernel.walk import walk


@lru_cache(maxsize=4096)
def affine(e: Expr) -> Dim | None:
    """e as a form, or None where it is not one (a product of axes counts as one)."""
    forms: dict[int, Dim | None] = {}
    for node in walk(e):
        forms[id(node)] = _form(node, forms)
    return forms[id(e)]


def position(index: Sequence[Expr], shape: Sequence[Dim]) -> Dim | None:
    """The row-major position of an element, as a form."""
    total: Dim = 0
    for i, size in zip(index, shape, strict=True):
        form = affine(i)
        if form is None:
            return None
        total = total * size + form
    return total


def _form(e: Expr, known: Mapping[int, Dim | None]) -> Dim | None:
    match e:
        case Const(value, t.int64):
            return int(value)
        case Size(dim):
            return dim
        case Axis():
            return atom(e)
        case Alu("add" | "sub" | "mul" | "idiv" | "imod" as op, args, t.int64):
            a, b = (known[id(x)] for x in args)
            if a is None or b is None:
                return None
            return _apply(op, a, b)
    return None


def _apply(op: str, a: Dim, b: Dim) -> Dim | None:
    match op:
        case "add":
            return a + b
        case "sub":
            return a - b
        case "mul":
            return a * b
    if not isinstance(b, int) or b < 1:
        return None
    quotient = quotient_of(a, b)
    if quotient is None:
        return None
    return quotient if op == "idiv" else a - quotient * b


def quotient_of(form: Dim, divisor: int) -> Dim | None:
    """floor(form / divisor) as a form: the terms that divide, where the rest stays below it."""
    if isinstance(form, int):
        return form // divisor
    whole, rest = _divided(form, divisor)
    return None if _within(rest, divisor) is None else floordiv(whole, divisor)


def remainder(form: Dim, divisor: int) -> tuple[Dim, Dim] | None:
    """The least and greatest value of form % divisor; None where they are not known."""
    return _within(_divided(form, divisor)[1], divisor)


def _divided(form: Dim, divisor: int) -> tuple[Dim, Dim]:
    """The terms that divide, and the rest."""
    if isinstance(form, int):
        return form - form % divisor, form % divisor
    whole: Dim = 0
    for mono, c in form.terms:
        term: Dim = c - c % divisor
        for a in mono:
            term = term * atom(a)
        whole = whole + term
    return whole, form - whole


def _within(rest: Dim, divisor: int) -> tuple[Dim, Dim] | None:
    """The bounds of the rest, if it is at least 0 and below the divisor."""
    low, high = bounds(rest)
    if low is None or high is None or not (at_least(low, 0) and at_least(divisor - 1 - high, 0)):
        return None
    return low, high


def bounds(form: Dim) -> tuple[Dim | None, Dim | None]:
    """The least and greatest value of a form over its axes, as Dims; None where unknown."""
    low: Dim = 0
    high: Dim = 0
    if isinstance(form, int):
        return form, form
    for mono, c in form.terms:
        axes = [a for a in mono if isinstance(a, Axis)]
        others: Dim = c
        for a in mono:
            if not isinstance(a, Axis):
                others = others * atom(a)
        if not all(isinstance(a, Axis | Sym) for a in mono):
            return None, None
        top = others
        for axis in axes:
            top = top * (axis.extent - 1)
        if not axes:
            low, high = low + others, high + others
        elif c > 0:
            high = high + top
        else:
            low = low + top
    return low, high


@lru_cache(maxsize=4096)
def expression(form: Dim) -> Expr:
    """A form as an index expression; equal forms are one node."""
    if isinstance(form, int):
        return lift(form)
    total: Expr | None = None
    rest: Dim = 0
    for mono, c in sorted(form.terms, key=lambda term: [str(a) for a in term[0]]):
        axes = [a for a in mono if isinstance(a, Axis)]
        others: Dim = c
        for a in mono:
            if not isinstance(a, Axis):
                others = others * atom(a)
        if not axes:
            rest = rest + others
            continue
        term: Expr = axes[0]
        for axis in axes[1:]:
            term = term * axis
        term = term * others
        total = term if total is None else total + term
    if total is None:
        return lift(rest)
    return total if rest == 0 else alu("add", total, rest)


def coefficient(form: Dim, axis: Axis) -> Dim | None:
    """What axis is multiplied with in the form; None if it occurs in another way."""
    if isinstance(form, int):
        return 0
    total: Dim = 0
    for mono, c in form.terms:
        if axis not in mono:
            continue
        factor: Dim = c
        for a in mono:
            if isinstance(a, Axis) and a is not axis:
                return None
            if a is not axis:
                factor = factor * atom(a)
        if mono.count(axis) != 1:
            return None
        total = total + factor
    return total


def replace_axes(form: Dim, given: Mapping[Axis, Dim]) -> Dim:
    """The form with axes replaced."""
    return substitute(form, lambda a: given.get(a) if isinstance(a, Axis) else None)
