"""A graph executed in stages, where not all sizes are known before it runs.

A stage is either a part of the graph whose operations all have kernels and known sizes once its
inputs have values: an engine runs it like any graph; or one operation that the host performs
(control flow, strings, sequences, optionals). What a stage gives decides the sizes of the next.
An operation whose sizes depend on data is two: one counts, the other fills. execution.py executes
the stages.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any, TypeAlias

import numpy as np

from sardonyx import types as t
from sardonyx.dims import Dim, symbol, symbols
from sardonyx.divide import divided
from sardonyx.errors import InvalidModel, SardonyxError
from sardonyx.feeds import fits
from sardonyx.graph import Graph, captures, reads
from sardonyx.infer import bind, infer, on_host, undetermined, value_inputs, with_symbolic_values
from sardonyx.supposed import supposed_for
from sardonyx.types import Array, TensorType, Value

MANY = 64  # elements whose values will hardly come again
KEPT = 256  # decisions kept
WIDE = 8  # times that something is supposed of the sizes of a part
Kinds: TypeAlias = tuple[tuple[object, ...], ...]  # name, element type and shape


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """What is executed next: the indices of its operations, and the graph that they are; None for
    one operation of the host. by_values: other values could ask for another stage; any_sizes:
    neither they nor other sizes could."""

    operations: tuple[int, ...]
    part: Graph | None
    by_values: bool = False
    any_sizes: bool = False


@dataclass(slots=True, eq=False)
class Point:
    """Where executions stand that were fed the same kinds of values, and were given the same since:
    they go on alike, unless values decide.

    done: the operations before it. stage: what is executed next, where it is known. gone: what
    nothing needs any more. after: what the stage may give -> where executions stand then."""

    done: frozenset[int] = frozenset()
    stage: Stage | None = None
    gone: tuple[str, ...] = ()
    after: dict[Kinds, Point] = field(default_factory=dict)


def is_staged(graph: Graph) -> bool:
    """Whether some sizes are known only as the graph runs, or the host takes part: in operations,
    or by what it alone holds and no operation reads."""
    held = (*graph.inputs, *graph.initializers)
    return any(map(graph.is_outside, held)) or bool(undetermined(graph))


@dataclass(slots=True, eq=False)
class Stages:
    """The stages of one graph, found as it runs and remembered for what decides them.

    symbols: the symbolic dims that mean one size each; those that a subgraph states do not. acts:
    what performs the host's operations without subgraphs, by index, as execution.py makes them.
    """

    graph: Graph
    symbols: frozenset[str] = frozenset()
    bodies: Mapping[tuple[int, str], Graph] = field(init=False)
    acts: dict[int, Callable[[Sequence[Value]], tuple[Any, ...]]] = field(default_factory=dict)
    _known: OrderedDict[object, tuple[list[int], tuple[object, ...]]] = field(
        default_factory=OrderedDict
    )
    _found: OrderedDict[object, Stage | None] = field(default_factory=OrderedDict)
    _wide: OrderedDict[object, list[Graph | None]] = field(default_factory=OrderedDict)
    _decided: OrderedDict[object, object] = field(default_factory=OrderedDict)
    _later: OrderedDict[object, frozenset[str]] = field(default_factory=OrderedDict)
    _starts: OrderedDict[object, Point] = field(default_factory=OrderedDict)
    _points: int = 0
    _parts: OrderedDict[object, tuple[Graph, tuple[str, ...]]] = field(default_factory=OrderedDict)
    _lock: RLock = field(default_factory=RLock)

    def __post_init__(self) -> None:
        known = self.graph if self.graph.values else infer(self.graph)  # a subgraph
        types = {n: known.types[n] for n in known.values if n in known.types}
        self.graph = replace(
            self.graph,
            operations=divided(self.graph.operations),
            types={**types, **self.graph.types},
            values=known.values,
        )
        self.bodies = {
            (i, name): closed(body)
            for i, op in enumerate(self.graph.operations)
            for name, body in op.subgraphs.items()
        }

    def start(self, values: Mapping[str, Value]) -> Point:
        """Where executions begin that are fed values of these kinds."""
        key = kinds(values)
        with self._lock:
            if key not in self._starts:
                self._remember(self._starts, key, Point())
            return self._starts[key]

    def next(self, point: Point, env: Mapping[str, Value]) -> Stage | None:
        """The stage that follows, with the values of `env`; None at the end."""
        if point.stage is not None:
            return point.stage
        graph, done = self.graph, point.done
        if len(done) == len(graph.operations):
            return None
        with self._lock:
            kernels, general = self._kernels(done, env)
            found = self._part(done, kernels, general, env) if kernels else None
            by_values = bool(kernels and found is None and self._parts[general][1])
        if found is None:
            found = self._host(done, kernels, env)
        if not (by_values or found.by_values):
            point.stage = found
        return found

    def follow(
        self, point: Point, stage: Stage, results: Mapping[str, Value], env: Set[str]
    ) -> Point:
        """Where an execution stands after a stage that gave these results; `env`: what has a value
        then."""
        key = kinds(results)
        found = point.after.get(key) if point.stage is stage else None
        if found is not None:
            return found
        done = point.done.union(stage.operations)
        found = Point(done, gone=tuple(env - self._needed(done)))
        with self._lock:
            if point.stage is stage:
                self._points += 1
                point.after[key] = found
            if self._points > 4 * KEPT:
                self._starts.clear()
                self._points = 0
        return found

    def _needed(self, done: frozenset[int]) -> frozenset[str]:
        """What stays when the operations of `done` are: what others read, outputs, weights."""
        with self._lock:
            if done not in self._later:
                waiting = (op for i, op in enumerate(self.graph.operations) if i not in done)
                needed = {n for op in waiting for n in reads(op)}
                needed.update(self.graph.outputs, self.graph.initializers)
                self._remember(self._later, done, frozenset(needed))
            return self._later[done]

    def _host(
        self, done: frozenset[int], kernels: Sequence[int], env: Mapping[str, Value]
    ) -> Stage:
        """The first operation of the host that has all that it reads."""
        waiting = [i for i in range(len(self.graph.operations)) if i not in done]
        for i in waiting:
            if all(n in env for n in reads(self.graph.operations[i])) and i not in kernels:
                return Stage((i,), None)
        raise self._stuck(waiting, kernels, env)

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
        key = done, kinds({n: v for n, v in env.items() if n not in graph.initializers})
        if key not in self._known:
            there = {n for n, v in env.items() if isinstance(v, np.ndarray) and v.dtype != object}
            found = []
            for i, op in enumerate(graph.operations):
                if i not in done and there.issuperset(reads(op)) and not on_host({}, graph, op):
                    found.append(i)
                    there.update(filter(None, op.outputs))
            part = self._graph(found, env, done)
            general = (done, tuple(str(part.types[n]) for n in part.inputs))
            self._remember(self._known, key, (found, general))
        return self._known[key]

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
            stage = replace(stage, any_sizes=True) if stage else None
            self._remember(self._found, general, stage)
        found = self._found[general]
        if found is None:
            found = self._supposed(general, kernels, graph, env)
        if found is not None:
            return found
        types, values = _concrete(graph, env)
        deciding = tuple((n, values[n].tobytes()) for n in sizes if n in values)
        key = (*general, tuple(v.shape for v in values.values()))
        replaceable = any(n in graph.overridable for n in sizes)  # `bind` would fix their defaults
        many = any(values[n].size > MANY for n in sizes if n in values)
        if (many or self._changes(key, deciding)) and not replaceable:
            if key not in self._found:
                flexible = with_symbolic_values(bind(graph, types, {}))
                ready = _determined(flexible, kernels)
                stage = self._shaped(ready, env, done) if ready else None
                self._remember(self._found, key, stage)
            if (found := self._found[key]) is not None:
                return found
        key = (*key, deciding)
        if key not in self._found:
            ready = _determined(bind(graph, types, values), kernels)
            stage = self._stage(ready, env, done) if ready else None
            stage = replace(stage, by_values=bool(sizes)) if stage else None
            self._remember(self._found, key, stage)
        return self._found[key]

    def _supposed(
        self,
        general: tuple[object, ...],
        kernels: list[int],
        graph: Graph,
        env: Mapping[str, Value],
    ) -> Stage | None:
        """All of a part, for the sizes that it has and all that are so (supposed.py)."""
        values = _concrete(graph, env)[1]
        if general not in self._wide:
            self._remember(self._wide, general, [])
        known = self._wide[general]
        for part in known:
            if part is not None and fits(part, values):
                return Stage(tuple(kernels), part)
        if len(known) == WIDE or known.count(None) > 1:
            return None
        known.append(supposed_for(graph, values))
        return None if known[-1] is None else Stage(tuple(kernels), known[-1])

    def _changes(self, key: object, deciding: object) -> bool:
        """Whether other values decided the sizes of the same part before: then all that can is done
        with the values as symbols, by one program."""
        if key not in self._decided:
            self._remember(self._decided, key, deciding)
        return self._decided[key] != deciding

    def _remember(self, memo: OrderedDict[object, Any], key: object, found: object) -> None:
        memo[key] = found
        if len(memo) > KEPT:
            memo.popitem(last=False)

    def _stage(self, ready: list[int], env: Mapping[str, Value], done: frozenset[int]) -> Stage:
        return Stage(tuple(ready), infer(self._graph(ready, env, done)))

    def _shaped(self, ready: list[int], env: Mapping[str, Value], done: frozenset[int]) -> Stage:
        """A part for the sizes that its inputs have, and any values."""
        part = infer(self._graph(ready, env, done))
        return Stage(tuple(ready), bind(part, _concrete(part, env)[0], {}))

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
        fixed = {n: v for n in used if (v := self._fixed(n)) is not None}
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

    def _fixed(self, name: str) -> Array | None:
        """The value of a weight, or of what is the same however the graph is fed."""
        if name in self.graph.initializers:
            return self.graph.initializers[name]
        value, kind = self.graph.values.get(name), self.graph.types.get(name)
        if value is None or value.dtype == object or kind is None:
            return None
        return value.astype(kind.dtype.numpy)

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


def kinds(values: Mapping[str, Value]) -> Kinds:
    """What of values decides the next part, unless the values do."""
    return tuple(
        (n, v.dtype, v.shape) if isinstance(v, np.ndarray) else (n,) for n, v in values.items()
    )


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
