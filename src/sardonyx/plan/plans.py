"""Plans of a program whose symbolic dims get their numbers when it runs.

    plans = Plans(outline, slots, workers, most)
    plans.at({"N": 4})        a plan with room for these sizes, and its table of offsets

A plan is valid for all sizes that nowhere exceed those it was made for (docs/machine.md, section
10). The first sizes get a plan of their own; after them sizes are rounded up, by an eighth at most:
a cache of keys that grows by a token each run is planned eight times while it doubles.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from sardonyx.dims import Dim, evaluate, greatest, product
from sardonyx.errors import InternalError, LimitExceeded
from sardonyx.plan.outline import Outline, Slot, offsets_of
from sardonyx.plan.place import plan
from sardonyx.plan.timeline import Plan
from sardonyx.types import Array, DType

KEPT = 64  # plans


@dataclass(frozen=True, slots=True)
class Workers:
    """The scratch of each thread but the first: `kernels` bytes, and where a batch has at least as
    many elements as there are threads what one takes; elements: (bytes, the size of the batch)."""

    kernels: Dim = 0
    elements: tuple[tuple[int, Dim], ...] = ()

    def at(self, dims: Mapping[str, int], threads: int) -> int:
        """The bytes of each."""
        some = (n for n, count in self.elements if evaluate(count, dims) >= threads)
        return max((evaluate(self.kernels, dims), *some))

    def within(self, most: Mapping[str, int]) -> Workers:
        """That for all numbers of the dims from 1 to these."""
        return replace(self, kernels=greatest(self.kernels, most))


@dataclass(frozen=True, slots=True, eq=False)
class Planned:
    """A plan for these numbers of the dims."""

    dims: Mapping[str, int]
    plan: Plan
    offsets: Array
    workers: Workers

    def size(self, threads: int) -> int:
        """N: M for one thread, then the scratch of the others."""
        return self.plan.size_for(threads, self.workers.at(self.dims, threads))


Planner: TypeAlias = Callable[[Mapping[str, int]], Planned]


def always(made: Plan, workers: Workers) -> Planner:
    """The plan of a program without symbolic dims."""
    found = Planned({}, made, np.zeros(1, np.int64), workers)
    return lambda dims: found


class Plans:
    """The plans of one program. most: bytes of M that a plan for rounded sizes may have."""

    def __init__(
        self, outline: Outline, slots: Sequence[Slot], workers: Workers, most: int
    ) -> None:
        self._outline, self._slots, self._workers, self._most = outline, slots, workers, most
        self._made: OrderedDict[tuple[int, ...], Planned] = OrderedDict()
        self._counts, self._pairs = _counts(outline), _pairs(outline)

    def at(self, dims: Mapping[str, int]) -> Planned:
        """A plan with room for these sizes. Raises LimitExceeded where no memory has it, and
        InternalError where sizes differ that must be equal, or one is negative."""
        for a, b in self._outline.equal:
            if evaluate(a, dims) != evaluate(b, dims):
                raise InternalError(f"the sizes {a} and {b} differ")
        for size in self._outline.sizes:
            if evaluate(size, dims) < 0:
                raise InternalError(f"the size {size} is negative")
        if not self._made or tuple(dims.values()) in self._made:
            return self._exact(dims)
        wide = {name: _rounded(n) for name, n in dims.items()}
        if any(evaluate(size, wide) < 0 for size in self._outline.sizes):
            return self._exact(dims)
        try:
            found = self._exact(wide)
        except LimitExceeded:
            return self._exact(dims)
        return found if self._covers(found, dims) else self._exact(dims)

    def _exact(self, dims: Mapping[str, int]) -> Planned:
        key = tuple(dims.values())
        if key not in self._made:
            made = plan(self._outline.at(dims))
            offsets = offsets_of(self._slots, made)
            self._made[key] = Planned(dims, made, offsets, self._workers)
            if len(self._made) > KEPT:
                self._made.popitem(last=False)
        self._made.move_to_end(key)
        return self._made[key]

    def _covers(self, made: Planned, dims: Mapping[str, int]) -> bool:
        """Whether the plan is valid for these numbers, too."""
        sizes = (
            (dtype.bytes(evaluate(n, dims)), dtype.bytes(evaluate(n, made.dims)))
            for dtype, n in self._counts
        )
        return (
            made.plan.size <= self._most
            and all(here <= there for here, there in sizes)
            and all(evaluate(x, dims) == evaluate(y, dims) for x, y in self._pairs)
            and self._workers.at(dims, 1) <= self._workers.at(made.dims, 1)
        )


def _rounded(n: int) -> int:
    """n rounded up to four binary digits."""
    step = 1 << max(0, n.bit_length() - 4)
    return -(-n // step) * step


def _counts(outline: Outline) -> list[tuple[DType, Dim]]:
    """The numbers of elements of what lies in M, each once."""
    inside = [x for n, x in outline.tensors.items() if n not in outline.outside]
    kinds = (*inside, *(x for step in outline.scratch for x in step))
    counts = ((x.dtype, product(x.shape or ())) for x in kinds)
    return [(dtype, n) for dtype, n in dict.fromkeys(counts) if not isinstance(n, int)]


def _pairs(outline: Outline) -> list[tuple[Dim, Dim]]:
    """The numbers of bytes that share a place and are not the same expression."""

    def size(name: str) -> Dim:
        x = outline.tensors[name]
        return product(x.shape or ()) * x.dtype.bits

    pairs = ((size(a), size(b)) for s in outline.steps for a, b in (*s.views, *s.in_place))
    return [(x, y) for x, y in dict.fromkeys(pairs) if x != y]
