"""Rows that data choose are checked once each, with the bits and the errors of the machine."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from nets import Net, check_engines
from test_forms import text
from test_passes import values

from sardonyx.errors import RunError
from sardonyx.machine import Machine
from sardonyx.native import NativeEngine

TYPES = ("f4", "f8", "f2", "i8", "i4", "u4", "u1", "?", "c8")


def gathers(net: Net) -> None:
    for dtype in TYPES:
        bits = np.arange(7 * 24 * np.dtype(dtype).itemsize, dtype=np.uint8)
        given = bits.view(dtype) if dtype != "?" else bits % 3 == 0
        x = net.feed(f"x{dtype}", given.reshape(7, 2, 12))
        at = net.feed(f"i{dtype}", np.array([[0, -7, 6], [-1, 3, 3]]))
        net.give(net.op("Gather", x, at))
        net.give(net.op("Gather", x, net.feed(f"j{dtype}", np.array(-2))))
        net.give(net.op("Gather", x, net.feed(f"k{dtype}", np.array([1, -2, 0])), axis=1))
        net.give(net.op("GatherND", x, net.feed(f"l{dtype}", np.array([[6, -1], [-7, 0]]))))


def fused(net: Net) -> None:
    """Rows of two tables in a sum, of one by the rows of another, in a selection."""
    words, kinds = (values(n, 9 - n, 33) for n in (0, 1))
    words[2] = np.uint32([0xFFC00001, 0x7F800001, 0x80000000] * 11).view("f4")
    a, b = net.feed("a", np.array([2, -9, 8])), net.feed("b", np.array([0, -1, -8]))
    both = net.op("Add", net.op("Gather", words, a), net.op("Gather", kinds, b))
    net.give(both, net.op("Relu", both))
    table = net.feed("table", np.arange(40, dtype=np.int64).reshape(5, 8) - 5)
    inner = net.op("Gather", table, net.feed("row", np.array([4, -1, 0])))
    net.give(net.op("Gather", net.feed("long", values(2, 35, 17)), inner))
    rows = net.op("Gather", net.feed("y", values(3, 6, 20)), net.feed("n", np.array([5, -6])))
    net.give(net.op("Where", net.op("Greater", rows, np.float32(0)), rows, np.float32(-1)))


@pytest.mark.parametrize("family", [gathers, fused], ids=lambda f: f.__name__)
def test_the_bits_are_those_of_the_machine(family: Callable[[Net], None]) -> None:
    net = Net()
    family(net)
    check_engines(net)


@pytest.mark.parametrize("at", [[5], [0, -6], [1, 2**62, 0], [-(2**63)]])
def test_a_row_that_is_not_there_is_an_error(at: list[int]) -> None:
    net = Net()
    net.give(net.op("Gather", net.feed("x", values(0, 5, 20)), net.feed("i", np.array(at))))
    for engine in (Machine, NativeEngine):
        with pytest.raises(RunError, match="out of bounds"):
            engine(net.graph()).run(net.feeds)


def test_the_loop_over_a_row_has_no_trap() -> None:
    net = Net()
    net.give(net.op("Gather", net.feed("x", values(0, 5, 20)), net.feed("i", np.array([1, 2]))))
    (loop,) = re.findall(r"for \(int64_t i1 .*\{\n(.*)\n", text(net))
    assert not re.search("sx_trap|sx_hidden", loop)


def test_an_element_that_data_choose_is_checked_by_itself() -> None:
    net = Net()
    x, at = net.feed("x", values(0, 5, 20)), net.feed("i", np.array([1, 2]))
    net.give(net.op("Gather", x, at, axis=1))
    assert re.search(r"\? in0\[.*\] : sx_trap\(status, 1\)", text(net))
