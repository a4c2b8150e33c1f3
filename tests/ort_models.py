"""Small models for tests of sardonyx.ort, and what a call gives: its result or its error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper

X = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)
F, I = TensorProto.FLOAT, TensorProto.INT64  # noqa: E741  # FLOAT and INT64


def model(
    op: str = "Relu", dtype: int = F, shape: Any = ("N", 3), domain: str = "", **fields: Any
) -> ModelProto:
    infos = [helper.make_tensor_value_info(n, dtype, shape) for n in "xy"]
    node = helper.make_node(op, ["x"], ["y"], domain=domain)
    graph = helper.make_graph([node], "g", infos[:1], infos[1:])
    return helper.make_model(graph, ir_version=10, opset_imports=[opset(21)], **fields)


def opset(version: int) -> Any:
    return helper.make_opsetid("", version)


def two_inputs(op: str, *shapes: tuple[int, ...], second: int = F) -> bytes:
    infos = [
        helper.make_tensor_value_info(n, t, s)
        for n, t, s in zip("abc", (F, second, F), shapes, strict=True)
    ]
    graph = helper.make_graph([helper.make_node(op, ["a", "b"], ["c"])], "g", infos[:2], infos[2:])
    made = helper.make_model(graph, ir_version=10, opset_imports=[opset(21)])
    return bytes(made.SerializeToString())


RELU = model().SerializeToString()
INTS = model("Identity", I).SerializeToString()


def outcome(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception as error:
        return error


def assert_same_outcome(found: Any, expected: Any, words: str | None = None) -> None:
    """Equal values; or an error of the same class that begins with the same words."""
    if not isinstance(expected, Exception):
        np.testing.assert_equal(found, expected)
        return
    assert isinstance(found, Exception), f"onnxruntime raises {expected!r}"
    builtin = type(expected).__module__ == "builtins"
    if builtin:
        assert isinstance(found, type(expected))
    else:
        assert type(found).__name__ == type(expected).__name__
    assert str(found).startswith(words if words is not None else str(expected).rstrip())
