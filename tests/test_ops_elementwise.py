"""Elementwise operators, casts, constants, reductions, matrix products and normalizations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import node_cases
import numpy as np
import onnx
import pytest

from sardonyx import types as t
from sardonyx.dims import extreme, symbol
from sardonyx.errors import InvalidModel, Undetermined, UnsupportedModel
from sardonyx.kernel.build import operand
from sardonyx.kernel.ir import Kernel
from sardonyx.kernel.verify import settle
from sardonyx.ops.registry import find, lower
from sardonyx.types import Array

NAN, INF = np.nan, np.inf


def run(op: str, version: int, *feeds: Any, outputs: int = 1, **attributes: Any) -> Any:
    """The outputs (one: itself) of one operation."""
    names = ["" if f is None else f"x{i}" for i, f in enumerate(feeds)]
    node = onnx.helper.make_node(op, names, [f"y{i}" for i in range(outputs)], **attributes)
    arrays = [None if f is None else np.asarray(f) for f in feeds]
    found = node_cases.run_node(node, version, arrays)
    return found[0] if outputs == 1 else found


def kernel(op: str, version: int, *shapes: Sequence[Any], **attributes: Any) -> Kernel:
    """The kernel of an operation on float32 operands of these shapes, of unknown values."""
    definition = find("", op, version)
    assert definition is not None
    operands = [operand(f"x{i}", t.float32, s) for i, s in enumerate(shapes)]
    return lower(definition, operands, attributes, [True])


def f32(*values: float) -> Array:
    return np.array(values, np.float32)


def same(found: Array, expected: Array) -> bool:
    """Equal values, signs of zeros included."""
    zeros = np.array_equal(np.signbit(found[found == 0]), np.signbit(expected[expected == 0]))
    return np.array_equal(found, expected, equal_nan=True) and zeros


# Broadcasting


@pytest.mark.parametrize(("axis", "shape"), [(0, (2,)), (1, (3, 4)), (1, (3,)), (None, (4,))])
def test_before_opset_7_axis_says_where_the_second_operand_stands(
    axis: int | None, shape: tuple[int, ...]
) -> None:
    a = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    b = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    given = {"broadcast": 1} if axis is None else {"broadcast": 1, "axis": axis}
    start = 3 - b.ndim if axis is None else axis
    stretched = b.reshape(*shape, *[1] * (3 - start - b.ndim))
    assert np.array_equal(run("Sub", 6, a, b, **given), a - stretched)


def test_before_opset_7_shapes_must_be_equal_without_broadcast() -> None:
    with pytest.raises(InvalidModel, match="equal"):
        run("Add", 6, f32(1, 2), f32(1))


def test_consumed_inputs_is_accepted_and_ignored() -> None:
    assert run("Add", 1, f32(1), f32(2), consumed_inputs=[0, 0]) == 3


def test_equal_symbols_broadcast_and_different_ones_are_undetermined() -> None:
    n, m = symbol("N"), symbol("M")
    assert kernel("Add", 14, (n, 1, 3), (4, 3)).outputs[0].shape == (n, 4, 3)
    assert kernel("Add", 14, (n, 3), (n, 1)).outputs[0].shape == (n, 3)
    assert kernel("Add", 14, (extreme("min", n, 5),), (n,)).outputs[0].shape == (n,)
    for other in (m, extreme("min", n, m), extreme("max", n, 5)):
        with pytest.raises(Undetermined):
            kernel("Add", 14, (n,), (other,))
    with pytest.raises(InvalidModel):
        kernel("Add", 14, (2,), (3,))


@pytest.mark.parametrize(
    ("op", "version", "shapes", "attributes", "expected"),
    [
        ("ReduceMean", 13, ["N C H"], {"axes": [1], "keepdims": 0}, "N H"),
        ("ArgMax", 13, ["N C"], {"axis": 1}, "N 1"),
        ("Softmax", 13, ["N C"], {}, "N C"),
        ("Softmax", 11, ["N C H"], {}, "N C H"),
        ("MatMul", 13, ["B M K", "K N"], {}, "B M N"),
        ("Gemm", 13, ["M K", "N K", "N"], {"transB": 1}, "M N"),
        ("LayerNormalization", 17, ["N C", "C"], {}, "N C"),
        ("BatchNormalization", 15, ["N C H", "C", "C", "C", "C"], {}, "N C H"),
        ("LRN", 13, ["N C H W"], {"size": 3}, "N C H W"),
        ("InstanceNormalization", 6, ["N C H", "C", "C"], {}, "N C H"),
    ],
)
def test_sizes_may_be_symbolic_and_all_loads_are_proven(
    op: str, version: int, shapes: list[str], attributes: dict[str, Any], expected: str
) -> None:
    def dims(text: str) -> tuple[Any, ...]:
        return tuple(int(d) if d.isdigit() else symbol(d) for d in text.split())

    found = kernel(op, version, *map(dims, shapes), **attributes)
    assert found.outputs[0].shape == dims(expected)
    assert settle(found)[1] == 0


# Numbers at their edges


def test_sums_take_sixteen_partials_and_dots_fuse() -> None:
    x = f32(*np.random.default_rng(0).standard_normal(37))
    partial = np.zeros(16, np.float32)
    for i, v in enumerate(x):
        partial[i % 16] += v
    for step in (8, 4, 2, 1):
        partial[:step] += partial[step : 2 * step]
    assert run("ReduceSum", 13, x, keepdims=0) == partial[0]
    near = 1 + 2**-12  # its square rounds to 1 + 2**-11; only a fused product keeps 2**-24
    assert run("MatMul", 13, f32(1, near), f32(-(1 + 2**-11), near)) == 2**-24


def test_relu_max_and_min_order_zeros_and_keep_nan() -> None:
    assert same(run("Relu", 14, f32(NAN, -0.0, -1, INF)), f32(NAN, 0.0, 0.0, INF))
    a, b = f32(-0.0, 0.0, NAN, 1), f32(0.0, -0.0, 1, NAN)
    assert same(run("Max", 13, a, b), f32(0.0, 0.0, NAN, NAN))
    assert same(run("Min", 13, a, b), f32(-0.0, -0.0, NAN, NAN))


def test_integers_divide_towards_zero_and_wrap() -> None:
    x = np.array([7, -7, 7, -(2**31), 5], np.int32)
    y = np.array([2, 2, -2, -1, 0], np.int32)
    assert run("Div", 14, x, y).tolist() == [3, -3, -3, -(2**31), 0]
    assert run("Mod", 13, x, y).tolist() == [1, 1, -1, 0, 5]
    assert run("Mod", 13, x, y, fmod=1).tolist() == [1, -1, 1, 0, 5]
    assert run("Abs", 13, np.array([-128], np.int8)).tolist() == [-128]


def test_floored_modulo_has_the_sign_of_the_divisor() -> None:
    x, y = f32(5, -5, 5, -5, 0.0, 3, NAN), f32(3, 3, -3, -3, -2, INF, 1)
    assert same(run("Mod", 28, x, y), f32(2, 1, -1, -2, -0.0, 3, NAN))


def test_a_shift_past_the_width_leaves_the_sign() -> None:
    x, y = np.array([-8, 8, -8], np.int32), np.array([1, 40, -1], np.int32)
    assert run("BitShift", 28, x, y, direction="RIGHT").tolist() == [-4, 0, -1]
    assert run("BitShift", 28, x, y, direction="LEFT").tolist() == [-16, 0, 0]


def test_casts_saturate_wrap_and_round_once() -> None:
    x = f32(NAN, INF, -INF, 300, -2.7)
    assert run("Cast", 13, x, to=3).tolist() == [0, 127, -128, 127, -2]
    assert run("Cast", 13, np.array([300, -129], np.int64), to=3).tolist() == [44, 127]
    assert run("Cast", 13, x, to=9).all()
    assert run("Cast", 13, np.array([65519.999999, 65520.0]), to=10).tolist() == [65504, INF]
    assert run("Cast", 13, np.array([1 + 2**-8 + 2**-40]), to=16).astype(float) == 1.0078125
    assert run("Cast", 1, f32(1.5), to="INT64").dtype == np.int64


# Reductions


def test_empty_reductions_give_the_identities() -> None:
    empty, axis = np.zeros((2, 0), np.float32), np.array([1])
    for op, version, value in [
        ("ReduceSum", 13, 0), ("ReduceProd", 18, 1), ("ReduceMax", 20, -INF),
        ("ReduceMin", 20, INF), ("ReduceL1", 18, 0), ("ReduceLogSum", 18, -INF),
        ("ReduceLogSumExp", 18, -INF), ("ReduceMean", 18, NAN),
    ]:  # fmt: skip
        expected = np.full((2, 1), value, np.float32)
        assert np.array_equal(run(op, version, empty, axis), expected, equal_nan=True), op
    assert run("ReduceMax", 20, np.zeros(0, np.int8), keepdims=0) == -128


def test_no_axes_reduce_all_or_none() -> None:
    x, none = f32(3, -4), np.zeros(0, np.int64)
    assert run("ReduceL1", 18, x, none, keepdims=0) == 7
    assert run("ReduceL1", 18, x, none, noop_with_empty_axes=1).tolist() == [3, 4]
    assert run("ReduceSum", 13, x, noop_with_empty_axes=1).tolist() == [3, -4]


def test_a_log_of_sums_of_exponentials_does_not_overflow() -> None:
    assert np.isclose(run("ReduceLogSumExp", 13, f32(1000, 1000), keepdims=0), 1000 + np.log(2))
    assert run("ReduceLogSumExp", 13, f32(INF, 1), keepdims=0) == INF


def test_arg_max_takes_the_first_the_last_or_the_nan() -> None:
    x = np.array([[1, 5, 5], [NAN, 7, NAN]], np.float32)
    assert run("ArgMax", 13, x, axis=1, keepdims=0).tolist() == [1, 0]
    assert run("ArgMax", 13, x, axis=1, keepdims=0, select_last_index=1).tolist() == [2, 2]
    assert run("ArgMin", 13, x, axis=1).tolist() == [[0], [0]]


def test_before_opset_13_all_axes_from_axis_on_are_one_row() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    assert np.allclose(run("Softmax", 11, x, axis=1).sum((1, 2)), 1)
    assert np.allclose(run("Softmax", 13, x, axis=1).sum(1), 1)
    assert run("Hardmax", 11, x, axis=1).sum((1, 2)).tolist() == [1, 1]


# Matrix products and normalizations


@pytest.mark.parametrize(
    ("a", "b"),
    [((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((3,), (5, 3, 4)), ((5, 2, 3), (3,)),
     ((5, 1, 2, 3), (4, 3, 2)), ((2, 0), (0, 3))],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32])
def test_matmul_has_the_shapes_and_values_of_numpy(
    a: tuple[int, ...], b: tuple[int, ...], dtype: Any
) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-5, 5, s).astype(dtype) for s in (a, b))
    found = run("MatMul", 13, x, y)
    assert found.dtype == dtype
    assert np.array_equal(found, np.matmul(x, y))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [("ij,jk->ik", [(2, 3), (3, 4)]), ("ii->i", [(3, 3)]), ("ij->", [(3, 4)]), ("ij", [(3, 4)]),
     ("...ij,...jk", [(5, 2, 3), (4, 1, 3, 2)]), ("b...,c->c...", [(2, 3), (4,)]),
     ("i,j,ij->j", [(3,), (4,), (3, 4)]), (",a->a", [(), (3,)]), ("ii", [(3, 3)])],
)  # fmt: skip
def test_einsum_has_the_values_of_numpy(equation: str, shapes: list[tuple[int, ...]]) -> None:
    rng = np.random.default_rng(0)
    feeds = [rng.integers(-5, 5, s).astype(np.float32) for s in shapes]
    assert np.array_equal(run("Einsum", 12, *feeds, equation=equation), np.einsum(equation, *feeds))


def test_gemm_without_beta_does_not_look_at_c() -> None:
    a = np.ones((2, 2), np.float32)
    assert run("Gemm", 13, a, a, f32(INF, NAN), beta=0.0).tolist() == [[2, 2], [2, 2]]


MATRIX, IMAGE, CHANNELS = (4, 4), (2, 4, 4, 4), (4,)


@pytest.mark.parametrize("dtype", [t.float16, t.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("op", "version", "shapes"),
    [
        ("Add", 14, [MATRIX, MATRIX]),
        ("BatchNormalization", 15, [IMAGE, *[CHANNELS] * 4]),
        ("Gelu", 20, [MATRIX]),
        ("Gemm", 13, [MATRIX, MATRIX, CHANNELS]),
        ("InstanceNormalization", 22, [IMAGE, CHANNELS, CHANNELS]),
        ("LRN", 13, [IMAGE]),
        ("LayerNormalization", 17, [MATRIX, CHANNELS, CHANNELS]),
        ("LogSoftmax", 13, [MATRIX]),
        ("LpNormalization", 22, [MATRIX]),
        ("MatMul", 13, [MATRIX, MATRIX]),
        ("Mean", 13, [MATRIX, MATRIX, MATRIX]),
        ("Mish", 22, [MATRIX]),
        ("Pow", 15, [MATRIX, MATRIX]),
        ("RMSNormalization", 23, [MATRIX, CHANNELS]),
        ("ReduceLogSumExp", 18, [MATRIX]),
        ("ReduceMean", 18, [MATRIX]),
        ("Softmax", 13, [MATRIX]),
    ],
)
def test_small_floats_are_computed_in_float32_and_rounded_once(
    op: str, version: int, shapes: list[tuple[int, ...]], dtype: t.DType
) -> None:
    rng = np.random.default_rng(0)
    feeds = [rng.random(s).astype(dtype.numpy) for s in shapes]
    attributes = {"size": 3} if op == "LRN" else {}
    wide = run(op, version, *(f.astype(np.float32) for f in feeds), **attributes)
    assert np.array_equal(run(op, version, *feeds, **attributes), wide.astype(dtype.numpy))


def test_lrn_takes_the_power_three_quarters_by_two_roots() -> None:
    """x / (bias + alpha x x) ** 0.75 of float32: the power is rounded once, from float64."""
    x = np.random.default_rng(0).standard_normal((1, 1, 1, 4096)).astype(np.float32)
    x[0, 0, 0, :6] = 0.0, -0.0, np.inf, np.nan, 1e-30, 1e19
    with np.errstate(all="ignore"):
        scale = x * x * np.float32(0.5) + np.float32(2)
        half = np.sqrt(scale.astype(np.float64))
        want = x / (half * np.sqrt(half)).astype(np.float32)
    got = run("LRN", 13, x, size=1, alpha=0.5, bias=2.0)
    assert np.array_equal(got, want, equal_nan=True)


def test_lrn_of_a_negative_scale_has_the_edges_of_a_power() -> None:
    x = np.array([1.0, 0.0, 2.0], np.float32).reshape(1, 1, 1, 3)
    got = run("LRN", 13, x, size=1, alpha=-1.0, bias=1.0).ravel()
    assert got[0] == np.inf  # 1 / 0 ** 0.75
    assert got[1] == 0
    assert np.isnan(got[2])  # (-3) ** 0.75


def test_mish_is_one_function_and_a_product() -> None:
    """Within 1 ulp of tanh(log(1 + exp(x))), and one more rounding."""
    x = np.linspace(-80, 40, 20001).astype(np.float32)
    wide = x.astype(np.float64)
    want = wide * np.tanh(np.log1p(np.exp(wide)))
    unit = np.spacing(np.maximum(np.abs(want), 2.0**-126).astype(np.float32))
    assert (np.abs(run("Mish", 22, x) - want) <= 2 * unit).all()


def test_float16_statistics_are_kept_in_float32() -> None:
    x = np.full((1, 4096), 300, np.float16)
    assert (run("LayerNormalization", 17, x, np.ones(4096, np.float16)) == 0).all()
    assert run("ReduceMean", 18, x, keepdims=0) == 300


def test_batch_normalization_is_one_fused_multiply_add() -> None:
    rng = np.random.default_rng(0)
    x, scale, b, mean = (rng.standard_normal(s).astype(np.float32) for s in ((2, 3, 4), 3, 3, 3))
    var = rng.random(3).astype(np.float32)
    s = scale / np.sqrt(var + np.float32(1e-5))
    offset = b - mean * s
    s, offset = s[:, None], offset[:, None]
    exact = x.astype(np.float64) * s.astype(np.float64) + offset.astype(np.float64)
    assert np.array_equal(
        run("BatchNormalization", 15, x, scale, b, mean, var), exact.astype(np.float32)
    )


def test_batch_normalization_before_opset_9_may_have_statistics_of_each_feature() -> None:
    x = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    mean, one = x[0], np.ones((2, 3), np.float32)
    found = run("BatchNormalization", 7, x, one, 0 * one, mean, one, spatial=0, epsilon=0.0)
    assert np.array_equal(found, x - mean)


# What is refused


def test_strings_are_refused() -> None:
    """By kernels: the host performs what is of strings."""
    with pytest.raises(UnsupportedModel, match="strings"):
        run("Constant", 13, value_string="a")
    with pytest.raises(UnsupportedModel, match="element type"):
        run("Cast", 13, f32(1), to=onnx.TensorProto.STRING)


def test_attributes_are_checked() -> None:
    with pytest.raises(InvalidModel, match="needs the attribute direction"):
        run("BitShift", 28, np.uint8(1), np.uint8(1))
    with pytest.raises(InvalidModel, match="no attribute axis"):
        run("Relu", 14, f32(1), axis=1)


def test_axes_are_checked() -> None:
    with pytest.raises(InvalidModel, match="axis 2"):
        run("Softmax", 13, np.zeros((2, 2), np.float32), axis=2)
    with pytest.raises(InvalidModel, match="twice"):
        run("ReduceSum", 11, np.zeros((2, 2), np.float32), axes=[0, -2])


def test_range_follows_symbolic_limits() -> None:
    definition = find("", "Range", 11)
    assert definition is not None
    size = operand("n", t.int64, (), np.array(symbol("N"), object))
    zero, one = (operand(n, t.int64, (), np.array(v)) for n, v in (("a", 0), ("b", 1)))
    assert lower(definition, [zero, size, one], {}, [True]).outputs[0].shape == (symbol("N"),)
    with pytest.raises(Undetermined):
        lower(definition, [zero, operand("m", t.int64, ()), one], {}, [True])
