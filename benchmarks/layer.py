"""One layer as a model of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import helper

from benchmarks.net import Net

Shape = tuple[int, ...]
# The shape of an input (with its type where that is not float32), the value of a weight, or none.
Operand = Shape | tuple[Shape, str] | np.ndarray | None
Made = Callable[[], onnx.ModelProto]


def layer(
    kind: str,
    *given: Operand,
    results: int = 1,
    opset: int = 18,
    shape: Shape | None = None,
    **attributes: Any,
) -> onnx.ModelProto:
    """One node, whose first result is the model's; its shape where ONNX does not infer it."""
    net = Layer()
    names = [net.given(x) for x in given]
    return net.ends(net.ops(kind, *names, count=results, **attributes)[0], opset, shape)


class Layer(Net):
    """A graph that learns its inputs as it is made."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: dict[str, Shape] = {}
        self.kinds: dict[str, int] = {}

    def given(self, x: Operand) -> str:
        """The name of an operand."""
        if isinstance(x, np.ndarray):
            return self.weight(x)
        if x is None:
            return ""
        name = f"x{len(self.shapes)}"
        self.shapes[name], kind = x if isinstance(x[0], tuple) else (x, "float32")
        self.kinds[name] = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        return name

    def ends(self, output: str, opset: int = 18, shape: Shape | None = None) -> onnx.ModelProto:
        """The model."""
        sets = {"": opset} | ({"com_microsoft": 1} if any(n.domain for n in self.nodes) else {})
        return self.model(self.shapes, {output: shape}, self.kinds, **sets)


def normal(*shape: int) -> np.ndarray:
    terms = np.prod(shape[1:], dtype=np.int64) if len(shape) > 1 else 1
    return (np.random.default_rng(0).standard_normal(shape) * terms**-0.5).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)
