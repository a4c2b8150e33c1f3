"""The machine (G, M, T): a graph executed step by step in one byte array.

docs/machine.md defines it: the state is Definition 9, a step is Definition 11.

    machine = Machine(graph)
    for record in machine.start({"x": x}):
        print(record.operation, record.reads, record.writes)
    machine.outputs
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sardonyx import types as t
from sardonyx.errors import (
    FeedError,
    InternalError,
    InvalidModel,
    LimitExceeded,
    RunError,
    Undetermined,
)
from sardonyx.graph import Graph, Operation, reads
from sardonyx.infer import bind, kernel_of
from sardonyx.kernel.expr import Buffer
from sardonyx.kernel.interpret import extents, interpret
from sardonyx.kernel.ir import Kernel
from sardonyx.plan import ALIGNMENT, Plan, Step, Timeline, plan, timeline_of
from sardonyx.types import Array, DType, TensorType

MEMORY_LIMIT = 1 << 34  # bytes of M
SMALL = 1 << 10  # elements of a feed whose value may decide a shape

Bytes: TypeAlias = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the tensor table: where a tensor lies in M, what it is, and the steps (-1: the
    start, the number of steps: the end) between which it is live."""

    offset: int
    dtype: DType
    shape: tuple[int, ...]
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Access:
    """A tensor that a step reads or writes."""

    name: str
    offset: int
    dtype: DType
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class StepRecord:
    """One step: its number, its operation, and what that reads and writes, each tensor once."""

    number: int
    operation: Operation
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]


@dataclass(slots=True, eq=False)
class State:
    """(G, M, T, c, H): the graph, the memory, the tensor table, the number of steps done, and the
    tensors that have a value."""

    graph: Graph
    memory: Bytes
    table: Mapping[str, Entry]
    counter: int
    valued: set[str]


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


