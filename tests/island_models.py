"""Small quantised networks for tests of islands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, helper

from sardonyx.engines import make_engine
from sardonyx.graph import Graph
from sardonyx.resolve import graph_from_nodes
from sardonyx.types import Array, TensorType, by_numpy

RANDOM = np.random.default_rng(11)
DIGITS = Path(__file__).parents[1] / "examples" / "digits"


@pytest.fixture(autouse=True)
def again() -> None:
    """Each test draws the same numbers, whatever others drew before."""
    RANDOM.bit_generator.state = np.random.default_rng(11).bit_generator.state


def byte(dtype: Any, *shape: int) -> Array:
    info = np.iinfo(dtype)
    return RANDOM.integers(info.min, info.max + 1, shape).astype(dtype)


class Model:
    """Nodes and constants of a small quantised network with the integer input x."""

    def __init__(self, x: Array) -> None:
        self.x = x
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, Array] = {}

    def constant(self, name: str, value: Any, dtype: Any = np.float32) -> str:
        self.constants[name] = np.asarray(value, dtype)
        return name

    def real(self, name: str, scale: Any, zero: Any, **attributes: Any) -> str:
        """A tensor dequantised; `zero` carries its type."""
        inputs = [name, self.constant(f"{name}_s", scale), self.constant(f"{name}_z", zero, None)]
        self.nodes.append(helper.make_node("DequantizeLinear", inputs, [f"{name}_r"], **attributes))
        return f"{name}_r"

    def add(self, op: str, inputs: Sequence[str], output: str = "r", **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def finish(self, name: str, scale: Any, zero: Any) -> Model:
        inputs = [name, self.constant("y_s", scale), self.constant("y_z", zero, None)]
        self.nodes.append(helper.make_node("QuantizeLinear", inputs, ["y"]))
        return self

    def graph(self, qdq: Any = "integer") -> Graph:
        dtype = by_numpy(self.x.dtype)
        assert dtype is not None
        types = {"x": TensorType(dtype, self.x.shape)}
        return graph_from_nodes(
            self.nodes, self.constants, types=types, opsets={"": 21}, qdq=qdq, outputs=["y"]
        )

    def run(self, qdq: Any = "integer", engine: Any = "machine") -> Array:
        return make_engine(self.graph(qdq), engine).run({"x": self.x})["y"]


def operators(graph: Graph) -> list[str]:
    return [op.op_type for op in graph.operations]


def rescaled(total: Array, sx_: Any, sw: Any, sy: Any, zero: Any) -> Array:
    """The contract's words: one multiply by float32(float32(sx * sw) / sy), half to even."""
    factor = (np.float32(sx_) * np.float32(sw)).astype(np.float32) / np.float32(sy)
    whole = np.rint(total.astype(np.int32).astype(np.float32) * factor).astype(np.float32)
    info = np.iinfo(zero.dtype)
    return np.clip(whole + np.float32(zero), info.min, info.max).astype(zero.dtype)


def check(model: Model, expected: Array, op: str) -> None:
    """The integer reading is `op` alone, gives what is expected, and native gives its bytes."""
    graph = model.graph()
    assert operators(graph) == [op]
    for engine in ("machine", "native"):
        found = make_engine(graph, engine).run({"x": model.x})["y"]
        np.testing.assert_array_equal(found, expected)
    literal = model.run("float")
    apart = np.abs(literal.astype(int) - expected.astype(int))
    assert apart.max(initial=0) <= 1
    assert (apart != 0).sum() <= max(1, apart.size // 200)


def matmul(x: Array, scale: float = 0.05, zero: Any = np.uint8(9)) -> Model:  # noqa: B008  # a number
    m = Model(x)
    m.constants["w"] = byte(np.int8, x.shape[1], 3)
    m.add("MatMul", [m.real("x", 0.02, x.dtype.type(9)), m.real("w", scale, np.int8(0))])
    return m.finish("r", 0.7, zero)
