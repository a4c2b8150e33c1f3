"""Quantising, and sums of products of integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_runs import RANDOM, compare, normal, run

from sardonyx.types import Array


def quantised(dtype: Any, *shape: int) -> Array:
    info = np.iinfo(dtype)
    return RANDOM.integers(info.min, info.max + 1, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
@pytest.mark.parametrize("shape", [(), (8,), (3, 2, 5)])
def test_quantizing_is_onnxruntime_s(dtype: Any, shape: tuple[int, ...]) -> None:
    """Per tensor, per axis, and in blocks of four."""
    scale, zero = np.abs(normal(*shape)) + np.float32(0.1), quantised(dtype, *shape)
    block: dict[str, Any] = {"block_size": 4} if len(shape) == 3 else {}
    x = normal(3, 8, 5) * 100
    compare("QuantizeLinear", x, scale, zero, axis=1, tolerance=0, **block)
    q = quantised(dtype, 3, 8, 5)
    compare("DequantizeLinear", q, scale, zero, axis=1, tolerance=0, **block)


def test_quantizing_rounds_to_even_saturates_and_makes_nan_zero() -> None:
    x = np.array([0.5, 1.5, -0.5, 300, -300, np.inf, -np.inf, np.nan], np.float32)
    y = run("QuantizeLinear", x, np.float32(1), np.int8(1))
    np.testing.assert_array_equal(y, [1, 3, 1, 127, -128, 127, -128, 0])
    assert run("QuantizeLinear", x, np.float32(1)).dtype == np.uint8


def test_dequantizing_an_int32_subtracts_exactly() -> None:
    x, zero = np.array([2**31 - 1, -(2**31)], np.int32), np.int32(-1)
    y = run("DequantizeLinear", x, np.float32(1), zero)
    np.testing.assert_array_equal(y, np.float32([2**31, 1 - 2**31]))


def test_integer_products_are_exact() -> None:
    """For 8-bit values of mixed signs, too, where onnxruntime saturates on some processors."""
    a, b = quantised(np.uint8, 2, 4, 50), quantised(np.int8, 50, 3)
    za, zb = np.uint8(9), quantised(np.int8, 3)
    exact = (a.astype(np.int32) - 9) @ (b.astype(np.int32) - zb.astype(np.int32))
    np.testing.assert_array_equal(run("MatMulInteger", a, b, za, zb), exact)
    rows = quantised(np.uint8, 4)
    exact = (a[0].astype(np.int32) - rows[:, None]) @ b.astype(np.int32)
    np.testing.assert_array_equal(run("MatMulInteger", a[0], b, rows), exact)


def test_quantised_convolutions_are_onnxruntime_s() -> None:
    x, w = quantised(np.uint8, 2, 6, 9, 8), quantised(np.uint8, 4, 3, 3, 2)
    spatial: dict[str, Any] = {"group": 2, "pads": [1, 0, 1, 2], "strides": [2, 1]}
    compare("ConvInteger", x, w, np.uint8(7), np.uint8(9), tolerance=0, **spatial)
    scales = np.float32([0.01, 0.02, 0.03, 0.004])
    bias = RANDOM.integers(-500, 500, 4).astype(np.int32)
    given = (x, np.float32(0.02), np.uint8(120), w, scales, np.full(4, 128, np.uint8))
    compare("QLinearConv", *given, np.float32(0.2), np.uint8(130), bias, tolerance=0, **spatial)


def test_a_quantised_product_has_scales_of_columns() -> None:
    a, b = quantised(np.uint8, 2, 4, 5), quantised(np.uint8, 5, 3)
    scales, zeros = np.float32([0.03, 0.01, 0.2]), quantised(np.uint8, 3)
    given = (a, np.float32(0.02), np.uint8(100), b, scales, zeros, np.float32(0.1), np.uint8(9))
    compare("QLinearMatMul", *given, tolerance=0)
