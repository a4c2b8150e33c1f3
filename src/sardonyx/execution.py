"""Executions of graphs in stages (stages.py), and what runs the parts.

Runner(make_engine).run(graph, values)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from threading import RLock
from typing import Generic, Protocol, TypeVar

import numpy as np

from sardonyx.errors import InvalidModel
from sardonyx.graph import Graph, Operation
from sardonyx.host import perform, performing, told
from sardonyx.ops.body import Body
from sardonyx.stages import KEPT, Stage, Stages
from sardonyx.types import Array, Value


class Execution:
    """One execution of a graph in stages."""

    def __init__(
        self,
        stages: Stages,
        values: Mapping[str, Value],
        run_body: Callable[[Graph, Mapping[str, Value]], Mapping[str, Value]],
    ) -> None:
        self.stages = stages
        self.env: dict[str, Value] = {**stages.graph.initializers, **values}
        self.taken: list[Stage] = []  # the stages so far
        self._fed = frozenset(values)
        self._point = stages.start(values)
        self._run_body = run_body

    def next(self) -> Stage | None:
        """The next stage; None at the end."""
        return self.stages.next(self._point, self.env)

    def feeds(self, stage: Stage) -> dict[str, Array]:
        """What the part of a stage is fed with."""
        assert stage.part is not None
        names = (*stage.part.inputs, *(n for n in stage.part.overridable if n in self._fed))
        return {n: v for n in names if isinstance(v := self.env[n], np.ndarray)}

    def perform(self, stage: Stage) -> dict[str, Value]:
        """What the operation of a host stage gives, by name."""
        (index,) = stage.operations
        op = self.stages.graph.operations[index]
        values = [self.env[name] if name else None for name in op.inputs]
        graph, acts = self.stages.graph, self.stages.acts
        if op.subgraphs:
            return told(op, perform, graph, op, values, self._bodies(index, op))
        if index not in acts:
            acts[index] = performing(graph, op)
        return told(op, acts[index], values)

    def finish(self, stage: Stage, results: Mapping[str, Value]) -> None:
        """Takes over what a stage gave, and drops what nothing needs any more."""
        self.env.update(results)
        self.taken.append(stage)
        self._point = self.stages.follow(self._point, stage, results, self.env.keys())
        for name in self._point.gone:
            del self.env[name]

    def outputs(self) -> dict[str, Value]:
        """The graph outputs by name, at the end."""
        missing = [n for n in self.stages.graph.outputs if n not in self.env]
        if missing:
            raise InvalidModel(f"the graph outputs {', '.join(missing)} have no value at the end")
        return {n: self.env[n] for n in self.stages.graph.outputs}

    def _bodies(self, index: int, op: Operation) -> dict[str, Body]:
        bodies = {}
        for name, inner in op.subgraphs.items():
            graph, arity = self.stages.bodies[index, name], len(inner.inputs)
            captured = {n: self.env[n] for n in graph.inputs[arity:]}

            def run(values: Mapping[str, Value], graph: Graph = graph) -> Mapping[str, Value]:
                return self._run_body(graph, values)

            bodies[name] = Body(graph, run, captured, arity)
        return bodies


class Runs(Protocol):
    """What runs a part."""

    def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        """The outputs by name."""


Made = TypeVar("Made", bound=Runs)


class Runner(Generic[Made]):
    """Runs graphs in stages, and the subgraphs in them; each part has what runs it made once.

    performed: hears of each operation that the host performed."""

    def __init__(
        self,
        make: Callable[[Graph], Made],
        performed: Callable[[Operation], None] | None = None,
    ) -> None:
        self._make = make
        self._performed = performed
        self._made: OrderedDict[Graph, Made] = OrderedDict()
        self._stages: dict[Graph, Stages] = {}
        self._short: dict[Graph, Callable[[Mapping[str, Value]], dict[str, Value] | None]] = {}
        self._lock = RLock()

    def run(self, graph: Graph, values: Mapping[str, Value]) -> dict[str, Value]:
        """The outputs of a graph whose inputs have these values."""
        return self.finish(self.begin(graph, values))

    def begin(self, graph: Graph, values: Mapping[str, Value]) -> Execution:
        """An execution of a graph whose inputs have these values, for `finish`."""
        known = self._stages.get(graph)
        symbols = frozenset(graph.symbols) if known is None else known.symbols
        return self.execution(graph, values, symbols)

    def _body(self, graph: Graph, values: Mapping[str, Value]) -> dict[str, Value]:
        short = self._short.get(graph)
        found = None if short is None else short(values)
        if found is None:
            execution = self.execution(graph, values)
            found = self.finish(execution)
            self._shorten(graph, execution.taken)
        return found

    def _shorten(self, graph: Graph, taken: Sequence[Stage]) -> None:
        """Remembers that a subgraph was one part, and would be for other values of these sizes,
        which what runs the part knows again."""
        part = taken[0].part if len(taken) == 1 and not taken[0].by_values else None
        quick = None if part is None else getattr(self.made(part), "quick", None)
        if part is None or quick is None or not {*part.outputs, *graph.inputs} >= {*graph.outputs}:
            self._short.pop(graph, None)
            return
        inputs, outputs = part.inputs, part.outputs

        def short(values: Mapping[str, Value]) -> dict[str, Value] | None:
            found = quick({n: values[n] for n in inputs if n in values})
            if found is None:
                return None
            given = {**values, **dict(zip(outputs, found, strict=True))}
            return {n: given[n] for n in graph.outputs}

        self._short[graph] = short

    def finish(self, execution: Execution) -> dict[str, Value]:
        """The outputs of an execution."""
        while (stage := execution.next()) is not None:
            execution.finish(stage, self.take(execution, stage))
        return execution.outputs()

    def take(self, execution: Execution, stage: Stage) -> Mapping[str, Value]:
        """What a stage of an execution gives."""
        if stage.part is not None:
            return self.made(stage.part).run(execution.feeds(stage))
        found = execution.perform(stage)
        if self._performed is not None:
            self._performed(execution.stages.graph.operations[stage.operations[0]])
        return found

    def execution(
        self, graph: Graph, values: Mapping[str, Value], symbols: frozenset[str] = frozenset()
    ) -> Execution:
        """An execution of a graph, to be taken stage by stage; `symbols` as in Stages."""
        with self._lock:
            if graph not in self._stages:
                self._stages[graph] = Stages(graph, symbols)
            return Execution(self._stages[graph], values, self._body)

    def made(self, part: Graph) -> Made:
        """What runs a part."""
        with self._lock:
            if part not in self._made:
                self._made[part] = self._make(part)
                if len(self._made) > KEPT:
                    self._made.popitem(last=False)
            self._made.move_to_end(part)
            return self._made[part]

    def all_made(self) -> tuple[Made, ...]:
        """What has been made."""
        with self._lock:
            return tuple(self._made.values())
