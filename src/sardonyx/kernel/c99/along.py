"""Sums of products whose lanes are neighbours in x: of few filters over many places.

    Compute(y, (.., m, .., place), epilogue(Fold("dot", k, (X[.., k, place], W[.., k, m]))))

Blocks of 16 filters would be mostly empty; here each term of x is read once for all filters
(kernel/c99/along.h), from channels that lie as the model has them. Lanes are the last axis, which X
steps through by one and W does not have; rows are the axes of W alone, lines those of X alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from sardonyx import types as t
from sardonyx.dims import Dim, atom, product
from sardonyx.kernel.affine import coefficient
from sardonyx.kernel.c99.contract import (
    LANES,
    MOST_ROWS,
    Contraction,
    Walk,
    factors,
    flat,
    merged,
    tail_of,
    terms_of,
)
from sardonyx.kernel.expr import Axis, Fold, Load
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.walk import free_axes, walk

FEW, MOST = 12, 32  # filters: with more than these, blocks of them are full enough
NEAR = 8192  # weights of more than a few filters: each tile reads what lines of them it needs again
HALF = 12  # of 16: what a block takes of which at most half is in use; behind another a half
MOST_LOOPS = 4  # over terms
REORDER = 1  # cycles for an element that is brought into another layout


@dataclass(frozen=True, slots=True, eq=False)
class Along:
    """A Compute as such a sum. c: as a product of W, its a, and X, with X's steps. x: what it
    reads, which may still be guarded; weights: the axes of W, those of the rows last."""

    c: Contraction
    x: Load
    weights: tuple[Axis, ...]

    @property
    def rows(self) -> Dim:
        return self.c.rows


def along_of(s: Compute) -> Along | None:
    """s as such a sum, whatever the layout of W; None where it is not one."""
    folds = [e for e in walk(s.expr) if isinstance(e, Fold)]
    if len(folds) != 1 or folds[0].kind != "dot" or not s.axes:
        return None
    (fold,), lanes = folds, s.axes[-1]
    terms = factors(fold)
    tail = None if fold.when is None else tail_of(fold, fold.when)
    if terms is None or fold.dtype is not t.float32 or (tail is None) != (fold.when is None):
        return None
    if not isinstance(lanes.extent, int) or lanes.extent < LANES:
        return None
    for w, x in (terms, terms[::-1]):
        if isinstance(x, Load) and isinstance(w, Load) and x.dtype is w.dtype is t.float32:
            found = _along(s, fold, x, w, tail)
            if found is not None:
                return found
    return None


def pays(a: Along, moved: Dim) -> bool:
    """Whether s is sooner done so than by blocks of filters, though so many elements have to be
    brought into another layout for it (less than none: fewer than for blocks)."""
    c, rows = a.c, a.rows
    terms, places = terms_of(c.fold), product(tuple(w.extent for w in (*c.batch, *c.n)))
    if not (isinstance(rows, int) and isinstance(places, int) and isinstance(moved, int)):
        return False
    depthwise = rows == 1 and product(tuple(w.extent for w in c.batch)) != 1
    if terms is None or rows > MOST or depthwise or not isinstance(c.lanes.extent, int):
        return False
    if rows > FEW and rows * terms > NEAR:
        return False
    rest, half = rows % LANES, HALF if rows < LANES else LANES // 2
    block = 0 if rest == 0 else half if rest <= LANES // 2 else LANES
    saved = terms * places * c.lanes.extent * (block - rest) // LANES
    return saved > max(0, REORDER * moved)


def _along(s: Compute, fold: Fold, x: Load, w: Load, tail: int | None) -> Along | None:
    lanes, address = s.axes[-1], flat(x)
    free = free_axes(x, w)
    in_x, in_w = free[id(x)], free[id(w)]
    if address is None or lanes in in_w or coefficient(address, lanes) != 1:
        return None
    if not (in_x | in_w) <= {*s.axes, *fold.axes}:
        return None
    groups: dict[str, list[Walk]] = {"batch": [], "m": [], "n": []}
    for axis in s.axes[:-1]:
        step = coefficient(address, axis)
        if step is None:
            return None
        kind = "n" if axis not in in_w else "batch" if axis in in_x else "m"
        groups[kind].append(Walk((axis,), axis.extent, step))
    steps = [(axis, coefficient(address, axis)) for axis in fold.axes]
    k = tuple(Walk((axis,), axis.extent, step) for axis, step in steps if step is not None)
    if len(k) != len(steps) or len(merged(groups["n"])) > MOST_ROWS:
        return None
    batch, m, n = (tuple(groups[kind]) for kind in ("batch", "m", "n"))
    origin = address
    for one in (*batch, *n, *k, Walk((lanes,), lanes.extent, 1)):
        origin = origin - one.a * atom(one.axes[0])
    c = Contraction(s, fold, w, x, origin, batch, m, n, lanes, k, tail)
    found = Along(c, x, tuple(one.axes[0] for one in (*batch, *k, *m)))
    return found if len(loops_of(found)) <= MOST_LOOPS else None


def loops_of(a: Along) -> list[Walk]:
    """The loops over terms, the outermost first; with a tail the first and the last are those of
    the fold."""
    c = a.c
    if c.tail is not None:
        return [c.k[0], *merged(c.k[1:-1]), c.k[-1]]
    return merged(c.k) or [Walk((), 1, 0)]


def is_packed(a: Along) -> bool:
    """Whether x needs no check, and W is what passes/pack.py makes: its rows together, for one term
    after the other. Products of one row by what is not packed have other forms."""
    w = flat(a.c.a)
    step: Dim = 1
    if a.x.mode != "proven" or a.c.a.mode != "proven" or w is None or not a.c.m:
        return False
    if a.c.a.buffer.shape != tuple(axis.extent for axis in a.weights):
        return False
    for one in reversed((*a.c.k, *a.c.m)):
        if one.extent != 1 and coefficient(w, one.axes[0]) != step:
            return False
        step = step * one.extent
    return True
