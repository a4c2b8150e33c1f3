"""The time of each operation: a run with a clock read before and after each.

    for timing in timings(graph, feeds, runs=10): ...

On the native engine what is timed is a launch of its program: mostly several operations, which it
fuses. The program is the engine's own, compiled for these sizes, but for the two clock reads (about
50 ns) per launch. On the machine it is a step; of what the host performs, an operation.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from sardonyx import build
from sardonyx.calls import Context
from sardonyx.dims import evaluate
from sardonyx.emit import emit
from sardonyx.engines import choose
from sardonyx.errors import RunError, Undetermined, UnsupportedModel
from sardonyx.feeds import checked
from sardonyx.graph import Graph, Operation
from sardonyx.infer import bind, value_inputs
from sardonyx.kernel.schedule import print_scheduled
from sardonyx.machine import Machine, StepRecord
from sardonyx.memory import aligned, blank, read
from sardonyx.native import entry, pointers
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.program import Launch, Program
from sardonyx.passes.timeline import timeline_of
from sardonyx.passes.workers import most, worker_bytes
from sardonyx.plan import plan
from sardonyx.stages import Runner
from sardonyx.threads import Pool, pool_of
from sardonyx.types import Array, DType, TensorType, Value, by_numpy, in_memory

CLOCK = """\
#include <stdint.h>
#include <time.h>
SARDONYX_PUBLIC int64_t sardonyx_clock[{count}];
static int64_t sx_clock(void) {{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return INT64_C(1000000000) * t.tv_sec + t.tv_nsec;
}}
#define SARDONYX_OBSERVED 0
#define SARDONYX_BEGIN(memory) ((void)0)
#define SARDONYX_BEFORE(memory, k) (sardonyx_clock[2 * (k)] = sx_clock())
#define SARDONYX_AFTER(memory, k) (sardonyx_clock[2 * (k) + 1] = sx_clock(), 0)
#define SARDONYX_TRAP(memory, k) ((void)0)
#define SARDONYX_END(memory) ((void)0)
"""
POSIX = "#define _POSIX_C_SOURCE 199309L\n"


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
    graph: Graph, feeds: Mapping[str, Value], runs: int, threads: int = 1
) -> list[list[Timing]]:
    """The timings of each of so many runs, after one that is not counted; threads: of the native
    engine."""
    run = _timed(graph, feeds, pool_of(threads))
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

    def __init__(self, graph: Graph, pool: Pool) -> None:
        self.graph, self._pool = graph, pool
        self.found: list[Timing] = []
        self._made: dict[object, _Compiled] = {}

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs; `found` is longer by the timings."""
        fed = {n: np.require(v, requirements=["C", "A"]) for n, v in feeds.items()}
        deciding = value_inputs(self.graph)
        key = tuple((n, v.shape, v.tobytes() if n in deciding else b"") for n, v in fed.items())
        if key not in self._made:
            self._made[key] = _compiled(self.graph, fed, self._pool)
        outputs, found = self._made[key](fed)
        self.found += found
        return outputs

    def feed(self, feeds: Mapping[str, Value]) -> list[Timing]:
        self.found = []
        self.run({n: v for n, v in checked(self.graph, feeds).items() if isinstance(v, np.ndarray)})
        return self.found


class _Staged:
    """A graph in stages: its parts compiled, the rest performed by the host."""

    def __init__(self, graph: Graph, pool: Pool) -> None:
        self.graph = graph
        self._runner = Runner(partial(_Part, pool=pool))

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
    program: Program
    works: tuple[Work, ...]
    library: ctypes.CDLL
    weights: Array
    memory: Array
    pool: Pool
    scratch: int

    def __call__(self, fed: Mapping[str, Array]) -> tuple[dict[str, Array], list[Timing]]:
        program = self.program
        values = {n: fed.get(n, self.graph.initializers.get(n)) for n in program.inputs}
        inputs = [v if v is None else in_memory(v) for v in values.values()]
        kinds = [_sized(program.tensors[n]) for n in program.outputs]
        outputs = [blank(*kind) for kind in kinds]
        given, written = pointers(inputs), pointers(outputs)  # kept alive during the run
        context = Context(
            self.memory.ctypes.data,
            self.weights.ctypes.data,
            0,
            0,
            ctypes.addressof(given),
            ctypes.addressof(written),
            0,
            self.pool.parallel_for,
            self.pool.argument,
            self.memory.ctypes.data + self.scratch,
        )
        if entry(self.library)(ctypes.addressof(context)):
            raise RunError(f"the run traps in launch {context.operation}")
        clock = (ctypes.c_int64 * (2 * len(self.works))).in_dll(self.library, "sardonyx_clock")
        found = [
            Timing(work, clock[2 * i], clock[2 * i + 1] - clock[2 * i])
            for i, work in enumerate(self.works)
        ]
        results = (read(y, *kind) for y, kind in zip(outputs, kinds, strict=True))
        return dict(zip(program.outputs, results, strict=True)), found


def _timed(graph: Graph, feeds: Mapping[str, Value], pool: Pool) -> _Steps | _Part | _Staged:
    if choose() == "machine":
        return _Steps(graph)
    try:
        part = _Part(graph, pool)
        part.feed(feeds)
    except (Undetermined, UnsupportedModel):
        return _Staged(graph, pool)
    return part


def _compiled(graph: Graph, fed: Mapping[str, Array], pool: Pool) -> _Compiled:
    types = {n: TensorType(graph.types[n].dtype, v.shape) for n, v in fed.items()}
    bound = bind(graph, types, fed)
    program = optimise(lower(bound, overridable=any(n in fed for n in bound.overridable)))
    made = plan(timeline_of(program))
    works = tuple(_launch(program, launch) for launch in program.launches)
    hooks = {i: (i, True, True) for i in range(len(works))}
    worker = most(worker_bytes(program))
    printer = partial(print_scheduled, threads=True)
    source = emit(program, made, printer=printer, hooks=hooks, worker=worker)
    files = source.files()
    files["model.c"] = POSIX + files["model.c"]
    files["observe.h"] = CLOCK.format(count=max(1, 2 * len(works)))
    library = build.load(build.library(files))
    memory = aligned(made.size + (pool.threads - 1) * evaluate(worker, {}), 0)
    weights = build.mapped(source.blob)
    return _Compiled(bound, program, works, library, weights, memory, pool, made.size)


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


def _sized(tensor: TensorType) -> tuple[DType, tuple[int, ...]]:
    return tensor.dtype, tuple(d for d in tensor.shape or () if isinstance(d, int))
