"""The native engine with the run-time monitor: the program of G compiled with its checks.

    monitor = Monitor(policy_of(["nan=stop"]))
    WatchedEngine(graph, monitor).run(feeds)
    monitor.findings

It runs operation by operation, with plain loops, in the plan of G: so the flags are those of the
machine, and it is slower than the native engine, which fuses operations. A graph whose sizes depend
on data is run in the machine's stages, each part as such a program.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from threading import Lock

import numpy as np

from sardonyx import build
from sardonyx.calls import Context, entry, pointers
from sardonyx.emit import emit
from sardonyx.errors import RunError, UnsupportedModel
from sardonyx.execution import Runner
from sardonyx.feeds import checked
from sardonyx.graph import Graph
from sardonyx.infer import value_inputs
from sardonyx.machine import Segment, StepRecord
from sardonyx.memory import aligned, blank, read, sized
from sardonyx.monitor import KINDS, Monitor
from sardonyx.stages import is_staged
from sardonyx.trace.form import Subject
from sardonyx.trace.observe import SLOT, Observed, observed
from sardonyx.types import Array, Value, in_memory

WATCHED = "#define SARDONYX_MONITOR 1\n"


@dataclass(frozen=True, slots=True, eq=False)
class _Compiled:
    made: Observed
    steps: tuple[StepRecord, ...]
    run: Callable[[int], int]
    weights: Array


class WatchedEngine:
    """Runs a graph as compiled C, and tells a monitor of each flag.

    Raises BuildError where there is no C compiler.
    """

    name = "native"

    def __init__(self, graph: Graph, monitor: Monitor, *, fused: bool = True) -> None:
        self.graph = graph
        self._monitor = monitor
        make = partial(_Watched, monitor=monitor, fused=fused)
        self._whole = None if is_staged(graph) else make(graph)
        self._runner: Runner[_Watched] = Runner(make, monitor.done)

    def run(self, feeds: Mapping[str, Value]) -> dict[str, Value]:
        """The outputs by name. Raises FeedError, and RunError for a trap or a stop."""
        fed = checked(self.graph, feeds)
        self._monitor.begin()
        if self._whole is None:
            return self._runner.run(self.graph, fed)
        return dict(self._whole.run(fed))


class _Watched:
    """Runs a graph of sizes that its inputs decide."""

    def __init__(self, graph: Graph, monitor: Monitor, fused: bool) -> None:
        self.graph = graph
        self.monitor = monitor
        self._fused = fused
        self._compiled: dict[object, _Compiled] = {}
        self._lock = Lock()

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """The outputs by name."""
        fed = {n: np.asarray(v, order="C") for n, v in feeds.items()}
        if set(fed) - set(self.graph.inputs):
            raise UnsupportedModel("the watched engine takes no other value for an initializer")
        with self._lock:
            found = self._find(fed)
            program = found.made.program
            memory = aligned(found.made.plan.size, 0)
            self._stops(found, memory)
            kinds = {n: sized(program.tensors[n]) for n in program.outputs}
            outputs = {n: blank(*kind) for n, kind in kinds.items()}
            inputs = [in_memory(fed[n]) for n in program.inputs]
            error = _call(found, memory, inputs, list(outputs.values()))
            self._tell(found, memory, error)
        return {n: read(y, *kinds[n]) for n, y in outputs.items()}

    def _find(self, fed: Mapping[str, Array]) -> _Compiled:
        values = [(n, fed[n].tobytes()) for n in value_inputs(self.graph) if n in fed]
        key = (tuple((n, v.shape) for n, v in fed.items()), tuple(values))
        if key not in self._compiled:
            segment = Segment(self.graph, fused=self._fused).start(fed)
            made = observed(segment, Subject(fused=self._fused))
            source = emit(made.program, made.plan, hooks=made.hooks, unfused=not self._fused)
            texts = {**source.files(), **made.files}
            texts.pop("trace_main.c")
            marked = {n: WATCHED + t if n.endswith(".c") else t for n, t in texts.items()}
            run = entry(build.loaded(marked)[1])
            weights = build.mapped(source.blob)
            self._compiled = {key: _Compiled(made, segment.records(), run, weights)}
        return self._compiled[key]

    def _stops(self, found: _Compiled, memory: Array) -> None:
        """Tells the C at which flags to stop."""
        for record in found.steps:
            at = found.made.flags + SLOT * record.number + 8
            modes = [self.monitor.policy.mode(record.operation, kind) for kind in KINDS]
            memory[at : at + len(KINDS)] = [mode == "stop" for mode in modes]

    def _tell(self, found: _Compiled, memory: Array, error: int) -> None:
        """Notes the flags; raises what the run ended with."""
        stopped = ""
        for record in found.steps:
            at = found.made.flags + SLOT * record.number
            kinds = [
                kind for kind, flag in zip(KINDS, memory[at : at + len(KINDS)], strict=True) if flag
            ]
            stops = self.monitor.note(record.operation, kinds)
            if stops:
                stopped = f"{record.operation}, step {record.number}"
                stopped += f": the monitor stopped at {', '.join(stops)}"
            if "index" in kinds:
                stopped = f"{record.operation}, step {record.number}: an index is out of bounds"
        if error:
            raise RunError(stopped or f"the compiled program ended with the error {error}")


def _call(found: _Compiled, memory: Array, inputs: list[Array], outputs: list[Array]) -> int:
    given, written = pointers(inputs), pointers(outputs)  # kept alive during the run
    context = Context(
        memory.ctypes.data,
        found.weights.ctypes.data,
        0,
        0,
        ctypes.addressof(given),
        ctypes.addressof(written),
    )
    return found.run(ctypes.addressof(context))
