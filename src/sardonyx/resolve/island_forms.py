"""What stands for an operator between DequantizeLinear and QuantizeLinear, or behind the first
alone: the inputs of the integer operation Q... of ops/integer.py, where it is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import TypeAlias

import numpy as np

from sardonyx.dims import Dim
from sardonyx.graph import Operation
from sardonyx.resolve.quantised import Quantised, Rewriter, dequantized

BYTE = 255 * 255  # the largest magnitude of a product of two differences of 8-bit numbers
LARGEST = 2**31 - 1
TIGHT = 2.0**-20  # how far, relatively, the scale of a bias may be from sx * sw

Parts: TypeAlias = tuple[str, list[str], Mapping[str, object]]  # operation, inputs, attributes
Form: TypeAlias = Callable[[Rewriter, Operation, Quantised], Parts | None]
SumForm: TypeAlias = Callable[[Rewriter, Operation, Quantised | None], Parts | None]


def _conv(r: Rewriter, op: Operation, y: Quantised | None) -> Parts | None:
    """Weights per tensor or per output channel."""
    x, w = (dequantized(r, name) for name in op.inputs[:2])
    if x is None or w is None or x.axis is not None or w.axis not in (None, 0):
        return None
    shape = _fixed(r, w.name)
    if shape is None:
        return None
    bias = _bias(r, op, x, w, y, prod(shape[1:]))
    if bias is None:
        return None
    if y is None:
        return "QConvToFloat", [*_triples(x, w), *bias], op.attributes
    return "QConv", [*_triples(x, w), *_step(y), *bias], op.attributes


def _conv_transpose(r: Rewriter, op: Operation, y: Quantised | None) -> Parts | None:
    """Weights per tensor, or without groups per output channel."""
    x, w = (dequantized(r, name) for name in op.inputs[:2])
    groups = op.attributes.get("group", 1)
    if x is None or w is None or x.axis is not None:
        return None
    shape = _fixed(r, w.name)
    if shape is None or (w.axis is not None and (w.axis != 1 or groups != 1)):
        return None
    bias = _bias(r, op, x, w, y, shape[0] // groups * prod(shape[2:]))
    if bias is None:
        return None
    if y is None:
        return "QConvTransposeToFloat", [*_triples(x, w), *bias], op.attributes
    return "QConvTranspose", [*_triples(x, w), *_step(y), *bias], op.attributes


def _gemm(r: Rewriter, op: Operation, y: Quantised | None) -> Parts | None:
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
    bias = _bias(r, op, x, w, y, shape[1 - column])
    if bias is None:
        return None
    if y is None:
        return "QGemmToFloat", [*_triples(x, w), *bias], attributes
    return "QGemm", [*_triples(x, w), *(bias or [""]), *_step(y)], attributes


def _matmul(r: Rewriter, op: Operation, y: Quantised | None) -> Parts | None:
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
    if y is None:
        return "QMatMulToFloat", [*_triples(x, w)], {}
    return "QMatMul", [*_triples(x, w), *_step(y)], {}


def _binary(r: Rewriter, op: Operation, y: Quantised) -> Parts | None:
    """Add, Mul: one scale for each tensor. A Sum of two is an Add."""
    if len(op.inputs) != 2:
        return None
    a, b = (dequantized(r, name) for name in op.inputs)
    if a is None or b is None or a.axis is not None or b.axis is not None:
        return None
    name = "QMul" if op.op_type == "Mul" else "QAdd"
    return name, [*_triples(a, b), *_step(y)], {}


def _unary(r: Rewriter, op: Operation, y: Quantised) -> Parts | None:
    """A function of one number."""
    x = dequantized(r, op.inputs[0])
    if x is None or x.axis is not None:
        return None
    return f"Q{op.op_type}", [*_triples(x), *_step(y)], op.attributes


def _softmax(r: Rewriter, op: Operation, y: Quantised) -> Parts | None:
    """Before operator set 13 over all axes from `axis` on."""
    x = dequantized(r, op.inputs[0])
    if x is None or x.axis is not None:
        return None
    axis = op.attributes.get("axis", -1 if op.since >= 13 else 1)
    return "QSoftmax", [*_triples(x), *_step(y)], {"axis": axis, "opset": op.since}


def _where(r: Rewriter, op: Operation, y: Quantised) -> Parts | None:
    a, b = (dequantized(r, name) for name in op.inputs[1:])
    if a is None or b is None or a.axis is not None or b.axis is not None:
        return None
    return "QWhere", [op.inputs[0], *_triples(a, b), *_step(y)], {}


def _average_pool(r: Rewriter, op: Operation, y: Quantised) -> Parts | None:
    x = dequantized(r, op.inputs[0])
    attributes = {n: v for n, v in op.attributes.items() if n != "dilations"}
    wide = any(d != 1 for d in op.attributes.get("dilations") or ())
    if x is None or x.axis is not None or wide:
        return None
    if prod(op.attributes.get("kernel_shape", ())) * 255 > LARGEST:
        return None
    return "QAveragePool", [*_triples(x), *_step(y)], attributes


def _global_average_pool(r: Rewriter, op: Operation, y: Quantised) -> Parts | None:
    x = dequantized(r, op.inputs[0])
    if x is None or x.axis is not None:
        return None
    places = (_shape(r, x.name) or ())[2:]
    if not all(isinstance(d, int) for d in places):
        return None
    if prod(d for d in places if isinstance(d, int)) * 255 > LARGEST:
        return None
    return "QGlobalAveragePool", [*_triples(x), *_step(y)], {}


SUMS: Mapping[str, SumForm] = {
    "Conv": _conv,
    "ConvTranspose": _conv_transpose,
    "Gemm": _gemm,
    "MatMul": _matmul,
}
FORMS: Mapping[str, Form] = {
    **SUMS,
    "Add": _binary,
    "AveragePool": _average_pool,
    "GlobalAveragePool": _global_average_pool,
    "Mul": _binary,
    "Softmax": _softmax,
    "Sum": _binary,
    "Where": _where,
    **dict.fromkeys(
        ("Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Sigmoid", "Swish", "Tanh"), _unary
    ),
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


def _bias(
    r: Rewriter, op: Operation, x: Quantised, w: Quantised, y: Quantised | None, depth: int
) -> list[str] | None:
    """[the bias], or [] without one: of a result y it is an int32, else a float; None where it is
    no exact int32 of scale sx * sw, or where a sum of `depth` products and it could overflow."""
    given = op.inputs[2] if len(op.inputs) > 2 else ""
    if not given or y is None:
        return ([given] if given else []) if depth * BYTE <= LARGEST else None
    b = dequantized(r, given, 32)
    value = None if b is None else r.constant(b.name)
    if b is None or value is None or value.dtype != np.int32 or b.zero.any() or value.ndim != 1:
        return None
    wanted = x.scale.reshape(()).astype(np.float64) * w.scale.reshape(-1)
    apart = np.abs(b.scale.reshape(-1) / wanted - 1)
    largest = depth * BYTE + int(np.abs(value.astype(np.int64)).max(initial=0))
    fits = b.scale.size in (1, value.size) and largest <= LARGEST
    return [b.name] if fits and apart.max(initial=0) < TIGHT else None
