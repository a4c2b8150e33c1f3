"""Where a long chain of arithmetic is cut: into loops that hand values on in arrays on the stack.

    for l: out[l] = g(f(in[l]))    =>    for l: q[l] = f(in[l]);    for l: out[l] = g(q[l])

A processor looks some hundred operations ahead: of a chain of 40 operations that take 80 cycles it
has three elements in flight, of each half of it six. A cut lies where few values cross.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sardonyx.kernel.expr import Alu, Axis, Cast, Expr, Load, Where
from sardonyx.kernel.walk import children, free_axes, walk

PART = 26  # cycles from one cut to the next
SOME = 8  # rows of 16 elements that go from part to part together
MOST = 3  # values that cross a cut
ALL = 6  # values of all cuts: the 8 of Erf cost more than they save
REACH = 8  # cycles by which a cut may come earlier or later
_CYCLES = {"add": 3, "sub": 3, "mul": 3, "fma": 4, "div": 11, "sqrt": 15, "rint": 4, "bits": 0}


def cuts_of(root: Expr, lanes: Axis, known: Sequence[Expr] = ()) -> list[list[Expr]]:
    """For each cut, in their order, the values that are computed before it and needed after it, but
    for those of an earlier cut; none where the chain is short or more would cross. Of cuts
    alike a later one is sooner taken than an earlier one. known: what is there."""
    nodes = list(_chain(root, lanes, known))
    ends = _ends(nodes)
    total = max(ends.values(), default=0)
    users = {e: [ends[u] for u in nodes if e in children(u)] or [total] for e in nodes}
    parts = round(total / PART)
    found, kept = list[list[Expr]](), set[Expr]()
    for part in range(1, parts):
        middle = total * part // parts
        best: list[Expr] | None = None
        for at in (*range(middle, middle + REACH), *range(middle - 1, middle - REACH, -1)):
            new = [e for e in nodes if ends[e] <= at < max(users[e]) and e not in kept]
            there = kept.union(new)
            late = {e: max(2, _cycles(e) if min(users[e]) > at else 0) for e in new}
            new = [e for e in new if not _is_near(e, there, ends, late[e])]
            few = len(new) <= MOST and all(e.dtype.bits == 32 for e in new)
            if few and (best is None or len(new) < len(best)):
                best = new
        if not best or len(kept) + len(best) > ALL:
            return []
        found.append(best)
        kept.update(best)
    return found


def _chain(root: Expr, lanes: Axis, known: Sequence[Expr]) -> Iterator[Expr]:
    """The operations on elements, operands first: no indices, nothing that all lanes share."""
    inside = {id(x) for e in known for x in walk(*children(e))}
    free, varies = free_axes(root), {id(e) for e in known}
    for e in walk(root):
        if isinstance(e, Load) and lanes in free[id(e)]:
            varies.add(id(e))
        elif isinstance(e, Alu | Cast | Where) and any(id(x) in varies for x in children(e)):
            varies.add(id(e))
            if id(e) not in inside and e not in known:
                yield e


def _is_near(e: Expr, there: set[Expr], ends: Mapping[Expr, int], cycles: int) -> bool:
    """Whether e takes so few cycles to make again from what is there and what is loaded."""
    left = cycles - _cycles(e)
    below = [x for x in children(e) if x in ends and x not in there]
    return left >= 0 and all(_is_near(x, there, ends, left) for x in below)


def _cycles(e: Expr) -> int:
    return _CYCLES.get(e.op, 1) if isinstance(e, Alu) else 4 if isinstance(e, Cast) else 1


def _ends(nodes: Sequence[Expr]) -> dict[Expr, int]:
    """When each value is there, in cycles, if nothing but its operands is waited for."""
    ends: dict[Expr, int] = {}
    for e in nodes:
        ends[e] = _cycles(e) + max((ends.get(x, 0) for x in children(e)), default=0)
    return ends
