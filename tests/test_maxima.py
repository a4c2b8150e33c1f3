"""Maxima over windows, in two steps: the bytes of the definition for every border and layout."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from nets import Net, check_engines
from test_passes import check, values

from sardonyx import types as t
from sardonyx.kernel.expr import Fold
from sardonyx.kernel.ir import expressions, statements
from sardonyx.kernel.walk import walk
from sardonyx.machine import Machine
from sardonyx.native import NativeEngine
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.program import Program


def placed(net: Net, x: str, channels: int) -> str:
    """x after a convolution, in its layout, zeros of both signs and NaNs in it."""
    y = net.op("Conv", x, np.eye(channels, dtype=np.float32)[:, :, None, None])
    odd = net.op("Mul", y, values(9, channels, 1, 1))
    return net.op("Relu", odd) if len(net.nodes) % 2 else odd


def floats(net: Net) -> None:
    """Channels first, blocked and last; every stride, border and rounding."""
    sizes = ((1, 3), (3, 3), (2, 2), (5, 5), (3, 1))
    for kernel, stride, ceil in product(sizes, (1, 2, 3), (0, 1)):
        x = net.feed(f"x{len(net.feeds)}", values(len(net.nodes), 1, 16, 11, 12))
        pads = [k // 2 for k in kernel] * 2 if len(net.nodes) % 3 else [0] * 4
        about = {"kernel_shape": kernel, "strides": [stride] * 2, "ceil_mode": ceil, "pads": pads}
        net.give(net.op("MaxPool", x, **about))
        net.give(net.op("MaxPool", placed(net, x, 16), **about))
    x = net.feed(f"x{len(net.feeds)}", values(1, 2, 20, 9, 17))
    about = {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}
    net.give(net.op("Sigmoid", net.op("MaxPool", placed(net, x, 20), **about)))


def uneven(net: Net) -> None:
    """Dilations, borders of different widths, windows with one element inside, one and three
    dimensions."""
    for seed, about in enumerate(
        (
            {"kernel_shape": [3, 3], "dilations": [2, 2]},
            {"kernel_shape": [3, 2], "dilations": [2, 3], "pads": [1, 0, 3, 2]},
            {"kernel_shape": [4, 3], "pads": [3, 2, 0, 1], "strides": [2, 1]},
            {"kernel_shape": [4, 4], "pads": [3, 3, 3, 3], "strides": [1, 3]},
            {"kernel_shape": [2, 2], "strides": [3, 4]},
            {"kernel_shape": [13, 13], "pads": [6, 6, 6, 6]},
        )
    ):
        x = net.feed(f"x{len(net.feeds)}", values(seed, 2, 3, 13, 19))
        net.give(net.op("MaxPool", x, **about))
    line = net.feed("line", values(7, 2, 3, 40))
    net.give(net.op("MaxPool", line, kernel_shape=[3], pads=[1, 1], strides=[2]))
    room = net.feed("room", values(8, 1, 2, 5, 6, 18))
    net.give(net.op("MaxPool", room, kernel_shape=[3, 2, 3], pads=[1, 0, 1] * 2))


def indices(net: Net) -> None:
    x = net.feed("x", values(3, 1, 16, 9, 10))
    for given in (x, placed(net, x, 16)):
        for order in (0, 1):
            about = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
            net.give(*net.op("MaxPool", given, count=2, storage_order=order, **about))


def integers(net: Net) -> None:
    rng = np.random.default_rng(4)
    for kind in (np.uint8, np.int8):
        ends = np.iinfo(kind)
        for size, stride in ((3, 2), (5, 1), (2, 2)):
            x = rng.integers(ends.min, ends.max + 1, (1, 16, 15, 33)).astype(kind)
            about = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [size // 2] * 4}
            net.give(net.op("MaxPool", net.feed(f"x{len(net.feeds)}", x), **about))


def halves(net: Net) -> None:
    """Every pair of numbers of 16 bits that differ in kind, in all orders."""
    for dtype in (t.float16, t.bfloat16):
        top = int(np.array(np.inf, dtype.numpy).view(np.uint16))
        codes = [0, 1, top - 1, top, top + 1, top + top // 2, 0x7FFF]
        odd = np.array([c | s for c in codes for s in (0, 0x8000)], np.uint16).view(dtype.numpy)
        pairs = np.stack([np.repeat(odd, len(odd)), np.tile(odd, len(odd))])
        x = net.feed(f"pairs {dtype}", np.repeat(pairs[None, None], 2, axis=1))
        net.give(
            net.op("MaxPool", x, kernel_shape=[2, 1]), net.op("MaxPool", x, kernel_shape=[2, 2])
        )
        net.give(net.op("Neg", net.op("MaxPool", x, kernel_shape=[2, 3], strides=[1, 3])))


def peaks(net: Net) -> None:
    """What is its window's maximum, as detectors ask for it."""
    x = net.feed("x", values(2, 1, 3, 20, 33))
    for to in (t.float32, t.float64):
        same = net.op("Equal", x, net.op("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4))
        hit = net.op("Cast", same, to=to.onnx)
        net.give(net.op("Mul", x, hit) if to is t.float32 else hit)


NETS = (floats, uneven, indices, integers, halves, peaks)


@pytest.mark.parametrize("make", NETS, ids=lambda f: f.__name__)
def test_maxima_are_the_machines(make: Callable[[Net], None]) -> None:
    net = Net()
    make(net)
    check_engines(net)


def test_each_pass_keeps_the_bits_of_a_maximum() -> None:
    net = Net()
    x = net.feed("x", values(6, 1, 2, 5, 6))
    net.give(net.op("MaxPool", x, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 1, 0, 1]))
    check(net)


def folds(program: Program) -> int:
    """The launches with a maximum over windows in one step."""
    bodies = [statements(launch.kernel.body) for launch in program.launches]
    every = [[e for s in body for e in walk(*expressions(s))] for body in bodies]
    return sum(any(isinstance(e, Fold) and e.kind == "max" for e in found) for found in every)


def test_windows_go_in_two_steps_and_need_no_borders() -> None:
    net = Net()
    x = net.feed("x", values(5, 1, 16, 20, 21))
    half = net.feed("half", values(5, 1, 16, 20, 21).astype(np.float16))
    for given in (x, half, placed(net, x, 16)):
        for size, stride in ((3, 2), (5, 1), (2, 2)):
            about = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [size // 2] * 4}
            net.give(net.op("MaxPool", given, **about))
    program = optimise(lower(net.graph(), overridable=False))
    assert not any(launch.kernel.name == "pad" for launch in program.launches)
    assert folds(program) == 0


def test_windows_that_move_by_one_element_read_a_plane_with_borders() -> None:
    net = Net()
    x = net.feed("x", values(5, 1, 4, 20, 21))
    for high, stride in ((3, 1), (3, 2), (1, 1)):
        pads = [high // 2, 1] * 2
        about = {"kernel_shape": [high, 3], "strides": [stride] * 2, "pads": pads}
        net.give(net.op("MaxPool", x, **about))
    program = optimise(lower(net.graph(), overridable=False))
    made = [[b.shape for b in launch.kernel.temporaries] for launch in program.launches]
    assert made == [[(22, 32), (20, 32)], [(21,)], [(21,)]]


@pytest.mark.parametrize("kind", ["ReduceMax", "ReduceMin"])
def test_a_nan_of_either_sign_wins_and_zeros_have_their_order(kind: str) -> None:
    bits = [0x7FC00000, 0xFFC00001, 0x7F800001, 0xFFFFFFFF, 0x7FFFFFFF, 0xFF800001]
    odd = np.array([*bits, 0x7F800000, 0xFF800000, 0, 0x80000000, 1, 0x80000001], np.uint32)
    net = Net()
    rows = np.full((len(odd) ** 2, 40), -np.inf if kind == "ReduceMax" else np.inf, np.float32)
    for i, (a, b) in enumerate(product(odd.view(np.float32), repeat=2)):
        rows[i, 3], rows[i, 33] = a, b
    x = net.feed("x", rows)
    net.give(net.op(kind, x, np.array([1])), net.op(kind, net.op("Transpose", x), np.array([0])))
    short = net.feed("short", np.ascontiguousarray(rows[:, [3, 33]]))
    net.give(net.op(kind, short, np.array([1])))
    graph = net.graph()
    expected = Machine(graph).run(net.feeds)
    found = NativeEngine(graph).run(net.feeds)
    assert all(found[n].tobytes() == expected[n].tobytes() for n in graph.outputs)
