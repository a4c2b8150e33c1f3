"""Islands in whole networks: of onnxruntime's making, in branches, beside what is dynamic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from island_models import DIGITS, again, byte, matmul, operators
from onnx import helper

import sardonyx as sx
from sardonyx.engines import make_engine
from sardonyx.resolve import graph_from_nodes
from sardonyx.types import Array, TensorType, by_numpy

__all__ = ["again"]


def quantised_example(name: str, folder: Path, images: Array, **options: Any) -> Path:
    """examples/digits/`name`.onnx in QDQ form, calibrated on 100 images."""
    quantization = pytest.importorskip("onnxruntime.quantization")

    class Reader(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.batches = iter(np.split(images[:100], 5))

        def get_next(self) -> dict[str, Array] | None:
            batch = next(self.batches, None)
            return None if batch is None else {"image": batch}

    path = folder / f"{name}.onnx"
    form = quantization.QuantFormat.QDQ
    quantization.quantize_static(
        DIGITS / f"{name}.onnx", path, Reader(), quant_format=form, **options
    )
    return path


@pytest.mark.parametrize(("name", "right"), [("digits", 358), ("encoder", 351)])
def test_a_quantised_network_of_onnxruntime_s_making(name: str, right: int, tmp_path: Path) -> None:
    """Both readings are the same bytes on both engines; the float one is onnxruntime's without its
    own rewriting; the integer one differs in 0 of 3,600 scores."""
    ort = pytest.importorskip("onnxruntime")
    data = np.load(DIGITS / "test.npz")
    images = data["images"].astype(np.float32)
    path = quantised_example(name, tmp_path, images, per_channel=True)
    found = {}
    for reading in ("integer", "float"):
        options = sx.SessionOptions()
        options.add_session_config_entry("sardonyx.qdq", reading)
        options.add_session_config_entry("sardonyx.engine", "native")
        found[reading] = sx.InferenceSession(path, options).run(None, {"image": images})[0]
        graph = sx.load(path, qdq=reading)
        machine = make_engine(graph, "machine").run({"image": images[:10]})["scores"]
        assert machine.tobytes() == found[reading][:10].tobytes()
    plain = ort.SessionOptions()
    plain.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    theirs = ort.InferenceSession(path, plain).run(None, {"image": images})[0]
    np.testing.assert_array_equal(found["float"], theirs)
    assert (found["integer"] != found["float"]).sum() == 0
    assert (found["integer"].argmax(1) == data["labels"]).sum() == right


def test_an_unknown_reading_is_refused() -> None:
    options = sx.SessionOptions()
    options.add_session_config_entry("sardonyx.qdq", "exact")
    with pytest.raises(sx.SardonyxError, match="integer, float"):
        sx.InferenceSession(DIGITS / "digits.onnx", options)


def test_islands_in_the_body_of_an_if_are_rewritten_too() -> None:
    m = matmul(byte(np.uint8, 4, 6))
    other = helper.make_node("Identity", ["w2"], ["y2"])
    result = [helper.make_tensor_value_info(n, 2, [4, 3]) for n in ("y", "y2")]
    bodies = {
        "then_branch": helper.make_graph(m.nodes, "then", [], result[:1]),
        "else_branch": helper.make_graph([other], "else", [], result[1:]),
    }
    node = helper.make_node("If", ["c"], ["z"], **bodies)
    uint8, boolean = (by_numpy(np.dtype(d)) for d in (np.uint8, np.bool_))
    assert uint8 is not None
    assert boolean is not None
    types = {"x": TensorType(uint8, (4, 6)), "c": TensorType(boolean, ())}
    constants = {**m.constants, "w2": byte(np.uint8, 4, 3)}
    graph = graph_from_nodes([node], constants, types=types, opsets={"": 21})
    (made,) = graph.operations
    assert operators(made.subgraphs["then_branch"]) == ["QMatMul"]
    for engine in ("machine", "native"):
        feeds = {"x": m.x, "c": np.array(True)}
        found = make_engine(graph, engine).run(feeds)["z"]
        assert found.tobytes() == m.run().tobytes()


def test_an_island_whose_dequantize_linear_lies_outside_of_the_body() -> None:
    m = matmul(byte(np.uint8, 4, 6))
    outer, inner = m.nodes[:2], m.nodes[2:]
    other = helper.make_node("Identity", ["w2"], ["y2"])
    result = [helper.make_tensor_value_info(n, 2, [4, 3]) for n in ("y", "y2")]
    bodies = {
        "then_branch": helper.make_graph(inner, "then", [], result[:1]),
        "else_branch": helper.make_graph([other], "else", [], result[1:]),
    }
    node = helper.make_node("If", ["c"], ["z"], **bodies)
    uint8, boolean = (by_numpy(np.dtype(d)) for d in (np.uint8, np.bool_))
    assert uint8 is not None
    assert boolean is not None
    types = {"x": TensorType(uint8, (4, 6)), "c": TensorType(boolean, ())}
    constants = {**m.constants, "w2": byte(np.uint8, 4, 3)}
    graph = graph_from_nodes([*outer, node], constants, types=types, opsets={"": 21})
    (made,) = graph.operations
    assert operators(made.subgraphs["then_branch"]) == ["QMatMul"]
    for engine in ("machine", "native"):
        feeds = {"x": m.x, "c": np.array(True)}
        found = make_engine(graph, engine).run(feeds)["z"]
        assert found.tobytes() == m.run().tobytes()


def test_dynamic_quantisation_stays_as_it_is() -> None:
    nodes = [
        helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]),
        helper.make_node("MatMulInteger", ["q", "w", "z"], ["i"]),
        helper.make_node("Cast", ["i"], ["f"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "s"], ["y"]),
    ]
    float32 = by_numpy(np.dtype(np.float32))
    assert float32 is not None
    types = {"x": TensorType(float32, (2, 3))}
    graph = graph_from_nodes(nodes, {"w": byte(np.int8, 3, 4)}, types=types, opsets={"": 21})
    assert operators(graph)[-3:] == ["MatMulInteger", "Cast", "Mul"]
