"""Sums of products of bytes by AMX (kernel/c99/contract_amx.h), with channels last: the bytes of
the machine, where there is AMX, with its instructions in C (amx/amx.h), and without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nets import Net, check_engines, merged
from targets import WITH_SANITIZERS, Target, compiled, results, unable, write
from test_plain_u8 import SCALES, Bytes
from test_targets import GCC, V4, check_net

from sardonyx import build
from sardonyx.kernel.expr import Fold
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.walk import walk
from sardonyx.native import NativeEngine
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise

ROWS = 16  # of bytes that one instruction multiplies
VNNI = ("-march=x86-64-v4", "-mavx512vnni")
AMX = (*VNNI, "-mamx-tile", "-mamx-int8")
IN_C = (*VNNI, "-include", str(Path(__file__).parent / "amx/amx.h"))
WITH_VNNI, WITH_AMX = (*V4, "avx512_vnni"), (*V4, "avx512_vnni", "amx_int8")
AMX_IN_C = Target("amx-in-c", (*GCC, "-O1", *IN_C), cpu=WITH_VNNI)
LATER = (  # the engines are compiled for AMX where there is AMX
    Target("amx", (*GCC, "-O3", *AMX), cpu=WITH_AMX),
    Target("amx-clang", ("clang", "-O2", *AMX), cpu=WITH_AMX),
    Target("amx-in-c-sanitized", (*WITH_SANITIZERS["gcc"], *IN_C), cpu=WITH_VNNI),
    Target("vnni", (*GCC, "-O3", *VNNI), cpu=WITH_VNNI),
)


def convolutions() -> Net:
    """Lines of x that are longer than a register has rows, shorter, and of few; blocks that are
    even, odd and not full; terms that fill a register, parts of it, and do not suit it."""
    made = Bytes(1)
    for shape, filters, size, about in (
        ((1, 64, 9, 8), 96, 1, {}),
        ((2, 64, 7, 7), 40, 3, {}),
        ((1, 128, 3, 20), 48, 3, {}),
        ((1, 32, 13, 34), 32, 3, {"strides": [2, 2]}),
        ((1, 96, 3, 3), 16, 1, {"each": False}),
        ((1, 272, 4, 4), 32, 1, {}),
        ((1, 64, 1, 5), 32, 1, {"bias": False}),
        ((1, 16, 6, 40), 64, 3, {"bias": False}),
    ):
        made.one(shape, filters, size, **about)
    return made.net


def residual() -> Net:
    """Sums with other bytes, with factors that are tame and that are not finite."""
    made = Bytes(2)
    x = made.both(made.conv(made.start(1, 64, 7, 6), 96, 64, 1), 0.04, 0)
    for zero in (3, 255):
        y = made.both(made.conv(x, 96, 96, 3, step=0.04), 0.06, zero)
        x = made.both(made.net.op("Add", y, x), 0.04, zero // 2)
    scale = np.resize(np.array(SCALES, np.float32), 96)
    z = made.both(made.conv(x, 96, 96, 1, step=0.04, scale=scale, bias=False), 3e38, 100)
    made.net.give(made.bytes(made.net.op("Add", z, x), 0.3, 50))
    return made.net


def products() -> Net:
    """Matrices of few rows and of many, whose sums become floats."""
    made, rng = Net(), np.random.default_rng(3)
    sizes = ((1, 64, 32), (8, 192, 40), (17, 64, 16), (300, 96, 48), (33, 1100, 32))
    for rows, terms, filters in sizes:
        a = made.feed(f"a{rows}", rng.integers(0, 256, (rows, terms)).astype(np.uint8))
        w = rng.integers(-128, 128, (terms, filters)).astype(np.int8)
        sums = made.op("Cast", made.op("MatMulInteger", a, w, np.uint8(rows % 7)), to=1)
        made.give(made.op("Mul", sums, np.float32(0.013)))
    return made


def channels() -> Net:
    made = Bytes(4)
    y = made.both(made.conv(made.start(1, 64, 6, 6), 32, 64, 1), 0.04, 0)
    made.net.give(made.bytes(made.conv(y, 64, 32, 3, step=0.04), 0.05, 7))
    return made.net


SLOW = [pytest.param(target, marks=pytest.mark.slow) for target in LATER]


@pytest.mark.parametrize("target", [AMX_IN_C, *SLOW], ids=str)
def test_targets_give_the_machines_bytes(target: Target, tmp_path: Path) -> None:
    nets = {"convolutions": convolutions(), "residual": residual(), "products": products()}
    check_net(merged(nets), target, tmp_path / "source", dots=ROWS)


@pytest.mark.parametrize("make", [convolutions, residual, products])
def test_the_engines_agree(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "rows_of_bytes", lambda: ROWS)
    check_engines(make())


def pooled() -> Net:
    """A mean over places: its lanes are the channels, with axes of one behind them."""
    made = Bytes(5)
    y = made.both(made.conv(made.start(1, 64, 5, 5), 640, 64, 1), 0.04, 100)
    made.net.give(made.bytes(made.net.op("GlobalAveragePool", y), 0.02, 90))
    return made.net


@pytest.mark.usefixtures("small_units")
@pytest.mark.parametrize("make", [convolutions, residual, pooled])
@pytest.mark.parametrize("threads", [2, 3])
def test_threads_share_them_out(make: Any, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "rows_of_bytes", lambda: ROWS)
    net = make()
    want = NativeEngine(net.graph(), schedule=False).run(net.feeds)
    found = NativeEngine(net.graph(), threads=threads).run(net.feeds)
    assert [n for n, y in want.items() if found[n].tobytes() != y.tobytes()] == []


def test_the_instructions_are_used(tmp_path: Path) -> None:
    """Where they stop the program, it stops."""
    target = AMX_IN_C
    if unable(target):
        pytest.skip(f"{target}: {unable(target)}")
    net = products()
    program = write(net.graph(), tmp_path / "source", dots=ROWS)
    executable = compiled(program, target, "-DSX_AMX_STOPS")
    with pytest.raises(AssertionError, match="program"):
        results(program, target, executable, net.feeds)


@pytest.mark.parametrize(("dots", "last"), [(1, 16), (ROWS, 32)])
def test_all_channels_are_the_last_terms(dots: int, last: int) -> None:
    """With AMX no terms of borders are left out either, so that rows stay evenly apart."""
    program = optimise(lower(channels().graph()), roomy=True, dots=dots)
    bodies = [s for x in program.launches for s in x.kernel.body if isinstance(s, Compute)]
    folds = [e for s in bodies for e in walk(s.expr) if isinstance(e, Fold) and e.kind == "dot"]
    (window,) = (f for f in folds if [a.extent for a in f.axes].count(3) == 2)
    assert window.axes[-1].extent == last
    assert (window.when is None) == (dots == ROWS)
