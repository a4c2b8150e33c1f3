"""Sixteen float16 at once: every float gives the float16 that the definition gives; what is one is
not rounded again."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from nets import Net, check_engines

from sardonyx import build
from sardonyx import types as t
from sardonyx.kernel.c99.prelude import prelude
from sardonyx.kernel.c99.print_strip import rounds_in_strips
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.kernel.expr import Axis, Buffer, Cast, Load
from sardonyx.kernel.ir import Store, expressions, statements
from sardonyx.kernel.walk import walk
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise

PROBE = """
#define PUBLIC __attribute__((visibility("default")))
PUBLIC void widened(float *to, const uint16_t *x, int64_t count) {
  int64_t i;
  for (i = 0; i < count; i += 16) sx_widen_f16(to + i, x + i);
}
PUBLIC void narrowed(uint16_t *to, float *x, int64_t count) {
  int64_t i;
  for (i = 0; i < count; i += 16) {
    sx_narrow_f16(to + i, x + i);
    sx_nears_f16(x + i);
  }
}
"""


def probe() -> ctypes.CDLL:
    return build.load(build.library({"probe.c": f"{prelude(PROBE)}{PROBE}"}))


def pointer(a: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(a.ctypes.data)


def values() -> np.ndarray:
    """Every float16, the middles between neighbours, what is beside both, ends, and no numbers."""
    codes = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    codes = np.sort(codes[np.isfinite(codes)])
    middles = ((codes[1:].astype(np.float64) + codes[:-1]) / 2).astype(np.float32)
    ends = np.float32([65519.996, 65520, 65536, 1e38, 1e-45, 1e-40, 2.0**-25, 2.0**-26, 0.0])
    near = np.concatenate([codes, middles, ends, -ends])
    around = [np.nextafter(near, np.float32(x)) for x in (np.inf, -np.inf)]
    no_numbers = np.uint32([0x7F800001, 0xFFC00000, 0x7FC00000, 0xFFFFFFFF, 0x7F800000, 0xFF800000])
    found = np.concatenate([near, *around, no_numbers.view(np.float32)])
    return np.resize(found, -(-len(found) // 16) * 16)


def test_every_float16_is_widened_exactly() -> None:
    codes = np.arange(1 << 16, dtype=np.uint16)
    found = np.zeros(1 << 16, np.float32)
    probe().widened(pointer(found), pointer(codes), ctypes.c_int64(1 << 16))
    expected = codes.view(np.float16).astype(np.float32)
    numbers = ~np.isnan(expected)
    assert np.array_equal(np.isnan(found), ~numbers)
    assert found[numbers].tobytes() == expected[numbers].tobytes()


def test_every_kind_of_float_gives_its_float16() -> None:
    x = values()
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16)
    expected[np.isnan(x)] = np.uint16(0x7E00).view(np.float16)
    wide = expected.astype(np.float32)
    found = np.zeros(len(x), np.uint16)
    probe().narrowed(pointer(found), pointer(x), ctypes.c_int64(len(x)))
    assert found.tobytes() == expected.tobytes()
    assert np.array_equal(np.isnan(x), np.isnan(wide))
    numbers = ~np.isnan(wide)
    assert x[numbers].tobytes() == wide[numbers].tobytes()


def half(*shape: int, seed: int = 0) -> np.ndarray:
    """Numbers of many sizes, with infinities, NaN of several kinds, zeros of both signs."""
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=shape) * 10.0 ** rng.integers(-6, 4, shape)).astype(np.float16)
    odd = np.uint16([0x7C00, 0xFC00, 0x7C01, 0xFE00, 0x7E00, 0x8000, 0x0001]).view(np.float16)
    places = x.reshape(-1)[3::5]
    places[: len(odd)] = odd[: len(places)]
    return x


@pytest.mark.parametrize("channels", [16, 24, 40])
def test_convolutions_with_what_follows_round_the_same_in_all_engines(channels: int) -> None:
    made, rng = Net(), np.random.default_rng(7)
    x = made.feed("x", half(2, channels, 9, 13))
    w = (rng.normal(size=(channels, channels, 3, 3)) * 0.2).astype(np.float16)
    parts = [rng.normal(size=channels).astype(np.float16) for _ in range(3)]
    variance = np.abs(rng.normal(size=channels)).astype(np.float16)
    c = made.op("Conv", x, w, pads=[1, 1, 1, 1])
    y = made.op("BatchNormalization", c, *parts, variance)
    gate = made.op("Mul", y, made.op("Sigmoid", y))
    six = made.op("Clip", y, np.float16(0), np.float16(6))
    window = made.op("Conv", gate, w[:, :1], pads=[1, 1, 1, 1], group=channels)
    made.give(made.op("Conv", window, w[:, :, :1, :1]), made.op("Conv", six, w[:, :, :1, :1]), gate)
    check_engines(made)


def test_eight_filters_are_rounded_without_sixteen_lanes_in_memory() -> None:
    made = Net()
    y = made.op("Conv", made.feed("x", half(1, 16, 5, 5)), half(8, 16, 1, 1, seed=1))
    y = made.op("Mul", y, half(8, 1, 1, seed=2))
    made.give(made.op("Mul", y, made.op("Clip", y, np.float16(0), np.float16(6))))
    check_engines(made)
    (launch,) = (x for x in optimise(lower(made.graph()), roomy=True).launches if x.operations)
    text = print_scheduled(launch.kernel).text
    assert "sx_near_f16(" in text
    assert "[16] = {0}" not in text


@pytest.mark.parametrize("size", [(2, 64), (3, 50), (7,)])
def test_elements_round_the_same_in_all_engines(size: tuple[int, ...]) -> None:
    made = Net()
    x, z = made.feed("x", half(*size)), made.feed("z", half(*size, seed=1))
    for op in ("Relu", "Sigmoid", "Erf", "Neg", "Softplus", "HardSwish", "Cos"):
        y = made.op(op, x)
        other = made.op("Mul", y, z)
        wide = made.op("Cast", other, to=1)
        made.give(y, other, wide, made.op("Cast", made.op("Mul", wide, np.float32(0.3)), to=10))
    check_engines(made)


def test_a_value_that_is_a_float16_is_not_rounded_again() -> None:
    made = Net()
    w = np.ones((16, 16, 1, 1), np.float16)
    x = made.feed("x", half(1, 16, 4, 4))
    y = made.op("Clip", made.op("Conv", x, w), np.float16(0), np.float16(6))
    gate = made.op("Mul", y, made.op("Abs", y))
    made.give(made.op("Conv", gate, w))
    program = optimise(lower(made.graph()), roomy=True)
    (launch,) = (x for x in program.launches if any(o.op_type == "Clip" for o in x.operations))
    roots = [e for s in statements(launch.kernel.body) for e in expressions(s)]
    rounded = [e for e in walk(*roots) if isinstance(e, Cast) and e.dtype is t.float16]
    assert len(rounded) == 2, rounded  # the sums, and the product


def gelu(made: Net, x: str) -> str:
    erf = made.op("Erf", made.op("Div", x, np.float16(2**0.5)))
    return made.op("Mul", made.op("Mul", x, made.op("Add", erf, np.float16(1))), np.float16(0.5))


@pytest.mark.parametrize(("tokens", "hidden"), [(37, 64), (40, 50)])
def test_layers_of_tokens_round_the_same_in_all_engines(tokens: int, hidden: int) -> None:
    made, rng = Net(), np.random.default_rng(5)
    x = made.feed("x", half(1, tokens, hidden))
    scale, bias = (rng.normal(size=hidden).astype(np.float16) for _ in range(2))
    x = made.op("LayerNormalization", x, scale, bias)
    w = [(rng.normal(size=(hidden, hidden)) * 0.2).astype(np.float16) for _ in range(4)]
    q, k, v = (
        made.op("Reshape", made.op("MatMul", x, w[i]), np.int64([1, tokens, 2, -1]))
        for i in range(3)
    )
    q, v = (made.op("Transpose", y, perm=[0, 2, 1, 3]) for y in (q, v))
    scores = made.op("MatMul", q, made.op("Transpose", k, perm=[0, 2, 3, 1]))
    scores = made.op("Softmax", made.op("Mul", scores, np.float16(0.2)), axis=-1)
    y = made.op("Transpose", made.op("MatMul", scores, v), perm=[0, 2, 1, 3])
    y = made.op("Add", x, made.op("Reshape", y, np.int64([1, tokens, hidden])))
    made.give(y, gelu(made, made.op("Add", made.op("MatMul", y, w[3]), bias)))
    check_engines(made)


def test_what_is_held_as_float32_is_not_copied() -> None:
    made = Net()
    x = made.op("MatMul", made.feed("x", half(2, 24, 32)), half(32, 32, seed=1))
    y = made.op("Transpose", made.op("MatMul", x, half(32, 32, seed=2)), perm=[0, 2, 1])
    made.give(made.op("MatMul", x, y))
    launches = optimise(lower(made.graph()), roomy=True).launches
    assert [x.reads for x in launches if not x.operations] == [("x",)]  # that is fed is widened


def test_a_loop_that_reads_what_it_wrote_is_not_taken_in_strips() -> None:
    i, y = Axis("i", 64), Buffer("y", t.float32, (65,))
    for place, fits in ((i + 1, True), (i, False)):
        before = Load(y, (place,), "proven")
        near = Cast(Cast(before * 0.5, t.float16), t.float32)
        assert rounds_in_strips(Store(y, (i + 1,), near, proven=True), i) is fits
