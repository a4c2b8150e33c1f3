"""Running folds, quantised and recurrent operators, regions, spectra, optimizers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import node_cases
import numpy as np
import onnx
import pytest
from kernels import Case, check, compile_all
from onnx import TensorProto, helper
from onnx.backend.test.case.test_case import TestCase
from op_runs import RANDOM, as_operand, lowered, normal, run

from sardonyx.dims import symbol
from sardonyx.errors import InvalidModel, RunError
from sardonyx.kernel.ir import Kernel
from sardonyx.kernel.print_c import print_c
from sardonyx.kernel.verify import settle
from sardonyx.ops.registry import find, lower
from sardonyx.types import Array

OPERATORS = """
    Adagrad Adam BitCast Col2Im ConvInteger CumProd CumSum DFT DequantizeLinear Det GRU
    LSTM MatMulInteger MaxRoiPool MelWeightMatrix Momentum QLinearConv QLinearMatMul QuantizeLinear
    RNN RoiAlign STFT
""".split()  # noqa: SIM905
NARROW = ("e4m3", "e5m2", "e2m1", "int2", "int4")  # element types that Sardonyx does not have
NOISE = ("test_dft_inverse", "test_dft_inverse_opset19")  # their vectors hold 2e-6 in place of 0
N = symbol("N")


def cases() -> Iterator[TestCase]:
    for case in node_cases.all_cases():
        nodes = case.model.graph.node
        ours = len(nodes) == 1 and nodes[0].op_type in OPERATORS
        if ours and not any(word in case.name for word in NARROW):
            yield case


def case_name(case: TestCase) -> str:
    return str(case.name)


def fed(case: TestCase) -> list[Array | None]:
    (node,) = case.model.graph.node
    inputs, _ = case.data_sets[0]
    named = dict(zip((i.name for i in case.model.graph.input), inputs, strict=True))
    return [node_cases.array(named[i]) if i else None for i in node.input]


def kernel_of(node: onnx.NodeProto, version: int, feeds: Sequence[Array | None]) -> Kernel:
    op = find(node.domain, node.op_type, version)
    assert op is not None
    operands = [None if x is None else as_operand(i, x) for i, x in enumerate(feeds)]
    return lower(op, operands, node_cases.attributes(node), [bool(o) for o in node.output])


CASES = list(cases())


@pytest.mark.parametrize("case", [c for c in CASES if c.name not in NOISE], ids=case_name)
def test_node_case(case: TestCase) -> None:
    node_cases.check(case)


@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_every_load_of_a_node_case_is_proven(case: TestCase) -> None:
    (node,) = case.model.graph.node
    assert settle(kernel_of(node, node_cases.since(node, case.model), fed(case)))[1] == 0


def test_printed_c_gives_the_interpreter_s_bytes(tmp_path: Path) -> None:
    kernels: list[Case] = []
    for case in CASES:
        (node,) = case.model.graph.node
        feeds = fed(case)
        kernel, _ = settle(kernel_of(node, node_cases.since(node, case.model), feeds))
        kernels.append((kernel, feeds))  # type: ignore[arg-type]
    texts = [print_c(kernel).named(f"k{i}") for i, (kernel, _) in enumerate(kernels)]
    library = compile_all(texts, tmp_path, "gcc", ["-O1"])
    for i, case_ in enumerate(kernels):
        check(case_, getattr(library, f"k{i}"))


def reference(node: onnx.NodeProto, feeds: Sequence[Array | None], opset: int) -> list[Array]:
    """The outputs of onnxruntime."""
    ort = pytest.importorskip("onnxruntime")
    given = {n: np.asarray(x) for n, x in zip(node.input, feeds, strict=True) if x is not None}
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in given.items()
    ]
    outputs = [helper.make_empty_tensor_value_info(o) for o in node.output]
    graph = helper.make_graph([node], "one", inputs, outputs)
    opsets = [helper.make_opsetid("", opset)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, given))


def compare(
    op: str, *feeds: Any, opset: int = 21, outputs: int = 1, tolerance: float = 1e-5, **given: Any
) -> None:
    """Asserts that an operation agrees with onnxruntime."""
    arrays = [None if x is None else np.asarray(x) for x in feeds]
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(arrays)]
    node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], **given)
    version = onnx.defs.get_schema(op, opset, "").since_version
    found = node_cases.run_node(node, version, arrays)
    for ours, theirs in zip(found, reference(node, arrays, opset), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
STEPS, BATCH, INPUT, HIDDEN = 5, 3, 4, 6


def recurrent(op: str, directions: int, lengths: Any = None, states: bool = False) -> list[Any]:
    rows = GATES[op] * HIDDEN
    feeds: list[Any] = [
        normal(STEPS, BATCH, INPUT),
        normal(directions, rows, INPUT),
        normal(directions, rows, HIDDEN),
        normal(directions, 2 * rows),
        lengths,
    ]
    if states:
        feeds.append(normal(directions, BATCH, HIDDEN))
        if op == "LSTM":
            feeds += [normal(directions, BATCH, HIDDEN), normal(directions, 3 * HIDDEN)]
    return feeds


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("op", list(GATES))
def test_recurrent_cells_agree_with_onnxruntime(op: str, direction: str) -> None:
    """With states, peepholes, biases; with and without lengths."""
    directions, outputs = 1 + (direction == "bidirectional"), 2 + (op == "LSTM")
    for lengths in (None, np.array([5, 2, 3], np.int32)):
        feeds = recurrent(op, directions, lengths, states=True)
        compare(op, *feeds, outputs=outputs, direction=direction, hidden_size=HIDDEN)


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("RNN", {"clip": 0.3}),
        ("GRU", {"clip": 0.3}),
        ("GRU", {"linear_before_reset": 1}),
        ("LSTM", {"input_forget": 1}),
        ("RNN", {"activations": ["HardSigmoid"], "activation_alpha": [0.3]}),
        ("RNN", {"activations": ["Elu"]}),
        ("RNN", {"activations": ["ThresholdedRelu"], "activation_alpha": [0.5]}),
        ("GRU", {"activations": ["Softsign", "Softplus"]}),
        (
            "LSTM",
            {
                "activations": ["HardSigmoid", "Affine", "LeakyRelu"],
                "activation_alpha": [0.3, 0.7, 0.2],
                "activation_beta": [0.4, 0.6],
            },
        ),
    ],
)
def test_attributes_of_recurrent_cells_agree_with_onnxruntime(
    op: str, attributes: dict[str, Any]
) -> None:
    outputs = 2 + (op == "LSTM")
    compare(op, *recurrent(op, 1), outputs=outputs, hidden_size=HIDDEN, **attributes)


@pytest.mark.parametrize("op", list(GATES))
def test_layout_1_is_layout_0_with_the_batch_first(op: str) -> None:
    outputs, feeds = 2 + (op == "LSTM"), recurrent(op, 2, np.array([1, 5, 0], np.int32), True)
    y, *last = run(op, *feeds, outputs=outputs, direction="bidirectional")
    feeds[0] = np.swapaxes(feeds[0], 0, 1)
    feeds[5] = np.swapaxes(feeds[5], 0, 1)
    if op == "LSTM":
        feeds[6] = np.swapaxes(feeds[6], 0, 1)
    y1, *last1 = run(op, *feeds, outputs=outputs, direction="bidirectional", layout=1)
    np.testing.assert_array_equal(y1, np.transpose(y, (2, 0, 1, 3)))
    for a, b in zip(last1, last, strict=True):
        np.testing.assert_array_equal(a, np.swapaxes(b, 0, 1))


def test_the_cell_of_lstm_is_clipped_where_the_last_activation_takes_it() -> None:
    """Weights of zero leave C' = C / 2 = 4; H' is sigmoid(0) * tanh(clip)."""
    w, r = np.zeros((1, 4, 1), np.float32), np.zeros((1, 4, 1), np.float32)
    start = np.zeros((1, 1, 1), np.float32)
    _, h, c = run("LSTM", start, w, r, None, None, start, start + 8, outputs=3, clip=0.5)
    assert c[0, 0, 0] == 4
    assert h[0, 0, 0] == pytest.approx(0.5 * np.tanh(0.5), rel=1e-6)


def test_an_unknown_activation_or_direction_is_refused() -> None:
    for attributes in ({"activations": ["Sin"]}, {"direction": "up"}, {"layout": 2}):
        with pytest.raises(InvalidModel):
            run("RNN", *recurrent("RNN", 1), outputs=2, **attributes)


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


REGIONS = np.float32(
    [[1, 2, 9, 8], [-3, -2, 20, 14], [4, 4, 4.2, 4.1], [-30, -30, 40, 40], [9, 9, 2, 2]]
)
BATCHES = np.array([0, 1, 1, 0, 1])


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "output_half_pixel"])
@pytest.mark.parametrize("ratio", [0, 2])
def test_regions_are_onnxruntime_s(mode: str, coordinates: str, ratio: int) -> None:
    """Small, large, partly and wholly outside, and upside down."""
    compare(
        "RoiAlign", normal(2, 3, 12, 16), REGIONS, BATCHES, mode=mode, sampling_ratio=ratio,
        coordinate_transformation_mode=coordinates, output_height=3, output_width=2,
        spatial_scale=0.75,
    )  # fmt: skip


def test_max_roi_pool_is_onnxruntime_s() -> None:
    rois = np.concatenate([BATCHES[:, None].astype(np.float32), REGIONS], 1)
    x = normal(2, 3, 12, 16)
    for scale in (0.5, 1.0):
        compare("MaxRoiPool", x, rois, pooled_shape=[3, 2], spatial_scale=scale)


def test_a_region_of_a_sample_that_is_not_there_is_a_run_time_error() -> None:
    with pytest.raises(RunError):
        run("RoiAlign", normal(1, 1, 4, 4), REGIONS[:1], np.array([1]), output_height=1)


@pytest.mark.parametrize("length", [1, 2, 7, 8, 12])
@pytest.mark.parametrize("used", [None, 5, 9])
def test_dft_is_numpy_s(length: int, used: int | None) -> None:
    x = normal(2, length, 3, 2)
    given = () if used is None else (np.array(used),)
    values = x[..., 0].astype(np.float64) + 1j * x[..., 1]
    for inverse, fft in ((0, np.fft.fft), (1, np.fft.ifft)):
        y = run("DFT", x, *given, opset=17, inverse=inverse)
        expected = fft(values, used, axis=1)
        np.testing.assert_allclose(y[..., 0] + 1j * y[..., 1], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("length", [2, 7, 8])
def test_one_sided_dfts_are_numpy_s_and_inverse(length: int) -> None:
    x = normal(2, 3, length, 1)
    y = run("DFT", x, onesided=1)
    np.testing.assert_allclose(
        y[..., 0] + 1j * y[..., 1], np.fft.rfft(x[..., 0]), rtol=1e-5, atol=1e-5
    )
    back = run("DFT", y, np.array(length), onesided=1, inverse=1)
    np.testing.assert_allclose(back, x, rtol=1e-5, atol=1e-5)


def test_quarters_of_a_turn_are_exact() -> None:
    """The transform of four real values is made of sums and differences of them."""
    x = np.float32([1, 2, 4, 8]).reshape(1, 4, 1)
    y = run("DFT", x)
    np.testing.assert_array_equal(y[0], [[15, 0], [-3, 6], [-5, 0], [-3, -6]])


def test_stft_is_onnxruntime_s() -> None:
    """Within the noise of onnxruntime's float32 transform of values up to 10."""
    noise, ends = 5e-5, np.array(7)
    compare("STFT", normal(2, 50, 1), ends, normal(16), opset=17, tolerance=noise)
    given = normal(2, 50, 1), ends, None, np.array(10)
    compare("STFT", *given, opset=17, tolerance=noise, onesided=0)
    compare("STFT", normal(2, 50, 2), ends, normal(16), opset=17, tolerance=noise, onesided=0)


