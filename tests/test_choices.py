"""Choices along an axis, and what is repeated within them, are loops of their own."""

from __future__ import annotations

import numpy as np
import pytest
from nets import Net, check_engines
from test_passes import values

from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.kernel.expr import Load, Where
from sardonyx.kernel.ir import Compute, For, Store, expressions, statements
from sardonyx.kernel.walk import walk
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.program import Launch


def gated(channels: int, kind: type) -> Net:
    """Half of the channels from a convolution, half from another; a gate of half their size, as
    GhostNet v2 has it."""
    net = Net()
    x = net.feed("x", values(1, 1, 16, 8, 10).astype(kind))
    w = [values(i, channels, n, 1, 1).astype(kind) for i, n in ((2, 16), (3, channels))]
    first = net.op("Conv", x, w[0])
    both = net.op("Concat", first, net.op("Conv", first, w[1]), axis=1)
    small = net.op("Conv", net.op("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2]),
                   values(4, 2 * channels, 16, 1, 1).astype(kind))  # fmt: skip
    gate = net.op("Resize", net.op("Sigmoid", small), "", np.float32([1, 1, 2, 2]), mode="nearest")
    last = values(5, 16, 2 * channels, 1, 1).astype(kind)
    net.give(net.op("Conv", net.op("Mul", both, gate), last))
    return net


def joining(net: Net) -> Launch:
    program = optimise(lower(net.graph(), overridable=False), roomy=True)
    names = [{o.op_type for o in x.operations} for x in program.launches]
    (found,) = (x for x, ops in zip(program.launches, names, strict=True) if "Resize" in ops)
    return found


@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("channels", [12, 16, 40, 56])
def test_sides_that_are_repeated_are_the_machines(channels: int, kind: type) -> None:
    check_engines(gated(channels, kind))


@pytest.mark.parametrize("channels", [12, 16, 40, 56])
def test_nothing_is_chosen_for_each_element(channels: int) -> None:
    """Also where a block of sixteen channels has both sides: 40 are two and a half."""
    launch = joining(gated(channels, np.float32))
    found = [e for s in statements(launch.kernel.body) for e in walk(*expressions(s))]
    assert not any(isinstance(e, Where) for e in found)
    assert all(e.mode == "proven" for e in found if isinstance(e, Load))


def test_float16_that_are_repeated_are_rounded_by_sixteen() -> None:
    text = print_scheduled(joining(gated(40, np.float16)).kernel).text
    assert text.count("sx_nears_f16(") == 4 * 2  # four places, of the blocks of each side


def test_what_is_the_same_in_all_places_is_computed_once() -> None:
    """A byte that Resize repeats is quantised anew once, not in a loop for each place."""
    net = Net()
    x = net.feed("x", np.arange(2 * 3 * 4 * 32, dtype=np.uint8).reshape(2, 32, 3, 4))
    scales = np.float32(0.5), np.uint8(3), np.float32(0.3), np.uint8(7)
    turned = net.op("Transpose", net.op("DequantizeLinear", x, *scales[:2]), perm=[0, 2, 3, 1])
    large = net.op("Resize", turned, "", np.float32([1, 2, 2, 1]), mode="nearest")
    net.give(net.op("QuantizeLinear", large, *scales[2:]))
    check_engines(net)
    assert print_scheduled(joining(net).kernel).text.count("sx_round_u8(") <= 1


def complex_product(length: int) -> Net:
    """Pairs of numbers times others, with an axis of one index behind each half."""
    net = Net(opsets={"": 18})
    x = net.feed("x", values(1, 2, 3, length, 2))
    cos, sin = (net.feed(n, values(i, length, 1)) for i, n in ((2, "cos"), (3, "sin")))
    real, imaginary = net.op("Split", x, count=2, axis=3, num_outputs=2)
    first = net.op("Sub", net.op("Mul", real, cos), net.op("Mul", imaginary, sin))
    second = net.op("Add", net.op("Mul", real, sin), net.op("Mul", imaginary, cos))
    net.give(net.op("Concat", first, second, axis=3))
    return net


@pytest.mark.parametrize("length", [1, 2, 37])
def test_pairs_along_the_last_axis_are_the_machines(length: int) -> None:
    check_engines(complex_product(length))


def test_pairs_are_written_together_and_axes_of_one_index_are_none() -> None:
    program = optimise(lower(complex_product(37).graph(), overridable=False), roomy=True)
    *halves, joined = (x.kernel.body for x in program.launches)
    assert [s.axes[-1].extent for (s,) in halves if isinstance(s, Compute)] == [37, 37]
    inner = [s for s in statements(joined) if isinstance(s, For) and isinstance(s.body[0], Store)]
    assert [(s.axis.extent, len(s.body)) for s in inner] == [(37, 2)]
