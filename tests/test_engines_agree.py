"""Operators of sizes and numbers that depend on data, with symbolic dims: one session, several
shapes, the same bytes by both engines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper

from sardonyx.backend import prepare
from sardonyx.types import Array

RANDOM = np.random.default_rng(3)
F, INT, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Feeds = Mapping[str, Any]
Sketch = tuple[list[NodeProto], dict[str, tuple[int, Sequence[Any]]], str, list[Feeds]]


def node(op_type: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:
    """A node; "-" stands for an absent input."""
    names = ["" if n == "-" else n for n in inputs.split()]
    return helper.make_node(op_type, names, outputs.split(), **attributes)


def few(*shape: int) -> Array:
    """-1, 0 and 1."""
    return RANDOM.integers(-1, 2, shape).astype(np.float32)


def normal(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def flags(*values: int) -> Array:
    return np.array(values, bool)


def caches(length: int, past: int) -> dict[str, Array]:
    sizes = {"q": length, "k": length, "v": length, "pk": past, "pv": past}
    return {name: few(1, 2, n, 8) for name, n in sizes.items()}


MATRIX = {"x": (F, ["A", "B"])}
BOXES = {"b": (F, [1, "N", 4]), "s": (F, [1, "C", "N"]), "m": (INT, []), "i": (F, [])}
SKETCHES: dict[str, Sketch] = {
    "NonZero": (
        [node("NonZero", "x", "i"), node("Transpose", "i", "y"), node("GatherND", "x y", "z")],
        MATRIX,
        "y z",
        [{"x": few(3, 4)}, {"x": few(5, 2)}, {"x": np.zeros((2, 2), np.float32)}],
    ),
    "Unique": ([node("Unique", "x", "y i v c")], MATRIX, "y i v c", [{"x": few(3, 4)}]),
    "Compress": (
        [node("Compress", "x k", "y", axis=0), node("Relu", "y", "z")],
        {**MATRIX, "k": (B, ["C"])},
        "z",
        [{"x": few(3, 4), "k": flags(1, 0, 1)}, {"x": few(3, 4), "k": flags(0)}],
    ),
    "NonMaxSuppression": (
        [node("NonMaxSuppression", "b s m i", "y")],
        BOXES,
        "y",
        [
            {
                "b": RANDOM.random((1, n, 4)).astype(np.float32),
                "s": RANDOM.random((1, 2, n)).astype(np.float32),
                "m": np.int64(limit),
                "i": np.float32(0.4),
            }
            for n, limit in ((9, 3), (4, 9))
        ],
    ),
    "MatMul": (  # of few rows and of many by one program: packed on the fly where it pays
        [
            node("MatMul", "x y", "q"), node("Div", "q c", "z"), node("Softmax", "z", "p"),
            node("MatMul", "p w", "v"),
        ],
        {"x": (F, [2, "S", 20]), "y": (F, [2, 20, "T"]), "w": (F, [2, "T", 20]), "c": (F, [])},
        "z v",
        [
            {
                "x": normal(2, s, 20), "y": normal(2, 20, u), "w": normal(2, u, 20),
                "c": np.float32(3),
            }
            for s, u in ((1, 1), (3, 17), (4, 17), (40, 33), (5, 1))
        ],
    ),
    "TopK": (
        [node("TopK", "x k", "y i", largest=0), node("TopK", "x k", "z j", axis=0)],
        {**MATRIX, "k": (INT, [1])},
        "y i z j",
        [{"x": few(n, m), "k": np.array([k])} for n, m, k in ((40, 70, 20), (90, 33, 9))],
    ),
    "RandomNormalLike": (
        [node("RandomNormalLike", "x", "y")],
        MATRIX,
        "y",
        [{"x": few(3, 4)}, {"x": few(17, 5)}],
    ),
    "Dropout": (
        [node("Dropout", "x r t", "y m")],
        {**MATRIX, "r": (F, []), "t": (B, [])},
        "y m",
        [{"x": few(3, 4), "r": np.float32(0.5), "t": np.bool_(t)} for t in (True, False)],
    ),
    "TensorScatter": (
        [node("TensorScatter", "c u w", "y")],
        {"c": (F, ["B", "S", 4]), "u": (F, ["B", "L", 4]), "w": (INT, ["B"])},
        "y",
        [{"c": few(2, 6, 4), "u": few(2, 2, 4), "w": np.array([1, 4])}],
    ),
    "AffineGrid": (
        [node("AffineGrid", "t s", "y")],
        {"t": (F, ["B", 2, 3]), "s": (INT, [4])},
        "y",
        [{"t": few(2, 2, 3), "s": np.array([2, 1, 3, 5])}],
    ),
    "LinearAttention": (
        [
            node(
                "LinearAttention", "q k v", "y s", kv_num_heads=2, q_num_heads=2,
                update_rule="linear",
            )
        ],
        dict.fromkeys("qkv", (F, ["B", "L", 8])),
        "y s",
        [{n: few(b, length, 8) for n in "qkv"} for b, length in ((2, 3), (1, 1))],
    ),
    "Attention": (
        [node("Attention", "q k v - pk pv", "y ok ov", is_causal=1)],
        {
            **dict.fromkeys("qkv", (F, ["B", 2, "L", 8])),
            **dict.fromkeys(("pk", "pv"), (F, ["B", 2, "P", 8])),
        },
        "y ok ov",
        [caches(1, 4), caches(3, 2)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SKETCHES)
def test_both_engines_give_the_same_bytes_for_each_shape(name: str) -> None:
    nodes, inputs, outputs, feeds = SKETCHES[name]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        name,
        [info(n, kind, shape) for n, (kind, shape) in inputs.items()],
        [helper.make_empty_tensor_value_info(n) for n in outputs.split()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 27)], ir_version=10)
    machine, native = (prepare(model, engine=e) for e in ("machine", "native"))
    for given in feeds:
        for a, b in zip(machine.run(given), native.run(given), strict=True):
            assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
