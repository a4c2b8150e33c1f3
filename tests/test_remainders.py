"""Remainders of float32 are the machine's, sixteen at a time by float64 or one by one."""

from __future__ import annotations

import numpy as np
import pytest
from nets import Net, check_engines

from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.types import Array

ODD = np.float32(
    [0, -0.0, 1, -1.5, np.inf, -np.inf, np.nan, 1e-45, -3e-45, 3.4e38, 2.0**29, 2.0**29 - 32, 0.75]
)


def remainder(x: Array, y: Array) -> Net:
    net = Net()
    net.give(net.op("Mod", net.feed("x", x), net.feed("y", y), fmod=1))
    return net


def bits(rng: np.random.Generator, n: int) -> Array:
    return rng.integers(0, 2**32, n, dtype=np.uint32).view(np.float32)


def test_remainders_are_taken_sixteen_at_a_time() -> None:
    (launch,) = optimise(lower(remainder(np.tile(ODD, 2), ODD[:1]).graph())).launches
    assert "sx_fmods_f32(" in print_scheduled(launch.kernel).text


def test_of_any_bits_they_are_the_machines() -> None:
    rng = np.random.default_rng(0)
    check_engines(remainder(bits(rng, 100_003), bits(rng, 100_003)))


def test_of_each_odd_number_by_each_they_are_the_machines() -> None:
    check_engines(remainder(np.repeat(ODD, 13 * 16), np.tile(np.repeat(ODD, 16), 13)))


@pytest.mark.parametrize("up", [np.inf, -np.inf])
def test_beside_a_multiple_they_are_the_machines(up: float) -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(1, 2**24, 50_000).astype(np.float32)
    x = (rng.integers(0, 2**30, 50_000) * y).astype(np.float32)
    check_engines(remainder(np.nextafter(x, np.float32(up)), y))


def test_by_a_number_that_all_share_they_are_the_machines() -> None:
    net, rng = Net(), np.random.default_rng(2)
    x = net.feed("x", (rng.standard_normal(1000) * 100).astype(np.float32))
    remainders = net.op("Abs", net.op("Mod", x, np.float32(-1.25), fmod=1))
    net.give(net.op("Add", remainders, x))
    check_engines(net)
