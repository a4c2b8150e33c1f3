"""The time of each operation: a run with a clock read before and after each.

    for timing in timings(graph, feeds, runs=10): ...

On the native engine what is timed is a launch of its program: mostly several operations, which it
fuses. The program is the engine's own, compiled for these sizes, but for the two clock reads (about
50 ns) per launch. On the machine it is a step; of what the host performs, an operation.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import starmap

import numpy as np

from sardonyx.build import rows_of_bytes
from sardonyx.clocked import Clocked, clocked
from sardonyx.engines import choose
from sardonyx.errors import ModelError, Undetermined
from sardonyx.execution import Runner
from sardonyx.feeds import checked
from sardonyx.graph import Graph, Operation
from sardonyx.infer import bind, value_inputs
from sardonyx.machine import Machine, StepRecord
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.program import Launch, Program, each
from sardonyx.settings import Tuning
from sardonyx.threads import Pool, pool_of
from sardonyx.tune import chosen, lookup
from sardonyx.types import Array, TensorType, Value, by_numpy
from sardonyx.whole import is_program, whole


@dataclass(frozen=True, slots=True)
class Work:
    """What is timed: operations, what they read (weights apart) and write; kind is "launch",
    "step" (of the machine) or "host operation"."""

    kind: str
    operations: tuple[Operation, ...]
    reads: tuple[TensorType, ...] = ()
    weights: tuple[TensorType, ...] = ()
    writes: tuple[TensorType, ...] = ()


@dataclass(frozen=True, slots=True)
class Timing:
    """One piece of work in one run; nanoseconds of time.monotonic_ns()."""

    work: Work
    begin: int
    duration: int


def timings(
    graph: Graph,
    feeds: Mapping[str, Value],
    runs: int,
    threads: int = 1,
    tuning: Tuning | None = None,
) -> list[list[Timing]]:
    """The timings of each of so many runs, after one that is not counted; threads, tuning: of the
    native engine."""
    run = _timed(graph, feeds, pool_of(threads), tuning)
    run.feed(feeds)
    return [run.feed(feeds) for _ in range(runs)]


class _Steps:
    """The machine, step by step."""

    def __init__(self, graph: Graph) -> None:
        self._machine = Machine(graph)

    def feed(self, feeds: Mapping[str, Value]) -> list[Timing]:
        self._machine.start(feeds)
        found = list[Timing]()
        while True:
            begin = time.monotonic_ns()
            record = self._machine.step()
            if record is None:
                return found
            found.append(Timing(_step(record), begin, time.monotonic_ns() - begin))


class _Part:
    """A graph compiled with clock reads, for the sizes of the feeds."""

    def __init__(self, graph: Graph, pool: Pool, tuning: Tuning | None) -> None:
        self.graph, self._pool, self._tuning = graph, pool, tuning
        self.found: list[Timing] = []
        self._made: dict[object, _Compiled] = {}

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs; `found` is longer by the timings."""
        fed = {n: np.require(v, requirements=["C", "A"]) for n, v in feeds.items()}
        deciding = value_inputs(self.graph)
        key = tuple((n, v.shape, v.tobytes() if n in deciding else b"") for n, v in fed.items())
        if key not in self._made:
            self._made[key] = _compiled(self.graph, fed, self._pool, self._tuning)
        outputs, found = self._made[key](fed)
        self.found += found
        return outputs

    def feed(self, feeds: Mapping[str, Value]) -> list[Timing]:
        self.found = []
        self.run({n: v for n, v in checked(self.graph, feeds).items() if isinstance(v, np.ndarray)})
        return self.found


class _Staged:
    """A graph in stages: its parts compiled, the rest performed by the host."""

    def __init__(self, graph: Graph, pool: Pool, tuning: Tuning | None) -> None:
        self.graph = graph
        self._runner = Runner(partial(_Part, pool=pool, tuning=tuning))

    def feed(self, feeds: Mapping[str, Value]) -> list[Timing]:
        graph, found = self.graph, list[Timing]()
        given = checked(graph, feeds)
        execution = self._runner.execution(graph, given, frozenset(graph.symbols))
        while (stage := execution.next()) is not None:
            if stage.part is None:
                begin = time.monotonic_ns()
                results = execution.perform(stage)
                op = execution.stages.graph.operations[stage.operations[0]]
                work = Work("host operation", (op,), writes=_types(results.values()))
                found.append(Timing(work, begin, time.monotonic_ns() - begin))
                execution.finish(stage, results)
            else:
                part = self._runner.made(stage.part)
                part.found = []
                execution.finish(stage, part.run(execution.feeds(stage)))
                found += part.found
        return found


@dataclass(frozen=True, slots=True, eq=False)
class _Compiled:
    graph: Graph
    works: tuple[Work, ...]
    run: Clocked

    def __call__(self, fed: Mapping[str, Array]) -> tuple[dict[str, Array], list[Timing]]:
        inputs = self.run.program.inputs
        found, times = self.run({n: fed.get(n, self.graph.initializers.get(n)) for n in inputs})
        pairs = zip(self.works, times, strict=True)  # of a branch that is not taken there is none
        return found, [Timing(work, *time) for work, time in pairs if time[0]]


def _timed(
    graph: Graph, feeds: Mapping[str, Value], pool: Pool, tuning: Tuning | None
) -> _Steps | _Part | _Staged:
    if choose() == "machine":
        return _Steps(graph)
    try:
        part = _Part(graph, pool, tuning)
        part.feed(feeds)
    except (Undetermined, ModelError):
        arrays = {n: v for n, v in feeds.items() if isinstance(v, np.ndarray)}
        found = whole(graph, arrays) if arrays.keys() == set(graph.inputs) else None
        return _Staged(graph, pool, tuning) if found is None else _Part(found, pool, tuning)
    return part


def _compiled(
    graph: Graph, fed: Mapping[str, Array], pool: Pool, tuning: Tuning | None
) -> _Compiled:
    types = {n: TensorType(graph.types[n].dtype, v.shape) for n, v in fed.items()}
    bound = graph if is_program(graph) else bind(graph, types, fed)
    overridable = any(n in fed for n in bound.overridable)
    program = optimise(lower(bound, overridable=overridable), roomy=True, dots=rows_of_bytes())
    works = tuple(starmap(_launch, each(program)))
    choices = lookup(chosen(program, tuning))
    return _Compiled(bound, works, clocked(program, pool, choices=choices))


def _launch(program: Program, launch: Launch) -> Work:
    reads = [n for n in launch.reads if n is not None]
    return Work(
        "launch",
        launch.operations,
        tuple(program.tensors[n] for n in reads if n not in program.weights),
        tuple(program.tensors[n] for n in reads if n in program.weights),
        tuple(program.tensors[n] for n in launch.writes),
    )


def _step(record: StepRecord) -> Work:
    reads, writes = (
        tuple(TensorType(x.dtype, x.shape) for x in accesses)
        for accesses in (record.reads, record.writes)
    )
    return Work("step", (record.operation,), reads, (), writes)


def _types(values: Iterable[Value]) -> tuple[TensorType, ...]:
    arrays = [v for v in values if isinstance(v, np.ndarray)]
    found = [(by_numpy(v.dtype), v.shape) for v in arrays]
    return tuple(TensorType(dtype, shape) for dtype, shape in found if dtype is not None)
