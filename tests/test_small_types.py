"""The types of at most 8 bits that C does not have: conversions against their definition, onnx's
and ml_dtypes' own; models that hold, move and quantise them."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from kernels import edges
from nets import Net
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from sardonyx import backend, ort
from sardonyx import types as t
from sardonyx.cli import main
from sardonyx.errors import UnsupportedModel
from sardonyx.kernel import arith
from sardonyx.machine import Machine
from sardonyx.model.files import Folder
from sardonyx.model.tensors import Decoder
from sardonyx.native import NativeEngine
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
    below = math.frexp(x)[1] + 126
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


def both(net: Net) -> dict[str, Array]:
    """The outputs of the machine, which the native engine gives too."""
    graph = net.graph()
    machine, native = Machine(graph).run(net.feeds), NativeEngine(graph).run(net.feeds)
    for name in net.outputs:
        assert machine[name].dtype == native[name].dtype
        assert machine[name].tobytes() == native[name].tobytes(), name
    return machine


MOVED = tuple(d for d in (*FLOATS, *INTS) if d.bits != 6)  # onnx moves no float6


def test_moves_keep_every_code() -> None:
    net, expected = Net(), {}
    for dtype in MOVED:
        x = edges(dtype).reshape(-1, 2)
        given = net.feed(str(dtype), x)
        column = net.op("Unsqueeze", given, np.array([1]))
        padded = net.op("Pad", given, np.array([0, 1, 0, 0]), x[0, 1])
        wanted = {
            net.op("Identity", given): x,
            net.op("Reshape", given, np.array([2, -1])): x.reshape(2, -1),
            net.op("Flatten", given, axis=0): x.reshape(1, -1),
            net.op("Squeeze", column, np.array([1])): x,
            net.op("Transpose", given): x.T,
            padded: np.concatenate([np.full((len(x), 1), x[0, 1]), x], 1),
            net.op("Pad", given, np.array([1, 0, 0, 0])): np.concatenate(
                [np.zeros((1, 2), x.dtype), x]
            ),
            net.op("Constant", value=numpy_helper.from_array(x)): x,
            net.op(
                "ConstantOfShape", np.array([3]), value=numpy_helper.from_array(x[0, 1:])
            ): np.full(3, x[0, 1]),
            net.op("BitCast", net.op("BitCast", given, to=of_width(dtype)), to=dtype.onnx): x,
            net.op("Shape", given): np.array(x.shape),
            net.op("Size", given): np.array(x.size),
        }
        net.give(*wanted)
        expected |= wanted
    found = both(net)
    for name, value in expected.items():
        assert found[name].tobytes() == value.tobytes(), name


def of_width(dtype: DType) -> int:
    """An integer type as wide as a small one."""
    return {8: t.int8, 4: t.uint4, 2: t.int2}[dtype.bits].onnx


@pytest.mark.parametrize("version", [19, 21, 23, 25, 28])
def test_quantising_agrees_with_onnx(version: int) -> None:
    """Per tensor, per axis and blocked; all values of the type back to float32."""
    names = onnx.defs.get_schema("QuantizeLinear", version).type_constraints[-1].allowed_type_strs
    rng = np.random.default_rng(version)
    x = (rng.normal(size=(6, 8)) * 30).astype(np.float32)
    scales = {(): np.float32(0.37), (6,): rng.uniform(0.1, 2, 6).astype(np.float32)}
    if version >= 21:
        scales[3, 8] = rng.uniform(0.1, 2, (3, 8)).astype(np.float32)
    for dtype in (*t.SMALL, *INTS, t.int8):
        if f"tensor({dtype.name})" not in names:
            continue
        for shape, scale in scales.items():
            zero = np.zeros(shape, dtype.numpy) if dtype.is_float else np.ones(shape, dtype.numpy)
            more = {"block_size": 2} if shape == (3, 8) else {}
            to, back = (
                helper.make_node(f"{name}Linear", [x_, "s", "z"], [y], axis=0, **more)
                for name, x_, y in (("Quantize", "x", "y"), ("Dequantize", "y", "w"))
            )
            feeds = {"x": x, "s": scale, "z": zero}
            agree([to, back], feeds, {"y": dtype, "w": t.float32}, version)


def agree(
    nodes: list[onnx.NodeProto], feeds: dict[str, Array], outputs: dict[str, DType], version: int
) -> None:
    """Asserts that both engines give the bytes of onnx's reference, but for the sign of zeros."""
    given = [
        helper.make_tensor_value_info(n, numpy_helper.from_array(np.asarray(v)).data_type, v.shape)
        for n, v in feeds.items()
    ]
    made = [helper.make_tensor_value_info(n, d.onnx, None) for n, d in outputs.items()]
    graph = helper.make_graph(nodes, "g", given, made)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])
    expected = ReferenceEvaluator(model).run(None, feeds)
    for engine in ("machine", "native"):
        found = backend.prepare(model, engine=engine).run(feeds)
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one.astype(np.float64), other.astype(np.float64))


