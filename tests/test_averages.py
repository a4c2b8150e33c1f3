"""Sums over windows with borders, from copies of planes: the bytes of the definition."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from nets import Net, check_engines
from test_maxima import placed
from test_passes import check, values

from sardonyx import types as t
from sardonyx.dims import substitute
from sardonyx.kernel.affine import affine
from sardonyx.kernel.expr import Axis, Buffer, Fold, Load
from sardonyx.kernel.ir import For, Store, expressions, statements
from sardonyx.kernel.walk import walk
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.slides import in_strips

ROW = Buffer("row", t.int64, (64,))
ABOUT = (
    {"kernel_shape": [3, 3], "pads": [1] * 4},
    {"kernel_shape": [5, 3], "pads": [2, 1, 1, 0], "strides": [1, 2]},
    {"kernel_shape": [1, 3], "pads": [0, 1, 0, 1]},
    {"kernel_shape": [3, 4], "pads": [2, 3, 1, 2], "strides": [2, 3], "ceil_mode": 1},
    {"kernel_shape": [7, 7], "pads": [3] * 4},
    {"kernel_shape": [5, 4]},
    {"kernel_shape": [3, 6], "strides": [2, 3]},
    {"kernel_shape": [9, 5], "strides": [1, 6]},
    {"kernel_shape": [9, 11], "pads": [4, 5] * 2},
    {"kernel_shape": [9, 15], "pads": [4, 7] * 2},
    {"kernel_shape": [7, 20], "pads": [3, 9, 3, 10], "strides": [2, 1]},
    {"kernel_shape": [9, 14], "pads": [4, 9] * 2, "strides": [5, 7]},
)


@pytest.mark.parametrize("counted", [0, 1])
def test_averages_are_the_machines(counted: int) -> None:
    net = Net()
    for (i, about), width in product(enumerate(ABOUT), (6, 13, 16, 37, 53)):
        x = net.feed(f"x{len(net.feeds)}", values(i + width, 2, 3, 9, width))
        net.give(net.op("AveragePool", x, count_include_pad=counted, **about))
    x = net.feed("blocked", values(7, 1, 16, 9, 10))
    y = net.op("AveragePool", placed(net, x, 16), count_include_pad=counted, **ABOUT[0])
    net.give(net.op("Sigmoid", y))
    line = net.feed("line", values(8, 2, 3, 40))
    net.give(net.op("AveragePool", line, kernel_shape=[3], pads=[1, 1], count_include_pad=counted))
    check_engines(net)


@pytest.mark.parametrize("kind", [np.float16, t.bfloat16.numpy, np.float64])
def test_averages_of_other_floats_are_the_machines(kind: type) -> None:
    net = Net()
    for i, about in enumerate(ABOUT):
        x = np.nan_to_num(values(i, 1, 3, 9, 20), nan=-0.0, posinf=9, neginf=-9).astype(kind)
        net.give(net.op("AveragePool", net.feed(f"x{i}", x), **about))
    check_engines(net)


@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize(("width", "high"), [(10, 3), (20, 3), (17, 1)])
def test_planes_are_summed_before_what_blocks_make_of_them(
    kind: type, width: int, high: int
) -> None:
    """A pool of channels first within a residual in blocks of channels, as PoolFormer has it."""
    net = Net()
    x = net.feed("x", values(3, 1, 16, 9, width).astype(kind))
    w, scale = values(4, 32, 16, 1, 1).astype(kind), values(5, 32, 1, 1).astype(kind)
    planes = net.op("Abs", net.feed("planes", values(6, 1, 32, 9, width).astype(kind)))
    pads = [high // 2, 1] * 2
    pool = net.op("AveragePool", planes, kernel_shape=[high, 3], pads=pads)
    mixed = net.op("Mul", net.op("Sub", pool, planes), scale)
    y, w_next = net.op("Relu", net.op("Conv", x, w)), w.transpose(1, 0, 2, 3)
    net.give(net.op("Conv", net.op("Add", y, mixed), w_next), net.op("Conv", y, w_next))
    check_engines(net)
    program = optimise(lower(net.graph(), overridable=False), roomy=True)
    every = (s for x in program.launches for s in statements(x.kernel.body))
    roots = [e for s in every for e in expressions(s)]
    assert not any(isinstance(e, Fold) and e.kind == "sum" for e in walk(*roots))


def of_bytes(kind: type[np.generic], *every: dict[str, object]) -> Net:
    """Averages of bytes, channels first and in blocks, what is outside counted and not."""
    net, rng = Net(), np.random.default_rng(7)
    about = (np.float32(0.02), kind(5))
    w = net.op("DequantizeLinear", rng.integers(-9, 9, (16, 16, 1, 1)).astype(np.int8), about[0])
    for (i, one), channels in product(enumerate(every), (3, 16)):
        x = rng.integers(-100, 100, (2, channels, 9, 13)).astype(kind)
        y = net.op("DequantizeLinear", net.feed(f"x{len(net.feeds)}", x), *about)
        if channels == 16:
            y = net.op("QuantizeLinear", net.op("Conv", y, w), *about)
            y = net.op("DequantizeLinear", y, *about)
        y = net.op("AveragePool", y, count_include_pad=i % 2, **one)
        net.give(net.op("QuantizeLinear", y, np.float32(0.015), kind(7)))
    return net


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_averages_of_bytes_are_the_machines(kind: type[np.generic]) -> None:
    apart: dict[str, object] = {"kernel_shape": [2, 2], "strides": [3, 3]}
    check_engines(of_bytes(kind, *ABOUT, *ABOUT[:2], apart))


@pytest.mark.parametrize("kind", [np.uint8, np.int8])
def test_averages_of_bytes_are_summed_in_two_steps(kind: type[np.generic]) -> None:
    program = optimise(lower(of_bytes(kind, ABOUT[0]).graph()), roomy=True, dots=True)
    every = (s for x in program.launches for s in statements(x.kernel.body))
    roots = [e for s in every for e in expressions(s)]
    assert not any(isinstance(e, Fold) and e.kind == "sum" for e in walk(*roots))


@pytest.mark.parametrize("size", [7, 8, 20, 40])
def test_windows_that_touch_are_the_machines(size: int) -> None:
    """Up to 1024 terms are put one behind the other first."""
    net = Net()
    for high, wide in ((size, size), (2 * size, size), (size, 2 * size + 1)):
        x = net.feed(f"x{high} {wide}", values(size, 2, 3, high, wide))
        net.give(net.op("AveragePool", x, kernel_shape=[size] * 2, strides=[size] * 2))
    check_engines(net)


def test_a_window_of_all_that_there_is_is_a_row() -> None:
    net = Net()
    net.give(net.op("AveragePool", net.feed("x", values(1, 2, 3, 7, 9)), kernel_shape=[7, 9]))
    (launch,) = optimise(lower(net.graph(), overridable=False)).launches
    (s,) = launch.kernel.body
    folds = [e for e in walk(*expressions(s)) if isinstance(e, Fold)]
    assert [a.extent for e in folds for a in e.axes] == [63]


def test_the_sum_of_negative_zeros_is_positive() -> None:
    net = Net()
    x = net.feed("x", np.full((1, 1, 4, 16), -0.0, np.float32))
    net.give(net.op("AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4))
    check_engines(net)


def test_each_pass_keeps_the_bits_of_an_average() -> None:
    net = Net()
    x = net.feed("x", values(6, 1, 2, 5, 17))
    net.give(net.op("AveragePool", x, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 1, 0, 1]))
    check(net)


@pytest.mark.parametrize("kind", [np.float32, np.float16])
def test_no_window_asks_where_its_input_ends(kind: type) -> None:
    net = Net()
    x = net.feed("x", values(5, 1, 4, 20, 21).astype(kind))
    net.give(net.op("AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4))
    (launch,) = optimise(lower(net.graph(), overridable=False)).launches
    found = [e for s in statements(launch.kernel.body) for e in walk(*expressions(s))]
    assert not any(isinstance(e, Fold) for e in found)


def test_large_windows_read_a_plane_with_borders() -> None:
    net = Net()
    net.give(net.op("AveragePool", net.feed("x", values(1, 1, 4, 9, 40)), **ABOUT[9]))
    (launch,) = optimise(lower(net.graph(), overridable=False)).launches
    found = [e for s in statements(launch.kernel.body) for e in walk(*expressions(s))]
    assert all(e.mode == "proven" for e in found if isinstance(e, Load))


@pytest.mark.parametrize("extent", [1, 5, 8, 11, 16, 20, 32, 45])
def test_strips_cover_an_axis_and_nothing_else(extent: int) -> None:
    seen = set[object]()

    def visit(s: For, index: dict[Axis, int]) -> None:
        for i in range(int(str(s.axis.extent))):
            for x in s.body:
                at = {**index, s.axis: i}
                if isinstance(x, For):
                    visit(x, at)
                elif isinstance(x, Store):
                    form = affine(x.index[0])
                    assert form is not None
                    seen.add(substitute(form, lambda a, at=at: at.get(a)))

    for s in in_strips(extent, lambda at: (Store(ROW, (at,), at),)):
        assert isinstance(s, For)
        visit(s, {})
    assert seen == set(range(extent))


@pytest.mark.parametrize("name", ["AveragePool", "MaxPool"])
def test_windows_of_nothing_and_no_windows_have_no_planes(name: str) -> None:
    """No place, no row to read, no channel, no picture."""
    net = Net()
    x = net.feed("small", values(1, 1, 1, 2, 2))
    net.give(net.op(name, x, kernel_shape=[3, 3]))
    for shape in ((1, 1, 0, 4), (2, 0, 8, 20), (0, 3, 8, 20)):
        x = net.feed(f"x{shape}", np.zeros(shape, np.float32))
        net.give(net.op(name, x, kernel_shape=[2, 3], pads=[1] * 4))
    check_engines(net)
