"""Sums of bytes that become bytes while they are in registers (kernel/c99/print_plain_u8.py): the
bytes of the machine and of plain loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nets import Net, check_engines, merged
from targets import Target
from test_targets import OF_BYTES, check_net

from sardonyx.kernel.c99.print_plain import Plain
from sardonyx.kernel.c99.print_product import packed_product
from sardonyx.kernel.ir import Compute
from sardonyx.native import NativeEngine
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise

PADS = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
NATIVE = [  # the sanitizers, and the instruction
    x for x in OF_BYTES if not isinstance(x, Target) or x.name in ("gcc", "vnni")
]
SCALES = (0.02, 0.003, 1e-38, 3e38, np.inf, np.nan)


class Bytes:
    """A graph of quantised tensors, as quantisers write it: x -> Q -> DQ -> op -> Q -> DQ."""

    def __init__(self, seed: int) -> None:
        self.net, self.rng = Net(), np.random.default_rng(seed)

    def bytes(self, x: Any, scale: float, zero: int) -> Any:
        return self.net.op("QuantizeLinear", x, np.float32(scale), np.uint8(zero))

    def both(self, x: Any, scale: float, zero: int) -> Any:
        about = (self.net.weight(np.float32(scale)), self.net.weight(np.uint8(zero)))
        return self.net.op("DequantizeLinear", self.net.op("QuantizeLinear", x, *about), *about)

    def start(self, *shape: int) -> Any:
        x = self.rng.standard_normal(shape).astype(np.float32)
        return self.both(self.net.feed(f"x{len(self.net.feeds)}", x), 0.02, 121)

    def conv(self, x: Any, filters: int, channels: int, size: int, **about: Any) -> Any:
        """With a factor for each filter or one for all, with a bias or without."""
        each, bias = about.pop("each", True), about.pop("bias", True)
        step = np.float32(about.pop("step", 0.02))  # of x
        w = self.rng.integers(-127, 128, (filters, channels, size, size)).astype(np.int8)
        scale = (0.002 + 0.003 * self.rng.random(filters)).astype(np.float32)
        scale = about.pop("scale", scale) if each else scale[0]
        zero = np.zeros(filters, np.int8) if each else np.int8(0)
        axis = {"axis": 0} if each else {}
        pads = PADS if size == 3 else {}
        w = self.net.op("DequantizeLinear", w, scale, zero, **axis)
        given = [w]
        if bias:
            b = self.rng.integers(-3000, 3000, filters).astype(np.int32)
            zeros = np.zeros(filters, np.int32) if each else np.int32(0)
            scale = (step * scale).astype(np.float32)
            given.append(self.net.op("DequantizeLinear", b, scale, zeros, **axis))
        return self.net.op("Conv", x, *given, **pads, **about)

    def one(self, shape: tuple[int, ...], filters: int, size: int, **about: Any) -> None:
        """A convolution by itself, of an input of its own to an output."""
        y = self.conv(self.start(*shape), filters, shape[1], size, **about)
        self.net.give(self.bytes(y, 0.05, 7))


def single() -> Net:
    """Blocks that are full and one that is not, few terms and many, borders, one factor for all, no
    bias, a picture of few places."""
    made = Bytes(1)
    for shape, filters, size, about in (
        ((2, 16, 9, 8), 96, 1, {}),
        ((1, 48, 7, 7), 40, 3, {}),
        ((1, 64, 5, 6), 32, 1, {"each": False}),
        ((1, 32, 6, 5), 64, 3, {"bias": False}),
        ((1, 160, 1, 2), 80, 1, {"bias": False, "each": False}),
        ((1, 16, 4, 4), 16, 1, {"strides": [2, 2]}),
    ):
        made.one(shape, filters, size, **about)
    return made.net


def residual() -> Net:
    """A sum with what the convolution reads, on either side, and with another tensor."""
    made = Bytes(2)
    x = made.both(made.conv(made.start(1, 32, 7, 6), 48, 32, 1), 0.04, 0)
    step = 0.04
    for zero, first in ((3, True), (255, False), (128, True)):
        y = made.both(made.conv(x, 48, 48, 3, step=step), 0.06, zero)
        step = 0.07
        total = made.net.op("Add", *((y, x) if first else (x, y)))
        x = made.both(total, 0.07, zero // 2)
    made.net.give(made.bytes(made.conv(x, 48, 48, 1, step=step), 0.05, 9))
    return made.net


def extreme() -> Net:
    """Factors that are not finite, too small and too large."""
    made = Bytes(3)
    scale = np.resize(np.array(SCALES, np.float32), 48)
    x = made.start(1, 20, 6, 6)
    y = made.both(made.conv(x, 48, 20, 1, scale=scale, bias=False), 0.1, 200)
    z = made.both(made.conv(y, 48, 48, 1, scale=scale, bias=False), 3e38, 100)
    made.net.give(made.bytes(made.net.op("Add", z, y), 0.3, 50))
    return made.net


def plains(net: Net) -> list[Plain | None]:
    """What becomes of each sum of products."""
    program = optimise(lower(net.graph()), roomy=True, dots=True)
    sums = [s for x in program.launches for s in x.kernel.body if isinstance(s, Compute)]
    return [p.plain for p in map(packed_product, sums) if p is not None]


@pytest.mark.parametrize("make", [single, residual, extreme])
def test_the_engines_agree(make: Any) -> None:
    check_engines(make())


@pytest.mark.parametrize(("make", "sums", "with_rest"), [(single, 6, 0), (residual, 5, 3)])
def test_all_are_told_so(make: Any, sums: int, with_rest: int) -> None:
    found = [p.rounded for p in plains(make()) if p is not None and p.rounded is not None]
    assert len(found) == sums
    assert sum(p.inner is not None for p in found) == with_rest


@pytest.mark.usefixtures("small_units")
@pytest.mark.parametrize("make", [single, residual])
def test_threads_share_them_out(make: Any) -> None:
    net = make()
    want = NativeEngine(net.graph(), schedule=False).run(net.feeds)
    found = NativeEngine(net.graph(), threads=3).run(net.feeds)
    assert [n for n, y in want.items() if found[n].tobytes() != y.tobytes()] == []


@pytest.mark.parametrize("target", NATIVE, ids=str)
def test_targets_and_sanitizers_give_the_machines_bytes(target: Target, tmp_path: Path) -> None:
    nets = {"single": single(), "residual": residual(), "extreme": extreme()}
    check_net(merged(nets), target, tmp_path / "source", dots=True)
