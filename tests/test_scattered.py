"""Stores at places that weights decide are made once; what they give, and refuse, is the same."""

from __future__ import annotations

import numpy as np
import pytest
from nets import Net
from test_passes import check, outputs, values

from sardonyx.errors import RunError
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise

ROWS = np.array([[3], [-1], [0], [3], [-4]])  # 3 is written to thrice, 0 twice
PLACES = np.array([[3, 0, -1, 2], [3, 0, 1, 2], [1, 3, 1, -2]])


def scattered(net: Net, rows: np.ndarray, x: str | None = None) -> str:
    """Rows of a table of four, exchanged."""
    return net.op("ScatterND", values(1, 4, 3) if x is None else x, rows, values(2, len(rows), 3))


def test_rows_are_written_once() -> None:
    net = Net()
    table = scattered(net, ROWS)
    net.give(net.op("Add", net.feed("x", values(3, 4, 3)), table), table)
    (launch,) = check(net).launches
    assert [op.op_type for op in launch.operations] == ["Add"]


def test_elements_are_written_once() -> None:
    net = Net()
    table = net.op("ScatterElements", values(1, 4, 4), PLACES, values(2, 3, 4), axis=1)
    net.give(net.op("Neg", net.feed("x", values(3, 2))), table)
    assert len(check(net).launches) == 1


def test_nothing_and_one_number_are_written_once() -> None:
    net = Net()
    none = scattered(net, np.zeros((0, 1), np.int64))
    one = net.op("ScatterND", np.float32(1), np.zeros((2, 0), np.int64), np.float32([2, 3]))
    net.give(none, one, net.op("Neg", net.feed("x", values(3, 2))))
    assert len(check(net).launches) == 1


@pytest.mark.parametrize("row", [4, -5])
def test_a_row_outside_is_the_error_of_the_run(row: int) -> None:
    net = Net()
    net.give(scattered(net, np.array([[1], [row]])), net.op("Neg", net.feed("x", values(3, 2))))
    program = lower(net.graph())
    for each in program, optimise(program):
        with pytest.raises(RunError, match="outside"):
            outputs(each, net.feeds)


@pytest.mark.parametrize("fed", ["data", "updates"])
def test_stores_of_or_into_what_is_fed_are_left(fed: str) -> None:
    net = Net()
    given = net.feed("x", values(3, 4, 3) if fed == "data" else values(3, 5, 3))
    if fed == "data":
        net.give(scattered(net, ROWS, given))
    else:
        net.give(net.op("ScatterND", values(1, 4, 3), ROWS, given))
    (launch,) = check(net).launches
    assert launch.performs("", "ScatterND")


def test_sums_into_elements_are_left() -> None:
    net = Net()
    table = net.op("ScatterND", values(1, 4, 3), ROWS, values(2, 5, 3), reduction="add")
    net.give(net.op("Add", net.feed("x", values(3, 4, 3)), table))
    assert any(launch.performs("", "ScatterND") for launch in check(net).launches)
