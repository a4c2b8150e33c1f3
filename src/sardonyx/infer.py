"""Types and known values, propagated through a graph by lowering its operations.

    infer(graph)                 the graph with the types and values that our operators give
    bind(graph, types, values)   the graph for concrete feeds, inferred again
    kernel_of(graph, op)         one operation, lowered and settled; `traps_of` counts its traps
    value_inputs(graph)          the inputs whose values decide shapes

A value is followed where it is small (LIMIT elements): numbers by the interpreter, integers that
depend on symbolic dims by kernel/symbolic.py. Initializers are known, overridable ones only once
`bind` has fixed them. An operation that cannot be lowered yet (Undetermined), that Sardonyx does
not have, or that holds subgraphs leaves its outputs with the type that the model or ONNX's
inference declares. Without one an undetermined output has no known shape, and the dtype of the
operation's first input (TYPE_OF lists the operators for which that is wrong).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from weakref import WeakKeyDictionary

import numpy as np

from sardonyx import types as t
from sardonyx.dims import Dim, product, supposing, symbol, symbols
from sardonyx.errors import (
    InternalError,
    InvalidModel,
    RunError,
    SardonyxError,
    Undetermined,
    UnsupportedModel,
)
from sardonyx.feeds import unified
from sardonyx.graph import Graph, Operation
from sardonyx.kernel import interpret, symbolic
from sardonyx.kernel.build import Tensor, operand
from sardonyx.kernel.expr import Load
from sardonyx.kernel.ir import Kernel, expressions, statements
from sardonyx.kernel.symbolic import LIMIT
from sardonyx.kernel.verify import settle
from sardonyx.kernel.walk import walk
from sardonyx.ops.registry import Operator, find, find_host, lower, refusal, sized_by
from sardonyx.types import Array, DType, TensorType

LARGEST = 1 << 48  # elements that a tensor may have, zero dims counted as one
SYMBOLS = 16  # elements of an input whose value is symbols
WORK = 1 << 16  # elements of the inputs of an operation whose value is computed here
WINDOWED = "AveragePool", "Conv", "ConvInteger", "LpPool", "MaxPool", "QLinearConv"
TYPE_OF: dict[str, DType | int] = {
    # operator: the dtype of its outputs, or the input that has it
    "OneHot": 2,
    "ConstantOfShape": t.float32,
    "NonZero": t.int64,
    "NonMaxSuppression": t.int64,
    "Shape": t.int64,
    "Size": t.int64,
    "Where": 1,
}


@dataclass(slots=True, eq=False)
class _Lowered:
    """What is known of the operations of one graph."""

    kernels: dict[Operation, tuple[Kernel, int]] = field(default_factory=dict)
    refused: dict[Operation, SardonyxError] = field(default_factory=dict)


_LOWERED: WeakKeyDictionary[Graph, _Lowered] = WeakKeyDictionary()  # a memo: no state of its own


def infer(graph: Graph, declared: bool = True) -> Graph:
    """The graph with types for all tensors and with the values that are known.

    Raises InvalidModel where an operand, or a declared type, breaks a rule (declared=False: what
    the model declares may be wrong).
    """
    if not graph.supposed:
        return _infer(graph, declared)
    with supposing(graph.supposed):
        return _infer(graph, declared)


def kernel_of(graph: Graph, op: Operation) -> Kernel:
    """The kernel of one operation of graph, verified, its unproven loads made traps; memoised.

    Raises Undetermined where a shape or value is not known, UnsupportedModel where Sardonyx does
    not have the operator.
    """
    return _lowered(graph, op)[0]


def traps_of(graph: Graph, op: Operation) -> int:
    """How many loads of kernel_of(graph, op) were made traps since no proof was found."""
    return _lowered(graph, op)[1]


def undetermined(graph: Graph) -> dict[Operation, SardonyxError]:
    """The operations that cannot be lowered, with the reason."""
    found: dict[Operation, SardonyxError] = {}
    for op in graph.operations:
        try:
            _lowered(graph, op)
        except (Undetermined, UnsupportedModel) as error:
            found[op] = _bare(error)
    return found


def _bare(error: SardonyxError) -> SardonyxError:
    """The error without its traceback, whose frames would keep the graph alive."""
    if isinstance(error, Undetermined):
        return Undetermined(str(error), error.tensor, error.equal)
    return type(error)(str(error))


def _lowered(graph: Graph, op: Operation) -> tuple[Kernel, int]:
    memo = _LOWERED.setdefault(graph, _Lowered())
    if op in memo.refused:
        raise _bare(memo.refused[op])
    if op not in memo.kernels:
        memo.kernels[op] = _lower(_Known(graph.types, graph.values, graph), op)
    return memo.kernels[op]


@dataclass(slots=True, eq=False)
class _Known:
    """Types and values as far as they are found."""

    types: Mapping[str, TensorType]
    values: Mapping[str, Array]
    graph: Graph

    def value(self, name: str) -> Array | None:
        found = self.values.get(name)
        if found is None and name not in self.graph.overridable:
            found = self.graph.initializers.get(name)
        return found


def _infer(graph: Graph, declared: bool) -> Graph:
    given = {*graph.inputs, *graph.overridable, *graph.extents}
    types = dict(graph.types)
    values = {n: v for n, v in graph.values.items() if n in given}
    known, lowered = _Known(types, values, graph), _Lowered()
    for op in graph.operations:
        names = [name for name in op.outputs if name]
        try:
            kernel, _ = lowered.kernels[op] = _lower(known, op)
        except (Undetermined, UnsupportedModel) as error:
            lowered.refused[op] = _bare(error)
            types.update(_fallback(known, op, names))
            continue
        for name, buffer in zip(names, kernel.outputs, strict=True):
            types[name] = TensorType(buffer.dtype, buffer.shape)
            if declared and name in graph.declared:
                _agree(op, name, types[name], graph.declared[name])
        found = zip(names, _values(known, op, kernel), strict=False)
        values.update((n, v) for n, v in found if n not in graph.extents)
    result = replace(graph, types=types, values=values)
    _LOWERED[result] = lowered
    return result


def _lower(known: _Known, op: Operation) -> tuple[Kernel, int]:
    """The settled kernel and its number of made traps; errors name the operation."""
    if on_host(known.types, known.graph, op):
        raise Undetermined(f"{op}: it is performed by the host, when its operands are there")
    if sized_by(op.domain, op.op_type, op.since):
        raise Undetermined(f"{op}: the size of what it gives depends on data")
    operator = find(op.domain, op.op_type, op.since)
    if operator is None:
        where = op.domain or "ai.onnx"
        reason = refusal(op.domain, op.op_type, op.since)
        why = f": {reason}" if reason else ""
        what = f"{where}::{op.op_type}-{op.since}"
        raise UnsupportedModel(f"{op}: Sardonyx does not have {what}{why}")
    operands = [_operand(known, op, i, name) for i, name in enumerate(op.inputs)]
    try:
        kernel = lower(operator, operands, op.attributes, [bool(name) for name in op.outputs])
        _check_sizes(operator, kernel)
        return settle(kernel)
    except Undetermined as error:
        raise Undetermined(_explain(known, op, error), error.tensor, error.equal) from error
    except InternalError as error:
        # a definition that reads beyond an operand, or at another rank, was given a wrong one
        raise InvalidModel(
            f"{_explain(known, op, error)} (the operands do not fit {operator})"
        ) from error
    except SardonyxError as error:
        raise type(error)(_explain(known, op, error)) from error
    except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
        # a definition states its rules as it unpacks shapes and attributes
        raise InvalidModel(
            f"{_explain(known, op, error)} ({type(error).__name__}: the operands or attributes "
            f"do not fit {operator})"
        ) from error


def on_host(types: Mapping[str, TensorType], graph: Graph, op: Operation) -> bool:
    """Whether the host performs op: no kernel does, or a tensor of it does not lie in M."""
    key = op.domain, op.op_type, op.since
    if op.subgraphs or (find_host(*key) and not find(*key)):
        return True
    names = [name for name in (*op.inputs, *op.outputs) if name]
    known = [types.get(name, graph.types.get(name)) for name in names]
    strings = any(x is not None and x.dtype is t.string for x in known)
    return strings or any(name in graph.containers for name in names)


def _check_sizes(operator: Operator, kernel: Kernel) -> None:
    for b in kernel.outputs:
        sizes = [d for d in b.shape if isinstance(d, int)]
        if min(sizes, default=0) < 0 or prod(max(1, d) for d in sizes) > LARGEST:
            raise InvalidModel(f"{operator} would give a tensor of shape {b.shape}")


def _operand(known: _Known, op: Operation, i: int, name: str) -> Tensor | None:
    if not name:
        return None
    found = known.types.get(name)
    if found is None:
        raise UnsupportedModel(f"{op}: the input '{name}' is not a tensor that Sardonyx has")
    if found.shape is None:
        raise Undetermined(f"{op}: the shape of '{name}' is not known yet")
    value = known.value(name)
    small = value is not None and value.size <= LIMIT
    return operand(f"x{i}", found.dtype, found.shape, value if small else None)


def _explain(known: _Known, op: Operation, error: Exception) -> str:
    names = [f"x{i} = '{n}' {known.types.get(n, '?')}" for i, n in enumerate(op.inputs) if n]
    return f"{op}: {error}" + (f"; where {', '.join(names)}" if names else "")


def _fallback(known: _Known, op: Operation, names: list[str]) -> dict[str, TensorType]:
    """The types of outputs that lowering did not give."""
    declared = known.graph.declared
    found = {name: declared[name] for name in names if name in declared}
    rule = TYPE_OF.get(op.op_type, 0)
    if isinstance(rule, int):
        source = known.types.get(op.inputs[rule]) if rule < len(op.inputs) else None
        dtype = None if source is None else source.dtype
    else:
        value = op.attributes.get("value")
        dtype = rule if value is None else t.by_numpy(np.asarray(value).dtype)
    if dtype is not None and not op.subgraphs:
        found.update({n: TensorType(dtype, None) for n in names if n not in found})
    return found


def _agree(op: Operation, name: str, found: TensorType, declared: TensorType) -> None:
    """Raises InvalidModel where what the model declares contradicts the operator."""
    pairs = zip(found.shape or (), declared.shape or (), strict=False)
    rank = declared.shape is None or len(declared.shape) == len(found.shape or ())
    sizes = all(a == b for a, b in pairs if isinstance(a, int) and isinstance(b, int))
    if found.dtype is not declared.dtype or not rank or not sizes:
        if op.op_type in WINDOWED and _lacks_places(found, declared):
            raise InvalidModel(
                f"{op}: its window is larger than its input with its padding, so that '{name}' "
                f"would be {found}, where {declared} is expected: give it more input or padding"
            )
        raise InvalidModel(
            f"{op} gives '{name}' the type {found}, but the model declares {declared}: "
            "remove the declaration (graph.value_info) or mend it"
        )


def _lacks_places(found: TensorType, declared: TensorType) -> bool:
    """Whether an axis of places is empty that is declared not to be."""
    pairs = list(zip(found.shape or (), declared.shape or (), strict=False))
    return any(a == 0 and b != 0 for a, b in pairs[2:])


def _values(known: _Known, op: Operation, kernel: Kernel) -> Iterator[Array]:
    """The values of op's outputs, or nothing where they are large or not known."""
    counts = [product(b.shape) for b in kernel.outputs]
    if not all(isinstance(n, int) and n <= LIMIT for n in counts):
        return
    inputs = [known.value(name) if name else None for name in op.inputs]
    present = [x for x, name in zip(inputs, op.inputs, strict=True) if name]
    try:
        if all(x is not None and x.dtype != object for x in present):
            if sum(x.size for x in present if x is not None) <= WORK and not _sizes(kernel):
                yield from interpret.evaluate(kernel, inputs)
        else:
            yield from symbolic.evaluate(kernel, inputs)
    except (Undetermined, RunError):  # a trap is for the run to report
        return


