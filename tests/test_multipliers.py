"""Depthwise convolutions with several filters for each channel: windows over repeated channels."""

from __future__ import annotations

import numpy as np
import pytest
from nets import Net, check_engines
from test_passes import values

from sardonyx.kernel.c99.windows import window_of
from sardonyx.kernel.ir import Compute
from sardonyx.machine import Machine
from sardonyx.native import NativeEngine
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.program import Program

CASES = (
    # groups, filters of each, window, what else
    (16, 2, (3, 3), {"pads": [1] * 4}),
    (24, 2, (7, 7), {"pads": [3] * 4, "strides": [2, 2]}),
    (8, 3, (3, 2), {"dilations": [2, 1]}),
    (5, 7, (2, 2), {"strides": [1, 2]}),
    (12, 4, (5,), {"pads": [4, 0]}),
)


def convolved(net: Net, case: int, x: str, kind: type = np.float32) -> str:
    groups, many, window, about = CASES[case]
    w = values(case, groups * many, 1, *window).astype(kind)
    return net.op("Conv", x, w, values(case + 1, groups * many).astype(kind), group=groups, **about)


def made(case: int, kind: type = np.float32) -> Net:
    """Such a convolution of what another gives, alone and with a residual sum behind it."""
    net, (groups, many, window, _) = Net(), CASES[case]
    space = (9, 11)[: len(window)]
    one = (1,) * len(window)
    x = net.feed("x", values(7, 2, 6, *space).astype(kind))
    y = net.op("Relu", net.op("Conv", x, values(8, groups, 6, *one).astype(kind)))
    first, second = (convolved(net, case, y, kind) for _ in range(2))
    total = net.op("Add", net.op("Sigmoid", first), second)
    last = values(9, 16, groups * many, *one).astype(kind)
    net.give(second, net.op("Conv", total, last))
    return net


def windows(program: Program) -> int:
    """How many sums of products are taken lane by lane."""
    body = [s for x in program.launches for s in x.kernel.body if isinstance(s, Compute)]
    return sum(window_of(s) is not None for s in body)


@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("case", range(len(CASES)))
def test_engines_agree(case: int, kind: type) -> None:
    check_engines(made(case, kind))


@pytest.mark.parametrize("case", range(len(CASES)))
def test_they_are_windows_over_one_copy(case: int) -> None:
    program = optimise(lower(made(case).graph(), overridable=False), roomy=True)
    assert windows(program) == 2
    assert sum(x.kernel.name == "repeat" for x in program.launches) == 1


def stay(net: Net) -> None:
    program = optimise(lower(net.graph(), overridable=False), roomy=True)
    assert not any(x.kernel.name == "repeat" for x in program.launches)
    check_engines(net)


@pytest.mark.parametrize(("channels", "many", "each"), [(16, 8, 1), (16, 2, 2), (3, 2, 1)])
def test_groups_that_fill_vectors_have_several_channels_or_are_few_stay(
    channels: int, many: int, each: int
) -> None:
    net, groups = Net(), channels // each
    x = net.feed("x", values(1, 1, channels, 9, 9))
    net.give(net.op("Conv", x, values(2, many * groups, each, 3, 3), group=groups))
    stay(net)


def test_what_is_read_in_another_place_too_is_not_a_copy() -> None:
    net = Net()
    x = net.op("Relu", net.op("Conv", net.feed("x", values(1, 1, 4, 9, 9)), values(3, 16, 4, 1, 1)))
    y = net.op("Conv", x, values(2, 32, 1, 3, 3), group=16, pads=[1] * 4)
    first = net.op("Slice", x, np.array([0]), np.array([1]), np.array([1]))
    net.give(net.op("Add", y, first))
    stay(net)


@pytest.mark.parametrize("sizes", [{0: "N"}, {0: "N", 2: "H"}], ids=str)
def test_sizes_that_are_symbols(sizes: dict[int, str]) -> None:
    net = Net()
    x = net.feed("x", values(4, 2, 24, 15, 15))
    net.give(convolved(net, 1, x))
    expected = Machine(net.graph()).run(net.feeds)
    found = NativeEngine(net.graph(sizes=sizes)).run(net.feeds)
    assert found[net.outputs[0]].tobytes() == expected[net.outputs[0]].tobytes()
