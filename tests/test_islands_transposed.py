"""Transposed convolutions of quantised tensors: sums of integers in every form, taken of bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from island_models import RANDOM, Model, again, byte, check, operators, rescaled
from nets import Net, check_engines
from targets import Target
from test_islands_floats import check as check_float
from test_phases import transposed
from test_plain_u8 import Bytes
from test_steps import launches
from test_targets import OF_BYTES, check_net

from sardonyx import build
from sardonyx import types as t
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.ops import conv_transpose
from sardonyx.types import Array

__all__ = ["again"]
F = np.float32
KINDS = [(np.uint8, np.int8, np.uint8), (np.int8, np.int8, np.int8), (np.uint8, np.uint8, np.int8)]
# channels, filters, kernel, group, attributes
CASES: tuple[tuple[int, int, list[int], int, dict[str, Any]], ...] = (
    (32, 16, [2, 2], 1, {"strides": [2, 2]}),
    (16, 1, [2, 2], 1, {"strides": [2, 2]}),
    (20, 24, [3, 3], 1, {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}),
    (16, 20, [4, 4], 1, {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    (20, 3, [3, 3], 1, {"strides": [2, 2]}),
    (16, 8, [2, 2], 1, {"strides": [2, 2], "dilations": [2, 1]}),
    (6, 6, [3, 3], 6, {"strides": [2, 2], "pads": [1, 1, 0, 0]}),
    (20, 20, [5, 4], 2, {"strides": [3, 1], "pads": [2, 1, 2, 2], "dilations": [1, 2]}),
    (16, 16, [3, 3], 1, {"strides": [1, 1], "pads": [1, 1, 1, 1]}),
    (5, 3, [1, 2], 1, {"strides": [2, 3]}),
)


class Transposed:
    """A network of one: x and its sums, without a bias, before they are scaled."""

    def __init__(self, case: Any, of_x: Any, of_w: Any, per_channel: bool) -> None:
        channels, filters, kernel, group, self.about = case
        self.about = {**self.about, "group": group}
        self.m = Model(byte(of_x, 2, channels, 6, 5))
        w = self.m.constants["w"] = byte(of_w, channels, filters // group, *kernel)
        per_channel &= group == 1
        zw = byte(of_w, filters) if per_channel else of_w(3)
        each = np.abs(RANDOM.standard_normal(filters)).astype(F) / 50
        self.scale = each if per_channel else F(0.017)
        self.steps = F(0.03) * (self.scale[:, None, None] if per_channel else self.scale)
        self.given = [self.m.real("x", 0.03, of_x(5)), self.m.real("w", self.scale, zw, axis=1)]
        wide = w.astype(np.float64) - (zw[:, None, None].astype(np.float64) if per_channel else 3)
        total = transposed(self.m.x.astype(np.float64) - 5, wide, group, self.about)
        self.m.add("ConvTranspose", self.given, "y", **self.about)
        size = self.m.run("float").shape
        self.m.nodes.pop()
        self.total: Array = total[..., : size[2], : size[3]].astype(np.int64)


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_an_island_is_the_integer_sum_with_its_bias(case: Any, kinds: tuple[Any, ...]) -> None:
    of_x, of_w, of_y = kinds
    net = Transposed(case, of_x, of_w, per_channel=of_y is np.uint8)
    m, bias = net.m, byte(np.int32, net.total.shape[1]) // 1000000
    m.constants["b"] = bias
    sb = F(0.03) * np.asarray(net.scale, F)
    given = [*net.given, m.real("b", sb, np.zeros(sb.shape, np.int32), axis=0)]
    step = float(np.abs(net.total * net.steps).max()) / 100
    m.finish(m.add("ConvTranspose", given, **net.about), step, of_y(7))
    sw = net.scale[:, None, None] if np.ndim(net.scale) else net.scale
    check(m, rescaled(net.total + bias[:, None, None], 0.03, sw, step, of_y(7)), "QConvTranspose")


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_result_that_stays_a_float_is_that_of_the_integer_sum(case: Any, biased: bool) -> None:
    net = Transposed(case, np.uint8, np.int8, per_channel=biased)
    bias = RANDOM.standard_normal(net.total.shape[1]).astype(F)
    net.m.constants |= {"b": bias} if biased else {}
    net.m.add("ConvTranspose", [*net.given, *["b"] * biased], "y", **net.about)
    about = net.total, net.steps, "QConvTransposeToFloat"
    check_float(net.m, *about, bias[:, None, None] if biased else None)


def test_places_with_holes_are_the_same_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conv_transpose, "MOST_PHASES", 0)
    net = Transposed(CASES[3], np.uint8, np.int8, per_channel=False)
    net.m.finish(net.m.add("ConvTranspose", net.given, **net.about), 90.0, np.uint8(100))
    expected = rescaled(net.total, 0.03, F(0.017), 90.0, np.uint8(100))
    check(net.m, expected, "QConvTranspose")


@pytest.mark.parametrize("case", [CASES[0], CASES[3]], ids=str)
def test_each_phase_is_taken_of_bytes_and_handed_on_as_bytes(case: Any) -> None:
    """Windows that touch are one product; others have a product for each phase."""
    net = Transposed(case, np.uint8, np.int8, per_channel=True)
    net.m.constants["w"] //= 2
    net.m.constants["w_z"][:] = 0
    net.m.finish(net.m.add("ConvTranspose", net.given, **net.about), 90.0, np.uint8(100))
    made = launches(net.m.graph(), "QConvTranspose")
    texts = [print_scheduled(x.kernel, threads=False).text for x in made]
    products = [i for i, text in enumerate(texts) if "sx_contract_u8" in text]
    assert len(products) == (1 if case is CASES[0] else 4)
    assert {made[i].kernel.outputs[0].dtype for i in (*products, -1)} == {t.uint8}


def decoder() -> Net:
    """Transposed convolutions between others, behind a skip and to a float."""
    made = Bytes(3)

    def up(x: Any, channels: int, filters: int, size: int, bias: bool, **about: Any) -> Any:
        w = made.rng.integers(-127, 128, (channels, filters, size, size)).astype(np.int8)
        steps = (0.002 + 0.003 * made.rng.random(filters)).astype(F)
        w = made.net.op("DequantizeLinear", w, steps, np.zeros(filters, np.int8), axis=1)
        given = [made.rng.standard_normal(filters).astype(F)] if bias else []
        return made.net.op("ConvTranspose", x, w, *given, strides=[2, 2], **about)

    x = made.both(made.conv(made.start(1, 16, 5, 4), 72, 16, 3), 0.05, 128)
    y = made.both(made.net.op("Relu", up(x, 72, 32, 2, bias=False)), 0.05, 0)
    y = made.both(made.net.op("Concat", y, made.start(1, 16, 10, 8), axis=1), 0.05, 3)
    y = made.both(up(made.both(made.conv(y, 64, 48, 3), 0.05, 9), 64, 20, 4, False), 0.1, 100)
    made.net.give(up(y, 20, 3, 3, True, pads=[1, 1, 0, 0]), up(y, 20, 1, 2, bias=False))
    return made.net


@pytest.mark.parametrize("rows", [0, 1, 16])
def test_a_network_of_them_gives_the_machines_bytes(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With as many rows of bytes as an instruction multiplies, if the host has it."""
    monkeypatch.setattr(build, "rows_of_bytes", lambda: rows)
    check_engines(decoder())


@pytest.mark.slow
@pytest.mark.parametrize("target", OF_BYTES, ids=str)
def test_targets_and_sanitizers_give_the_machines_bytes(target: Target, tmp_path: Path) -> None:
    check_net(decoder(), target, tmp_path / "source")


def test_what_has_no_exact_integer_definition_stays_as_it_is() -> None:
    for group, axis, scales in ((2, 1, 4), (1, 0, 8)):
        m = Model(byte(np.uint8, 1, 8, 4, 4))
        m.constants["w"] = byte(np.int8, 8, 4, 2, 2)
        sw, zw = np.full(scales, 0.01, F), np.zeros(scales, np.int8)
        given = [m.real("x", 0.03, np.uint8(9)), m.real("w", sw, zw, axis=axis)]
        m.add("ConvTranspose", given, "y", group=group)
        assert operators(m.graph())[-1] == "ConvTranspose"
