"""A subgraph as a function of values: what a graph attribute is to a host function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sardonyx.errors import InvalidModel
from sardonyx.graph import Graph
from sardonyx.types import TensorType, Value


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A subgraph as a function of values: what its graph attribute is to a host function.

    graph: its inputs are the subgraph's own, in order, then what it captures."""

    graph: Graph
    run: Callable[[Mapping[str, Value]], Mapping[str, Value]]
    captured: Mapping[str, Value]
    arity: int

    def __call__(self, *values: Value) -> tuple[Value, ...]:
        own = self.graph.inputs[: self.arity]
        if len(values) != len(own):
            raise InvalidModel(f"'{self.graph.name}' takes {len(own)} inputs, given {len(values)}")
        found = self.run({**self.captured, **dict(zip(own, values, strict=True))})
        return tuple(found[name] for name in self.graph.outputs)

    def output(self, i: int) -> TensorType | None:
        """The type that is stated of output i."""
        return self.graph.types.get(self.graph.outputs[i])
