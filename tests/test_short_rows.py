"""The greatest and least of short rows, and their places: the bytes of the definition."""

from __future__ import annotations

import numpy as np
import pytest
from nets import Net, check_engines
from test_passes import values

from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise


def extremes(*widths: int) -> Net:
    """Of rows with infinities, NaNs, zeros of both signs and equal numbers."""
    net = Net()
    for width in widths:
        odd = values(width, 40, width)
        few = np.random.default_rng(width).integers(-1, 2, (40, width)).astype(np.float32)
        x = net.feed(f"x{width}", np.concatenate([odd, few, -0.0 * few]))
        for last in (0, 1):
            net.give(net.op("ArgMax", x, axis=1, select_last_index=last))
            net.give(net.op("ArgMin", x, axis=1, keepdims=0, select_last_index=last))
        net.give(net.op("ReduceMax", x, np.array([1])), net.op("ReduceMin", x, np.array([1])))
    return net


@pytest.mark.parametrize("widths", [range(2, 12), range(12, 20), range(20, 34)])
def test_extremes_are_the_machines(widths: range) -> None:
    check_engines(extremes(*widths))


def text(width: int) -> str:
    net = Net()
    net.give(net.op("ArgMax", net.feed("x", values(1, 40, width)), axis=1))
    return "".join(print_scheduled(x.kernel).text for x in optimise(lower(net.graph())).launches)


@pytest.mark.parametrize(("width", "rolled"), [(5, 1), (8, 0), (10, 1), (13, 0)])
def test_a_place_is_looked_for_in_a_loop_that_stays_one(width: int, rolled: int) -> None:
    assert text(width).count(f"sx_rolled() for (int64_t r1 = 0; r1 < {width}; r1++)") == rolled


@pytest.mark.parametrize(("width", "parts"), [(19, False), (20, True)])
def test_rows_of_twenty_numbers_go_sixteen_at_a_time(width: int, parts: bool) -> None:
    assert ("sx_max16_f32" in text(width)) == parts
