"""Sums of blocks that overlap (Col2Im), from copies of the rows of blocks that a row lies in.

    y[n, c, i] = sum over r of x[n, (c, r), (i + 1 - r) // 2], where 2 divides i + 1 - r, 0 outside
        =>  For(n, c):  near[r, j] = x[n, (c, r), j], 0 around it
                        For(q):  y[n, c, 2q] = near[1, q]
                                 y[n, c, 2q + 1] = near[0, q + 1] + near[2, q]

Which terms are there is told by the phase i % 2 alone, and no element asks where x ends; of several
axes, the last is taken so, each of the others by a loop for each phase. The sums are those of
averages.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product as cartesian
from math import prod

from sardonyx.dims import atom
from sardonyx.kernel.affine import affine, coefficient
from sardonyx.kernel.c99.place import checked
from sardonyx.kernel.expr import Alu, Axis, Buffer, Const, Expr, Fold, Load, cast, const, lift
from sardonyx.kernel.ir import Compute, If, Stmt, Store, nested
from sardonyx.kernel.ranges import inside
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import walk
from sardonyx.ops.window import conjunction, within
from sardonyx.passes.averages import MOST, added, sum_of
from sardonyx.passes.program import Program
from sardonyx.passes.slides import Loops, in_loops, in_strips

NEAR = 1 << 12  # elements of the copies that are in the first cache with what is read and written
TOGETHER = 16  # phases of a row that are stored together
TERMS = 256  # of all phases, each of which has its own sum


def overlapping_sums(program: Program) -> Program:
    """Each such sum, from planes with borders."""
    return in_loops(program, _planes)


def _planes(s: Compute) -> Loops | None:
    found = _overlaps(s)
    if found is None:
        return None
    return found.loops(), () if found.near is None else (found.near,)


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
        return max(0, -min((n for n, _ in self._reads()), default=0))

    @property
    def whole(self) -> int:
        """The size with both borders."""
        end = max((n + self.places(phase) for n, phase in self._reads()), default=0)
        return self.before + max(self.size, end)

    def _reads(self) -> Iterator[tuple[int, int]]:
        """Where taps are read for the first place of a phase."""
        for phase, tap in cartesian(range(self.by), range(_extent(self.tap))):
            first = self.first(phase, tap)
            if first is not None and self.places(phase):
                yield first, phase

    def first(self, phase: int, tap: int) -> int | None:
        """Where a tap is read for the first place of a phase; None where it is absent."""
        steps, left = divmod(phase + self.start - tap * self.apart, self.by)
        return None if left else steps

    def places(self, phase: int) -> int:
        """How many places a phase has."""
        return len(range(phase, _extent(self.place), self.by))

    def most(self) -> int:
        """The terms along it of one place."""
        return max(Counter(phase for _, phase in self._reads()).values(), default=0)


@dataclass(frozen=True, slots=True, eq=False)
class _Overlaps:
    """A Compute with such a sum, whose last axes are the places. near: rows by tap, of all rows of
    a phase or of one; None: no block reaches beyond the ends."""

    compute: Compute
    fold: Fold
    x: Load
    sides: tuple[_Side, ...]
    near: Buffer | None

    @property
    def kept(self) -> int:
        """The axes of rows that near has."""
        return 0 if self.near is None else len(self.near.shape) - len(self.fold.axes) - 1

    def loops(self) -> tuple[Stmt, ...]:
        *above, along = self.sides
        body: list[Stmt] = []
        if self.near is not None:
            axes = tuple(Axis(f"i{d}", n) for d, n in enumerate(self.near.shape))
            body.append(Compute(self.near, axes, const(0, self.near.dtype)))
        whole, rest = divmod(_extent(along.place), along.by)
        for phases in cartesian(*(range(one.by) for one in above)):
            rows = [Axis("q", one.places(p)) for one, p in zip(above, phases, strict=True)]
            stores, sums = partial(self._sums, rows, phases), list[Stmt]()
            for first in range(0, along.by if whole else 0, TOGETHER):
                together = range(first, min(first + TOGETHER, along.by))
                sums += in_strips(whole, partial(stores, together))
            sums += stores(range(rest), lift(whole))
            copies = [] if self.near is None else list(self._copied(self.near, rows, phases))
            for group in filter(None, (copies, sums) if self.kept else (copies + sums,)):
                body += nested(rows, group)
        return nested(self.compute.axes[: -len(self.sides)], body)

    def _copied(self, near: Buffer, rows: Sequence[Axis], phases: Sequence[int]) -> Iterator[Stmt]:
        """The rows of the blocks that these rows of the result lie in, 0 where there is none."""
        *above, along = self.sides
        tap = Axis("r", along.tap.extent)
        for taps in cartesian(*(range(_extent(one.tap)) for one in above)):
            at = _read(above, rows, phases, taps)
            if at is None:
                continue
            given = {one.tap: lift(i) for one, i in zip(above, taps, strict=True)}
            place = [*(given.get(a, tap) for a in self.fold.axes), *rows[: self.kept]]
            pairs = [(i, one.size) for i, one in zip(at, above, strict=True)]
            asked = [within([i], [0], [n]) for i, n in pairs if not inside(i, n)]
            found, none = (
                nested([tap], list(in_strips(along.size, partial(self._copy, near, place, term))))
                for term in (partial(self._term, {**given, along.tap: tap}, at), None)
            )
            yield from (If(conjunction(asked), found, none),) if asked else found

    def _copy(
        self,
        near: Buffer,
        place: Sequence[Expr],
        term: Callable[[Expr], Expr] | None,
        last: Expr,
    ) -> tuple[Stmt, ...]:
        """One element of a row, 0 where there is no term."""
        value = const(0, near.dtype) if term is None else term(last)
        return (Store(near, (*place, last + self.sides[-1].before), value),)

    def _term(self, taps: Mapping[Axis, Expr], rows: Sequence[Expr], last: Expr) -> Expr:
        """An element of x."""
        index = [rewrite(i, taps) for i in self.x.index]
        for one, i in zip(self.sides, (*rows, last), strict=True):
            index[one.dimension] = i
        return cast(Load(self.x.buffer, tuple(index)), self.fold.dtype)

    def _sums(
        self, rows: Sequence[Axis], phases: Sequence[int], along: range, last: Expr
    ) -> tuple[Stmt, ...]:
        """The elements of some phases along the last axis, at one step."""
        return tuple(self._sum((*rows, last), (*phases, p)) for p in along)

    def _sum(self, steps: Sequence[Expr], phases: Sequence[int]) -> Store:
        """One element of the result."""
        s, terms = self.compute, list[Expr | None]()
        for taps in cartesian(*(range(_extent(a)) for a in self.fold.axes)):
            known = dict(zip(self.fold.axes, taps, strict=True))
            at = _read(self.sides, steps, phases, [known[one.tap] for one in self.sides])
            if at is None:
                terms.append(None)
                continue
            index = [lift(tap) for tap in taps]
            *rows, last = at
            if self.near is None:
                given = dict(zip(self.fold.axes, index, strict=True))
                terms.append(self._term(given, rows, last))
            else:
                index += [*steps[: self.kept], last + self.sides[-1].before]
                terms.append(Load(self.near, tuple(index)))
        each = zip(self.sides, steps, phases, strict=True)
        places: dict[Expr, Expr] = {one.place: q * one.by + phase for one, q, phase in each}
        total = {**places, self.fold: added(terms, self.fold.dtype)}
        return Store(s.buffer, tuple(places.get(a, a) for a in s.axes), rewrite(s.expr, total))


def _read(
    sides: Sequence[_Side], steps: Sequence[Expr], phases: Sequence[int], taps: Sequence[int]
) -> list[Expr] | None:
    """Where x is read along some dimensions; None where the term is absent."""
    each = zip(sides, phases, taps, strict=True)
    first = [n for n in (one.first(phase, tap) for one, phase, tap in each) if n is not None]
    return [q + n for q, n in zip(steps, first, strict=True)] if len(first) == len(sides) else None


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
    taps, wide = tuple(_extent(a) for a in fold.axes), known[-1].whole
    if prod(taps) > TERMS or prod(one.most() for one in known) > MOST:
        return None
    rows = tuple(one.places(0) for one in known[:-1])
    rows = rows if prod((*taps, *rows, wide)) <= NEAR else ()
    near = Buffer("near", fold.dtype, (*taps, *rows, wide))
    alone = all(one.whole == one.size for one in known)
    return _Overlaps(s, fold, x, known, None if alone else near)


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
