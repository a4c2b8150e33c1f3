"""The clauses of the numerics contract (docs/numerics.md), one test each, on the interpreter."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sardonyx import types as t
from sardonyx.kernel import arith
from sardonyx.kernel.build import Builder, Tensor, operand
from sardonyx.kernel.expr import alu, where
from sardonyx.kernel.interpret import evaluate
from sardonyx.types import Array, DType

EDGES = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38, 1.17549435e-38]
floats = st.floats(width=32, allow_nan=False, allow_infinity=False)


def run(k: Builder, out: Tensor, *inputs: tuple[Tensor, Array], fused: bool = True) -> Array:
    kernel = k.kernel("test", [x for x, _ in inputs], [out])
    return evaluate(kernel, [v for _, v in inputs], fused)[0]


def bits(x: Array) -> Array:
    return np.asarray(x).view(f"u{x.dtype.itemsize}")


def rounded(x: Fraction) -> np.float32:
    """The float32 nearest to an exact number, ties to even."""
    if x == 0:
        return np.float32(0)
    near = np.float32(float(x)) if abs(x) < 2**128 else np.float32(np.inf)
    around = [np.nextafter(near, np.float32(side)) for side in (-np.inf, np.inf)]
    finite = [c for c in (near, *around) if np.isfinite(c)]
    exact = [(abs(Fraction(float(c)) - x), int(bits(c)) & 1, c) for c in finite]
    return min(exact, key=lambda e: e[:2])[2]


@settings(max_examples=300)
@given(floats, floats, floats)
def test_a_fused_multiply_add_rounds_once(a: float, b: float, c: float) -> None:
    """fma(a, b, c) is the float32 nearest to the exact a * b + c."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0 or abs(exact) > Fraction(3.4e38):
        return
    with np.errstate(all="ignore"):
        got = arith.fma(*(np.array([v], np.float32) for v in (a, b, c)))
    assert bits(got)[0] == bits(np.array(rounded(exact)))


@pytest.mark.parametrize(
    ("a", "b", "c"),
    [
        (1 + 2**-23, 1 + 2**-23, 2**-60),  # float64 lands exactly between two float32
        (1 + 2**-12, 1 + 2**-12, -(2.0**-80)),
        (2.0**-75, 1 + 2**-23, 2.0**-149),  # subnormal results
        (2.0**-100, 2.0**-49, -(2.0**-149)),
        (1.5 * 2.0**-75, 2.0**-75, 0.0),
    ],
)
def test_a_fused_multiply_add_survives_double_rounding(a: float, b: float, c: float) -> None:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    got = arith.fma(*(np.array([v], np.float32) for v in (a, b, c)))
    assert bits(got)[0] == bits(np.array(rounded(exact)))


def test_subnormals_are_kept() -> None:
    k = Builder(1)
    x = operand("x", t.float32, (2,))
    out = run(k, k.compute((2,), lambda i: x[i] * 0.5), (x, np.array([3e-45, -3e-45], np.float32)))
    assert bits(out).tolist() == [1, 0x80000001]


def test_arithmetic_stores_the_canonical_nan() -> None:
    """inf - inf and a payload NaN both come out as 7fc00000."""
    k = Builder(1)
    x = operand("x", t.float32, (2,))
    payload = np.array([0x7F800000, 0xFFC12345], np.uint32).view(np.float32)
    out = run(k, k.compute((2,), lambda i: x[i] - x[i]), (x, payload))
    assert bits(out).tolist() == [0x7FC00000, 0x7FC00000]


def test_a_move_keeps_the_bits_of_a_nan() -> None:
    """Loads, constants and selections among them move storage bits."""
    k = Builder(1)
    x = operand("x", t.float32, (2,))
    payload = np.array([0xFFC12345, 0x7F800001], np.uint32).view(np.float32)
    out = run(k, k.compute((2,), lambda i: where(i < 1, x[i], x.guard((i,), 0.0))), (x, payload))
    assert bits(out).tolist() == [0xFFC12345, 0x7F800001]


@pytest.mark.parametrize(("op", "zero"), [("min", 0x80000000), ("max", 0)])
def test_min_and_max_absorb_nan_and_order_zeros(op: str, zero: int) -> None:
    k = Builder(1)
    x, y = operand("x", t.float32, (4,)), operand("y", t.float32, (4,))
    a = np.array([0.0, -0.0, np.nan, 1.0], np.float32)
    b = np.array([-0.0, 0.0, 1.0, np.nan], np.float32)
    out = run(k, k.compute((4,), lambda i: alu(op, x[i], y[i])), (x, a), (y, b))
    assert bits(out).tolist() == [zero, zero, 0x7FC00000, 0x7FC00000]