def test_mel_weights_are_onnxruntime_s() -> None:
    sizes = np.array(10), np.array(64), np.array(16000)
    compare("MelWeightMatrix", *sizes, np.float32(20), np.float32(8000), opset=17)


@pytest.mark.parametrize("shape", [(4, 4), (2, 5, 5), (3, 1, 1), (2, 0, 0)])
def test_det_is_numpy_s(shape: tuple[int, ...]) -> None:
    x = normal(*shape)
    np.testing.assert_allclose(run("Det", x), np.linalg.det(x), rtol=1e-4, atol=1e-5)


def test_det_of_a_singular_matrix_is_zero() -> None:
    assert run("Det", np.float32([[0, 0], [0, 5]])) == 0
    assert run("Det", np.float32([[0, 1], [1, 0]])) == -1


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_running_sums_are_onnxruntime_s(exclusive: int, reverse: int) -> None:
    x = normal(3, 4, 5)
    compare("CumSum", x, np.array(1), exclusive=exclusive, reverse=reverse, tolerance=0)


def test_a_running_sum_of_float16_is_kept_in_float32() -> None:
    x = np.array([2048, 1, 1], np.float16)
    np.testing.assert_array_equal(run("CumSum", x, np.array(0)), np.float16([2048, 2048, 2050]))


