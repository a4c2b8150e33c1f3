"""Convolutions leave out terms of their padding where no bit depends on them, and only there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nets import Net, check_engines
from targets import Target
from test_passes import check, values
from test_targets import GCC, OF_FLOATS, check_net

from sardonyx.kernel.c99.contract import terms_of
from sardonyx.kernel.c99.edges import Edge, without_edges
from sardonyx.kernel.expr import Fold
from sardonyx.kernel.ir import expressions, statements
from sardonyx.kernel.walk import walk
from sardonyx.machine import Machine
from sardonyx.native import NativeEngine
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.types import Array

ZERO, SMALLEST = np.float32(-0.0), np.float32(2**-149)


def weights(seed: int, *shape: int) -> Array:
    """Finite numbers of many sizes: products of some are rounded to 0."""
    rng = np.random.default_rng(seed)
    powers = rng.choice([-100, -75, -20, 0, 3], shape)
    found: Array = (rng.standard_normal(shape) * np.exp2(powers)).astype(np.float32)
    return found


def edges(net: Net) -> list[Edge]:
    """What the sums of products of the scheduled graph leave out."""
    found = []
    for launch in optimise(lower(net.graph(), overridable=False)).launches:
        for e in walk(*(e for s in statements(launch.kernel.body) for e in expressions(s))):
            found += list(without_edges(e.when)[1]) if isinstance(e, Fold) else []
    return found


def ends(net: Net) -> list[tuple[int, int, int, int]]:
    return [(e.lead, e.first, e.trail, e.last) for e in edges(net)]


def one(height: int = 9, width: int = 9, last: str = "Relu", **attributes: Any) -> Net:
    """Conv with a bias and what follows it."""
    net = Net()
    x = net.feed("x", values(1, 2, 32, height, width))
    w, b = weights(2, 32, 32, 3, 3), np.ones(32, np.float32)
    net.give(net.op(last, net.op("Conv", x, w, b, **{"pads": [1] * 4, **attributes})))
    return net


def test_both_ends_of_both_axes_leave_out_what_lies_in_the_padding() -> None:
    assert ends(one()) == [(1, 1, 1, 1)] * 2
    assert ends(one(strides=[2, 2])) == [(1, 1, 1, 1)] * 2
    assert ends(one(10, 10, strides=[2, 2])) == [(1, 1, 0, 0)] * 2
    assert ends(one(dilations=[2, 2], pads=[2] * 4)) == [(2, 1, 2, 1)] * 2
    far = one(13, 13, dilations=[5, 5], pads=[5] * 4)
    assert ends(far) == [(5, 1, 5, 1)] * 2
    check_engines(far)
    near = one(8, 8, dilations=[5, 5], pads=[5] * 4)  # the ends overlap: 5 + 5 of 8 places
    assert ends(near) == [(5, 1, 5, 1)] * 2
    check(near)
    check_engines(near)
    assert ends(one(pads=[0, 1, 0, 0])) == [(1, 1, 0, 0)]
    assert ends(one(pads=[0] * 4)) == []


def test_long_rows_keep_the_terms_at_their_ends() -> None:
    assert len(edges(one(9, 63))) == 2
    (edge,) = edges(one(9, 64))
    assert edge.axis.extent == 9


def taps(net: Net) -> list[list[int]]:
    """The extents of the sums of products, but those of one term."""
    found = []
    for launch in optimise(lower(net.graph(), overridable=False)).launches:
        for e in walk(*(e for s in statements(launch.kernel.body) for e in expressions(s))):
            if isinstance(e, Fold) and e.kind == "dot":
                found.append([int(str(a.extent)) for a in e.axes if a.extent != 1])
    return found


@pytest.mark.parametrize("rate", [7, 9, 12])
def test_windows_spread_wider_than_their_picture_are_their_centre(rate: int) -> None:
    net = one(7, 7, dilations=[rate, rate], pads=[rate] * 4)
    assert taps(net) == [[2, 16]]
    check(net)
    check_engines(net)


def test_taps_that_are_outside_everywhere_along_one_axis_are_gone() -> None:
    wide = one(5, 20, dilations=[6, 6], pads=[6] * 4)
    assert taps(wide) == [[2, 3, 16]]
    check_engines(wide)


def test_a_tap_between_two_that_lie_inside_is_taken_with_them() -> None:
    """In steps of two over one row, of whose three taps the first and the last meet it."""
    net = one(1, 6, strides=[2, 2], pads=[2, 1, 2, 1])
    assert taps(net) == [[2, 3, 3, 16]]
    check(net)
    check_engines(net)


def test_what_might_show_keeps_taps_that_are_outside_everywhere() -> None:
    net = Net()
    x, w = net.feed("x", values(1, 1, 32, 4, 4)), weights(2, 32, 32, 3, 3)
    net.give(net.op("Conv", x, w, pads=[5] * 4, dilations=[5, 5]))
    assert taps(net) == [[2, 3, 3, 16]]
    check_engines(net)


def of_bytes(zero: int, channels: int = 32, size: int = 3, rate: int = 1) -> Net:
    """ConvInteger whose padding stands for a zero point."""
    net, rng = Net(), np.random.default_rng(1)
    x = net.feed("x", rng.integers(0, 256, (1, channels, 20, 20)).astype(np.uint8))
    w = rng.integers(-64, 65, (32, channels, size, size)).astype(np.int8)
    spread: dict[str, Any] = {"pads": [rate] * 4, "dilations": [rate] * 2}
    net.give(net.op("ConvInteger", x, w, np.asarray(zero, np.uint8), **spread))
    return net


def test_integers_are_left_out_where_the_padding_is_of_zeros() -> None:
    assert ends(of_bytes(0)) == [(1, 1, 1, 1)] * 2
    assert ends(of_bytes(3)) == []
    for channels in (32, 20):
        wide = of_bytes(0, channels, rate=13)
        assert ends(wide) == [(13, 1, 13, 1)] * 2
        check(wide)
        check_engines(wide)


def test_terms_that_are_taken_several_at_a_time_are_all_taken() -> None:
    assert len(edges(of_bytes(0, 4, 12))) == 2
    net = of_bytes(0, 1, 12)
    assert edges(net) == []
    check_engines(net)


def test_ends_that_would_be_tiles_of_few_rows_keep_their_terms() -> None:
    assert ends(one(1, 9)) == []
    assert ends(one(4, 4)) == []
    assert ends(one(4, 9)) == [(1, 1, 1, 1)]
    assert ends(one(5, 5)) == [(1, 1, 1, 1)] * 2
    for size in ((1, 9), (4, 4), (4, 9)):
        check_engines(one(*size))


def test_costs_count_the_terms_of_the_padding() -> None:
    (e,) = (
        e
        for launch in optimise(lower(one().graph(), overridable=False)).launches
        for s in statements(launch.kernel.body)
        for e in walk(*expressions(s))
        if isinstance(e, Fold)
    )
    assert terms_of(e) == 32 * 9


def finished(kind: str) -> Net:
    """Conv, and what follows it, by name."""
    net, rng = Net(), np.random.default_rng(1)
    x, w = net.feed("x", values(1, 1, 16, 6, 6)), weights(2, 16, 16, 3, 3)
    bias = np.zeros(16, np.float32)
    if kind == "infinite":
        w[3, 4, 0, 0] = np.inf
    if kind in ("-0", "-0, Relu"):
        bias[5] = ZERO
    fed = net.feed("w", w) if kind == "fed weights" else net.weight(w)
    added = () if kind in ("no bias", "Relu", "residual") else (bias,)
    if kind == "fed bias":
        added = (net.feed("b", bias),)
    y = net.op("Conv", x, fed, *added, pads=[1] * 4)
    if "Relu" in kind:
        y = net.op("Relu", y)
    if kind == "residual":
        y = net.op("Add", y, net.feed("r", values(3, 1, 16, 6, 6)))
    if kind == "norm":
        scale, mean = rng.standard_normal((2, 16)).astype(np.float32)
        y = net.op("BatchNormalization", y, scale, bias, mean, np.ones(16, np.float32))
    net.give(y)
    return net


@pytest.mark.parametrize("kind", ["bias", "Relu", "norm"])
def test_a_sum_of_either_zero_that_shows_nowhere_leaves_terms_out(kind: str) -> None:
    assert ends(finished(kind)) == [(1, 1, 1, 1)] * 2


@pytest.mark.parametrize(
    "kind", ["infinite", "-0", "-0, Relu", "no bias", "fed weights", "fed bias", "residual"]
)
def test_what_might_show_keeps_all_terms(kind: str) -> None:
    net = finished(kind)
    assert edges(net) == []
    check(net)


def test_terms_of_the_padding_make_plus_zero_of_a_sum_that_was_rounded_to_minus_zero() -> None:
    """At the end of an inner row -2^-298 is the last term that is not of the padding."""
    net = Net()
    x = net.feed("x", np.full((1, 16, 5, 5), SMALLEST))
    w = np.zeros((16, 16, 3, 3), np.float32)
    w[:, 15, 2, 1] = -SMALLEST
    bare = net.op("Conv", x, w, pads=[1] * 4)
    relu = net.op("Relu", bare)
    net.give(bare, relu, net.op("Conv", x, w, np.zeros(16, np.float32), pads=[1] * 4))
    found = Machine(net.graph()).run(net.feeds)
    assert not any(np.signbit(v).any() for v in found.values())
    check_engines(net)


def convolutions(net: Net, seed: int) -> Iterator[str]:
    """A convolution of each kind that register tiles take, of random size."""
    rng = np.random.default_rng(seed)
    for filters, channels in ((16, 16), (24, 48), (40, 20), (32, 3), (8, 64)):
        size, space = rng.integers(1, 5, 2), rng.integers(1, 30, 2)
        by, apart = rng.integers(1, 3, 2), rng.integers(1, 7, 2)
        reach = (size - 1) * apart
        pads = np.concatenate([rng.integers(0, reach + 1), rng.integers(0, reach + 1)])
        space = np.maximum(space, reach + 1 - pads[:2] - pads[2:])
        x = net.feed(f"x{len(net.feeds)}", values(seed, int(rng.integers(1, 3)), channels, *space))
        given = {"pads": pads.tolist(), "strides": by.tolist(), "dilations": apart.tolist()}
        w, b = weights(seed, filters, channels, *size), weights(seed + 1, filters)
        y = net.op("Conv", x, w, b, **given)
        yield net.op("Relu", y)
        yield net.op("Sigmoid", net.op("Conv", x, w, b, **given))
        yield net.op(
            "Clip", net.op("Add", y, net.op("Relu", y)), np.asarray(ZERO), np.asarray(6, np.float32)
        )


@settings(max_examples=3)
@given(st.integers(0, 1 << 20))
def test_each_pass_keeps_the_bits(seed: int) -> None:
    net = Net()
    net.give(*convolutions(net, seed))
    check(net)


def test_the_engines_agree_on_any_number_of_threads(small_units: None) -> None:
    net = Net()
    for seed in range(2):
        net.give(*convolutions(net, seed))
    for height, width in ((7, 7), (14, 14), (28, 20), (5, 63), (33, 5)):
        x = net.feed(f"y{height}", values(height, 1, 64, height, width))
        w, b = weights(height, 32, 64, 3, 3), np.ones(32, np.float32)
        net.give(net.op("Relu", net.op("Conv", x, w, b, pads=[1] * 4)))
        net.give(net.op("Relu", net.op("Conv", x, w, b, pads=[5] * 4, dilations=[5, 5])))
    assert len(edges(net)) > 20
    graph = net.graph()
    expected = Machine(graph).run(net.feeds)
    for count in (1, 2, 3):
        found = NativeEngine(graph, threads=count).run(net.feeds)
        assert all(found[n].tobytes() == expected[n].tobytes() for n in graph.outputs), count


AVX2 = Target("avx2", (*GCC, "-O3", "-march=x86-64-v3"), cpu=("avx2", "fma"))


@pytest.mark.parametrize("target", [AVX2, *OF_FLOATS], ids=str)
def test_targets_and_sanitizers_give_the_machines_bytes(target: Target, tmp_path: Path) -> None:
    net = Net()
    net.give(*convolutions(net, 2))
    for height, width in ((2, 1), (1, 2), (3, 1), (2, 5), (5, 2), (7, 7)):
        x = net.feed(f"y{height}{width}", values(height, 1, 64, height, width))
        w, b = weights(height, 32, 64, 3, 3), np.ones(32, np.float32)
        net.give(net.op("Relu", net.op("Conv", x, w, b, pads=[1] * 4)))
    for rate in (5, 6, 9):
        net.give(net.op("Relu", net.op("Conv", x, w, b, pads=[rate] * 4, dilations=[rate] * 2)))
    check_net(net, target, tmp_path / "source")
