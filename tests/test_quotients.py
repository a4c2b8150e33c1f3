"""Quantised sums of two bytes without a division give every byte that the division gives."""

from __future__ import annotations

import numpy as np
import pytest
from nets import Net, check_engines

from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise

# the scales of a, b and the sum; then their zero points
SCALES = ((0.1, 0.07, 0.11), (0.5, 0.25, 1.0), (0.013, 0.0371, 0.02), (3e-39, 2e-3, 1e-3))
ZEROS = ((0, 0, 0), (128, 3, 77), (255, 254, 1))
BYTES = (np.uint8, np.int8)


def every_pair(
    scales: tuple[float, float, float], zeros: tuple[int, int, int], kind: type[np.generic]
) -> Net:
    """A graph that adds each byte to each."""
    made = Net()
    low = int(np.iinfo(kind).min)
    line = np.arange(low, low + 256).astype(kind)
    a, b, y = (np.float32(x) for x in scales)
    first, second, third = (np.int64(z + low).astype(kind) for z in zeros)
    x = made.op("DequantizeLinear", made.feed("a", np.repeat(line, 256)), a, first)
    w = made.op("DequantizeLinear", made.feed("b", np.tile(line, 256)), b, second)
    made.give(made.op("QuantizeLinear", made.op("Add", x, w), y, third))
    return made


def divides(net: Net) -> bool:
    program = optimise(lower(net.graph(), overridable=False))
    texts = [print_scheduled(x.kernel).text for x in program.launches]
    return any(mark in text for text in texts for mark in (" / ", "sx_quotients("))


@pytest.mark.parametrize("kind", BYTES, ids=["uint8", "int8"])
def test_every_pair_of_bytes_gives_the_machines_byte(kind: type[np.generic]) -> None:
    for scales in SCALES:
        for zeros in ZEROS:
            check_engines(every_pair(scales, zeros, kind))


def test_most_sums_need_no_division() -> None:
    kept = [divides(every_pair(s, z, np.uint8)) for s in SCALES[:3] for z in ZEROS]
    assert kept.count(False) >= 7


def test_a_quotient_that_is_no_number_stays() -> None:
    for scales in ((0.1, 0.1, 0.0), (np.inf, 0.1, 0.1), (3e38, 3e38, 1.0), (-0.1, 0.1, 0.1)):
        made = every_pair(scales, (1, 2, 3), np.uint8)
        assert divides(made)
        check_engines(made)
