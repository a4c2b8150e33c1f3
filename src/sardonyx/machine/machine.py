"""The machine (G, M, T): a graph executed step by step in one byte array.

docs/machine.md defines it.

    machine = Machine(graph)
    for record in machine.start({"x": x}):
        print(record.operation, record.reads, record.writes)
    machine.outputs

A graph whose sizes its inputs decide is executed in one M. Otherwise M is laid out anew for each
part whose sizes are known then, with the live tensors moved; what the host performs (control flow,
strings, sequences) is one step, between two layouts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from sardonyx import types as t
from sardonyx.errors import RunError, of_a_run
from sardonyx.execution import Execution, Runner
from sardonyx.feeds import checked, numbers
from sardonyx.graph import Graph, Operation, reads
from sardonyx.machine.order import single_assignment
from sardonyx.machine.segment import Segment
from sardonyx.machine.state import Access, Entry, State, StepRecord
from sardonyx.memory import MEMORY_LIMIT, Bytes
from sardonyx.monitor import Monitor
from sardonyx.plan import Plan
from sardonyx.stages import Stage, is_staged
from sardonyx.types import Value

OUTSIDE = -1  # the offset of what does not lie in M


class Machine:
    """Executes a graph step by step; the results are the definition of what the graph computes.

    order: a permutation of the operations' indices; the next operation is always the first
    executable one in it (by default: in the graph's order; only where the inputs decide all
    sizes). no_reuse: every tensor has a place of its own in M. poison: a byte that fills M
    wherever no live tensor is. limit: the most bytes that M may have. fused=False computes sums of
    products unfused (numerics="unfused"). monitor: watches each step, see sardonyx.monitor.
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
        make = partial(
            Segment,
            no_reuse=no_reuse,
            poison=poison,
            limit=limit,
            fused=fused,
            monitor=monitor,
        )
        staged = is_staged(graph)
        if staged and order is not None:
            raise ValueError("an order needs a graph in which the inputs decide all sizes")
        self._whole = None if staged else make(graph, order=order)
        self._monitor = monitor
        self._runner: Runner[Segment] = Runner(make, monitor.done if monitor else None)
        self._execution: Execution | None = None
        self._stage: Stage | None = None
        self._segment: Segment | None = None
        self._base = 0

    def start(self, feeds: Mapping[str, Value]) -> Machine:
        """Makes the initial state: M holds the feeds and the initializers, and nothing else.

        Raises FeedError where the feeds do not fit, UnsupportedModel where an operator has no
        definition, LimitExceeded where M would be larger than the limit.
        """
        self._base, self._stage = 0, None
        if self._monitor is not None:
            self._monitor.begin()
        if self._whole is not None:
            self._segment = self._whole.start(feeds)
        else:
            self._segment = None
            symbols, values = frozenset(self.graph.symbols), checked(self.graph, feeds)
            numbers(self.graph, values)  # each symbol has one, of inputs that nothing reads too
            self._execution = self._runner.execution(self.graph, values, symbols)
            self._enter(self._execution)
        return self

    def run(self, feeds: Mapping[str, Value]) -> dict[str, Value]:
        """Starts, takes all steps, and hands out the outputs. Raises Unfit where sizes or values
        break a rule of an operator."""
        with of_a_run():
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
        if self._execution is None or (self._stage is not None and self._stage.part is not None):
            return self._numbered(self._running().peek())
        if self._stage is None:
            return None
        return self._record(self._execution, self._stage, {})

    def records(self) -> tuple[StepRecord, ...]:
        """All steps of a run of known sizes, taken or not; RunError before start(feeds)."""
        return self._running().records()

    def step(self) -> StepRecord | None:
        """Takes the next step; None if no operation can run any more and the outputs are complete.

        Raises RunError where the operation traps, InvalidModel where an output has no value at
        the end.
        """
        if self._execution is None:
            return self._running().step()
        if self._stage is None:
            self._execution.outputs()
            return None
        if self._stage.part is None:
            results = self._runner.take(self._execution, self._stage)
            record = self._record(self._execution, self._stage, results)
            self._leave(self._execution, self._stage, results)
            return record
        segment = self._running()
        found = self._numbered(segment.step())
        if segment.peek() is None:
            segment.step()
            self._leave(self._execution, self._stage, segment.outputs)
        return found

    def _enter(self, execution: Execution) -> None:
        """Begins the next stage."""
        self._stage = execution.next()
        part = self._stage.part if self._stage is not None else None
        if self._stage is not None and part is not None:
            self._segment = self._runner.made(part).start(execution.feeds(self._stage))

    def _leave(self, execution: Execution, stage: Stage, results: Mapping[str, Value]) -> None:
        execution.finish(stage, results)
        self._base += len(stage.operations)
        self._enter(execution)

    def _record(
        self, execution: Execution, stage: Stage, results: Mapping[str, Value]
    ) -> StepRecord:
        """The step of a host operation: the tensors it touches, which lie outside M."""
        op: Operation = execution.stages.graph.operations[stage.operations[0]]
        touched = [
            tuple(_outside(n, v) for n, v in found.items() if isinstance(v, np.ndarray))
            for found in ({n: execution.env.get(n) for n in reads(op)}, results)
        ]
        return StepRecord(self._base, op, *touched)

    def _numbered(self, record: StepRecord | None) -> StepRecord | None:
        return record and replace(record, number=self._base + record.number)

    @property
    def state(self) -> State:
        """The state (G, M, T, c, H) after the last step, of the part that is executed."""
        return self._running().state

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
        return self._running().plan

    @property
    def laid_out(self) -> Plan | None:
        """The plan of M as it is laid out; None before the first part of the graph in M."""
        return None if self._segment is None else self._segment.plan

    @property
    def outputs(self) -> dict[str, Value]:
        """A copy of each graph output that has a value."""
        if self._execution is None:
            return dict(self._running().outputs)
        env = self._execution.env
        return {n: _copy(env[n]) for n in self.graph.outputs if n in env}

    def value(self, name: str) -> Value:
        """A copy of what a tensor holds that is live or was written by the last step; RunError if
        it holds nothing (any more)."""
        if self._execution is not None and name in self._execution.env:
            return _copy(self._execution.env[name])
        return self._running().value(name)

    def _running(self) -> Segment:
        if self._segment is None:
            raise RunError("the machine has no state before start(feeds)")
        return self._segment


def _outside(name: str, value: np.ndarray) -> Access:
    return Access(name, OUTSIDE, t.by_numpy(value.dtype) or t.string, value.shape)


def _copy(value: Value) -> Value:
    return value.copy() if isinstance(value, np.ndarray | list | dict) else value