def test_a_running_sum_keeps_the_sign_of_a_zero() -> None:
    x = np.float32([-0.0, -0.0])
    assert np.signbit(run("CumSum", x, np.array(0))).all()
    assert not np.signbit(run("CumSum", x, np.array(0), exclusive=1)).any()


def test_col2im_adds_what_overlaps() -> None:
    compare("Col2Im", normal(2, 12, 12), np.array([4, 5]), np.array([2, 2]), opset=18)


@pytest.mark.parametrize("float_type", [np.float16, "bfloat16"])
def test_16_bit_floats_are_cast_to_their_bits_and_back(float_type: Any) -> None:
    """Every pattern, those of NaN too."""
    import ml_dtypes

    dtype = np.dtype(ml_dtypes.bfloat16 if float_type == "bfloat16" else float_type)
    code = TensorProto.BFLOAT16 if float_type == "bfloat16" else TensorProto.FLOAT16
    bits = np.arange(1 << 16, dtype=np.uint16)
    for to, integer in ((TensorProto.UINT16, np.uint16), (TensorProto.INT16, np.int16)):
        y = run("BitCast", bits.view(dtype), opset=26, to=to)
        np.testing.assert_array_equal(y, bits.view(integer))
        back = run("BitCast", bits.view(integer), opset=26, to=code)
        np.testing.assert_array_equal(back.view(np.uint16), bits)


