"""Chains around reductions: operations over the same rows become one launch.

    m = ReduceMean(x); d = Sub(x, m); v = ReduceMean(Mul(d, d)); y = Div(d, Sqrt(v))
      =>  one launch of these statements, which goes row by row (passes/rows.py)

A normalisation or a softmax that is written out then takes a row through all its steps while the
row is in the cache, as the operator does. No statement changes, so no bit does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sardonyx.dims import Dim, product
from sardonyx.kernel.expr import Fold, Iterate
from sardonyx.kernel.ir import Kernel
from sardonyx.kernel.walk import walk
from sardonyx.passes.program import Launch, Program, merged
from sardonyx.passes.rows import computes, runs

LEAST = 64  # elements of a row that is worth a turn of a loop over strips
MOST = 1 << 16  # those of one that stays in the cache
SMALL = 1 << 13  # elements that are not shared out
ROWS = 16  # rows that can be shared out among threads


def join_chains(program: Program) -> Program:
    """Each launch with those that make what it reads, where all go row by row."""
    launches: list[Launch | None] = list(program.launches)
    place = {name: i for i, launch in enumerate(program.launches) for name in launch.writes}
    readers = {name: set(found) for name, found in program.readers().items()}

    def join(name: str, at: int) -> int | None:
        """Where the launch `at` and what makes `name` for it have become one; None: they cannot."""
        i = place.get(name, at)
        first, second = launches[i], launches[at]
        if first is None or second is None or i == at or not all(map(_has_rows, (first, second))):
            return None
        others = {n: readers.get(n, set()) - {at} for n in first.writes}
        late = all(k > at for found in others.values() for k in found)
        early = all(place.get(n, 0) <= i for n in second.reads if n)
        kept = {n for n in others if others[n] or n in program.outputs}
        copied = kept and (first.kernel.views or second.kernel.views)
        if copied or not (late or early):
            return None
        made = merged(first, second, kept)
        if not _is_chain(made.kernel):
            return None
        launches[i] = launches[at] = None
        where = at if late else i
        launches[where] = made
        place.update(dict.fromkeys(made.writes, where))
        for n in filter(None, (*first.reads, *second.reads)):
            readers[n] = readers[n] - {i, at} | {where}
        readers.update(others)
        return where

    for i in range(len(launches)):
        at: int | None = i
        while at is not None:
            at = _first(join, launches[at], at)
    return replace(program, launches=tuple(x for x in launches if x is not None))


def _first(join: Callable[[str, int], int | None], launch: Launch | None, at: int) -> int | None:
    """What the first join that succeeds gives."""
    joins = (join(n, at) for n in launch.reads if n) if launch else ()
    return next((found for found in joins if found is not None), None)


def _has_rows(launch: Launch) -> bool:
    """Whether it may be a part of a chain: elements, as of a view (Reshape), and reductions."""
    body = computes(replace(launch.kernel, views=()))
    folds = [e for s in body for e in walk(s.expr) if isinstance(e, Fold)]
    return bool(body) and all(e.kind != "dot" for e in folds)


def _is_chain(kernel: Kernel) -> bool:
    """Whether it is reductions of whole rows, and elements of such rows, all over the same rows."""
    body = computes(kernel)
    found = list(runs(body)) if body else []
    depth = found[0][1] if len(found) == 1 else 0
    whole = [s for s in body if product(s.buffer.shape[depth:]) != 1]
    sizes = {s.buffer.shape[depth:] for s in whole}
    folds = {e: s for s in body for e in walk(s.expr) if isinstance(e, Fold | Iterate)}
    return (
        len(sizes) == 1
        and bool(folds)
        and set(folds.values()).isdisjoint(whole)
        and _is_worth(product(sizes.pop()), product(body[0].buffer.shape[:depth]))
    )


def _is_worth(row: Dim, rows: Dim) -> bool:
    """Whether one thread does it all, or there are rows for several, long enough, and not too long
    for the cache."""
    whole = row * rows
    if isinstance(whole, int) and whole <= SMALL:
        return True
    fits = not isinstance(row, int) or LEAST <= row <= MOST
    return fits and (not isinstance(rows, int) or rows >= ROWS)
