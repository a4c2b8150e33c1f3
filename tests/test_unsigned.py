"""Tensors of int8 between launches are held as uint8 (passes/unsigned.py): the same bytes."""

from __future__ import annotations

import numpy as np
import pytest
from nets import Net, check_any_batch, check_engines

from sardonyx import types as t
from sardonyx.kernel.expr import Alu
from sardonyx.kernel.ir import expressions
from sardonyx.kernel.walk import walk
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.unsigned import hold_unsigned
from sardonyx.types import Array, DType

SCALE = np.float32(0.03)
MS = {"": 21, "com.microsoft": 1}


def some(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


def conv(
    net: Net,
    x: str,
    seed: int,
    channels: int,
    zero: int,
    depthwise: bool = False,
    scale: float = 0.004,
) -> str:
    """A convolution of int8 to int8, the zero point of x and of the result `zero`."""
    kernel = (channels, 1, 3, 3) if depthwise else (channels, 16, 1, 1)
    w, z = some(seed, *kernel), np.int8(zero)
    scales = np.full(channels, scale, np.float32)
    more = {"group": channels, "pads": [1, 1, 1, 1]} if depthwise else {}
    bias = some(seed + 1, channels).astype(np.int32) * 50
    parts = (SCALE, z, w, scales, np.zeros(channels, np.int8), SCALE, z, bias)
    return str(net.op("QLinearConv", x, *parts, **more))


def network(zero: int) -> Net:
    """Convolutions, a window, Clip by the bytes, MaxPool, a residual, a mean, Concat, a head."""
    net = Net(opsets=MS)
    z = np.int8(zero)
    x = net.op("QuantizeLinear", net.feed("x", np.float32(some(1, 2, 16, 9, 7)) * SCALE), SCALE, z)
    a = conv(net, x, 2, 16, zero)
    b = conv(net, a, 4, 16, zero, depthwise=True)
    b = net.op("Max", net.op("Min", b, np.int8(90)), z)
    c = conv(net, b, 6, 16, zero)
    c = net.op("QLinearAdd", a, SCALE, z, c, SCALE, z, SCALE, z, domain="com.microsoft")
    p = net.op("MaxPool", c, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    q = conv(net, p, 8, 16, zero)
    p = net.op("Concat", p, q, axis=1)
    real = net.op("DequantizeLinear", p, SCALE, z)
    net.give(net.op("GlobalAveragePool", real), net.op("Transpose", q, perm=[0, 2, 3, 1]))
    return net


@pytest.mark.parametrize("zero", [-128, -5, 0, 127])
def test_the_engines_agree(zero: int) -> None:
    check_engines(network(zero))


def test_a_batch_that_is_a_symbol() -> None:
    check_any_batch(network(-128))


def test_what_is_made_by_rounding_has_no_sign() -> None:
    net = network(3)
    program = hold_unsigned(lower(net.graph()))
    kinds = [program.tensors[x.writes[0]].dtype for x in program.launches]
    names = [x.kernel.name for x in program.launches]
    signed = {n for n, kind in zip(names, kinds, strict=True) if kind is t.int8}
    assert signed == {"QuantizeLinear", "Transpose"}  # may have read a NaN, an output
    assert names.count("QLinearConv") == 4


def test_a_nan_is_the_zero_of_int8() -> None:
    """Of what is rounded from what may be NaN the sign stays."""
    net = Net()
    x = np.array([[np.nan, -1, np.inf, 2, 0, -np.inf, 3, 1]], np.float32)
    q = net.op("QuantizeLinear", net.feed("x", x), SCALE, np.int8(-128))
    y = net.op("MatMulInteger", q, some(3, 8, 16), np.int8(-128))
    net.give(y)
    check_engines(net)
    assert hold_unsigned(lower(net.graph())).tensors[q].dtype is t.int8


@pytest.mark.parametrize(("scale", "kind"), [(0.004, t.uint8), (np.inf, t.int8)])
def test_a_scale_that_is_not_finite_may_give_a_nan(scale: float, kind: DType) -> None:
    net = Net()
    x = net.feed("x", np.zeros((1, 16, 4, 4), np.int8))  # 0 * inf
    y = conv(net, x, 2, 16, 0, scale=scale)
    net.give(conv(net, y, 4, 16, 0))
    check_engines(net)
    assert hold_unsigned(lower(net.graph())).tensors[y].dtype is kind


@pytest.mark.parametrize(("low", "high", "left"), [(-128, 127, 0), (-127, 127, 1), (-128, 126, 1)])
def test_bounds_that_bound_nothing_are_left_out(low: int, high: int, left: int) -> None:
    net = Net()
    y = conv(net, net.feed("x", some(1, 1, 16, 4, 4)), 2, 16, -128)
    y = net.op("Max", net.op("Min", y, np.int8(high)), np.int8(low))
    net.give(conv(net, y, 4, 16, -128))
    check_engines(net)
    launches = optimise(lower(net.graph()), roomy=True).launches
    roots = (e for x in launches for s in x.kernel.body for e in expressions(s))
    nodes = [e for root in roots for e in walk(root)]
    assert len({e for e in nodes if isinstance(e, Alu) and e.op in ("min", "max")}) == left


@pytest.mark.parametrize("zero", [-128, 7])
def test_a_border_is_written_with_what_it_is_of(zero: int) -> None:
    """As TensorFlow Lite pads: one more row and column at the end, of the zero point."""
    net = Net()
    y = conv(net, net.feed("x", some(1, 1, 16, 8, 8)), 2, 32, zero)
    y = net.op("Pad", y, np.array([0, 0, 0, 0, 0, 0, 1, 1]), np.int8(zero))
    parts = (SCALE, np.int8(zero), some(3, 16, 32, 3, 3), SCALE, np.int8(0), SCALE, np.int8(zero))
    net.give(net.op("QLinearConv", y, *parts, strides=[2, 2]))
    check_engines(net)
    program = optimise(lower(net.graph()), roomy=True, dots=True)
    assert "Pad" not in [x.kernel.name for x in program.launches]
