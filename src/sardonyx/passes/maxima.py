"""Maxima over windows in two steps: down the columns of a row of windows, then along it.

    y[n, c, h, w] = max over (r, q) of x[n, c, 2h + r, 2w + q]
        =>  For(n, c, h):  col[w] = max over r of x[n, c, 2h + r, w]
                           y[n, c, h, w] = max over q of col[2w + q]

A maximum has no order, so no bit changes; a minimum goes the same way. What lies outside of x loses
against all else, so an index outside stands for its nearest neighbour inside, which the window has
as well: no copy with borders is made. Floats are compared as integers in the same order, NaNs
beyond the end that is looked for; each element of a row becomes one once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product as cartesian
from math import prod

from sardonyx import types as t
from sardonyx.dims import atom
from sardonyx.kernel.affine import affine, coefficient
from sardonyx.kernel.expr import (
    Axis,
    Buffer,
    Const,
    Expr,
    Fold,
    Load,
    alu,
    lift,
    reinterpret,
    walk,
)
from sardonyx.kernel.folds import identity
from sardonyx.kernel.ir import Compute, Kernel, Stmt, Store, nested
from sardonyx.kernel.place import checked
from sardonyx.kernel.rewrite import rewrite
from sardonyx.passes.program import Launch, Program

KINDS = (t.float32, t.int8, t.uint8)
MOST = 32  # windows' rows that stand one behind the other
BEYOND = 0x7FFFFF  # how many NaNs of a sign there are


def split_maxima(program: Program) -> Program:
    """Each maximum over windows in two steps."""
    return replace(program, launches=tuple(_launch(launch) for launch in program.launches))


def _launch(launch: Launch) -> Launch:
    body, made = list[Stmt](), list[Buffer]()
    for s in launch.kernel.body:
        found = _windows(s) if isinstance(s, Compute) else None
        body += [s] if found is None else found.statements()
        made += [] if found is None else [found.column]
    if not made:
        return launch
    kernel: Kernel = launch.kernel
    temporaries = (*kernel.temporaries, *made)
    return replace(launch, kernel=replace(kernel, body=tuple(body), temporaries=temporaries))


@dataclass(frozen=True, slots=True, eq=False)
class _Slide:
    """A dimension along which the windows move: index = place * by + tap * apart + start."""

    dimension: int
    size: int
    tap: Axis
    place: Axis
    by: int
    apart: int
    start: int

    @property
    def taps(self) -> int:
        assert isinstance(self.tap.extent, int)
        return self.tap.extent

    def ends(self) -> tuple[int, int]:
        """The places whose windows lie within the dimension: the first, and that after the last."""
        assert isinstance(self.place.extent, int)
        last = self.size - 1 - self.start - (self.taps - 1) * self.apart
        begin = min(max(0, -(self.start // self.by)), self.place.extent)
        return begin, max(begin, min(last // self.by + 1, self.place.extent))

    def holds(self) -> bool:
        """Whether the nearest neighbour inside of each index outside is in its window."""
        assert isinstance(self.place.extent, int)
        reach = (self.taps - 1) * self.apart
        last = (self.place.extent - 1) * self.by + self.start
        inside = self.start >= 0 and last + reach < self.size
        return inside or (self.apart == 1 and self.start + reach >= 0 and last < self.size)

    def at(self, place: Expr, tap: int, inside: bool) -> Expr:
        """The index of a tap, or its nearest neighbour inside."""
        index = place * self.by + (tap * self.apart + self.start)
        return index if inside else alu("min", alu("max", index, 0), self.size - 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Windows:
    """A Compute that takes such a maximum. above: the slides but the last, which is `along`."""

    compute: Compute
    fold: Fold
    x: Load
    above: tuple[_Slide, ...]
    along: _Slide
    column: Buffer

    def statements(self) -> list[Stmt]:
        s, along = self.compute, self.along
        at = s.axes.index(along.place)
        outer, inner = s.axes[:at], s.axes[at + 1 :]
        begin, end = along.ends()
        whole = along.place.extent
        assert isinstance(whole, int)
        body: list[Stmt] = [self._columns(inner)]
        for first, last, inside in ((0, begin, False), (begin, end, True), (end, whole, False)):
            if first < last:
                body += self._rows(first, last, inside, inner)
        return list(nested(outer, body))

    def _columns(self, inner: Sequence[Axis]) -> Compute:
        """The maxima down each column that a row of windows has."""
        axis, found = Axis("w", self.along.size), None
        for taps in cartesian(*(range(one.taps) for one in self.above)):
            index = list(self.x.index)
            index[self.along.dimension] = axis
            for one, tap in zip(self.above, taps, strict=True):
                index[one.dimension] = one.at(one.place, tap, one.ends() == (0, one.place.extent))
            term = _rank(Load(self.x.buffer, tuple(index)), self.fold.kind)
            found = term if found is None else alu(self.fold.kind, found, term)
        assert found is not None
        return Compute(self.column, (axis, *inner), found)

    def _rows(self, first: int, last: int, inside: bool, inner: Sequence[Axis]) -> tuple[Stmt, ...]:
        """The windows from `first` to before `last`."""
        s, axis = self.compute, Axis("w", last - first)
        place = axis + first
        found: Expr | None = None
        for tap in range(self.along.taps):
            term = Load(self.column, (self.along.at(place, tap, inside), *inner))
            found = term if found is None else alu(self.fold.kind, found, term)
        assert found is not None
        given: dict[Expr, Expr] = {self.along.place: place}
        given[self.fold] = _value(found, self.fold)
        index = tuple(place if a is self.along.place else a for a in s.axes)
        return nested((axis, *inner), (Store(s.buffer, index, rewrite(s.expr, given)),))


def _rank(x: Expr, kind: str) -> Expr:
    """x as an integer in its order; of floats, a NaN is beyond all others."""
    if x.dtype is not t.float32:
        return x
    turned = _turned(reinterpret(x, t.int32))
    return turned - BEYOND if kind == "max" else turned + BEYOND


def _value(rank: Expr, fold: Fold) -> Expr:
    """What has the rank."""
    if fold.dtype is not t.float32:
        return rank
    turned = rank + BEYOND if fold.kind == "max" else rank - BEYOND
    return reinterpret(_turned(turned), t.float32)


def _turned(i: Expr) -> Expr:
    """The bits of floats as integers in their order, and back."""
    return i ^ ((i >> 31) & t.int32.max)


def _windows(s: Compute) -> _Windows | None:
    """s as such a maximum; None where it is not one, or its sizes are not known."""
    folds = [e for e in walk(s.expr) if isinstance(e, Fold)]
    if len(folds) != 1 or folds[0].kind not in ("min", "max") or folds[0].when is not None:
        return None
    (fold,) = folds
    x = rewrite(fold.terms[0], {a: lift(0) for a in fold.axes if a.extent == 1})
    if fold.dtype not in KINDS or not isinstance(x, Load) or not _is_plain(x, fold):
        return None
    found = list(_slides(s, x, fold))
    slides = [one for one in found if one is not None]
    if not slides or len(slides) != len(found) or not _is_sound(slides, x, fold):
        return None
    *above, along = slides
    at = s.axes.index(along.place)
    if prod(one.taps for one in above) > MOST or along.taps > MOST or along.by > along.taps:
        return None
    if any(one.place not in s.axes[:at] for one in above):
        return None
    inner = tuple(a.extent for a in s.axes[at + 1 :])
    dtype = t.int32 if fold.dtype is t.float32 else fold.dtype
    return _Windows(s, fold, x, tuple(above), along, Buffer("col", dtype, (along.size, *inner)))


def _is_plain(x: Load, fold: Fold) -> bool:
    """Whether what is read out of bounds loses."""
    if x.mode == "guard":
        return isinstance(x.default, Const) and x.default.value == identity(fold)
    return x.mode == "proven"


def _is_sound(slides: Sequence[_Slide], x: Load, fold: Fold) -> bool:
    """Whether each axis of the windows moves along one dimension alone."""
    taps = [a for a in fold.axes if a.extent != 1]
    moving = [a for one in slides for a in (one.tap, one.place)]
    seen = [a for i in x.index for a in {e for e in walk(i) if isinstance(e, Axis)}]
    once = all(seen.count(a) == 1 for a in moving)
    return once and {one.tap for one in slides} == set(taps) and all(s.holds() for s in slides)


def _slides(s: Compute, x: Load, fold: Fold) -> Iterator[_Slide | None]:
    """The dimensions of x along which the windows move; None for one that is not understood."""
    for d, guarded in enumerate(checked(x)):
        if guarded or any(a in fold.axes for a in walk(x.index[d])):
            yield _slide(s, x, d, fold)


def _slide(s: Compute, x: Load, d: int, fold: Fold) -> _Slide | None:
    form, size = affine(x.index[d]), x.buffer.shape[d]
    inside = [a for a in walk(x.index[d]) if isinstance(a, Axis) and a.extent != 1]
    taps, places = [a for a in inside if a in fold.axes], [a for a in inside if a in s.axes]
    if form is None or len(taps) != 1 or len(places) != 1 or len(inside) != 2:
        return None
    (tap,), (place,) = taps, places
    by, apart = coefficient(form, place), coefficient(form, tap)
    if not (isinstance(by, int) and isinstance(apart, int) and by > 0 and apart > 0):
        return None
    start = form - atom(place) * by - atom(tap) * apart
    if not (isinstance(start, int) and isinstance(size, int)):
        return None
    known = isinstance(place.extent, int) and isinstance(tap.extent, int)
    return _Slide(d, size, tap, place, by, apart, start) if known else None
