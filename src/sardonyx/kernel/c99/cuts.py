"""Where a long chain of arithmetic is cut: into loops that hand values on in arrays on the stack.

    for l: out[l] = g(f(in[l]))    =>    for l: q[l] = f(in[l]);    for l: out[l] = g(q[l])

A processor looks some hundred operations ahead: of a chain of 40 operations that take 80 cycles it
has three elements in flight, of each half of it six. A cut lies where few values cross: parts are
alike, or else end wherever fewest do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from sardonyx.kernel.c99.print_calls import is_narrowed
from sardonyx.kernel.c99.strips import rounded
from sardonyx.kernel.expr import Alu, Axis, Cast, Expr, Load, Where
from sardonyx.kernel.walk import children, free_axes, walk

PART = 26  # cycles from one cut to the next
SOME = 8  # rows of 16 elements that go from part to part together
MOST = 3  # values that cross a cut
ALL = 6  # values of all cuts: the 8 of Erf cost more than they save
REACH = 8  # cycles by which a cut may come earlier or later
WAIST = 2  # values that cross where parts are not alike
ROUNDING = 16  # cycles of a conversion to float16 and back
_CYCLES = {"add": 3, "sub": 3, "mul": 3, "fma": 4, "div": 11, "sqrt": 15, "rint": 4, "bits": 0}

Crossing = Callable[[int, set[Expr]], list[Expr] | None]


def cuts_of(root: Expr, lanes: Axis, known: Sequence[Expr] = ()) -> list[list[Expr]]:
    """For each cut, in their order, the values that are computed before it and needed after it, but
    for those of an earlier cut; none where the chain is short or more would cross. Of cuts
    alike a later one is sooner taken than an earlier one. known: what is there."""
    nodes = list(_chain(root, lanes, known))
    ends = _ends(nodes)
    total = max(ends.values(), default=0)
    users = {e: [ends[u] for u in nodes if e in _operands(u)] or [total] for e in nodes}
    unready = {x.x for e in nodes for x in children(e) if isinstance(x, Cast) and is_narrowed(x)}
    unready.update(x for e in nodes for x in _on_the_way(e))

    def crossing(at: int, kept: set[Expr]) -> list[Expr] | None:
        """What is to be kept of what is there at that time; None where something has no 32 bits, or
        is about to be rounded to float16 or an integer."""
        new = [e for e in nodes if ends[e] <= at < max(users[e]) and e not in kept]
        there = kept.union(new)
        late = {e: max(2, _cycles(e) if min(users[e]) > at else 0) for e in new}
        few = [e for e in new if not _is_near(e, there, ends, late[e])]
        return None if unready.intersection(new) or any(e.dtype.bits != 32 for e in few) else few

    return _alike(total, crossing) or _at_waists(total, crossing)


def _alike(total: int, crossing: Crossing) -> list[list[Expr]]:
    """Cuts into parts that take the same time."""
    found, kept = list[list[Expr]](), set[Expr]()
    parts = round(total / PART)
    for part in range(1, parts):
        middle = total * part // parts
        best: list[Expr] | None = None
        for at in (*range(middle, middle + REACH), *range(middle - 1, middle - REACH, -1)):
            new = crossing(at, kept)
            if new is not None and len(new) < (MOST + 1 if best is None else len(best)):
                best = new
        if not best or len(kept) + len(best) > ALL:
            return []
        found.append(best)
        kept.update(best)
    return found


def _at_waists(total: int, crossing: Crossing) -> list[list[Expr]]:
    """Cuts into parts of some length, where hardly anything crosses."""
    found, kept = list[list[Expr]](), set[Expr]()
    last = 0
    for at in range(PART, total - PART):
        new = crossing(at, kept) if at >= last + PART else None
        if new and len(new) <= WAIST:
            found.append(new)
            kept.update(new)
            last = at
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
            if id(e) not in inside and e not in known and not (e is not root and is_narrowed(e)):
                yield e


def _on_the_way(e: Expr) -> Iterator[Expr]:
    """What stands between a number and the small integer that it is rounded to, the number too if
    it is a quotient: strips make the one of the other at once (print_strip.py)."""
    found = rounded(e)
    if found is not None:
        value, x = found[0], children(e)[0]
        while x is not value:
            yield x
            x = children(x)[0]
        if isinstance(value, Alu) and value.op == "div":
            yield value


def _is_near(e: Expr, there: set[Expr], ends: Mapping[Expr, int], cycles: int) -> bool:
    """Whether e takes so few cycles to make again from what is there and what is loaded."""
    left = cycles - _cycles(e)
    below = [x for x in _operands(e) if x in ends and x not in there]
    return left >= 0 and all(_is_near(x, there, ends, left) for x in below)


def _operands(e: Expr) -> Sequence[Expr]:
    """The operands of e, of what is rounded to float16 and widened again the float32."""
    return [y for x in children(e) for y in (children(x) if is_narrowed(x) else (x,))]


def _cycles(e: Expr) -> int:
    if isinstance(e, Cast) and is_narrowed(e.x):
        return ROUNDING
    return _CYCLES.get(e.op, 1) if isinstance(e, Alu) else 4 if isinstance(e, Cast) else 1


def _ends(nodes: Sequence[Expr]) -> dict[Expr, int]:
    """When each value is there, in cycles, if nothing but its operands is waited for."""
    ends: dict[Expr, int] = {}
    for e in nodes:
        ends[e] = _cycles(e) + max((ends.get(x, 0) for x in _operands(e)), default=0)
    return ends
