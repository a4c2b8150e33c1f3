"""Split, Concat and what lies between them: the same bytes however the parts are placed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from nets import Net, check_engines
from test_passes import check, values

from sardonyx import types as t
from sardonyx.kernel.expr import Where
from sardonyx.kernel.ir import expressions, statements
from sardonyx.kernel.walk import walk
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise


def conv(net: Net, x: str, channels: int, filters: int, size: int = 1) -> str:
    rng = np.random.default_rng(len(net.nodes))
    w = rng.standard_normal((filters, channels, size, size)).astype(np.float32)
    return net.op("Conv", x, w, pads=[size // 2] * 4)


def blocks(net: Net, channels: int, *sizes: int, axis: int = 1, around: bool = True) -> None:
    """As in YOLO: a part through convolutions, all of them together again."""
    x = conv(net, net.feed(f"x{len(net.feeds)}", values(1, 1, 8, 7, 9)), 8, channels)
    parts = net.op("Split", x, np.array(sizes), axis=axis, count=len(sizes))
    y = conv(net, conv(net, parts[-1], sizes[-1], sizes[-1], 3), sizes[-1], sizes[-1], 3)
    parts.append(net.op("Add", parts[-1], y) if around else y)
    whole = net.op("Concat", *parts, axis=axis)
    net.give(conv(net, whole, channels + sizes[-1], 16))


def two_and_three(net: Net) -> None:
    blocks(net, 32, 16, 16)
    blocks(net, 64, 16, 32, 16, axis=-3)
    blocks(net, 64, 32, 32, around=False)


def odd_parts(net: Net) -> None:
    blocks(net, 32, 12, 20)
    blocks(net, 48, 24, 24)
    blocks(net, 48, 5, 16, 27, axis=-3)
    blocks(net, 10, 4, 6)


def given_and_unused(net: Net) -> None:
    x = conv(net, net.feed("x", values(2, 2, 8, 6, 5)), 8, 48)
    parts = net.op("Split", x, np.array([16, 16, 16]), axis=1, count=3)
    net.give(parts[0], conv(net, parts[2], 16, 16, 3))
    rest = net.op("Split", x, np.array([20, 28]), axis=1, count=2)
    net.give(net.op("Relu", rest[1]))


def other_axes(net: Net) -> None:
    x = conv(net, net.feed("x", values(3, 2, 8, 6, 10)), 8, 16)
    for axis, size in ((0, 2), (2, 6), (-1, 10)):
        first, second = net.op("Split", x, np.array([1, size - 1]), axis=axis, count=2)
        y = conv(net, net.op("Concat", second, first, axis=axis), 16, 16, 3)
        net.give(y, conv(net, second, 16, 16, 3), net.op("MaxPool", first, kernel_shape=[1, 1]))


def slices(net: Net) -> None:
    x = conv(net, net.feed("x", values(4, 1, 8, 6, 7)), 8, 64)
    a = net.op("Slice", x, np.array([16]), np.array([48]), np.array([1]))
    b = net.op("Slice", x, np.array([1, 40]), np.array([5, 56]), np.array([2, 1]))
    net.give(conv(net, a, 32, 16, 3), conv(net, b, 16, 16, 3), net.op("Sigmoid", a))
    padded = net.op("Pad", b, np.array([0, 1, 1, 2, 0, 2, 3, 1]), np.float32(1.5))
    net.give(padded, net.op("Concat", a, a, x, axis=1))


def payloads(net: Net) -> None:
    """Bits of NaNs pass through what only moves."""
    x = net.feed("x", values(5, 1, 32, 4, 4))
    a, b = net.op("Split", x, np.array([16, 16]), axis=1, count=2)
    net.give(net.op("Concat", b, a, axis=1), net.op("Concat", a, net.op("Neg", b), axis=2))
    net.give(conv(net, net.op("Concat", net.op("Resize", b, "", up()), a, axis=1), 32, 16))


def up() -> np.ndarray:
    return np.array([1, 1, 1, 1], np.float32)


NETS = (two_and_three, odd_parts, given_and_unused, other_axes, slices, payloads)


@pytest.mark.parametrize("make", NETS, ids=lambda f: f.__name__)
def test_parts_give_the_machines_bytes(make: Callable[[Net], None]) -> None:
    net = Net()
    make(net)
    check(net)
    check_engines(net)


def test_the_parts_of_a_split_are_not_copied() -> None:
    net = Net()
    two_and_three(net)
    program = optimise(lower(net.graph(), overridable=False))
    assert not any(launch.kernel.name == "Split" for launch in program.launches)
    joined = [launch for launch in program.launches if launch.performs("", "Concat")]
    assert len(joined) == 3
    for launch in joined:
        read = zip(launch.reads, launch.kernel.inputs, strict=True)
        assert all(len(b.shape) == 5 for n, b in read if b and n not in program.weights)
        every = [e for s in statements(launch.kernel.body) for e in walk(*expressions(s))]
        assert not any(isinstance(e, Where) for e in every)


def test_parts_that_are_quantised_anew_are_written_where_they_lie() -> None:
    net = Net(opsets={"": 17, "com.microsoft": 1})
    scale, zero = np.array(0.03, np.float32), np.array(5, np.uint8)
    parts: list[str | np.ndarray] = []
    for i, channels in enumerate((16, 24, 8)):
        x = conv(net, net.feed(f"x{i}", values(i, 1, 8, 6, 7)), 8, channels)
        own = np.array(0.02 + 0.01 * i, np.float32), np.array(i, np.uint8)
        parts += [net.op("QuantizeLinear", x, *own), *own]
    y = net.op("QLinearConcat", scale, zero, *parts, axis=1, domain="com.microsoft")
    net.give(conv(net, net.op("DequantizeLinear", y, scale, zero), 48, 16))
    check_engines(net)
    program = optimise(lower(net.graph(), overridable=False), roomy=True)
    every = [
        e
        for x in program.launches
        for s in statements(x.kernel.body)
        for e in walk(*expressions(s))
    ]
    assert not any(isinstance(e, Where) and e.dtype is t.uint8 for e in every)
