"""A graph of known sizes executed step by step in one byte array (docs/machine.md).

The state is Definition 9, a step is Definition 11.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy.typing as npt

from sardonyx.errors import (
    InternalError,
    InvalidModel,
    LimitExceeded,
    RunError,
)
from sardonyx.feeds import checked
from sardonyx.graph import Graph, Operation, reads
from sardonyx.infer import bind, kernel_of, value_inputs
from sardonyx.kernel.expr import Buffer
from sardonyx.kernel.interpret import extents, interpret
from sardonyx.kernel.ir import Kernel
from sardonyx.machine.order import executable, permutation, single_assignment
from sardonyx.machine.state import (
    Access,
    Entry,
    State,
    StepRecord,
    cut,
    held,
    load,
    spoil,
    store,
    window,
)
from sardonyx.machine.watch import Watch
from sardonyx.memory import MEMORY_LIMIT, Bytes, aligned
from sardonyx.monitor import Monitor
from sardonyx.plan import Plan, Step, Timeline, plan
from sardonyx.plan.kernels import timeline_of
from sardonyx.types import Array, TensorType


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """What is made once per concrete shapes: the order of the operations, their kernels, the plan
    and the table. `blocked` are the operations that never become executable."""

    graph: Graph
    operations: tuple[Operation, ...]
    blocked: tuple[Operation, ...]
    kernels: tuple[Kernel, ...]
    timeline: Timeline
    plan: Plan
    table: Mapping[str, Entry]


class Segment:
    """Executes a graph step by step whose sizes its inputs decide; see Machine for the options.

    order: a permutation of the operations' indices. number: of the first step, in errors.
    """

    def __init__(
        self,
        graph: Graph,
        *,
        order: Sequence[int] | None = None,
        no_reuse: bool = False,
        poison: int | None = None,
        limit: int = MEMORY_LIMIT,
        fused: bool = True,
        monitor: Monitor | None = None,
    ) -> None:
        single_assignment(graph)
        self.graph = graph
        self._priority = permutation(graph, order)
        self._plan = partial(plan, no_reuse=no_reuse)
        self._poison = poison
        self._limit = limit
        self._fused = fused
        self._monitor = monitor
        self._deciding = value_inputs(graph)
        self._made: dict[tuple[object, ...], Prepared] = {}
        self._prepared: Prepared | None = None
        self._state: State | None = None
        self._fault: RunError | None = None

    def start(self, feeds: Mapping[str, npt.ArrayLike]) -> Segment:
        """Makes the initial state: M holds the feeds and the initializers, and nothing else.

        Raises FeedError where the feeds do not fit, UnsupportedModel where an operator has no
        definition, LimitExceeded where M would be larger than the limit.
        """
        fed = checked(self.graph, feeds)
        ready = self._prepared = self._prepare(fed)
        if ready.plan.size > self._limit:
            raise LimitExceeded(
                f"M needs {ready.plan.size} bytes, more than the limit of {self._limit}; "
                "raise it with Machine(graph, limit=...)"
            )
        memory = aligned(ready.plan.size, self._poison or 0)
        state = self._state = State(ready.graph, memory, ready.table, 0, set())
        self._fault = None
        for name, value in {**ready.graph.initializers, **fed}.items():
            if name in ready.table:
                store(memory, ready.table[name].offset, ready.table[name].dtype, value)
                state.valued.add(name)
        return self

    def run(self, feeds: Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
        """Starts, takes all steps, and hands out the outputs."""
        self.start(feeds)
        while self.step() is not None:
            pass
        return self.outputs

    def peek(self) -> StepRecord | None:
        """The next step, not yet taken; None if no operation can run any more."""
        ready, state = self._running()
        if state.counter == len(ready.operations):
            return None
        return _record(ready, state.counter)

    def records(self) -> tuple[StepRecord, ...]:
        """All steps of the run, taken or not."""
        ready, _ = self._running()
        return tuple(_record(ready, k) for k in range(len(ready.operations)))

    def step(self) -> StepRecord | None:
        """Takes the next step; None if no operation can run any more and the outputs are complete.

        Raises RunError where the operation traps, InvalidModel where an output has no value at
        the end.
        """
        ready, state = self._running()
        if self._fault is not None:
            raise self._fault
        record = self.peek()
        if record is None:
            _complete(ready, state)
            return None
        watch = (
            None if self._monitor is None else Watch(ready.kernels[state.counter], record, state)
        )
        try:
            self._execute(ready, state)
        except RunError:
            if self._monitor is not None:
                self._monitor.note(record.operation, ["index"])
            raise
        state.valued.update(ready.timeline.steps[state.counter].writes)
        state.counter += 1
        if self._poison is not None:
            spoil(state, self._poison)
        if self._monitor is not None and watch is not None:
            self._monitor.see(record.operation, watch.flags(state))
        return record

    @property
    def state(self) -> State:
        """The state (G, M, T, c, H) after the last step."""
        return self._running()[1]

    @property
    def memory(self) -> Bytes:
        """M."""
        return self.state.memory

    @property
    def table(self) -> Mapping[str, Entry]:
        """T."""
        return self.state.table

    @property
    def plan(self) -> Plan:
        """The plan that T was made from."""
        return self._running()[0].plan

    @property
    def outputs(self) -> dict[str, Array]:
        """A copy of each graph output that has a value."""
        state = self.state
        return {n: self.value(n) for n in state.graph.outputs if n in state.valued}

    def value(self, name: str) -> Array:
        """A copy of what a tensor holds that is live or was written by the last step; RunError if
        it holds nothing (any more)."""
        return load(self.state, name).copy()

    def _running(self) -> tuple[Prepared, State]:
        if self._prepared is None or self._state is None:
            raise RunError("the machine has no state before start(feeds)")
        return self._prepared, self._state

    def _prepare(self, fed: Mapping[str, Array]) -> Prepared:
        """The plan and kernels for these feeds; those of the last shapes are kept."""
        known = {**self.graph.initializers, **fed}
        values = tuple(known[n].tobytes() for n in self._deciding if n in known)
        key = (tuple((n, v.shape) for n, v in sorted(fed.items())), values)
        if key not in self._made:
            types = {n: TensorType(self.graph.types[n].dtype, v.shape) for n, v in fed.items()}
            concrete = _concrete(self.graph) and not self._deciding
            self._made = {key: self._make(self.graph if concrete else bind(self.graph, types, fed))}
        return self._made[key]

    def _make(self, graph: Graph) -> Prepared:
        """Orders, lowers and plans a graph of concrete shapes."""
        operations, blocked = executable(graph, self._priority)
        kernels = tuple(kernel_of(graph, op) for op in operations)
        line = timeline_of(graph, operations, kernels)
        made = self._plan(line)
        lives = line.lifetimes()
        table = {n: _entry(graph.types[n], o, lives[n]) for n, o in made.offsets.items()}
        return Prepared(graph, operations, blocked, kernels, line, made, table)

    def _execute(self, ready: Prepared, state: State) -> None:
        """Applies the operation of step c to M."""
        k = state.counter
        op, kernel, step = ready.operations[k], ready.kernels[k], ready.timeline.steps[k]
        lost = [n for n in step.reads if n not in state.valued or not held(state.table[n], state)]
        if lost:
            raise InternalError(f"{op}, step {k}: {', '.join(lost)} hold no value")
        if all(name in ready.plan.aliases for name in step.writes):
            return
        arrays, packed = _arrays(op, kernel, step, ready.plan.scratch[k], state)
        try:
            interpret(kernel, arrays, self._fused)
        except RunError as error:
            self._fault = RunError(f"{op}, step {k}: {_named(str(error), op, kernel)}")
            raise self._fault from error
        for offset, buffer in packed:
            store(state.memory, offset, buffer.dtype, arrays[buffer])


def _complete(ready: Prepared, state: State) -> None:
    """V2, C3: at the end all graph outputs have values."""
    missing = sorted({n for n in ready.graph.outputs if n not in state.valued})
    if missing:
        blocked = [
            f"{op} lacks {', '.join(sorted({n for n in reads(op) if n not in state.valued}))}"
            for op in ready.blocked
        ]
        why = "; ".join(blocked) or "no operation writes them"
        raise InvalidModel(
            f"the graph outputs {', '.join(missing)} have no value at the end: {why}"
        )


def _concrete(graph: Graph) -> bool:
    """Whether the shapes of all tensors are known."""
    shapes = [tensor.shape for tensor in graph.types.values()]
    return all(s is not None and all(isinstance(d, int) for d in s) for s in shapes)


def _entry(tensor: TensorType, offset: int, life: tuple[int, int]) -> Entry:
    shape = tuple(d for d in tensor.shape or () if isinstance(d, int))
    return Entry(offset, tensor.dtype, shape, *life)


def _record(ready: Prepared, number: int) -> StepRecord:
    step = ready.timeline.steps[number]
    touched = [tuple(_access(n, ready.table[n]) for n in s) for s in (step.reads, step.writes)]
    return StepRecord(number, ready.operations[number], *touched)


def _access(name: str, entry: Entry) -> Access:
    return Access(name, entry.offset, entry.dtype, entry.shape)


def _arrays(
    op: Operation, kernel: Kernel, step: Step, scratch: Sequence[int], state: State
) -> tuple[dict[Buffer, Array], list[tuple[int, Buffer]]]:
    """The windows into M that a kernel reads and writes; those that are copies, as their elements
    are packed in M, with the offsets where to put what is written."""
    arrays: dict[Buffer, Array] = {}
    places = dict(zip(kernel.temporaries, scratch, strict=True))
    for name, buffer in zip(op.inputs, kernel.inputs, strict=False):
        if name and buffer is not None:
            arrays[buffer] = _bound(op, buffer, window(state.memory, state.table[name]))
    for name, buffer in zip(step.writes, kernel.outputs, strict=True):
        arrays[buffer] = _bound(op, buffer, window(state.memory, state.table[name]))
        places[buffer] = state.table[name].offset
    for offset, buffer in zip(scratch, kernel.temporaries, strict=True):
        arrays[buffer] = cut(state.memory, offset, buffer.dtype, extents(buffer))
    return arrays, [(at, b) for b, at in places.items() if b.dtype.is_packed]


def _named(text: str, op: Operation, kernel: Kernel) -> str:
    """The text with tensors called by their names in the graph."""
    names = {b.name: n for n, b in zip(op.inputs, kernel.inputs, strict=False) if b is not None}
    names.update(zip((b.name for b in kernel.outputs), filter(None, op.outputs), strict=True))
    return re.sub(r"\w+", lambda m: f"'{names[m[0]]}'" if m[0] in names else m[0], text)


def _bound(op: Operation, buffer: Buffer, window: Array) -> Array:
    """The window, which must be what the kernel takes the buffer for."""
    if window.dtype != buffer.dtype.numpy or window.shape != extents(buffer):
        raise InternalError(
            f"{op}: {buffer.name} is {buffer.dtype}{list(buffer.shape)} in the kernel, "
            f"{window.dtype}{list(window.shape)} in the table"
        )
    return window
