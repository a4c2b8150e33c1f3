"""What the host performs: host functions, subgraphs as functions, moves of strings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sardonyx import types as t
from sardonyx.errors import InvalidModel, RunError, SardonyxError
from sardonyx.graph import Graph, Operation
from sardonyx.kernel.build import operand
from sardonyx.kernel.expr import Buffer, Expr, Load, Where
from sardonyx.kernel.interpret import evaluate
from sardonyx.kernel.ir import Compute, Kernel
from sardonyx.kernel.verify import settle
from sardonyx.kernel.walk import is_move, walk
from sardonyx.ops import registry
from sardonyx.ops.body import Body
from sardonyx.ops.registry import find, find_host
from sardonyx.types import Array, TensorType, Value

KEPT = 64  # sets of shapes whose moves of strings are remembered
LARGEST = 1 << 14  # bytes of numbers that may decide them
_EMPTY = np.array([""], object)


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
        return _Mover(graph, op) if op.op_type != "Identity" else tuple
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


class _Mover:
    """An operation on strings, again and again: where it only moves them, the places that they come
    from are remembered for each set of shapes and of numbers that decide them."""

    def __init__(self, graph: Graph, op: Operation) -> None:
        self._graph, self._op = graph, op
        self._known: dict[object, list[Array] | None] = {}

    def __call__(self, values: Sequence[Value]) -> tuple[Any, ...]:
        arrays = [v for v in values if isinstance(v, np.ndarray)]
        numbers = [v for v in arrays if v.dtype != object]
        if sum(v.nbytes for v in numbers) > LARGEST:
            return _moved(self._graph, self._op, values)
        key = tuple((v.dtype, v.shape) for v in arrays), tuple(v.tobytes() for v in numbers)
        if key not in self._known:
            if len(self._known) >= KEPT:
                self._known.clear()
            self._known[key] = _places(self._graph, self._op, values)
        places = self._known[key]
        if places is None:
            return _moved(self._graph, self._op, values)
        texts = np.concatenate([_EMPTY, *(v.ravel() for v in arrays if v.dtype == object)])
        return tuple(texts[p] if p.ndim else np.array(texts[p], object) for p in places)


def _places(graph: Graph, op: Operation, values: Sequence[Value]) -> list[Array] | None:
    """Of each output, where its strings come from among the empty one and all operands' strings;
    None where the operation does more than move them."""
    kinds = [graph.types.get(name) for name in op.outputs]
    if not all(k is not None and k.dtype is t.string for k in kinds):
        return None
    places, count = list[Array | None](), 1
    for v in values:
        if isinstance(v, np.ndarray) and v.dtype == object:
            places.append(np.arange(count, count + v.size).reshape(v.shape))
            count += v.size
        else:
            places.append(v if isinstance(v, np.ndarray) else None)
    kernel = _kernel(op, places)
    texts = [
        b
        for v, b in zip(values, kernel.inputs, strict=True)
        if isinstance(v, np.ndarray) and v.dtype == object
    ]
    if not all(isinstance(s, Compute) and _only_moves(s.expr, texts) for s in kernel.body):
        return None
    return list(evaluate(kernel, places))


def _only_moves(e: Expr, texts: Sequence[Buffer | None]) -> bool:
    """Whether e selects among stored elements, by what is no string."""
    deciding = [x for n in walk(e) for x in (n.index if isinstance(n, Load) else ())]
    deciding += [n.cond for n in walk(e) if isinstance(n, Where)]
    loads = (x for x in walk(*deciding) if isinstance(x, Load))
    return is_move(e) and not any(x.buffer.root in texts for x in loads)


def _moved(graph: Graph, op: Operation, values: Sequence[Value]) -> tuple[Array | None, ...]:
    """An operation that only moves or compares its operands, on strings: its kernel is evaluated
    on their ranks among all strings there are; the empty one, ONNX's zero, is rank 0."""
    if not all(v is None or isinstance(v, np.ndarray) for v in values):
        raise RunError(f"{op.op_type}-{op.since} takes tensors")
    arrays = [v if isinstance(v, np.ndarray) else None for v in values]
    strings = (a for a in arrays if a is not None and a.dtype == object)
    texts = sorted({"", *(s for a in strings for s in a.flat)})
    ranks = [None if a is None else _ranks(a, texts) for a in arrays]
    names, given = np.array(texts, object), iter(evaluate(_kernel(op, ranks), ranks))
    used = [bool(name) for name in op.outputs]
    types = [graph.types.get(name) for name in op.outputs]
    return tuple(
        _named(next(given), names, kind) if use else None
        for kind, use in zip(types, used, strict=True)
    )


def _kernel(op: Operation, values: Sequence[Array | None]) -> Kernel:
    """What an operation does to operands of numbers."""
    operator = find(op.domain, op.op_type, op.since)
    if operator is None:
        raise RunError(f"{op.op_type}-{op.since} takes tensors")
    operands = [
        None if v is None else operand(f"x{i}", t.by_numpy(v.dtype) or t.int64, v.shape, v)
        for i, v in enumerate(values)
    ]
    used = [bool(name) for name in op.outputs]
    return settle(registry.lower(operator, operands, op.attributes, used))[0]


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
