"""The types of at most 8 bits that C does not have: conversions against their definition, onnx's
and ml_dtypes' own; models that hold, move and quantise them."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from kernels import edges
from onnx import helper, numpy_helper

from sardonyx import types as t
from sardonyx.kernel import arith
from sardonyx.model.files import Folder
from sardonyx.model.tensors import Decoder
from sardonyx.types import Array, DType

FLOATS = (*t.SMALL, t.float8e8m0)
INTS = (t.int4, t.uint4, t.int2, t.uint2)
EIGHT = t.SMALL[:4]


def codes(dtype: DType) -> Array:
    return edges(dtype).view(np.uint8)


def cast(x: Array, source: DType, to: DType, saturate: bool = True, toward: str = "up") -> Array:
    with np.errstate(all="ignore"):
        return arith.cast(x, source, to, saturate, toward).view(np.uint8)


@cache
def value(dtype: DType, code: int) -> Fraction | None:
    """What a code without its sign means, by the definition of the formats; None: not finite."""
    if dtype is t.float8e8m0:
        return None if code == 255 else Fraction(2) ** (code - 127)
    row = dtype.format
    assert row is not None
    if code > row.top:
        return None
    exponent, fraction = divmod(code, 1 << row.fraction)
    part = Fraction(fraction, 1 << row.fraction)
    return (part * 2 if exponent == 0 else 1 + part) * Fraction(2) ** (exponent - row.bias)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_each_code_has_the_value_of_its_format(dtype: DType) -> None:
    """And ml_dtypes and onnx's tables agree."""
    with np.errstate(all="ignore"):
        wide = arith.cast(edges(dtype), dtype, t.float32)
    sign = dtype.format.sign if dtype.format else 256
    for code, found in enumerate(wide.tolist()):
        size = value(dtype, code & (sign - 1))
        if size is not None and (code != 128 or dtype.format is None or dtype.format.zero):
            assert Fraction(found) == (-size if code & sign else size)
            assert np.signbit(found) == bool(code & sign)
        else:
            assert np.isnan(found) or (np.isinf(found) and dtype is t.float8e5m2)


@pytest.mark.parametrize("source", [t.float32, t.float64], ids=str)
@pytest.mark.parametrize("dtype", t.SMALL, ids=str)
def test_casts_round_once_to_nearest_even(dtype: DType, source: DType) -> None:
    """At, and just beside, every value and every midpoint between two."""
    row = dtype.format
    assert row is not None
    finite = [value(dtype, c) or Fraction(0) for c in range(row.top + 1)]
    beyond = 2 * finite[-1] - finite[-2]
    middle = [(a + b) / 2 for a, b in zip(finite, [*finite[1:], beyond], strict=True)]
    for c, (low, mid) in enumerate(zip(finite, middle, strict=True)):
        up = row.top if c == row.top else c + 1
        at = np.array([float(low), float(mid)], source.numpy)
        around = np.array([at[0], np.nextafter(at[1], 0), at[1], np.nextafter(at[1], np.inf)])
        assert cast(around, source, dtype).tolist() == [c, c, c if c % 2 == 0 else up, up]
        signed = [c | row.sign if c else row.zero, c | row.sign if c else row.zero]
        assert cast(-around[:2], source, dtype).tolist() == signed


@pytest.mark.parametrize("saturate", [True, False])
@pytest.mark.parametrize("dtype", EIGHT, ids=str)
def test_all_16_bit_floats_go_where_onnx_says(dtype: DType, saturate: bool) -> None:
    """numpy_helper.saturate_cast, or ml_dtypes' own cast; the sign of a NaN is not kept."""
    for source in (t.float16, t.bfloat16):
        x = edges(source)
        with np.errstate(all="ignore"):
            plain = x.astype(np.float32).astype(dtype.numpy)
            expected = numpy_helper.saturate_cast(x, dtype.numpy) if saturate else plain
            expected = arith.canonical_nan(expected, dtype).view(np.uint8)
        assert (cast(x, source, dtype, saturate) == expected).all()


@pytest.mark.parametrize("dtype", t.SMALL[4:], ids=str)
def test_all_16_bit_floats_saturate_into_types_without_infinity(dtype: DType) -> None:
    """As ml_dtypes does; a NaN becomes -0 (onnx: unspecified), whatever its sign."""
    assert dtype.format is not None
    for source in (t.float16, t.bfloat16):
        x = edges(source)
        with np.errstate(all="ignore"):
            expected = x.astype(np.float32).astype(dtype.numpy).view(np.uint8)
            nan = np.isnan(x.astype(np.float32))
        found = cast(x, source, dtype)
        assert (found[~nan] == expected[~nan]).all()
        assert (found[nan] == dtype.format.zero).all()