def _sizes(kernel: Kernel) -> frozenset[str]:
    """The symbolic dims of a kernel's buffers."""
    buffers = [b for b in (*kernel.inputs, *kernel.outputs, *kernel.temporaries) if b is not None]
    return frozenset().union(*(symbols(d) for b in buffers for d in b.shape))


def value_inputs(graph: Graph) -> tuple[str, ...]:
    """The graph inputs and overridable initializers whose values decide shapes, in order.

    They are what the operands are computed from whose value an operation asked for in vain: with
    that operand all others but the first (Slice names `starts` first, and needs `ends` too).
    Inputs of rank 2 and more are data, never sizes.
    """
    producers, known = graph.producers(), _Known(graph.types, graph.values, graph)
    todo = [n for op, e in undetermined(graph).items() for n in _asked(graph, op, e)]
    seen: set[str] = set()
    while todo:
        name = todo.pop()
        if name in seen or known.value(name) is not None:
            continue
        seen.add(name)
        if name in producers:
            todo += _sources(graph, graph.operations[producers[name]])
    inputs = (*graph.inputs, *graph.overridable)
    return tuple(n for n in inputs if n in seen and len(graph.types[n].shape or ()) < 2)


def _asked(graph: Graph, op: Operation, error: SardonyxError) -> list[str]:
    """The inputs of op whose values would help."""
    wanted = error.tensor if isinstance(error, Undetermined) else None
    if wanted is None:
        return []
    first = 0 if wanted == "x0" else 1
    return [name for name in op.inputs[first:] if name]