def test_sessions_name_the_types_as_onnxruntime_does() -> None:
    for dtype in (*FLOATS, *INTS, t.complex64, t.complex128):
        x = helper.make_tensor_value_info("x", dtype.onnx, [2])
        y = helper.make_tensor_value_info("y", TensorProto.INT64, [1])
        node = helper.make_node("Cast" if dtype.bits == 6 else "Shape", ["x"], ["y"])
        if dtype.bits == 6:
            node.attribute.append(helper.make_attribute("to", TensorProto.INT64))
            y = helper.make_tensor_value_info("y", TensorProto.INT64, [2])
        model = helper.make_model(helper.make_graph([node], "g", [x], [y]))
        session = ort.InferenceSession(model.SerializeToString())
        assert session.get_inputs()[0].type == f"tensor({dtype.name})"
        value = np.ones(2, dtype.numpy)
        assert session.run(None, {"x": value})[0].dtype == np.int64


def test_feeds_count_by_their_low_bits() -> None:
    """A byte of a fed element may have any other bits."""
    net = Net()
    x = net.feed("x", np.array([0x0F, 0xFF, 0x18], np.uint8).view(t.int4.numpy))
    net.give(net.op("Identity", x), net.op("Cast", x, to=t.int8.onnx))
    whole, cast_ = both(net).values()
    assert whole.view(np.uint8).tolist() == [0x0F, 0x0F, 0x08]
    assert cast_.tolist() == [-1, -1, -8]


@pytest.mark.parametrize("op_type", ["Resize", "Unique", "NonZero"])
def test_complex_numbers_are_not_computed_with(op_type: str) -> None:
    net = Net()
    x = net.feed("x", np.ones(4, np.complex64))
    more = ["", np.float32([1.5])] if op_type == "Resize" else []
    mode = {"mode": "linear"} if op_type == "Resize" else {}
    net.give(net.op(op_type, x, *more, **mode))
    with pytest.raises(UnsupportedModel, match="complex"):
        Machine(net.graph()).run(net.feeds)


def test_the_command_line_reads_what_it_wrote(tmp_path: Path) -> None:
    """NumPy's files keep of these types the width alone: the model's input says which it is."""
    x = helper.make_tensor_value_info("x", TensorProto.INT4, [3])
    y = helper.make_tensor_value_info("x2", TensorProto.INT4, [3])
    node = helper.make_node("Identity", ["x"], ["x2"])
    onnx.save(helper.make_model(helper.make_graph([node], "g", [x], [y])), tmp_path / "m.onnx")
    value = np.array([-8, 7, -1]).astype(t.int4.numpy)
    np.savez(tmp_path / "x.npz", x=value)
    out = tmp_path / "y.npz"
    files = ["--input", str(tmp_path / "x.npz"), "--output", str(out)]
    assert main(["run", str(tmp_path / "m.onnx"), "--engine", "machine", *files]) == 0
    assert np.load(out)["x2"].tobytes() == value.tobytes()
