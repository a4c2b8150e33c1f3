"""Single operations, run by the interpreter, by onnxruntime, or lowered, for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import node_cases
import numpy as np
import onnx
import pytest
from onnx import helper

from sardonyx import types as t
from sardonyx.kernel.build import Tensor, concrete, operand
from sardonyx.kernel.ir import Kernel
from sardonyx.ops.registry import find, lower
from sardonyx.types import Array

RANDOM = np.random.default_rng(7)


def version(op_type: str, opset: int) -> int:
    return onnx.defs.get_schema(op_type, opset, "").since_version


def run(op_type: str, *feeds: Any, opset: int = 22, outputs: int = 1, **attributes: Any) -> Any:
    """The output, or the list of outputs, of one operation by the interpreter."""
    arrays = [None if x is None else np.asarray(x) for x in feeds]
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(arrays)]
    node = onnx.helper.make_node(op_type, names, [f"y{i}" for i in range(outputs)], **attributes)
    found = node_cases.run_node(node, version(op_type, opset), arrays)
    return found[0] if outputs == 1 else found


def lowered(
    op_type: str, *operands: Any, opset: int = 22, outputs: int = 1, **attributes: Any
) -> Kernel:
    """The kernel for operands given as shapes (tuples), known sizes (lists) or values (arrays)."""
    op = find("", op_type, version(op_type, opset))
    assert op is not None
    return lower(
        op, [as_operand(i, x) for i, x in enumerate(operands)], attributes, [True] * outputs
    )


def as_operand(i: int, x: Any) -> Tensor | None:
    match x:
        case None:
            return None
        case tuple():
            return operand(f"x{i}", t.float32, x)
        case list():
            value = concrete(x)
            return operand(f"x{i}", t.int64, value.shape, value)
    dtype = t.by_numpy(x.dtype)
    assert dtype is not None
    return operand(f"x{i}", dtype, x.shape, x)


def normal(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def reference(node: onnx.NodeProto, feeds: Sequence[Array | None], opset: int) -> list[Array]:
    """The outputs of onnxruntime."""
    ort = pytest.importorskip("onnxruntime")
    given = {n: np.asarray(x) for n, x in zip(node.input, feeds, strict=True) if x is not None}
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in given.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(o) for o in node.output]
    graph = helper.make_graph([node], "one", inputs, outputs)
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, given))


def compare(
    op: str, *feeds: Any, opset: int = 21, outputs: int = 1, tolerance: float = 1e-5, **given: Any
) -> None:
    """Asserts that an operation agrees with onnxruntime."""
    arrays = [None if x is None else np.asarray(x) for x in feeds]
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(arrays)]
    node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], **given)
    version = onnx.defs.get_schema(op, opset, "").since_version
    found = node_cases.run_node(node, version, arrays)
    for ours, theirs in zip(found, reference(node, arrays, opset), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
