"""The feeds of a session, checked in onnxruntime's order and refused with its words.

A list becomes an array of the input's type. Arrays may be non-contiguous, read-only or of the other
byte order (onnxruntime misreads that); their type and rank must be the input's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx import types as t
from sardonyx.errors import FeedError, SardonyxError, UnsupportedModel, shown
from sardonyx.feeds import fitting
from sardonyx.graph import Graph
from sardonyx.ort.capi.onnxruntime_pybind11_state import InvalidArgument, status
from sardonyx.ort.metadata import type_text
from sardonyx.ort.values import OrtValue, ValueRefused
from sardonyx.types import Array, TensorType, Value, ValueType


class MissingInput(FeedError, ValueError):
    """An input that is not fed: onnxruntime raises a ValueError."""


def converted(graph: Graph, feeds: Mapping[str, Any]) -> dict[str, Value]:
    """The feeds as values that fit the graph's inputs, but for sizes of symbolic dims.

    Raises MissingInput, ValueRefused, or an InvalidArgument that is a FeedError.
    """
    missing = [name for name in graph.inputs if name not in feeds]
    if missing:
        raise MissingInput(
            f"Required inputs ({missing}) are missing from input feed ({list(feeds)})."
        )
    allowed = (*graph.inputs, *graph.overridable)
    for name in feeds:
        if name not in allowed:
            raise refused(f"Invalid input name: {name}; the inputs are {', '.join(allowed)}")
    return {name: _value(name, value, graph.kind(name)) for name, value in feeds.items()}


def wanted(graph: Graph, names: Sequence[str] | None) -> list[str]:
    """The outputs asked for: all of them for None and []. InvalidArgument for a wrong name."""
    if not names:
        return list(graph.outputs)
    asked = names if isinstance(names, str) else list(names)  # an iterator gives them once
    if isinstance(asked, str) or not all(isinstance(name, str) for name in asked):
        raise TypeError(f"output_names is {asked!r}; it takes a list of names, or None for all")
    for name in asked:
        if name not in graph.outputs:
            raise refused(f"Invalid output name:{name}; the outputs are {', '.join(graph.outputs)}")
    return asked


def refused(*lines: str) -> SardonyxError:
    """An InvalidArgument that is a FeedError too."""
    return status(InvalidArgument, "\n".join(map(shown, lines)), FeedError)


def _value(name: str, value: Any, expected: ValueType | None) -> Value:
    if isinstance(expected, TensorType):
        array = _array(name, value, expected)
        _check(name, array, expected)
        return array
    try:
        return fitting(name, value, expected)
    except FeedError as error:
        raise refused(f"Unexpected input data type: {error}") from error


def _array(name: str, value: Any, expected: TensorType) -> Array:
    match value:
        case OrtValue():
            return value.numpy()
        case np.ndarray():
            return value
        case list():
            try:
                return np.array(value, expected.dtype.numpy)
            except (TypeError, ValueError, OverflowError) as error:
                raise ValueRefused(
                    "Could not create tensor from given input list"
                    f" for input '{name}', expected {expected}: {error}"
                ) from error
    words = f"Unable to handle object of type {type(value)}"
    if isinstance(value, Iterable):
        words = "Input must be a list of dictionaries or a single numpy array"
    raise ValueRefused(
        f"{words} for input '{name}'. Expected an array of {expected}, or a list; "
        f"found an object of type {type(value).__name__}"
    )


def _check(name: str, array: Array, expected: TensorType) -> None:
    """The type, the rank and the fixed sizes."""
    found = t.by_numpy(array.dtype)
    if found is not expected.dtype:
        actual = f"tensor({found.ort})" if found else _unknown(array)
        raise refused(
            f"Unexpected input data type. Actual: ({actual}) , expected: ({type_text(expected)})"
            f"; '{name}' is fed with {array.dtype}"
        )
    if expected.shape is None:
        return
    if array.ndim != len(expected.shape):
        raise refused(
            f"Invalid rank for input: {name} Got: {array.ndim} Expected: {len(expected.shape)} "
            "Please fix either the inputs/outputs or the model."
        )
    wrong = [
        f" index: {i} Got: {got} Expected: {want}"
        for i, (got, want) in enumerate(zip(array.shape, expected.shape, strict=True))
        if isinstance(want, int) and got != want
    ]
    if wrong:
        raise refused(
            f"Got invalid dimensions for input: {name} for the following indices",
            *wrong,
            " Please fix either the inputs/outputs or the model.",
        )


def _unknown(array: Array) -> str:
    return str(array.dtype)


def check_supported(graph: Graph) -> None:
    """Raises UnsupportedModel where an input or output is of no type that Sardonyx has."""
    for name in (*graph.inputs, *graph.overridable, *graph.outputs):
        if graph.kind(name) is None:
            raise UnsupportedModel(f"'{name}' has a type that Sardonyx does not have")
