"""Elements that stand k times side by side are read once: nearest neighbours, k times as many.

    y[h, w] = x[table[h], table[w]], the table being 0, 0, 1, 1, 2, ..
        =>  For(i, j):  y[2i, 2j] = x[i, j];  y[2i, 2j + 1] = x[i, j];  y[2i + 1, 2j] = ..

What the tables say is known, and neighbours are loaded together then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product as cartesian
from math import prod

import numpy as np

from sardonyx.kernel.expr import Axis, Buffer, Expr, Fold, Iterate, Load
from sardonyx.kernel.interpret import evaluate
from sardonyx.kernel.ir import Compute, Kernel, Stmt, Store, nested
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import free_axes, is_move, walk
from sardonyx.passes.choices import nest, parts
from sardonyx.passes.constants import drop_unused
from sardonyx.passes.known import Known, known_to
from sardonyx.passes.program import Launch, Program
from sardonyx.passes.slides import in_strips
from sardonyx.types import Array

MOST = 16  # stores of one element
SIDES = 8  # of choices, whose loops are apart


def split_repeats(program: Program) -> Program:
    """Each launch with loops over what is repeated."""
    launches = tuple(_launch(launch, program.weights) for launch in program.launches)
    return drop_unused(replace(program, launches=launches))


def _launch(launch: Launch, weights: Mapping[str, Array]) -> Launch:
    known = known_to(launch, weights)
    if not known or launch.call is not None:
        return launch
    body: list[Stmt] = []
    for s in launch.kernel.body:
        body += _split(s, known) if isinstance(s, Compute) else (s,)
    return replace(launch, kernel=replace(launch.kernel, body=tuple(body)))


def is_repeated(launch: Launch, weights: Mapping[str, Array]) -> bool:
    """Whether a launch does nothing but repeat elements, each of which such loops read once."""
    known = known_to(launch, weights)
    found = (isinstance(s, Compute) and _split(s, known) != (s,) for s in launch.kernel.body)
    return bool(known) and launch.call is None and all(found)


@dataclass(frozen=True, slots=True, eq=False)
class _Repeat:
    """An axis, the indices that are its quotient by `times`, and the axis of these."""

    axis: Axis
    times: int
    indices: tuple[Expr, ...]
    quotient: Axis


def _split(s: Compute, known: Known) -> tuple[Stmt, ...]:
    """s as such loops, those of each side of its choices, or as it is."""
    if any(isinstance(e, Fold | Iterate) for e in walk(s.expr)):
        return (s,)
    sides = parts(s, SIDES)
    made = [_loops(*side, known) for side in sides]
    if not any(made):
        return (s,)
    pairs = zip(sides, made, strict=True)
    return tuple(x for side, loops in pairs for x in loops or (nest(*side),))


def _loops(s: Store, axes: tuple[Axis, ...], known: Known) -> tuple[Stmt, ...]:
    """The loops of a store for these axes over what is repeated; none where nothing is."""
    found = {r.axis: r for r in _repeats(s, axes, known)}
    repeats = tuple(found.values())
    if not found or axes[-1].extent == 1 or prod(r.times for r in repeats) > MOST:
        return ()
    if not all(is_move(x.expr) == is_move(s.expr) for x in _stores(s, repeats, {})):
        return ()  # as to NaN
    *outer, last = (found[a].quotient if a in found else a for a in axes)

    def stores(at: Expr) -> tuple[Stmt, ...]:
        return tuple(_stores(s, repeats, {last: at}))

    if axes[-1] not in found or not isinstance(last.extent, int):
        return nested((*outer, last), stores(last))
    return nested(outer, tuple(in_strips(last.extent, stores)))


def _stores(s: Store, repeats: Sequence[_Repeat], last: Mapping[Axis, Expr]) -> Iterator[Store]:
    """The stores for one point of the quotients; last: the index that an axis stands for."""
    for rests in cartesian(*(range(r.times) for r in repeats)):
        given: dict[Expr, Expr] = dict(last.items())
        for r, rest in zip(repeats, rests, strict=True):
            at = last.get(r.quotient, r.quotient)
            given |= dict.fromkeys(r.indices, at)
            given[r.axis] = at * r.times + rest
        index = tuple(rewrite(i, given) for i in s.index)
        yield Store(s.buffer, index, rewrite(s.expr, given))


def _repeats(s: Store, axes: tuple[Axis, ...], known: Known) -> Iterator[_Repeat]:
    """The axes with such indices, of one quotient each."""
    free = free_axes(s.expr)
    loads = [e for e in walk(s.expr) if isinstance(e, Load) and e.mode == "proven"]
    for axis in axes:
        along = dict.fromkeys(i for e in loads for i in e.index if free[id(i)] == {axis})
        times = {i: _times(i, axis, known) for i in along if i is not axis}
        some = {n for n in times.values() if n > 1}
        if len(some) == 1 and isinstance(axis.extent, int):
            (n,) = some
            indices = tuple(i for i in times if times[i] == n)
            yield _Repeat(axis, n, indices, Axis(axis.name, axis.extent // n))


def _times(index: Expr, axis: Axis, known: Known) -> int:
    """k where an index is axis / k, rounded down; 1 where it is not."""
    read = tuple(dict.fromkeys(e.buffer.root for e in walk(index) if isinstance(e, Load)))
    if not read or not isinstance(axis.extent, int) or any(b not in known for b in read):
        return 1
    if axis.extent == 0:
        return 1
    target, own = Buffer("index", index.dtype, (axis.extent,)), Axis(axis.name, axis.extent)
    s = Compute(target, (own,), rewrite(index, {axis: own}))
    (found,) = evaluate(Kernel("index", read, (target,), (), (), (s,)), [known[b] for b in read])
    times = axis.extent // max(1, int(found[-1]) + 1)
    here = np.arange(axis.extent) // max(1, times)
    return times if axis.extent % max(1, times) == 0 and np.array_equal(found, here) else 1
