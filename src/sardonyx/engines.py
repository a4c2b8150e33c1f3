"""The two engines, behind one face.

    engine = make_engine(resolve("net.onnx"), "auto")
    engine.run({"x": x})["y"]

`machine` is the definition, step by step in Python; `native` is the emitted C, compiled for this
host. Both give the same bits. "auto" is native where a C compiler is found. The environment
variable SARDONYX_ENGINE replaces "auto".
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from threading import Lock
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from sardonyx.compiler import find_compiler
from sardonyx.errors import BuildError, Undetermined, UnsupportedModel, of_a_run
from sardonyx.execution import Runner
from sardonyx.feeds import Values, checked
from sardonyx.graph import Graph
from sardonyx.infer import undetermined, value_inputs, with_symbolic_values
from sardonyx.machine import Machine
from sardonyx.ops.registry import find, find_host, sized_by
from sardonyx.passes.carried import lightened
from sardonyx.programs import Program, Shapes, largest
from sardonyx.settings import VARIABLE, Kind, Tuning, engine_kind
from sardonyx.stages import Kinds, is_staged, kinds
from sardonyx.tail import Tail, tail_of
from sardonyx.types import Array, Value
from sardonyx.whole import is_program, programs_of

Progress: TypeAlias = Callable[[int, int, str], None]  # done, of how many, what
Keep: TypeAlias = Callable[[Shapes | None, Values, Program], None]
KeepChain: TypeAlias = Callable[[Mapping[str, Value], Sequence[Program]], None]


class Engine(Protocol):
    """Runs one graph; safe to use from several threads."""

    @property
    def name(self) -> str:
        """ "machine" or "native"."""

    def run(self, feeds: Mapping[str, Value]) -> dict[str, Value]:
        """The outputs by name. Raises FeedError, Undetermined or RunError."""

    def memory(self) -> tuple[int, int]:
        """N, the bytes of M in the last run, and its lower bound."""


class Native(Engine, Protocol):
    """An engine of compiled C."""

    def quick(self, feeds: Mapping[str, Any]) -> list[Any] | None:
        """The outputs in order, where the feeds are like those of the last run."""


class MachineEngine:
    """The machine (G, M, T) as an engine."""

    name = "machine"

    def __init__(self, graph: Graph) -> None:
        self._machine = Machine(graph)
        self._lock = Lock()  # a machine has one state

    def run(self, feeds: Mapping[str, Value]) -> dict[str, Value]:
        """The outputs by name."""
        with self._lock:
            return self._machine.run(feeds)

    def memory(self) -> tuple[int, int]:
        """N of the last run and its lower bound; RunError before the first."""
        with self._lock:
            plan = self._machine.plan
            return plan.size, plan.lower_bound


class StagedEngine:
    """A graph whose sizes depend on data, or in which the host takes part: each part that can be
    compiled is run by an engine of its own (stages.py); the whole, where feeds allow it and it
    pays (programs.py)."""

    name = "native"

    def __init__(self, graph: Graph, make: Callable[[Graph], Program]) -> None:
        self.graph = graph
        self.keep: Keep | None = None  # hears of programs
        self.keep_chain: KeepChain | None = None  # hears of parts that served these feeds
        self._runner = Runner(make)
        self._programs = programs_of(graph, make, self._heard)
        self._usual: Kinds | None = None  # what was fed last, if it always goes by stages
        self._ran = False

    def run(self, feeds: Mapping[str, Value]) -> dict[str, Value]:
        """The outputs by name."""
        fed = checked(self.graph, feeds)
        with of_a_run():
            program = self._programs.find(fed)
            found = self._by_stages(fed) if program is None else program.run(fed)
        self._usual = kinds(fed) if _is_plain(fed) and self._programs.never(fed) else None
        self._ran = True
        return found

    def quick(self, feeds: Mapping[str, Value]) -> list[Value] | None:
        """The outputs in order, where the feeds are like those of the last run."""
        found = self._programs.quick(feeds)
        if found is not None or self._usual is None or kinds(feeds) != self._usual:
            return found
        if not _is_plain(feeds):
            return None
        with of_a_run():
            return list(self._runner.run(self.graph, feeds).values())

    def _by_stages(self, fed: Mapping[str, Value]) -> dict[str, Value]:
        execution = self._runner.begin(self.graph, fed)
        found = self._runner.finish(execution)
        parts = [stage.part for stage in execution.taken if stage.part]
        if self.keep_chain is not None and len(parts) == len(execution.taken) and parts:
            first, *others = execution.taken  # these inputs have these sizes
            if not first.by_values and all(stage.any_sizes for stage in others):
                self.keep_chain(fed, [self._runner.made(part) for part in parts])
        return found

    @property
    def sizes(self) -> frozenset[str]:
        """The inputs whose values decide sizes."""
        return self._programs.sizes

    def _heard(self, shapes: Shapes | None, values: Values, program: Program) -> None:
        if self.keep is not None:
            self.keep(shapes, values, program)

    def memory(self) -> tuple[int, int]:
        """The largest N of the parts that have run, and the largest lower bound."""
        made = (*self._runner.all_made(), *self._programs.all_made())
        if not self._ran:
            raise Undetermined("the size of M depends on what is fed: run the model first")
        return largest(engine.memory() for engine in made)


def _is_plain(feeds: Mapping[str, Value]) -> bool:
    """Whether feeds that have the right types are what `checked` makes of them."""
    return all(isinstance(v, np.ndarray) and _is_native(v) for v in feeds.values())


def _is_native(v: Array) -> bool:
    if v.dtype == object:
        return all(type(s) is str for s in v.flat)
    if v.dtype.kind == "b":  # any byte that is not 0 is true
        return v.flags.c_contiguous and int(v.view(np.uint8).max(initial=0)) <= 1
    return v.dtype.isbuiltin == 1 and v.dtype.isnative and v.dtype.kind in "fiu"


class TailedEngine:
    """A graph whose end the host performs (tail.py)."""

    name = "native"

    def __init__(self, tail: Tail, engine: Native) -> None:
        self.head, self.ending = engine, tail.ending
        self._names, self._finish = tail.head.outputs, tail.ending.finisher()
        self.memory = engine.memory

    def run(self, feeds: Mapping[str, Value]) -> dict[str, Value]:
        """The outputs by name."""
        return self._finish(self.head.run(feeds))

    def quick(self, feeds: Mapping[str, Value]) -> list[Value] | None:
        """The outputs in order, where the feeds are like those of the last run."""
        found = self.head.quick(feeds)
        if found is None:
            return None
        return list(self._finish(dict(zip(self._names, found, strict=True))).values())


def make_engine(
    graph: Graph,
    kind: Kind = "auto",
    progress: Progress | None = None,
    threads: int = 0,
    tuning: Tuning | None = None,
) -> Engine:
    """The engine of that kind for a graph; `progress` hears of long work. Of the native engine:
    threads, 0 for all that the process may use; tuning, schedules by measurement.

    Raises BuildError where "native" is asked for and there is no C compiler, UnsupportedModel
    where an operator has no definition.
    """
    supported(graph)
    if choose(kind) == "machine":
        return MachineEngine(graph)
    from sardonyx.native import NativeEngine

    make = partial(NativeEngine, progress=progress, threads=threads, tuning=tuning)
    if is_one(graph):
        return make(graph)
    graph = lightened(graph)
    tail = tail_of(graph)
    if tail is None:
        return StagedEngine(graph, make)
    head = tail.head
    return TailedEngine(tail, make(head) if is_one(head) else StagedEngine(head, make))


def is_one(graph: Graph) -> bool:
    """Whether one program does it all: its sizes follow from those of its inputs, or from values of
    inputs that decide nothing else."""
    if not is_staged(graph) or is_program(graph):
        return True
    return bool(value_inputs(graph)) and not is_staged(with_symbolic_values(graph))


def supported(graph: Graph) -> None:
    """Raises UnsupportedModel where an operator of the graph or of a subgraph is not there."""
    for error in undetermined(graph).values():
        if isinstance(error, UnsupportedModel):
            raise error
    for op in graph.operations:
        for body in op.subgraphs.values():
            check_operators(body)


def check_operators(graph: Graph) -> None:
    """Raises UnsupportedModel where an operator of a subgraph is not there."""
    for op in graph.operations:
        key = op.domain, op.op_type, op.since
        if not (find(*key) or find_host(*key) or sized_by(*key)):
            where = op.domain or "ai.onnx"
            raise UnsupportedModel(f"{op}: Sardonyx does not have {where}::{op.op_type}-{op.since}")
        for body in op.subgraphs.values():
            check_operators(body)


def choose(kind: Kind = "auto") -> Literal["machine", "native"]:
    """The engine that `kind` and the environment ask for."""
    if kind == "auto":
        kind = engine_kind(os.environ.get(VARIABLE) or "auto", VARIABLE)
    if kind != "auto":
        return kind
    try:
        find_compiler()
    except BuildError as error:
        _say_once(f"sardonyx: the machine engine (slow) is used: {error}")
        return "machine"
    return "native"


@cache
def _say_once(line: str) -> None:
    print(line, file=sys.stderr)
