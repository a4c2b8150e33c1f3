"""A graph with control flow as one program, for the sizes (and values) that it is often fed with.

Where sizes are numbers, If, Loop and Scan can be compiled (passes/lower.py); an If or Loop whose
condition follows from small inputs is decided before. Such a program takes seconds to compile, and
serves one set of sizes: the first ones get it at once, others when they have come often enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Generic, Protocol, TypeVar

import numpy as np

from sardonyx.errors import ModelError, Undetermined
from sardonyx.feeds import Values, values_key
from sardonyx.graph import Graph
from sardonyx.infer import bind, infer, value_inputs
from sardonyx.passes.lower import lower
from sardonyx.types import Array, TensorType, Value

OFTEN = 4  # runs with the same sizes
PROGRAMS = 8  # of one graph at most
SMALL = 8  # elements of an input whose value may decide a branch


class Program(Protocol):
    """What a program is run by."""

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Value]:
        """The outputs by name."""

    def quick(self, feeds: Mapping[str, Array]) -> list[Array] | None:
        """The outputs in order, where the feeds are like those of the last run."""

    def memory(self) -> tuple[int, int]:
        """N and its lower bound."""


Made = TypeVar("Made", bound=Program)


@dataclass(slots=True, eq=False)
class Programs(Generic[Made]):
    """The programs of one graph."""

    graph: Graph
    make: Callable[[Graph], Made]
    made: dict[object, Made | None] = field(default_factory=dict)
    _sizes: frozenset[str] = field(init=False)  # inputs whose values decide sizes
    _asked: dict[object, int] = field(default_factory=dict)
    _last: tuple[Values, Made] | None = None  # the values that it is made for
    _lock: RLock = field(default_factory=RLock)

    def __post_init__(self) -> None:
        self._sizes = frozenset(value_inputs(self.graph))

    def quick(self, feeds: Mapping[str, Value]) -> list[Array] | None:
        """The outputs in order, where the feeds are like those of the last program's last run."""
        if self._last is None:
            return None
        values, program = self._last
        same = values_key((n for n, _ in values), feeds) == values
        return program.quick(feeds) if same else None

    def never(self, fed: Mapping[str, Value]) -> bool:
        """Whether there is no program for feeds of these shapes, whatever their values."""
        arrays = {n: v for n, v in fed.items() if isinstance(v, np.ndarray) and v.dtype != object}
        if arrays.keys() != fed.keys():
            return True
        shapes = _shapes(arrays)
        keys = set(_deciding(self._sizes, arrays))
        return keys == {()} and self.made.get((shapes, ()), self) is None

    def find(self, fed: Mapping[str, Value]) -> Made | None:
        """The program for these feeds, made now if it is time; None where stages have to do."""
        arrays = {n: v for n, v in fed.items() if isinstance(v, np.ndarray) and v.dtype != object}
        inputs = set(self.graph.inputs)
        if arrays.keys() != inputs or not inputs <= self.graph.types.keys():
            return None  # a sequence or an optional among them
        with self._lock:
            shapes = _shapes(arrays)
            for values in _deciding(self._sizes, arrays):
                key = shapes, values
                if key not in self.made and self._is_time(key):
                    found = _program(self.graph, arrays, values)
                    self.made[key] = None if found is None else self.make(found)
                program = self.made.get(key)
                if program is not None:
                    self._last = values, program
                    return program
        return None

    def _is_time(self, key: object) -> bool:
        """Whether the key is the first, or has come often; never where none could be made, or
        there are enough."""
        if len(self.made) >= 2 * PROGRAMS or (len(self.made) > 2 and not any(self.made.values())):
            return False
        self._asked[key] = self._asked.get(key, 0) + 1
        if len(self._asked) > 64 * PROGRAMS:
            self._asked.clear()
        return len(self.made) < 2 or self._asked.get(key, 0) >= OFTEN


def _shapes(fed: Mapping[str, Array]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return tuple((n, v.shape) for n, v in sorted(fed.items()))


def _deciding(sizes: frozenset[str], fed: Mapping[str, Array]) -> Iterator[Values]:
    """The values for which there may be a program: of what decides sizes, then of all that is
    small."""
    small = {n for n, v in fed.items() if v.size <= SMALL and v.dtype.kind in "biu"}
    for names in (sizes, sizes | small):
        yield values_key(sorted(names), fed)


def _program(graph: Graph, fed: Mapping[str, Array], values: Values) -> Graph | None:
    types = {n: TensorType(graph.types[n].dtype, v.shape) for n, v in fed.items()}
    try:
        graph = bind(graph, types, fed)
        if values:
            known = {n: fed[n] for n, _ in values}
            graph = infer(replace(graph, values={**graph.values, **known}, declared={}))
        return graph if is_program(graph) else None
    except (Undetermined, ModelError):
        return None


def is_program(graph: Graph) -> bool:
    """Whether a graph can be compiled as a whole, its control flow included. A body that breaks a
    rule may be a branch that is never taken."""
    try:
        return not graph.symbols and bool(lower(graph).launches)
    except (Undetermined, ModelError):
        return False
