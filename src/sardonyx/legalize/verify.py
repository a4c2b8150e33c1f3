"""Whether two models give the same bytes, by running them on the machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from sardonyx.engines import Kind, make_engine
from sardonyx.errors import RunError, SardonyxError
from sardonyx.graph import Graph
from sardonyx.types import Array, DType

Feeds: TypeAlias = Mapping[str, Array]
Outcome: TypeAlias = tuple[bytes, ...] | str
SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 65504.0, 3e38, -3e38, 0.5)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a model gave: for each set of feeds its outputs' bytes, or the error."""

    outcomes: tuple[Outcome, ...]

    @property
    def feeds(self) -> int:
        return len(self.outcomes)


def feeds_of(graph: Graph, seed: int = 0, random: int = 2) -> list[dict[str, Array]]:
    """Random feeds, and edge ones: zeros, and values with every special number in every place."""
    source = np.random.default_rng(seed)
    makers = [*([_normal] * random), _zero, _special, _limits]
    return [{n: make(source, graph, n) for n in graph.inputs} for make in makers]


def _form(graph: Graph, name: str) -> tuple[tuple[int, ...], DType]:
    kind = graph.types[name]
    return tuple(d if isinstance(d, int) else 1 for d in kind.shape or ()), kind.dtype


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
    """What a graph gives for each of the feeds that it has inputs for."""
    try:
        engine = make_engine(graph, kind)
    except SardonyxError as error:
        return Evidence(tuple(f"{type(error).__name__}: {error}" for _ in sets))
    return Evidence(tuple(_outcome(engine.run, graph, feeds) for feeds in sets))


def _outcome(run: object, graph: Graph, feeds: Feeds) -> Outcome:
    given = {n: v for n, v in feeds.items() if n in graph.inputs}
    try:
        found = run(given)  # type: ignore[operator]
    except RunError:
        return "RunError"
    except SardonyxError as error:
        return f"{type(error).__name__}: {error}"
    return tuple(_bytes(found[name]) for name in graph.outputs)


def _bytes(value: Array) -> bytes:
    return f"{value.dtype}{value.shape}".encode() + value.tobytes()


def differences(before: Evidence, after: Evidence) -> Iterator[str]:
    """Which feeds gave something else."""
    for i, (a, b) in enumerate(zip(before.outcomes, after.outcomes, strict=True)):
        if a != b:
            yield f"feeds {i}: {b if isinstance(b, str) else 'other bytes'}"