def test_a_bit_cast_keeps_the_payload_of_a_nan() -> None:
    bits = np.array([0x7FC12345, -0x3FFFFF, 0x7F800001], np.int32)
    x = run("BitCast", bits, opset=26, to=TensorProto.FLOAT)
    np.testing.assert_array_equal(x.view(np.int32), bits)
    np.testing.assert_array_equal(run("BitCast", x, opset=26, to=TensorProto.INT32), bits)
    with pytest.raises(InvalidModel):
        run("BitCast", bits, opset=26, to=TensorProto.INT16)


SYMBOLIC: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("CumSum", ((N, 4), [1]), {}, "N, 4"),
    ("DFT", ((N, 8, 2),), {"opset": 17}, "N, 8, 2"),
    ("Det", ((N, 3, 3),), {}, "N"),
    ("RNN", ((N, 2, 3), (1, 4, 3), (1, 4, 4)), {}, "N, 1, 2, 4"),
    ("LSTM", ((5, N, 3), (1, 16, 3), (1, 16, 4)), {}, "5, 1, N, 4"),
    ("RoiAlign", ((1, 2, 8, 8), (N, 4), [0]), {"output_height": 2}, "N, 2, 2, 1"),
]


@pytest.mark.parametrize(("op_type", "operands", "attributes", "shape"), SYMBOLIC)
def test_symbolic_shapes(
    op_type: str, operands: tuple[Any, ...], attributes: dict[str, Any], shape: str
) -> None:
    kernel = lowered(op_type, *operands, **attributes)
    assert ", ".join(map(str, kernel.outputs[0].shape)) == shape
    settle(kernel)


@pytest.mark.parametrize("mode", ["standard", "nesterov"])
def test_momentum_before_the_first_step_takes_the_whole_gradient(mode: str) -> None:
    x, g, v = normal(3), normal(3), normal(3)
    node = helper.make_node(
        "Momentum", list("RTxgv"), ["y", "w"], domain="ai.onnx.preview.training",
        alpha=0.5, beta=0.25, mode=mode, norm_coefficient=0.0,
    )  # fmt: skip
    y, w = node_cases.run_node(node, 1, [np.float32(0.5), np.array(0), x, g, v])
    np.testing.assert_allclose(w, 0.5 * v + g, rtol=1e-6)
    step = w if mode == "standard" else g + np.float32(0.5) * w
    np.testing.assert_allclose(y, x - 0.5 * step, rtol=1e-5, atol=1e-6)
