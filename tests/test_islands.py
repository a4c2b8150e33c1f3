"""DequantizeLinear -> operator -> QuantizeLinear as the integer definitions of the contract."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from island_models import RANDOM, Model, again, byte, check, matmul, operators, rescaled
from onnx import helper

from sardonyx.types import Array

__all__ = ["again"]
KINDS = [(np.uint8, np.int8, np.uint8), (np.int8, np.int8, np.int8), (np.uint8, np.uint8, np.int8)]


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("per_channel", [False, True])
def test_conv(kinds: tuple[Any, Any, Any], per_channel: bool) -> None:
    of_x, of_w, of_y = kinds
    m = Model(byte(of_x, 2, 3, 6, 6))
    w, b = byte(of_w, 8, 3, 3, 3), byte(np.int32, 8) // 100000
    zx, zy = of_x(5), of_y(7)
    zw = np.zeros(8, of_w) if per_channel else of_w(3)
    sw = np.abs(RANDOM.standard_normal(8)).astype(np.float32) / 50 if per_channel else 0.017
    m.constants |= {"w": w, "b": b}
    sb = np.float32(0.03) * np.asarray(sw, np.float32)
    zb = np.zeros(sb.shape, np.int32)
    inputs = [m.real("x", 0.03, zx), m.real("w", sw, zw, axis=0), m.real("b", sb, zb, axis=0)]
    m.finish(m.add("Conv", inputs, pads=[1] * 4), 0.9, zy)
    x = np.pad(m.x.astype(np.int64) - int(zx), [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    shifted = w.astype(np.int64) - (0 if per_channel else int(zw))
    total = np.einsum("nchwij,mcij->nmhw", windows, shifted) + b[:, None, None]
    channel = np.asarray(sw, np.float32).reshape(-1, 1, 1)
    check(m, rescaled(total, 0.03, channel, 0.9, zy), "QConv")


def test_grouped_conv_without_bias() -> None:
    m = Model(byte(np.uint8, 1, 4, 5, 5))
    m.constants["w"] = w = byte(np.int8, 4, 1, 3, 3)
    inputs = [m.real("x", 0.03, np.uint8(128)), m.real("w", 0.01, np.int8(0))]
    m.finish(m.add("Conv", inputs, group=4), 0.2, np.uint8(100))
    windows = np.lib.stride_tricks.sliding_window_view(m.x.astype(np.int64) - 128, (3, 3), (2, 3))
    total = np.einsum("nchwij,cij->nchw", windows, w[:, 0].astype(np.int64))
    check(m, rescaled(total, 0.03, 0.01, 0.2, np.uint8(100)), "QConv")


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("op", ["MatMul", "Gemm"])
def test_products_of_matrices(op: str, kinds: tuple[Any, Any, Any]) -> None:
    """Per column of the weights; Gemm with them transposed and a bias."""
    of_x, of_w, of_y = kinds
    m = Model(byte(of_x, 40, 30))
    w, sw = byte(of_w, 30, 50), np.abs(RANDOM.standard_normal(50)).astype(np.float32) / 50
    zx, zy, zw = of_x(9), of_y(3), byte(of_w, 50)
    total = (m.x.astype(np.int64) - int(zx)) @ (w.astype(np.int64) - zw.astype(np.int64))
    if op == "Gemm":
        m.constants |= {"w": w.T.copy(), "b": byte(np.int32, 50) // 100000}
        total = total + m.constants["b"]
        sb, zb = np.float32(0.02) * sw, np.zeros(50, np.int32)
        inputs = [m.real("x", 0.02, zx), m.real("w", sw, zw, axis=0), m.real("b", sb, zb, axis=0)]
        m.add("Gemm", inputs, transB=1)
    else:
        m.constants["w"] = w
        m.add("MatMul", [m.real("x", 0.02, zx), m.real("w", sw, zw, axis=1)])
    check(m.finish("r", 0.7, zy), rescaled(total, 0.02, sw, 0.7, zy), f"Q{op}")


def test_mul() -> None:
    m = Model(byte(np.uint8, 40, 50))
    m.constants["b"] = b = byte(np.int8, 50)
    m.add("Mul", [m.real("x", 0.02, np.uint8(7)), m.real("b", 0.05, np.int8(-3))])
    total = (m.x.astype(np.int64) - 7) * (b.astype(np.int64) + 3)
    m.finish("r", 0.13, np.uint8(90))
    check(m, rescaled(total, 0.02, 0.05, 0.13, np.uint8(90)), "QMul")


@pytest.mark.parametrize("include", [0, 1])
def test_average_pool(include: int) -> None:
    """The scale of the weights is float32(1 / count)."""
    m = Model(byte(np.uint8, 2, 3, 9, 9))
    m.add(
        "AveragePool",
        [m.real("x", 0.0213, np.uint8(7))],
        kernel_shape=[3, 3],
        pads=[1] * 4,
        count_include_pad=include,
    )
    m.finish("r", 0.0317, np.int8(-9))
    x = np.pad(m.x.astype(np.int64) - 7, [(0, 0), (0, 0), (1, 1), (1, 1)])
    one = np.pad(np.ones((9, 9), np.int64), 1, constant_values=include)
    both = [np.lib.stride_tricks.sliding_window_view(a, (3, 3), (-2, -1)) for a in (x, one)]
    total, count = (a.sum((-2, -1)) for a in both)
    share = np.float32(1) / count.astype(np.float32)
    check(m, rescaled(total, 0.0213, share, 0.0317, np.int8(-9)), "QAveragePool")


def test_global_average_pool() -> None:
    m = Model(byte(np.int8, 2, 3, 7, 5))
    m.add("GlobalAveragePool", [m.real("x", 0.0213, np.int8(7))])
    m.finish("r", 0.0117, np.int8(-9))
    total = (m.x.astype(np.int64) - 7).sum((2, 3), keepdims=True)
    share = np.float32(1) / np.float32(35)
    check(m, rescaled(total, 0.0213, share, 0.0117, np.int8(-9)), "QGlobalAveragePool")


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        ([("Relu", {})], ["QRelu"]),
        ([("Clip", {})], ["QClip"]),
        ([("MaxPool", {"kernel_shape": [2, 2]})], ["MaxPool"]),
        ([("Transpose", {"perm": [0, 1, 3, 2]})], ["Transpose"]),
        ([("Flatten", {})], ["Flatten"]),
    ],
)
def test_what_only_moves_or_bounds_elements_gives_the_bytes_of_the_float_reading(
    nodes: list[tuple[str, dict[str, Any]]], wanted: list[str], dtype: Any
) -> None:
    """All 256 integers, at scales of all magnitudes."""
    (op, attributes), info = nodes[0], np.iinfo(dtype)
    every = np.arange(info.min, info.max + 1).astype(dtype)
    x = RANDOM.permutation(np.tile(every, 4)).reshape(4, 4, 8, 8)
    for scale in [*np.exp(RANDOM.uniform(-60, 60, 12)).astype(np.float32), np.float32(0.1)]:
        m = Model(x)
        zero = dtype(RANDOM.integers(info.min, info.max + 1))
        inputs = [m.real("x", scale, zero)]
        if op == "Clip":
            inputs += [m.constant("lo", -11.3 * scale), m.constant("hi", 40.5 * scale)]
        m.finish(m.add(op, inputs, **attributes), scale, zero)
        assert operators(m.graph()) == wanted
        assert m.run().tobytes() == m.run("float").tobytes()


def same_bytes(m: Model, wanted: list[str]) -> None:
    """The integer reading has these operations, and gives the float reading's bytes, compiled as
    well."""
    assert operators(m.graph()) == wanted
    expected = m.run("float")
    assert m.run().dtype == expected.dtype
    assert m.run().tobytes() == expected.tobytes()
    assert m.run(engine="native").tobytes() == expected.tobytes()


KIND_PAIRS = [(np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.uint8)]
FUNCTIONS: list[tuple[str, dict[str, Any]]] = [
    ("Elu", {"alpha": 0.7}),
    ("Gelu", {}),
    ("Gelu", {"approximate": "tanh"}),
    ("HardSigmoid", {"alpha": 0.3}),
    ("HardSwish", {}),
    ("LeakyRelu", {"alpha": 0.1}),
    ("Sigmoid", {}),
    ("Softmax", {"axis": 0}),
    ("Tanh", {}),
]


@pytest.mark.parametrize("kinds", KIND_PAIRS)
@pytest.mark.parametrize(("op", "attributes"), FUNCTIONS)
def test_functions_of_one_number(
    op: str, attributes: dict[str, Any], kinds: tuple[Any, Any]
) -> None:
    """All 256 integers."""
    info = np.iinfo(kinds[0])
    m = Model(np.arange(info.min, info.max + 1).astype(kinds[0]).reshape(8, 32))
    m.finish(m.add(op, [m.real("x", 0.037, kinds[0](99))], **attributes), 0.0121, kinds[1](11))
    same_bytes(m, [f"Q{op}"])


@pytest.mark.parametrize("kinds", KIND_PAIRS)
@pytest.mark.parametrize("bound", ["", "Relu", "Clip"])
@pytest.mark.parametrize("op", ["Add", "Sum"])
def test_residual_sums(op: str, bound: str, kinds: tuple[Any, Any]) -> None:
    """All pairs of integers, at several scales."""
    of_x, of_y = kinds
    every = np.arange(256).astype(np.uint8).view(of_x)
    for a, b, c in [(0.5, 0.25, 0.75), *np.exp(RANDOM.uniform(-6, 6, (3, 3))).astype(np.float32)]:
        m = Model(every.reshape(256, 1))
        m.constants["b"] = every
        m.add(op, [m.real("x", a, of_x(3)), m.real("b", b, of_x(90))])
        if bound:
            given = [m.constant("lo", -17 * c), m.constant("hi", 50 * c)] * (bound == "Clip")
            m.add(bound, ["r", *given], "q")
        m.finish("q" if bound else "r", c, of_y(20))
        same_bytes(m, ["QAdd", *[f"Q{bound}"] * bool(bound)])


def test_where_chooses_between_two_scales() -> None:
    m = Model(byte(np.uint8, 40, 50))
    m.constants |= {"b": byte(np.uint8, 50), "c": RANDOM.random((40, 1)) < 0.5}
    m.add("Where", ["c", m.real("x", 0.5, np.uint8(3)), m.real("b", 0.3, np.uint8(70))])
    same_bytes(m.finish("r", 0.4, np.int8(-5)), ["QWhere"])


MOVED: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("Reshape", [[-1]], {}),
    ("Transpose", [], {"perm": [1, 0, 3, 2]}),
    ("MaxPool", [], {"kernel_shape": [3, 3], "pads": [1] * 4}),
    ("Pad", [[0, 0, 1, 1, 0, 0, 1, 1]], {}),
    ("Pad", [[0, 0, 1, 1, 0, 0, 1, 1], np.float32(0.73)], {}),
    ("Pad", [[0, 0, 1, 1, 0, 0, 1, 1]], {"mode": "edge"}),
    ("Resize", [np.float32([]), np.float32([1, 1, 2, 2])], {}),
    ("Slice", [[1], [3], [2]], {}),
]


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize(("op", "inputs", "attributes"), MOVED)
def test_what_moves_elements_takes_them_in_the_scale_of_the_result(
    op: str, inputs: list[Any], attributes: dict[str, Any], same: bool
) -> None:
    m = Model(byte(np.uint8, 2, 3, 8, 8))
    names = [m.constant(f"c{i}", v, None) for i, v in enumerate(inputs)]
    m.add(op, [m.real("x", 0.031, np.uint8(9)), *names], **attributes)
    scale, zero = (0.031, np.uint8(9)) if same else (0.017, np.int8(-31))
    same_bytes(m.finish("r", scale, zero), [op] if same else ["QIdentity", op])


def test_a_resize_that_interpolates_stays_as_it_is() -> None:
    m = Model(byte(np.uint8, 2, 3, 8, 8))
    scales = m.constant("s", np.float32([1, 1, 2, 2]))
    m.add("Resize", [m.real("x", 0.031, np.uint8(9)), "", scales], mode="linear")
    m.finish("r", 0.031, np.uint8(9))
    assert operators(m.graph()) == ["DequantizeLinear", "Resize", "QuantizeLinear"]


@pytest.mark.parametrize("scale", [0.5, 0.25])
def test_concat_requantises_inputs_of_another_scale(scale: float) -> None:
    m = Model(byte(np.uint8, 3, 4))
    m.constants["c"] = byte(np.uint8, 3, 4)
    inputs = [m.real("x", 0.5, np.uint8(3)), m.real("c", scale, np.uint8(3))]
    m.finish(m.add("Concat", inputs, axis=1), 0.5, np.uint8(3))
    same_bytes(m, [*["QIdentity"] * (scale != 0.5), "Concat"])


def test_split_quantises_its_parts_each_in_its_own_way() -> None:
    m = Model(byte(np.uint8, 6, 4))
    m.nodes.append(helper.make_node("Split", [m.real("x", 0.5, np.uint8(3))], ["a", "b"], axis=0))
    m.nodes[-1].attribute.append(helper.make_attribute("num_outputs", 2))
    m.add("QuantizeLinear", ["a", "x_s", "x_z"], "qa")
    m.add("QuantizeLinear", ["b", m.constant("b_s", 0.7), m.constant("b_z", 5, np.uint8)], "qb")
    m.add("Concat", ["qa", "qb"], "y", axis=0)
    same_bytes(m, ["Split", "QIdentity", "Concat"])


@pytest.mark.parametrize("taken", ["q.operand0", "q.unbounded"])
def test_a_model_may_have_chosen_the_name_of_a_tensor_between(taken: str) -> None:
    def made(name: str) -> Array:
        m = Model(np.arange(16, dtype=np.uint8).reshape(4, 4))
        x = m.real("x", 0.5, np.uint8(3))
        m.add("Relu", [m.add("Tanh", [x], "t")]) if "bound" in taken else m.add("Transpose", [x])
        m.add("QuantizeLinear", ["r", m.constant("q_s", 0.3), m.constant("q_z", 9, np.uint8)], "q")
        q = m.real("q", 0.3, np.uint8(9))
        return m.finish(m.add("Add", [q, m.add("Neg", [x], name)], "s"), 0.2, np.uint8(99)).run()

    assert made(taken).tobytes() == made("other").tobytes()


def test_a_dequantize_linear_that_several_operators_read() -> None:
    m = Model(byte(np.uint8, 4, 4))
    m.constants["w"] = byte(np.int8, 4, 4)
    x = m.real("x", 0.02, np.uint8(9))
    m.add("MatMul", [x, m.real("w", 0.05, np.int8(0))])
    m.add("QuantizeLinear", ["r", m.constant("q_s", 0.3), m.constant("q_z", 9, np.uint8)], "q")
    m.finish(m.add("Add", [x, m.real("q", 0.3, np.uint8(9))], "t"), 0.4, np.uint8(8))
    assert operators(m.graph()) == ["QMatMul", "QAdd"]
    assert m.run().tobytes() == m.run(engine="native").tobytes()


@pytest.mark.parametrize("bounds", ["Relu", "Clip"])
def test_a_bound_between_operator_and_quantize_linear_is_part_of_the_island(bounds: str) -> None:
    m = Model(byte(np.uint8, 8, 30))
    m.constants["w"] = byte(np.int8, 30, 5)
    m.add("MatMul", [m.real("x", 0.02, np.uint8(128)), m.real("w", 0.05, np.int8(0))])
    given = [] if bounds == "Relu" else [m.constant("lo", -1.1), m.constant("hi", 2.3)]
    m.finish(m.add(bounds, ["r", *given], "q"), 0.17, np.int8(-20))
    assert operators(m.graph()) == ["QMatMul", f"Q{bounds}"]
    assert m.run().tobytes() == m.run(engine="native").tobytes()
    assert np.abs(m.run().astype(int) - m.run("float").astype(int)).max() <= 1


def test_what_has_no_exact_integer_definition_stays_as_it_is() -> None:
    assert operators(matmul(byte(np.uint8, 4, 6)).graph()) == ["QMatMul"]
    assert operators(matmul(byte(np.uint8, 4, 6)).graph("float"))[-1] == "QuantizeLinear"
    literal = [
        matmul(byte(np.uint16, 4, 6)),  # sums of 16-bit products may overflow
        matmul(byte(np.uint8, 1, 40000)),  # and so may long ones of 8-bit products
        matmul(byte(np.uint8, 4, 6), scale=1e-35),
    ]
    two = matmul(byte(np.uint8, 4, 6))  # the float result is read twice
    two.add("Identity", ["r"], "other")
    two.add("QuantizeLinear", ["other", "y_s", "y_z"], "z")
    for m in literal:
        assert "MatMul" in operators(m.graph())
    assert "QMatMulToFloat" in operators(two.graph())


@pytest.mark.parametrize("apart", [0.0, 1e-3])
def test_a_bias_is_added_to_the_sum_where_its_scale_is_that_of_the_products(apart: float) -> None:
    m = Model(byte(np.uint8, 4, 6))
    m.constants |= {"w": byte(np.int8, 6, 3), "b": byte(np.int32, 3) // 1000000}
    scale = np.float32(0.02) * np.float32(0.05) * np.float32(1 + apart)
    x, w = m.real("x", 0.02, np.uint8(9)), m.real("w", 0.05, np.int8(0))
    m.finish(m.add("Gemm", [x, w, m.real("b", scale, np.int32(0))]), 0.7, np.uint8(9))
    assert ("QGemm" in operators(m.graph())) is (apart == 0)
