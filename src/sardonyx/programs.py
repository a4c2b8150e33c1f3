"""The programs of a graph in stages (stages.py), each of which serves it as a whole: all sizes of
which something holds (supposed.py), or single sizes, and the values of what decides them.

Such a program takes seconds to compile: the first sizes get one at once, others that need one of
their own when they have come often enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import RLock
from typing import Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from sardonyx.feeds import Values, values_key
from sardonyx.types import Array, Value

OFTEN = 4  # runs with the same sizes
PROGRAMS = 8  # of one graph at most
SMALL = 8  # elements of an input whose value may decide a branch
Shapes: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]


class Program(Protocol):
    """What a program is run by."""

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Value]:
        """The outputs by name."""

    def quick(self, feeds: Mapping[str, Array]) -> list[Array] | None:
        """The outputs in order, where the feeds are like those of the last run."""

    def memory(self) -> tuple[int, int]:
        """N and its lower bound."""


Made = TypeVar("Made", bound=Program)
Wide: TypeAlias = tuple[Callable[[Mapping[str, Array]], bool], Made]  # for whom, the program


def largest(sizes: Iterable[tuple[int, int]]) -> tuple[int, int]:
    """The largest N, and the largest lower bound; 0 of none."""
    ns, bounds = zip((0, 0), *sizes, strict=True)
    return max(ns), max(bounds)


@dataclass(slots=True, eq=False)
class Programs(Generic[Made]):
    """The programs of one graph. inputs: all of the graph's, or none where some are no tensors;
    sizes: those whose values decide sizes. make: for feeds, and the values among them that it may
    be made for; None where there is none. often: runs with the same sizes that are worth one.
    suppose: a program for feeds and all others for which what is with it says so, or None."""

    inputs: frozenset[str]
    sizes: frozenset[str]
    make: Callable[[Mapping[str, Array], Values], Made | None]
    often: int = OFTEN
    suppose: Callable[[Mapping[str, Array]], Wide[Made] | None] = lambda fed: None
    wide: list[Wide[Made]] = field(default_factory=list)
    made: dict[object, Made | None] = field(default_factory=dict)
    _asked: dict[object, int] = field(default_factory=dict)
    _last: tuple[Values, Made] | None = None  # the values that it is made for
    _lock: RLock = field(default_factory=RLock)
    _supposed: int = 0  # times that a wide program was asked for

    def quick(self, feeds: Mapping[str, Value]) -> list[Array] | None:
        """The outputs in order, where the feeds are like those of the last program's last run."""
        if self._last is None:
            return None
        values, program = self._last
        same = values_key((n for n, _ in values), feeds) == values
        return program.quick(feeds) if same else None

    def all_made(self) -> tuple[Made, ...]:
        """The programs that there are."""
        return (*(program for _, program in self.wide), *filter(None, self.made.values()))

    def never(self, fed: Mapping[str, Value]) -> bool:
        """Whether there is no program for feeds of these shapes, whatever their values."""
        arrays = {n: v for n, v in fed.items() if isinstance(v, np.ndarray) and v.dtype != object}
        if arrays.keys() != fed.keys():
            return True
        shapes = shapes_of(arrays)
        keys = set(_deciding(self.sizes, arrays))
        return keys == {()} and self.made.get((shapes, ()), self) is None

    def find(self, fed: Mapping[str, Value]) -> Made | None:
        """The program for these feeds, made now if it is time; None where stages have to do."""
        arrays = {n: v for n, v in fed.items() if isinstance(v, np.ndarray) and v.dtype != object}
        if arrays.keys() != self.inputs:
            return None  # a sequence or an optional among them, or a weight
        with self._lock:
            found = self._widely(arrays)
            if found is not None:
                self._last = (), found
                return found
            shapes = shapes_of(arrays)
            for values in _deciding(self.sizes, arrays):
                key = shapes, values
                if key not in self.made and self._is_time(key):
                    self.made[key] = self.make(arrays, values)
                program = self.made.get(key)
                if program is not None:
                    self._last = values, program
                    return program
        return None

    def _widely(self, fed: Mapping[str, Array]) -> Made | None:
        """The program for feeds of these sizes and others, made now if there may be one more."""
        found = next((program for fits, program in self.wide if fits(fed)), None)
        if found is None and self._supposed < min(PROGRAMS, 2 * len(self.wide) + 2):
            self._supposed += 1
            made = self.suppose(fed)
            if made is not None:
                self.wide.append(made)
                return made[1]
        return found

    def _is_time(self, key: object) -> bool:
        """Whether the key is the first, or has come often; never where none could be made, or
        there are enough."""
        if len(self.made) >= 2 * PROGRAMS or (len(self.made) > 2 and not any(self.made.values())):
            return False
        self._asked[key] = self._asked.get(key, 0) + 1
        if len(self._asked) > 64 * PROGRAMS:
            self._asked.clear()
        return len(self.made) < 2 or self._asked.get(key, 0) >= self.often


def shapes_of(fed: Mapping[str, Array]) -> Shapes:
    """The shapes by name, whatever the order of the feeds."""
    return tuple((n, v.shape) for n, v in sorted(fed.items()))


def _deciding(sizes: frozenset[str], fed: Mapping[str, Array]) -> Iterator[Values]:
    """The values for which there may be a program: of what decides sizes, then of all that is
    small."""
    small = {n for n, v in fed.items() if v.size <= SMALL and v.dtype.kind in "biu"}
    for names in (sizes, sizes | small):
        yield values_key(sorted(names), fed)
