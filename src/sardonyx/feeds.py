"""What the caller feeds, checked against a graph's inputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import numpy as np

from sardonyx import types as t
from sardonyx.dims import evaluate, symbol, symbols
from sardonyx.errors import FeedError, UnsupportedModel
from sardonyx.graph import Graph
from sardonyx.types import (
    Array,
    MapType,
    OptionalType,
    SequenceType,
    TensorType,
    Value,
    ValueType,
)

Values: TypeAlias = tuple[tuple[str, bytes], ...]


def checked(graph: Graph, feeds: Mapping[str, Value]) -> dict[str, Value]:
    """The feeds as native arrays of the inputs' types; FeedError names the first that does not
    fit, UnsupportedModel an input of a type that Sardonyx does not have."""
    allowed = (*graph.inputs, *graph.overridable)
    for name in feeds:
        if name not in allowed:
            raise FeedError(f"'{name}' is not an input; the inputs are {', '.join(allowed)}")
    for name in graph.inputs:
        if graph.kind(name) is None:
            raise UnsupportedModel(f"the input '{name}' has a type that Sardonyx does not have")
        if name not in feeds:
            raise FeedError(f"the input '{name}' is not fed")
    return {name: fitting(name, feed, graph.kind(name)) for name, feed in feeds.items()}


def fitting(name: str, value: Value, wanted: ValueType | None) -> Value:
    """A feed as a value of the type wanted; FeedError where it is none."""
    match wanted:
        case TensorType():
            return _tensor(name, np.asarray(value), wanted)
        case SequenceType():
            if not isinstance(value, list | tuple):
                raise FeedError(f"'{name}' is fed with {type(value).__name__}, expected a list")
            return [fitting(f"{name}[{i}]", v, wanted.element) for i, v in enumerate(value)]
        case OptionalType():
            return None if value is None else fitting(name, value, wanted.element)
        case MapType():
            if not isinstance(value, dict):
                raise FeedError(f"'{name}' is fed with {type(value).__name__}, expected a dict")
            return value
    return value


def values_key(names: Iterable[str], feeds: Mapping[str, Value]) -> Values:
    """The bytes of those inputs that are fed with arrays: what their values decide is kept by
    them."""
    fed = ((n, feeds[n]) for n in names if n in feeds)
    return tuple((n, v.tobytes()) for n, v in fed if isinstance(v, np.ndarray))


def unified(graph: Graph, types: Mapping[str, TensorType]) -> dict[str, int]:
    """The number that feeds of these types give to each symbolic dim of the inputs.

    Raises FeedError where a type does not fit its input, or a symbolic dim would have two sizes.
    """
    env: dict[str, int] = {}
    for name, given in types.items():
        if name not in graph.inputs and name not in graph.overridable:
            raise FeedError(f"the model has no input '{name}'")
        _unify(name, graph.types[name], given, env)
    return env


def types_of(graph: Graph, fed: Mapping[str, Array]) -> dict[str, TensorType]:
    """The types of what is fed."""
    return {n: TensorType(graph.types[n].dtype, v.shape) for n, v in fed.items()}


def fits(graph: Graph, fed: Mapping[str, Array]) -> bool:
    """Whether the sizes of these feeds are what a graph supposes of them (supposed.py)."""
    types = types_of(graph, fed)
    try:
        dims = unified(graph, types)
    except FeedError:
        return False
    return (
        all(graph.types[n].at(dims) == kind for n, kind in types.items())
        and min(dims.values(), default=1) >= 1
        and all(evaluate(fact, dims) >= 0 for fact in graph.supposed)
    )


def numbers(graph: Graph, fed: Mapping[str, Value]) -> dict[str, int]:
    """The number of each symbolic dim: of the shapes of inputs that are tensors, and of values that
    decide sizes.

    Raises FeedError where a dim would have two.
    """
    arrays = {n: v for n, v in fed.items() if n in graph.types and isinstance(v, np.ndarray)}
    dims = unified(graph, types_of(graph, arrays))
    for name in graph.inputs:
        value = graph.values.get(name)
        if value is not None and value.dtype == object:
            found = zip(value.flat, map(int, arrays[name].flat), strict=True)
            dims.update((str(d), n) for d, n in found if not isinstance(d, int))
    return dims


def _unify(name: str, expected: TensorType, given: TensorType, env: dict[str, int]) -> None:
    """Adds to env what the dims of `expected` are if the feed has the type `given`."""
    if expected.dtype is not given.dtype:
        raise FeedError(f"the input '{name}' is {expected.dtype}, found {given.dtype}")
    if expected.shape is None or given.shape is None:
        return
    for want, have in zip(expected.shape, given.shape, strict=False):
        for dim in symbols(want) - set(env):
            if want == symbol(dim) and isinstance(have, int):
                env[dim] = have
    bound = expected.at(env).shape or ()
    pairs = zip(bound, given.shape, strict=False)
    if len(bound) != len(given.shape) or any(a != b for a, b in pairs if isinstance(a, int)):
        sizes = ", ".join(f"{k}={v}" for k, v in sorted(env.items()))
        known = f" (the inputs so far say {sizes})" if sizes else ""
        raise FeedError(f"the input '{name}' is {expected}, found {given}{known}")


def _tensor(name: str, value: Array, wanted: TensorType) -> Array:
    if t.by_numpy(value.dtype) is not wanted.dtype:
        raise FeedError(f"'{name}' is fed with {value.dtype}, expected {wanted}")
    shape = wanted.shape
    if shape is not None and (
        len(shape) != value.ndim
        or any(isinstance(d, int) and d != n for d, n in zip(shape, value.shape, strict=True))
    ):
        raise FeedError(f"'{name}' is fed with the shape {value.shape}, expected {wanted}")
    if wanted.dtype is t.string:
        return np.array([_text(name, s) for s in value.flat], object).reshape(value.shape)
    if wanted.dtype is t.bool_:
        return np.asarray(np.ascontiguousarray(value).view(np.uint8) != 0).reshape(value.shape)
    if wanted.dtype.is_packed:
        low = np.ascontiguousarray(value).view(np.uint8) & np.uint8((1 << wanted.dtype.bits) - 1)
        return low.view(wanted.dtype.numpy).reshape(value.shape)
    return value.astype(wanted.dtype.numpy, copy=False)


def _text(name: str, item: object) -> str:
    if isinstance(item, bytes):
        return item.decode()
    if not isinstance(item, str):
        raise FeedError(f"'{name}' holds {type(item).__name__}, expected strings")
    return str(item)
