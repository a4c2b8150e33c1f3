"""A batch of eight is eight batches of one, to the bit: a network for each family of schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from nets import Net

from sardonyx.native import NativeEngine
from sardonyx.types import Array

F = np.float32
Build = Callable[[Net, str, np.random.Generator], str]


def normal(rng: np.random.Generator, *shape: int) -> Array:
    return (rng.standard_normal(shape) / 4).astype(F)


def convolutions(net: Net, x: str, rng: np.random.Generator) -> str:
    """Of 3 channels, 3 x 3, 1 x 1, depthwise, by groups, transposed; a pool; an average."""
    x = net.op("Relu", net.op("Conv", x, normal(rng, 32, 3, 3, 3), pads=[1] * 4, strides=[2, 2]))
    y = net.op("Conv", x, normal(rng, 32, 32, 3, 3), normal(rng, 32), pads=[1] * 4)
    x = net.op("Relu", net.op("Add", x, y))
    x = net.op("Conv", x, normal(rng, 40, 32, 1, 1))
    x = net.op("Conv", x, normal(rng, 40, 1, 3, 3), group=40, pads=[1] * 4)
    x = net.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = net.op("Conv", x, normal(rng, 32, 20, 3, 3), group=2, pads=[1] * 4)
    x = net.op("ConvTranspose", x, normal(rng, 32, 16, 2, 2), strides=[2, 2])
    return net.op("GlobalAveragePool", net.op("Sigmoid", x))


def transformer(net: Net, x: str, rng: np.random.Generator) -> str:
    """Attention of four heads, a norm before it, a feed-forward layer with GELU."""
    x = net.op("LayerNormalization", x, normal(rng, 32), normal(rng, 32))
    heads = []
    for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        y = net.op("Add", net.op("MatMul", x, normal(rng, 32, 32)), normal(rng, 32))
        y = net.op("Reshape", y, np.array([0, 0, 4, 8], np.int64))
        heads.append(net.op("Transpose", y, perm=perm))
    scores = net.op("Mul", net.op("MatMul", heads[0], heads[1]), F(0.35))
    y = net.op("MatMul", net.op("Softmax", scores, axis=-1), heads[2])
    y = net.op("Reshape", net.op("Transpose", y, perm=[0, 2, 1, 3]), np.array([0, 0, 32], np.int64))
    x = net.op("Add", x, y)
    y = net.op("Gelu", net.op("MatMul", x, normal(rng, 32, 64)))
    return net.op("Add", x, net.op("MatMul", y, normal(rng, 64, 32)))


def recurrent(net: Net, x: str, rng: np.random.Generator) -> str:
    """An LSTM in both directions, a GRU; the batch is their second axis."""
    x = net.op("Transpose", x, perm=[1, 0, 2])
    for op, gates, ways in (("LSTM", 4, 2), ("GRU", 3, 1)):
        size = 32 if op == "LSTM" else 48
        given = (normal(rng, ways, gates * 24, size), normal(rng, ways, gates * 24, 24))
        way = "bidirectional" if ways == 2 else "forward"
        x = net.op(op, x, *given, hidden_size=24, direction=way)
        x = net.op("Transpose", x, perm=[0, 2, 1, 3])
        x = net.op("Reshape", x, np.array([0, 0, -1], np.int64))
    return net.op("Transpose", x, perm=[1, 0, 2])


def quantised(net: Net, x: str, rng: np.random.Generator) -> str:
    """Convolutions of bytes, depthwise too, and a product of matrices."""
    about = (F(0.03), np.uint8(120))
    x = net.op("QuantizeLinear", x, *about)
    for shape, group, pads in (
        ((32, 3, 3, 3), 1, 1),
        ((32, 1, 3, 3), 32, 1),
        ((48, 32, 1, 1), 1, 0),
    ):
        w = (rng.integers(-100, 100, shape).astype(np.int8), F(0.02), np.int8(0))
        x = net.op("QLinearConv", x, *about, *w, *about, group=group, pads=[pads] * 4)
    x = net.op("DequantizeLinear", x, *about)
    x = net.op("Flatten", net.op("GlobalMaxPool", x))
    w = net.op(
        "DequantizeLinear", rng.integers(-9, 9, (48, 20)).astype(np.int8), F(0.1), np.int8(0)
    )
    y = net.op("DequantizeLinear", net.op("QuantizeLinear", x, *about), *about)
    return net.op("MatMul", y, w)


def halves(net: Net, x: str, rng: np.random.Generator) -> str:
    """Convolutions of float16."""
    x = net.op("Cast", x, to=10)
    for shape in ((32, 3, 3, 3), (24, 32, 1, 1)):
        x = net.op("Relu", net.op("Conv", x, normal(rng, *shape).astype(np.float16)))
    return net.op("Cast", net.op("ReduceMean", x, np.array([2, 3], np.int64)), to=1)


def elementwise(net: Net, x: str, rng: np.random.Generator) -> str:
    """Chains, norms, a softmax, a sum, a choice of the greatest, rows that are moved."""
    y = net.op("Tanh", net.op("Mul", x, normal(rng, 3, 1, 1)))
    y = net.op("InstanceNormalization", y, normal(rng, 3), normal(rng, 3))
    y = net.op("Concat", net.op("Softmax", y, axis=-1), net.op("Erf", x), axis=1)
    top = net.op("ReduceSum", net.op("Exp", y), np.array([3], np.int64), keepdims=0)
    return net.op("Transpose", net.op("CumSum", top, np.array(2, np.int64)), perm=[0, 2, 1])


PICTURE, TOKENS = (3, 17, 18), (21, 32)
FAMILIES: dict[str, tuple[Build, tuple[int, ...], dict[str, Any]]] = {
    "convolutions": (convolutions, PICTURE, {}),
    "winograd": (convolutions, PICTURE, {"numerics": "winograd"}),
    "transformer": (transformer, TOKENS, {}),
    "recurrent": (recurrent, TOKENS, {}),
    "quantised": (quantised, PICTURE, {}),
    "halves": (halves, PICTURE, {}),
    "elementwise": (elementwise, PICTURE, {}),
}


def made(family: str, x: Array) -> Net:
    build, _, about = FAMILIES[family]
    net = Net(**about)
    net.give(build(net, net.feed("x", x), np.random.default_rng(5)))
    return net


@pytest.mark.parametrize("family", FAMILIES)
def test_a_batch_of_eight_is_eight_batches_of_one(family: str) -> None:
    x = normal(np.random.default_rng(6), 8, *FAMILIES[family][1]) * 8
    whole, one = made(family, x), made(family, x[:1])
    (name,) = whole.outputs
    single = NativeEngine(one.graph())
    parts = [single.run({"x": x[i : i + 1]})[name] for i in range(8)]
    assert all(len(part) == 1 for part in parts)
    expected = b"".join(part.tobytes() for part in parts)
    for engine in (NativeEngine(whole.graph()), NativeEngine(whole.graph("N"), threads=2)):
        assert engine.run({"x": x})[name].tobytes() == expected
