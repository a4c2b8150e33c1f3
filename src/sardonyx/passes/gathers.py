"""Sums of products that choose columns by a table: each row is gathered once for all that read it.

    y[n, c, h, w] = sum over (r, q) of weight * x[n, c, row(h, r), column(w, q)]
        =>  For(n, c):  near[i, q, w] = x[n, c, i, column(w, q)]
                        For(h):  y[n, c, h, w] = sum over (r, q) of weight * near[row(h, r), q, w]

An interpolation reads each row for several rows of its result; neighbours along w then lie together
in memory. Each sum has its terms in their order, so no bit changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from sardonyx import types as t
from sardonyx.dims import Dim
from sardonyx.kernel.affine import affine
from sardonyx.kernel.expr import Axis, Buffer, Expr, Fold, Load
from sardonyx.kernel.ir import Compute, For, Stmt, Store, nested
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import free_axes, walk
from sardonyx.passes.program import Launch, Program

LEAST = 2  # how many times fewer elements are gathered than they are read
SHORTEST = 8  # columns that are worth a row


def gather_rows(program: Program) -> Program:
    """Each launch with such rows."""
    return replace(program, launches=tuple(map(_launch, program.launches)))


def _launch(launch: Launch) -> Launch:
    kernel = launch.kernel
    body, made = list[Stmt](), list[Buffer]()
    for s in kernel.body:
        found = _gathered(s, len(made)) if isinstance(s, Compute) else None
        body += (s,) if found is None else found.loops()
        made += [] if found is None else [found.near, found.row]
    if not made:
        return launch
    temporaries = (*kernel.temporaries, *made)
    return replace(launch, kernel=replace(kernel, body=tuple(body), temporaries=temporaries))


@dataclass(frozen=True, slots=True, eq=False)
class _Gathered:
    """A Compute with such a sum. x: what it reads; depth: the first axes, which are indices of x;
    taps: those of the fold that choose the column. near, row: what is gathered, and a row of the
    result."""

    compute: Compute
    x: Load
    depth: int
    taps: tuple[Axis, ...]
    near: Buffer
    row: Buffer

    def loops(self) -> tuple[Stmt, ...]:
        """The loops over the first axes."""
        s, x, depth = self.compute, self.x, self.depth
        *outer, last = s.axes
        rows = tuple(Axis("i", d) for d in x.buffer.shape[depth:-1])
        own = {a: Axis(a.name, a.extent) for a in (*self.taps, last)}
        column = rewrite(x.index[-1], dict(own.items()))
        place = (*x.index[:depth], *rows, column)
        near = Compute(self.near, (*rows, *own.values()), Load(x.buffer, place))
        read: dict[Expr, Expr] = {x: Load(self.near, (*x.index[depth:-1], *self.taps, last))}
        row = Compute(self.row, (last,), rewrite(s.expr, read))
        end = Axis(f"{last.name}s", last.extent)
        store = Store(s.buffer, (*outer, end), Load(self.row, (end,)))
        made = nested(outer[depth:], (row, For(end, (store,))))
        return nested(outer[:depth] or [Axis("once", 1)], (near, *made))


def _gathered(s: Compute, number: int) -> _Gathered | None:
    """s as such a sum, where that pays."""
    folds = [e for e in walk(s.expr) if isinstance(e, Fold)]
    if len(folds) != 1 or folds[0].kind != "dot" or folds[0].dtype is not t.float32:
        return None
    (fold,) = folds
    found = list(_loads(s, fold))
    if len(found) != 1 or fold.when is not None:
        return None
    (x,) = found
    free = free_axes(*x.index)
    depth = 0
    while depth < len(x.index) - 1 and x.index[depth] is s.axes[depth]:
        depth += 1
    taps = tuple(a for a in fold.axes if a in free[id(x.index[-1])])
    between = {*s.axes[depth:-1], *fold.axes} - set(taps)
    rows = [free[id(i)] for i in x.index[depth:-1]]
    if not all(axes <= between for axes in rows) or free[id(x.index[-1])] - {s.axes[-1], *taps}:
        return None
    sizes = [*x.buffer.shape[depth:-1], *(a.extent for a in taps)]
    if not _pays(sizes, [a.extent for a in (*s.axes[depth:-1], *fold.axes)]):
        return None
    last = s.axes[-1].extent
    near = Buffer(f"near{number}", x.dtype, (*sizes, last))
    return _Gathered(s, x, depth, taps, near, Buffer(f"row{number}", s.buffer.dtype, (last,)))


def _loads(s: Compute, fold: Fold) -> Iterator[Load]:
    """What of the terms is read along the last axis, but not by neighbours."""
    free = free_axes(*fold.terms)
    last = s.axes[-1] if s.axes else None
    if last is None or not isinstance(last.extent, int) or last.extent < SHORTEST:
        return
    for e in walk(*fold.terms):
        if isinstance(e, Load) and e.mode == "proven" and len(e.index) > 1:
            *before, end = e.index
            here = last in free[id(end)] and affine(end) is None
            if here and not any(last in free[id(i)] for i in before):
                yield e


def _pays(gathered: list[Dim], read: list[Dim]) -> bool:
    """Whether, for each column, so many elements are fewer than those that are read."""
    some = [d for d in gathered if isinstance(d, int)]
    all_read = [d for d in read if isinstance(d, int)]
    known = len(some) == len(gathered) and len(all_read) == len(read)
    return known and prod(some) * LEAST <= prod(all_read)
