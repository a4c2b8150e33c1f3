"""The ends of an axis, where a sum of products takes fewer terms: outside an image there are none.

    Fold("dot", axes, terms, when=... & ((oh >= lead) | (kh >= first)) & ...)

The first `lead` places along an axis leave out the first indices of an axis of terms, so many, and
the last `trail` places the last; those between, where both overlap, leave out both. Register tiles
take such rows together (kernel/c99/product.h).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sardonyx.kernel.expr import Alu, Axis, Const, Expr


@dataclass(frozen=True, slots=True, eq=False)
class Edge:
    """What the ends of `axis` leave out of `terms`, an axis of a fold. The extents are numbers."""

    axis: Axis
    terms: Axis
    lead: int = 0
    first: int = 0
    trail: int = 0
    last: int = 0


def taken(e: Edge) -> Iterator[Expr]:
    """The conditions, all of which hold where a term is taken."""
    assert isinstance(e.axis.extent, int)
    assert isinstance(e.terms.extent, int)
    if e.lead:
        yield (e.axis >= e.lead) | (e.terms >= e.first)
    if e.trail:
        yield (e.axis < e.axis.extent - e.trail) | (e.terms < e.terms.extent - e.last)


def without_edges(when: Expr | None) -> tuple[Expr | None, tuple[Edge, ...]]:
    """A fold's predicate without what it says of edges, and these."""
    if when is None:
        return None, ()
    rest, found = list[Expr](), dict[tuple[Axis, Axis], Edge]()
    for part in _parts(when):
        side = _side(part)
        if side is None:
            rest.append(part)
            continue
        at = side.axis, side.terms
        e = found.get(at, side)
        ends = (
            e.lead or side.lead,
            e.first or side.first,
            e.trail or side.trail,
            e.last or side.last,
        )
        found[at] = Edge(*at, *ends)
    return both(rest), tuple(found.values())


def both(parts: list[Expr]) -> Expr | None:
    """All of these conditions, if there are any."""
    found: Expr | None = None
    for part in parts:
        found = part if found is None else found & part
    return found


def _parts(when: Expr) -> Iterator[Expr]:
    match when:
        case Alu("and", (a, b)):
            yield from _parts(a)
            yield from _parts(b)
        case _:
            yield when


def _side(e: Expr) -> Edge | None:
    match e:
        case Alu("or", (Alu("le", (Const(lead), Axis() as a)), Alu("le", (Const(n), Axis() as k)))):
            return Edge(a, k, lead=int(lead), first=int(n))
        case Alu("or", (Alu("lt", (Axis() as a, Const(end))), Alu("lt", (Axis() as k, Const(n))))):
            if isinstance(a.extent, int) and isinstance(k.extent, int):
                return Edge(a, k, trail=a.extent - int(end), last=k.extent - int(n))
    return None
