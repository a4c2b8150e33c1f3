"""The native engine: a graph compiled to C for this host, and run.

One compilation serves every shape where all sizes can be written in the symbolic dims, those of
values that are fed included, and one more where some are 0; a plan serves many shapes
(plan/plans.py). Where a size is not known so (a broadcast that depends on whether a dim is 1), the
graph is bound to the feeds and compiled for them.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np

from sardonyx import build
from sardonyx.calls import Call, Context, Prepared, Recent, entry, pointers, prepared
from sardonyx.dims import supposing
from sardonyx.emit import Source, emit
from sardonyx.emit.launches import Printer
from sardonyx.errors import (
    InternalError,
    InvalidModel,
    LimitExceeded,
    RunError,
    Undetermined,
    of_a_run,
)
from sardonyx.feeds import checked, numbers, values_key
from sardonyx.graph import Graph
from sardonyx.infer import bind, value_inputs, with_symbolic_values
from sardonyx.kernel.c99.print_c import print_c
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.memory import MEMORY_LIMIT, aligned, blank, give_back, read, sized, within_memory
from sardonyx.passes.constants import fold_constants
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.program import Program
from sardonyx.passes.timeline import outline_of, timeline_of
from sardonyx.passes.workers import workers_of
from sardonyx.plan import Plan, plan
from sardonyx.plan.plans import Planned, Planner, Plans, Workers, always
from sardonyx.settings import Tuning
from sardonyx.supposed import with_zeros
from sardonyx.threads import pool_of
from sardonyx.tune import chosen, lookup
from sardonyx.types import Array, TensorType, in_memory

SPECIALISED = 16  # compilations kept for concrete feeds, and for dims that are 0
CALLS = 64  # kept for concrete dims
TRAPS = {
    1: "an index is out of bounds",
    2: "a store is out of bounds",
    3: "a size is beyond its bound",
}


@dataclass(slots=True, eq=False)
class Compiled:
    """A program in machine code, with its weights. workers: the scratch of each thread but
    the first. planned: the plan for the numbers of the dims; calls: dims -> the
    short way to call it."""

    program: Program
    source: Source
    plan: Plan | None
    library: Path
    run: Callable[[int], int]
    weights: Array
    workers: Workers
    planned: Planner
    calls: OrderedDict[tuple[int, ...], Call | None] = field(default_factory=OrderedDict)


Keep: TypeAlias = Callable[[tuple[str, ...], Graph, Compiled], None]
Key = TypeVar("Key", bound=Hashable)
Made = TypeVar("Made")


class NativeEngine:
    """Runs a graph as compiled C; results are those of the machine, bit for bit.

    fused=False is numerics="unfused"; schedule=False prints plain loops without any pass (the
    oracle of the schedules). progress hears of each file compiled: (done, of how many, what).
    threads: how many work at one run, the caller included; 0: all that the process may use.
    tuning: schedules that are measured or given (tune.py). No result depends on either.
    """

    name = "native"

    def __init__(
        self,
        graph: Graph,
        *,
        fused: bool = True,
        schedule: bool = True,
        progress: build.Progress | None = None,
        limit: int = MEMORY_LIMIT,
        threads: int = 0,
        tuning: Tuning | None = None,
    ) -> None:
        self.graph = graph
        self._keep: Keep | None = None
        self._fused, self._schedule = fused, schedule
        self._progress, self._limit, self._tuning = progress, limit, tuning
        self._pool = pool_of(threads)
        self._symbolic: dict[bool, Compiled | None] = {}
        self._zeros: OrderedDict[tuple[tuple[str, ...], bool], Compiled | None] = OrderedDict()
        self._special: OrderedDict[tuple[object, ...], Compiled] = OrderedDict()
        self._deciding = value_inputs(graph)
        self._flexible = with_symbolic_values(graph) if self._deciding else graph
        self._specific = bool(self._deciding and value_inputs(self._flexible))
        self._idle: list[Array] = []
        self._blocks: list[Array] = []
        self._lock = threading.RLock()
        self._recent = Recent(self._deciding)
        self.quick = self._recent.quick  # what a session asks first
        if not self._specific:
            self._general(overridden=False)

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by name. Raises FeedError where a feed does not fit, RunError for a trap."""
        outputs = self.quick(feeds)
        if outputs is not None:
            return dict(zip(self.graph.outputs, outputs, strict=True))
        fed = {
            n: np.require(v, requirements=["C", "A"]) for n, v in checked(self.graph, feeds).items()
        }
        with self._lock:
            try:
                compiled, dims = self._choose(fed)
                made = compiled.planned(dims)
            except (InternalError, InvalidModel, LimitExceeded):
                with of_a_run():
                    self._bound(fed)  # says which operation a size does not fit
                    raise
        memory = self._recent.memory = made.size(self._pool.threads), made.plan.lower_bound
        call = self._short(compiled, made, dims, fed)
        with within_memory():
            outputs = None if call is None else call(fed)
            if call is None or outputs is None:  # a trap, to be told in full
                return self._call(compiled, made, dims, fed)
        self._recent.add(call, memory, values_key(self._deciding, fed))
        return dict(zip(compiled.program.outputs, outputs, strict=True))

    def general(self) -> Compiled | None:
        """The one program for all shapes, if it has been made."""
        return None if self._specific or not self._schedule else self._symbolic.get(False)

    @property
    def flexible(self) -> Graph:
        """The graph that `general` is made from: symbols stand for values that decide sizes."""
        return self._flexible

    def keep_zeros(self, keep: Keep) -> None:
        """`keep` hears of the programs for dims that are 0, of those that there are at once."""
        self._keep = keep
        for (zeros, overridden), made in list(self._zeros.items()):
            if made is not None and not overridden:
                keep(zeros, with_zeros(self._flexible, zeros), made)

    def memory(self) -> tuple[int, int]:
        """N, the bytes of M of the last run or else of the compiled program, and the lower bound
        for one thread.

        Raises Undetermined before the first run of a graph whose sizes are not known.
        """
        general = self._symbolic.get(False)
        if self._recent.memory is not None:
            return self._recent.memory
        if general is None or general.plan is None:
            raise Undetermined("the size of M depends on what is fed: run the model first")
        return general.planned({}).size(self._pool.threads), general.plan.lower_bound

    def _choose(self, fed: Mapping[str, Array]) -> tuple[Compiled, dict[str, int]]:
        """The program for these feeds, and the numbers of its symbolic dims."""
        overridden = any(n in fed for n in self.graph.overridable)
        general = None if self._specific else self._general(overridden)
        if general is not None:
            dims = numbers(self._flexible, fed)
            least = min(dims.values(), default=1)
            if least < 1:
                zeros = tuple(name for name, n in dims.items() if n == 0)
                general = None if least < 0 else self._with_zeros(zeros, overridden)
            if general is not None:
                return general, {name: n for name, n in dims.items() if n}
        return self._specialised(fed), {}

    def _general(self, overridden: bool) -> Compiled | None:
        """The one program for all shapes; None where sizes are not known in general."""
        if overridden not in self._symbolic:
            self._symbolic[overridden] = self._compiled(self._flexible, overridden)
        return self._symbolic[overridden]

    def _with_zeros(self, zeros: tuple[str, ...], overridden: bool) -> Compiled | None:
        """The one program for all shapes in which these dims, and no others, are 0."""

        def make() -> Compiled | None:
            graph = with_zeros(self._flexible, zeros)
            made = self._compiled(graph, overridden)
            if made is not None and self._keep is not None and not overridden:
                self._keep(zeros, graph, made)
            return made

        return _known(self._zeros, (zeros, overridden), make)

    def _specialised(self, fed: Mapping[str, Array]) -> Compiled:
        """The program for these shapes, and the values that decide sizes."""
        shapes = tuple((n, v.shape) for n, v in fed.items())

        def make() -> Compiled:
            bound = self._bound(fed)
            return self._compile(bound, any(n in fed for n in bound.overridable))

        key = values_key(self._deciding, fed), tuple(sorted(shapes))
        return _known(self._special, key, make)

    def _bound(self, fed: Mapping[str, Array]) -> Graph:
        """The graph for these shapes, and the values that decide sizes."""
        types = {n: TensorType(self.graph.types[n].dtype, v.shape) for n, v in fed.items()}
        return bind(self.graph, types, fed)

    def _compiled(self, graph: Graph, overridden: bool) -> Compiled | None:
        """The program of a graph; None where its sizes are not known in general."""
        try:
            with supposing(graph.supposed):
                return self._compile(graph, overridden)
        except Undetermined:
            return None

    def _compile(self, graph: Graph, overridden: bool) -> Compiled:
        program = lower(graph, overridable=overridden)
        if self._schedule:
            program = optimise(program, self._fused, roomy=True, dots=build.rows_of_bytes())
        else:
            program = fold_constants(program, self._fused)
        made = None if graph.symbols else plan(timeline_of(program))
        printer: Printer = print_c
        if self._schedule:
            choices = lookup(chosen(program, self._tuning, self._progress))
            printer = partial(print_scheduled, threads=True, choices=choices)
        workers = workers_of(program)
        units = os.cpu_count() or 1 if len(program.launches) > 8 else 1
        source = emit(
            program,
            made,
            symbols=graph.symbols,
            printer=printer,
            units=units,
            unfused=not self._fused,
            workers=workers,
        )
        files, common = source.files(), source.tiles
        path, library = build.loaded(files, progress=self._progress, common=common)
        run, weights = entry(library), build.mapped(source.blob)
        give_back()  # passes hold weights several times over
        planned: Planner
        if made is None:
            planned = Plans(outline_of(program), source.slots, workers, self._limit).at
        else:
            planned = always(made, workers)
        return Compiled(program, source, made, path, run, weights, workers, planned)

    def _call(
        self,
        compiled: Compiled,
        made: Planned,
        dims: Mapping[str, int],
        fed: Mapping[str, Array],
    ) -> dict[str, Array]:
        program, source = compiled.program, compiled.source
        values = {n: fed.get(n, self.graph.initializers.get(n)) for n in program.inputs}
        inputs = [v if v is None else in_memory(v) for v in values.values()]
        kinds = [sized(program.tensors[n], dims) for n in program.outputs]
        outputs = [blank(*kind) for kind in kinds]
        table = _table(source, dims)
        memory = self._memory(made.size(self._pool.threads))
        given, written = pointers(inputs), pointers(outputs)  # kept alive during the run
        context = Context(
            memory.ctypes.data,
            compiled.weights.ctypes.data,
            table.ctypes.data,
            made.offsets.ctypes.data,
            ctypes.addressof(given),
            ctypes.addressof(written),
            0,
            self._pool.parallel_for,
            self._pool.argument,
            memory.ctypes.data + made.plan.size,
            self._pool.threads,
        )
        error = compiled.run(ctypes.addressof(context))
        self._idle.append(memory)
        if error:
            raise RunError(f"{_where(program, context.operation)}: {TRAPS[error]}")
        found = (read(y, *kind) for y, kind in zip(outputs, kinds, strict=True))
        return dict(zip(program.outputs, found, strict=True))

    def _short(
        self,
        compiled: Compiled,
        made: Planned,
        dims: Mapping[str, int],
        fed: Mapping[str, Array],
    ) -> Call | None:
        """The short way to call the program with feeds of these shapes, if there is one."""
        size = made.size(self._pool.threads)
        if any(n not in fed for n in compiled.program.inputs) or size > self._limit:
            return None
        key = _key(compiled, dims, fed)
        with self._lock:
            if key not in compiled.calls:
                compiled.calls[key] = prepared(self._prepared(compiled, made, dims, fed))
                if len(compiled.calls) > CALLS:
                    compiled.calls.popitem(last=False)
            compiled.calls.move_to_end(key)
            return compiled.calls[key]

    def _prepared(
        self,
        compiled: Compiled,
        made: Planned,
        dims: Mapping[str, int],
        fed: Mapping[str, Array],
    ) -> Prepared:
        program = compiled.program
        kinds = ((n, *sized(program.tensors[n], dims)) for n in program.outputs)
        return Prepared(
            compiled.run,
            compiled.weights,
            _table(compiled.source, dims),
            made.offsets,
            made.size(self._pool.threads),
            self._idle,
            tuple((n, fed[n].dtype, fed[n].shape) for n in program.inputs),
            tuple((n, dtype.numpy, shape) for n, dtype, shape in kinds),
            self._pool,
            made.plan.size,
            self._blocks,
        )

    def _memory(self, size: int) -> Array:
        """M for one run: one that is idle, or a new one."""
        if size > self._limit:
            raise LimitExceeded(f"M needs {size} bytes, more than the limit of {self._limit}")
        try:
            memory = self._idle.pop()
        except IndexError:
            return aligned(size, 0)
        return memory if len(memory) >= size else aligned(size, 0)


def _known(memo: OrderedDict[Key, Made], key: Key, make: Callable[[], Made]) -> Made:
    """What was made under the key, or is made now; so many are kept."""
    if key not in memo:
        memo[key] = make()
        if len(memo) > SPECIALISED:
            memo.popitem(last=False)
    memo.move_to_end(key)
    return memo[key]


def _table(source: Source, dims: Mapping[str, int]) -> Array:
    """The table of dims that a program with symbolic dims takes."""
    return np.array([dims[s] for s in source.symbols] or [0], np.int64)


def _key(compiled: Compiled, dims: Mapping[str, int], fed: Mapping[str, Array]) -> tuple[int, ...]:
    """What the short way to call a program depends on: the dims, and the shapes of the feeds."""
    shapes = (n for x in compiled.program.inputs if x in fed for n in fed[x].shape)
    return (*(dims[s] for s in compiled.source.symbols), *shapes)


def _where(program: Program, number: int) -> str:
    if not 0 <= number < len(program.launches):
        raise InternalError(f"the compiled program names launch {number}, which is not there")
    launch = program.launches[number]
    return ", ".join(map(str, launch.operations)) or launch.kernel.name
