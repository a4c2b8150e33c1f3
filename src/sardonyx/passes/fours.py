"""Which fours of weights of bytes may be taken with the next four, said beside the packed weights.

    dot of x[..] * w[..]   ->   dot of x[..] * (w[..] if pairs[..] else w[..])

Two products of uint8 and of a weight, and the two there of the next four, are added in int16
(kernel/c99/contract_u8.h) where that cannot overflow: where the weights of one sign sum to at most
MOST in every lane, since 255 * 128 = 32640. The choice is between equal values; the printer of
products passes it on.
"""

from __future__ import annotations

import numpy as np

from sardonyx import types as t
from sardonyx.kernel.c99.contract import LIMIT, limit_of
from sardonyx.kernel.c99.print_product import (
    MOST_LOOPS,
    Product,
    edges_of,
    packed_product,
    segments,
)
from sardonyx.kernel.expr import Buffer, Expr, Load, Where
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.rewrite import rewrite
from sardonyx.passes.known import Known, with_known
from sardonyx.passes.program import Program
from sardonyx.types import Array

MOST = 128
FOUR = 4  # terms that are taken at once
WORTH = 4  # fours for each pair, at most: else a branch that is often wrong costs more


def pair_fours(program: Program) -> Program:
    """The program with the pairs of known weights."""
    return with_known(program, _statement)


def _statement(s: Compute, known: Known, made: dict[Buffer, Array]) -> Compute:
    p = packed_product(s)
    if p is None or p.c.at_once != FOUR or p.pairs is not None or p.packed.buffer not in known:
        return s
    if limit_of(p.c.fold) != LIMIT:
        return s
    found = pairs_of(known[p.packed.buffer], runs_of(p))
    if found.sum() * WORTH <= found.size:
        return s
    b = Buffer(f"pairs{len(made)}", t.bool_, p.packed.buffer.shape[:-2])
    made[b] = found.reshape([n for n in b.shape if isinstance(n, int)])
    either = Where(Load(b, p.packed.index[:-2]), p.packed, p.packed)
    given: dict[Expr, Expr] = {p.packed: either}
    return Compute(s.buffer, s.axes, rewrite(s.expr, given))


def runs_of(p: Product) -> list[tuple[int, int]]:
    """The runs of a block, each cut where some rows leave out its ends: terms, and fours that the
    packed operand has for them."""
    found = []
    cuts = [e for e in (edges_of(p) if p.c.edges else []) if e[2] == MOST_LOOPS]
    for terms, _, rows, *loops in segments(p):
        extents = [terms, rows, *loops[:3], *(n for e in cuts for n in e[3:])]
        n, held, d0, d1, d2, *ends = (x for x in extents if isinstance(x, int))
        first, last = ends or (0, 0)
        parts = [(first, first), (n - first - last, held - first - last), (last, last)]
        found += [(i, -(-j // FOUR)) for i, j in parts if j] * (d0 * d1 * d2)
    return found


def pairs_of(packed: Array, runs: list[tuple[int, int]]) -> Array:
    """Whether each four [.., four] of the weights [.., four, lane, 4] is taken with the next: from
    the left of each run, wherever it can be."""
    fours = sum(held for _, held in runs)
    w = packed.reshape(-1, fours, *packed.shape[-2:])
    fits = np.ones((len(w), fours - 1), bool)
    for signed in (np.maximum(w, 0), -np.minimum(w, 0)):
        sizes = signed.view(np.uint8)
        sums = sizes[..., ::2] + sizes[..., 1::2]
        fits &= (sums[:, 1:] <= MOST - sums[:, :-1]).all((-2, -1))
    found, free, first = np.zeros(w.shape[:2], bool), np.ones(len(w), bool), 0
    for terms, held in runs:
        free[:] = True
        for left in range(first, first + terms // FOUR - 1):
            found[:, left] = free & fits[:, left]
            free = ~found[:, left]
        first += held
    return found