def test_min_and_max_folds_are_min_and_max() -> None:
    for op, expected in (("min", 0x80000000), ("max", 0)):
        k = Builder(1)
        x = operand("x", t.float32, (3,))
        out = k.compute((), lambda x=x, op=op, k=k: k.fold(op, (3,), lambda i: x[i]))
        found = run(k, out, (x, np.array([0.0, -0.0, 0.0], np.float32)))
        assert int(bits(found)) == expected


def reference_dot(a: Array, b: Array) -> np.float32:
    acc = np.zeros(1, np.float32)
    for x, y in zip(a, b, strict=True):
        acc = arith.fma(np.array([x]), np.array([y]), acc)
    return acc[0]


def test_a_dot_is_one_chain_of_fused_multiply_adds() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(100).astype(np.float32) for _ in range(2))
    k = Builder(1)
    x, y = operand("x", t.float32, (100,)), operand("y", t.float32, (100,))
    out = run(k, k.compute((), lambda: k.dot((100,), lambda i: (x[i], y[i]))), (x, a), (y, b))
    assert bits(out) == bits(np.array(reference_dot(a, b)))


def test_a_dot_takes_its_axes_in_order_the_last_fastest() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((5, 7)).astype(np.float32) for _ in range(2))
    k = Builder(1)
    x, y = operand("x", t.float32, (5, 7)), operand("y", t.float32, (5, 7))
    out = k.compute((), lambda: k.dot((7, 5), lambda j, i: (x[i, j], y[i, j])))
    expected = reference_dot(a.T.reshape(-1), b.T.reshape(-1))
    assert bits(run(k, out, (x, a), (y, b))) == bits(np.array(expected))


def test_a_padding_zero_is_a_term_and_an_absent_term_is_not() -> None:
    """0 * inf is NaN when the zero is there; `when` leaves the term out."""
    k = Builder(1)
    x, w = operand("x", t.float32, (1,)), operand("w", t.float32, (2,))
    values = (x, np.ones(1, np.float32)), (w, np.array([1, np.inf], np.float32))
    there = k.compute((), lambda: k.dot((2,), lambda i: (x.guard((i,), 0.0), w[i])))
    assert np.isnan(run(k, there, *values))
    absent = k.compute(
        (), lambda: k.dot((2,), lambda i: (x.guard((i,), 0.0), w[i]), when=lambda i: i < 1)
    )
    assert run(k, absent, *values) == 1


def test_unfused_numerics_multiplies_then_adds() -> None:
    a, b = np.float32(1 + 2**-12), np.float32(1 + 2**-12)
    k = Builder(1)
    x, y = operand("x", t.float32, (2,)), operand("y", t.float32, (2,))
    out = k.compute((), lambda: k.dot((2,), lambda i: (x[i], y[i])))
    feed = (x, np.array([-1, a], np.float32)), (y, np.array([a * b, b], np.float32))
    assert run(k, out, *feed, fused=False) == 0
    assert run(k, out, *feed) == np.float32(2.0**-24)


def reference_sum(x: Array) -> np.float32:
    p = [np.float32(0)] * 16
    for i, v in enumerate(x):
        p[i % 16] = np.float32(p[i % 16] + v)
    for width in (8, 4, 2, 1):
        p = [np.float32(p[j] + p[j + width]) for j in range(width)]
    return p[0]


@settings(max_examples=30)
@given(st.integers(0, 70), st.integers(0, 2**32 - 1))
def test_a_sum_has_sixteen_partial_results(n: int, seed: int) -> None:
    a = np.random.default_rng(seed).standard_normal(n).astype(np.float32)
    k = Builder(1)
    x = operand("x", t.float32, (n,))
    out = run(k, k.compute((), lambda: k.sum((n,), lambda i: x[i])), (x, a))
    assert bits(out) == bits(np.array(reference_sum(a)))


def test_a_sum_flattens_its_axes_row_major() -> None:
    a = np.random.default_rng(2).standard_normal((7, 9)).astype(np.float32)
    k = Builder(1)
    x = operand("x", t.float32, (7, 9))
    out = run(k, k.compute((), lambda: k.sum((7, 9), lambda i, j: x[i, j])), (x, a))
    assert bits(out) == bits(np.array(reference_sum(a.reshape(-1))))


def small(dtype: DType) -> Array:
    """Every value of a 16-bit type."""
    return np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)


