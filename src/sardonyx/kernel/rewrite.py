"""Rewriting expression DAGs: axes for index expressions, loads for what they read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from sardonyx.kernel.affine import affine, expression
from sardonyx.kernel.expr import Alu, Axis, Cast, Expr, Fold, Iterate, Load, Where, alu, reinterpret
from sardonyx.kernel.walk import walk

Loads = Callable[[Load], Expr | None]


def rewrite(
    root: Expr,
    given: Mapping[Axis, Expr] | Mapping[Fold, Expr] | Mapping[Expr, Expr],
    loads: Loads = lambda load: None,
) -> Expr:
    """root with the nodes of `given` replaced (axes, folds), and each load, its index
    already rewritten, by loads(load) where that is not None. Shared nodes stay shared; indices
    are made canonical."""
    replaced = {id(e): x for e, x in given.items()}
    done: dict[int, Expr] = {}
    for e in walk(root):
        done[id(e)] = replaced[id(e)] if id(e) in replaced else rebuilt(e, done, loads)
    return done[id(root)]


def rebuilt(e: Expr, done: Mapping[int, Expr], loads: Loads = lambda load: None) -> Expr:
    """e over other operands: done[id(x)] in the place of its operand x."""
    match e:
        case Load():
            index = tuple(canonical(done[id(i)]) for i in e.index)
            default = None if e.default is None else done[id(e.default)]
            same = default is e.default and all(i is j for i, j in zip(index, e.index, strict=True))
            load = e if same else Load(e.buffer, index, e.mode, default)
            found = loads(load)
            return load if found is None else found
        case Alu():
            args = tuple(done[id(a)] for a in e.args)
            if all(a is b for a, b in zip(args, e.args, strict=True)):
                return e
            return reinterpret(args[0], e.dtype) if e.op == "bits" else alu(e.op, *args)
        case Cast():
            x = done[id(e.x)]
            return e if x is e.x else replace(e, x=x)
        case Where():
            c, a, b = done[id(e.cond)], done[id(e.a)], done[id(e.b)]
            return e if (c is e.cond and a is e.a and b is e.b) else Where(c, a, b)
        case Fold():
            terms = tuple(done[id(x)] for x in e.terms)
            when = None if e.when is None else done[id(e.when)]
            if when is e.when and all(a is b for a, b in zip(terms, e.terms, strict=True)):
                return e
            return Fold(e.kind, e.axes, terms, when)
        case Iterate():
            start, step = done[id(e.start)], done[id(e.step)]
            return (
                e if (start is e.start and step is e.step) else replace(e, start=start, step=step)
            )
    return e


def canonical(index: Expr) -> Expr:
    """An index in its simplest form: quotients and remainders that cancel are gone."""
    if isinstance(index, Axis):
        return index
    form = affine(index)
    return index if form is None else expression(form)
