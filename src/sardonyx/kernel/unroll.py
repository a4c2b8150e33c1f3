"""Several values of one expression at once: what an index chooses is taken, equals are shared.

pool.settled(e, {row: const(2), column: const(0)})     e for this row and column
assignments([(buffer, index, value), ...])             Sets of what the values share, and Stores
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sardonyx import types as t
from sardonyx.kernel.expr import Alu, Axis, Buffer, Cast, Const, Expr, Load, Local, Where, alu
from sardonyx.kernel.ir import Set, Stmt, Store
from sardonyx.kernel.walk import children, kind, walk

Target: TypeAlias = tuple[Buffer, tuple[Expr, ...], Expr]


@dataclass(slots=True, eq=False)
class Pool:
    """One node for equal expressions."""

    nodes: dict[tuple[object, ...], Expr] = field(default_factory=dict)

    def settled(self, root: Expr, given: Mapping[Axis, Expr]) -> Expr:
        """root with these axes replaced; a Where whose condition is then known is what it chooses.
        For expressions without folds."""
        done: dict[Expr, Expr] = {}
        for e in walk(root):
            if isinstance(e, Axis):
                done[e] = given.get(e, e)
            else:
                done[e] = self._unique(_rebuilt(e, [done[c] for c in children(e)]))
        return done[root]

    def _unique(self, e: Expr) -> Expr:
        return self.nodes.setdefault((kind(e), *map(id, children(e))), e)


def _rebuilt(e: Expr, parts: Sequence[Expr]) -> Expr:
    """e with other operands."""
    match e:
        case Alu("eq", _, _):
            a, b = parts
            if isinstance(a, Const) and isinstance(b, Const):
                return Const(a.value == b.value, t.bool_)
            return Alu("eq", (a, b), e.dtype)
        case Alu("bits", _, _):
            return Alu("bits", tuple(parts), e.dtype)
        case Alu():
            return alu(e.op, *parts)
        case Where():
            cond, a, b = parts
            if isinstance(cond, Const):
                return a if cond.value else b
            return Where(cond, a, b)
        case Cast():
            return replace(e, x=parts[0])
        case Load():
            default = None if e.default is None else parts[-1]
            return Load(e.buffer, tuple(parts[: len(e.index)]), e.mode, default)
    return e


def assignments(targets: Sequence[Target]) -> list[Stmt]:
    """Statements that store each value, raw; a float, or an int32,
    that several need is computed once."""
    roots = [value for *_, value in targets]
    uses = Counter(c for e in walk(*roots) for c in children(e)) + Counter(roots)
    texts: dict[Expr, Expr] = {}
    made: list[Stmt] = []
    for buffer, index, root in targets:
        for e in _missing(root, texts):
            found = texts[e] = _rebuilt(e, [texts[c] for c in children(e)])
            shared = e.dtype.is_float or e.dtype is t.int32
            if uses[e] > 1 and shared and not isinstance(e, Const | Local):
                local = Local(f"v{len(made)}", e.dtype)
                made.append(Set(local, found))
                texts[e] = local
        made.append(Store(buffer, index, texts[root], raw=True))
    return made


def _missing(root: Expr, known: Mapping[Expr, Expr]) -> Iterator[Expr]:
    return (e for e in walk(root) if e not in known)
