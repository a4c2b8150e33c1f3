"""Whether two models give the same bytes, by running them on the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from sardonyx.engines import make_engine
from sardonyx.errors import BuildError, SardonyxError
from sardonyx.graph import Graph
from sardonyx.settings import Kind
from sardonyx.types import Array, DType, Value, string

Feeds: TypeAlias = Mapping[str, Array]
Outcome: TypeAlias = tuple[bytes, ...] | str
SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 65504.0, 3e38, -3e38, 0.5)
TEXTS = ("", " ", "a", "A", "bc d", "é", "0", "-1.5", "nan")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a model gave: for each set of feeds its outputs' bytes, or the kind of error. refusal:
    why it cannot be run at all, "" if it can."""

    outcomes: tuple[Outcome, ...]
    refusal: str = ""

    @property
    def ran(self) -> int:
        """How many sets of feeds gave outputs."""
        return sum(isinstance(o, tuple) for o in self.outcomes)


def feeds_of(graph: Graph, seed: int = 0, random: int = 2) -> list[dict[str, Array]]:
    """Random feeds, and edge ones: zeros, special numbers, magnitudes of every size; random texts.
    None where an input is of a type that has no random values here (sequences, maps)."""
    if any(name not in graph.types for name in graph.inputs):
        return []
    source = np.random.default_rng(seed)
    makers = [*([_normal] * random), _zero, _special, _limits]
    texts = {n for n in graph.inputs if graph.types[n].dtype is string}
    return [
        {n: (_texts if n in texts else make)(source, graph, n) for n in graph.inputs}
        for make in makers
    ]


def _form(graph: Graph, name: str) -> tuple[tuple[int, ...], DType]:
    kind = graph.types[name]
    return tuple(d if isinstance(d, int) else 1 for d in kind.shape or ()), kind.dtype


def _texts(source: np.random.Generator, graph: Graph, name: str) -> Array:
    shape, _ = _form(graph, name)
    return np.asarray(source.choice(TEXTS, shape)).astype(object)


def _normal(source: np.random.Generator, graph: Graph, name: str) -> Array:
    shape, dtype = _form(graph, name)
    if dtype.is_float:
        return np.asarray(source.standard_normal(shape)).astype(dtype.numpy)
    return np.asarray(source.integers(0, 2, shape)).astype(dtype.numpy)


def _zero(source: np.random.Generator, graph: Graph, name: str) -> Array:
    shape, dtype = _form(graph, name)
    return np.zeros(shape, dtype.numpy)


def _special(source: np.random.Generator, graph: Graph, name: str) -> Array:
    shape, dtype = _form(graph, name)
    if not dtype.is_float:
        return _normal(source, graph, name)
    with np.errstate(over="ignore"):
        return np.asarray(source.choice(SPECIAL, shape)).astype(dtype.numpy)


def _limits(source: np.random.Generator, graph: Graph, name: str) -> Array:
    """Magnitudes from the least subnormal to the largest number, signs mixed; of integers the
    whole range."""
    shape, dtype = _form(graph, name)
    if dtype.is_integer:
        low, high = dtype.min, dtype.max
        kind = np.uint64 if dtype.kind == "u" else np.int64
        return np.asarray(source.integers(low, high, shape, kind, endpoint=True)).astype(
            dtype.numpy
        )
    if not dtype.is_float:
        return _normal(source, graph, name)
    exponents = source.uniform(-44, 38, shape)
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(np.sign(source.standard_normal(shape)) * 10.0**exponents).astype(
            dtype.numpy
        )


def run(graph: Graph, sets: Sequence[Feeds], kind: Kind = "machine") -> Evidence:
    """What a graph gives for each of the feeds that it has inputs for. BuildError where nothing can
    be compiled, which says nothing of the graph."""
    try:
        engine = make_engine(graph, kind)
    except BuildError:
        raise
    except SardonyxError as error:
        return Evidence(("refused",) * len(sets), str(error))
    return Evidence(tuple(_outcome(engine.run, graph, feeds) for feeds in sets))


def _outcome(run: Callable[[Feeds], Mapping[str, Value]], graph: Graph, feeds: Feeds) -> Outcome:
    given = {n: v for n, v in feeds.items() if n in graph.inputs}
    try:
        found = run(given)
    except BuildError:
        raise
    except SardonyxError as error:
        return type(error).__name__
    return tuple(_bytes(found[name]) for name in graph.outputs)


def _bytes(value: Value) -> bytes:
    if isinstance(value, Mapping):
        return repr({k: _bytes(v) for k, v in value.items()}).encode()
    if not isinstance(value, np.ndarray):  # a sequence, or an optional without a value
        return repr(value and [_bytes(v) for v in value]).encode()
    if value.dtype == object:
        return repr((value.shape, value.tolist())).encode()
    return f"{value.dtype}{value.shape}".encode() + value.tobytes()


def differences(before: Evidence, after: Evidence) -> Iterator[str]:
    """Which feeds gave something else, or that the second cannot be run."""
    if after.refusal and not before.refusal:
        yield f"it cannot be run any more: {after.refusal}"
        return
    for i, (a, b) in enumerate(zip(before.outcomes, after.outcomes, strict=True)):
        if a != b:
            yield f"feeds {i}: {b if isinstance(b, str) else 'other bytes'}"
