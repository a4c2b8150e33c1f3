"""Running sums, determinants, spectra, optimizers, bit casts."""

from __future__ import annotations

from typing import Any

import node_cases
import numpy as np
import onnx.parser
import pytest
from onnx import TensorProto, helper
from op_runs import compare, lowered, normal, run

from sardonyx.dims import symbol
from sardonyx.engines import make_engine
from sardonyx.errors import InvalidModel
from sardonyx.kernel.verify import settle
from sardonyx.loading import load

N = symbol("N")


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
    compare("STFT", normal(2, 50), ends, normal(16), opset=17, tolerance=noise)


def test_stft_of_a_constant_length_has_half_of_the_bins_by_default() -> None:
    """ONNX 1.23's inference counts all of them where onesided is not stated."""
    head = "(float[1, 40, 1] x) => (float[1, n, m, 2] y) <int64 step = {8}, int64 size = {16}>"
    text = f'<ir_version: 8, opset_import: ["": 17]> g {head} {{ y = STFT(x, step, "", size) }}'
    x = normal(1, 40, 1)
    (y,) = make_engine(load(onnx.parser.parse_model(text)), "machine").run({"x": x}).values()
    frames = np.stack([x[0, i : i + 16, 0] for i in (0, 8, 16, 24)])
    found = np.asarray(y)[0]
    np.testing.assert_allclose(found[..., 0] + 1j * found[..., 1], np.fft.rfft(frames), atol=1e-4)


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
