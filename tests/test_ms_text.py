"""Tokenizer of com.microsoft: the tokens that onnxruntime gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from sardonyx.errors import InvalidModel, RunError
from sardonyx.loading import load
from sardonyx.machine import Machine

TEXTS = ["good bad movie", "  a  bb ccc, dd;eee ", "", "é ü-x ééé", "a,b,,c", "aXbXc", "...", "ab1"]
WAYS: list[dict[str, Any]] = [
    {"tokenexp": "[a-zA-Z0-9_]+"},
    {"tokenexp": r"\w\w+"},
    {"tokenexp": "a*"},
    {"tokenexp": "é+"},
    {"tokenexp": "^a|b$"},
    {"separators": [" "]},
    {"separators": [" ", ","]},
    {"separators": [r"\s+", "X", "b"]},
    {"separators": [""]},
]


def model(shape: tuple[int, ...], mark: int = 0, mincharnum: int = 1, **more: Any) -> Any:
    attributes = {"mark": mark, "mincharnum": mincharnum, "pad_value": "#", **more}
    node = helper.make_node("Tokenizer", ["x"], ["y"], domain="com.microsoft", **attributes)
    x = helper.make_tensor_value_info("x", TensorProto.STRING, shape)
    y = helper.make_tensor_value_info("y", TensorProto.STRING, None)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "g", [x], [y])
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def theirs(proto: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("mark", [0, 1])
def test_the_tokens_are_those_of_onnxruntime(way: dict[str, Any], mark: int) -> None:
    for shape in ((8,), (2, 4), (1,), (0,), (2, 0)):
        for least in (1,) if way == {"separators": [""]} else (1, 2, 3):
            x = np.array(TEXTS[-2:-1] if shape == (1,) else TEXTS[: np.prod(shape)], object)
            proto = model(shape, mark, least, **way)
            x = x.reshape(shape)
            found, wanted = Machine(load(proto)).run({"x": x})["y"], theirs(proto, x)
            assert (found.shape, found.tolist()) == (wanted.shape, wanted.tolist())


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({}, "either separators or tokenexp"),
        ({"tokenexp": "a", "separators": ["b"]}, "either separators or tokenexp"),
        ({"tokenexp": "(a"}, "no RE2 pattern"),
        ({"tokenexp": "a", "mincharnum": 0}, "mincharnum is 0"),
        ({"separators": [""], "mincharnum": 2}, "mincharnum is 2"),
        ({"tokenexp": "a", "pad_value": 3}, "pad_value"),
    ],
    ids=str,
)
def test_attributes_that_say_nothing_are_refused(attributes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidModel, match=f"Tokenizer.*{said}"):
        Machine(load(model((1,), **attributes))).run({"x": np.array(["a"], object)})


def test_a_shape_of_three_dimensions_is_refused() -> None:
    proto = model((1, 1, 1), tokenexp="a")
    with pytest.raises(RunError, match=r"Tokenizer.*expected \[C\] or \[N, C\]"):
        Machine(load(proto)).run({"x": np.array([[["a"]]], object)})
