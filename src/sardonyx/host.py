"""What the host performs: host functions, subgraphs as functions, moves of strings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx import types as t
from sardonyx.errors import InvalidModel, RunError, SardonyxError
from sardonyx.graph import Graph, Operation
from sardonyx.kernel.build import operand
from sardonyx.kernel.interpret import evaluate
from sardonyx.kernel.verify import settle
from sardonyx.ops import registry
from sardonyx.ops.body import Body
from sardonyx.ops.registry import find, find_host
from sardonyx.types import Array, TensorType, Value


def perform(
    graph: Graph, op: Operation, values: Sequence[Value], bodies: Mapping[str, Body]
) -> tuple[Any, ...]:
    """What the host gives for an operation's operands; absent ones are None."""
    host = find_host(op.domain, op.op_type, op.since)
    if host is not None:
        return registry.perform(host, values, {**op.attributes, **bodies})
    if op.op_type == "Identity":
        return tuple(values)
    return _moved(graph, op, values)


def performing(graph: Graph, op: Operation) -> Callable[[Sequence[Value]], tuple[Any, ...]]:
    """`perform` of an operation without subgraphs, whose attributes are looked at now."""
    host = find_host(op.domain, op.op_type, op.since)
    if host is None:
        return lambda values: perform(graph, op, values, {})
    try:
        return registry.bound(host, op.attributes)
    except SardonyxError as error:
        raise type(error)(f"{op}: {error}") from error


def told(op: Operation, act: Callable[..., tuple[Any, ...]], *given: Any) -> dict[str, Any]:
    """What act gives for op, by name; errors name op. InvalidModel where it is less than named."""
    try:
        found = act(*given)
    except SardonyxError as error:
        raise type(error)(f"{op}: {error}") from error
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise RunError(f"{op}: {error}") from error
    if len(found) < len(op.outputs):
        raise InvalidModel(f"{op} gives {len(found)} values, {len(op.outputs)} are named")
    return {n: v for n, v in zip(op.outputs, found, strict=False) if n}


def _moved(graph: Graph, op: Operation, values: Sequence[Value]) -> tuple[Array | None, ...]:
    """An operation that only moves or compares its operands, on strings: its kernel is evaluated
    on their ranks among all strings there are; the empty one, ONNX's zero, is rank 0."""
    operator = find(op.domain, op.op_type, op.since)
    if operator is None or not all(v is None or isinstance(v, np.ndarray) for v in values):
        raise RunError(f"{op.op_type}-{op.since} takes tensors")
    arrays = [v if isinstance(v, np.ndarray) else None for v in values]
    strings = (a for a in arrays if a is not None and a.dtype == object)
    texts = sorted({"", *(s for a in strings for s in a.flat)})
    ranks = [None if a is None else _ranks(a, texts) for a in arrays]
    operands = [
        None if v is None else operand(f"x{i}", t.by_numpy(v.dtype) or t.int64, v.shape, v)
        for i, v in enumerate(ranks)
    ]
    used = [bool(name) for name in op.outputs]
    kernel, _ = settle(registry.lower(operator, operands, op.attributes, used))
    names, given = np.array(texts, object), iter(evaluate(kernel, ranks))
    types = [graph.types.get(name) for name in op.outputs]
    return tuple(
        _named(next(given), names, kind) if use else None
        for kind, use in zip(types, used, strict=True)
    )


def _named(value: Array, names: Array, kind: TensorType | None) -> Array:
    """The strings that ranks stand for, where the output is of strings."""
    if kind is None or kind.dtype is not t.string:
        return value
    return np.asarray(names[value], object).reshape(value.shape)


def _ranks(value: Array, texts: Sequence[str]) -> Array:
    if value.dtype != object:
        return value
    rank = {s: i for i, s in enumerate(texts)}
    return np.array([rank[s] for s in value.flat], np.int64).reshape(value.shape)
