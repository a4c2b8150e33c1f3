"""Any value as bytes, for its digest: tensors of numbers as their elements; strings, sequences,
maps and optionals without a value, which lie outside of M, as JSON.

    encoded(value)           the bytes
    decoded(tensor, bytes)   the value again, of what a line of a trace says of it
"""

from __future__ import annotations

import json
from math import prod
from typing import Any

import numpy as np

from sardonyx import types as t
from sardonyx.errors import FeedError
from sardonyx.trace.digest import dumps, elements
from sardonyx.trace.read import Touched
from sardonyx.types import Array, DType, Value


def encoded(value: Value) -> bytes:
    """The bytes that stand for a value."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return elements(value)
    return dumps(_plain(value)).encode("ascii")


def kind(value: Value) -> tuple[str, tuple[int, ...], int]:
    """What a line says of a value: its type, its shape (of tensors) and its bytes."""
    match value:
        case np.ndarray() if value.dtype != object:
            dtype = t.by_numpy(value.dtype)
            assert dtype is not None
            return dtype.name, value.shape, dtype.bytes(value.size)
        case np.ndarray():
            return t.string.name, value.shape, len(encoded(value))
    name = "sequence" if isinstance(value, list | tuple) else "map" if value is not None else "none"
    return name, (), len(encoded(value))


def decoded(x: Touched, data: bytes | None) -> Value:
    """The value that bytes stand for; FeedError where they are no such value."""
    if data is None:
        return None
    if x.dtype is not t.string:
        return tensor(x, data)
    try:
        return _value(json.loads(data))
    except (ValueError, KeyError, TypeError) as error:
        raise FeedError(f"'{x.name}': the bytes found are no value: {error}") from error


def tensor(x: Touched, data: bytes | None) -> Array | None:
    """The array of a tensor's elements. FeedError where there are not as many as it has."""
    if data is None:
        return None
    if len(data) != prod(x.shape) * x.dtype.size:
        raise FeedError(f"'{x.name}' has {x.size} bytes, {len(data)} were found")
    return _array(data, x.dtype, x.shape)


def _array(data: bytes, dtype: DType, shape: tuple[int, ...]) -> Array:
    wire = dtype.numpy if dtype.size == 1 else dtype.numpy.newbyteorder("<")
    return np.frombuffer(data, wire).astype(dtype.numpy).reshape(shape)


def _plain(value: Value) -> object:
    """A value as JSON: tensors and maps say what they are, a sequence is a list of them."""
    match value:
        case np.ndarray() if value.dtype == object:
            return {"tensor": [t.string.name, list(value.shape), [str(s) for s in value.flat]]}
        case np.ndarray():
            name, shape, _ = kind(value)
            return {"tensor": [name, list(shape), elements(value).hex()]}
        case dict():
            return {"map": [[_plain(k), _plain(v)] for k, v in value.items()]}
        case list() | tuple():
            return [_plain(v) for v in value]
        case np.generic():
            return _plain(value.item())
        case float():
            return {"float": value.hex()}
    return value


def _value(plain: Any) -> Value:
    match plain:
        case {"tensor": [t.string.name, shape, texts]}:
            return np.array(texts, object).reshape(shape)
        case {"tensor": [name, shape, data]}:
            return _array(bytes.fromhex(data), t.by_name(name), tuple(shape))
        case {"map": pairs}:
            return {_value(k): _value(v) for k, v in pairs}
        case {"float": text}:
            return float.fromhex(text)
        case list():
            return [_value(v) for v in plain]
    return plain