@pytest.mark.parametrize("dtype", [t.float16, t.bfloat16], ids=str)
def test_casts_from_float64_round_once(dtype: DType) -> None:
    """Numbers just beside each midpoint between two values of the type round to the nearer."""
    with np.errstate(all="ignore"):
        values = small(dtype).astype(np.float64)
    finite = np.sort(np.unique(values[np.isfinite(values)]))
    middle = (finite[:-1] + finite[1:]) / 2
    with np.errstate(all="ignore"):
        above = arith.cast(np.nextafter(middle, np.inf), t.float64, dtype).astype(np.float64)
        below = arith.cast(np.nextafter(middle, -np.inf), t.float64, dtype).astype(np.float64)
    np.testing.assert_array_equal(above, finite[1:])
    np.testing.assert_array_equal(below, finite[:-1])


@pytest.mark.parametrize("dtype", [t.float16, t.bfloat16], ids=str)
def test_small_floats_survive_float32(dtype: DType) -> None:
    """Every value of a 16-bit type goes to float32 and back unchanged."""
    values = small(dtype)
    with np.errstate(all="ignore"):
        back = arith.cast(arith.cast(values, dtype, t.float32), t.float32, dtype)
        kept = ~np.isnan(values.astype(np.float32))
    assert (bits(back)[kept] == bits(values)[kept]).all()


@pytest.mark.parametrize("dtype", t.INTEGERS, ids=str)
def test_floats_saturate_into_integers(dtype: DType) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 2.9, -2.9, -0.5], np.float32)
    low = dtype.min
    expected = [0, dtype.max, low, dtype.max, low, 2, -2 if low else 0, 0]
    assert arith.cast(x, t.float32, dtype).tolist() == expected


@pytest.mark.parametrize("dtype", [t.int64, t.uint64, t.int32], ids=str)
@pytest.mark.parametrize("target", [t.float16, t.bfloat16, t.float32], ids=str)
def test_integers_round_once_into_floats(dtype: DType, target: DType) -> None:
    """2**62 + 2**54 + 1 (or its like) rounds up, although its leading bits alone are a tie."""
    width = dtype.bits - 2
    places = {t.float16: 10, t.bfloat16: 7, t.float32: 23}[target]
    n = (1 << min(width, 15)) if target is t.float16 else 1 << width
    if n >> (places + 1) == 0:
        return
    tie = n + (n >> (places + 1))
    values = np.array([tie, tie + 1], dtype.numpy)
    with np.errstate(all="ignore"):
        got = arith.cast(values, dtype, target).astype(np.float64)
    assert got.tolist() == [float(n), float(n + (n >> places))]


@pytest.mark.parametrize("dtype", t.INTEGERS, ids=str)
def test_integers_have_one_outcome_at_their_edges(dtype: DType) -> None:
    low, high = dtype.min, dtype.max
    a = np.array([high, low, 7, low], dtype.numpy)
    b = np.array([1, 0, 0, dtype.numpy.type(-1) if low else 1], dtype.numpy)
    with np.errstate(all="ignore"):
        assert (a + b)[0] == low
        assert arith.floor_divide(a, b)[1:].tolist() == [0, 0, low]
        assert arith.floor_modulo(a, b)[1:].tolist() == [low, 7, 0]
        assert arith.truncate_divide(a, b)[1:].tolist() == [0, 0, low]
        assert arith.remainder(a, b)[1:].tolist() == [low, 7, 0]
        count = np.full(4, dtype.bits, dtype.numpy)
        assert arith.shift_left(a, count).tolist() == [0] * 4
        assert arith.shift_right(a, count).tolist() == [-1 if v < 0 else 0 for v in a.tolist()]


def test_storage_types_compute_in_float32_and_round_once() -> None:
    """(x + y) - x in float16 keeps what float16 alone would lose, and rounds at the store."""
    k = Builder(1)
    x, y = operand("x", t.float16, (1,)), operand("y", t.float16, (1,))
    out = k.compute((1,), lambda i: (x[i] + y[i]) - x[i], t.float16)
    got = run(k, out, (x, np.array([2048], np.float16)), (y, np.array([1], np.float16)))
    assert got.dtype == np.float16
    assert got[0] == 1


@pytest.mark.parametrize("value", EDGES)
def test_round_goes_to_even(value: float) -> None:
    k = Builder(1)
    x = operand("x", t.float32, (3,))
    feed = np.array([0.5, 1.5, value], np.float32)
    got = run(k, k.compute((3,), lambda i: alu("rint", x[i])), (x, feed))
    assert got[:2].tolist() == [0, 2]
