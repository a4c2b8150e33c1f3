"""Steps of a run in stages executed again, each from its own record.

    matches_stages(graph, trace)          whether the trace is of this graph
    replay_stages(graph, lines, steps, fused, find)

An operation with subgraphs is executed with all steps in them, which have to be those that the
trace has before it; the steps in them are also executed one by one. The plan of a part is not made
again: what it must guarantee is checked by trace/scopes.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sardonyx.errors import RunError, SardonyxError
from sardonyx.graph import Graph, Operation, reads
from sardonyx.infer import infer
from sardonyx.machine import Segment
from sardonyx.monitor import KINDS, Monitor
from sardonyx.stages import Stage, Stages
from sardonyx.trace.digest import of_bytes, of_graph, of_tensor
from sardonyx.trace.form import described
from sardonyx.trace.read import Layout, Line, Record, Touched, Trace, line_of
from sardonyx.trace.replay import Find, Replayed, described_key
from sardonyx.trace.stages import Recorder
from sardonyx.trace.values import decoded, encoded
from sardonyx.types import Array, TensorType, Value

Key = tuple[tuple[tuple[int, ...], str], ...]


@dataclass(slots=True)
class _Known:
    """The graph in each scope as the machine executes it, and the values of its initializers."""

    graph: Graph
    scopes: dict[Key, Stages] = field(default_factory=dict)
    weights: dict[str, Array] = field(default_factory=dict)
    places: dict[Key, dict[str, int]] = field(default_factory=dict)
    segments: dict[object, tuple[Segment, Monitor]] = field(default_factory=dict)

    def index(self, key: Key, operation: Mapping[str, Any]) -> int:
        """Which operation of a scope's graph a record is of; KeyError if none."""
        if key not in self.places:
            ops = self.stages(key).graph.operations
            self.places[key] = {described_key(described(op)): i for i, op in enumerate(ops)}
        return self.places[key][described_key(operation)]

    def stages(self, key: Key) -> Stages:
        """The graph that a scope executes; KeyError where the graph has no such subgraph."""
        if key not in self.scopes:
            if key:
                around, (path, name) = self.stages(key[:-1]), key[-1]
                ops = enumerate(around.graph.operations)
                body = next(
                    (around.bodies[i, name] for i, op in ops
                     if op.origin.path == path and name in op.subgraphs), None
                )  # fmt: skip
                if body is None:
                    raise KeyError(name)
                self.scopes[key] = Stages(body)
            else:
                self.scopes[key] = Stages(self.graph, frozenset(self.graph.symbols))
            found = self.scopes[key].graph.initializers.values()
            self.weights |= {of_bytes(encoded(v)): v for v in found}
        return self.scopes[key]


def matches_stages(graph: Graph, trace: Trace) -> list[str]:
    """What of the trace is not of this graph."""
    found = []
    if trace.header["graph"] != of_graph(graph):
        found.append("the trace is of another graph")
    stages = _Known(graph).stages(())
    expected = Counter(described_key(described(op)) for op in stages.graph.operations)
    done = Counter(described_key(s.operation) for s in trace.steps if not s.scope)
    if done - expected:
        found.append("there are steps of operations that the graph does not have")
    if trace.complete and expected - done:
        found.append(f"{sum((expected - done).values())} operations of the graph have no step")
    weights = {n: of_tensor(v) for n, v in graph.initializers.items()}
    fed = {*graph.inputs, *graph.overridable}
    for x in trace.initial:
        if x.name not in fed and weights.get(x.name) != x.before:
            found.append(f"the initializer '{x.name}' is another one")
    return found


def replay_stages(
    graph: Graph, lines: Sequence[Line] | None, steps: Sequence[Record], fused: bool, find: Find
) -> Iterator[Replayed]:
    """Each of the steps, executed from its record. lines: those of the whole trace, if it is
    there."""
    known = _Known(graph)
    inner = {} if lines is None else _inner(lines)
    for step in steps:
        try:
            yield _again(known, step, None if lines is None else inner.get(step.number, []),
                         fused, find)  # fmt: skip
        except KeyError:
            yield Replayed(step, "differs", "the graph has no such operation")
        except SardonyxError as error:
            yield Replayed(step, "differs", f"it cannot be executed again: {error}")


def _inner(lines: Sequence[Line]) -> dict[int, list[Line]]:
    """For each step of an operation with subgraphs, the lines of their execution."""
    found: dict[int, list[Line]] = {}
    open_: list[Line] = []
    for line in lines:
        if isinstance(line, Record) and line.layout is None:
            start = len(open_)
            while start and len(open_[start - 1].scope) > len(line.scope):
                start -= 1
            if start < len(open_):
                found[line.number] = open_[start:]
        open_.append(line)
    return found


