"""Elementary functions recognised in an expression: exp(x) is a DAG of some eighty nodes.

A template is the DAG that kernel/elementary makes of a placeholder; a node matches it where both
have the same operations, types and constants, and the placeholder stands for one node everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from sardonyx import types as t
from sardonyx.kernel import elementary
from sardonyx.kernel.expr import Alu, Axis, Buffer, Cast, Const, Expr, Load, Size, Where, children
from sardonyx.kernel.expr import walk as every
from sardonyx.types import DType

TWO = ("pow",)


@cache
def templates() -> tuple[tuple[str, Expr, tuple[Expr, ...]], ...]:
    """(name, DAG, placeholders) of each function and type, the largest first."""
    made = []
    for dtype in (t.float32, t.float64):
        for name in elementary.__all__:
            places = tuple(_placeholder(dtype, i) for i in range(2 if name in TWO else 1))
            made.append((name, getattr(elementary, name)(*places), places))
    return tuple(sorted(made, key=lambda m: -sum(1 for _ in every(m[1]))))


def _placeholder(dtype: DType, i: int) -> Expr:
    return Load(Buffer(f"?{i}", dtype, ()), ())


def recognised(e: Expr) -> tuple[str, tuple[Expr, ...]] | None:
    """The function that a node computes and its arguments, None where it is none of them."""
    for name, root, places in templates():
        if not _alike(root, e):
            continue
        bound: dict[Expr, Expr] = {}
        if _match(root, e, set(places), bound) and all(p in bound for p in places):
            return name, tuple(bound[p] for p in places)
    return None


def _match(template: Expr, e: Expr, places: set[Expr], bound: dict[Expr, Expr]) -> bool:
    if template in bound:
        return bound[template] is e
    if template not in places:
        if not _alike(template, e):
            return False
        for a, b in _pairs(template, e):
            if not _match(a, b, places, bound):
                return False
    elif template.dtype is not e.dtype:
        return False
    bound[template] = e
    return True


def _pairs(a: Expr, b: Expr) -> Iterator[tuple[Expr, Expr]]:
    yield from zip(children(a), children(b), strict=True)


def _alike(a: Expr, b: Expr) -> bool:
    """Whether two nodes are of one kind, operation and type."""
    if type(a) is not type(b) or a.dtype is not b.dtype or len(children(a)) != len(children(b)):
        return False
    match a, b:
        case Alu(), Alu():
            return a.op == b.op
        case Const(), Const():
            return repr(a.value) == repr(b.value)
        case Size(), Size():
            return a.dim == b.dim
        case Cast(), Cast():
            return a.saturate == b.saturate and a.toward == b.toward
        case Where(), Where():
            return True
    return not isinstance(a, Axis) and a is b
