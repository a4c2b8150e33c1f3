"""What the caller feeds, checked against a graph's inputs."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from sardonyx import types as t
from sardonyx.errors import FeedError, UnsupportedModel
from sardonyx.graph import Graph
from sardonyx.types import Array


def checked(graph: Graph, feeds: Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
    """The feeds as native arrays of the inputs' types; FeedError names the first that does not
    fit, UnsupportedModel an input of a type that Sardonyx does not have."""
    allowed = (*graph.inputs, *graph.overridable)
    for name in feeds:
        if name not in allowed:
            raise FeedError(f"'{name}' is not an input; the inputs are {', '.join(allowed)}")
    for name in graph.inputs:
        if name not in graph.types:
            raise UnsupportedModel(f"the input '{name}' has a type that Sardonyx does not have")
        if name not in feeds:
            raise FeedError(f"the input '{name}' is not fed")
    return {name: _fitting(name, np.asarray(feed), graph) for name, feed in feeds.items()}


def _fitting(name: str, value: Array, graph: Graph) -> Array:
    wanted = graph.types[name]
    if t.by_numpy(value.dtype) is not wanted.dtype:
        raise FeedError(f"'{name}' is fed with {value.dtype}, expected {wanted}")
    shape = wanted.shape
    if shape is not None and (
        len(shape) != value.ndim
        or any(isinstance(d, int) and d != n for d, n in zip(shape, value.shape, strict=True))
    ):
        raise FeedError(f"'{name}' is fed with the shape {value.shape}, expected {wanted}")
    if wanted.dtype is t.bool_:
        return np.asarray(np.ascontiguousarray(value).view(np.uint8) != 0).reshape(value.shape)
    return value.astype(wanted.dtype.numpy, copy=False)
