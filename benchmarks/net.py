"""A graph under construction, with seeded random weights that keep activations near 1.

net = Net()
y = net.conv("x", 3, 16, 3)
model = net.model({"x": [1, 3, 32, 32]}, {y: [1, 16, 32, 32]})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Net:
    """Nodes and weights; each method adds some and gives the name of what they compute."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def op(self, kind: str, *given: str, **attributes: Any) -> str:
        """One node."""
        return self.ops(kind, *given, count=1, **attributes)[0]

    def ops(self, kind: str, *given: str, count: int, **attributes: Any) -> list[str]:
        """One node with several outputs."""
        names = [f"t{len(self.nodes)}" + (f"_{i}" if i else "") for i in range(count)]
        self.nodes.append(helper.make_node(kind, given, names, f"n{len(self.nodes)}", **attributes))
        return names

    def weight(self, value: Any) -> str:
        """An initializer."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def ints(self, *values: int) -> str:
        """A vector of int64."""
        return self.weight(np.array(values, np.int64))

    def scalar(self, value: float) -> str:
        """A float32."""
        return self.weight(np.float32(value))

    def normal(self, shape: Sequence[int], scale: float) -> np.ndarray:
        """Normal float32 numbers."""
        return (scale * self.random.standard_normal(shape)).astype(np.float32)

    def linear(self, x: str, rows: int, columns: int) -> str:
        """x @ w + b."""
        w = self.weight(self.normal((rows, columns), rows**-0.5))
        return self.op("Add", self.op("MatMul", x, w), self.weight(self.normal((columns,), 0.1)))

    def conv(
        self, x: str, channels: int, filters: int, kernel: int, *, stride: int = 1, group: int = 1
    ) -> str:
        """A convolution that keeps the size (divided by the stride), then BatchNormalization."""
        terms = channels // group * kernel * kernel
        w = self.weight(self.normal((filters, channels // group, kernel, kernel), terms**-0.5))
        y = self.op(
            "Conv", x, w, pads=[kernel // 2] * 4, strides=[stride] * 2, group=group
        )  # fmt: skip
        scale, variance = (
            self.weight(self.random.uniform(0.8, 1.2, filters).astype("f")) for _ in "sv"
        )
        bias, mean = (self.weight(self.normal((filters,), 0.1)) for _ in "bm")
        return self.op("BatchNormalization", y, scale, bias, mean, variance)

    def pooled(self, x: str, channels: int, classes: int) -> str:
        """The mean over the picture, then a linear layer."""
        mean = self.op("GlobalAveragePool", x)
        return self.linear(self.op("Flatten", mean), channels, classes)

    def model(
        self,
        inputs: Mapping[str, Sequence[int]],
        outputs: Mapping[str, Sequence[int] | None],
        kinds: Mapping[str, int] | None = None,
        **opsets: int,
    ) -> onnx.ModelProto:
        """The model; names -> shapes; outputs of None are as ONNX infers them; kinds: of what is
        not float32; opsets: of ai_onnx_ml."""
        kinds = kinds or {}
        given, results = (
            [
                helper.make_empty_tensor_value_info(n)
                if s is None
                else helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), s)
                for n, s in x
            ]
            for x in (inputs.items(), outputs.items())
        )
        graph = helper.make_graph(self.nodes, "net", given, results, self.weights)
        used = {"": 18} | {n.replace("_", "."): v for n, v in opsets.items()}
        imports = [helper.make_opsetid(n, v) for n, v in used.items()]
        model = helper.make_model(graph, opset_imports=imports, ir_version=9)
        inferred = None in outputs.values()
        return onnx.shape_inference.infer_shapes(model, data_prop=True) if inferred else model
