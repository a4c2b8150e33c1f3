"""A graph executed in stages, where not all sizes are known before it runs.

A stage is either a part of the graph whose operations all have kernels and known sizes once its
inputs have values: an engine runs it like any graph; or one operation that the host performs
(control flow, strings, sequences, optionals). What a stage gives decides the sizes of the next.
An operation whose sizes depend on data is two: one counts, the other fills.

    Runner(make_engine).run(graph, values)
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from sardonyx import types as t
from sardonyx.dims import Dim, symbol, symbols
from sardonyx.divide import divided
from sardonyx.errors import InvalidModel, RunError, SardonyxError
from sardonyx.graph import Graph, Operation, captures, reads
from sardonyx.host import perform
from sardonyx.infer import bind, infer, on_host, undetermined, value_inputs, with_symbolic_values
from sardonyx.ops.body import Body
from sardonyx.types import Array, TensorType, Value

KEPT = 256  # decisions kept


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """What is executed next: the indices of its operations, and the graph that they are; None for
    one operation of the host."""

    operations: tuple[int, ...]
    part: Graph | None


def is_staged(graph: Graph) -> bool:
    """Whether some sizes are known only as the graph runs, or the host takes part."""
    return bool(undetermined(graph))


@dataclass(slots=True, eq=False)
class Stages:
    """The stages of one graph, found as it runs and remembered for what decides them.

    symbols: the symbolic dims that mean one size each; those that a subgraph states do not.
    """

    graph: Graph
    symbols: frozenset[str] = frozenset()
    bodies: Mapping[tuple[int, str], Graph] = field(init=False)
    _known: OrderedDict[object, tuple[list[int], tuple[object, ...]]] = field(
        default_factory=OrderedDict
    )
    _found: OrderedDict[object, Stage | None] = field(default_factory=OrderedDict)
    _later: OrderedDict[object, frozenset[str]] = field(default_factory=OrderedDict)
    _parts: OrderedDict[object, tuple[Graph, tuple[str, ...]]] = field(default_factory=OrderedDict)
    _lock: RLock = field(default_factory=RLock)

    def __post_init__(self) -> None:
        self.graph = replace(self.graph, operations=divided(self.graph.operations))
        self.bodies = {
            (i, name): closed(body)
            for i, op in enumerate(self.graph.operations)
            for name, body in op.subgraphs.items()
        }

    def next(self, done: frozenset[int], env: Mapping[str, Value]) -> Stage | None:
        """The stage after the operations of `done`, with the values of `env`; None at the end."""
        graph = self.graph
        if len(done) == len(graph.operations):
            return None
        with self._lock:
            kernels, general = self._kernels(done, env)
            found = self._part(done, kernels, general, env) if kernels else None
        if found is not None:
            return found
        waiting = [i for i in range(len(graph.operations)) if i not in done]
        for i in waiting:
            if all(n in env for n in reads(graph.operations[i])) and i not in kernels:
                return Stage((i,), None)
        raise self._stuck(waiting, kernels, env)

    def later(self, done: frozenset[int]) -> frozenset[str]:
        """What the operations that are not done read."""
        with self._lock:
            if done not in self._later:
                waiting = (op for i, op in enumerate(self.graph.operations) if i not in done)
                self._remember(self._later, done, frozenset(n for op in waiting for n in reads(op)))
            return self._later[done]

    def _stuck(
        self, waiting: Sequence[int], kernels: Sequence[int], env: Mapping[str, Value]
    ) -> SardonyxError:
        if kernels:
            part = self._graph(kernels, env, frozenset())
            types, values = _concrete(part, env)
            return next(iter(undetermined(bind(part, types, values)).values()))
        op = self.graph.operations[waiting[0]]
        lacks = ", ".join(sorted({n for n in reads(op) if n not in env}))
        return InvalidModel(f"{op} cannot be executed: no operation before it gives {lacks}")

    def _kernels(
        self, done: frozenset[int], env: Mapping[str, Value]
    ) -> tuple[list[int], tuple[object, ...]]:
        """The operations that kernels perform, with no host operation before them, and what they
        are as a part for: the operations that are done and the types of what has a value."""
        graph = self.graph
        kinds = tuple((n, *_kind(v)) for n, v in env.items() if n not in graph.initializers)
        if (done, kinds) not in self._known:
            there = {n for n, v in env.items() if isinstance(v, np.ndarray) and v.dtype != object}
            found = []
            for i, op in enumerate(graph.operations):
                if i not in done and there.issuperset(reads(op)) and not on_host({}, graph, op):
                    found.append(i)
                    there.update(filter(None, op.outputs))
            part = self._graph(found, env, done)
            general = (done, tuple(str(part.types[n]) for n in part.inputs))
            self._remember(self._known, (done, kinds), (found, general))
        return self._known[done, kinds]

    def _part(
        self,
        done: frozenset[int],
        kernels: list[int],
        general: tuple[object, ...],
        env: Mapping[str, Value],
    ) -> Stage | None:
        """The largest part of `kernels` whose sizes are known now; None if there is none."""
        if general not in self._parts:
            inferred = infer(self._graph(kernels, env, done))
            self._remember(self._parts, general, (inferred, value_inputs(inferred)))
        graph, sizes = self._parts[general]
        if general not in self._found:
            flexible = with_symbolic_values(graph) if sizes else graph
            whole = not undetermined(flexible)
            stage = self._stage(kernels, env, done) if whole else None
            self._remember(self._found, general, stage)
        found = self._found[general]
        if found is not None:
            return found
        types, values = _concrete(graph, env)
        deciding = tuple((n, values[n].tobytes()) for n in sizes if n in values)
        key = (*general, tuple(v.shape for v in values.values()), deciding)
        if key not in self._found:
            ready = _determined(bind(graph, types, values), kernels)
            stage = self._stage(ready, env, done) if ready else None
            self._remember(self._found, key, stage)
        return self._found[key]

    def _remember(self, memo: OrderedDict[object, Any], key: object, found: object) -> None:
        memo[key] = found
        if len(memo) > KEPT:
            memo.popitem(last=False)

    def _stage(self, ready: list[int], env: Mapping[str, Value], done: frozenset[int]) -> Stage:
        return Stage(tuple(ready), infer(self._graph(ready, env, done)))

    def _graph(
        self, indices: Sequence[int], env: Mapping[str, Value], done: frozenset[int]
    ) -> Graph:
        """A part as a graph: its inputs are what has a value, its outputs what is still needed."""
        graph = self.graph
        operations = [graph.operations[i] for i in indices]
        written = dict.fromkeys(n for op in operations for n in op.outputs if n)
        used = dict.fromkeys(n for op in operations for n in reads(op) if n not in written)
        chosen = {*indices, *done}
        later = {n for i, op in enumerate(graph.operations) if i not in chosen for n in reads(op)}
        inside = {n for op in operations for n in reads(op)}
        needed = later | set(graph.outputs)
        fixed = {n: graph.initializers[n] for n in used if n in graph.initializers}
        inputs = tuple(n for n in used if n not in fixed)
        types = {n: self._general(n, env[n]) for n in inputs}
        types |= {n: graph.types[n] for n in fixed}
        return replace(
            graph,
            inputs=inputs,
            outputs=tuple(n for n in written if n in needed or n not in inside),
            overridable=tuple(n for n in graph.overridable if n in fixed),
            initializers=fixed,
            operations=tuple(operations),
            types=types,
            declared={},
            values={},
            containers={},
        )

    def _general(self, name: str, value: Value) -> TensorType:
        """The type of a tensor that has a value: what is known of it, and a new symbol for each
        other size."""
        assert isinstance(value, np.ndarray)
        dtype = t.by_numpy(value.dtype)
        assert dtype is not None
        stated = self.graph.types.get(name)
        known: tuple[Dim | None, ...] = stated.shape if stated and stated.shape else ()
        if len(known) != value.ndim:
            known = (None,) * value.ndim
        fresh = [symbol(f"{name}_{axis}") for axis in range(value.ndim)]
        shape = [
            d if d is not None and (d == n or self._means(d)) else new
            for d, n, new in zip(known, value.shape, fresh, strict=True)
        ]
        return TensorType(dtype, tuple(shape))

    def _means(self, dim: Dim) -> bool:
        """Whether a symbolic dim is one of those that mean one size each."""
        return not isinstance(dim, int) and symbols(dim) <= self.symbols


class Execution:
    """One execution of a graph in stages."""

    def __init__(
        self,
        stages: Stages,
        values: Mapping[str, Value],
        run_body: Callable[[Graph, Mapping[str, Value]], Mapping[str, Value]],
    ) -> None:
        self.stages = stages
        self.env: dict[str, Value] = {**stages.graph.initializers, **values}
        self._fed = frozenset(values)
        self._done: frozenset[int] = frozenset()
        self._run_body = run_body

    def next(self) -> Stage | None:
        """The next stage; None at the end."""
        return self.stages.next(self._done, self.env)

    def feeds(self, stage: Stage) -> dict[str, Array]:
        """What the part of a stage is fed with."""
        assert stage.part is not None
        names = (*stage.part.inputs, *(n for n in stage.part.overridable if n in self._fed))
        return {n: v for n in names if isinstance(v := self.env[n], np.ndarray)}

    def perform(self, stage: Stage) -> dict[str, Value]:
        """What the operation of a host stage gives, by name."""
        (index,) = stage.operations
        op = self.stages.graph.operations[index]
        values = [self.env[name] if name else None for name in op.inputs]
        try:
            found = perform(self.stages.graph, op, values, self._bodies(index, op))
        except SardonyxError as error:
            raise type(error)(f"{op}: {error}") from error
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise RunError(f"{op}: {error}") from error
        if len(found) < len(op.outputs):
            raise InvalidModel(f"{op} gives {len(found)} values, {len(op.outputs)} are named")
        return {n: v for n, v in zip(op.outputs, found, strict=False) if n}

    def finish(self, stage: Stage, results: Mapping[str, Value]) -> None:
        """Takes over what a stage gave, and drops what nothing needs any more."""
        self.env.update(results)
        self._done |= frozenset(stage.operations)
        graph, later = self.stages.graph, self.stages.later(self._done)
        for name in [n for n in self.env if n not in later and n not in graph.initializers]:
            if name not in graph.outputs:
                del self.env[name]

    def outputs(self) -> dict[str, Value]:
        """The graph outputs by name, at the end."""
        missing = [n for n in self.stages.graph.outputs if n not in self.env]
        if missing:
            raise InvalidModel(f"the graph outputs {', '.join(missing)} have no value at the end")
        return {n: self.env[n] for n in self.stages.graph.outputs}

    def _bodies(self, index: int, op: Operation) -> dict[str, Body]:
        bodies = {}
        for name, inner in op.subgraphs.items():
            graph, arity = self.stages.bodies[index, name], len(inner.inputs)
            captured = {n: self.env[n] for n in graph.inputs[arity:]}

            def run(values: Mapping[str, Value], graph: Graph = graph) -> Mapping[str, Value]:
                return self._run_body(graph, values)

            bodies[name] = Body(graph, run, captured, arity)
        return bodies


class Runs(Protocol):
    """What runs a part."""

    def run(self, feeds: Mapping[str, Array]) -> Mapping[str, Array]:
        """The outputs by name."""


Made = TypeVar("Made", bound=Runs)


class Runner(Generic[Made]):
    """Runs graphs in stages, and the subgraphs in them; each part has what runs it made once.

    performed: hears of each operation that the host performed."""

    def __init__(
        self,
        make: Callable[[Graph], Made],
        performed: Callable[[Operation], None] | None = None,
    ) -> None:
        self._make = make
        self._performed = performed
        self._made: OrderedDict[Graph, Made] = OrderedDict()
        self._stages: dict[Graph, Stages] = {}
        self._lock = RLock()

    def run(self, graph: Graph, values: Mapping[str, Value]) -> dict[str, Value]:
        """The outputs of a graph whose inputs have these values."""
        known = self._stages.get(graph)
        symbols = frozenset(graph.symbols) if known is None else known.symbols
        return self._run(self.execution(graph, values, symbols))

    def _body(self, graph: Graph, values: Mapping[str, Value]) -> dict[str, Value]:
        return self._run(self.execution(graph, values))

    def _run(self, execution: Execution) -> dict[str, Value]:
        while (stage := execution.next()) is not None:
            execution.finish(stage, self.take(execution, stage))
        return execution.outputs()

    def take(self, execution: Execution, stage: Stage) -> Mapping[str, Value]:
        """What a stage of an execution gives."""
        if stage.part is not None:
            return self.made(stage.part).run(execution.feeds(stage))
        found = execution.perform(stage)
        if self._performed is not None:
            self._performed(execution.stages.graph.operations[stage.operations[0]])
        return found

    def execution(
        self, graph: Graph, values: Mapping[str, Value], symbols: frozenset[str] = frozenset()
    ) -> Execution:
        """An execution of a graph, to be taken stage by stage; `symbols` as in Stages."""
        with self._lock:
            if graph not in self._stages:
                self._stages[graph] = Stages(graph, symbols)
            return Execution(self._stages[graph], values, self._body)

    def made(self, part: Graph) -> Made:
        """What runs a part."""
        with self._lock:
            if part not in self._made:
                self._made[part] = self._make(part)
                if len(self._made) > KEPT:
                    self._made.popitem(last=False)
            self._made.move_to_end(part)
            return self._made[part]

    def all_made(self) -> tuple[Made, ...]:
        """What has been made."""
        with self._lock:
            return tuple(self._made.values())


def _kind(value: Value) -> tuple[object, ...]:
    """What of a value decides the next part, unless the value does."""
    return (value.dtype, value.shape) if isinstance(value, np.ndarray) else ()


def closed(body: Graph) -> Graph:
    """A subgraph with what it captures as further inputs."""
    return replace(body, inputs=(*body.inputs, *dict.fromkeys(captures(body))))


def _determined(graph: Graph, indices: Sequence[int]) -> list[int]:
    """Which operations, by their indices in the whole, have known sizes, and all before them."""
    missing = set(undetermined(graph))
    lost: set[str] = set()
    found = []
    for i, op in zip(indices, graph.operations, strict=True):
        if op in missing or lost.intersection(reads(op)):
            lost.update(op.outputs)
        else:
            found.append(i)
    return found


def _concrete(
    graph: Graph, env: Mapping[str, Value]
) -> tuple[dict[str, TensorType], dict[str, Array]]:
    """The types and values that the inputs of a part have."""
    values = {n: v for n in graph.inputs if isinstance(v := env[n], np.ndarray)}
    return {n: TensorType(graph.types[n].dtype, v.shape) for n, v in values.items()}, values