TABLE = {  # x -> saturated, not saturated: the tables of the operator Cast
    "0": (0.0, ["00", "00", "00", "00"], ["00", "00", "00", "00"]),
    "-0": (-0.0, ["80", "00", "80", "00"], ["80", "00", "80", "00"]),
    "NaN": (np.nan, ["7f", "80", "7e", "80"], ["7f", "80", "7e", "80"]),
    "Inf": (np.inf, ["7e", "7f", "7b", "7f"], ["7f", "80", "7c", "80"]),
    "-Inf": (-np.inf, ["fe", "ff", "fb", "ff"], ["7f", "80", "fc", "80"]),
    "[x] > FLT_MAX": (1e6, ["7e", "7f", "7b", "7f"], ["7f", "80", "7c", "80"]),
    "[x] < -FLT_MAX": (-1e6, ["fe", "ff", "fb", "ff"], ["7f", "80", "fc", "80"]),
}


@pytest.mark.parametrize("row", TABLE)
def test_the_table_of_special_values(row: str) -> None:
    """-NaN of the table is the one NaN here: the sign of a NaN means nothing."""
    x, saturated, open_ = TABLE[row]
    for source in (t.float16, t.float32, t.float64):
        with np.errstate(over="ignore"):
            given = np.array([x]).astype(source.numpy)
        for dtype, one, other in zip(EIGHT, saturated, open_, strict=True):
            assert cast(given, source, dtype).tobytes().hex() == one
            assert cast(given, source, dtype, False).tobytes().hex() == other


def power(x: Fraction, toward: str) -> int:
    """The code of the power of two that x between 2**-127 and 2**127 is rounded to."""
    below = max(c for c in range(255) if Fraction(2) ** (c - 127) <= x)
    low = Fraction(2) ** (below - 127)
    up = {"up": x > low, "nearest": 2 * x >= 3 * low, "down": False}[toward]
    return below + up


@pytest.mark.parametrize("toward", ["up", "nearest", "down"])
@pytest.mark.parametrize("source", [t.float32, t.float64, t.float16, t.bfloat16], ids=str)
def test_powers_of_two_round_as_asked(source: DType, toward: str) -> None:
    """Ties go up; outside [2**-127, 2**127] the nearer end, or NaN where it does not saturate."""
    if source.bits == 16:
        x = edges(source)[:: 1 if source is t.float16 else 7]
    else:
        whole = np.ldexp(np.array([1.0, 1.5], source.numpy)[:, None], np.arange(-130, 128))
        whole = whole[np.isfinite(whole)]
        x = np.concatenate([np.nextafter(whole, 0), whole, np.nextafter(whole, np.inf)])
        x = np.concatenate([x, -x, np.array([0, np.inf, -np.inf, np.nan])]).astype(source.numpy)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
    kept, open_ = (
        cast(x, source, t.float8e8m0, True, toward),
        cast(x, source, t.float8e8m0, False, toward),
    )
    for v, one, other in zip(wide.tolist(), kept.tolist(), open_.tolist(), strict=True):
        if v != v or v < 2.0**-127 or v > 2.0**127:
            assert (one, other) == (255 if v != v else 254 if v > 1 else 0, 255)
        else:
            assert one == other == power(Fraction(v), toward)


@pytest.mark.parametrize("toward", ["up", "nearest", "down"])
def test_normal_float32_go_to_powers_of_two_as_onnx_says(toward: str) -> None:
    """Below 2**-126 onnx's helper misreads subnormals; it takes the magnitude of negatives."""
    x = np.arange(0x00800000, 0x7F800000, 4099, np.uint32).view(np.float32)
    expected = numpy_helper.to_float8e8m0(x, True, toward).view(np.uint8)
    assert (cast(x, t.float32, t.float8e8m0, True, toward) == expected).all()


@pytest.mark.parametrize("dtype", INTS, ids=str)
def test_integers_of_few_bits_keep_the_low_bits(dtype: DType) -> None:
    """Of integers, and of floats cut off towards zero, as onnx's cases do."""
    whole = np.arange(-300, 300)
    low = ((whole - dtype.min) % (1 << dtype.bits) + dtype.min).tolist()
    for source in (t.int16, t.int32, t.int64, t.float32, t.float64, t.float16):
        found = arith.cast(whole.astype(source.numpy), source, dtype)
        assert found.astype(np.int64).tolist() == low
        assert found.view(np.uint8).max() < 1 << dtype.bits
    assert cast(np.array([np.nan, 2.9, -0.9]), t.float64, t.uint4).tolist() == [0, 2, 0]
    assert arith.cast(edges(dtype), dtype, t.int64).tolist() == [
        int(v) for v in edges(dtype).tolist()
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("dtype", [*FLOATS, *INTS], ids=str)
def test_packed_tensors_are_read_as_onnx_writes_them(dtype: DType, count: int) -> None:
    x = np.resize(edges(dtype)[::-3], count)
    raw = numpy_helper.from_array(x, "t")
    plain = x.astype(np.float32)[~np.isnan(x.astype(np.float32))]
    typed = helper.make_tensor("t", dtype.onnx, [len(plain)], plain)
    for proto, value in ((raw, x), (typed, numpy_helper.to_array(typed))):
        found = Decoder(Folder(None)).tensor(proto, "t")
        assert found.dtype == dtype.numpy
        assert found.tobytes() == value.tobytes()
