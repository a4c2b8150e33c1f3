"""Softmax and the normalisations take one row after the other through all their steps."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from nets import Net
from test_passes import check, values

from sardonyx.kernel.ir import Compute, For, Kernel, statements
from sardonyx.machine import Machine
from sardonyx.native import NativeEngine
from sardonyx.types import Array

CASES: dict[str, tuple[tuple[int, ...], list[tuple[int, ...]], dict[str, Any]]] = {
    "Softmax": ((3, 5, 40), [], {"axis": -1}),
    "LogSoftmax": ((3, 5, 33), [], {"axis": -1}),
    "LayerNormalization": ((6, 48), [(48,), (48,)], {"axis": -1}),
    "RMSNormalization": ((6, 48), [(48,)], {"axis": -1}),
    "InstanceNormalization": ((2, 3, 7, 9), [(3,), (3,)], {}),
    "GroupNormalization": ((2, 6, 4, 5), [(6,), (6,)], {"num_groups": 2}),
    "LRN": ((2, 6, 4, 5), [], {"size": 3}),
    "LpNormalization": ((4, 50), [], {"axis": -1, "p": 2}),
}


def one(name: str, dtype: type = np.float32) -> Net:
    shape, weights, attributes = CASES[name]
    net = Net()
    with np.errstate(invalid="ignore"):  # of signalling NaNs
        x, *rest = (values(i, *s).astype(dtype) for i, s in enumerate((shape, *weights)))
    net.give(net.op(name, net.feed("x", x), *rest, **attributes))
    return net


def loops(kernel: Kernel) -> int:
    """How deep the loops around all else are."""
    depth, body = 0, kernel.body
    while len(body) == 1 and isinstance(body[0], For):
        depth, body = depth + 1, body[0].body
    return depth


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_rows_keep_the_bits(name: str, dtype: type) -> None:
    check(one(name, dtype))


@pytest.mark.parametrize("name", CASES)
def test_a_row_goes_through_all_steps_and_needs_its_own_memory_alone(name: str) -> None:
    (launch,) = check(one(name)).launches
    shape = CASES[name][0]
    depth = 2 if name in ("InstanceNormalization", "GroupNormalization", "LRN") else len(shape) - 1
    assert loops(launch.kernel) == depth
    longest = prod(shape) // (prod(shape[:depth]) if name != "GroupNormalization" else 4)
    assert all(prod(b.shape) <= longest for b in launch.kernel.temporaries)


def test_cheap_steps_are_not_stored() -> None:
    """A layer normalisation keeps its mean, variance and deviation."""
    (launch,) = check(one("LayerNormalization")).launches
    assert [b.shape for b in launch.kernel.temporaries] == [(1,)] * 3


def test_columns_are_not_rows() -> None:
    """The maximum along the first axis needs all rows before any is divided."""
    net = Net()
    net.give(net.op("Softmax", net.feed("x", values(3, 20, 30)), axis=0))
    (launch,) = check(net).launches
    assert all(isinstance(s, Compute) for s in statements(launch.kernel.body))


def extremes(kind: type[np.floating], axis: int) -> Net:
    """Maxima and minima where zeros, infinities and NaNs meet."""
    rng, net = np.random.default_rng(4), Net()
    for n in (31, 32, 33, 64, 79):
        zeros = np.where(rng.random((8, n)) < 0.5, 0.0, -0.0).astype(np.float32)
        rare = np.where(rng.random((8, n)) < 0.02, values(n, 8, n), zeros).astype(np.float32)
        plain = rng.standard_normal((8, n)).astype(np.float32)
        infinite = np.full((1, n), np.inf, np.float32)
        rows: Array = np.concatenate([zeros, rare, plain, infinite, -infinite, -np.abs(plain)])
        x = net.feed(f"x{n}", rows.astype(kind))
        for op in ("ReduceMax", "ReduceMin"):
            net.give(net.op(op, x, np.array([axis]), keepdims=0))
    return net


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_sixteen_lanes_find_the_extremes_of_the_machine(kind: type[np.floating], axis: int) -> None:
    net = extremes(kind, axis)
    graph = net.graph()
    expected, found = Machine(graph).run(net.feeds), NativeEngine(graph).run(net.feeds)
    assert all(found[n].tobytes() == expected[n].tobytes() for n in graph.outputs)
