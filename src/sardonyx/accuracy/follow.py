"""Enclosures beside the execution of a graph in stages: its data decide sizes and branches.

    Follower(places, make, report, fused).run(graph, held)

The machine's way through the graph is that of exact arithmetic only where the enclosures decide
every integer and condition (kernel/decide.py), and they decide it as the machine did. What hangs on
another decision is lost, its size too, and whatever is computed from it. Where a condition of an If
or a Loop is lost, or the length that a Scan goes over, everything that the operation gives is.

What the host moves (control flow, sequences, optionals) keeps its enclosures; what it computes from
strings and maps is exact where its operands are; other work of the host is not followed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx.accuracy.held import Held, exactly, floats, is_exact, nothing, pack, unpack
from sardonyx.accuracy.order import RANKED, is_extreme, is_ordered
from sardonyx.errors import RunError, UnsupportedModel
from sardonyx.execution import Execution
from sardonyx.graph import Graph, Operation
from sardonyx.host import perform
from sardonyx.infer import kernel_of
from sardonyx.kernel.decide import Followed, followed
from sardonyx.kernel.expr import Load
from sardonyx.kernel.interpret import evaluate
from sardonyx.kernel.intervals import Maker
from sardonyx.kernel.ir import Kernel, expressions, statements
from sardonyx.kernel.walk import walk
from sardonyx.machine import Segment
from sardonyx.ops.body import Body
from sardonyx.ops.registry import find_host
from sardonyx.stages import Stage, Stages
from sardonyx.types import Array, Value

Report = Callable[[Operation, str, Held, str], None]  # the operation, the tensor, why it is open

TURNED = "a comparison that rounding may turn"
_CONTROL = ("If", "Loop", "Scan")
_MOVES = ("SequenceConstruct", "SequenceEmpty", "SequenceLength", "SequenceAt", "SequenceInsert",
          "SequenceErase", "SplitToSequence", "ConcatFromSequence", "Optional",
          "OptionalHasElement", "OptionalGetElement", "Identity")  # fmt: skip
# What the host computes with rounding, or from bytes that no text defines to the last bit.
_ROUNDS = ("TfIdfVectorizer", "ImageDecoder", "CastMap")


class Follower:
    """Runs graphs in stages, and their subgraphs, beside enclosures.

    places: how much is kept of a float; make: what encloses kernels so; report: hears of each
    tensor that an operation gives, in the order of the run."""

    def __init__(
        self, places: int, make: type[Maker] | None, report: Report, fused: bool = True
    ) -> None:
        self._places, self._make, self._report, self._fused = places, make, report, fused
        self._stages: dict[Graph, Stages] = {}
        self._segments: dict[Graph, Segment] = {}
        self._kernels: dict[Kernel, Followed] = {}
        self._doubt = ""  # why the operation of the host that is executed may go another way

    def run(
        self, graph: Graph, held: Mapping[str, Held], symbols: frozenset[str] = frozenset()
    ) -> dict[str, Held]:
        """What is known of the outputs, from what is known of the inputs."""
        if graph not in self._stages:
            self._stages[graph] = Stages(graph, symbols)
        stages = self._stages[graph]
        execution = Execution(stages, {n: h.value for n, h in held.items()}, _never)
        env = {n: exactly(v, self._places) for n, v in graph.initializers.items()} | dict(held)
        while (stage := execution.next()) is not None:
            if stage.part is not None:
                found = self._part(stage.part, execution.feeds(stage), env)
            else:
                found = self._host(execution, stage, env)
            env |= found
            execution.finish(stage, {n: h.value for n, h in found.items()})
            env = {n: env[n] for n in execution.env}
        execution.outputs()
        return {n: env[n] for n in graph.outputs}

    def _part(
        self, part: Graph, feeds: Mapping[str, Array], env: Mapping[str, Held]
    ) -> dict[str, Held]:
        if part not in self._segments:
            self._segments[part] = Segment(part, fused=self._fused)
        segment = self._segments[part].start(feeds)
        local = {n: exactly(v, self._places) for n, v in part.initializers.items()}
        local |= {n: env[n] for n in feeds}
        while (record := segment.peek()) is not None:
            segment.step()
            op = record.operation
            given = {n: local[n] for n in op.inputs if n}
            values = {a.name: np.asarray(segment.value(a.name)) for a in record.writes}
            found, why = self._enclosed(segment.state.graph, op, given, list(values.values()))
            for name, x in zip(values, found, strict=True):
                self._report(op, name, x, x.lost or why)
            local |= dict(zip(values, found, strict=True))
        segment.step()
        return {n: local[n] for n in part.outputs}

    def _enclosed(
        self, graph: Graph, op: Operation, given: Mapping[str, Held], values: Sequence[Array]
    ) -> tuple[list[Held], str]:
        """What is known of the outputs of an operation in M, and why not more."""
        lost = self._doubt or next((x.lost for x in given.values() if x.lost), "")
        if lost:
            return [nothing(v, self._places, lost) for v in values], ""
        if op.op_type in ("ArgMax", "ArgMin") and is_extreme(op, given[op.inputs[0]], values[0]):
            return [Held(values[0])], ""
        kernel = kernel_of(graph, op)
        lost, ranked = _fixed(graph, op, kernel, given), op.op_type in RANKED
        if not lost and ranked and not is_ordered(op, [given[n] for n in op.inputs if n], values):
            lost = f"{op} depends on {TURNED}"
        if lost:
            return [nothing(v, self._places, lost) for v in values], ""
        try:
            if kernel not in self._kernels:
                self._kernels[kernel] = followed(kernel, self._make, ranked)
            made = self._kernels[kernel]
            arrays = list[Array | None]()
            for name, places in zip(op.inputs, made.made.inputs, strict=False):
                x = given[name] if places else Held(None)
                arrays += x.ends or ([np.asarray(x.value)] if places else [])
            results = evaluate(made.made.kernel, arrays)
        except (UnsupportedModel, RunError) as error:
            why = str(error)
            return [nothing(v, self._places, "" if floats(v) else why) for v in values], why
        lost = f"{op} depends on {TURNED}"
        found = []
        if any(r.any() for r in results[made.doubts :]):
            return [nothing(v, self._places, lost) for v in values], ""
        for value, at in zip(values, made.made.outputs, strict=True):
            assert at is not None
            parts = tuple(results[i] for i in at)
            if not floats(value) and not np.array_equal(parts[0], value):
                return [nothing(v, self._places, lost) for v in values], ""
            found.append(Held(value, parts) if floats(value) else Held(value))
        return found, ""

    def _host(self, execution: Execution, stage: Stage, env: Mapping[str, Held]) -> dict[str, Held]:
        """What is known of what the host gives."""
        (index,) = stage.operations
        op = execution.stages.graph.operations[index]
        given = [env[n] if n else Held(None) for n in op.inputs]
        if op.subgraphs and op.op_type in _CONTROL:
            results = self._control(execution.stages, index, given, env)
            found = {n: x for n, x in zip(op.outputs, results, strict=False) if n}
        else:
            found = self._performed(execution, stage, op, given)
        for name, x in found.items():
            self._report(op, name, x, x.lost)
        return found

    def _performed(
        self, execution: Execution, stage: Stage, op: Operation, given: Sequence[Held]
    ) -> dict[str, Held]:
        plain = execution.perform(stage)
        lost = self._doubt or next((x.lost for x in given if x.lost), "")
        moves = not op.domain and op.op_type in _MOVES
        if not lost and not moves and not (_computes(op, plain) and all(map(is_exact, given))):
            lost = f"what {op.op_type} computes on the host is not followed"
        if lost:
            return {n: nothing(v, self._places, lost) for n, v in plain.items()}
        if not moves:
            return {n: exactly(v, self._places) for n, v in plain.items()}
        joined = [pack(x, []) if floats(x.value) or x.items else x.value for x in given]
        results = perform(execution.stages.graph, op, joined, {})
        return {
            n: unpack(v, self._places, []) for n, v in zip(op.outputs, results, strict=False) if n
        }

    def _control(
        self, stages: Stages, index: int, given: Sequence[Held], env: Mapping[str, Held]
    ) -> list[Held]:
        """What is known of the outputs of an operation with subgraphs; `_doubt` is the reason for
        which it may go another way, from when on it may."""
        op, reasons = stages.graph.operations[index], list[str]()
        outer, scan = self._doubt, op.op_type == "Scan"
        count = int(op.since < 9) if scan else {"If": 1, "Loop": 2}[op.op_type]
        decide = given if scan else given[:count]
        for x in decide:
            self._doubt = self._doubt or _way(op, x.lost)
        joined = [x.value if i < count else self._joined(x, reasons) for i, x in enumerate(given)]
        bodies = {n: self._body(stages, index, n, env, reasons) for n in op.subgraphs}
        results = perform(stages.graph, op, joined, bodies)
        found = [unpack(v, self._places, reasons) for v in results]
        if self._doubt:
            found = [nothing(x.value, self._places, self._doubt) for x in found]
        self._doubt = outer
        return found

    def _body(
        self, stages: Stages, index: int, name: str, env: Mapping[str, Held], reasons: list[str]
    ) -> Body:
        op, graph = stages.graph.operations[index], stages.bodies[index, name]
        arity = len(op.subgraphs[name].inputs)
        captured = {n: env[n] for n in graph.inputs[arity:]}

        def run(values: Mapping[str, Any]) -> Mapping[str, Any]:
            own = {n: unpack(v, self._places, reasons) for n, v in values.items()}
            found = self.run(graph, {**captured, **own})
            cond = graph.outputs[0] if op.op_type == "Loop" else ""
            if cond and found[cond].lost:
                self._doubt = self._doubt or _way(op, found[cond].lost)
            return {n: x.value if n == cond else self._joined(x, reasons) for n, x in found.items()}

        return Body(graph, run, {}, arity)

    def _joined(self, x: Held, reasons: list[str]) -> Any:
        """A value packed; where a reason has no element to go with, all else has it."""
        if x.lost and not (isinstance(x.value, np.ndarray) and x.value.size):
            self._doubt = self._doubt or x.lost
            x = exactly(x.value, self._places)
        return pack(x, reasons)


def _fixed(graph: Graph, op: Operation, kernel: Kernel, given: Mapping[str, Held]) -> str:
    """Why a kernel holds for the machine's floats alone: they decided sizes, and are not loaded."""
    known = {n for n, x in given.items() if n in graph.values and x.ends and not is_exact(x)}
    if not known:
        return ""
    roots = [e for s in statements(kernel.body) for e in expressions(s)]
    loaded = {e.buffer.root for e in walk(*roots) if isinstance(e, Load)}
    for name, b in zip(op.inputs, kernel.inputs, strict=False):
        if name in known and b not in loaded:
            return f"{op} has sizes that '{name}' decides, which is not exact"
    return ""


def _way(op: Operation, lost: str) -> str:
    if not lost:
        return ""
    said = f"which way {op} goes is open: "
    return lost if lost.startswith("which way") else said + lost


def _computes(op: Operation, results: Mapping[str, Value]) -> bool:
    """Whether the host's results are exact where its operands are."""
    if op.op_type in _ROUNDS or op.subgraphs:
        return False
    read = op.op_type == "Cast" and find_host(op.domain, op.op_type, op.since) is not None
    return not (read and any(map(floats, results.values())))


def _never(graph: Graph, values: Mapping[str, Value]) -> Mapping[str, Value]:
    raise RunError(f"'{graph.name}' is a subgraph that cannot be followed")
