"""The time of each operation: a run with a clock read before and after each.

    for run in timings(graph, feeds, runs=10): ...
    outputs, run = TimedEngine(graph).timed(feeds)

On the native engine what is timed is a launch of its program: mostly several operations, which it
fuses. The program is the engine's own, compiled for these sizes, but for the two clock reads (about
50 ns) per launch. On the machine it is a step; of what the host performs, an operation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from threading import Lock
from typing import TypeAlias

import numpy as np

from sardonyx.build import rows_of_bytes
from sardonyx.clocked import Clocked, clocked
from sardonyx.engines import choose, is_one, supported
from sardonyx.execution import Runner
from sardonyx.feeds import checked
from sardonyx.graph import Graph, Operation
from sardonyx.infer import bind, value_inputs
from sardonyx.machine import Machine, StepRecord
from sardonyx.passes.carried import lightened
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.program import Launch, Program, each
from sardonyx.programs import largest
from sardonyx.settings import Kind, Tuning
from sardonyx.threads import Pool, pool_of
from sardonyx.tune import chosen, lookup
from sardonyx.types import Array, TensorType, Value, by_numpy
from sardonyx.whole import is_program, programs_of


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


Timed: TypeAlias = tuple[Mapping[str, Value], list[Timing]]  # the outputs by name, of one run


def timings(
    graph: Graph,
    feeds: Mapping[str, Value],
    runs: int,
    threads: int = 1,
    tuning: Tuning | None = None,
) -> list[list[Timing]]:
    """The timings of each of so many runs, after one that is not counted; threads, tuning: of the
    native engine."""
    engine = TimedEngine(graph, threads=threads, tuning=tuning)
    engine.run(feeds)
    return [engine.timed(feeds)[1] for _ in range(runs)]


class TimedEngine:
    """An engine whose runs give the time of each launch, step or host operation beside the outputs.
    What it runs is compiled for the sizes that are fed."""

    def __init__(
        self, graph: Graph, kind: Kind = "auto", threads: int = 0, tuning: Tuning | None = None
    ) -> None:
        supported(graph)
        self.name = choose(kind)
        self._lock, pool = Lock(), pool_of(threads)
        self._way: _Steps | _Part | _Staged
        if self.name == "machine":
            self._way = _Steps(graph)
        elif is_one(graph):
            self._way = _Part(graph, pool, tuning)
        else:
            self._way = _Staged(lightened(graph), pool, tuning)

    def prepared(self, feeds: Mapping[str, Value]) -> Callable[[], Timed]:
        """A run with these feeds, for which all is compiled that is known to be needed."""
        with self._lock:
            ready = self._way.prepared(feeds)

        def run() -> Timed:
            with self._lock:
                return ready()

        return run

    def timed(self, feeds: Mapping[str, Value]) -> Timed:
        """The outputs by name, and the timings of the run. Raises as an Engine's run."""
        return self.prepared(feeds)()

    def run(self, feeds: Mapping[str, Value]) -> dict[str, Value]:
        """The outputs by name."""
        return dict(self.timed(feeds)[0])

    def memory(self) -> tuple[int, int]:
        """The largest N of what has been run, and its lower bound."""
        with self._lock:
            return self._way.memory()


class _Steps:
    """The machine, step by step."""

    def __init__(self, graph: Graph) -> None:
        self._machine = Machine(graph)

    def prepared(self, feeds: Mapping[str, Value]) -> Callable[[], Timed]:
        return partial(self._stepped, feeds)

    def _stepped(self, feeds: Mapping[str, Value]) -> Timed:
        self._machine.start(feeds)
        found = list[Timing]()
        while True:
            begin = time.monotonic_ns()
            record = self._machine.step()
            if record is None:
                return self._machine.outputs, found
            found.append(Timing(_step(record), begin, time.monotonic_ns() - begin))

    def memory(self) -> tuple[int, int]:
        return self._machine.plan.size, self._machine.plan.lower_bound


class _Part:
    """A graph compiled with clock reads, for the sizes of the feeds."""

    def __init__(self, graph: Graph, pool: Pool, tuning: Tuning | None) -> None:
        self.graph, self._pool, self._tuning = graph, pool, tuning
        self.found: list[Timing] = []
        self._made: dict[object, _Compiled] = {}

    def prepared(self, feeds: Mapping[str, Value]) -> Callable[[], Timed]:
        given = checked(self.graph, feeds)
        return self._ready({n: v for n, v in given.items() if isinstance(v, np.ndarray)})

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Value]:
        """The outputs; `found` is longer by the timings."""
        outputs, found = self._ready(feeds)()
        self.found += found
        return dict(outputs)

    def quick(self, feeds: Mapping[str, Array]) -> list[Array] | None:
        """There is no short way."""
        return None

    def memory(self) -> tuple[int, int]:
        plans = [made.run.plan for made in self._made.values()]
        return max(p.size for p in plans), max(p.lower_bound for p in plans)

    def _ready(self, feeds: Mapping[str, Array]) -> Callable[[], Timed]:
        """A run of the program for feeds like these."""
        fed = {n: np.require(v, requirements=["C", "A"]) for n, v in feeds.items()}
        deciding = value_inputs(self.graph)
        key = tuple((n, v.shape, v.tobytes() if n in deciding else b"") for n, v in fed.items())
        if key not in self._made:
            self._made[key] = _compiled(self.graph, fed, self._pool, self._tuning)
        return partial(self._made[key], fed)


class _Staged:
    """A graph in stages: its parts compiled, the rest performed by the host; one program where
    feeds allow it."""

    def __init__(self, graph: Graph, pool: Pool, tuning: Tuning | None) -> None:
        self.graph = graph
        make = partial(_Part, pool=pool, tuning=tuning)
        self._runner, self._programs = Runner(make), programs_of(graph, make)

    def prepared(self, feeds: Mapping[str, Value]) -> Callable[[], Timed]:
        given = checked(self.graph, feeds)
        program = self._programs.find(given)
        return partial(self._by_stages, given) if program is None else program.prepared(given)

    def _by_stages(self, given: Mapping[str, Value]) -> Timed:
        found = list[Timing]()
        execution = self._runner.execution(self.graph, given, frozenset(self.graph.symbols))
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
        return execution.outputs(), found

    def memory(self) -> tuple[int, int]:
        made = (*self._runner.all_made(), *self._programs.all_made())
        return largest(part.memory() for part in made)


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
