"""Walks over expression DAGs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import copysign

from sardonyx.kernel.expr import (
    Alu,
    Axis,
    Cast,
    Const,
    Expr,
    Fold,
    Iterate,
    Load,
    Local,
    Size,
    Where,
)


def children(e: Expr) -> tuple[Expr, ...]:
    """The direct subexpressions of e, axes that it binds excluded."""
    match e:
        case Load():
            return (*e.index, e.default) if e.default is not None else e.index
        case Alu():
            return e.args
        case Cast():
            return (e.x,)
        case Where():
            return (e.cond, e.a, e.b)
        case Fold():
            return (*e.terms, e.when) if e.when is not None else e.terms
        case Iterate():
            return (e.start, e.step)
    return ()


def kind(e: Expr) -> tuple[object, ...]:
    """What tells e from other nodes with the same operands."""
    match e:
        case Const(value, dtype):
            return Const, repr(value), dtype.name  # NaN is NaN, and -0 is not +0
        case Size(dim):
            return Size, dim
        case Alu(op, _, dtype):
            return Alu, op, dtype.name
        case Cast(_, dtype, saturate, toward):
            return Cast, dtype.name, saturate, toward
        case Load(buffer, index, mode, _):
            return Load, id(buffer), len(index), mode
        case Where():
            return (Where,)
    return type(e), id(e)


def number(root: Expr, known: dict[tuple[object, ...], int]) -> int:
    """A number that equal expressions have in common, of those that `known` has seen."""
    done: dict[Expr, int] = {}
    for e in walk(root):
        key = kind(e), *(done[c] for c in children(e))
        done[e] = known.setdefault(key, len(known))
    return done[root]


def walk(*roots: Expr) -> Iterator[Expr]:
    """Every node reachable from roots once, operands before their users."""
    return iter(_order(roots))


@lru_cache(maxsize=1024)  # passes and printers ask for the same few again and again
def _order(roots: tuple[Expr, ...]) -> tuple[Expr, ...]:
    order: dict[Expr, None] = {}
    stack = list(reversed(roots))
    while stack:
        e = stack[-1]
        missing = [] if e in order else [c for c in children(e) if c not in order]
        if missing:
            stack.extend(reversed(missing))
        else:
            order[e] = None
            stack.pop()
    return tuple(order)


def bound(e: Expr) -> tuple[Axis, ...]:
    """The axes that e binds."""
    match e:
        case Fold():
            return e.axes
        case Iterate():
            return (e.axis,)
    return ()


def free_axes(*roots: Expr) -> dict[int, frozenset[Axis]]:
    """node id -> the axes that its value depends on, for every node below the roots."""
    free: dict[int, frozenset[Axis]] = {}
    for e in walk(*roots):
        own = frozenset({e}) if isinstance(e, Axis) else frozenset()
        for c in children(e):
            own |= free[id(c)]
        free[id(e)] = own - frozenset(bound(e))
    return free


def is_plus_zero(e: Expr | None) -> bool:
    """Whether e is the float +0: out of bounds it changes no sum that began at +0."""
    match e:
        case Const(float(value)):
            return value == 0 and copysign(1, value) > 0
    return False


def is_move(e: Expr) -> bool:
    """Whether e only selects among stored bits, so that NaN payloads pass (numerics contract)."""
    todo = [e]  # a Concat is as deep as it has operands
    while todo:
        match todo.pop():
            case Load(default=None) | Const():
                pass
            case Load(default=Expr() as x) | Alu("bits", (x,), _):
                todo.append(x)
            case Where(_, a, b):
                todo += (a, b)
            case _:
                return False
    return True


def is_cut(e: Expr) -> bool:
    """Whether e is an integer that a float may have become."""
    match e:
        case Cast(x):
            return e.dtype.is_integer and (x.dtype.is_float or is_cut(x))
        case Where(_, a, b) | Alu("min" | "max", (a, b)):
            return is_cut(a) or is_cut(b)
    return isinstance(e, Local) and e.dtype.is_integer
