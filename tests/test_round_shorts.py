"""Quantising sixteen floats to 16 bits at once: every float gives the integer of the definition."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from nets import Net, check_engines
from targets import Target
from test_grids import Kind, quantised
from test_round_bytes import values
from test_targets import check_net

from sardonyx import build
from sardonyx.kernel.c99.prelude import prelude
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.types import Array

PROBE = """
#define PUBLIC __attribute__((visibility("default")))
PUBLIC void divided(float *a, float *b, int64_t count, float by, float zero) {
  int64_t i;
  for (i = 0; i < count; i += 16) {
    sx_quotients(a + i, by);
    sx_quotients(b + i, by);
    sx_near_unsigned(a + i, zero, 65535);
    sx_near_signed(b + i, zero - 32768, 32767);
  }
}
"""
BYS = [1, 0.1, -0.0371, 3e-5, 7.3e-4, 1e30, 2.0**-126, 1e-40, 3e38, 0, np.inf, np.nan]


def middles(by: np.float32) -> Array:
    """Floats whose quotients are near the middles of integers of 17 bits, by 8 of their last places
    to each side, and `values`."""
    centres = ((np.arange(-(1 << 17), 1 << 17) + 0.5) * np.float64(by)).astype(np.float32)
    found = [centres]
    for _ in range(8):
        found = [
            np.nextafter(found[0], np.float32(-np.inf)),
            *found,
            np.nextafter(found[-1], np.float32(np.inf)),
        ]
    return np.concatenate([values(), values() * by, *found])


@pytest.mark.parametrize("by", BYS)
def test_quotients_give_the_integers_of_a_division(by: float) -> None:
    probe = build.load(build.library({"probe.c": f"{prelude(PROBE)}{PROBE}"}))
    for zero in (0, 3, 32768, 65535):
        with np.errstate(all="ignore"):
            x = middles(np.float32(by))
            near = np.rint(x / np.float32(by))
            unsigned = np.nan_to_num(near + np.float32(zero), nan=0.0).clip(0, 65535)
            signed = np.nan_to_num(near + np.float32(zero - 32768), nan=0.0).clip(-32768, 32767)
        a, b = x.copy(), x.copy()
        pointers = (ctypes.c_void_p(y.ctypes.data) for y in (a, b))
        probe.divided(*pointers, ctypes.c_int64(len(x)), ctypes.c_float(by), ctypes.c_float(zero))
        assert np.array_equal(a, unsigned)
        assert np.array_equal(b, signed)


def rounding(kind: Kind, columns: int) -> Net:
    net = Net(opsets={"": 21})
    x = np.random.default_rng(5).standard_normal((3, columns)).astype(np.float32) * 2
    x[0, :5] = np.nan, np.inf, -np.inf, -0.0, 1e-40
    net.give(quantised(net, net.op("Neg", net.feed("x", x)), 1e-4, kind))
    return net


def convolving(kind: Kind) -> Net:
    net, random = Net(opsets={"": 21}), np.random.default_rng(6)
    x = net.feed("x", random.standard_normal((1, 8, 9, 9)).astype(np.float32))
    w = random.standard_normal((26, 8, 3, 3)).astype(np.float32)
    net.give(quantised(net, net.op("Conv", x, w), 1e-3, kind))
    return net


KINDS = (np.uint16, np.int16)
NETS: list[Callable[[Kind], Net]] = [
    lambda kind: rounding(kind, 64),
    lambda kind: rounding(kind, 21),
    convolving,
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("made", NETS)
def test_the_engines_agree(made: Callable[[Kind], Net], kind: Kind) -> None:
    check_engines(made(kind))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("made", NETS)
def test_sixteen_are_rounded_at_once(made: Callable[[Kind], Net], kind: Kind) -> None:
    launches = optimise(lower(made(kind).graph())).launches
    text = "".join(print_scheduled(x.kernel, threads=False).text for x in launches)
    assert f"sx_near_{'unsigned' if kind is np.uint16 else 'signed'}(" in text


def differing(columns: int) -> Net:
    """Bytes less a number, as int16, which one launch makes of floats."""
    net = Net()
    x = np.random.default_rng(5).standard_normal((3, columns)).astype(np.float32) * 2
    q = net.op("QuantizeLinear", net.feed("x", x), np.float32(0.02), np.uint8(120))
    d = net.op("Sub", net.op("Cast", q, to=onnx.TensorProto.INT32), np.int32(120))
    net.give(net.op("Cast", d, to=onnx.TensorProto.INT16))
    return net


@pytest.mark.parametrize("columns", [16, 24, 40])
def test_differences_of_bytes_agree(columns: int) -> None:
    check_engines(differing(columns))


def test_differences_of_bytes_are_rounded_sixteen_at_once() -> None:
    (launch,) = optimise(lower(differing(24).graph())).launches
    assert "sx_near_unsigned(" in print_scheduled(launch.kernel, threads=False).text


def test_integers_of_16_bits_are_stored() -> None:
    net = Net(opsets={"": 21})
    x = np.random.default_rng(5).standard_normal((3, 40)).astype(np.float32) * 2
    net.give(net.op("QuantizeLinear", net.feed("x", x), np.float32(1e-4), np.uint16(777)))
    check_engines(net)


def test_long_chains_are_not_cut_within_a_rounding(tmp_path: Path) -> None:
    net, rng = Net(), np.random.default_rng(6)
    about = np.float32(1e-4), np.uint16(7)
    x = net.feed("x", rng.standard_normal((1, 16, 5, 9)).astype(np.float32))
    w, b = (rng.standard_normal(s).astype(np.float32) for s in ((16, 16, 2, 2), (16,)))
    y = net.op("HardSigmoid", net.op("Conv", x, w, b))
    net.give(net.op("DequantizeLinear", net.op("QuantizeLinear", y, *about), *about))
    check_net(net, Target("gcc", ("gcc", "-O1")), tmp_path / "source", dots=1)
