"""Sequences and optionals: lists of values, and None for what is absent."""

from __future__ import annotations

from typing import Any

import numpy as np

from sardonyx.errors import InvalidModel, RunError
from sardonyx.ops.registry import host
from sardonyx.types import Array, Value


@host("SequenceConstruct", 11)
def sequence_construct(*inputs: Array | None) -> list[Array]:
    """The inputs, in order."""
    found = [x for x in inputs if x is not None]
    if len(found) != len(inputs):
        raise InvalidModel("SequenceConstruct needs each of its inputs, one is left out")
    return found


@host("SequenceEmpty", 11)
def sequence_empty(*, dtype: int = 1) -> list[Array]:
    """A sequence without elements, of the type `dtype` (its TensorProto code)."""
    return []


@host("SequenceLength", 11)
def sequence_length(sequence: list[Array]) -> Array:
    """How many elements there are, an int64 scalar."""
    return np.array(len(sequence), np.int64)


@host("SequenceAt", 11)
def sequence_at(sequence: list[Array], position: Array) -> Array:
    """The element at a position, which may count from the end."""
    return sequence[_position(position, len(sequence), len(sequence) - 1)]


@host("SequenceInsert", 11)
def sequence_insert(
    sequence: list[Array], tensor: Array, position: Array | None = None
) -> list[Array]:
    """The sequence with the tensor before the element at a position; by default at the end."""
    n = len(sequence)
    at = n if position is None else _position(position, n, n)
    return [*sequence[:at], tensor, *sequence[at:]]


@host("SequenceErase", 11)
def sequence_erase(sequence: list[Array], position: Array | None = None) -> list[Array]:
    """The sequence without the element at a position; by default the last."""
    n = len(sequence)
    at = _position(np.array(-1) if position is None else position, n, n - 1)
    return [*sequence[:at], *sequence[at + 1 :]]


@host("SplitToSequence", 11, 24)
def split_to_sequence(
    x: Array, split: Array | None = None, *, axis: int = 0, keepdims: int = 1
) -> list[Array]:
    """x in pieces along an axis: single elements, pieces of one size (a scalar; the last may be
    smaller), or of the given sizes. Without `split`, keepdims=0 drops the axis."""
    if not -x.ndim <= axis < x.ndim:
        raise RunError(f"the axis {axis} is none of a tensor of rank {x.ndim}")
    axis, n = axis % x.ndim, x.shape[axis]
    if split is None:
        pieces = np.split(x, n, axis) if n else []
        return pieces if keepdims else [np.squeeze(p, axis) for p in pieces]
    if split.ndim == 0:
        size = int(split)
        if size < 1:
            raise RunError(f"the size of a piece is {size}, expected at least 1")
        return np.split(x, list(range(size, n, size)), axis)
    sizes = [int(s) for s in split]
    if min(sizes, default=0) < 0 or sum(sizes) != n:
        raise RunError(f"the sizes {sizes} do not make up the {n} elements of axis {axis}")
    return np.split(x, np.cumsum(sizes)[:-1], axis) if sizes else []


@host("ConcatFromSequence", 11)
def concat_from_sequence(sequence: list[Array], *, axis: int, new_axis: int = 0) -> Array:
    """The elements one after the other along an axis, or along a new one."""
    if not sequence:
        raise RunError("the sequence is empty")
    return np.stack(sequence, axis) if new_axis else np.concatenate(sequence, axis)


@host("Optional", 15, 28)
def optional(x: Value = None, *, type: Any = None) -> Value:
    """The value as an optional; without one, an optional that is empty."""
    return x


@host("OptionalHasElement", 15, 18, 28)
def optional_has_element(x: Value = None) -> Array:
    """Whether there is a value: a bool scalar."""
    return np.array(x is not None)


@host("OptionalGetElement", 15, 18, 28)
def optional_get_element(x: Value) -> Value:
    """The value that an optional holds."""
    if x is None:
        raise RunError("the optional is empty")
    return x


def _position(position: Array, n: int, last: int) -> int:
    at = int(np.asarray(position).reshape(()))
    if not -n <= at <= last:
        raise RunError(f"the position is {at}, expected {-n} to {last}")
    return at + n if at < 0 else at
