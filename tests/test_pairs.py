"""Rows of two elements behind a condition: gcc 12 makes wrong vectors of them, gcc 11 of complex
ones."""

from __future__ import annotations

import numpy as np
import pytest
from nets import Net

from sardonyx.machine import Machine
from sardonyx.native import NativeEngine

TYPES = ["uint8", "uint16", "float32", "float64", "int64", "complex64", "complex128"]


@pytest.mark.parametrize("schedule", [True, False])
@pytest.mark.parametrize("dtype", TYPES)
def test_rows_of_two_behind_a_condition_are_the_machines(dtype: str, schedule: bool) -> None:
    net = Net()
    x = net.feed("x", (np.arange(256) % 251 + 1).astype(dtype).reshape(128, 2))
    back = net.op("Slice", x, np.array([-1]), np.array([-3]), np.array([1]), np.array([-1]))
    pads = [[1, 0, 0, 0], [0, 0, 3, 0], [2, 0, 2, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    net.give(*(net.op("Pad", a, np.array(p)) for a in (x, back) for p in pads))
    net.give(net.op("Concat", x, back, net.op("Pad", x, np.array([5, 0, 0, 0])), axis=0))
    graph = net.graph()
    machine, native = Machine(graph).run(net.feeds), NativeEngine(graph, schedule=schedule)
    found = native.run(net.feeds)
    assert all(found[n].tobytes() == machine[n].tobytes() for n in net.outputs)
