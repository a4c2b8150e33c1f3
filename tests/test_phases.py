"""Transposed convolutions: the machine's bits in every form, and products of matrices where windows
touch without overlapping."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from nets import Net, check_engines

from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.machine import Machine
from sardonyx.ops import conv_transpose
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise

# channels, filters, kernel, group, attributes
TOUCHING: tuple[tuple[int, int, list[int], int, dict[str, Any]], ...] = (
    (32, 16, [2, 2], 1, {"strides": [2, 2]}),
    (24, 1, [2, 2], 1, {"strides": [2, 2]}),
    (40, 24, [3, 2], 1, {"strides": [3, 2], "auto_pad": "SAME_UPPER"}),
    (32, 32, [2, 2], 2, {"strides": [2, 2]}),
    (5, 7, [4, 1], 1, {"strides": [4, 1], "pads": [0, 0, 0, 0]}),
)
OTHERS: tuple[tuple[int, int, list[int], int, dict[str, Any]], ...] = (
    (16, 16, [4, 4], 1, {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    (16, 8, [3, 3], 1, {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
    (16, 8, [2, 2], 1, {"strides": [2, 2], "pads": [1, 0, 1, 0]}),
    (16, 8, [2, 2], 1, {"strides": [2, 2], "output_padding": [1, 0]}),
    (16, 8, [2, 2], 1, {"strides": [2, 2], "dilations": [2, 1]}),
    (6, 6, [3, 3], 6, {"strides": [2, 2], "pads": [1, 1, 0, 0]}),
    (20, 20, [5, 4], 2, {"strides": [3, 1], "pads": [2, 1, 2, 2], "dilations": [1, 2]}),
    (5, 3, [1, 2], 1, {"strides": [2, 3]}),
    (3, 3, [10, 9], 1, {"strides": [9, 8], "pads": [3, 0, 3, 0]}),
    (18, 1, [9, 9], 1, {"strides": [4, 4], "pads": [4, 4, 4, 4]}),
    (6, 4, [8, 5], 2, {"strides": [4, 3], "pads": [2, 1, 2, 1]}),
)


def net(cases: tuple[tuple[int, int, list[int], int, dict[str, Any]], ...]) -> Net:
    made, rng = Net(), np.random.default_rng(3)

    def values(*shape: int) -> Any:
        return rng.standard_normal(shape).astype(np.float32)

    for i, (c, m, kernel, group, about) in enumerate(cases):
        x = made.feed(f"x{i}", values(1 + i % 2, c, 6, 5))
        x = made.op("Conv", x, values(c, c, 3, 3), pads=[1] * 4) if i % 2 == 0 else x
        weights = values(c, m // group, *kernel)
        y = made.op("ConvTranspose", x, weights, values(m), group=group, **about)
        made.give(y, made.op("Sigmoid", made.op("Relu", y)), made.op("Conv", y, values(8, m, 1, 1)))
    return made


@pytest.mark.parametrize("cases", [TOUCHING, OTHERS], ids=["touching", "others"])
def test_transposed_convolutions_give_the_machines_bits(cases: Any) -> None:
    made = net(cases)
    check_engines(made)


@pytest.mark.parametrize(("channels", "filters", "kernel", "group", "about"), OTHERS)
def test_places_by_phase_have_the_bits_of_places_with_holes(
    channels: int,
    filters: int,
    kernel: list[int],
    group: int,
    about: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((2, channels, 4, 3)).astype(np.float32)
    w = rng.standard_normal((channels, filters // group, *kernel)).astype(np.float32)
    found = []
    for most in (conv_transpose.MOST_PHASES, 0):
        monkeypatch.setattr(conv_transpose, "MOST_PHASES", most)
        made = Net()
        made.give(made.op("ConvTranspose", made.feed("x", x), w, group=group, **about))
        found += Machine(made.graph()).run(made.feeds).values()
    assert found[0].tobytes() == found[1].tobytes()
    expected = transposed(x.astype(np.float64), w.astype(np.float64), group, about)
    assert np.allclose(found[0], expected[..., : found[0].shape[2], : found[0].shape[3]], atol=1e-4)


def transposed(x: Any, w: Any, group: int, about: dict[str, Any]) -> Any:
    """Each element of x times the kernel, added where it belongs, in float64."""
    (n, channels, *size), kernel = x.shape, w.shape[2:]
    s, d = about["strides"], about.get("dilations", [1, 1])
    sizes = zip(size, s, kernel, d, strict=True)
    full = [(i - 1) * a + (k - 1) * q + 2 + a for i, a, k, q in sizes]
    each, filters = channels // group, w.shape[1]
    y = np.zeros((n, group * filters, *full))
    for c, *r in np.ndindex(channels, *kernel):
        g = slice(c // each * filters, (c // each + 1) * filters)
        at = [slice(j * q, j * q + i * a, a) for j, q, i, a in zip(r, d, size, s, strict=True)]
        y[:, g, at[0], at[1]] += x[:, c, None] * w[c, :, *r][None, :, None, None]
    begin = about.get("pads", [0, 0])[:2]
    return y[:, :, begin[0] :, begin[1] :]


def test_around_x_are_zeros_as_around_that_of_a_convolution() -> None:
    x, w = np.ones((1, 1, 3), np.float32), np.array([[[1, np.inf, 1]]], np.float32)
    made = Net()
    given = made.feed("x", x)
    made.give(made.op("ConvTranspose", given, w), made.op("Conv", given, w, pads=[2, 2]))
    y, same = Machine(made.graph()).run(made.feeds).values()
    assert np.isnan(y[0, 0, 0])
    assert np.isposinf(y[0, 0, 2])
    assert y.tobytes() == same.tobytes()


def test_windows_that_touch_are_products() -> None:
    program = optimise(lower(net(TOUCHING[:4]).graph(), overridable=False))
    transposed = [x for x in program.launches if x.kernel.name.startswith("ConvTranspose")]
    texts = [print_scheduled(launch.kernel).text for launch in transposed]
    assert len(texts) >= 4
    assert all(re.search(r"\bsx_contract(_half)?\(", text) for text in texts)


def test_phases_that_read_the_same_places_are_filters_of_one_sum() -> None:
    made, rng = Net(), np.random.default_rng(4)
    x = made.feed("x", rng.standard_normal((1, 20, 5, 18)).astype(np.float32))
    for filters in (2, 16):
        w = rng.standard_normal((20, filters, 9, 9)).astype(np.float32)
        made.give(made.op("ConvTranspose", x, w, strides=[4, 4], pads=[4, 4, 4, 4]))
    check_engines(made)
    program = optimise(lower(made.graph()))
    shapes = [x.kernel.outputs[0].shape for x in program.launches if "Conv" in x.kernel.name]
    assert any(18 in shape for shape in shapes)
    assert len(shapes) == (4 + 1) + (16 + 1)


@pytest.mark.parametrize("further", [0, 3], ids=["61 places", "64 places"])
def test_nothing_is_chosen_place_by_place(further: int) -> None:
    made, rng = Net(), np.random.default_rng(6)
    x = made.feed("x", rng.standard_normal((1, 20, 16, 16)).astype(np.float32))
    w = rng.standard_normal((20, 1, 9, 9)).astype(np.float32)
    about = {"strides": [4, 4], "pads": [4, 4, 4, 4], "output_padding": [further, further]}
    made.give(made.op("ConvTranspose", x, w, **about))
    check_engines(made)
    *_, last = optimise(lower(made.graph())).launches
    assert " ? " not in print_scheduled(last.kernel).text


@pytest.mark.parametrize("channels", [3, 24])
def test_padding_may_leave_nothing_of_what_a_window_writes(channels: int) -> None:
    made, rng = Net(), np.random.default_rng(4)
    x = made.feed("x", rng.standard_normal((1, channels, 14, 1)).astype(np.float32))
    weights = rng.standard_normal((channels, 40, 5, 3)).astype(np.float32)
    x = made.op("Conv", x, rng.standard_normal((channels, channels, 1, 1)).astype(np.float32))
    made.give(made.op("ConvTranspose", x, weights, strides=[1, 4], pads=[1, 1, 1, 2]))
    assert Machine(made.graph()).run(made.feeds)[made.outputs[0]].shape == (1, 40, 16, 0)
    check_engines(made)
