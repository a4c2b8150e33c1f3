"""exp of what is not positive, as softmax takes it: the bits of exp, with fewer operations."""

from __future__ import annotations

import ctypes
import pathlib

import numpy as np
import pytest
from nets import Net
from test_passes import check, values

from sardonyx import types as t
from sardonyx.accuracy.harness import BLOCK, MODES, compile_c, kernel_of, operations
from sardonyx.kernel import elementary
from sardonyx.kernel.c99.print_c import prelude, print_c
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.kernel.expr import Buffer, Const, Load
from sardonyx.kernel.interpret import evaluate
from sardonyx.kernel.recognise import calls
from sardonyx.machine import Machine
from sardonyx.native import NativeEngine

EVERY = """
#include <string.h>
int64_t differing(uint32_t from, uint32_t to) {
  float x[%(block)d], a[%(block)d], b[%(block)d];
  int64_t found = 0;
  for (uint64_t u = from; u < to; u += %(block)d) {
    for (int i = 0; i < %(block)d; i++) {
      const uint32_t bits = (uint32_t)(u + i < to ? u + i : from);
      memcpy(x + i, &bits, 4);
    }
    whole(x, a, %(sizes)s);
    part(x, b, %(sizes)s);
    if (memcmp(a, b, sizeof a)) found++;
  }
  return found;
}
"""


@pytest.mark.parametrize("mode", MODES)
def test_every_float32_that_is_not_positive(mode: str, tmp_path: pathlib.Path) -> None:
    """All of -0 to -180, below which both are clamped; both zeros, infinity and all NaNs."""
    whole = print_c(kernel_of("exp", t.float32, BLOCK))
    part = print_c(kernel_of("exp_nonpositive", t.float32, BLOCK))
    assert whole.sizes == part.sizes
    text = whole.named("whole") + part.named("part")
    text += EVERY % {"block": BLOCK, "sizes": ", ".join(map(str, whole.sizes))}
    flags = ("-DSX_UNFUSED",) if mode == "unfused" else ()
    run = ctypes.CDLL(str(compile_c(prelude(text) + text, mode, tmp_path, *flags))).differing
    run.argtypes, run.restype = (ctypes.c_uint32, ctypes.c_uint32), ctypes.c_int64
    least = int(np.array(-180.0, np.float32).view(np.uint32))
    assert run(0x80000000, least) == 0
    assert run(0xFF000000, 0xFFFFFFFF) == run(0x7F800001, 0x80000000) == run(0, 1) == 0


@pytest.mark.parametrize("fused", [True, False])
def test_samples_of_float64(fused: bool) -> None:
    random = np.random.default_rng(1)
    x = -np.concatenate([
        random.uniform(0, 760, 40000), random.integers(0, 1 << 62, 40000).view(np.float64),
        [0.0, np.inf, np.nan, 745.2, 744.4, 708.4, 708.3, 1e300, 5e-324],
        random.uniform(-670, 0, 20000), [-670.0], random.uniform(740, 1500, 9000),
    ])  # fmt: skip
    names = ("exp", "exp_nonpositive")
    a, b = (evaluate(kernel_of(n, t.float64, x.size), [x], fused)[0] for n in names)
    assert a.tobytes() == b.tobytes()


def test_it_is_told_as_exp_and_takes_fewer_operations() -> None:
    x = Load(Buffer("b", t.float32, (4,)), (Const(0, t.int64),))
    e = elementary.exp_nonpositive(x)
    assert calls([e]) == {e: ("exp", (x,))}
    assert operations("exp_nonpositive", t.float32) <= operations("exp", t.float32) - 4


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax"])
def test_rows_of_anything(name: str) -> None:
    """Infinities, NaNs of all kinds and numbers far apart: the engines agree."""
    x = values(3, 12, 97)
    x[1, 5], x[2, 7], x[3, :], x[4, 1:], x[5, 3], x[6] = np.inf, np.nan, -np.inf, -np.inf, 1e38, 0.0
    x[7, ::2], x[8], x[9, 4] = -np.inf, -0.0, np.array(0xFF800003, np.uint32).view(np.float32)
    x[10] = np.linspace(-104.2, 0, 97)
    net = Net()
    net.give(net.op(name, net.feed("x", x), axis=-1))
    check(net)
    graph = net.graph()
    expected, found = Machine(graph).run(net.feeds), NativeEngine(graph).run(net.feeds)
    assert all(found[n].tobytes() == expected[n].tobytes() for n in graph.outputs)


def test_what_arithmetic_alone_reads_keeps_any_nan() -> None:
    """A row of exponentials is not searched for NaNs; what leaves the kernel is."""
    net = Net()
    net.give(net.op("Softmax", net.feed("x", values(1, 6, 64)), axis=-1))
    (launch,) = check(net).launches
    text = print_scheduled(launch.kernel).text
    stores = [line.strip() for line in text.splitlines() if "sx_canon_f32(" in line]
    assert stores
    assert all(line.startswith("out0[") for line in stores)
