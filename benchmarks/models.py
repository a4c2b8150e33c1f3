"""The models that are timed.

The light models of the onnx package have constants for weights: here they get seeded random ones,
of a size that keeps activations near 1, so that the outputs say something.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"
EXAMPLES = Path(__file__).parent.parent / "examples"
LAYERS, TOKENS, WIDTH, HEADS, INNER = 4, 128, 256, 4, 1024  # of the transformer encoder


def models(folder: Path) -> dict[str, Path]:
    """name -> file; those that must be made are written to folder."""
    found: dict[str, Path] = {}
    for name in ("resnet50", "densenet121", "squeezenet", "shufflenet"):
        found[name] = _written(folder / f"{name}.onnx", lambda name=name: _light(name))
    found["encoder"] = _written(folder / "encoder.onnx", _encoder)
    digits = EXAMPLES / "digits" / "digits.onnx"
    return found | ({"digits": digits} if digits.exists() else {})


def inputs(path: Path) -> dict[str, np.ndarray]:
    """Seeded normal values for the inputs; a dim without a number is 1."""
    model = onnx.load(path)
    known = {x.name for x in model.graph.initializer}
    random, feeds = np.random.default_rng(0), {}
    for x in model.graph.input:
        if x.name not in known:
            shape = [d.dim_value or 1 for d in x.type.tensor_type.shape.dim]
            feeds[x.name] = random.standard_normal(shape).astype(np.float32)
    return feeds


def _written(path: Path, make: Callable[[], onnx.ModelProto]) -> Path:
    if not path.exists():
        onnx.save(make(), path)
    return path


def _light(name: str) -> onnx.ModelProto:
    """The light model with random weights instead of ConstantOfShape."""
    model = onnx.load(LIGHT / f"light_{name}.onnx")
    shapes = {x.name: numpy_helper.to_array(x) for x in model.graph.initializer}
    made = {n.output[0]: shapes[n.input[0]] for n in model.graph.node if _is_filled(n, shapes)}
    roles = {x: (n.op_type, i) for n in model.graph.node for i, x in enumerate(n.input)}
    random = np.random.default_rng(0)
    nodes = [n for n in model.graph.node if n.output[0] not in made]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    for output, shape in made.items():
        value = _weights(random, [int(d) for d in shape], roles.get(output, ("", 0)))
        model.graph.initializer.append(numpy_helper.from_array(value, output))
    model.ir_version = 8  # where weights need not be inputs
    weights = {x.name for x in model.graph.initializer}
    given = [x for x in model.graph.input if x.name not in weights]
    del model.graph.input[:]
    model.graph.input.extend(given)
    return model


def _is_filled(node: onnx.NodeProto, shapes: dict[str, np.ndarray]) -> bool:
    value = next((a.t for a in node.attribute if a.name == "value"), None)
    is_float = value is None or value.data_type == TensorProto.FLOAT
    return node.op_type == "ConstantOfShape" and node.input[0] in shapes and is_float


def _weights(random: np.random.Generator, shape: list[int], role: tuple[str, int]) -> np.ndarray:
    if role in (("BatchNormalization", 1), ("BatchNormalization", 4)):
        return random.uniform(0.8, 1.2, shape).astype(np.float32)
    scale = np.sqrt(2 / np.prod(shape[1:])) if len(shape) > 1 else 0.1
    return (random.standard_normal(shape) * scale).astype(np.float32)


def _encoder() -> onnx.ModelProto:
    """LAYERS times attention, and two matrix products with Gelu (erf): each normalised, added."""
    random = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []

    def weight(value: Any) -> str:
        name = f"w{len(weights)}"
        weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def op(kind: str, *given: str, **attributes: Any) -> str:
        name = f"t{len(nodes)}"
        nodes.append(helper.make_node(kind, given, [name], **attributes))
        return name

    def linear(x: str, rows: int, columns: int) -> str:
        w = random.standard_normal((rows, columns)).astype(np.float32) / np.float32(np.sqrt(rows))
        b = 0.1 * random.standard_normal(columns).astype(np.float32)
        return op("Add", op("MatMul", x, weight(w)), weight(b.astype(np.float32)))

    def norm(x: str) -> str:
        ones, zeros = np.ones(WIDTH, np.float32), np.zeros(WIDTH, np.float32)
        return op("LayerNormalization", x, weight(ones), weight(zeros), axis=-1)

    def heads(x: str, perm: list[int]) -> str:
        shape = weight(np.array([0, TOKENS, HEADS, WIDTH // HEADS], np.int64))
        return op("Transpose", op("Reshape", linear(x, WIDTH, WIDTH), shape), perm=perm)

    def attention(x: str) -> str:
        q, k, v = heads(x, [0, 2, 1, 3]), heads(x, [0, 2, 3, 1]), heads(x, [0, 2, 1, 3])
        scores = op("Mul", op("MatMul", q, k), weight(np.float32((WIDTH / HEADS) ** -0.5)))
        mixed = op("Transpose", op("MatMul", op("Softmax", scores, axis=-1), v), perm=[0, 2, 1, 3])
        joined = op("Reshape", mixed, weight(np.array([0, TOKENS, WIDTH], np.int64)))
        return linear(joined, WIDTH, WIDTH)

    def perceptron(x: str) -> str:
        h = linear(x, WIDTH, INNER)
        erf = op("Erf", op("Div", h, weight(np.float32(np.sqrt(2)))))
        half = op("Mul", h, weight(np.float32(0.5)))
        gelu = op("Mul", half, op("Add", erf, weight(np.float32(1))))
        return linear(gelu, INNER, WIDTH)

    x = "x"
    for _ in range(LAYERS):
        x = op("Add", x, attention(norm(x)))
        x = op("Add", x, perceptron(norm(x)))
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, TOKENS, WIDTH])
    result = helper.make_tensor_value_info(x, TensorProto.FLOAT, [1, TOKENS, WIDTH])
    graph = helper.make_graph(nodes, "encoder", [given], [result], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
