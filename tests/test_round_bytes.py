"""Requantising sixteen floats at once: every float gives the byte that the definition gives."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from nets import Net, check_engines

from sardonyx import build
from sardonyx.kernel.c99.prelude import prelude

PROBE = """
#define PUBLIC __attribute__((visibility("default")))
PUBLIC void rounded(uint8_t *to, float *x, int64_t count, float zero) {
  int64_t i;
  for (i = 0; i < count; i += 16) {
    sx_round_u8(to + i, x + i, zero);
    sx_near_unsigned(x + i, zero, 255);
  }
}
PUBLIC void rounded_i8(int8_t *to, float *x, int64_t count, float zero) {
  int64_t i;
  for (i = 0; i < count; i += 16) {
    sx_round_i8(to + i, x + i, zero);
    sx_near_signed(x + i, zero, 127);
  }
}
PUBLIC void divided(uint8_t *to, float *x, int64_t count, float by, float zero) {
  int64_t i;
  for (i = 0; i < count; i += 16) {
    sx_quotients(x + i, by);
    sx_round_u8(to + i, x + i, zero);
    sx_near_signed(x + i, 0, 127);
  }
}
PUBLIC void left(int8_t *same, uint8_t *moved, const float *x, int64_t count) {
  int64_t i;
  for (i = 0; i < count; i += 16) {
    sx_leave_i8(same + i, x + i);
    sx_leave_u8(moved + i, x + i);
  }
}
"""


def values() -> np.ndarray:
    """Floats around every place where a byte changes, where int16 and int32 end, and no numbers."""
    halves = np.arange(-600, 600, dtype=np.float32) / 2
    ends = np.float32([2.0**n for n in range(7, 128)])
    near = np.concatenate([halves, ends, -ends, np.float32([0, 1e-45])])
    around = [np.nextafter(near, np.float32(x)) for x in (np.inf, -np.inf)]
    odd = np.float32([np.nan, -np.nan, np.inf, -np.inf, -0.0])
    found = np.concatenate([near, *around, odd])
    return np.resize(found, -(-len(found) // 16) * 16)


def test_every_kind_of_float_gives_its_byte() -> None:
    probe = build.load(build.library({"probe.c": f"{prelude(PROBE)}{PROBE}"}))
    for zero in (0, 1, 3, 127, 128, 254, 255):
        x = values()
        with np.errstate(invalid="ignore"):
            expected = np.nan_to_num(np.rint(x) + np.float32(zero), nan=0.0).clip(0, 255)
        found, floats = np.zeros(len(x), np.uint8), x.copy()
        pointers = (ctypes.c_void_p(a.ctypes.data) for a in (found, floats))
        probe.rounded(*pointers, ctypes.c_int64(len(x)), ctypes.c_float(zero))
        np.testing.assert_array_equal(found, expected)
        assert floats.tobytes() == expected.astype(np.float32).tobytes()  # no -0 either


def test_every_kind_of_float_gives_its_signed_byte() -> None:
    probe = build.load(build.library({"probe.c": f"{prelude(PROBE)}{PROBE}"}))
    for zero in (0, 1, -1, -128, 127):
        x = values()
        with np.errstate(invalid="ignore"):
            expected = np.nan_to_num(np.rint(x) + np.float32(zero), nan=0.0).clip(-128, 127)
        found = np.zeros(len(x), np.int8)
        pointers = (ctypes.c_void_p(a.ctypes.data) for a in (found, x))
        probe.rounded_i8(*pointers, ctypes.c_int64(len(x)), ctypes.c_float(zero))
        np.testing.assert_array_equal(found, expected)
        assert x.tobytes() == (expected + np.float32(0)).astype(np.float32).tobytes()


def middles(by: np.float32) -> np.ndarray:
    """Floats whose quotients are near the middles of integers, by 64 of their last places to each
    side, after all of `values`; padded to whole vectors, each of which has few of these."""
    centres = (np.arange(-420, 420) + 0.5) * np.float64(by)
    found = [centres.astype(np.float32)]
    for _ in range(64):
        found = [
            np.nextafter(found[0], np.float32(-np.inf)),
            *found,
            np.nextafter(found[-1], np.float32(np.inf)),
        ]
    alone = np.zeros((len(found) * len(centres), 16), np.float32)
    alone[:, 5] = np.concatenate(found)
    return np.concatenate([values(), values() * by, alone.ravel()])


@pytest.mark.parametrize(
    "by", [1, 0.1, -0.0371, 3e-5, 1e30, 2.0**-126, 2.0**127, 1e-40, 3e38, 0, -0.0, np.inf, np.nan]
)
def test_quotients_give_the_bytes_of_a_division(by: float) -> None:
    probe = build.load(build.library({"probe.c": f"{prelude(PROBE)}{PROBE}"}))
    for zero in (0, 3, 128, 255):
        with np.errstate(all="ignore"):
            x = middles(np.float32(by))
            near = np.rint(x / np.float32(by))
            unsigned = np.nan_to_num(near + np.float32(zero), nan=0.0).clip(0, 255)
            signed = np.nan_to_num(near, nan=0.0).clip(-128, 127)
        found = np.zeros(len(x), np.uint8)
        pointers = (ctypes.c_void_p(a.ctypes.data) for a in (found, x))
        probe.divided(*pointers, ctypes.c_int64(len(x)), ctypes.c_float(by), ctypes.c_float(zero))
        np.testing.assert_array_equal(found, unsigned)
        np.testing.assert_array_equal(x, signed)


def test_floats_of_signed_bytes_are_left_as_these_or_128_more() -> None:
    probe = build.load(build.library({"probe.c": f"{prelude(PROBE)}{PROBE}"}))
    x = np.arange(-128, 128, dtype=np.float32)
    same, moved = np.zeros(256, np.int8), np.zeros(256, np.uint8)
    pointers = (ctypes.c_void_p(a.ctypes.data) for a in (same, moved, x))
    probe.left(*pointers, ctypes.c_int64(256))
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(moved, x + 128)


@pytest.mark.parametrize("weight", [64, 127])
def test_signed_bytes_go_through_the_same_sums_in_all_engines(weight: int) -> None:
    made, rng = Net(), np.random.default_rng(12)
    for kind, zero, group, size in (
        ("three", 0, 1, 3), ("one", -7, 1, 1), ("deep", 3, 32, 3), ("few", 0, 1, 5),
    ):  # fmt: skip
        channels = 3 if kind == "few" else 32
        x = made.feed(kind, rng.integers(-128, 128, (2, channels, 17, 17)).astype(np.int8))
        shape = (32, channels // group, size, size)
        w = rng.integers(-weight, weight, shape).astype(np.int8)
        one, y = np.float32(1), np.float32(99 * weight)
        parts = (x, one, np.int8(zero), w, one, np.int8(0), y, np.int8(zero))
        pads = [size // 2] * 4
        conv = made.op("QLinearConv", *parts, group=group, pads=pads)
        again = (conv, one, np.int8(zero), w[:, :, :1, :1] if group == 1 else w, one, np.int8(0))
        made.give(conv)
        if channels == 32:
            pads = [0] * 4 if group == 1 else pads
            made.give(made.op("QLinearConv", *again, y, np.int8(9), group=group, pads=pads))
    check_engines(made)


def test_sums_that_leave_bytes_are_saturated_in_all_engines() -> None:
    made, rng = Net(), np.random.default_rng(11)
    one = np.float32(1)
    for scale, zero in ((0.003, 0), (0.3, 128), (1e9, 7), (3e38, 255)):
        x = made.feed(f"x{zero}", rng.integers(0, 256, (2, 32, 5, 9)).astype(np.uint8))
        w = rng.integers(-64, 65, (48, 32, 1, 1)).astype(np.int8)
        y = np.float32(1 / scale) if scale < 3e38 else np.float32(1e-38)
        parts = (x, one, np.uint8(zero), w, one, np.int8(0), y, np.uint8(zero))
        conv = made.op("QLinearConv", *parts)
        other = made.feed(f"y{zero}", rng.integers(0, 256, (2, 48, 5, 9)).astype(np.uint8))
        a = made.op("DequantizeLinear", conv, np.float32(0.1), np.uint8(zero))
        b = made.op("DequantizeLinear", other, np.float32(0.07), np.uint8(9))
        total = made.op("Add", a, b)
        made.give(conv, made.op("QuantizeLinear", total, np.float32(0.11), np.uint8(4)))
    check_engines(made)
