"""Neighbouring axes that are walked as one become one: (C, H, W) elementwise is one loop. Axes of
one index are none.

Two axes of a loop nest or of a fold are one where every load that depends on them has both, next to
one another and in their order, over all of the second dimension. Rows become long, loops few, and
a fold over several axes, its terms in the same order, is one over their row-major positions; a
maximum has no order, and takes its axes as they lie. Of products, only those have fewer axes whose
lanes are places.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from math import inf

from sardonyx.kernel.adjoin import adjoin, read_as_one
from sardonyx.kernel.affine import coefficient
from sardonyx.kernel.c99.contract import flat
from sardonyx.kernel.c99.print_along import packed_along
from sardonyx.kernel.expr import Axis, Buffer, Const, Expr, Fold, Iterate, Load, lift
from sardonyx.kernel.folds import is_free
from sardonyx.kernel.ir import Compute, For, If, Stmt, Store, nested
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import walk
from sardonyx.passes.program import Launch, Program


def collapse(program: Program) -> Program:
    """Each launch with as few axes as may be."""
    return replace(program, launches=tuple(_launch(launch) for launch in program.launches))


def _launch(launch: Launch) -> Launch:
    views = _Views({})
    body = launch.kernel.body
    if len(body) == 1 and isinstance(body[0], Compute):
        body = (_larger(body[0], views),)
    body = tuple(_statement(s, views) for s in body)
    return replace(launch, kernel=replace(launch.kernel, body=body))


@dataclass(frozen=True, slots=True, eq=False)
class _Views:
    """Buffers under other shapes, each made once."""

    known: dict[tuple[Buffer, int], Buffer]

    def merged(self, b: Buffer, at: int) -> Buffer:
        """b with the dimensions at and at + 1 as one."""
        if (b, at) not in self.known:
            shape = (*b.shape[:at], b.shape[at] * b.shape[at + 1], *b.shape[at + 2 :])
            start = b.start
            if start:
                first = start[at] * b.shape[at + 1] + start[at + 1]
                start = (*start[:at], first, *start[at + 2 :])
            self.known[b, at] = Buffer(b.name, b.dtype, shape, base=b.root, start=start)
        return self.known[b, at]


def _statement(s: Stmt, views: _Views) -> Stmt:
    match s:
        case Compute() if not _has_products(s.expr):
            e = _at_the_only_place(s)
            return _compute(_folds(replace(s, expr=e), e, views), views)
        case Compute() if packed_along(s) is not None:
            return _compute(s, views)
        case For():
            nest = _nest(s)
            if nest is not None:
                return _stores(*nest, views)
            return For(s.axis, tuple(_statement(x, views) for x in s.body))
        case If(cond, then, otherwise):
            sides = (tuple(_statement(x, views) for x in side) for side in (then, otherwise))
            return If(cond, *sides)
    return s


def _has_products(e: Expr) -> bool:
    return any(isinstance(x, Fold) and x.kind == "dot" for x in walk(e))


def _at_the_only_place(s: Compute) -> Expr:
    """What s computes, without the places of windows that have one alone."""
    loads = [e for e in walk(s.expr) if isinstance(e, Load)]
    moved = {a for e in loads for i in e.index if i not in s.axes for a in walk(i)}
    places: dict[Axis, Expr] = {a: lift(0) for a in s.axes if a.extent == 1 and a in moved}
    return rewrite(s.expr, places) if places else s.expr


def _compute(s: Compute, views: _Views) -> Compute:
    """s over fewer axes."""
    for a, b in pairwise(s.axes):
        if read_as_one(a, b, (s.expr,)) and adjoin(a, b, s.axes, s.buffer.shape):
            at = s.axes.index(a)
            c = Axis(a.name, a.extent * b.extent)
            axes = (*s.axes[:at], c, *s.axes[at + 2 :])
            e = _replaced(s.expr, (a, b), c, views)
            return _compute(Compute(views.merged(s.buffer, at), axes, e), views)
    return s


def _larger(s: Compute, views: _Views) -> Compute:
    """s over the axes of more than one index, where it changes elements alone."""
    if any(isinstance(e, Fold | Iterate) for e in walk(s.expr)):
        return s
    for at, axis in enumerate(s.axes):
        if axis.extent == 1 and s.buffer.shape[at] == 1 and len(s.axes) > 1:
            axes = (*s.axes[:at], *s.axes[at + 1 :])
            buffer = views.merged(s.buffer, min(at, len(axes) - 1))
            e = rewrite(s.expr, {axis: lift(0)}, lambda x: _without_ones(x, views))
            return _larger(Compute(buffer, axes, e), views)
    return s


def _without_ones(x: Load, views: _Views) -> Load:
    """The load without the dimensions of one index, if that is 0."""
    for at, (i, d) in enumerate(zip(x.index, x.buffer.shape, strict=True)):
        if d == 1 and isinstance(i, Const) and i.value == 0 and len(x.index) > 1:
            index = (*x.index[:at], *x.index[at + 1 :])
            buffer = views.merged(x.buffer, min(at, len(index) - 1))
            return _without_ones(Load(buffer, index, x.mode, x.default), views)
    return x


def _folds(s: Compute, root: Expr, views: _Views) -> Compute:
    """s, its folds over fewer axes."""
    for fold in walk(root):
        if not isinstance(fold, Fold):
            continue
        lying = _as_it_lies(fold)
        if lying is not fold:
            e = rewrite(root, {fold: lying})
            return _folds(replace(s, expr=e), e, views)
        parts = fold.terms if fold.when is None else (*fold.terms, fold.when)
        for a, b in pairwise(fold.axes):
            if read_as_one(a, b, parts):
                at = fold.axes.index(a)
                c = Axis(a.name, a.extent * b.extent)
                axes = (*fold.axes[:at], c, *fold.axes[at + 2 :])
                made = [_replaced(x, (a, b), c, views) for x in parts]
                terms, when = made[: len(fold.terms)], made[len(fold.terms) :]
                one = Fold(fold.kind, axes, tuple(terms), when[0] if when else None)
                e = rewrite(root, {fold: one})
                return _folds(replace(s, expr=e), e, views)
    return s


def _as_it_lies(fold: Fold) -> Fold:
    """A fold that has no order, over its axes as what it reads lies in memory."""
    loads = [e for e in walk(*fold.terms) if isinstance(e, Load)]
    address = flat(loads[0]) if is_free(fold) and len(loads) == 1 else None
    if address is None:
        return fold

    def step(axis: Axis) -> float:
        """How far apart neighbours lie; those that no number says are the outermost."""
        found = None if axis.extent == 1 else coefficient(address, axis)
        return abs(found) if isinstance(found, int) else inf

    axes = tuple(sorted(fold.axes, key=step, reverse=True))
    return fold if axes == fold.axes else replace(fold, axes=axes)


def _replaced(e: Expr, pair: tuple[Axis, Axis], c: Axis, views: _Views) -> Expr:
    """e over c instead of the pair."""

    def load(x: Load) -> Expr | None:
        if pair[0] not in x.index:
            return None
        at = x.index.index(pair[0])
        index = (*x.index[:at], c, *x.index[at + 2 :])
        return Load(views.merged(x.buffer, at), index, x.mode, x.default)

    return rewrite(e, {}, load)


def _nest(s: For) -> tuple[list[Axis], Store] | None:
    """The axes of loops directly inside one another, and the store in the innermost."""
    axes, inner = [s.axis], s.body
    while len(inner) == 1 and isinstance(inner[0], For):
        axes.append(inner[0].axis)
        inner = inner[0].body
    if len(inner) == 1 and isinstance(inner[0], Store) and not _has_folds(inner[0]):
        return axes, inner[0]
    return None


def _has_folds(s: Store) -> bool:
    return any(isinstance(e, Fold) for e in walk(*s.index, s.expr))


def _stores(axes: list[Axis], s: Store, views: _Views) -> Stmt:
    """The nest over fewer axes."""
    for at, (a, b) in enumerate(pairwise(axes)):
        others = tuple(i for i in s.index if i is not a and i is not b)
        if read_as_one(a, b, (s.expr, *others)) and adjoin(a, b, s.index, s.buffer.shape):
            place = s.index.index(a)
            c = Axis(a.name, a.extent * b.extent)
            index = [_replaced(i, (a, b), c, views) for i in others]
            index.insert(place, c)
            e = _replaced(s.expr, (a, b), c, views)
            store = Store(views.merged(s.buffer, place), tuple(index), e)
            return _stores([*axes[:at], c, *axes[at + 2 :]], store, views)
    (whole,) = nested(axes, (s,))
    return whole
