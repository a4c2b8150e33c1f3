"""QDQ islands: DequantizeLinear -> operator -> QuantizeLinear as one integer operation.

    graph = integer_islands(graph)

An island is rewritten where its integer definition (ops/integer.py, docs/numerics.md) is exact: the
scales and zero points are constants, the integers have 8 bits, no int32 sum can overflow, a bias is
an int32 of scale sx * sw. What else a graph holds stays as it is, and reads as it is written.
A sum of products without a QuantizeLinear behind it becomes a float of its integer sum.
Between the operator and QuantizeLinear a Relu or Clip may stand; an operator that only moves
elements (or takes maxima) passes through, behind a requantisation where the two sides have other
scales. A DequantizeLinear may have other readers, and may stand outside of the body that reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from sardonyx.graph import Graph, Operation, reads
from sardonyx.infer import infer
from sardonyx.ops.registry import INTERNAL
from sardonyx.resolve.island_forms import FORMS, SUMS
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

MOVES = {
    # operator: the input whose elements it moves; None for all of them
    "Concat": None, "DepthToSpace": 0, "Expand": 0, "Flatten": 0, "Gather": 0, "GatherElements": 0,
    "GatherND": 0, "GlobalMaxPool": 0, "Identity": 0, "MaxPool": 0, "Pad": 0, "Reshape": 0,
    "Resize": 0, "Slice": 0, "SpaceToDepth": 0, "Squeeze": 0, "Tile": 0, "Transpose": 0,
    "Unsqueeze": 0,
}  # fmt: skip
Outside: TypeAlias = Mapping[str, Operation]  # the DequantizeLinear around a body, by result


def integer_islands(graph: Graph) -> Graph:
    """The graph with its islands rewritten, inferred again; the same graph if it has none."""
    found = _rewritten(graph, {}, {}, {})
    return graph if found is graph else infer(found)


def _rewritten(
    graph: Graph, outer: Mapping[str, Array], around: Mapping[str, TensorType], outside: Outside
) -> Graph:
    """The graph with its islands and those of its subgraphs rewritten; `outer` are the constants of
    the graphs around it, `around` the types there."""
    constants, seen = {**outer, **graph.values, **graph.initializers}, {**around, **graph.types}
    constants = {n: v for n, v in constants.items() if n not in graph.overridable}
    known = _visible(graph, outside)
    inner = [_inside(op, constants, seen, known) for op in graph.operations]
    r = Rewriter(graph, graph.producers(), graph.consumers(), constants, seen, known)
    for index, op in enumerate(graph.operations):
        if op.op_type == "QuantizeLinear" and op.domain in DOMAINS:
            _island(r, index, op)
        elif op.op_type == "Split" and not op.domain:
            _split(r, index, op)
    for index, op in enumerate(graph.operations):
        if index not in r.replaced and op.op_type in SUMS and not op.domain:
            _float_of_sums(r, index, op)
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


def _visible(graph: Graph, outside: Outside) -> Outside:
    """The DequantizeLinear that a graph and the bodies in it see."""
    own = {*graph.inputs, *graph.overridable, *graph.initializers, *graph.producers()}
    around = {n: op for n, op in outside.items() if not own & {n, *op.inputs}}
    here = {
        op.outputs[0]: op
        for op in graph.operations
        if op.op_type == "DequantizeLinear" and op.domain in DOMAINS
    }
    return {**around, **here}


def _inside(
    op: Operation,
    constants: Mapping[str, Array],
    seen: Mapping[str, TensorType],
    outside: Outside,
) -> Operation:
    """The operation with its subgraphs rewritten; the same one if they have no islands."""
    found = {name: _rewritten(sub, constants, seen, outside) for name, sub in op.subgraphs.items()}
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
        if before is not None and before.op_type in FORMS and r.only_here(last.inputs[0]):
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
    if op.op_type in FORMS:
        found = FORMS[op.op_type](r, op, y)
        limited = [] if bounds is None else _limits(r, bounds, y)
        if found is None or limited is None:
            return None
        kind, inputs, attributes = found
        name = y.name if bounds is None else r.unused(f"{y.name}.unbounded")
        return [_made(op, kind, inputs, name, attributes), *_bounded(bounds, limited, name, y)]
    if op.op_type in ("Relu", "Clip"):
        x, limited = dequantized(r, op.inputs[0]), _limits(r, op, y)
        if x is None or x.axis is not None or limited is None:
            return None
        before, name = _rescaled(r, op, x, y, 0)
        return [*before, *_bounded(op, limited, name, y)]
    return _moved(r, op, y) if op.op_type in MOVES else None


def _float_of_sums(r: Rewriter, index: int, op: Operation) -> None:
    """Rewrites a sum of products of quantised tensors whose result stays a float."""
    found = SUMS[op.op_type](r, op, None)
    if found is not None:
        kind, inputs, attributes = found
        r.replaced[index] = [_made(op, kind, inputs, op.outputs[0], attributes)]


def _made(
    op: Operation,
    op_type: str,
    inputs: Sequence[str],
    output: str,
    attributes: Mapping[str, object],
) -> Operation:
    return Operation(op_type, INTERNAL, 1, tuple(inputs), (output,), attributes, op.origin)


def _moved(r: Rewriter, op: Operation, y: Quantised) -> list[Operation] | None:
    """The same operation on the integers, requantised first where they have another scale."""
    only, before = MOVES[op.op_type], list[Operation]()
    inputs = list(op.inputs)
    for i in range(len(inputs)) if only is None else (only,):
        x = dequantized(r, inputs[i])
        if x is None or x.axis is not None:
            return None
        rescaling, inputs[i] = _rescaled(r, op, x, y, i)
        before += rescaling
    if op.op_type == "Pad" and not _pads(r, op, y, inputs):
        return None
    if op.op_type == "Resize" and not _is_nearest(op):
        return None
    return [*before, replace(op, inputs=tuple(inputs), outputs=(y.name,))]


def _rescaled(
    r: Rewriter, op: Operation, x: Quantised, y: Quantised, i: int
) -> tuple[list[Operation], str]:
    """What gives operand i of an operation the scale of y, and its name then."""
    if x.same_as(y):
        return [], x.name
    name = r.unused(f"{y.name}.operand{i}")
    return [_made(op, "QIdentity", _five(x, y), name, {})], name


def _five(x: Quantised, y: Quantised) -> tuple[str, ...]:
    """The inputs of a function of one number."""
    return x.name, x.scale_name, x.zero_name, y.scale_name, y.zero_name


def _pads(r: Rewriter, op: Operation, y: Quantised, inputs: list[str]) -> bool:
    """Puts the quantised number into the inputs of a Pad, if it is known."""
    if op.since < 11:
        return False
    if op.attributes.get("mode", "constant") != "constant":
        return True
    given = inputs[2] if len(inputs) > 2 else ""
    value = r.constant(given) if given else np.float32(0)
    if value is None or value.size != 1 or np.isnan(value).any():
        return False
    inputs += [""] * (3 - len(inputs))
    inputs[2] = r.new("bound", quantised_number(np.asarray(value, np.float32).reshape(()), y))
    return True


def _is_nearest(op: Operation) -> bool:
    """Whether a Resize copies elements; one that crops fills in a float."""
    crops = op.attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    mode = op.attributes.get("mode", "nearest")
    return mode in ("nearest", b"nearest") and not crops and not op.attributes.get("antialias")


def _split(r: Rewriter, index: int, op: Operation) -> None:
    """Rewrites a Split that is an island with each of its QuantizeLinear."""
    x = dequantized(r, op.inputs[0])
    names = [o for o in op.outputs if o]
    if x is None or x.axis is not None or not all(r.only_here(o) for o in names):
        return
    readers = [r.consumers[o][0] for o in names]
    made: list[Operation] = []
    parts = []
    for at in readers:
        quantize = r.graph.operations[at]
        if quantize.op_type != "QuantizeLinear" or quantize.domain not in DOMAINS:
            return
        y = parameters(r, quantize, quantize.outputs[0])
        if y is None or y.axis is not None:
            return
        same = x.same_as(y)
        parts.append(y.name if same else r.unused(f"{y.name}.part"))
        if not same:
            part = replace(x, name=parts[-1])
            made.append(_made(quantize, "QIdentity", _five(part, y), y.name, {}))
    known = iter(parts)
    outputs = tuple(next(known) if o else "" for o in op.outputs)
    inputs = (x.name, *op.inputs[1:])
    r.replaced[index] = [replace(op, inputs=inputs, outputs=outputs), *made]
    r.replaced |= {at: [] for at in readers}


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
