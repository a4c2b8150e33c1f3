"""Two traces side by side: the first step that differs, and by how many ulp."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sardonyx import types as t
from sardonyx.trace.read import Record, Touched, Trace
from sardonyx.trace.replay import Find
from sardonyx.trace.values import tensor
from sardonyx.types import Array, DType


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two traces part: a step (None: before the first or after the last), and what."""

    step: int | None
    what: str


def differences(a: Trace, b: Trace) -> Iterator[Difference]:
    """What differs in the headers, then the first step that does, if one does."""
    for key in ("numerics", "model", "graph", "plan", "memory", "outputs"):
        if a.header.get(key) != b.header.get(key):
            found = f"{a.header.get(key)} and {b.header.get(key)}"
            yield Difference(None, f"the {key} differ: {found}")
    inputs = {x.name: x.before for x in b.initial}
    for x in a.initial:
        if inputs.get(x.name) != x.before:
            yield Difference(None, f"'{x.name}' starts with other elements")
    for p, q in zip(a.steps, b.steps, strict=False):
        what = _step(p, q)
        if what:
            yield Difference(p.number, f"{p}: {what}")
            return
    if len(a.steps) != len(b.steps):
        yield Difference(min(len(a.steps), len(b.steps)), "only one of the traces has this step")
    if a.footer != b.footer:
        yield Difference(None, "the footers differ")


def _step(x: Record, y: Record) -> str:
    """What differs in one step; what it computed comes first. What it reads was written, and told,
    before."""
    if (dict(x.operation), x.scope) != (dict(y.operation), y.scope):
        return f"another operation, {y}"
    if [u.name for u in x.writes] != [u.name for u in y.writes]:
        return "other tensors written"
    pairs = list(zip(x.writes, y.writes, strict=True))
    written = [u.name for u, v in pairs if u.after != v.after]
    if written:
        return f"writes other elements into {', '.join(f'{n!r}' for n in written)}"
    if x.flags != y.flags:
        return f"other flags: {dict(x.flags)} and {dict(y.flags)}"
    if [u.before for u in x.writes] != [u.before for u in y.writes]:
        return "other elements where it is about to write"
    places = [[(u.name, u.offset, u.size) for u in (*s.reads, *s.writes)] for s in (x, y)]
    return "" if places[0] == places[1] else "other places in M"


def first_write(a: Trace, b: Trace) -> tuple[Touched, Touched] | None:
    """The first write whose elements differ."""
    for x, y in zip(a.steps, b.steps, strict=False):
        for u, v in zip(x.writes, y.writes, strict=False):
            if u.after != v.after:
                return u, v
    return None


def distance(pair: tuple[Touched, Touched], finds: tuple[Find, Find]) -> str:
    """By how much the elements of a write differ, in words; "" where a value was not kept."""
    if t.string in (pair[0].dtype, pair[1].dtype):
        return "values that are no tensors of numbers"
    x, y = (tensor(w, find(w.after)) for w, find in zip(pair, finds, strict=True))
    if x is None or y is None:
        return ""
    if x.shape != y.shape or x.dtype != y.dtype:
        return f"{x.dtype}{list(x.shape)} and {y.dtype}{list(y.shape)}"
    apart = ulps(x, y, pair[0].dtype)
    at = int(np.argmax(apart))
    index = [int(i) for i in np.unravel_index(at, x.shape)]
    unit = "ulp" if pair[0].dtype.is_float else "units"
    return (
        f"{int(np.count_nonzero(apart))} of {x.size} elements; the furthest apart, by "
        f"{float(apart.flat[at]):g} {unit}, are {x.flat[at]} and {y.flat[at]} at {index}"
    )


def ulps(x: Array, y: Array, dtype: DType) -> Array:
    """The distance of each pair of elements: floats counted in floats between them (infinite
    where one of them is NaN and not the other), integers as numbers."""
    if not dtype.is_float:
        return np.asarray(np.abs(x.astype(np.float64) - y.astype(np.float64)))
    a, b = (_ordered(v, dtype) for v in (x, y))
    between = np.maximum(a, b).view(np.uint64) - np.minimum(a, b).view(np.uint64)
    apart = between.astype(np.float64)
    one = np.isnan(x) != np.isnan(y)
    both = np.isnan(x) & np.isnan(y)
    return np.where(both, (a != b).astype(np.float64), np.where(one, np.inf, apart))


def _ordered(x: Array, dtype: DType) -> Array:
    """Integers in the order of the floats; -0 and +0 are one apart."""
    bits = np.ascontiguousarray(x).view(f"i{dtype.size}").astype(np.int64)
    least = -(1 << (8 * dtype.size - 1))
    return np.asarray(np.where(bits < 0, least + (-1 - bits), bits))
