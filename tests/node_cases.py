"""ONNX's node test vectors, run on single operations: lowered, interpreted, compared."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx.backend.test.case.test_case import TestCase

from sardonyx import types as t
from sardonyx.kernel.build import Tensor, operand
from sardonyx.kernel.interpret import evaluate
from sardonyx.kernel.verify import settle
from sardonyx.ops.registry import find, lower
from sardonyx.types import Array


@cache
def all_cases() -> tuple[TestCase, ...]:
    """Every node case of the installed onnx package."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(load_model_tests(kind="node"))


def cases(*op_types: str) -> Iterator[TestCase]:
    """The cases of one node each whose operator is in op_types."""
    for case in all_cases():
        nodes = case.model.graph.node
        if len(nodes) == 1 and nodes[0].op_type in op_types and not nodes[0].domain:
            yield case


def since(node: onnx.NodeProto, model: onnx.ModelProto) -> int:
    """The operator version that a node of this model means."""
    opset = next(o.version for o in model.opset_import if o.domain == node.domain)
    return onnx.defs.get_schema(node.op_type, opset, node.domain).since_version


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes as an operator definition takes them."""

    def plain(value: Any) -> Any:
        if isinstance(value, bytes):
            return value.decode()
        if isinstance(value, list):
            return [plain(v) for v in value]
        if isinstance(value, onnx.TensorProto):
            return onnx.numpy_helper.to_array(value)
        return value

    return {a.name: plain(onnx.helper.get_attribute_value(a)) for a in node.attribute}


def array(x: Any) -> Array:
    return onnx.numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else np.asarray(x)


def run_node(node: onnx.NodeProto, version: int, feeds: list[Array | None]) -> list[Array]:
    """The outputs of one operation by the interpreter, its kernel verified."""
    op = find(node.domain, node.op_type, version)
    assert op is not None, f"{node.op_type}-{version} is not defined"
    operands = [None if x is None else _operand(f"x{i}", x) for i, x in enumerate(feeds)]
    kernel, _ = settle(lower(op, operands, attributes(node), [bool(o) for o in node.output]))
    return evaluate(kernel, feeds)


def _operand(name: str, x: Array) -> Tensor:
    dtype = t.by_numpy(x.dtype)
    assert dtype is not None, f"{x.dtype} is not a dtype of Sardonyx"
    return operand(name, dtype, x.shape, x)


def check(case: TestCase) -> None:
    """Asserts that a single-node case gives its stored outputs."""
    (node,) = case.model.graph.node
    for stored_inputs, stored_outputs in case.data_sets:
        named = dict(zip((i.name for i in case.model.graph.input), stored_inputs, strict=True))
        feeds = [array(named[i]) if i else None for i in node.input]
        found = run_node(node, since(node, case.model), feeds)
        for got, want in zip(found, map(array, stored_outputs), strict=True):
            assert got.shape == want.shape
            assert got.dtype == want.dtype
            wide = (lambda a: a.astype(np.float32)) if got.dtype.kind == "V" else np.asarray
            np.testing.assert_allclose(wide(got), wide(want), rtol=case.rtol, atol=case.atol)
