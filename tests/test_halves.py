"""Tensors of float16 and bfloat16 between launches are held as float32 (passes/halves.py): the same
bytes, of NaN too."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from nets import Net, check_engines
from test_half import values

from sardonyx import types as t
from sardonyx.passes.halves import LARGEST
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise

KINDS = [np.float16, ml_dtypes.bfloat16]
PADS = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}


def some(kind: Any, *shape: int) -> Any:
    return values(np.random.default_rng(sum(shape)), *shape).astype(kind)


def image(kind: Any) -> Net:
    """Convolutions with activations between, pools, a residual, a window, Concat, a head."""
    made = Net()
    x = some(kind, 1, 3, 12, 10)
    x[0, 0, 0, :4] = [np.nan, np.inf, -0.0, 1e-7]
    y = made.op("Conv", made.feed("x", x), some(kind, 32, 3, 3, 3), some(kind, 32), **PADS)
    low, high = np.array(0, kind), np.array(6, kind)
    y = made.op("Clip", y, low, high)
    z = made.op("Conv", y, some(kind, 32, 1, 3, 3), some(kind, 32), group=32, **PADS)
    z = made.op("Mul", z, made.op("Sigmoid", z))
    z = made.op("Add", made.op("Conv", z, some(kind, 32, 32, 1, 1), some(kind, 32)), y)
    p = made.op("MaxPool", z, kernel_shape=[2, 2], strides=[2, 2])
    q = made.op("AveragePool", z, kernel_shape=[2, 2], strides=[2, 2])
    c = made.op("Concat", p, q, axis=1)
    made.give(c)
    g = made.op("GlobalAveragePool", made.op("Relu", c))
    g = made.op("Reshape", g, np.array([1, -1]))
    made.give(made.op("Softmax", made.op("Gemm", g, some(kind, 64, 10), some(kind, 10))))
    return made


def tokens(kind: Any) -> Net:
    """Rows of an embedding, a norm, attention, a feed-forward layer, an LSTM."""
    made = Net()
    x = made.op("Gather", some(kind, 50, 32), made.feed("i", np.arange(9).reshape(1, 9) * 5))
    x = made.op("Add", x, some(kind, 1, 9, 32))
    x = made.op("LayerNormalization", x, some(kind, 32), some(kind, 32))
    q, k, v = (made.op("MatMul", x, some(kind, 32, 32)) for _ in range(3))
    scores = made.op("MatMul", q, made.op("Transpose", k, perm=[0, 2, 1]))
    scores = made.op("Softmax", made.op("Mul", scores, np.array(0.18, kind)))
    x = made.op("Add", x, made.op("MatMul", scores, v))
    h = made.op("Gelu", made.op("MatMul", x, some(kind, 32, 48)))
    made.give(made.op("Where", made.feed("c", np.arange(9).reshape(1, 9, 1) % 2 == 0), h, h))
    r = made.op("Transpose", x, perm=[1, 0, 2])
    w = [some(kind, 1, 16, 32), some(kind, 1, 16, 4)]
    if kind is np.float16:
        made.give(*made.op("LSTM", r, *w, count=3, hidden_size=4))
    else:
        made.give(r)
    return made


def moves(kind: Any) -> Net:
    """What is fed, with NaN of other bits than the canonical one, is moved and is computed with."""
    made = Net()
    x = some(kind, 4, 6)
    x.view(np.uint16)[1, :3] = [0x7FC3, 0xFFC1, 0x7FFF]
    x = made.feed("x", x)
    y = made.op("Transpose", x, perm=[1, 0])
    z = made.op("Where", made.feed("c", np.eye(4, 6) > 0), x, made.op("Neg", x))
    made.give(y, made.op("Add", y, y), z, made.op("Transpose", z, perm=[1, 0]))
    bits = made.op("BitCast", made.op("Abs", z), to=int(t.uint16.onnx))
    made.give(made.op("Transpose", bits, perm=[1, 0]))
    return made


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("net", [image, tokens, moves])
def test_scheduled_equals_plain_equals_machine(net: Any, kind: Any) -> None:
    check_engines(net(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_computed_is_held_as_float32(kind: Any) -> None:
    program = optimise(lower(image(kind).graph()), roomy=True)
    used = {n for x in program.launches for n in (*x.reads, *x.writes) if n}
    halves = {n for n in used if program.tensors[n].dtype in (t.float16, t.bfloat16)}
    assert halves == {*program.inputs, *program.outputs}


def test_what_control_flow_reads_keeps_its_type() -> None:
    """What lies between two pieces of control flow is scheduled by itself."""
    net, rng = Net(), np.random.default_rng(4)
    x = net.feed("x", rng.standard_normal((4, 5)).astype(np.float16))
    c = net.feed("c", np.array(True))
    w = net.weight(rng.standard_normal((4, 5)).astype(np.float16))
    h = net.op("Mul", net.op("Exp", x), w)
    result = onnx.helper.make_tensor_value_info("b", onnx.TensorProto.FLOAT16, [4, 5])
    branches = {
        name: onnx.helper.make_graph([onnx.helper.make_node(op, [h], ["b"])], name, [], [result])
        for name, op in (("then_branch", "Neg"), ("else_branch", "Abs"))
    }
    y = net.op("If", c, **branches)
    net.give(net.op("Sigmoid", net.op("Mul", net.op("Exp", net.op("Tanh", x)), w)), y)
    check_engines(net)


def test_large_weights_keep_their_size() -> None:
    made = Net()
    table = np.zeros((LARGEST // 8 + 1, 8), np.float16)
    made.give(made.op("Relu", made.op("Gather", table, made.feed("i", np.arange(3)))))
    program = optimise(lower(made.graph()), roomy=True)
    assert [w.dtype for w in program.weights.values()] == [np.float16]
