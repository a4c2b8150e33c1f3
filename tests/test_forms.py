"""Fast forms of single operations give the bits of the machine where their cases meet: tiles that
do not fill, borders, zeros of either sign, NaNs. Each family is one program."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from nets import Net
from test_passes import check, values

from sardonyx.dims import symbol
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.machine import Machine
from sardonyx.native import NativeEngine
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.resolve import graph_from_nodes
from sardonyx.types import TensorType, float32

ZEROS = np.float32([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, -1e-40, 1.5, -1.5] * 4)


def transposes(net: Net) -> None:
    shapes = (
        (7, 9),
        (8, 8),
        (16, 33),
        (40, 17),
        (24, 24),
        (3, 20, 35),
        (2, 9, 1, 24),
        (1, 30, 4, 5),
    )
    for n, shape in enumerate(shapes):
        for dtype in (np.float32, np.int8, np.float64):
            x = values(n, *shape).view(np.uint32).astype(dtype)
            given = net.feed(f"x{n}{np.dtype(dtype)}", x)
            net.give(net.op("Transpose", given, perm=list(range(len(shape)))[::-1]))
            net.give(net.op("Transpose", given, perm=[*range(1, len(shape)), 0]))


def transposed_sums(net: Net) -> None:
    """Arithmetic on what is read along another axis."""
    for n, (rows, columns) in enumerate(((9, 31), (48, 16))):
        x, y = (net.feed(f"{c}{n}", values(n, rows, columns)) for c in "xy")
        z = net.feed(f"z{n}", values(n, columns, rows))
        net.give(net.op("Add", net.op("Transpose", net.op("Mul", x, y), perm=[1, 0]), z))


def pools(net: Net) -> None:
    """Windows over borders, alone and behind a convolution, whose layout they then have."""
    windows = ([3, 3], [2, 3], [5, 1], [1, 1])
    for n, (window, steps, ceil) in enumerate(product(windows, ([1, 1], [2, 2], [2, 1]), (0, 1))):
        x = values(n, 1, 6, 11, 13)
        x = np.where(np.abs(x) < 0.3, np.copysign(np.float32(0), x), x)
        about = {"kernel_shape": window, "strides": steps, "ceil_mode": ceil}
        pads = [window[0] // 2, window[1] // 2] * 2
        given = net.feed(f"x{n}", x)
        net.give(net.op("MaxPool", given, pads=pads, **about))
        for counted in (0, 1):
            y = net.op("AveragePool", given, pads=pads, count_include_pad=counted, **about)
            net.give(y)
    for n, channels in enumerate((16, 24, 40)):
        weights = values(n, channels, 3, 1, 1)
        y = net.op("Conv", net.feed(f"c{n}", values(n, 1, 3, 9, 9)), weights)
        for op in ("MaxPool", "AveragePool"):
            net.give(net.op(op, y, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]))
        zeros = net.op("Mul", y, np.float32(-0.0))
        net.give(
            net.op("AveragePool", zeros, kernel_shape=[2, 2], count_include_pad=1, pads=[1] * 4)
        )


def bounds(net: Net) -> None:
    """Minima and maxima with a constant: of every sign of zero."""
    x = net.feed("x", ZEROS)
    net.give(net.op("Relu", x))
    for value in (0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, 1e-40):
        for op, dtype in product(("Max", "Min"), (np.float32, np.float64)):
            given = x if dtype is np.float32 else net.op("Cast", x, to=11)
            net.give(net.op(op, given, np.asarray(value, dtype)))
    net.give(net.op("Clip", x, np.float32(-1), np.float32(0)))
    odd = np.concatenate((ZEROS, np.uint32([0xFFC00001, 0x7F800001, 0x80000000] * 4).view("f4")))
    y = net.feed("y", odd)
    inf = np.inf
    for least, most in ((0, 6), (-1, 1.5), (0, 0), (1.5, 1.5), (2, 1), (-inf, inf), (-1, -0.0)):
        net.give(net.op("Clip", y, np.float32(least), np.float32(most)))


def small_folds(net: Net) -> None:
    """Extremes over fewer terms than lanes."""
    for n, shape in enumerate(((8, 3), (9, 31), (4, 5, 6))):
        x = net.feed(f"x{n}", np.resize(ZEROS, shape))
        axes = np.arange(1, len(shape))
        net.give(*(net.op(op, x, axes, keepdims=0) for op in ("ReduceMax", "ReduceMin")))


def tails(net: Net) -> None:
    """Channels that do not fill their last block of sixteen, as one run of terms or two."""
    for n, channels in enumerate((24, 40, 265, 530)):
        x = net.feed(f"x{n}", values(n, 2, channels, 3, 5))
        net.give(net.op("Conv", x, values(n, 48, channels, 1, 1)))
        net.give(net.op("Conv", x, values(n, 32, channels, 2, 1)))


def resized(net: Net) -> None:
    """Places that a table chooses, in blocks of channels and along the last axis."""
    for n, channels in enumerate((16, 12)):
        x = net.feed(f"x{n}", values(n, 1, 3, 5, 7))
        y = net.op("Conv", x, values(n, channels, 3, 1, 1))
        y = net.op("Resize", y, "", np.float32([1, 1, 2, 3]), mode="nearest")
        net.give(net.op("Conv", y, values(n, 16, channels, 1, 1)))


def turned_sums(net: Net) -> None:
    """Sums of products of few rows, whose terms are neighbours in the other factor."""
    for n, (rows, lanes, terms) in enumerate(
        ((1, 64, 8), (1, 128, 13), (2, 100, 64), (3, 300, 21), (1, 17, 40), (1, 256, 7))
    ):
        a, b = values(n, 2, rows, terms), values(n + 9, 2, lanes, terms)
        a[0, :, 1], b[0, 3, 2], b[1, 5, 0] = -0.0, np.nan, np.inf
        turned = net.op("Transpose", net.feed(f"b{n}", b), perm=[0, 2, 1])
        y = net.op("MatMul", net.feed(f"a{n}", a), turned)
        net.give(y, net.op("Softmax", y))
    g, h = (net.feed(c, values(n, n, 24)) for n, c in ((1, "g"), (72, "h")))
    net.give(net.op("Gemm", g, h, transB=1))


def wide_integers(net: Net) -> None:
    """Integers of 64 bits as float64: ties and both ends."""
    near = [s * (2**e + d) for e in (0, 31, 32, 53, 54, 62) for d in (-1, 0, 1, 3) for s in (1, -1)]
    ends = [2**63 - 1, -(2**63), -(2**63) + 513, 2**63 - 513, 2**62 + 256, 2**62 + 257, 0]
    net.give(net.op("Cast", net.feed("x", np.array(near + ends, np.int64)), to=11))


def there_and_back(net: Net) -> None:
    """Floats as a type of 16 bits and back: around each of its values and what lies between two,
    NaNs of every kind."""
    for n, (dtype, to) in enumerate(((np.float16, 10), (np.uint16, 16))):
        codes = np.arange(1 << 16, dtype=np.uint16)
        bits = codes.astype(np.uint32) << 16
        if dtype is np.float16:
            bits = codes.view(dtype).astype(np.float32).view(np.uint32)
        near = (bits + d for d in np.uint32([0, 1, 0xFFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001]))
        rest = np.arange(0, 1 << 32, 99_991, np.uint32)
        x = net.feed(f"x{n}", np.concatenate([*near, rest]).view(np.float32))
        net.give(net.op("Cast", net.op("Cast", x, to=to), to=1))


def sums(net: Net) -> None:
    """Sums under lanes, of whole turns of their partial sums, and with terms that are left."""
    shapes = ((40, 24), (3, 32, 20), (2, 16, 16), (35, 9), (2, 20, 40), (1, 28, 17))
    for kind, (i, shape) in product((np.float32, np.float64), enumerate(shapes)):
        numbers = np.random.default_rng(i).standard_normal(shape) * 10.0**i
        x = net.feed(f"x{len(net.feeds)}", numbers.astype(kind))
        every = np.arange(len(shape) - 1)
        net.give(net.op("ReduceSum", x, every), net.op("ReduceSumSquare", x, every[-1:]))
        net.give(net.op("ReduceLogSumExp", x, every), net.op("ReduceMean", x, every))


def rounded_strips(net: Net) -> None:
    """Numbers, and bytes of another scale, as bytes along rows of whole strips: floats of note,
    ties, and bytes of all values; into a part of what is joined."""
    ties = np.arange(-300, 300, dtype=np.float32) * np.float32(0.5)
    noted = np.concatenate([ZEROS, np.float32([3e38, -3e38, 2.0**31, -(2.0**31)]), ties])
    for dtype, zero in ((np.uint8, 3), (np.int8, -7)):
        about = np.float32(0.3), dtype(zero)
        for n, shape in enumerate(((5, 16), (2, 3, 48), (40, 64))):
            x = net.feed(f"x{n}{zero}", np.resize(noted, shape))
            y = net.feed(f"y{n}{zero}", np.resize(np.arange(256), shape).astype(dtype))
            wide = net.op("DequantizeLinear", y, np.float32(0.7), dtype(9))
            made = net.op("QuantizeLinear", x, *about), net.op("QuantizeLinear", wide, *about)
            net.give(net.op("Concat", *made, axis=-1), *made)


FAMILIES = (
    rounded_strips,
    sums,
    there_and_back,
    transposes,
    transposed_sums,
    turned_sums,
    pools,
    bounds,
    small_folds,
    tails,
    resized,
    wide_integers,
)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_fast_forms_keep_the_bits(family: Callable[[Net], None]) -> None:
    net = Net()
    family(net)
    graph = net.graph()
    expected, found = Machine(graph).run(net.feeds), NativeEngine(graph).run(net.feeds)
    assert [n for n in graph.outputs if found[n].tobytes() != expected[n].tobytes()] == []


def text(net: Net) -> str:
    launches = optimise(lower(net.graph())).launches
    return "\n".join(print_scheduled(x.kernel).text for x in launches)


def test_sums_of_bytes_under_lanes_widen_them_first() -> None:
    """Of channels behind a convolution, in blocks or last."""
    net, one = Net(opsets={"": 21, "com.microsoft": 1}), np.float32(1)
    for kind in (np.uint8, np.int8):
        for channels in (16, 40, 96):
            rng = np.random.default_rng(channels)
            x = rng.integers(-128, 128, (2, 16, 5, 7)).astype(np.int8).view(kind)
            w = rng.integers(-128, 128, (channels, 16, 1, 1)).astype(np.int8)
            given = net.feed(f"{kind.__name__}{channels}", x), one, kind(3), w, one, np.int8(0)
            y = net.op("QLinearConv", *given, np.float32(300), kind(7))
            parts = y, np.float32(0.3), kind(7), np.float32(0.05), kind(90)
            net.give(net.op("QLinearGlobalAveragePool", *parts, domain="com.microsoft"))
    graph = net.graph()
    expected, found = Machine(graph).run(net.feeds), NativeEngine(graph).run(net.feeds)
    assert [n for n in graph.outputs if found[n].tobytes() != expected[n].tobytes()] == []
    assert {f"sx_widen_{c}8(q" for c in "ui"} <= set(re.findall(r"sx_widen_[ui]8\(q", text(net)))


def test_what_is_rounded_to_bytes_goes_by_strips() -> None:
    net = Net()
    rounded_strips(net)
    assert not re.search(r"sx_[ui]8_of_f32\(", text(net))


@pytest.mark.parametrize(("lanes", "turned"), [(64, True), (17, True), (15, False)])
def test_neighbours_that_are_terms_are_turned_to_be_lanes(lanes: int, turned: bool) -> None:
    net = Net()
    a, b = net.feed("a", values(0, 1, 24)), net.feed("b", values(1, lanes, 24))
    net.give(net.op("MatMul", a, net.op("Transpose", b, perm=[1, 0])))
    assert ("sx_across_wide(" in text(net)) == turned


def test_one_row_meets_any_number_of_keys_and_values() -> None:
    net = Net()
    keys, rows = net.feed("keys", values(1, 1, 64)), net.feed("rows", values(0, 1, 64))
    scores = net.op("MatMul", rows, net.op("Transpose", keys, perm=[1, 0]))
    net.give(scores, net.op("MatMul", scores, keys))
    types = {
        "keys": TensorType(float32, (symbol("N"), 64)),
        "rows": TensorType(float32, (1, 64)),
    }
    graph = graph_from_nodes(net.nodes, inputs=list(types), outputs=net.outputs, types=types)
    engine, machine = NativeEngine(graph), Machine(graph)
    for n in (1, 16, 37, 130):
        feeds = {**net.feeds, "keys": values(n, n, 64)}
        found, expected = engine.run(feeds), machine.run(feeds)
        assert [y for y in graph.outputs if found[y].tobytes() != expected[y].tobytes()] == []


@pytest.mark.parametrize(("channels", "height", "runs"), [(24, 1, 1), (265, 1, 2), (24, 2, 2)])
def test_neighbouring_terms_are_one_run_up_to_its_length(
    channels: int, height: int, runs: int
) -> None:
    net = Net()
    weights = values(1, 48, channels, height, 1)
    net.give(net.op("Conv", net.feed("x", values(0, 1, channels, 3, 5)), weights))
    (found,) = re.findall(r"sx_run runs\[\] = \{(.*)\};", text(net))
    assert found.count("{") == runs


def test_a_short_run_is_not_taken_apart() -> None:
    net = Net()
    resized(net)
    assert re.search(r"sx_rolled\(\) for \(int64_t i\d = 0; i\d < 16;", text(net))
    assert re.search(r"sx_rolled\(\) for \(int64_t i\d = 0; i\d < 12;", text(net))


def test_a_maximum_in_lanes_is_not_taken_apart() -> None:
    net = Net()
    net.give(net.op("ReduceMax", net.feed("x", values(0, 2, 40, 32)), np.array([1])))
    assert re.search(r"sx_rolled\(\) for .*\n.*\n *acc0\[l0\] = sx_max_i32", text(net))


def test_the_partial_sums_of_lanes_are_variables() -> None:
    net = Net()
    net.give(net.op("ReduceSum", net.feed("x", values(0, 40, 32)), np.array([0])))
    found = text(net)
    assert "acc0[15][l0] = acc0[15][l0] + in0[" in found
    assert "acc0[r0 & 15][l0] = acc0[r0 & 15][l0] + in0[" in found


def test_a_relu_is_one_comparison() -> None:
    net = Net()
    net.give(net.op("Relu", net.feed("x", ZEROS)))
    assert "sx_atleast_f32(" in text(net)


@pytest.mark.parametrize(("least", "most", "clips"), [(0, 6, 1), (-1, 1, 1), (2, 1, 0), (0, 0, 0)])
def test_two_bounds_in_order_are_one_clip(least: float, most: float, clips: int) -> None:
    net = Net()
    net.give(net.op("Clip", net.feed("x", ZEROS), np.float32(least), np.float32(most)))
    found = text(net)
    assert found.count("sx_clip_f32(") == clips
    assert ("sx_canon_f32(" in found) == (clips == 0)


@pytest.mark.parametrize("value", [-0.0, np.nan])
def test_a_maximum_with_the_zero_that_loses_is_no_bound(value: float) -> None:
    net = Net()
    net.give(net.op("Max", net.feed("x", ZEROS), np.float32(value)))
    assert "sx_atleast_f32(" not in text(net)


@pytest.mark.parametrize(("apart", "launches"), [(1, 1), (2, 2)])
def test_a_pool_outside_of_blocks_reads_a_padded_copy_where_its_windows_have_gaps(
    apart: int, launches: int
) -> None:
    net = Net()
    x = net.feed("x", values(0, 1, 2, 9, 9))
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    net.give(net.op("MaxPool", x, dilations=[apart, apart], **window))
    assert len(check(net).launches) == launches
