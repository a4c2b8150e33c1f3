"""Sums of products of quantised tensors whose result stays a float: that of the integer sum."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from island_models import RANDOM, Model, again, byte, operators
from test_steps import launches

from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.types import Array

__all__ = ["again"]
F = np.float32
KINDS = [(np.uint8, np.int8), (np.int8, np.int8), (np.uint8, np.uint8)]


def check(m: Model, total: Array, steps: Any, op: str, bias: Array | None = None) -> None:
    """The graph is `op` alone and has the bytes of float32(total) * steps + bias in both engines;
    the float reading is near."""
    assert operators(m.graph()) == [op]
    expected = total.astype(np.int32).astype(F) * steps
    expected = expected if bias is None else expected + bias
    assert expected.dtype == F
    for engine in ("machine", "native"):
        assert m.run(engine=engine).tobytes() == expected.tobytes()
    literal = m.run("float")
    np.testing.assert_allclose(literal, expected, rtol=1e-5, atol=1e-5 * np.abs(literal).max())


def wide(x: Array, zero: Any) -> Array:
    return x.astype(np.int64) - np.asarray(zero, np.int64)


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("fed", [False, True])
def test_conv_with_a_bias_that_is_a_float(kinds: tuple[Any, Any], fed: bool) -> None:
    """Of constants, and of a bias that is computed."""
    of_x, of_w = kinds
    m = Model(byte(of_x, 2, 3, 6, 6))
    w, b = byte(of_w, 8, 3, 3, 3), RANDOM.standard_normal(8).astype(F)
    zw, sw = byte(of_w, 8), np.abs(RANDOM.standard_normal(8)).astype(F) / 50
    m.constants |= {"w": w, "b": b}
    if fed:
        m.add("ReduceMin", [m.add("Cast", ["x"], "f", to=1)], "least", keepdims=0)
        m.add("Add", ["b", m.add("Mul", ["least", m.constant("none", 0)], "zero")], "b_there")
    zx = of_x(5)
    given = [m.real("x", 0.03, zx), m.real("w", sw, zw, axis=0), "b_there" if fed else "b"]
    m.add("Conv", given, "y", pads=[1] * 4)
    x = np.pad(wide(m.x, zx), [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    total = np.einsum("nchwij,mcij->nmhw", windows, wide(w, zw[:, None, None, None]))
    steps = (F(0.03) * sw)[:, None, None]
    if fed:
        assert "QConvToFloat" in operators(m.graph())
        expected = total.astype(F) * steps + b[:, None, None]
        assert m.run().tobytes() == m.run(engine="native").tobytes() == expected.tobytes()
    else:
        check(m, total, steps, "QConvToFloat", b[:, None, None])


def test_depthwise_conv_without_a_bias() -> None:
    m = Model(byte(np.uint8, 1, 16, 5, 5))
    m.constants["w"] = w = byte(np.int8, 16, 1, 3, 3)
    given = [m.real("x", 0.03, np.uint8(128)), m.real("w", 0.01, np.int8(0))]
    m.add("Conv", given, "y", group=16)
    windows = np.lib.stride_tricks.sliding_window_view(wide(m.x, 128), (3, 3), (2, 3))
    total = np.einsum("nchwij,cij->nchw", windows, wide(w[:, 0], 0))
    check(m, total, F(0.03) * F(0.01), "QConvToFloat")


@pytest.mark.parametrize("kinds", KINDS)
def test_products_of_matrices(kinds: tuple[Any, Any]) -> None:
    of_x, of_w = kinds
    for op in ("MatMul", "Gemm"):
        m = Model(byte(of_x, 20, 30))
        w, sw = byte(of_w, 30, 40), np.abs(RANDOM.standard_normal(40)).astype(F) / 50
        zx, zw, b = of_x(9), byte(of_w, 40), RANDOM.standard_normal((20, 1)).astype(F)
        total, steps = wide(m.x, zx) @ wide(w, zw), F(0.02) * sw
        if op == "MatMul":
            m.constants["w"] = w
            m.add(op, [m.real("x", 0.02, zx), m.real("w", sw, zw, axis=1)], "y")
            check(m, total, steps, "QMatMulToFloat")
        else:
            m.constants |= {"w": w.T.copy(), "b": b}
            given = [m.real("x", 0.02, zx), m.real("w", sw, zw, axis=0), "b"]
            m.add(op, given, "y", transB=1)
            check(m, total, steps, "QGemmToFloat", b)


def test_what_is_no_exact_sum_stays_as_it_is() -> None:
    for x, scale, attributes in (
        (byte(np.uint8, 1, 40000), 0.02, {}),  # it may overflow
        (byte(np.uint16, 4, 6), 0.02, {}),
        (byte(np.uint8, 4, 6), 1e-35, {}),
        (byte(np.uint8, 4, 6), 0.02, {"alpha": 2.0}),
    ):
        m = Model(x)
        m.constants["w"] = byte(np.int8, x.shape[1], 3)
        given = [m.real("x", scale, x.dtype.type(9)), m.real("w", 0.05, np.int8(0))]
        m.add("Gemm", given, "y", **attributes)
        assert operators(m.graph())[-1] == "Gemm"


def test_a_chain_to_the_next_byte_is_one_launch() -> None:
    """As quantisers write it that put no QuantizeLinear behind a convolution."""
    for kind in (np.uint8, np.int8):
        m = Model(byte(kind, 1, 32, 6, 7))
        m.constants |= {"w": byte(np.int8, 48, 32, 1, 1), "b": RANDOM.standard_normal(48).astype(F)}
        given = [m.real("x", 0.03, kind(3)), m.real("w", 0.01, np.int8(0)), "b"]
        m.add("Relu", [m.add("Conv", given, "c")], "r")
        m.finish("r", 0.5, kind(9))
        assert m.run().tobytes() == m.run(engine="native").tobytes()
        made = launches(m.graph(), "QConvToFloat")
        texts = [print_scheduled(x.kernel, threads=False).text for x in made]
        (at,) = [i for i, text in enumerate(texts) if "sx_contract_u8" in text]
        assert made[at].performs("", "QuantizeLinear")
        assert len(re.findall(r"sx_(?:leave|round)_[ui]8\(", texts[at])) == 1
