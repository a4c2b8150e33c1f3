"""A quotient by a reciprocal that is mended (sx_over_f32) is the quotient, rounded once."""

from __future__ import annotations

import numpy as np
import pytest
from nets import Net, check_engines

from sardonyx.kernel.arith import MEANING
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.types import Array

ONE = 1 << 23


def mended(x: Array, by: Array) -> Array:
    """As quotients.h has it."""
    fma = MEANING["fma"]
    y = np.float32(1) / by
    q = x * y
    return np.asarray(fma(fma(-q, by, x), y, q))


def hard(times: int, off: int, bits: int) -> tuple[Array, Array]:
    """The x and by of 24 bits, by an odd number of times 2^times, for which x * 2^bits is off by
    `off` * 2^times from m * by, m odd and of 25 bits: x / by is that near to the middle of two
    floats. m is off / by modulo 2^(bits - times)."""
    by = np.arange(ONE + (1 << times), 2 * ONE, 2 << times, dtype=np.int64)
    odd, size = by >> times, 1 << (bits - times)
    inverse = odd.copy()
    for _ in range(5):
        inverse *= 2 - odd * inverse
    found = []
    for first in range(0, 4 * ONE, size):
        m = (inverse * off & (size - 1)) + first
        x = (m * by - (off << times)) >> bits
        fits = (m & 1 == 1) & (m >= 2 * ONE) & (x >= ONE) & (x < 2 * ONE)
        assert np.array_equal((x << bits)[fits], (m * by - (off << times))[fits])
        found.append((x[fits], by[fits]))
    x, by = (np.concatenate(part).astype(np.float32) for part in zip(*found, strict=True))
    return x, by


@pytest.mark.parametrize(
    ("times", "off"), [(0, 1), (0, -1), (0, 3), (0, -3), (1, 1), (1, -1), (2, 1), (2, -1)]
)
@pytest.mark.parametrize("bits", [24, 25])
def test_next_to_the_middle_of_two_it_is_the_quotient(times: int, off: int, bits: int) -> None:
    """Where x / by is further from there it cannot round otherwise: with by and x in [1, 2), y is
    off by 2^-25, q by 1.5 units at most and so what is left by (1 + by) * by * 3 / 4 < 5 in the
    unit of off * 2^times."""
    x, by = hard(times, off, bits)
    assert x.size > 100_000
    assert np.array_equal(mended(x, by), x / by)


def rows(x: Array, by: float) -> Net:
    net = Net()
    net.give(net.op("Div", net.feed("x", x), net.feed("by", np.float32([by]))))
    return net


def test_rows_by_one_number_are_taken_so() -> None:
    (launch,) = optimise(lower(rows(np.ones(64, np.float32), 3).graph())).launches
    assert "sx_over_f32(" in print_scheduled(launch.kernel).text


@pytest.mark.parametrize("by", [3.3, -7.0, 1e-30, 0.0, -0.0, np.inf, np.nan, 1e-45, 2.0**60, 3e38])
def test_of_all_kinds_of_numbers_they_are_the_machines(by: float) -> None:
    x = np.random.default_rng(0).integers(0, 2**32, 4003, dtype=np.uint32).view(np.float32)
    few = np.float32([0, -0.0, np.nan, np.inf, -np.inf, 1e-45, 2.0**-60, 2.0**60, 1.5])
    plain = np.linspace(-9, 9, 999, dtype=np.float32)
    check_engines(rows(np.concatenate([x, np.repeat(few, 16), plain]), by))
