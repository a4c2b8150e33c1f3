"""Estimates of what statements take, in units of about 1/32 ns of one core.

They decide what is worth sharing out among threads, and how finely; no result depends on them.
"""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.dims import Dim, product
from sardonyx.kernel.expr import Alu, Cast, Expr, Fold, Iterate, Load, Where
from sardonyx.kernel.ir import Compute, For, If, Stmt, Store, expressions
from sardonyx.kernel.walk import children
from sardonyx.types import int64

ACCESS = 4  # a load or a store
RUN = 1024  # what a loop of stores waits for its first line
STEP = 32  # a step of an iterated value, which waits for memory
UNIT = 1 << 17  # what is handed to a thread at once: about 4 us


def work(s: Stmt) -> Dim:
    """One execution of s, all of its loops included."""
    match s:
        case Compute():
            return product(tuple(a.extent for a in s.axes)) * point(s)
        case For(axis, body):
            run = RUN if all(isinstance(x, Store) for x in body) else 0
            return run + axis.extent * _total(body)
        case If():
            return point(s) + _total(s.then) + _total(s.otherwise)
    return point(s)


def point(s: Stmt) -> Dim:
    """The expressions that stand directly in s, at one point of its axes."""
    return ACCESS + _scope(expressions(s))


def _total(body: Sequence[Stmt]) -> Dim:
    found: Dim = 0
    for s in body:
        found = found + work(s)
    return found


def _scope(roots: Sequence[Expr]) -> Dim:
    """The nodes that are evaluated once, and the folds and iterated values below them."""
    found: Dim = 0
    todo, seen = list(roots), set[int]()
    while todo:
        e = todo.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        match e:
            case Fold():
                terms = e.terms if e.when is None else (*e.terms, e.when)
                found = found + product(tuple(a.extent for a in e.axes)) * (1 + _scope(terms))
            case Iterate():
                found = found + e.count * (STEP + _scope((e.step,)))
                todo.append(e.start)
            case Load():
                found = found + ACCESS
                todo += children(e)
            case Alu() | Cast() | Where():
                found = found + (e.dtype is not int64)  # of indices, most stays outside the loops
                todo += children(e)
    return found
