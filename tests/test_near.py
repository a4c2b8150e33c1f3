"""The short way of sin, cos and tan of float32 gives the bits of the long one."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from sardonyx.accuracy.harness import BLOCK, compiled, kernel_of
from sardonyx.kernel.elementary import trig
from sardonyx.kernel.interpret import evaluate
from sardonyx.types import Array, float32

NAMES = ("sin", "cos", "tan")


def patterns(low: float, high: float) -> tuple[int, int]:
    return tuple(int(np.float32(x).view(np.int32)) for x in (low, high))


@pytest.mark.parametrize("name", NAMES)
def test_some_floats(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first, last = patterns(0.5, trig.NEAR)
    x = np.random.default_rng(1).integers(first, last, 200_000, np.int32).view(np.float32)
    x[: 1 << 10] = (np.arange(1 << 10) * (np.pi / 2)).astype(np.float32)  # much cancels
    results = [evaluate(kernel_of(name, float32, x.size), [x])[0]]
    monkeypatch.setattr(trig, "NEAR", 0.0)
    results.append(evaluate(kernel_of(name, float32, x.size), [x])[0])
    assert results[0].tobytes() == results[1].tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["fused", "unfused"])
@pytest.mark.parametrize("name", NAMES)
def test_every_float(name: str, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ways = []
    for near in (trig.NEAR, 0.0):
        folder = tmp_path / str(near)
        folder.mkdir()
        monkeypatch.setattr(trig, "NEAR", near)
        ways.append(compiled(name, float32, folder, mode))
        monkeypatch.undo()
    first, last = patterns(0.5, trig.NEAR)
    for start in range(first, last, BLOCK):
        x = np.arange(start, start + BLOCK, dtype=np.int32).view(np.float32)
        assert len({_run(way, x).tobytes() for way in ways}) == 1, hex(start)


def _run(way: ctypes.CDLL, x: Array) -> Array:
    y = np.empty_like(x)
    way.run(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data))
    return y