class Machine:
    """Executes a graph step by step; the results are the definition of what the graph computes.

    order: a permutation of the operations' indices; the next operation is always the first
    executable one in it (by default: in the graph's order). no_reuse: every tensor has a place of
    its own in M. poison: a byte that fills M wherever no live tensor is. limit: the most bytes
    that M may have. fused=False computes sums of products unfused (numerics="unfused").
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
    ) -> None:
        _single_assignment(graph)
        self.graph = graph
        self._priority = _permutation(graph, order)
        self._plan: Callable[[Timeline], Plan] = lambda line: plan(line, no_reuse=no_reuse)
        self._poison = poison
        self._limit = limit
        self._fused = fused
        self._made: dict[tuple[object, ...], Prepared] = {}
        self._prepared: Prepared | None = None
        self._state: State | None = None
        self._fault: RunError | None = None

    def start(self, feeds: Mapping[str, npt.ArrayLike]) -> Machine:
        """Makes the initial state: M holds the feeds and the initializers, and nothing else.

        Raises FeedError where the feeds do not fit, UnsupportedModel where an operator has no
        definition, LimitExceeded where M would be larger than the limit.
        """
        fed = _checked(self.graph, feeds)
        ready = self._prepared = self._prepare(fed)
        if ready.plan.size > self._limit:
            raise LimitExceeded(
                f"M needs {ready.plan.size} bytes, more than the limit of {self._limit}; "
                "raise it with Machine(graph, limit=...)"
            )
        memory = _aligned(ready.plan.size, self._poison or 0)
        state = self._state = State(ready.graph, memory, ready.table, 0, set())
        self._fault = None
        for name, value in {**ready.graph.initializers, **fed}.items():
            if name in ready.table:
                _window(memory, ready.table[name])[...] = value
                state.valued.add(name)
        return self

    def run(self, feeds: Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
        """Starts, takes all steps, and hands out the outputs."""
        for _ in self.start(feeds):
            pass
        return self.outputs

    def __iter__(self) -> Iterator[StepRecord]:
        return self

    def __next__(self) -> StepRecord:
        record = self.step()
        if record is None:
            raise StopIteration
        return record

    def peek(self) -> StepRecord | None:
        """The next step, not yet taken; None if no operation can run any more."""
        ready, state = self._running()
        if state.counter == len(ready.operations):
            return None
        step = ready.timeline.steps[state.counter]
        touched = [tuple(_access(n, ready.table[n]) for n in s) for s in (step.reads, step.writes)]
        return StepRecord(state.counter, ready.operations[state.counter], *touched)

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
        self._execute(ready, state)
        state.valued.update(ready.timeline.steps[state.counter].writes)
        state.counter += 1
        if self._poison is not None:
            _poison(ready, state, self._poison)
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
        return _load(self.state, name).copy()

    def _running(self) -> tuple[Prepared, State]:
        if self._prepared is None or self._state is None:
            raise RunError("the machine has no state before start(feeds)")
        return self._prepared, self._state

    def _prepare(self, fed: Mapping[str, Array]) -> Prepared:
        """The plan and kernels for these feeds; they are kept for feeds of the same shapes."""
        small = {n: v for n, v in fed.items() if v.size <= SMALL}
        shapes = tuple((n, v.shape) for n, v in sorted(fed.items()))
        values = tuple((n, v.tobytes()) for n, v in sorted(small.items()))
        for key in (shapes, (shapes, values)):
            if key in self._made:
                return self._made[key]
        types = {n: TensorType(self.graph.types[n].dtype, v.shape) for n, v in fed.items()}
        key = shapes
        try:
            made = self._make(bind(self.graph, types, {}))
        except Undetermined:
            made, key = self._make(bind(self.graph, types, small)), (shapes, values)
        self._made = {key: made}
        return made

    def _make(self, graph: Graph) -> Prepared:
        """Orders, lowers and plans a graph of concrete shapes."""
        operations, blocked = _executable(graph, self._priority)
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
        if all(name in ready.plan.aliases for name in step.writes):
            return
        arrays = _arrays(op, kernel, step, ready.plan.scratch[k], state)
        try:
            interpret(kernel, arrays, self._fused)
        except RunError as error:
            self._fault = RunError(f"{op}, step {k}: {error}")
            raise self._fault from error


def _permutation(graph: Graph, order: Sequence[int] | None) -> Sequence[int]:
    """order, checked."""
    count = len(graph.operations)
    if order is not None and sorted(order) != list(range(count)):
        raise ValueError(f"order is not a permutation of 0 to {count - 1}")
    return range(count) if order is None else tuple(order)


def _single_assignment(graph: Graph) -> None:
    """V2, C1: every tensor is assigned by one operation, graph inputs and initializers by none."""
    assigned = {*graph.inputs, *graph.initializers}
    for op in graph.operations:
        for name in filter(None, op.outputs):
            if name in assigned:
                raise InvalidModel(f"{op} assigns the tensor '{name}', which has a value already")
            assigned.add(name)


def _executable(
    graph: Graph, priority: Sequence[int]
) -> tuple[tuple[Operation, ...], tuple[Operation, ...]]:
    """The operations in the order in which they are executed, always the first executable one of
    `priority`; and those that never become executable."""
    rank = {i: p for p, i in enumerate(priority)}
    valued = {*graph.inputs, *graph.initializers}
    lacking = [set(reads(op)) - valued for op in graph.operations]
    readers: dict[str, list[int]] = {}
    for i, names in enumerate(lacking):
        for name in names:
            readers.setdefault(name, []).append(i)
    ready = [(rank[i], i) for i, names in enumerate(lacking) if not names]
    heapify(ready)
    order: list[int] = []
    while ready:
        _, i = heappop(ready)
        order.append(i)
        for name in filter(None, graph.operations[i].outputs):
            for reader in readers.get(name, ()):
                lacking[reader].discard(name)
                if not lacking[reader]:
                    heappush(ready, (rank[reader], reader))
    done = set(order)
    blocked = tuple(op for i, op in enumerate(graph.operations) if i not in done)
    return tuple(graph.operations[i] for i in order), blocked


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


def _checked(graph: Graph, feeds: Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
    """The feeds as native arrays of the inputs' types; FeedError names the first that does not
    fit."""
    allowed = (*graph.inputs, *graph.overridable)
    for name in feeds:
        if name not in allowed:
            raise FeedError(f"'{name}' is not an input; the inputs are {', '.join(allowed)}")
    for name in graph.inputs:
        if name not in feeds:
            raise FeedError(f"the input '{name}' is not fed")
    return {name: _fitting(name, np.asarray(feed), graph) for name, feed in feeds.items()}


def _fitting(name: str, value: Array, graph: Graph) -> Array:
    wanted = graph.types[name]
    if t.by_numpy(value.dtype) is not wanted.dtype:
        raise FeedError(f"'{name}' is fed with {value.dtype}, expected {wanted}")
    shape = wanted.shape
    if shape is not None and (
        len(shape) != value.ndim
        or any(isinstance(d, int) and d != n for d, n in zip(shape, value.shape, strict=True))
    ):
        raise FeedError(f"'{name}' is fed with the shape {value.shape}, expected {wanted}")
    return value.astype(wanted.dtype.numpy, copy=False)


def _entry(tensor: TensorType, offset: int, life: tuple[int, int]) -> Entry:
    shape = tuple(d for d in tensor.shape or () if isinstance(d, int))
    return Entry(offset, tensor.dtype, shape, *life)


def _access(name: str, entry: Entry) -> Access:
    return Access(name, entry.offset, entry.dtype, entry.shape)


def _aligned(size: int, fill: int) -> Bytes:
    """`size` bytes that start at a multiple of the alignment."""
    raw = np.zeros(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    memory = raw[start : start + size]
    if fill:
        memory[...] = fill
    return memory


def _window(memory: Bytes, entry: Entry) -> Array:
    """The bytes of a tensor in M, as an array of its dtype and shape."""
    return _cut(memory, entry.offset, entry.dtype, entry.shape)


def _cut(memory: Bytes, offset: int, dtype: DType, shape: tuple[int, ...]) -> Array:
    size = int(np.prod(shape, dtype=np.int64)) * dtype.size
    return memory[offset : offset + size].view(dtype.numpy).reshape(shape)


def _load(state: State, name: str) -> Array:
    """The value of a live tensor, as a window into M."""
    entry = state.table.get(name)
    if entry is None:
        raise RunError(f"'{name}' is not a tensor of the graph")
    if name not in state.valued:
        raise RunError(f"'{name}' has no value before step {entry.first} is done")
    if not _held(entry, state):
        raise RunError(f"'{name}' is dead since step {entry.last}; its place may be in use")
    return _window(state.memory, entry)


def _held(entry: Entry, state: State) -> bool:
    """Whether the bytes of a tensor with a value are there: it is live, or was written last."""
    return entry.last >= state.counter or entry.first == state.counter - 1


def _arrays(
    op: Operation, kernel: Kernel, step: Step, scratch: Sequence[int], state: State
) -> dict[Buffer, Array]:
    """The windows into M that a kernel reads and writes."""
    arrays: dict[Buffer, Array] = {}
    for name, buffer in zip(op.inputs, kernel.inputs, strict=False):
        if name and buffer is not None:
            arrays[buffer] = _bound(op, buffer, _load(state, name))
    for name, buffer in zip(step.writes, kernel.outputs, strict=True):
        arrays[buffer] = _bound(op, buffer, _window(state.memory, state.table[name]))
    for offset, buffer in zip(scratch, kernel.temporaries, strict=True):
        arrays[buffer] = _cut(state.memory, offset, buffer.dtype, extents(buffer))
    return arrays


def _bound(op: Operation, buffer: Buffer, window: Array) -> Array:
    """The window, which must be what the kernel takes the buffer for."""
    if window.dtype != buffer.dtype.numpy or window.shape != extents(buffer):
        raise InternalError(
            f"{op}: {buffer.name} is {buffer.dtype}{list(buffer.shape)} in the kernel, "
            f"{window.dtype}{list(window.shape)} in the table"
        )
    return window


def _poison(ready: Prepared, state: State, byte: int) -> None:
    """Fills M wherever no tensor is held."""
    free = np.ones(len(state.memory), bool)
    for name, entry in state.table.items():
        if name in state.valued and _held(entry, state):
            size = ready.timeline.sizes[name]
            free[entry.offset : entry.offset + size] = False
    state.memory[free] = byte
