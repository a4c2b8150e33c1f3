"""The program of a graph in stages as C that writes its trace: control flow of known sizes.

    made = observed_stages(graph, feeds, subject)
    emit(made.program, made.plan, watched=made.watched), made.files

The stages are found by Stages, as the machine finds them, with values of which only the types
count: where others decide sizes, there is no such program. Each layout of M is a program of its own
in its own plan, that of the machine's segment (trace/observe.py); a scope is a program whose steps
are these, and the control flow of passes/lower.py; its tensors are the values that lie outside of
the machine's M, so they have places of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np

from sardonyx.errors import (
    InternalError,
    InvalidModel,
    RunError,
    Undetermined,
    UnsupportedModel,
)
from sardonyx.execution import Execution
from sardonyx.feeds import checked
from sardonyx.graph import Graph, Operation, captures, reads
from sardonyx.infer import bind, value_inputs
from sardonyx.machine import Access, Segment
from sardonyx.monitor import KINDS, Kind
from sardonyx.passes.calling import part
from sardonyx.passes.lower import lower
from sardonyx.passes.program import Body, Launch, Program, Watched
from sardonyx.passes.timeline import timeline_of
from sardonyx.plan import Plan, plan
from sardonyx.stages import Stage, Stages, closed
from sardonyx.trace.digest import of_table
from sardonyx.trace.form import Subject, placed
from sardonyx.trace.observe import HEAD, Counter, beside, text_of, with_checks
from sardonyx.trace.stage_lines import Draft, Line, cut, mark, numbered, tables
from sardonyx.trace.stages import (
    Row,
    body_line,
    footer_line,
    header_line,
    layout_line,
    lost,
    new,
    outside,
    step_line,
    written_as,
)
from sardonyx.types import Array, TensorType, Value, by_numpy


@dataclass(frozen=True, slots=True, eq=False)
class ObservedStages:
    """A program in stages, its plan, what is observed of the programs in it, and the C files beside
    model.c."""

    program: Program
    plan: Plan
    watched: Mapping[object, Watched]
    files: Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class _Scope:
    """A graph that is executed: as the machine has it, with the types of this run, the values that
    are known of what it is given, and its scope in the trace."""

    graph: Graph
    typed: Graph
    values: Mapping[str, Value]
    known: frozenset[str]
    path: tuple[Any, ...] = ()
    arity: int = 0

    @property
    def written(self) -> list[Any]:
        """The scope as JSON, with the counts of executions to be filled in."""
        return [[*x, mark("s", i)] for i, x in enumerate(self.path)]


def observed_stages(graph: Graph, feeds: Mapping[str, Array], subject: Subject) -> ObservedStages:
    """The program of a graph for feeds of these types.

    Raises UnsupportedModel where sizes depend on data, or where the host does what compiled C does
    not have."""
    values = checked(graph, feeds)
    if set(values) & set(graph.overridable):
        raise UnsupportedModel("the C of a trace takes no other value for an initializer")
    plain = {n: v for n, v in values.items() if isinstance(v, np.ndarray) and v.dtype != object}
    arrays = {n: v for n, v in plain.items() if n in graph.types}  # not the value of an optional
    types = {n: TensorType(graph.types[n].dtype, v.shape) for n, v in arrays.items()}
    if len(types) < len(values):
        raise UnsupportedModel("C cannot write its trace: an input is no tensor of numbers")
    made = _Maker(subject)
    blank: dict[str, Value] = {n: np.zeros_like(v) for n, v in arrays.items()}
    try:
        program = made.scope(_Scope(graph, bind(graph, types, {}), blank, frozenset()))
    except (Undetermined, UnsupportedModel, InvalidModel, RunError) as error:
        raise UnsupportedModel(
            f"the graph '{graph.name}' has sizes that its data decide, or operations of the host "
            f"other than control flow: C cannot write its trace ({error})"
        ) from error
    return made.finished(program)


@dataclass(slots=True, eq=False)
class _Maker:
    """Makes programs, and keeps what is observed of them."""

    subject: Subject
    drafts: dict[Program, Draft] = field(default_factory=dict)

    def scope(self, scope: _Scope) -> Program:
        """The program of a scope."""
        symbols = frozenset() if scope.path else frozenset(scope.graph.symbols)
        execution = Execution(Stages(scope.graph, symbols), scope.values, _never)
        known = scope.known | set(scope.graph.initializers)
        values = dict(execution.env)

        def body(op: Operation, name: str, typed: Graph) -> Body:
            inner = self.scope(_inner(scope, values, known, op, name, typed))
            return Body(inner, plan(timeline_of(inner), no_reuse=True))

        plain = lower(scope.typed, overridable=False, fused=self.subject.fused, make=body)
        tensors, draft, launches = dict(plain.tensors), Draft(), list[Launch]()
        draft.begin = _begins(scope, execution.env, self.subject)
        while (stage := execution.next()) is not None:
            if stage.part is not None:
                launches.append(self._part(scope, execution, stage, known, tensors))
                names = stage.part.outputs
            else:
                op = execution.stages.graph.operations[stage.operations[0]]
                launches += _performed(scope, op, plain, draft, len(launches))
                names = tuple(filter(None, op.outputs))
            results: dict[str, Value] = {n: _blank(tensors[n]) for n in names}
            values |= results
            execution.finish(stage, results)
        if not scope.path:
            outputs = {n: values[n] for n in dict.fromkeys(scope.graph.outputs)}
            draft.end, draft.cut = _footers(outputs)
        weights = {n: v for n, v in scope.graph.initializers.items() if n not in scope.graph.inputs}
        program = Program(
            tuple(scope.graph.inputs), scope.graph.outputs, tensors, weights, tuple(launches)
        )
        self.drafts[program] = draft
        return program

    def _part(
        self,
        scope: _Scope,
        execution: Execution,
        stage: Stage,
        known: frozenset[str],
        tensors: dict[str, TensorType],
    ) -> Launch:
        """The launch of a part in its own M."""
        assert stage.part is not None
        deciding = [n for n in value_inputs(stage.part) if n not in known]
        if deciding:
            raise Undetermined(f"sizes depend on the values of {', '.join(deciding)}")
        segment = Segment(stage.part, fused=self.subject.fused).start(execution.feeds(stage))
        made, state = with_checks(segment), segment.state
        table = {n: TensorType(e.dtype, e.shape) for n, e in state.table.items()}
        if any(table[n] != tensors.get(n) for n in made.program.outputs):
            raise Undetermined("the sizes of a part differ from those that follow from its types")
        lines = [
            _in_memory(scope, r.operation, r.reads, r.writes, made.flags + 64 * k)
            for k, r in enumerate(segment.records())
        ]
        initial = tuple(
            Access(n, e.offset, e.dtype, e.shape) for n, e in state.table.items() if e.first == -1
        )
        rows = [{**placed(a), "sha256": mark("d", i)} for i, a in enumerate(initial)]
        digest = of_table(state.table, segment.plan.size)
        text = layout_line(mark("l"), scope.written, digest, segment.plan.size, rows)
        self.drafts[made.program] = Draft(
            hooks={i: (lines[k], a, b) for i, (k, a, b) in made.hooks.items()},
            clears=made.plan.size,
            begin=Line("l", cut(text), initial),
        )
        operations = [r.operation for r in segment.records()]
        return part(operations, Body(made.program, made.plan), {**table, **tensors})

    def finished(self, program: Program) -> ObservedStages:
        """The lines get their numbers."""
        lines: dict[Line, int] = {}
        watched: dict[object, Watched] = {
            p: numbered(self.drafts[p], lines) for p in _programs(program)
        }
        made = plan(timeline_of(program), no_reuse=True)
        files = {
            "observe.h": text_of("observe_stages.h"),
            "observe.c": "\n".join([HEAD, *tables(lines), text_of("observe.c"), "#endif\n"]),
            **beside(program, made),
        }
        return ObservedStages(program, made, watched, files)


def _never(graph: Graph, values: Mapping[str, Value]) -> Mapping[str, Value]:
    raise InternalError("only the types of a subgraph are followed")


def _inner(
    scope: _Scope,
    values: Mapping[str, Value],
    known: frozenset[str],
    op: Operation,
    name: str,
    typed: Graph,
) -> _Scope:
    """A subgraph as a scope. What it captures and is known outside is known in it."""
    raw = op.subgraphs[name]
    fixed = frozenset(n for n in captures(raw) if n in known and n not in raw.inputs)
    given: dict[str, Value] = {n: _blank(typed.types[n]) for n in typed.inputs if n not in fixed}
    path = (*scope.path, [list(op.origin.path), name])
    given |= {n: values[n] for n in fixed}
    ordered = {n: given[n] for n in typed.inputs}
    return _Scope(closed(raw), typed, ordered, fixed, path, len(raw.inputs))


def _blank(tensor: TensorType) -> Array:
    return np.zeros([int(str(d)) for d in tensor.shape or ()], tensor.dtype.numpy)


def _performed(scope: _Scope, op: Operation, plain: Program, draft: Draft, at: int) -> list[Launch]:
    """The launches of control flow, and its line."""
    found = [x for x in plain.launches if x.operations[0].origin == op.origin]
    last = at + next(i for i, x in enumerate(found) if x.call is not None)
    names = {n: plain.tensors[n] for n in dict.fromkeys(reads(op))}
    results = {n: plain.tensors[n] for n in op.outputs if n}
    if any(0 in (k.shape or ()) for k in results.values()):
        raise UnsupportedModel(f"{op} gives nothing: its trace has the type that the model states")
    touched = tuple(map(_access, names, names.values()))
    made = tuple(map(_access, results, results.values()))
    read = [outside(n, _blank(k), mark("d", i)) for i, (n, k) in enumerate(names.items())]
    write = [
        new(outside(n, _blank(k), mark("d", i)))
        for i, (n, k) in enumerate(results.items(), len(read))
    ]
    gone = [lost(n) for n in results]
    flags = dict.fromkeys(KINDS, 0)
    head = mark("n"), scope.written, None, op, read
    draft.opens[at] = len(scope.path)
    draft.lost[last] = Line("o", cut(step_line(*head, gone, {**flags, "index": 1})), touched)
    draft.after[at + len(found) - 1] = Line("o", cut(step_line(*head, write, flags)), touched, made)
    return found


def _in_memory(
    scope: _Scope, op: Operation, read: Sequence[Access], written: Sequence[Access], flags: int
) -> Line:
    """The line of a step in M."""
    rows = [{**placed(a), "sha256": mark("r", i)} for i, a in enumerate(read)]
    made = [
        written_as({**placed(a), "sha256": mark("b", i)}, mark("d", i))
        for i, a in enumerate(written)
    ]
    told: dict[Kind, object] = {kind: mark("f", i) for i, kind in enumerate(KINDS)}
    text = step_line(mark("n"), scope.written, mark("l"), op, rows, made, told)
    return Line("s", cut(text), tuple(read), tuple(written), flags)


def _begins(scope: _Scope, env: Mapping[str, Value], subject: Subject) -> Line:
    """The line with which a scope begins."""
    if not scope.path:
        touched = tuple(_value(n, v) for n, v in env.items())
        return Line("h", cut(header_line(scope.graph, subject, _rows(env))), touched)
    given = {n: scope.values[n] for n in scope.graph.inputs}
    weights = scope.graph.initializers
    numbers = count()
    own, captured, initial = (
        [outside(n, v, mark("d", next(numbers))) for n, v in part]
        for part in (
            list(given.items())[: scope.arity],
            list(given.items())[scope.arity :],
            weights.items(),
        )
    )
    text = body_line(scope.written, own, captured, initial, scope.graph.outputs)
    touched = tuple(_value(n, v) for n, v in (*given.items(), *weights.items()))
    return Line("b", cut(text), touched, at=len(scope.path) - 1)


def _footers(outputs: Mapping[str, Value]) -> tuple[Line, Line]:
    """The last line: of a whole run, and of one that traps."""
    rows: list[Row] = [{"name": n, "sha256": mark("d", i)} for i, n in enumerate(outputs)]
    touched = tuple(_value(n, v) for n, v in outputs.items())
    texts = footer_line("complete", mark("n"), rows), footer_line("trapped", mark("n"), [])
    whole, trapped = ((*cut(text), Counter("m"), '"') for text in texts)
    return Line("f", whole, touched), Line("f", trapped)


def _rows(values: Mapping[str, Value]) -> list[Row]:
    return [outside(n, v, mark("d", i)) for i, (n, v) in enumerate(values.items())]


def _access(name: str, tensor: TensorType) -> Access:
    return Access(name, 0, tensor.dtype, tuple(int(str(d)) for d in tensor.shape or ()))


def _value(name: str, value: Value) -> Access:
    assert isinstance(value, np.ndarray)
    dtype = by_numpy(value.dtype)
    assert dtype is not None
    return Access(name, 0, dtype, value.shape)


def _programs(program: Program) -> Iterator[Program]:
    """A program and all in it."""
    yield program
    for launch in program.launches:
        for body in launch.call.bodies if launch.call else ():
            yield from _programs(body.program)
