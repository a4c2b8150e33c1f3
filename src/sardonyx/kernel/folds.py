"""Folds over NumPy arrays: the terms lie along the first dimension of their arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product as cartesian
from math import prod

import numpy as np

from sardonyx.errors import LimitExceeded
from sardonyx.kernel import arith
from sardonyx.kernel.expr import Fold
from sardonyx.types import Array

LANES = 16
BUDGET = 1 << 22  # elements of one evaluated operand of a fold
TERMS = 1 << 28  # terms of one fold that are evaluated at once


def identity(e: Fold) -> int | float | bool:
    """What a fold without terms gives."""
    if e.dtype.kind == "b":
        return e.kind in ("min", "and")
    if e.kind in ("min", "max") and e.dtype.is_float:
        return float("inf") if e.kind == "min" else float("-inf")
    if e.kind in ("min", "max", "and"):
        return e.dtype.min if e.kind == "max" else e.dtype.max
    return int(e.kind == "prod")


def is_free(e: Fold) -> bool:
    """Whether the terms may come in any order: integers wrap."""
    return e.kind in ("min", "max", "and", "or") or (
        e.kind in ("sum", "prod") and e.dtype.is_integer
    )


def fused_dot(a: Array, b: Array, when: Sequence[Array], acc: Array) -> Array:
    """acc with one fused multiply-add per float32 term, in order."""
    tiny = arith.may_be_tiny(a, b)
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    for i in range(len(a)):
        step = arith.fma_terms(wide_a[i], wide_b[i], acc, tiny)
        acc = np.where(when[0][i], step, acc) if when else step
    return acc


def lanes(e: Fold, terms: Array) -> Array:
    """16 partial results, element i to partial i mod 16, then p[j] with p[j + 8], 4, 2, 1."""
    combine = np.add if e.kind == "sum" else np.multiply
    start = np.array(identity(e), e.dtype.numpy)
    missing = -len(terms) % LANES
    padding = np.broadcast_to(start, (missing, *terms.shape[1:]))
    rows = np.concatenate([terms, padding]).reshape((-1, LANES, *terms.shape[1:]))
    partial = np.broadcast_to(start, rows.shape[1:])
    for row in rows:
        partial = combine(partial, row, dtype=e.dtype.numpy)
    width = LANES
    while width > 1:
        width //= 2
        partial = combine(partial[:width], partial[width : 2 * width], dtype=e.dtype.numpy)
    return np.asarray(partial[0])


def select(e: Fold, terms: Array) -> Array:
    """min, max, and, or: no order, so NumPy's reduction serves but for the sign of zeros."""
    match e.kind:
        case "and":
            return np.asarray(np.bitwise_and.reduce(terms, axis=0))
        case "or":
            return np.asarray(np.bitwise_or.reduce(terms, axis=0))
        case "min":
            found = np.minimum.reduce(terms, axis=0)
        case _:
            found = np.maximum.reduce(terms, axis=0)
    if e.dtype.is_float and np.any(found == 0):
        zeros = np.signbit(terms) == (e.kind == "min")
        preferred = np.any((terms == 0) & zeros, axis=0)
        signed = np.where(preferred == (e.kind == "min"), -0.0, 0.0).astype(found.dtype)
        found = np.where(found == 0, signed, found)
    return np.asarray(found)


def blocks(shape: tuple[int, ...], terms: int) -> Iterator[tuple[range, ...]]:
    """The points of a shape in blocks small enough to evaluate `terms` terms of each at once."""
    if terms > TERMS:
        raise LimitExceeded(f"a fold has {terms} terms, more than {TERMS} can be evaluated")
    split = 0
    while split < len(shape) and prod(shape[split + 1 :]) * terms > 4 * BUDGET:
        split += 1
    rows = max(1, 4 * BUDGET // max(1, prod(shape[split + 1 :]) * terms))
    steps = [rows if i == split else 1 if i < split else n for i, n in enumerate(shape)]
    starts = (range(0, n, step) for n, step in zip(shape, steps, strict=True))
    for corner in cartesian(*starts):
        ends = (min(i + step, n) for i, step, n in zip(corner, steps, shape, strict=True))
        yield tuple(map(range, corner, ends))
