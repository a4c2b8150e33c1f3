"""Pow: integers, and floats by whatever way the exponent allows, the same bits by each."""

from __future__ import annotations

import math

import numpy as np
import pytest
from test_ops_elementwise import INF, NAN, f32, run

from sardonyx.types import Array


def test_integer_powers_are_exact_and_wrap() -> None:
    x = np.array([3, -3, 7, 2, 0, -1, 2], np.int64)
    y = np.array([39, 3, 100, 64, 0, -3, -1], np.int64)
    expected = [3**39, -27, 7**100, 2**64, 1, -1, 0]
    wrapped = [(v + 2**63) % 2**64 - 2**63 for v in expected]
    assert run("Pow", 15, x, y).tolist() == wrapped


def test_a_square_is_rounded_once_whether_the_exponent_is_known_or_not() -> None:
    x = f32(*np.random.default_rng(1).standard_normal(100))
    assert np.array_equal(run("Pow", 15, x, np.int64(2)), x * x)
    assert np.array_equal(powers(x, 2), x * x)
    assert run("Pow", 15, f32(3, 3), f32(2, 1)).tolist() == [9, 3]


def powers(x: Array, exponent: float) -> Array:
    """x ** exponent, the exponent one of several."""
    exponents = f32(*[exponent] * x.size, exponent - 1.25, 0.25)
    return np.asarray(run("Pow", 15, np.append(x, f32(1, 1)), exponents)[:-2])


@pytest.mark.parametrize("exponent", [0.5, 2, 3])
def test_a_power_is_the_same_whether_the_exponent_is_known_or_not(exponent: float) -> None:
    edges = [0.0, -0.0, INF, -INF, NAN, -3, 1e-30, 1e-42, 3e38]
    x = f32(*edges, *np.random.default_rng(2).random(99) * 9)
    known = run("Pow", 15, x, f32(exponent))
    assert known.tobytes() == powers(x, exponent).tobytes()
    real = [NAN if v == -3 and exponent == 0.5 else math.pow(v, exponent) for v in x.tolist()]
    with np.errstate(over="ignore"):
        expected = np.array(real).astype(np.float32)
    assert np.array_equal(known, expected, equal_nan=True)
    assert np.array_equal(np.signbit(known[:2]), np.signbit(expected[:2]))


@pytest.mark.parametrize("exponent", [0.75, -1.5, 7.0, 0.0, -0.0, 1.0, INF, -INF, NAN])
def test_any_power_is_the_same_whether_the_exponent_is_known_or_not(exponent: float) -> None:
    edges = [0.0, -0.0, INF, -INF, NAN, -3, 1e-30, 1e-42, 3e38, -1, 1]
    x = f32(*edges, *np.random.default_rng(3).standard_normal(999) * 9)
    known = run("Pow", 15, x, f32(exponent))
    assert known.tobytes() == powers(x, exponent).tobytes()


def test_an_integer_exponent_is_rounded_once() -> None:
    x, y = f32(1.0000001, 0.9999999), np.int64((1 << 54) + (1 << 30) + 1)  # not a tie of float32
    assert run("Pow", 15, x, y)[0] == run("Pow", 15, x, np.array([y, 3]))[0]
