"""Sums over windows in lanes: depthwise convolutions of every size and border give the machine's
bits, and read no copy with borders."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nets import Net

from sardonyx.emit import emit
from sardonyx.kernel.c99.prelude import prelude
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.machine import Machine
from sardonyx.native import NativeEngine
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.types import Array

# channels, height, width, kernel, strides, dilations, pads
CASES: tuple[tuple[int, int, int, tuple[int, int], tuple[int, int], tuple[int, int], Any], ...] = (
    (16, 9, 40, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    (48, 7, 7, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    (24, 14, 15, (3, 3), (2, 2), (1, 1), (0, 0, 1, 1)),
    (40, 12, 40, (5, 5), (2, 1), (1, 1), (2, 2, 2, 2)),
    (136, 5, 6, (5, 5), (1, 2), (1, 1), (2, 2, 2, 2)),
    (17, 11, 50, (3, 3), (1, 1), (2, 3), (2, 3, 2, 3)),
    (32, 4, 3, (7, 7), (1, 1), (1, 1), (3, 3, 3, 3)),
    (17, 3, 300, (2, 4), (1, 1), (1, 1), (3, 3, 0, 5)),
    (32, 6, 41, (1, 3), (1, 1), (1, 1), (0, 1, 0, 1)),
    (32, 20, 5, (3, 1), (3, 1), (1, 1), (1, 0, 1, 0)),
    (16, 2, 9, (3, 3), (1, 1), (4, 4), (5, 5, 5, 5)),
    (32, 3, 9, (3, 3), (1, 1), (1, 1), (0, 1, 0, 1)),
    (32, 1, 1, (7, 7), (1, 1), (1, 1), (3, 3, 3, 3)),
    (20, 8, 70, (4, 4), (1, 1), (1, 1), (0, 0, 0, 0)),
    (40, 14, 14, (5, 5), (1, 1), (1, 1), (2, 2, 2, 2)),
    (32, 9, 21, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    (24, 7, 13, (2, 2), (1, 1), (1, 1), (0, 0, 1, 1)),
    (16, 3, 15, (3, 3), (1, 1), (1, 1), (0, 0, 0, 0)),
    (16, 4, 255, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    (32, 29, 31, (5, 5), (2, 2), (1, 1), (2, 2, 2, 2)),
    (16, 15, 57, (3, 3), (2, 2), (1, 1), (0, 0, 2, 2)),
    (40, 9, 44, (5, 5), (2, 2), (1, 1), (1, 1, 2, 2)),
    (48, 14, 14, (7, 7), (1, 1), (1, 1), (3, 3, 3, 3)),
    (40, 9, 32, (7, 7), (1, 1), (1, 1), (3, 3, 3, 3)),
    (16, 8, 45, (7, 7), (1, 1), (1, 1), (3, 3, 3, 3)),
    (24, 7, 7, (7, 7), (1, 1), (1, 1), (3, 3, 3, 3)),
    (32, 12, 11, (7, 7), (1, 1), (1, 1), (3, 1, 3, 2)),
    (20, 9, 20, (3, 7), (1, 1), (1, 1), (1, 3, 1, 0)),
    (16, 11, 20, (7, 7), (2, 2), (1, 1), (3, 3, 3, 3)),
    (16, 11, 20, (7, 7), (1, 1), (1, 2), (3, 3, 3, 3)),
    (24, 9, 50, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    (20, 7, 70, (5, 5), (2, 2), (1, 1), (2, 2, 2, 2)),
    (24, 6, 44, (7, 7), (1, 1), (1, 1), (3, 3, 3, 3)),
)

# the same with a depth before the height
DEEP: tuple[tuple[Any, ...], ...] = (
    (20, 4, 5, 40, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1, 1, 1, 1)),
    (48, 3, 9, 16, (3, 3, 3), (1, 2, 2), (1, 1, 1), (1, 1, 1, 1, 1, 1)),
    (16, 5, 7, 13, (2, 3, 5), (2, 1, 1), (1, 1, 1), (0, 1, 2, 1, 1, 2)),
    (24, 7, 6, 33, (3, 3, 3), (1, 1, 1), (2, 1, 1), (2, 1, 1, 2, 1, 1)),
    (24, 6, 4, 9, (3, 1, 3), (1, 1, 1), (1, 1, 1), (1, 0, 1, 1, 0, 1)),
    (32, 3, 8, 14, (3, 3, 3), (1, 1, 1), (1, 1, 1), (0, 1, 1, 0, 1, 1)),
    (24, 5, 9, 37, (3, 5, 5), (2, 1, 1), (1, 1, 1), (0, 2, 2, 0, 2, 2)),
    (20, 4, 6, 12, (2, 3, 3), (1, 2, 1), (2, 1, 2), (0, 1, 2, 0, 1, 2)),
    (17, 4, 4, 5, (3, 3, 3), (1, 1, 1), (1, 1, 1), (0, 1, 1, 0, 1, 1)),
)


def values(rng: np.random.Generator, *shape: int) -> Array:
    """Numbers of many sizes with zeros of either sign and what underflows among them."""
    x = rng.standard_normal(shape) * np.exp2(rng.integers(-6, 7, shape))
    odd = rng.choice(np.array([0.0, -0.0, 1e-38, -1e-38, 3e-45]), shape)
    return np.where(rng.random(shape) < 0.1, odd, x).astype(np.float32)


def net(cases: Any = CASES) -> Net:
    """Depthwise convolutions between others, with and without an epilogue."""
    made, rng = Net(), np.random.default_rng(7)
    for i, (c, *sizes, kernel, strides, dilations, pads) in enumerate(cases):
        x, alone = made.feed(f"x{i}", values(rng, 1 + i % 2, c, *sizes)), (1,) * len(sizes)
        if i % 3:
            x = made.op("Conv", x, values(rng, c, c, *alone))
        weights = values(rng, c, 1, *kernel)
        weights.reshape(-1)[i] = np.inf if i % 4 == 0 else 1e-44
        about = {"strides": strides, "dilations": dilations, "pads": pads, "group": c}
        y = made.op("Conv", x, weights, values(rng, c), **about)
        if i % 2:
            y = made.op("Clip", y, np.float32(0), np.float32(6))
        made.give(y, made.op("Conv", y, values(rng, 16, c, *alone)))
    return made


@pytest.mark.parametrize("cases", [CASES, DEEP], ids=["pictures", "volumes"])
def test_depthwise_convolutions_of_all_borders_give_the_machines_bits(cases: Any) -> None:
    made = net(cases)
    graph = made.graph()
    expected = Machine(graph).run(made.feeds)
    found = NativeEngine(graph).run(made.feeds)
    wrong = [n for n in graph.outputs if found[n].tobytes() != expected[n].tobytes()]
    assert not wrong


def windows(cases: Any) -> tuple[int, int]:
    """How many launches are windows, how many make borders."""
    program = optimise(lower(net(cases).graph(), overridable=False))
    texts = [print_scheduled(launch.kernel).text for launch in program.launches]
    pads = [launch for launch in program.launches if launch.kernel.name == "pad"]
    return sum("sx_window(" in text for text in texts), len(pads)


def test_depthwise_convolutions_are_windows_and_need_no_borders() -> None:
    assert windows(CASES) == (len(CASES), 0)


def test_windows_of_volumes_are_windows() -> None:
    assert windows(DEEP)[0] == len(DEEP)


@pytest.mark.parametrize(
    "case",
    [(5, width, (3, 3), (1, 1), (1, 1), (1, 1, 1, 1)) for width in (1, 3, 6)]
    + [(9, 12, (3, 3), (1, 1), (apart, apart), (apart,) * 4) for apart in (2, 3)],
)
def test_few_taps_of_narrow_pictures_or_apart_are_no_windows_in_whole_blocks(case: Any) -> None:
    assert windows([(32, *case)])[0] == 0
    assert windows([(20, *case)])[0] == 1
    made = net([(32, *case), (48, *case)])
    found = NativeEngine(made.graph()).run(made.feeds)
    expected = Machine(made.graph()).run(made.feeds)
    assert all(found[n].tobytes() == expected[n].tobytes() for n in expected)


def test_windows_and_products_are_compiled_in_files_of_their_own() -> None:
    program = optimise(lower(net().graph(), overridable=False))
    whole = emit(program, printer=print_scheduled).main
    split = emit(program, printer=print_scheduled, units=2)
    own = ("SX_ENTRIES(sx_contract)", "#ifndef SX_ELSEWHERE", "SX_KIND(sx_contract,")
    assert "#define SX_ELSEWHERE" not in whole
    assert all(text.count("#define SX_ELSEWHERE 1\n") == 1 for text in split.units)
    there = {n: text.partition("#define SX_THERE ")[2][:1] for n, text in split.tiles.items()}
    assert there["tiles_contract.c"] == "2"  # of even numbers of rows: tiles_contract_even.c
    assert there["tiles_contract_even.c"] == "1"
    assert there["tiles_contract_half.c"] == "3"
    assert "#undef SX_ENTRY" not in split.tiles["tiles_contract_even.c"]
    assert {"tiles_contract.c", "tiles_windows.c"} < set(split.tiles)
    assert all(part in whole and part in split.tiles["tiles_contract.c"] for part in own)


def test_the_header_of_windows_leans_on_that_of_products() -> None:
    text = prelude("sx_window(&windows);")
    assert text.index("SX_KIND(sx_contract,") < text.index("sx_windows;")
    assert "sx_windows" not in prelude("sx_contract(&product);")
