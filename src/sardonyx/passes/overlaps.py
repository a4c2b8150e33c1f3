"""Sums of blocks that overlap (Col2Im), from a copy of the blocks of each plane with borders.

    y[n, c, i] = sum over r of x[n, (c, r), (i + 1 - r) // 2], where 2 divides i + 1 - r, 0 outside
        =>  For(n, c):  near[r, j] = x[n, (c, r), j], 0 around it
                        For(q):  y[n, c, 2q] = near[1, q]
                                 y[n, c, 2q + 1] = near[0, q + 1] + near[2, q]

Which terms are there is told by the phase i % 2 alone, and no element asks where x ends. The sums
are those of averages.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product as cartesian
from math import prod

from sardonyx.dims import atom
from sardonyx.kernel.affine import affine, coefficient
from sardonyx.kernel.c99.place import checked
from sardonyx.kernel.expr import Alu, Axis, Buffer, Const, Expr, Fold, Load, cast, const, lift
from sardonyx.kernel.ir import Compute, Stmt, Store, nested
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import walk
from sardonyx.passes.averages import MOST, NEAR, added, sum_of
from sardonyx.passes.program import Program
from sardonyx.passes.slides import Loops, in_loops, in_strips

TERMS = 256  # of all phases, each of which has its own sum


def overlapping_sums(program: Program) -> Program:
    """Each such sum, from planes with borders."""
    return in_loops(program, _planes)


def _planes(s: Compute) -> Loops | None:
    found = _overlaps(s)
    return None if found is None else (found.loops(), (found.near,))


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """A dimension along which blocks lie: index = (place + start - tap * apart) / by."""

    dimension: int
    size: int
    tap: Axis
    place: Axis
    by: int
    apart: int
    start: int

    @property
    def before(self) -> int:
        """The border at the beginning."""
        return max(0, -((self.start - (_extent(self.tap) - 1) * self.apart) // self.by))

    @property
    def whole(self) -> int:
        """The size with both borders."""
        last = (_extent(self.place) - 1 + self.start) // self.by
        return self.before + max(self.size, last + 1)

    def first(self, phase: int, tap: int) -> int | None:
        """Where a tap is read for the first place of a phase; None where it is absent."""
        steps, left = divmod(phase + self.start - tap * self.apart, self.by)
        return None if left else steps + self.before

    def places(self, phase: int) -> int:
        """How many places a phase has."""
        return len(range(phase, _extent(self.place), self.by))

    def most(self) -> int:
        """The terms along it of one place."""
        taps, phases = range(_extent(self.tap)), range(self.by)
        return max(sum(self.first(p, tap) is not None for tap in taps) for p in phases)


@dataclass(frozen=True, slots=True, eq=False)
class _Overlaps:
    """A Compute with such a sum, whose last axes are the places."""

    compute: Compute
    fold: Fold
    x: Load
    sides: tuple[_Side, ...]
    near: Buffer

    def loops(self) -> tuple[Stmt, ...]:
        outer = self.compute.axes[: -len(self.sides)]
        return nested(outer, [*self._copied(), *self._summed()])

    def _copied(self) -> Iterator[Stmt]:
        """near, with all blocks of a plane."""
        near = self.near
        yield Compute(
            near, tuple(Axis(f"i{d}", n) for d, n in enumerate(near.shape)), const(0, near.dtype)
        )
        *above, along = self.sides
        rows = [Axis("i", one.size) for one in above]

        def copy(last: Expr) -> tuple[Stmt, ...]:
            index, places = list(self.x.index), [*rows, last]
            for one, i in zip(self.sides, places, strict=True):
                index[one.dimension] = i
            there = [i + one.before for one, i in zip(self.sides, places, strict=True)]
            term = cast(Load(self.x.buffer, tuple(index)), near.dtype)
            return (Store(near, (*self.fold.axes, *there), term),)

        yield from nested([*self.fold.axes, *rows], list(in_strips(along.size, copy)))

    def _summed(self) -> Iterator[Stmt]:
        """The loops over the steps of each phase; those along the last axis are one loop."""
        *above, along = self.sides
        whole, rest = divmod(_extent(along.place), along.by)
        for phases in cartesian(*(range(one.by) for one in above)):
            rows = [Axis("q", one.places(p)) for one, p in zip(above, phases, strict=True)]
            stores = partial(self._sums, rows, phases)
            inner = [*in_strips(whole, partial(stores, along.by))] if whole else []
            yield from nested(rows, [*inner, *stores(rest, lift(whole))])

    def _sums(
        self, rows: Sequence[Axis], phases: Sequence[int], count: int, last: Expr
    ) -> tuple[Stmt, ...]:
        """The elements of `count` phases at one step along the last axis."""
        return tuple(self._sum((*rows, last), (*phases, p)) for p in range(count))

    def _sum(self, steps: Sequence[Expr], phases: Sequence[int]) -> Store:
        """One element of the result."""
        s, terms = self.compute, list[Expr | None]()
        each = list(zip(self.sides, steps, phases, strict=True))
        for taps in cartesian(*(range(_extent(a)) for a in self.fold.axes)):
            tap = dict(zip(self.fold.axes, taps, strict=True))
            first = [one.first(phase, tap[one.tap]) for one, _, phase in each]
            at = [q + n for (_, q, _), n in zip(each, first, strict=True) if n is not None]
            there = len(at) == len(each)
            terms.append(Load(self.near, (*map(lift, taps), *at)) if there else None)
        places: dict[Expr, Expr] = {one.place: q * one.by + phase for one, q, phase in each}
        given = {**places, self.fold: added(terms, self.near.dtype)}
        index = tuple(places.get(a, a) for a in s.axes)
        return Store(s.buffer, index, rewrite(s.expr, given))


def _overlaps(s: Compute) -> _Overlaps | None:
    """s as such a sum; None where it is not one, or its sizes are not known."""
    found = sum_of(s)
    if found is None or not all(isinstance(a.extent, int) for a in found[0].axes):
        return None
    fold, x = found
    sides = [_side(s, x, d, fold) for d in range(len(x.index))]
    known = tuple(one for one in sides if one is not None)
    places = tuple(one.place for one in known)
    if not known or s.axes[-len(known) :] != places:
        return None
    rest = [d for d, one in enumerate(sides) if one is None]
    others = {a for d in rest for a in walk(x.index[d])}
    if any(checked(x)[d] for d in rest) or others & set(places):
        return None
    if sorted(id(one.tap) for one in known) != sorted(map(id, fold.axes)):
        return None
    if not _is_told(fold.when, [one for one in known if one.by > 1]):
        return None
    shape = tuple(_extent(a) for a in fold.axes) + tuple(one.whole for one in known)
    total = prod(_extent(a) for a in fold.axes)
    if prod(shape) > NEAR or total > TERMS or prod(one.most() for one in known) > MOST:
        return None
    return _Overlaps(s, fold, x, known, Buffer("near", fold.dtype, shape))


def _side(s: Compute, x: Load, d: int, fold: Fold) -> _Side | None:
    """How blocks lie along a dimension of x; None where it is not understood."""
    by, index, size = 1, x.index[d], x.buffer.shape[d]
    match index:
        case Alu("idiv", (of, Const(n, _)), _):
            by, index = int(n), of
    inside = [a for a in walk(index) if isinstance(a, Axis)]
    taps, places = [a for a in inside if a in fold.axes], [a for a in inside if a in s.axes]
    form = affine(index)
    if form is None or len(taps) != 1 or len(places) != 1 or not isinstance(size, int):
        return None
    (tap,), (place,) = taps, places
    apart, start = coefficient(form, tap), form - atom(place)
    if not isinstance(apart, int) or apart >= 0 or not isinstance(place.extent, int):
        return None
    start = start - atom(tap) * apart
    if not isinstance(start, int) or 0 in (size, place.extent, by):
        return None
    return _Side(d, size, tap, place, by, -apart, start)


def _is_told(when: Expr | None, sides: Sequence[_Side]) -> bool:
    """Whether terms are absent where the steps of these sides do not divide, and nowhere else."""
    todo, asked = [] if when is None else [when], list[tuple[object, int]]()
    while todo:
        match todo.pop():
            case Alu("and", (a, b)):
                todo += [a, b]
            case Alu("eq", (Alu("imod", (of, Const(n, _))), Const(0))):
                asked.append((affine(of), int(n)))
            case _:
                return False
    forms = [(atom(one.place) + one.start - one.apart * atom(one.tap), one.by) for one in sides]
    return len(asked) == len(forms) and all(form in asked for form in forms)


def _extent(a: Axis) -> int:
    assert isinstance(a.extent, int)
    return a.extent