def _sources(graph: Graph, op: Operation) -> list[str]:
    """The inputs of op that its outputs' values depend on (Shape depends on none)."""
    try:
        kernel = kernel_of(graph, op)
    except (Undetermined, UnsupportedModel):
        return [name for name in op.inputs if name]
    roots = [e for s in statements(kernel.body) for e in expressions(s)]
    loaded = {e.buffer.root for e in walk(*roots) if isinstance(e, Load)}
    return [n for n, b in zip(op.inputs, kernel.inputs, strict=True) if n and b in loaded]


def bind(graph: Graph, types: Mapping[str, TensorType], values: Mapping[str, Array]) -> Graph:
    """The graph for feeds of these types: each symbolic dim has one number, sizes follow.

    `types` are concrete and may leave inputs out; `values` may hold any fed inputs, of which those
    of `value_inputs` become known, and those of overridable initializers replace them. What the
    model declares of inner tensors is no longer checked: it may name a dim wrongly. FeedError where
    a type does not fit its input, or a symbolic dim would have two sizes.
    """
    env = unified(graph, types)
    bound = {n: at_sizes(tt, env) for n, tt in graph.types.items()}
    declared = {n: at_sizes(tt, env) for n, tt in graph.declared.items()}
    fixed = {n: values[n] for n in graph.overridable if n in values}
    initializers = {**graph.initializers, **fixed}
    wanted = value_inputs(graph)
    known = {n: v for n in wanted if (v := values.get(n, initializers.get(n))) is not None}
    return infer(
        replace(
            graph,
            types={**bound, **types},
            declared={**declared, **types},
            initializers=initializers,
            values=known,
        ),
        declared=False,
    )


def at_sizes(tensor: TensorType, sizes: Mapping[str, Dim]) -> TensorType:
    """The type with these sizes in the place of symbols; of no known shape where a size would be
    divided by 0, which the operation that gives it has to tell."""
    try:
        return tensor.at(sizes)
    except ZeroDivisionError:
        return TensorType(tensor.dtype, None)


def with_symbolic_values(graph: Graph) -> Graph:
    """The graph, inferred with a symbol for each element of the integer inputs whose values decide
    shapes: where all of it can be lowered, one compilation serves all values from 1 on."""
    values = {}
    for name in value_inputs(graph):
        tensor = graph.types[name]
        count = prod(d for d in tensor.shape or () if isinstance(d, int))
        known = tensor.shape is not None and all(isinstance(d, int) for d in tensor.shape)
        if known and count <= SYMBOLS and tensor.dtype.is_integer and name in graph.inputs:
            symbolic = np.array([symbol(f"{name}[{i}]") for i in range(count)], object)
            values[name] = symbolic.reshape([d for d in tensor.shape or () if isinstance(d, int)])
    return infer(replace(graph, values={**graph.values, **values}), declared=False)
