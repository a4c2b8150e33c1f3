"""Nearest neighbours, a whole number of times as many: each is read once, with the same bytes."""

from __future__ import annotations

import numpy as np
import pytest
from nets import Net, check_engines
from test_maxima import placed
from test_passes import check, values

from sardonyx.kernel.expr import Load
from sardonyx.kernel.ir import expressions, statements
from sardonyx.kernel.walk import walk
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise

FLOOR = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
CEIL = {**FLOOR, "nearest_mode": "ceil"}
NONE = np.float32([])


def resized(net: Net, x: str, *scales: float, **about: str) -> str:
    return net.op("Resize", x, NONE, np.float32([1, 1, *scales]), **about)


@pytest.mark.parametrize("about", [FLOOR, CEIL, {}], ids=["floor", "ceil", "half_pixel"])
def test_repeated_elements_are_the_machines(about: dict[str, str]) -> None:
    net = Net()
    for i, scales in enumerate(((2, 2), (1, 3), (4, 1), (4, 4), (2, 5), (1.5, 2), (5, 5))):
        x = net.feed(f"x{i}", values(i, 2, 3, 6, (5, 16, 21)[i % 3]))
        net.give(resized(net, x, *scales, **about))
    x = net.feed("x", values(9, 1, 16, 6, 10))
    net.give(net.op("Relu", resized(net, placed(net, x, 16), 2, 2, **about)))
    wide = net.feed("wide", values(10, 1, 16, 12, 20))
    net.give(net.op("Add", net.op("Neg", resized(net, x, 2, 2, **about)), wide))
    net.give(net.op("Concat", resized(net, x, 2, 2, **about), wide, axis=1))
    net.give(resized(net, net.feed("b", np.arange(80, dtype=np.uint8).reshape(1, 1, 8, 10)), 2, 2))
    check_engines(net)


def test_nothing_is_repeated() -> None:
    net = Net()
    for shape in ((1, 2, 0, 20), (0, 2, 8, 20), (1, 0, 8, 20)):
        x = net.feed(f"x{shape}", np.zeros(shape, np.float32))
        net.give(resized(net, x, 2, 2, **FLOOR))
    check_engines(net)


def test_each_pass_keeps_the_bits_of_repeats() -> None:
    net = Net()
    net.give(resized(net, net.feed("x", values(6, 1, 2, 3, 17)), 2, 3, **FLOOR))
    check(net)


def test_no_table_is_asked_which_element_is_repeated() -> None:
    net = Net()
    net.give(resized(net, net.feed("x", values(5, 1, 4, 20, 21)), 2, 2, **FLOOR))
    program = optimise(lower(net.graph(), overridable=False))
    (launch,) = program.launches
    found = [e for s in statements(launch.kernel.body) for e in walk(*expressions(s))]
    assert len({e.buffer for e in found if isinstance(e, Load)}) == 1
    assert not program.weights
