"""Elementary functions found again in expressions, where they are DAGs of arithmetic.

    call(node)     (name, arguments) of the elementary function that made a node, or None
    calls(roots)   node -> (name, arguments) for each node below the roots that one made

A node is taken for f(x) when it is, node by node, what `elementary.f` builds of x. Of two functions
the one with more nodes is tried first: a sigmoid is not told as the exponential inside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TypeAlias

import numpy as np

from sardonyx import types as t
from sardonyx.kernel import elementary
from sardonyx.kernel.expr import Alu, Cast, Const, Expr, Load, Local, Where
from sardonyx.kernel.walk import children, kind, walk
from sardonyx.types import DType

Call: TypeAlias = tuple[str, tuple[Expr, ...]]
_X = {d: (Local("x", d), Local("y", d)) for d in (t.float32, t.float64)}


def calls(roots: Sequence[Expr]) -> dict[Expr, Call]:
    """The calls below the roots; nodes inside of a call are not looked at again."""
    found: dict[Expr, Call] = {}
    stack, seen = list(roots), set[Expr]()
    while stack:
        e = stack.pop()
        if e in seen:
            continue
        seen.add(e)
        made = call(e)
        if made is not None:
            found[e] = made
        stack.extend(children(e) if made is None else made[1])
    return found


def call(e: Expr) -> Call | None:
    """The elementary function that made a node, and its arguments; None where none did."""
    if not isinstance(e, Alu | Where | Cast):
        return None
    for name, template, leaves in _templates(e.dtype):
        bound = dict[Expr, Expr]()
        if type(template) is type(e) and _matches(template, e, leaves, bound):
            return name, tuple(bound[leaf] for leaf in leaves)
    return None


@cache
def _templates(dtype: DType) -> tuple[tuple[str, Expr, tuple[Local, ...]], ...]:
    """Name, expression and arguments of every function in a type, large ones first."""
    if dtype not in _X:
        return ()
    made = []
    for name in elementary.__all__:
        leaves = _X[dtype][: 2 if name == "pow" else 1]
        made.append((name, getattr(elementary, name)(*leaves), leaves))
    made += [(name, part(_X[dtype][0]), _X[dtype][:1]) for name, part in elementary.PARTS.items()]
    return tuple(sorted(made, key=lambda row: -len(list(walk(row[1])))))


def _matches(a: Expr, e: Expr, leaves: tuple[Local, ...], bound: dict[Expr, Expr]) -> bool:
    """Whether e is the template a, with expressions for its leaves and bound nodes."""
    stack = [(a, e)]
    while stack:
        x, y = stack.pop()
        if x in bound:
            if bound[x] is not y and not _equal(bound[x], y):
                return False
            continue
        bound[x] = y
        if x in leaves:
            if x.dtype is not y.dtype:
                return False
            continue
        if isinstance(x, Cast) and isinstance(y, Const):  # a constant is cast where it is made
            y = Cast(Const(y.value, x.x.dtype), y.dtype, x.saturate, x.toward)
        if not _alike(x, y):
            return False
        stack.extend(zip(children(x), children(y), strict=True))
    return all(leaf in bound for leaf in leaves)


def _equal(x: Expr, y: Expr) -> bool:
    """Constants are made anew for each use."""
    return isinstance(x, Const) and isinstance(y, Const) and _alike(x, y)


def _alike(x: Expr, y: Expr) -> bool:
    """Whether two nodes are equal, their operands left out; tables are what they hold."""
    if isinstance(x, Load) and isinstance(y, Load):
        same = x.dtype is y.dtype and len(children(x)) == len(children(y))
        return same and (x.buffer is y.buffer or _same_table(x, y))
    return kind(x) == kind(y)


def _same_table(x: Load, y: Load) -> bool:
    a, b = x.buffer.data, y.buffer.data
    return a is not None and b is not None and np.array_equal(a, b, equal_nan=True)


def names(found: Mapping[Expr, Call]) -> set[str]:
    """The functions that were found."""
    return {name for name, _ in found.values()}
