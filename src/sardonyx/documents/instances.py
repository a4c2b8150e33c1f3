"""For each operator of the profile the operands and attributes for which its page writes down what
it computes. Sizes are symbols where the definition allows; attributes are numbers that differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sardonyx import types as t
from sardonyx.dims import Dim, symbol
from sardonyx.kernel.build import Tensor, operand
from sardonyx.kernel.ir import Kernel
from sardonyx.kernel.verify import settle
from sardonyx.ops.registry import Operator, lower
from sardonyx.types import Array


@dataclass(frozen=True, slots=True)
class Instance:
    """operands: "N,C,2" or "int64:3" per input, "" for an absent one, with values by position."""

    operands: tuple[str, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[int, Sequence[float]] = field(default_factory=dict)
    dtype: str = "float32"
    outputs: int = 1

    def tensors(self, names: Sequence[str]) -> list[Tensor | None]:
        """The operands for lowering, called by their names in the schema."""
        return [self._tensor(i, spec, names[i]) for i, spec in enumerate(self.operands)]

    def _tensor(self, i: int, spec: str, name: str) -> Tensor | None:
        if spec == "-":
            return None
        word, _, dims = spec.rpartition(":")
        dtype = t.by_name(word or self.dtype)
        shape = tuple(_dim(d) for d in dims.split(",") if d)
        value = self.values.get(i)
        given: Array | None = None
        if value is not None:
            given = np.array(value, dtype.numpy).reshape([d for d in shape if isinstance(d, int)])
        return operand(name, dtype, shape, given)


def _dim(text: str) -> Dim:
    return int(text) if text.isdecimal() else symbol(text)


def kernel_of(op: Operator, instance: Instance, names: Sequence[str]) -> Kernel:
    """The operator lowered for an instance."""
    used = [True] * instance.outputs
    return settle(lower(op, instance.tensors(names), instance.attributes, used))[0]


def _same(
    *operators: str, operands: tuple[str, ...] = ("N",), dtype: str = "float32"
) -> dict[str, Instance]:
    return {name: Instance(operands, dtype=dtype) for name in operators}


WINDOW = {
    "auto_pad": "NOTSET", "dilations": (1, 2), "kernel_shape": (3, 2), "pads": (1, 0, 2, 0),
    "strides": (2, 1),
}  # fmt: skip
LSTM = {
    "activations": ("Sigmoid", "Tanh", "Tanh"), "direction": "forward", "hidden_size": 2,
    "input_forget": 0, "layout": 0,
}  # fmt: skip

REDUCE = {"keepdims": 0, "noop_with_empty_axes": 0}

# fmt: off
INSTANCES: dict[str, Instance] = {
    **_same("Abs", "Acos", "Asin", "Atan", "Erf", "Exp", "Gelu", "HardSwish", "Identity", "Log",
            "Neg", "Relu", "Sigmoid", "Sin", "Softplus", "Sqrt", "Tanh"),
    **_same("Add", "Div", "Equal", "Less", "Max", "Min", "Mul", "Pow", "Sub", operands=("N", "N")),
    **_same("Not", operands=("N",), dtype="bool"),
    **_same("MatMul", operands=("M,K", "K,N")),
    "ArgMax": Instance(("N,C",), {"axis": 1, "keepdims": 1, "select_last_index": 0}),
    "BatchNormalization": Instance(("N,C,L", "C", "C", "C", "C"),
                                   {"epsilon": 1e-5, "training_mode": 0}),
    "Cast": Instance(("N",), {"to": 7}),
    "Clip": Instance(("N", "float32:", "float32:")),
    "Concat": Instance(("A,N", "B,N"), {"axis": 0}),
    "Constant": Instance((), {"value": np.array([1.5, -2.0], np.float32)}),
    "ConstantOfShape": Instance(("int64:2",), {"value": np.array([1.5], np.float32)}, {0: (2, 3)}),
    "Conv": Instance(("N,20,H,W", "6,20,3,2", "6"), {**WINDOW, "group": 1}),
    "ConvInteger": Instance(("int8:N,4,H,W", "int8:6,4,3,2", "int8:", "int8:"),
                            {**WINDOW, "group": 1}),
    "ConvTranspose": Instance(("N,4,5,7", "4,6,3,2", "6"),
                              {**WINDOW, "group": 1, "output_padding": (0, 0)}),
    "DequantizeLinear": Instance(("int8:N", "float32:", "int8:"), {"axis": 0, "block_size": 0}),
    "Expand": Instance(("N,1", "int64:2"), {}, {1: (1, 4)}),
    "Flatten": Instance(("N,C,L",), {"axis": 1}),
    "GRU": Instance(("T,N,3", "1,6,3", "1,6,2", "1,12", "int32:N", "1,N,2"),
                    {"activations": ("Sigmoid", "Tanh"), "direction": "forward", "hidden_size": 2,
                     "layout": 0, "linear_before_reset": 0}, outputs=2),
    "Gather": Instance(("N,C", "int64:K"), {"axis": 0}),
    "Gemm": Instance(("M,K", "K,N", "M,N"), {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 0}),
    "GlobalAveragePool": Instance(("N,C,H,W",)),
    "LSTM": Instance(("T,N,3", "1,8,3", "1,8,2", "1,16", "int32:N", "1,N,2", "1,N,2", "1,6"), LSTM,
                     outputs=3),
    "LayerNormalization": Instance(("N,C", "C", "C"),
                                   {"axis": 1, "epsilon": 1e-5, "stash_type": 1}),
    "LeakyRelu": Instance(("N",), {"alpha": 0.1}),
    "MaxPool": Instance(("N,C,H,W",), {**WINDOW, "ceil_mode": 0, "storage_order": 0}),
    "Mod": Instance(("N", "N"), {"fmod": 1}),
    "Pad": Instance(("N,C", "int64:4", "float32:"), {"mode": "constant"}, {1: (0, 1, 0, 2)}),
    "QuantizeLinear": Instance(("N", "float32:", "int8:"),
                               {"axis": 0, "block_size": 0, "saturate": 1}),
    "Range": Instance(("float32:", "float32:", "float32:"), {}, {0: [0], 1: [5], 2: [1]}),
    "ReduceMean": Instance(("N,C", "int64:1"), REDUCE, {1: [1]}),
    "ReduceSum": Instance(("N,C", "int64:1"), REDUCE, {1: [1]}),
    "Reshape": Instance(("N,6", "int64:3"), {"allowzero": 0}, {1: (0, 2, 3)}),
    "Resize": Instance(("N,C,H,W", "-", "float32:4"), {"mode": "nearest",
                       "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
                       {2: (1, 1, 2, 2)}),
    "ScatterND": Instance(("N,C", "int64:K,1", "K,C"), {"reduction": "none"}),
    "Shape": Instance(("N,C",), {"start": 0, "end": 2}),
    "Slice": Instance(("8,6", "int64:2", "int64:2", "int64:2", "int64:2"), {},
                      {1: (1, 5), 2: (7, 0), 3: (0, 1), 4: (2, -1)}),
    "Softmax": Instance(("N,C",), {"axis": 1}),
    "Split": Instance(("6,N", "int64:2"), {"axis": 0}, {1: (2, 4)}, outputs=2),
    "Squeeze": Instance(("N,1", "int64:1"), {}, {1: [1]}),
    "Transpose": Instance(("A,B,C",), {"perm": (2, 0, 1)}),
    "Unsqueeze": Instance(("N", "int64:1"), {}, {1: [1]}),
    "Where": Instance(("bool:N", "N", "N")),
}
# fmt: on
