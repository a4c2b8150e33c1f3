"""What stands for integers of 16 bits is not quantised for the same ones again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest
from nets import Net, check_engines

from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.types import Array

KINDS = (np.uint16, np.int16)
Kind: TypeAlias = type[np.generic]


def quantised(net: Net, x: str, scale: float, kind: Kind, zero: int = 3) -> str:
    """x as integers, and these as numbers again."""
    s, z = np.float32(scale), kind(zero)
    return net.op("DequantizeLinear", net.op("QuantizeLinear", x, s, z), s, z)


def started(kind: Kind, scale: float = 1e-4) -> tuple[Net, str]:
    net = Net(opsets={"": 21})
    x = np.random.default_rng(5).standard_normal((2, 4, 6, 6)).astype(np.float32) * 2
    return net, quantised(net, net.feed("x", x), scale, kind)


def count(net: Net) -> int:
    """How many QuantizeLinear are left."""
    found = optimise(lower(net.graph())).launches
    return sum(op.op_type == "QuantizeLinear" for launch in found for op in launch.operations)


def moved(net: Net, x: str) -> str:
    return str(net.op("Transpose", x, perm=[0, 2, 1, 3]))


def joined(net: Net, x: str) -> str:
    return str(net.op("Concat", x, x, axis=1))


def padded(net: Net, x: str) -> str:
    return str(net.op("Pad", x, np.int64([0, 0, 1, 1, 0, 0, 1, 1])))


def largest(net: Net, x: str) -> str:
    return str(net.op("GlobalMaxPool", x))


def bounded(net: Net, x: str) -> str:
    return str(net.op("Relu", x))


MOVES = [moved, joined, padded, largest, bounded]


def chain(kind: Kind, step: Callable[[Net, str], str], scale: float = 1e-4) -> Net:
    net, x = started(kind)
    net.give(net.op("Neg", quantised(net, step(net, x), scale, kind)))
    return net


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", MOVES)
def test_what_is_moved_is_quantised_once(step: Callable[[Net, str], str], kind: Kind) -> None:
    assert count(chain(kind, step)) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", MOVES)
def test_what_is_moved_has_the_same_bits(step: Callable[[Net, str], str], kind: Kind) -> None:
    check_engines(chain(kind, step))


@pytest.mark.parametrize("scale", [1e-29, 3.3e-7, 1.0, 0.7, 2.0**99])
def test_all_integers_of_a_scale_have_the_same_bits(scale: float) -> None:
    net = Net(opsets={"": 21})
    q = net.feed("q", np.arange(65536, dtype=np.uint16).reshape(256, 256))
    x = net.op("DequantizeLinear", q, np.float32(scale), np.uint16(777))
    y = net.op("Transpose", x, perm=[1, 0])
    net.give(net.op("Neg", quantised(net, y, scale, np.uint16, 777)))
    check_engines(net)


def test_another_scale_is_quantised_for() -> None:
    assert count(chain(np.uint16, moved, 2e-4)) == 2


def test_another_type_is_quantised_for() -> None:
    net, x = started(np.uint16)
    net.give(net.op("Neg", quantised(net, moved(net, x), 1e-4, np.int16)))
    assert count(net) == 2


def test_sums_are_quantised() -> None:
    net, x = started(np.uint16)
    net.give(net.op("Neg", quantised(net, net.op("Add", x, x), 1e-4, np.uint16)))
    assert count(net) == 2


def test_what_a_pool_finds_outside_of_its_input_is_quantised() -> None:
    """With dilations a window may lie in the padding alone, whose maximum is -infinity."""
    net, x = started(np.uint16)
    y = net.op("MaxPool", x, kernel_shape=[2, 2], pads=[1] * 4, dilations=[7, 7])
    net.give(net.op("Neg", quantised(net, y, 1e-4, np.uint16)))
    check_engines(net)


def test_scales_that_are_fed_are_quantised_for() -> None:
    net = Net(opsets={"": 21})
    x: Array = np.random.default_rng(5).standard_normal((2, 4)).astype(np.float32)
    s, z = net.feed("s", np.array(1e-4, np.float32)), np.uint16(3)
    y = net.feed("x", x)
    for _ in range(2):
        y = net.op("DequantizeLinear", net.op("QuantizeLinear", y, s, z), s, z)
    net.give(net.op("Neg", y))
    assert count(net) == 2
