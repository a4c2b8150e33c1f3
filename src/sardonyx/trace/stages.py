"""The trace of a graph in stages: its sizes depend on data, or the host takes part.

Its lines are those of trace/form.py, with these differences:

    header   "stages":true stands for the plan and N; the initial tensors lie outside of M
    layout   {"layout":n,"scope":[..],"plan":..,"memory":N,"initial":[place with sha256, ..]}
             M is laid out anew, for the steps of layout n
    body     {"body":true,"scope":[..],"inputs":[..],"captured":[..],"initial":[..],"outputs":[..]}
             a subgraph begins, with these values
    step     has a "scope" and a "layout": null is a step of the host
    scope    [] of the graph itself, else of each subgraph from the outside in [path of the
             operation, attribute, how often that was executed before]

A place outside of M has the offset -1. What is no tensor of numbers is a "string" tensor, a
"sequence", a "map" or "none", whose bytes are those of trace/values.py. An operation with subgraphs
is a step after the steps in them: steps are numbered as they are done. Where a step traps, so do
the operations around it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sardonyx.errors import RunError
from sardonyx.execution import Execution, Runner
from sardonyx.feeds import checked
from sardonyx.graph import Graph, Operation, reads
from sardonyx.machine import Access, Segment, StepRecord
from sardonyx.machine.state import cut
from sardonyx.monitor import KINDS, Kind, Monitor
from sardonyx.stages import Stage
from sardonyx.trace.chain import Chain, Keep
from sardonyx.trace.digest import dumps, elements, of_bytes, of_graph, of_table
from sardonyx.trace.form import VERSION, Subject, described, numerics, placed
from sardonyx.trace.values import encoded, kind
from sardonyx.types import Array, Value

OUTSIDE = -1
Row = dict[str, object]


@dataclass(slots=True)
class _Part:
    """Executes a part of a graph step by step."""

    segment: Segment
    recorder: Recorder

    def run(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        self.segment.start(feeds)
        self.recorder.part(self.segment)
        return self.segment.outputs


@dataclass(slots=True)
class _Inside:
    """The operation whose subgraphs are executed, and how often each of them was."""

    operation: Operation
    execution: Execution
    times: Counter[str] = field(default_factory=Counter)


class Recorder(Runner[_Part]):
    """Executes graphs in stages as the machine does, and keeps the line of each step: the bodies
    of lines in `lines`, which the caller may take out."""

    def __init__(
        self,
        fused: bool,
        keep: Keep,
        scope: list[Any] | None = None,
        steps: int = 0,
        parts: int = 0,
    ) -> None:
        self.monitor = Monitor()
        super().__init__(
            lambda g: _Part(Segment(g, fused=fused, monitor=self.monitor), self), self.monitor.done
        )
        self.lines: list[str] = []
        self._keep = keep
        self._scope: list[Any] = [] if scope is None else scope
        self._steps, self._parts = steps, parts
        self._inside: _Inside | None = None
        self._known: dict[int, tuple[Value, str]] = {}

    def take(self, execution: Execution, stage: Stage) -> Mapping[str, Value]:
        """What a stage gives; its steps are recorded."""
        if stage.part is not None:
            return super().take(execution, stage)
        op = execution.stages.graph.operations[stage.operations[0]]
        read = [self.held(n, execution.env[n]) for n in dict.fromkeys(reads(op))]
        outer, self._inside = self._inside, _Inside(op, execution)
        try:
            found = super().take(execution, stage)
        except RunError:
            gone = [lost(name) for name in filter(None, op.outputs)]
            self._step(op, read, gone, {"index"}, None)
            raise
        finally:
            self._inside = outer
        written = [new(self.held(n, v)) for n, v in found.items()]
        self._step(op, read, written, frozenset(), None)
        return found

    def _body(self, graph: Graph, values: Mapping[str, Value]) -> dict[str, Value]:
        inside = self._inside
        assert inside is not None
        op, bodies = inside.operation, inside.execution.stages.bodies
        index = next(i for i, o in enumerate(inside.execution.stages.graph.operations) if o is op)
        name = next(n for n in op.subgraphs if bodies[index, n] is graph)
        self._scope.append([list(op.origin.path), name, inside.times[name]])
        inside.times[name] += 1
        arity = len(op.subgraphs[name].inputs)
        parts = (graph.inputs[:arity], graph.inputs[arity:])
        own, captured = ([self.held(n, values[n]) for n in names] for names in parts)
        weights = [self.held(n, v) for n, v in graph.initializers.items()]
        self.lines.append(body_line(self._scope, own, captured, weights, graph.outputs))
        try:
            return super()._body(graph, values)
        finally:
            self._scope.pop()

    def part(self, segment: Segment) -> None:
        """Takes all steps of a part that was started."""
        initial = [
            self._in_memory(segment, Access(n, e.offset, e.dtype, e.shape))
            for n, e in segment.state.table.items()
            if e.first == -1
        ]
        plan = of_table(segment.state.table, segment.plan.size)
        number, self._parts = self._parts, self._parts + 1
        self.lines.append(layout_line(number, self._scope, plan, segment.plan.size, initial))
        for record in segment.records():
            self._stepped(segment, record, number)
        segment.step()

    def _stepped(self, segment: Segment, record: StepRecord, part: int) -> None:
        """Takes a step in M."""
        read = [self._in_memory(segment, a) for a in record.reads]
        before = [self._in_memory(segment, a) for a in record.writes]
        seen, after = len(self.monitor.findings), [""] * len(before)
        try:
            segment.step()
            after = [str(self._in_memory(segment, a)["sha256"]) for a in record.writes]
        finally:
            written = [written_as(row, d) for row, d in zip(before, after, strict=True)]
            flags = {f.kind for f in self.monitor.findings[seen:]}
            self._step(record.operation, read, written, flags, part)

    def _step(
        self, op: Operation, read: list[Row], written: list[Row], flags: Any, part: int | None
    ) -> None:
        told = {kind: int(kind in flags) for kind in KINDS}
        self.lines.append(step_line(self._steps, self._scope, part, op, read, written, told))
        self._steps += 1

    def held(self, name: str, value: Value) -> Row:
        """A value outside of M, with its digest."""
        known = self._known.get(id(value))
        if known is None or known[0] is not value:
            data = encoded(value)
            self._keep(digest := of_bytes(data), data)
            known = (value, digest)
            self._known = {id(value): known} if len(self._known) > 256 else self._known
            self._known[id(value)] = known
        return outside(name, value, known[1])

    def _in_memory(self, segment: Segment, a: Access) -> Row:
        data = elements(cut(segment.memory, a.offset, a.dtype, a.shape))
        self._keep(digest := of_bytes(data), data)
        return {**placed(a), "sha256": digest}

    @property
    def steps(self) -> int:
        """How many steps were done, with those that trapped."""
        return self._steps


def outside(name: str, value: Value, digest: str) -> Row:
    """A value outside of M, as a line has it."""
    dtype, shape, size = kind(value)
    place = {"name": name, "dtype": dtype, "shape": list(shape), "offset": OUTSIDE}
    return {**place, "size": size, "sha256": digest}


def layout_line(
    number: object, scope: list[Any], plan: str, memory: int, initial: Sequence[Row]
) -> str:
    """The body of the line of a layout."""
    head: Row = {"layout": number, "scope": scope, "plan": plan}
    return dumps({**head, "memory": memory, "initial": initial})[:-1]


def body_line(
    scope: list[Any],
    inputs: Sequence[Row],
    captured: Sequence[Row],
    initial: Sequence[Row],
    outputs: Sequence[str],
) -> str:
    """The body of the line with which a subgraph begins."""
    head: Row = {"body": True, "scope": scope, "inputs": inputs, "captured": captured}
    return dumps({**head, "initial": initial, "outputs": list(outputs)})[:-1]


def step_line(
    number: object,
    scope: list[Any],
    layout: object,
    op: Operation,
    read: Sequence[Row],
    written: Sequence[Row],
    flags: Mapping[Kind, object],
) -> str:
    """The body of the line of a step."""
    head: Row = {"step": number, "scope": scope, "layout": layout}
    rows: Row = {"operation": described(op), "reads": read, "writes": written, "flags": flags}
    return dumps({**head, **rows})[:-1]


def header_line(graph: Graph, subject: Subject, initial: Sequence[Row]) -> str:
    """The body of the header."""
    head: Row = {
        "trace": VERSION,
        "numerics": numerics(graph, subject.fused),
        "model": {"name": subject.name, "sha256": subject.sha256},
        "profile": subject.profile,
        "graph": of_graph(graph),
        "stages": True,
        "initial": initial,
        "outputs": list(graph.outputs),
    }
    return dumps(head)[:-1]


def footer_line(end: str, steps: object, outputs: Sequence[Row]) -> str:
    """The body of the footer, up to the root."""
    return f'{dumps({"end": end, "steps": steps, "outputs": outputs})[:-1]},"root":"'


def written_as(row: Row, after: str) -> Row:
    """What was read as what is written: its digest was `sha256` before."""
    rest = {k: v for k, v in row.items() if k != "sha256"}
    return {**rest, "before": row["sha256"], "after": after}


def new(row: Row) -> Row:
    """What the host wrote: there was nothing before."""
    return written_as({**row, "sha256": ""}, str(row["sha256"]))


def lost(name: str) -> Row:
    """What the host would have written."""
    place = {"name": name, "dtype": "none", "shape": [], "offset": OUTSIDE, "size": 0}
    return {**place, "before": "", "after": ""}


def staged(graph: Graph, feeds: Mapping[str, Value], subject: Subject, keep: Keep) -> Iterator[str]:
    """The lines of the trace of one run of a graph in stages, as `trace` gives them."""
    values = checked(graph, feeds)
    recorder, chain = Recorder(subject.fused, keep), Chain()
    execution = recorder.execution(graph, values, frozenset(graph.symbols))
    initial = [recorder.held(n, v) for n, v in execution.env.items()]
    yield chain.line(header_line(graph, subject, initial))
    try:
        while (stage := execution.next()) is not None:
            execution.finish(stage, recorder.take(execution, stage))
            yield from map(chain.line, recorder.lines)
            recorder.lines.clear()
        outputs = execution.outputs()
    except RunError:
        yield from map(chain.line, recorder.lines)
        yield chain.footer(footer_line("trapped", recorder.steps, []))
        raise
    rows: list[Row] = [
        {"name": n, "sha256": recorder.held(n, v)["sha256"]} for n, v in outputs.items()
    ]
    yield chain.footer(footer_line("complete", recorder.steps, rows))
