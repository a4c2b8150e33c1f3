"""QDQ islands: DequantizeLinear -> operator -> QuantizeLinear as one integer operation.

    graph = integer_islands(graph)

An island is rewritten where its integer definition (ops/integer.py, docs/numerics.md) is exact: the
scales and zero points are constants, the integers have 8 bits, no int32 sum can overflow, a bias is
an int32 of scale sx * sw. What else a graph holds stays as it is, and reads as it is written.
Between the operator and QuantizeLinear a Relu or Clip may stand; an operator that only moves
elements (or takes maxima) passes through where both sides have one scale and zero point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Literal, TypeAlias

import numpy as np

from sardonyx.dims import Dim
from sardonyx.graph import Graph, Operation, reads
from sardonyx.infer import infer
from sardonyx.ops.registry import INTERNAL
from sardonyx.resolve.quantised import (
    DOMAINS,
    Quantised,
    Rewriter,
    dequantized,
    parameters,
    quantised_number,
    type_of,
)
from sardonyx.types import Array, TensorType

Reading: TypeAlias = Literal["integer", "float"]
MOVES = {
    # operator: the input whose elements it moves; None for all of them
    "Concat": None, "DepthToSpace": 0, "Expand": 0, "Flatten": 0, "Gather": 0, "GlobalMaxPool": 0,
    "Identity": 0, "MaxPool": 0, "Reshape": 0, "Slice": 0, "SpaceToDepth": 0, "Squeeze": 0,
    "Tile": 0, "Transpose": 0, "Unsqueeze": 0,
}  # fmt: skip
BYTE = 255 * 255  # the largest magnitude of a product of two differences of 8-bit numbers
LARGEST = 2**31 - 1
TIGHT = 2.0**-20  # how far, relatively, the scale of a bias may be from sx * sw


def integer_islands(graph: Graph) -> Graph:
    """The graph with its islands rewritten, inferred again; the same graph if it has none."""
    found = _rewritten(graph, {}, {})
    return graph if found is graph else infer(found)


def _rewritten(graph: Graph, outer: Mapping[str, Array], around: Mapping[str, TensorType]) -> Graph:
    """The graph with its islands and those of its subgraphs rewritten; `outer` are the constants of
    the graphs around it, `around` the types there."""
    constants, seen = {**outer, **graph.values, **graph.initializers}, {**around, **graph.types}
    constants = {n: v for n, v in constants.items() if n not in graph.overridable}
    inner = [_inside(op, constants, seen) for op in graph.operations]
    r = Rewriter(graph, graph.producers(), graph.consumers(), constants, seen)
    for index, op in enumerate(graph.operations):
        if op.op_type == "QuantizeLinear" and op.domain in DOMAINS:
            _island(r, index, op)
    if not r.replaced and all(a is b for a, b in zip(inner, graph.operations, strict=True)):
        return graph
    operations = [made for i, op in enumerate(inner) for made in r.replaced.get(i, [op])]
    kept = _alive(operations, graph.outputs)
    read = {name for op in kept for name in reads(op)}
    new = {n: v for n, v in r.made.items() if n in read}
    names = {*graph.inputs, *graph.overridable, *graph.initializers, *new}
    names |= {o for op in kept for o in op.outputs}
    types = {**graph.types, **{n: kind for n, v in new.items() if (kind := type_of(v))}}
    return replace(
        graph,
        operations=tuple(kept),
        initializers={**graph.initializers, **new},
        types={n: tt for n, tt in types.items() if n in names},
        declared={n: tt for n, tt in graph.declared.items() if n in names},
        values={n: v for n, v in graph.values.items() if n in names},
    )


def _inside(
    op: Operation, constants: Mapping[str, Array], seen: Mapping[str, TensorType]
) -> Operation:
    """The operation with its subgraphs rewritten; the same one if they have no islands."""
    found = {name: _rewritten(sub, constants, seen) for name, sub in op.subgraphs.items()}
    same = all(found[name] is sub for name, sub in op.subgraphs.items())
    return op if same else replace(op, subgraphs=found)


def _alive(operations: Sequence[Operation], outputs: Sequence[str]) -> list[Operation]:
    """The operations without DequantizeLinear whose result nothing reads any more."""
    read = {name for op in operations for name in reads(op)} | set(outputs)
    return [op for op in operations if op.op_type != "DequantizeLinear" or read & set(op.outputs)]


def _island(r: Rewriter, index: int, quantize: Operation) -> None:
    """Rewrites the island that ends in a QuantizeLinear, if it is one."""
    y = parameters(r, quantize, quantize.outputs[0])
    if y is None or y.axis is not None:
        return
    inner = quantize.inputs[0]
    last = r.operation(inner)
    if last is None or not r.only_here(inner):
        return
    bounds: Operation | None = None
    core = last
    if last.op_type in ("Relu", "Clip") and not last.domain:
        before = r.operation(last.inputs[0])
        if before is not None and before.op_type in SUMS and r.only_here(last.inputs[0]):
            bounds, core = last, before
    made = _core(r, core, quantize, y, bounds)
    if made is None:
        return
    r.replaced[index] = made
    for gone in filter(None, (core, bounds)):
        r.replaced[r.producers[gone.outputs[0]]] = []


def _core(
    r: Rewriter, op: Operation, quantize: Operation, y: Quantised, bounds: Operation | None
) -> list[Operation] | None:
    """The operations that stand for the island around op."""
    if op.domain or not op.inputs or len([o for o in op.outputs if o]) != 1:
        return None
    if op.op_type in SUMS:
        found = SUMS[op.op_type](r, op, y)
        if found is None:
            return None
        inputs, attributes = found
        limited = None if bounds is None else _limits(r, bounds, y)
        if bounds is not None and limited is None:
            return None
        name = y.name if bounds is None else f"{y.name}.unbounded"
        first = _made(op, f"Q{op.op_type}", inputs, name, attributes)
        return [first, *_bounded(bounds, limited, name, y)]
    x = dequantized(r, op.inputs[0])
    if x is None or not x.same_as(y):
        return None
    if op.op_type in ("Relu", "Clip"):
        limited = _limits(r, op, y)
        return None if limited is None else _bounded(op, limited, x.name, y)
    return _moved(r, op, y) if op.op_type in MOVES else None


def _made(
    op: Operation,
    op_type: str,
    inputs: Sequence[str],
    output: str,
    attributes: Mapping[str, object],
) -> Operation:
    return Operation(op_type, INTERNAL, 1, tuple(inputs), (output,), attributes, op.origin)


def _moved(r: Rewriter, op: Operation, y: Quantised) -> list[Operation] | None:
    """The same operation on the integers."""
    only = MOVES[op.op_type]
    inputs = list(op.inputs)
    for i in range(len(inputs)) if only is None else (only,):
        x = dequantized(r, inputs[i])
        if x is None or not x.same_as(y):
            return None
        inputs[i] = x.name
    return [replace(op, inputs=tuple(inputs), outputs=(y.name,))]


def _bounded(
    op: Operation | None, limits: Sequence[str] | None, x: str, y: Quantised
) -> list[Operation]:
    """The operation on integers that a Relu or Clip is."""
    if op is None or limits is None:
        return []
    return [_made(op, f"Q{op.op_type}", (x, *limits), y.name, {})]


def _limits(r: Rewriter, op: Operation, y: Quantised) -> list[str] | None:
    """The quantised bounds of a Relu or Clip: its further inputs as an integer operation."""
    if op.op_type == "Relu":
        return [y.zero_name]
    found = []
    for position, attribute in ((1, "min"), (2, "max")):
        given = op.inputs[position] if position < len(op.inputs) else ""
        value = r.constant(given) if given else op.attributes.get(attribute)
        if given and (value is None or np.isnan(np.asarray(value, np.float64)).any()):
            return None
        if value is None:
            found.append("")
            continue
        bound = np.asarray(value, np.float32).reshape(())
        found.append(r.new("bound", quantised_number(bound, y)))
    return found


Parts: TypeAlias = tuple[list[str], Mapping[str, object]]


def _conv(r: Rewriter, op: Operation, y: Quantised) -> Parts | None:
    """Weights per tensor or per output channel."""
    x, w = (dequantized(r, name) for name in op.inputs[:2])
    if x is None or w is None or x.axis is not None or w.axis not in (None, 0):
        return None
    shape = _fixed(r, w.name)
    if shape is None:
        return None
    bias = _bias(r, op, x, w, prod(shape[1:]))
    return None if bias is None else ([*_triples(x, w), *_step(y), *bias], op.attributes)


def _gemm(r: Rewriter, op: Operation, y: Quantised) -> Parts | None:
    """alpha = beta = 1, a bias for each column."""
    attributes = dict(op.attributes)
    if attributes.pop("alpha", 1.0) != 1 or attributes.pop("beta", 1.0) != 1:
        return None
    x, w = (dequantized(r, name) for name in op.inputs[:2])
    if x is None or w is None or x.axis is not None:
        return None
    shape, column = _fixed(r, w.name), 0 if attributes.get("transB") else 1
    if shape is None or w.axis not in (None, column):
        return None
    bias = _bias(r, op, x, w, shape[1 - column])
    if bias is None:
        return None
    return [*_triples(x, w), *(bias or [""]), *_step(y)], attributes


def _matmul(r: Rewriter, op: Operation, y: Quantised) -> Parts | None:
    """The right factor per tensor, or per column where it is a matrix."""
    x, w = (dequantized(r, name) for name in op.inputs[:2])
    if x is None or w is None or x.axis is not None:
        return None
    known = _shape(r, w.name)
    if not known or (w.axis is not None and (w.axis != 1 or len(known) != 2)):
        return None
    depth = known[max(len(known) - 2, 0)]
    if not isinstance(depth, int) or depth * BYTE > LARGEST:
        return None
    return [*_triples(x, w), *_step(y)], {}


def _mul(r: Rewriter, op: Operation, y: Quantised) -> Parts | None:
    a, b = (dequantized(r, name) for name in op.inputs[:2])
    if a is None or b is None or a.axis is not None or b.axis is not None:
        return None
    return [*_triples(a, b), *_step(y)], {}


def _average_pool(r: Rewriter, op: Operation, y: Quantised) -> Parts | None:
    x = dequantized(r, op.inputs[0])
    attributes = {n: v for n, v in op.attributes.items() if n != "dilations"}
    wide = any(d != 1 for d in op.attributes.get("dilations") or ())
    if x is None or x.axis is not None or wide:
        return None
    if prod(op.attributes.get("kernel_shape", ())) * 255 > LARGEST:
        return None
    return [x.name, x.scale_name, x.zero_name, *_step(y)], attributes


def _global_average_pool(r: Rewriter, op: Operation, y: Quantised) -> Parts | None:
    x = dequantized(r, op.inputs[0])
    if x is None or x.axis is not None:
        return None
    places = (_shape(r, x.name) or ())[2:]
    if not all(isinstance(d, int) for d in places):
        return None
    if prod(d for d in places if isinstance(d, int)) * 255 > LARGEST:
        return None
    return [x.name, x.scale_name, x.zero_name, *_step(y)], {}


SUMS: Mapping[str, Callable[[Rewriter, Operation, Quantised], Parts | None]] = {
    "AveragePool": _average_pool,
    "Conv": _conv,
    "Gemm": _gemm,
    "GlobalAveragePool": _global_average_pool,
    "MatMul": _matmul,
    "Mul": _mul,
}


def _triples(*xs: Quantised) -> Iterator[str]:
    for x in xs:
        yield from (x.name, x.scale_name, x.zero_name)


def _step(y: Quantised) -> tuple[str, str]:
    return y.scale_name, y.zero_name


def _shape(r: Rewriter, name: str) -> tuple[Dim, ...] | None:
    known = r.types.get(name)
    return None if known is None else known.shape


def _fixed(r: Rewriter, name: str) -> tuple[int, ...] | None:
    """The shape of a tensor if it is all numbers."""
    shape = _shape(r, name)
    found = tuple(d for d in shape or () if isinstance(d, int))
    return found if shape is not None and len(found) == len(shape) else None


def _bias(r: Rewriter, op: Operation, x: Quantised, w: Quantised, depth: int) -> list[str] | None:
    """[the int32 bias], or [] without one; None where it is no exact int32 of scale sx * sw, or
    where a sum of `depth` products and it could overflow."""
    given = op.inputs[2] if len(op.inputs) > 2 else ""
    if not given:
        return [] if depth * BYTE <= LARGEST else None
    b = dequantized(r, given, 32)
    value = None if b is None else r.constant(b.name)
    if b is None or value is None or value.dtype != np.int32 or b.zero.any() or value.ndim != 1:
        return None
    wanted = x.scale.reshape(()).astype(np.float64) * w.scale.reshape(-1)
    apart = np.abs(b.scale.reshape(-1) / wanted - 1)
    largest = depth * BYTE + int(np.abs(value.astype(np.int64)).max(initial=0))
    fits = b.scale.size in (1, value.size) and largest <= LARGEST
    return [b.name] if fits and apart.max(initial=0) < TIGHT else None
