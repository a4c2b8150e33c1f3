"""Maxima and sums of bytes over windows in two steps: down the columns of a row of windows, then
along it.

    y[n, c, h, w] = max over (r, q) of x[n, c, 2h + r, 2w + q]
        =>  For(n, c, h):  col[w] = max over r of x[n, c, 2h + r, w]
                           y[n, c, h, w] = max over q of col[2w + q]

A maximum has no order, so no bit changes; a minimum goes the same way. What lies outside of x loses
against all else, so an index outside stands for its nearest neighbour inside, which the window has
as well: no copy with borders is made. Floats are compared as integers in the same order, NaNs
beyond the end that is looked for; each element of a row becomes one once. Floats of 16 bits, which
the fold widens, are integers of 16 bits. Sums of integers have no order either; what stands outside
of x is added there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product as cartesian
from math import prod

from sardonyx import types as t
from sardonyx.kernel.expr import (
    Axis,
    Buffer,
    Cast,
    Const,
    Expr,
    Fold,
    Load,
    alu,
    cast,
    const,
    lift,
    reinterpret,
    where,
)
from sardonyx.kernel.folds import identity
from sardonyx.kernel.ir import Compute, Stmt, Store, nested
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import walk
from sardonyx.passes.program import Program
from sardonyx.passes.slides import Loops, Slide, bordered, in_loops, in_strips, slides
from sardonyx.passes.widen import HALVES
from sardonyx.types import DType

# The integers that stand for floats, and how many NaNs of a sign there are.
RANKS = {
    t.float32: (t.int32, 0x7FFFFF),
    t.float16: (t.int16, 0x3FF),
    t.bfloat16: (t.int16, 0x7F),
}
BYTES = (t.int8, t.uint8)
KINDS = (*RANKS, *BYTES)
WHOLE = 16  # elements of whole vectors
NEAR = 1 << 14  # elements of a plane that is in the first cache with what is made of it
MOST = 32  # windows' rows that stand one behind the other


def split_maxima(program: Program) -> Program:
    """Each maximum over windows, and each sum of bytes, in two steps."""
    return in_loops(program, _steps)


def _steps(s: Compute) -> Loops | None:
    found = _windows(s)
    if found is None:
        return None
    near = _planes(found)
    if near is None:
        return found.statements(), (found.column,)
    return near.statements(), (near.near, near.column)


@dataclass(frozen=True, slots=True, eq=False)
class _Windows:
    """A Compute that takes such a maximum or sum. above: the slides but the last, which is `along`;
    outside: what is added in the place of an x outside."""

    compute: Compute
    fold: Fold
    x: Load
    above: tuple[Slide, ...]
    along: Slide
    column: Buffer
    outside: Expr | None

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
        axis, terms = Axis("w", self.along.size), list[Expr]()
        for taps in cartesian(*(range(one.taps) for one in self.above)):
            index = list(self.x.index)
            index[self.along.dimension] = axis
            there: list[Expr] = []
            for one, tap in zip(self.above, taps, strict=True):
                inside = one.ends() == (0, one.place.extent)
                index[one.dimension] = one.at(one.place, tap, inside)
                there += [] if inside else [one.at(one.place, tap, True).eq(index[one.dimension])]
            x: Expr = Load(self.x.buffer, tuple(index))
            if self.outside is not None:
                x = _inside(there, cast(x, self.fold.dtype), self.outside)
            terms.append(_rank(x, self.fold.kind))
        return Compute(self.column, (axis, *inner), _joined(terms, self.fold.kind))

    def _rows(self, first: int, last: int, inside: bool, inner: Sequence[Axis]) -> tuple[Stmt, ...]:
        """The windows from `first` to before `last`."""
        axis, terms = Axis("w", last - first), list[Expr]()
        place = axis + first
        for tap in range(self.along.taps):
            at, real = (self.along.at(place, tap, near) for near in (inside, True))
            term: Expr = Load(self.column, (at, *inner))
            if self.outside is not None and not inside:
                column = self.outside * prod(one.taps for one in self.above)
                term = _inside([real.eq(at)], term, column)
            terms.append(term)
        return nested((axis, *inner), (self.element(place, _joined(terms, self.fold.kind)),))

    def element(self, place: Expr, rank: Expr) -> Store:
        """One element of the result, `place` its index along the windows, from its rank."""
        s, value = self.compute, _value(rank, self.x.dtype, self.fold.kind)
        given = {self.along.place: place, self.fold: cast(value, self.fold.dtype)}
        narrowed = (e for e in walk(s.expr) if isinstance(e, Cast) and e.x is self.fold)
        given |= {e: value for e in narrowed if e.dtype is value.dtype}
        index = tuple(place if a is self.along.place else a for a in s.axes)
        return Store(s.buffer, index, rewrite(s.expr, given))


@dataclass(frozen=True, slots=True, eq=False)
class _Planes:
    """Such windows that move by one element along the last axis, from a copy of each plane with its
    borders, where each element has become an integer: it is one of many windows."""

    windows: _Windows
    near: Buffer
    column: Buffer

    def statements(self) -> tuple[Stmt, ...]:
        w, kind = self.windows, self.windows.fold.kind
        every, places = (*w.above, w.along), [one.place for one in w.above]
        of = self.near.dtype
        lowest = const(of.min if kind == "max" else of.max, of)
        made = bordered(self.near, w.x, every, lowest, lambda e: _rank(e, kind))
        axis, down = Axis("w", self.column.shape[-1]), list[Expr]()
        for taps in cartesian(*(range(one.taps) for one in w.above)):
            rows = (one.within(one.place, i) for one, i in zip(w.above, taps, strict=True))
            down.append(Load(self.near, (*rows, axis)))
        columns = Compute(self.column, (*places, axis), _joined(down, kind))

        def element(place: Expr) -> tuple[Stmt, ...]:
            taps = (w.along.within(place, i) for i in range(w.along.taps))
            return (
                w.element(place, _joined([Load(self.column, (*places, i)) for i in taps], kind)),
            )

        assert isinstance(w.along.place.extent, int)
        along = list(in_strips(w.along.place.extent, element))
        outer = w.compute.axes[: -len(every)]
        return nested(outer, [*made, columns, *nested(places, along)])


def _joined(terms: Sequence[Expr], kind: str) -> Expr:
    op = "add" if kind == "sum" else kind
    return reduce(lambda a, b: alu(op, a, b), terms)


def _inside(there: Sequence[Expr], x: Expr, outside: Expr) -> Expr:
    """x where all of these hold."""
    return where(reduce(lambda a, b: a & b, there), x, outside) if there else x


def _planes(w: _Windows) -> _Planes | None:
    """Such windows where a row is one of several windows, and planes are small."""
    if prod(one.taps for one in w.above) == 1:
        return None
    every = (*w.above, w.along)
    places = tuple(one.place for one in every)
    if w.along.by > 1 or w.compute.axes[-len(every) :] != places or w.x.dtype not in RANKS:
        return None
    *high, wide = (one.before + one.size + one.after for one in every)
    wide = -(-wide // WHOLE) * WHOLE
    down = tuple(one.place.extent for one in w.above)
    near = Buffer("near", w.column.dtype, (*high, wide))
    column = Buffer("col", w.column.dtype, (*down, wide))
    return None if prod((*high, wide)) > NEAR else _Planes(w, near, column)


def _rank(x: Expr, kind: str) -> Expr:
    """x as an integer in its order; of floats, a NaN is beyond all others."""
    if x.dtype not in RANKS:
        return x
    dtype, beyond = RANKS[x.dtype]
    turned = _turned(reinterpret(x, dtype), dtype)
    return turned - beyond if kind == "max" else turned + beyond


def _value(rank: Expr, dtype: DType, kind: str) -> Expr:
    """What has the rank."""
    if dtype not in RANKS:
        return rank
    of, beyond = RANKS[dtype]
    turned = rank + beyond if kind == "max" else rank - beyond
    return reinterpret(_turned(turned, of), dtype)


def _turned(i: Expr, dtype: DType) -> Expr:
    """The bits of floats as integers in their order, and back."""
    return i ^ ((i >> (dtype.bits - 1)) & dtype.max)


def _windows(s: Compute) -> _Windows | None:
    """s as such a maximum or sum; None where it is not one, or its sizes are not known."""
    folds = [e for e in walk(s.expr) if isinstance(e, Fold)]
    if len(folds) != 1 or folds[0].kind not in ("min", "max", "sum") or folds[0].when is not None:
        return None
    (fold,) = folds
    x, adds = rewrite(fold.terms[0], {a: lift(0) for a in fold.axes if a.extent == 1}), False
    match x:
        case Cast(y) if fold.kind == "sum" and fold.dtype is t.int32 and y.dtype in BYTES:
            x, adds = y, True
        case Cast(y) if fold.dtype is t.float32 and y.dtype in HALVES:
            x = y
    if not isinstance(x, Load) or x.dtype not in KINDS or not (adds or _is_plain(x, fold)):
        return None
    found = slides(s, x, fold)
    if not found or not (adds or all(one.holds() for one in found)):
        return None
    *above, along = found
    at = s.axes.index(along.place)
    if prod(one.taps for one in above) > MOST or along.taps > MOST or along.by > along.taps:
        return None
    if any(one.place not in s.axes[:at] for one in above):
        return None
    inner = tuple(a.extent for a in s.axes[at + 1 :])
    dtype = fold.dtype if adds else RANKS[x.dtype][0] if x.dtype in RANKS else x.dtype
    column = Buffer("col", dtype, (along.size, *inner))
    absent = const(0, x.dtype) if x.default is None else x.default
    outside = cast(absent, dtype) if adds else None
    return _Windows(s, fold, x, tuple(above), along, column, outside)


def _is_plain(x: Load, fold: Fold) -> bool:
    """Whether it is a maximum, and what is read out of bounds loses."""
    if fold.kind == "sum":
        return False
    if x.mode == "guard":
        return isinstance(x.default, Const) and x.default.value == identity(fold)
    return x.mode == "proven"
