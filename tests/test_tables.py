"""What is computed of one byte alone is looked up."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest
from nets import Net, check_any_batch, check_engines

from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.program import Launch

SHAPE = (2, 3, 40)

Made: TypeAlias = Callable[[type[np.generic]], Net]


def quantised(net: Net, x: str, scale: float, kind: type[np.generic]) -> str:
    """x as bytes, and these as numbers again."""
    s, zero = np.float32(scale), kind(3)  # type: ignore[call-arg]
    return net.op("DequantizeLinear", net.op("QuantizeLinear", x, s, zero), s, zero)


def started(kind: type[np.generic] = np.uint8) -> tuple[Net, str]:
    net = Net()
    x = np.random.default_rng(5).standard_normal(SHAPE).astype(np.float32) * 4
    return net, quantised(net, net.op("Tanh", net.feed("x", x)), 0.02, kind)


def silu(kind: type[np.generic] = np.uint8) -> Net:
    net, x = started(kind)
    y = quantised(net, net.op("Sigmoid", x), 1 / 256, kind)
    net.give(quantised(net, net.op("Mul", x, y), 0.03, kind))
    return net


def softplus(kind: type[np.generic] = np.uint8) -> Net:
    net, x = started(kind)
    net.give(quantised(net, net.op("Softplus", x), 0.01, kind))
    return net


def two_bytes(kind: type[np.generic] = np.uint8) -> Net:
    """A product of bytes of two tensors is no table."""
    net, x = started(kind)
    z = quantised(net, net.op("Cos", net.feed("z", np.ones(SHAPE, np.float32))), 0.02, kind)
    net.give(quantised(net, net.op("Mul", net.op("Sigmoid", x), z), 0.01, kind))
    return net


def launches(net: Net) -> list[Launch]:
    return list(optimise(lower(net.graph()), roomy=True).launches)


def tables(net: Net) -> list[Launch]:
    return [x for x in launches(net) if x.kernel.name == "table"]


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("made", [silu, softplus, two_bytes])
def test_the_engines_agree(made: Made, kind: type[np.generic]) -> None:
    check_engines(made(kind))
    check_any_batch(made(kind))


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
@pytest.mark.parametrize("made", [silu, softplus])
def test_functions_of_a_byte_are_one_table(made: Made, kind: type[np.generic]) -> None:
    (found,) = tables(made(kind))
    table = found.kernel.inputs[1]
    assert table is not None
    assert table.shape == (256,)


def test_functions_of_two_bytes_are_computed() -> None:
    assert not tables(two_bytes())
