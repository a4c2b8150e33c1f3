"""Bounds that are zeros: clang 14 makes one instruction of x < -0 ? -0 : x that gives -0 for +0."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
from nets import Net

from sardonyx.machine import Machine
from sardonyx.native import NativeEngine

X = [0.0, -0.0, np.inf, -np.inf, np.nan, -3, 3, 1e-44, -1e-44, *range(23)]
BOUNDS = [(-0.0, 2), (0.0, 2), (-2, -0.0), (-2, 0.0), (0.0, -0.0), (-0.0, 0.0)]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bounds_that_are_zeros_are_the_machines(
    compiler: str, dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    monkeypatch.setenv("CC", compiler)
    net = Net()
    x = net.feed("x", np.array(X, dtype))
    for least, most in BOUNDS:
        made = net.op("Clip", x, dtype(least), dtype(most))
        net.give(made, net.op("Mul", x, made))
    net.give(*(net.op(op, x, dtype(zero)) for op in ("Max", "Min") for zero in (0.0, -0.0)))
    graph = net.graph()
    machine, native = Machine(graph).run(net.feeds), NativeEngine(graph).run(net.feeds)
    assert all(native[n].tobytes() == machine[n].tobytes() for n in net.outputs)
