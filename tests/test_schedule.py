"""Schedules change no bit: random networks, plain loops against passes and fast forms against the
machine. Each family is one program, so that a C compiler is started few times."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nets import Net, check_engines
from targets import Target, compiled, write

from sardonyx.kernel.c99.print_c import print_c
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.types import Array

CHANNELS = (1, 2, 3, 5, 8, 12, 16, 17, 24, 31, 32, 34, 48, 58, 64, 70)
Rng = np.random.Generator


def values(rng: Rng, *shape: int) -> Array:
    """Normal numbers of many sizes, and now and then a zero of either sign."""
    x = rng.standard_normal(shape) * np.exp2(rng.integers(-6, 7, shape))
    return np.where(rng.random(shape) < 0.05, np.copysign(0.0, x), x).astype(np.float32)


def pick(rng: Rng, *choices: Any) -> Any:
    return choices[rng.integers(len(choices))]


def fed(net: Net, rng: Rng, *shape: int) -> str:
    return net.feed(f"x{len(net.feeds)}", values(rng, *shape))


def norm(net: Net, rng: Rng, x: str, c: int) -> str:
    scale, bias, mean = (values(rng, c) for _ in range(3))
    variance = np.abs(values(rng, c)) + np.float32(0.5)
    return str(net.op("BatchNormalization", x, scale, bias, mean, variance))


def conv(net: Net, rng: Rng, x: str, c: int, out: int, group: int = 1, **given: Any) -> str:
    """A convolution of a random window."""
    k = [int(v) for v in rng.integers(1, 4, 2)]
    about: dict[str, Any] = {
        "kernel_shape": k,
        "strides": [int(v) for v in rng.integers(1, 3, 2)],
        "dilations": [int(v) for v in rng.integers(1, 3, 2)],
        "pads": [int(v) for v in rng.integers(0, 3, 4)],
        "group": group,
        **given,
    }
    weights = values(rng, out, c // group, *about["kernel_shape"])
    bias = [values(rng, out)] if rng.random() < 0.5 else []
    return str(net.op("Conv", x, weights, *bias, **about))


def convolutions(net: Net, rng: Rng) -> None:
    for _ in range(10):
        n, h, w = (int(v) for v in rng.integers((1, 5, 5), (3, 12, 12)))
        c, out = pick(rng, *CHANNELS), pick(rng, *CHANNELS)
        y = conv(net, rng, fed(net, rng, n, c, h, w), c, out)
        if rng.random() < 0.5:
            y = net.op("Relu", norm(net, rng, y, out))
        net.give(y)


def grouped(net: Net, rng: Rng) -> None:
    """Groups, channel shuffles, depthwise convolutions, residual sums, concatenation."""
    same = {"kernel_shape": [1, 1], "strides": [1, 1], "dilations": [1, 1], "pads": [0] * 4}
    for c, group in ((24, 4), (34, 2), (48, 3), (64, 4), (70, 7), (136, 4)):
        x = fed(net, rng, 1, c, 7, 6)
        y = net.op("Relu", norm(net, rng, conv(net, rng, x, c, c, group, **same), c))
        y = net.op("Reshape", y, np.array([1, group, c // group, 7, 6]))
        y = net.op("Transpose", y, perm=[0, 2, 1, 3, 4])
        y = net.op("Reshape", y, np.array([1, c, 7, 6]))
        deep = {"kernel_shape": [3, 3], "strides": [1, 1], "dilations": [1, 1], "pads": [1] * 4}
        y = norm(net, rng, conv(net, rng, y, c, c, c, **deep), c)
        y = conv(net, rng, y, c, c, group, **same)
        y = net.op("Relu", net.op("Add", norm(net, rng, y, c), x))
        pooled = net.op("AveragePool", x, kernel_shape=[3, 3], pads=[1] * 4)
        net.give(net.op("Concat", y, pooled, conv(net, rng, y, c, 16, **same), axis=1))


def pools(net: Net, rng: Rng) -> None:
    """Pools between convolutions, in every layout, and alone."""
    for i in range(12):
        c = pick(rng, *CHANNELS)
        x = fed(net, rng, 1, c, 9, 10)
        x = conv(net, rng, x, c, c, pads=[2] * 4) if i % 3 else x
        about = {
            "kernel_shape": [pick(rng, 2, 3), pick(rng, 1, 3, 5)],
            "strides": [pick(rng, 1, 2), pick(rng, 1, 2, 3)],
            "pads": [pick(rng, 0, 1), 0, 1, pick(rng, 0, 1)],
        }
        kind = pick(rng, "MaxPool", "AveragePool", "AveragePool")
        if kind == "AveragePool":
            about["count_include_pad"] = pick(rng, 0, 1)
        if about["kernel_shape"][1] == 1:
            about["pads"] = [about["pads"][0], 0, 1, 0]
        y = net.op(kind, x, **about)
        net.give(y, net.op("GlobalAveragePool", y), net.op("ReduceMax", y, np.array([2, 3])))


def matmuls(net: Net, rng: Rng) -> None:
    """Weights on either side, or none; batches that broadcast; epilogues."""
    for i in range(14):
        m, n, k = (int(v) for v in rng.integers(1, 71, 3))
        batch = pick(rng, (), (3,), (2, 1), (2, 3))
        a, b = values(rng, *batch, m, k), values(rng, *batch[1:], k, n)
        left = net.feed(f"x{len(net.feeds)}", a) if i % 3 != 1 else net.weight(a)
        right = net.feed(f"x{len(net.feeds)}", b) if i % 3 != 2 else net.weight(b)
        y = net.op("MatMul", left, right)
        net.give(net.op("Tanh", net.op("Add", y, values(rng, n))) if i % 2 else y)
    for long in (256, 300, 520):
        net.give(net.op("Gemm", fed(net, rng, 5, long), values(rng, 20, long), transB=1))


def rows(net: Net, rng: Rng) -> None:
    """Softmax, norms and reductions of rows; transposes and concatenations."""
    for i in range(10):
        a, b, c = (int(v) for v in rng.integers(1, 40, 3))
        x = fed(net, rng, a, b, c)
        net.give(net.op("Softmax", x, axis=pick(rng, 0, 1, 2)))
        net.give(net.op("LayerNormalization", x, values(rng, c), values(rng, c)))
        net.give(net.op("ReduceMean", x, np.array([pick(rng, 0, 1, 2)])))
        net.give(net.op("Transpose", net.op("Exp", x), perm=[int(v) for v in rng.permutation(3)]))
        net.give(net.op("Concat", x, net.op("Erf", x), x, axis=i % 3))
        net.give(net.op("Pad", x, np.array([1, 0, 2, 0, 3, 1]), mode=pick(rng, "constant", "edge")))


def whole(rng: Rng, dtype: Any, *shape: int) -> Array:
    """Numbers from all of the type, and many of its ends, so that sums of int32 wrap."""
    info = np.iinfo(dtype)
    x = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    return np.where(rng.random(shape) < 0.3, pick(rng, info.min, info.max), x).astype(dtype)


def integers(net: Net, rng: Rng) -> None:
    """Sums of products of bytes less their zero points, with constant and with fed factors."""
    scales = [np.float32(s) for s in (0.02, 0.3, 9.0)]
    for i in range(14):
        n, h, w = (int(v) for v in rng.integers((1, 5, 5), (3, 12, 12)))
        c, out = pick(rng, *CHANNELS), pick(rng, *CHANNELS)
        group = c if i % 5 == 4 else 1
        kinds = [pick(rng, np.uint8, np.int8) for _ in range(3)]
        window = [int(v) for v in rng.integers(1, 4, 2)]
        x = net.feed(f"x{len(net.feeds)}", whole(rng, kinds[0], n, c, h, w))
        weights = whole(rng, kinds[1], out * group, c // group, *window)
        zeros = [whole(rng, k) for k in kinds]
        about = {"pads": [int(v) for v in rng.integers(0, 3, 4)], "group": group}
        about["strides"] = [int(v) for v in rng.integers(1, 3, 2)]
        if i % 2:
            net.give(net.op("ConvInteger", x, weights, *zeros[:2], **about))
            continue
        parts = [x, scales[0], zeros[0], weights, scales[1], zeros[1], scales[2], zeros[2]]
        y = net.op("QLinearConv", *parts, whole(rng, np.int32, out * group), **about)
        again = whole(rng, np.int8, 20, out * group, 1, 1)
        y = net.op("QLinearConv", y, *parts[1:2], zeros[2], again, scales[1], np.int8(3),
                   scales[2], np.uint8(9))  # fmt: skip
        net.give(y)
    for i in range(8):
        m, k, n = (int(v) for v in rng.integers(1, 40, 3))
        k = 600 + i if i % 3 == 0 else k
        a = net.feed(f"x{len(net.feeds)}", whole(rng, np.uint8, 2, m, k))
        b = whole(rng, np.int8, *((2, k, n) if i % 4 == 1 else (k, n)))
        factor = net.feed(f"x{len(net.feeds)}", b) if i % 2 else b
        net.give(net.op("MatMulInteger", a, factor, np.uint8(200), whole(rng, np.int8, n)))
    for dtype in (np.int32, np.uint32, np.int64, np.uint64):
        a, b = (net.feed(f"x{len(net.feeds)}", whole(rng, dtype, 20, 20)) for _ in "ab")
        net.give(net.op("MatMul", a, b))


def small_weights(net: Net, rng: Rng) -> None:
    """Sums of products of uint8 and of weights within 64: convolutions of few and of many channels,
    depthwise ones, matrices; the zero point of x is known or fed."""
    scales = [np.float32(s) for s in (0.02, 0.3, 9.0)]
    for i in range(12):
        n, h, w = (int(v) for v in rng.integers((1, 5, 5), (3, 12, 12)))
        c, out = pick(rng, 1, 2, 3, 5, 16, 24, 48), pick(rng, 3, 16, 32, 40)
        group = c if i % 3 == 2 else 1
        out = c * pick(rng, 1, 2) if i % 3 == 2 else out
        window = [int(v) for v in rng.integers(1, 4, 2)]
        x = net.feed(f"x{len(net.feeds)}", whole(rng, np.uint8, n, c, h, w))
        weights = rng.integers(-64, 65, (out, c // group, *window)).astype(np.int8)
        about = {"pads": [int(v) for v in rng.integers(0, 3, 4)], "group": group}
        about["strides"] = [int(v) for v in rng.integers(1, 3, 2)]
        parts = [x, scales[0], whole(rng, np.uint8), weights, scales[1], np.int8(0), scales[2]]
        y = net.op("QLinearConv", *parts, np.uint8(9), whole(rng, np.int32, out), **about)
        y = net.op("MaxPool", y, kernel_shape=[2, 2], pads=[1] * 4)
        again = rng.integers(-64, 65, (20, out, 1, 1)).astype(np.int8)
        net.give(net.op("QLinearConv", y, scales[0], np.uint8(9), again, scales[1], np.int8(0),
                        scales[2], np.int8(-7)))  # fmt: skip
    for i in range(6):
        m, k, n = (int(v) for v in rng.integers(4, 40, 3))
        k = 600 + i if i % 3 == 0 else k
        a = net.feed(f"x{len(net.feeds)}", whole(rng, np.uint8, 2, m, k))
        zero = net.feed(f"x{len(net.feeds)}", whole(rng, np.uint8)) if i % 2 else np.uint8(200)
        b = rng.integers(-60, 61, (k, n)).astype(np.int8)
        net.give(net.op("MatMulInteger", a, b, zero, rng.integers(-4, 5, n).astype(np.int8)))


FAMILIES = (convolutions, grouped, pools, matmuls, rows, integers, small_weights)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.__name__)
def test_scheduled_equals_plain_equals_machine(family: Callable[[Net, Rng], None]) -> None:
    net = Net()
    family(net, np.random.default_rng(5))
    check_engines(net)


def test_a_channel_shuffle_is_one_launch_and_epilogues_join_grouped_convolutions() -> None:
    net = Net()
    grouped(net, np.random.default_rng(5))
    program = optimise(lower(net.graph(), overridable=False))
    names = [launch.kernel.name for launch in program.launches]
    assert names.count("shuffle") == 6
    assert not any(name.startswith(("Reshape", "Transpose", "Batch", "Relu")) for name in names)


def test_products_of_bytes_reach_the_tiles_of_int16() -> None:
    net = Net()
    integers(net, np.random.default_rng(5))
    program = optimise(lower(net.graph(), overridable=False))
    texts = [print_scheduled(launch.kernel).text for launch in program.launches]
    assert sum("sx_contract_i16(" in text for text in texts) >= 20


def test_small_weights_reach_the_tiles_and_windows_of_bytes() -> None:
    net = Net()
    small_weights(net, np.random.default_rng(5))
    program = optimise(lower(net.graph(), overridable=False))
    texts = [print_scheduled(launch.kernel).text for launch in program.launches]
    assert sum("sx_contract_u8(" in text for text in texts) >= 20
    assert sum("sx_window_u8(" in text for text in texts) >= 1


def test_the_plain_printer_knows_no_schedule() -> None:
    net = Net()
    matmuls(net, np.random.default_rng(5))
    program = optimise(lower(net.graph(), overridable=False))
    assert all("sx_contract" not in print_c(launch.kernel).text for launch in program.launches)


def test_sums_of_one_row_compile_without_a_warning(tmp_path: Path) -> None:
    net = Net()
    x, w = net.feed("x", np.ones((1, 3, 4, 4), np.float32)), np.ones((20, 3, 4, 4), np.float32)
    net.give(net.op("Relu", net.op("Conv", x, w)))
    compiled(write(net.graph(), tmp_path, scheduled=True), Target("gcc", ("gcc", "-O1")))
