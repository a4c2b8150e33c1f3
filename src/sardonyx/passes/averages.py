"""Sums over windows with borders, or of many terms, from a copy of each plane that has them.

    y[n, c, h, w] = sum over (r, q) of x[n, c, h + r - 1, w + q - 1], 0 outside of x
        =>  For(n, c):  near[i, j] = x[n, c, i - 1, j - 1], 0 around it
                        For(h, w):  y[n, c, h, w] = near[h, w] + near[h, w + 1] + ..

Where windows move by k elements, k rows stand for each row of near, element i in row i % k; where
they lie inside and move by one, near is x itself.
A plane is in a cache while its windows are taken, and none asks where x ends; floats of 16 bits are
widened once, in the copy. The terms are added as the 16-way sum adds them; that its partial sums
begin at +0 is seen only where all terms are -0, so +0 is added once, at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product as cartesian
from math import prod

from sardonyx.dims import product
from sardonyx.kernel.expr import Axis, Buffer, Cast, Expr, Fold, Load, alu, cast, const, lift
from sardonyx.kernel.folds import LANES
from sardonyx.kernel.ir import Compute, For, Stmt, Store, nested
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import is_plus_zero, walk
from sardonyx.passes.program import Program
from sardonyx.passes.slides import STRIPS, Loops, Slide, bordered, in_loops, in_strips, slides
from sardonyx.passes.widen import HALVES
from sardonyx.types import DType

NEAR = 1 << 17  # elements of a plane with its borders
MOST = 121  # terms that stand one behind the other
DEALT = 4  # elements by which windows move, whose rows are dealt out


def near_sums(program: Program) -> Program:
    """Each sum over windows that reach beyond the ends of rows, from such planes."""
    return in_loops(program, _planes)


def _planes(s: Compute) -> Loops | None:
    found = _windows(s)
    if found is not None:
        return found.loops(), found.made()
    parts = _apart(s)
    windows = None if parts is None else _windows(parts[0])
    if parts is None or windows is None or windows.near is None:
        return None
    return (*windows.loops(), parts[1]), (*windows.made(), parts[0].buffer)


@dataclass(frozen=True, slots=True, eq=False)
class _Windows:
    """A Compute with such a sum, whose windows move along its last axes. near: None where no window
    reaches beyond the ends; row: of the result, where there are more than MOST terms."""

    compute: Compute
    fold: Fold
    x: Load
    slides: tuple[Slide, ...]
    near: Buffer | None
    row: Buffer | None = None

    def made(self) -> tuple[Buffer, ...]:
        temporaries = () if self.near is None else (self.near,)
        return temporaries if self.row is None else (*temporaries, self.row)

    def loops(self) -> tuple[Stmt, ...]:
        s, (*above, along) = self.compute, self.slides
        made: tuple[Stmt, ...] = ()
        if self.near is not None:
            zero, phases = const(0, self.near.dtype), _phases(along)
            made = bordered(self.near, self.x, self.slides, zero, self._term, phases)
        sums = self._in_rows() or in_strips(_extent(along.place), lambda at: (self._sum(at),))
        body = [*made, *nested([one.place for one in above], list(sums))]
        return nested(s.axes[: -len(self.slides)], body)

    def _in_rows(self) -> tuple[Stmt, ...]:
        """A row of the result by a fold, where terms are too many to stand one behind the other."""
        s, taps = self.compute, {one.tap: one for one in self.slides}
        if self.row is None or self.near is None:
            return ()
        at = tuple(one.within(one.place, tap) for tap, one in taps.items())
        fold = Fold("sum", self.fold.axes, (Load(self.near, at),))
        last, end = s.axes[-1], Axis("end", s.axes[-1].extent)
        row = Compute(self.row, (last,), rewrite(s.expr, {self.fold: fold}))
        return row, For(end, (Store(s.buffer, (*s.axes[:-1], end), Load(self.row, (end,))),))

    def _term(self, e: Load) -> Expr:
        return cast(e, self.fold.dtype)

    def _sum(self, last: Expr) -> Store:
        """One element of the result, `last` its index along the last axis."""
        s, along = self.compute, self.slides[-1]
        places = [*(one.place for one in self.slides[:-1]), last]
        terms: list[Expr | None] = []
        for taps in cartesian(*(range(_extent(a)) for a in self.fold.axes)):
            tap = dict(zip(self.fold.axes, taps, strict=True))
            slides = list(zip(self.slides, places, strict=True))
            if self.near is None:
                index = list(self.x.index)
                for one, place in slides:
                    index[one.dimension] = one.at(place, tap[one.tap], True)
                terms.append(self._term(Load(self.x.buffer, tuple(index))))
                continue
            at = [one.within(place, tap[one.tap]) for one, place in slides]
            if _phases(along) > 1:
                at[-1:] = along.dealt(last, tap[along.tap])
            terms.append(Load(self.near, tuple(at)))
        total = added(terms, self.fold.dtype)
        given: dict[Expr, Expr] = {along.place: last, self.fold: total}
        return Store(s.buffer, (*s.axes[:-1], last), rewrite(s.expr, given))


def added(terms: Sequence[Expr | None], dtype: DType) -> Expr:
    """The 16-way sum of terms, each of its partial sums an expression; None: an absent term."""
    parts = list(terms[:LANES])
    for i, x in enumerate(terms[LANES:]):
        parts[i % LANES] = _plus(parts[i % LANES], x)
    for n in (8, 4, 2, 1):
        pairs = zip(parts[:n], parts[n : 2 * n], strict=False)
        parts[: len(parts[n : 2 * n])] = [_plus(a, b) for a, b in pairs]
        parts = parts[:n]
    zero = const(0, dtype)
    return zero if parts[0] is None else alu("add", parts[0], zero)


def _plus(a: Expr | None, b: Expr | None) -> Expr | None:
    return a + b if a is not None and b is not None else a if b is None else b


def _windows(s: Compute) -> _Windows | None:
    """s as such a sum; None where it is not one, or its sizes are not known."""
    sums_up = _sum_of(s)
    if sums_up is None:
        return None
    fold, x = sums_up
    found = slides(s, x, fold)
    places = tuple(one.place for one in found)
    if not found or s.axes[-len(found) :] != places:
        return None
    taps = prod(_extent(a) for a in fold.axes)
    inside, phases = [one.ends() == (0, one.place.extent) for one in found], _phases(found[-1])
    if taps > MOST and (phases > 1 or found[-1].by > 1 or inside[-1]):
        return None
    if all(inside) and phases == 1 and x.dtype is fold.dtype and taps > LANES:
        return _Windows(s, fold, x, found, None)
    if inside[-1] and not (all(inside) and taps > LANES):
        return None
    shape = [one.before + one.size + one.after for one in found]
    if phases > 1:
        shape[-1:] = phases, -(-shape[-1] // phases)
    if prod(shape) > NEAR:
        return None
    row = Buffer("row", s.buffer.dtype, (s.axes[-1].extent,)) if taps > MOST else None
    return _Windows(s, fold, x, found, Buffer("near", fold.dtype, tuple(shape)), row)


def _phases(along: Slide) -> int:
    """The rows that a row is dealt out to, so that what neighbouring windows read lies together."""
    return along.by if along.by <= DEALT and _extent(along.place) >= STRIPS[0] else 1


def sum_of(s: Compute) -> tuple[Fold, Load] | None:
    """The sum that s is made of, and what it adds up."""
    folds = [e for e in walk(s.expr) if isinstance(e, Fold)]
    if len(folds) != 1 or folds[0].kind != "sum":
        return None
    (fold,) = folds
    x = fold.terms[0]
    if isinstance(x, Cast) and x.x.dtype in HALVES:
        x = x.x
    if not isinstance(x, Load) or not x.dtype.is_float:
        return None
    return (fold, x) if x.mode == "proven" or is_plus_zero(x.default) else None


def _sum_of(s: Compute) -> tuple[Fold, Load] | None:
    """The same without axes of one turn, where no term is absent."""
    found = sum_of(s)
    if found is None or found[0].when is not None:
        return None
    fold, x = found
    zeros: dict[Axis, Expr] = {a: lift(0) for a in fold.axes if a.extent == 1}
    index = tuple(rewrite(i, zeros) for i in x.index)
    return fold, Load(x.buffer, index, x.mode, x.default)


def _apart(s: Compute) -> tuple[Compute, Compute] | None:
    """The sums of s, in the layout of the planes that they are of, and what s makes of them in
    another one."""
    sums_up = _sum_of(s)
    if sums_up is None:
        return None
    fold, x = sums_up
    found = {one.dimension: one.place for one in slides(s, x, fold)}
    rank = len(x.index)
    if not found or list(found) != list(range(rank - len(found), rank)):
        return None
    extents = [found[d].extent if d in found else n for d, n in enumerate(x.buffer.shape)]
    if product(tuple(extents)) != product(tuple(a.extent for a in s.axes)):
        return None
    axes = tuple(Axis(f"i{d}", n) for d, n in enumerate(extents))
    sums = Buffer("sums", fold.dtype, tuple(extents))
    within = tuple(
        rewrite(i, {found[d]: axes[d]}) if d in found else axes[d] for d, i in enumerate(x.index)
    )
    term = cast(Load(x.buffer, within, x.mode, x.default), fold.dtype)
    rest = rewrite(s.expr, {fold: Load(sums, tuple(map(found.get, range(rank), x.index)))})
    return Compute(sums, axes, Fold("sum", fold.axes, (term,))), replace(s, expr=rest)


def _extent(a: Axis) -> int:
    assert isinstance(a.extent, int)
    return a.extent
