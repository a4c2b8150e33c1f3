"""Many narrow parts that are only joined are computed row by row, to the same bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nets import Net
from test_passes import check, outputs, values

from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.kernel.expr import Where
from sardonyx.kernel.ir import For, expressions, statements
from sardonyx.kernel.walk import walk
from sardonyx.passes.choices import MANY
from sardonyx.passes.columns import join_columns
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.program import Launch


def products(count: int, rows: int = 5, **given: Any) -> Net:
    """Products of one to three features each, as polynomial features are, behind a constant."""
    net, rng = Net(), np.random.default_rng(count)
    x = net.feed("x", values(1, rows, 20))
    parts: list[str | np.ndarray] = [values(2, rows, 1)]
    for i in range(count):
        chosen = net.op("Gather", x, rng.integers(-20, 20, 1 + i % 3), axis=1)
        parts.append(net.op("ReduceProd", chosen, np.array([1]), keepdims=1))
    net.give(net.op("Concat", *parts, axis=1))
    return net


def chooses(launch: Launch) -> bool:
    nodes = [e for s in statements(launch.kernel.body) for e in walk(*expressions(s))]
    return any(isinstance(e, Where) for e in nodes)


@pytest.mark.parametrize("rows", [1, 5])
def test_columns_are_one_launch(rows: int) -> None:
    (launch,) = check(products(12, rows)).launches
    assert not chooses(launch)
    assert isinstance(launch.kernel.body[0], For) == (rows > 1)


def test_columns_of_a_batch_without_a_size_are_one_launch() -> None:
    net = products(12)
    net.weights.pop(net.nodes[-1].input[0])
    net.nodes[-1].input.pop(0)
    (launch,) = optimise(lower(net.graph("n"))).launches
    assert not chooses(launch)
    assert outputs(optimise(lower(net.graph())), net.feeds) == outputs(
        lower(net.graph()), net.feeds
    )


def test_many_columns_are_several_loops_of_a_launch() -> None:
    net = products(MANY + 8)
    (launch,) = optimise(lower(net.graph())).launches
    assert len(launch.kernel.body) == 2
    assert outputs(optimise(lower(net.graph())), net.feeds) == outputs(
        lower(net.graph()), net.feeds
    )


def test_more_columns_than_python_has_frames() -> None:
    net = Net()
    parts = [net.feed(f"x{i}", values(i, 2, 1)) for i in range(1100)]
    net.give(net.op("Concat", *parts, axis=1))
    (whole,) = outputs(optimise(lower(net.graph())), net.feeds)
    assert whole == np.concatenate(list(net.feeds.values()), 1).tobytes()


def test_columns_that_are_fed_are_copied_row_by_row() -> None:
    net = Net()
    parts = [net.feed(f"x{i}", values(i, 6, 1 + i % 2)) for i in range(20)]
    net.give(net.op("Concat", *parts, axis=1))
    (launch,) = check(net).launches
    assert len(launch.kernel.body) == 1
    assert not chooses(launch)


@pytest.mark.parametrize("few", ["few", "wide", "read twice"])
def test_other_parts_are_left(few: str) -> None:
    net, width = Net(), 16 if few == "wide" else 1
    x = net.feed("x", values(1, 5, 20, width))
    parts = [
        net.op("ReduceProd", net.op("Gather", x, np.array([i, 3]), axis=1), np.array([1]))
        for i in range(3 if few == "few" else 9)
    ]
    net.give(net.op("Concat", *parts, axis=2), *(parts if few == "read twice" else ()))
    check(net)
    program = lower(net.graph())
    assert len(join_columns(program).launches) == len(program.launches)


def test_threads_share_the_rows_of_columns() -> None:
    (launch,) = optimise(lower(products(40, 20000).graph())).launches
    assert print_scheduled(launch.kernel, threads=True).shares
