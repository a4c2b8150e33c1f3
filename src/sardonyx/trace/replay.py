"""Steps of a trace executed again.

    replay(graph, trace, find)   every step from its own record: its operands are looked up by their
                                 digests, the operator is applied, and what it gives is compared
    matches(graph, trace)        whether the trace is of this graph, in this graph's plan

Nothing of one step's result is used for the next, so each step is checked alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from sardonyx.errors import RunError
from sardonyx.graph import Graph, Operation, reads
from sardonyx.infer import kernel_of
from sardonyx.kernel.interpret import evaluate
from sardonyx.machine import Machine
from sardonyx.monitor import KINDS, Kind, broken, made
from sardonyx.trace.digest import of_graph, of_table, of_tensor
from sardonyx.trace.form import described
from sardonyx.trace.read import InvalidTrace, Record, Touched, Trace
from sardonyx.trace.values import tensor
from sardonyx.trace.write import started
from sardonyx.types import Array, TensorType

Find: TypeAlias = Callable[[str], bytes | None]  # digest -> elements, if they are there
Outcome: TypeAlias = Literal["equal", "differs", "unknown"]


@dataclass(frozen=True, slots=True)
class Replayed:
    """What executing a step again gave: unknown where an operand was not to be found."""

    step: Record
    outcome: Outcome
    why: str = ""


def machine_of(
    graph: Graph, header: Mapping[str, Any], initial: tuple[Touched, ...], find: Find
) -> Machine:
    """The machine of a trace at its initial state; inputs that cannot be found are zeros."""
    feeds = {}
    for x in initial:
        if x.name in graph.inputs or x.name in graph.overridable:
            value = tensor(x, find(x.before))
            feeds[x.name] = _blank(x) if value is None else value
    return started(graph, feeds, header["numerics"]["fused"])


def _blank(x: Touched) -> Array:
    """Zeros, of which there is one in memory: a trace may name any size."""
    try:
        return np.broadcast_to(np.zeros((), x.dtype.numpy), x.shape)
    except ValueError as error:
        raise InvalidTrace(f"'{x.name}' has a size that no tensor has: {error}") from error


def matches(machine: Machine, trace: Trace) -> list[str]:
    """What of the trace is not of this machine's graph and plan."""
    found = []
    if trace.header["graph"] != of_graph(machine.state.graph):
        found.append("the trace is of another graph")
    if trace.header["plan"] != of_table(machine.table, machine.plan.size):
        found.append("the trace is of another plan")
    records = machine.records()
    expected = [described(r.operation) for r in records][: len(trace.steps)]
    if [dict(s.operation) for s in trace.steps] != expected:
        found.append("the operations are not those of the graph, in its order")
    if trace.complete and len(trace.steps) != len(records):
        found.append(f"{len(trace.steps)} steps are there, the graph has {len(records)}")
    weights = {n: of_tensor(v) for n, v in machine.graph.initializers.items()}
    fed = {*machine.graph.inputs, *machine.graph.overridable}
    for x in trace.initial:
        if x.name not in fed and weights.get(x.name) != x.before:
            found.append(f"the initializer '{x.name}' is another one")
    return found


def replay(
    machine: Machine, steps: tuple[Record, ...], fused: bool, find: Find
) -> Iterator[Replayed]:
    """Each of the steps, executed from its record."""
    graph = machine.state.graph
    weights = {of_tensor(v): v for v in graph.initializers.values()}

    def value(x: Touched) -> Array | None:
        known = weights.get(x.before)
        if known is not None and (known.shape, known.dtype) == (x.shape, x.dtype.numpy):
            return known
        return tensor(x, find(x.before))

    operations = {described_key(described(op)): op for op in graph.operations}
    for step in steps:
        op = operations.get(described_key(step.operation))
        if op is None:
            yield Replayed(step, "differs", "the graph has no such operation")
        else:
            yield _again(graph, op, step, {x.name: value(x) for x in step.reads}, fused)


def described_key(operation: Mapping[str, Any]) -> str:
    """What makes an operation of a record the one of the graph."""
    return repr(sorted(operation.items()))


def _again(
    graph: Graph, op: Operation, step: Record, values: Mapping[str, Array | None], fused: bool
) -> Replayed:
    kernel = kernel_of(graph, op)
    if wrong := _misfit(graph, op, step):
        return Replayed(step, "differs", wrong)
    missing = [n for n, v in values.items() if v is None]
    if missing:
        return Replayed(step, "unknown", f"no value of {', '.join(missing)}")
    given = [values.get(n) for n in op.inputs][: len(kernel.inputs)]
    flags: set[Kind] = set(broken(kernel, op, given))
    try:
        outputs = evaluate(kernel, given, fused)
        flags |= made((v for v in values.values() if v is not None), outputs)
        digests = [of_tensor(y) for y in outputs]
    except RunError:
        flags = {"index"}
        digests = [""] * len(step.writes)
    if digests != [x.after for x in step.writes]:
        other = [x.name for x, d in zip(step.writes, digests, strict=True) if d != x.after]
        return Replayed(step, "differs", f"executing it again gives another {', '.join(other)}")
    if {k for k in KINDS if step.flags.get(k)} != flags:
        return Replayed(step, "differs", f"the flags are {', '.join(sorted(flags)) or 'none'}")
    return Replayed(step, "equal")


def _misfit(graph: Graph, op: Operation, step: Record) -> str:
    """What of a record's operands and results is not as the operation has them; "" if nothing."""
    if {x.name for x in step.reads} != set(reads(op)):
        return "it does not read what the operation reads"
    if [x.name for x in step.writes] != [n for n in op.outputs if n]:
        return "it does not write what the operation writes"
    for x in step.reads:
        if graph.types[x.name] != TensorType(x.dtype, x.shape):
            return f"'{x.name}' is {TensorType(x.dtype, x.shape)}, expected {graph.types[x.name]}"
    return ""