def _again(
    known: _Known, step: Record, inside: list[Line] | None, fused: bool, find: Find
) -> Replayed:
    key = tuple((path, name) for path, name, _ in step.scope)
    stages, index = known.stages(key), known.index(key, step.operation)
    op = stages.graph.operations[index]
    if {x.name for x in step.reads} != set(reads(op)):
        return Replayed(step, "differs", "it does not read what the operation reads")
    values, missing = _operands(known, step, find)
    if missing:
        return Replayed(step, "unknown", f"no value of {', '.join(missing)}")
    if step.layout is not None:
        return _kernel(known, stages, op, step, values, fused)
    return _host(stages, index, step, inside, values, fused)


def _operands(known: _Known, step: Record, find: Find) -> tuple[dict[str, Value], list[str]]:
    """The values that a step reads, and the names of those that are not to be found."""
    values: dict[str, Value] = {}
    missing = []
    for x in step.reads:
        weight = known.weights.get(x.before)
        if weight is not None and (weight.shape, weight.dtype) == (x.shape, x.dtype.numpy):
            values[x.name] = weight
        elif (data := find(x.before)) is None:
            missing.append(x.name)
        else:
            values[x.name] = decoded(x, data)
    return values, missing


def _kernel(
    known: _Known,
    stages: Stages,
    op: Operation,
    step: Record,
    values: Mapping[str, Value],
    fused: bool,
) -> Replayed:
    """A step in M: the operation alone, in an M of its own."""
    kinds = {x.name: TensorType(x.dtype, x.shape) for x in step.reads}
    weights = stages.graph.initializers
    fixed = {n: weights[n] for n, v in values.items() if n in weights and weights[n] is v}
    key = op, tuple(kinds.items()), tuple(fixed)
    if key not in known.segments:
        monitor = Monitor()
        graph = _alone(stages.graph, op, kinds, fixed)
        alone = Segment(graph, fused=fused, monitor=monitor)
        known.segments[key] = alone, monitor
    segment, monitor = known.segments[key]
    monitor.findings.clear()
    try:
        found = segment.run({n: v for n, v in values.items() if n in segment.graph.inputs})
        digests = {n: of_tensor(v) for n, v in found.items()}
    except RunError:
        digests = dict.fromkeys(segment.graph.outputs, "")
    return _compared(step, digests, {f.kind for f in monitor.findings})


def _alone(
    graph: Graph, op: Operation, kinds: Mapping[str, TensorType], fixed: Mapping[str, Array]
) -> Graph:
    """An operation as a graph, for operands of these types, some with fixed values."""
    found = replace(
        graph,
        inputs=tuple(n for n in kinds if n not in fixed),
        outputs=tuple(filter(None, op.outputs)),
        overridable=(),
        initializers=dict(fixed),
        operations=(op,),
        types=dict(kinds),
        declared={},
        values={},
        containers={},
    )
    return infer(found)


def _host(
    stages: Stages,
    index: int,
    step: Record,
    inside: list[Line] | None,
    values: Mapping[str, Value],
    fused: bool,
) -> Replayed:
    """A step of the host: with the steps in its subgraphs, if there are any."""
    lines = inside or []
    first = step.number - sum(isinstance(x, Record) for x in lines)
    layouts = [x.number for x in lines if isinstance(x, Layout)]
    scope = [[list(path), name, i] for path, name, i in step.scope]
    recorder = Recorder(fused, lambda digest, data: None, scope, first, min(layouts, default=0))
    execution = recorder.execution(stages.graph, values, stages.symbols)
    try:
        found = recorder.take(execution, Stage((index,), None))
        digests = {n: of_bytes(encoded(v)) for n, v in found.items()}
        flags = set[str]()
    except RunError:
        digests, flags = dict.fromkeys(filter(None, step.operation["outputs"]), ""), {"index"}
    again = [line_of(body) for body in recorder.lines[:-1]]
    if inside is not None and again != lines:
        return Replayed(step, "differs", "executing it again takes other steps in its subgraphs")
    return _compared(step, digests, flags)


def _compared(step: Record, digests: Mapping[str, str], flags: set[str]) -> Replayed:
    """What a step gave again beside what its record has."""
    written: dict[str, Touched] = {x.name: x for x in step.writes}
    if set(digests) != set(written):
        return Replayed(step, "differs", f"it writes {', '.join(digests) or 'nothing'}")
    other = [n for n, d in digests.items() if d != written[n].after]
    if other:
        return Replayed(step, "differs", f"executing it again gives another {', '.join(other)}")
    if {k for k in KINDS if step.flags.get(k)} != flags:
        return Replayed(step, "differs", f"the flags are {', '.join(sorted(flags)) or 'none'}")
    return Replayed(step, "equal")
