"""Depthwise convolutions of bytes: every size, border and weight gives the machine's bytes, and no
copy with borders is a launch of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from nets import Net, check_engines
from targets import Target
from test_plain_u8 import SCALES
from test_targets import OF_BYTES, TARGETS, check_net
from test_windows import CASES as OF_FLOATS

from sardonyx import build
from sardonyx.kernel.c99.prelude import prelude
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.machine import Machine
from sardonyx.native import NativeEngine
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.types import Array

# channels, height, width, kernel, strides, dilations, pads
CASES = (
    *(case for case in OF_FLOATS if case[3] != (7, 7)),
    (16, 5, 131, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    (32, 40, 29, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1)),
    (24, 30, 33, (3, 3), (3, 3), (1, 2), (1, 2, 0, 4)),
    (16, 40, 40, (3, 3), (2, 1), (9, 11), (9, 11, 9, 11)),
    (16, 30, 31, (5, 6), (1, 1), (1, 1), (2, 3, 2, 2)),
)


def weights(i: int, c: int, kernel: tuple[int, int], rng: np.random.Generator) -> Array:
    """Anything; the largest; three taps that sum to 128 in each channel, and to 129 in one."""
    shape = (c, 1, *kernel)
    if i % 4 == 0:
        return rng.integers(-64, 65, shape).astype(np.int8)
    if i % 4 == 1:
        return np.full(shape, 64 if i % 8 == 1 else -64, np.int8)
    w = np.where(rng.random(shape) < 0.4, 42, rng.integers(-40, 43, shape))
    w.reshape(c, -1)[:, -2:] = 43
    if i % 4 == 3:
        w.reshape(c, -1)[c // 2] = -43
    return w.astype(np.int8)


def whole(i: int, c: int, kernel: tuple[int, int], rng: np.random.Generator) -> Array:
    """All of int8: the largest of both signs, anything."""
    ends = {0: (127, 128), 1: (-128, -127)}
    return rng.integers(*ends.get(i % 3, (-128, 128)), (c, 1, *kernel)).astype(np.int8)


def net(
    cases: tuple[int, ...] = tuple(range(len(CASES))), weights: Callable[..., Array] = weights
) -> Net:
    """Depthwise convolutions between others, with zero points that are 0 and that are not."""
    made, rng = Net(), np.random.default_rng(7)
    one = np.float32(1)
    for i in cases:
        c, h, w, kernel, strides, dilations, pads = CASES[i]
        zero, small = np.uint8((i % 3) * 100), np.int8(0)
        x = made.feed(f"x{i}", rng.integers(0, 256, (1 + i % 2, c, h, w)).astype(np.uint8))
        if i % 3:
            point = rng.integers(-64, 65, (c, c, 1, 1)).astype(np.int8)
            y = np.float32(60 * c)
            x = made.op("QLinearConv", x, one, zero, point, one, small, y, zero)
        about = {"strides": strides, "dilations": dilations, "pads": pads, "group": c}
        scales = (one, small, np.float32(40), np.uint8(90))
        parts = (x, one, zero, weights(i, c, kernel, rng), *scales)
        biased = (*parts, rng.integers(-999, 999, c).astype(np.int32))
        y = made.op("QLinearConv", *(biased if i % 2 else parts), **about)
        made.give(y)
    return made


def test_depthwise_convolutions_of_bytes_give_the_machines_bytes() -> None:
    check_engines(net())


@pytest.mark.parametrize("dots", [False, True])
def test_all_of_int8_gives_the_machines_bytes(dots: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "rows_of_bytes", lambda: dots)
    check_engines(net(weights=whole))


def test_threads_give_the_machines_bytes() -> None:
    made = Net()
    rng = np.random.default_rng(3)
    x = made.feed("x", rng.integers(0, 256, (1, 96, 60, 61)).astype(np.uint8))
    scale, zero = np.float32(0.1), np.uint8(3)
    parts = (x, scale, zero, weights(0, 96, (3, 3), rng), scale, np.int8(0), np.float32(2), zero)
    made.give(made.op("QLinearConv", *parts, group=96, pads=[1, 1, 1, 1]))
    graph = made.graph()
    expected = Machine(graph).run(made.feeds)
    for threads in (1, 2, 3):
        found = NativeEngine(graph, threads=threads).run(made.feeds)
        assert all(found[n].tobytes() == expected[n].tobytes() for n in graph.outputs), threads


@pytest.mark.parametrize("kind", [weights, whole])
def test_they_are_windows_and_need_no_borders(kind: Callable[..., Array]) -> None:
    program = optimise(lower(net(weights=kind).graph(), overridable=False))
    texts = [print_scheduled(launch.kernel).text for launch in program.launches]
    assert sum("sx_window_u8(" in text for text in texts) == len(CASES)
    assert not any(launch.kernel.name == "pad" for launch in program.launches)


def test_their_bytes_are_finished_in_registers() -> None:
    program = optimise(lower(net().graph(), overridable=False))
    texts = [print_scheduled(launch.kernel).text for launch in program.launches]
    windows = [text for text in texts if "sx_window_u8(" in text]
    assert all(", &plain};" in text for text in windows)


@pytest.mark.parametrize("zero", [0, 1, 128, 255])
def test_sums_that_are_finished_saturate_at_both_ends(zero: int) -> None:
    made, rng = Net(), np.random.default_rng(zero)
    one, scales = np.float32(1), np.resize(np.array(SCALES, np.float32), 48)
    x = made.feed("x", rng.integers(0, 256, (1, 48, 9, 11)).astype(np.uint8))
    for strides in ((1, 1), (2, 2), (1, 2)):
        w = rng.integers(-64, 65, (48, 1, 3, 3)).astype(np.int8)
        about = (one, np.uint8(zero))
        parts = (x, one, np.uint8(128), w, scales, np.zeros(48, np.int8), *about)
        made.give(made.op("QLinearConv", *parts, group=48, pads=[1] * 4, strides=strides))
    check_engines(made)


def test_windows_without_room_for_their_taps_are_taken_otherwise() -> None:
    made, rng = Net(), np.random.default_rng(5)
    one = np.float32(1)
    for i, kernel in enumerate(((6, 6), (2, 2))):
        x = made.feed(f"x{i}", rng.integers(0, 256, (1, 16, 50, 50)).astype(np.uint8))
        w = rng.integers(-64, 65, (16, 1, *kernel)).astype(np.int8)
        about = {"group": 16, "dilations": [1 if i == 0 else 40] * 2}
        zero, y = np.uint8(7), np.float32(99)
        made.give(made.op("QLinearConv", x, one, zero, w, one, np.int8(0), y, zero, **about))
    program = optimise(lower(made.graph(), overridable=False))
    assert not any("sx_window_u8(" in print_scheduled(x.kernel).text for x in program.launches)
    check_engines(made)


def test_the_header_of_bytes_needs_no_windows_of_floats() -> None:
    text = prelude("sx_window_u8(&windows);")
    assert "sx_windows_u8;" in text
    assert "sx_windows;" not in text
    assert "sx_contract," not in text


@pytest.mark.parametrize("target", OF_BYTES, ids=str)
def test_targets_and_sanitizers_give_the_machines_bytes(target: Target, tmp_path: Path) -> None:
    check_net(net((0, 1, 2, 7, 9, 14, 15, 16, 17)), target, tmp_path / "source")


@pytest.mark.parametrize(
    "target", [*OF_BYTES, *(x for x in TARGETS if x.name == "x86-64-v3")], ids=str
)
def test_targets_take_all_of_int8_as_it_is(target: Target, tmp_path: Path) -> None:
    cases = (0, 1, 2, 3, 7, 14)
    check_net(net(cases, whole), target, tmp_path / "source")
    text = "".join(x.read_text() for x in (tmp_path / "source").glob("*.c"))
    assert text.count(", 1, &plain};\n") >= len(cases)
