"""Single layers as models have them, each a model of its own with channels as ONNX has them, so
that what a layer pays for another layout is in it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import helper

from benchmarks.net import Net

Shape = tuple[int, ...]
# The shape of an input (with its type where that is not float32), the value of a weight, or none.
Operand = Shape | tuple[Shape, str] | np.ndarray | None
Made = Callable[[], onnx.ModelProto]
_ROWS = (128, 3072)  # of elementwise operators


def layers() -> dict[str, Made]:
    """name -> what makes the model."""
    parts = (_convolutions, _windows, _elementwise, _along_axes, _moves, _products, _others)
    return {name: made for part in parts for name, made in part().items()}


def layer(
    kind: str, *given: Operand, results: int = 1, opset: int = 18, **attributes: Any
) -> onnx.ModelProto:
    """One node, whose first result is the model's."""
    net = _Layer()
    names = [net.given(x) for x in given]
    return net.ends(net.ops(kind, *names, count=results, **attributes)[0], opset)


class _Layer(Net):
    """A graph that learns its inputs as it is made."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: dict[str, Shape] = {}
        self.kinds: dict[str, int] = {}

    def given(self, x: Operand) -> str:
        """The name of an operand."""
        if isinstance(x, np.ndarray):
            return self.weight(x)
        if x is None:
            return ""
        name = f"x{len(self.shapes)}"
        self.shapes[name], kind = x if isinstance(x[0], tuple) else (x, "float32")
        self.kinds[name] = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        return name

    def ends(self, output: str, opset: int = 18) -> onnx.ModelProto:
        """The model."""
        return self.model(self.shapes, {output: None}, self.kinds, **{"": opset})


def _normal(*shape: int) -> np.ndarray:
    terms = np.prod(shape[1:], dtype=np.int64) if len(shape) > 1 else 1
    return (np.random.default_rng(0).standard_normal(shape) * terms**-0.5).astype(np.float32)


def _ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def _conv(
    channels: int,
    filters: int,
    kernel: int | Shape,
    size: int | Shape,
    *,
    stride: int = 1,
    group: int = 1,
    apart: int = 1,
    padded: bool = True,
) -> onnx.ModelProto:
    """A convolution with a bias that keeps the size (divided by the stride), unless not padded."""
    place = (size, size) if isinstance(size, int) else size
    taps = (kernel,) * len(place) if isinstance(kernel, int) else kernel
    pads = [apart * (k - 1) // 2 * padded for k in taps]
    return layer(
        "Conv", (1, channels, *place), _normal(filters, channels // group, *taps), _normal(filters),
        kernel_shape=taps, pads=pads + pads, strides=[stride] * len(place), group=group,
        dilations=[apart] * len(place),
    )  # fmt: skip


def _transposed(
    channels: int, filters: int, kernel: int, size: int, stride: int, pad: int = 0
) -> onnx.ModelProto:
    return layer(
        "ConvTranspose", (1, channels, size, size), _normal(channels, filters, kernel, kernel),
        kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4,
    )  # fmt: skip


def _convolutions() -> dict[str, Made]:
    p = partial
    return {
        "conv7x7_3_64_224_by2": p(_conv, 3, 64, 7, 224, stride=2),
        "conv3x3_3_32_224_by2": p(_conv, 3, 32, 3, 224, stride=2),
        "conv11x11_3_96_224_by4": p(_conv, 3, 96, 11, 224, stride=4),
        "conv4x4_3_96_224_by4": p(_conv, 3, 96, 4, 224, stride=4, padded=False),
        "conv16x16_3_192_224_by16": p(_conv, 3, 192, 16, 224, stride=16, padded=False),
        "conv5x5_1_64_224": p(_conv, 1, 64, 5, 224),
        "conv5x5_1_32_28": p(_conv, 1, 32, 5, 28),
        "conv3x3_64_64_56": p(_conv, 64, 64, 3, 56),
        "conv3x3_128_128_28": p(_conv, 128, 128, 3, 28),
        "conv3x3_256_256_14": p(_conv, 256, 256, 3, 14),
        "conv3x3_512_512_7": p(_conv, 512, 512, 3, 7),
        "conv3x3_64_128_56_by2": p(_conv, 64, 128, 3, 56, stride=2),
        "conv3x3_48_80_28": p(_conv, 48, 80, 3, 28),
        "conv5x5_32_64_28": p(_conv, 32, 64, 5, 28),
        "conv1x7_128_128_17": p(_conv, 128, 128, (1, 7), 17),
        "conv7x1_128_128_17": p(_conv, 128, 128, (7, 1), 17),
        "conv3x3_32_9_224": p(_conv, 32, 9, 3, 224),
        "conv9x9_64_3_128": p(_conv, 64, 3, 9, 128),
        "conv1x1_64_256_56": p(_conv, 64, 256, 1, 56),
        "conv1x1_256_64_56": p(_conv, 256, 64, 1, 56),
        "conv1x1_1024_256_14": p(_conv, 1024, 256, 1, 14),
        "conv1x1_512_2048_7": p(_conv, 512, 2048, 1, 7),
        "conv1x1_256_512_56_by2": p(_conv, 256, 512, 1, 56, stride=2),
        "conv1x1_128_255_80": p(_conv, 128, 255, 1, 80),
        "conv1x1_256_21_65": p(_conv, 256, 21, 1, 65),
        "conv1x1_32_1_64": p(_conv, 32, 1, 1, 64),
        "conv1x1_16_96_112": p(_conv, 16, 96, 1, 112),
        "depthwise3x3_96_112": p(_conv, 96, 96, 3, 112, group=96),
        "depthwise3x3_144_56_by2": p(_conv, 144, 144, 3, 56, stride=2, group=144),
        "depthwise3x3_576_14": p(_conv, 576, 576, 3, 14, group=576),
        "depthwise3x3_192_28_2apart": p(_conv, 192, 192, 3, 28, group=192, apart=2),
        "depthwise5x5_240_14": p(_conv, 240, 240, 5, 14, group=240),
        "depthwise7x7_96_56": p(_conv, 96, 96, 7, 56, group=96),
        "conv3x3_32groups_of_4_56": p(_conv, 128, 128, 3, 56, group=32),
        "conv3x3_32groups_of_1_to_2_56": p(_conv, 32, 64, 3, 56, group=32),
        "conv1x1_8groups_of_30_28": p(_conv, 240, 240, 1, 28, group=8),
        "conv3x3_256_256_33_12apart": p(_conv, 256, 256, 3, 33, apart=12),
        "conv3x3_2048_256_33_6apart": p(_conv, 2048, 256, 3, 33, apart=6),
        "conv10_1_512_16000_by5": p(_conv, 1, 512, 10, (16000,), stride=5, padded=False),
        "conv3_512_512_3199_by2": p(_conv, 512, 512, 3, (3199,), stride=2, padded=False),
        "conv3_80_384_3000": p(_conv, 80, 384, 3, (3000,)),
        "conv2_64_64_4000_8apart": p(_conv, 64, 64, 2, (4000,), apart=8, padded=False),
        "conv3x3x3_32_32_16x56x56": p(_conv, 32, 32, 3, (16, 56, 56)),
        "transposed2x2_64_32_56": p(_transposed, 64, 32, 2, 56, 2),
        "transposed4x4_512_256_8": p(_transposed, 512, 256, 4, 8, 2, 1),
        "transposed9x9_56_1_64_by4": p(_transposed, 56, 1, 9, 64, 4, 3),
    }


def _pool(kind: str, k: int, c: int, size: int, by: int, **more: Any) -> onnx.ModelProto:
    pads = [(k - 1) // 2] * 4
    return layer(kind, (1, c, size, size), kernel_shape=[k, k], strides=[by, by], pads=pads, **more)


def _resize(shape: Shape, scale: float, mode: str, **more: Any) -> onnx.ModelProto:
    scales = np.array([1, 1, scale, scale], np.float32)
    return layer("Resize", shape, None, scales, mode=mode, **more)


def _windows() -> dict[str, Made]:
    p = partial
    image = (1, 64, 40, 40)
    floor = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return {
        "MaxPool3_64_112_by2": p(_pool, "MaxPool", 3, 64, 112, 2),
        "MaxPool2_64_112_by2": p(_pool, "MaxPool", 2, 64, 112, 2),
        "MaxPool3_192_28_by1": p(_pool, "MaxPool", 3, 192, 28, 1),
        "MaxPool5_256_20_by1": p(_pool, "MaxPool", 5, 256, 20, 1),
        "AveragePool3_192_28_by1": p(_pool, "AveragePool", 3, 192, 28, 1),
        "AveragePool3_64_112_by2": p(_pool, "AveragePool", 3, 64, 112, 2),
        "AveragePool2_128_56_by2": p(_pool, "AveragePool", 2, 128, 56, 2),
        "GlobalAveragePool_2048_7": p(layer, "GlobalAveragePool", (1, 2048, 7, 7)),
        "GlobalAveragePool_96_56": p(layer, "GlobalAveragePool", (1, 96, 56, 56)),
        "GlobalMaxPool_512_14": p(layer, "GlobalMaxPool", (1, 512, 14, 14)),
        "Resize_nearest_by2_floor": p(_resize, image, 2, "nearest", **floor),
        "Resize_nearest_by2": p(_resize, image, 2, "nearest"),
        "Resize_linear_by2": p(_resize, image, 2, "linear"),
        "Resize_linear_by_7_16": p(_resize, (1, 3, 512, 512), 0.4375, "linear"),
        "Resize_cubic_by2": p(_resize, (1, 3, 128, 128), 2, "cubic"),
        "GridSample_16_64": p(layer, "GridSample", (1, 16, 64, 64), (1, 64, 64, 2)),
    }


_UNARY = (
    "Abs", "Atan", "Ceil", "Cos", "Elu", "Erf", "Exp", "Floor", "HardSigmoid", "HardSwish",
    "LeakyRelu", "Mish", "Neg", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin",
    "Softplus", "Softsign", "Tan", "Tanh",
)  # fmt: skip


def _after_abs(kind: str, *more: np.ndarray | Shape) -> onnx.ModelProto:
    """An operator of what is not negative."""
    net = _Layer()
    x = net.op("Abs", net.given(_ROWS))
    return net.ends(net.op(kind, x, *map(net.given, more)))


def _there_and_back(through: int) -> onnx.ModelProto:
    net = _Layer()
    there = net.op("Cast", net.given(_ROWS), to=through)
    return net.ends(net.op("Cast", there, to=1))


def _elementwise() -> dict[str, Made]:
    p = partial
    whole = (_ROWS, "int64")
    flags = (_ROWS, "bool")
    bound = np.float32(0), np.float32(6)
    return {
        **{kind: p(layer, kind, _ROWS) for kind in _UNARY},
        "Gelu": p(layer, "Gelu", _ROWS, opset=20),
        "Gelu_tanh": p(layer, "Gelu", _ROWS, opset=20, approximate="tanh"),
        "Log": p(_after_abs, "Log"),
        "Sqrt": p(_after_abs, "Sqrt"),
        "Pow_075": p(_after_abs, "Pow", np.array(0.75, np.float32)),
        "Pow_2": p(_after_abs, "Pow", np.array(2, np.float32)),
        "Pow_two": p(_after_abs, "Pow", _ROWS),
        "Clip": p(layer, "Clip", _ROWS, *map(np.array, bound)),
        "PRelu": p(layer, "PRelu", (1, 64, 56, 56), _normal(64, 1, 1)),
        "Add": p(layer, "Add", _ROWS, _ROWS),
        "Add_row": p(layer, "Add", _ROWS, _normal(3072)),
        "Add_column": p(layer, "Add", _ROWS, (128, 1)),
        "Add_channels": p(layer, "Add", (1, 256, 28, 28), _normal(256, 1, 1)),
        "Mul_scalar": p(layer, "Mul", _ROWS, np.array(0.5, np.float32)),
        "Div": p(layer, "Div", _ROWS, _ROWS),
        "Max": p(layer, "Max", _ROWS, _ROWS),
        "Where": p(layer, "Where", flags, _ROWS, _ROWS),
        "Less": p(layer, "Less", _ROWS, _ROWS),
        "Equal_i64": p(layer, "Equal", whole, whole),
        "And": p(layer, "And", flags, flags),
        "Add_i64": p(layer, "Add", whole, whole),
        "Mod_i64": p(layer, "Mod", whole, _ints(7)),
        "Div_i64": p(layer, "Div", whole, _ints(7)),
        "Cast_to_i32": p(layer, "Cast", _ROWS, to=6),
        "Cast_to_f16_and_back": p(_there_and_back, 10),
        "Cast_to_bf16_and_back": p(_there_and_back, 16),
        "Cast_of_u8": p(layer, "Cast", (_ROWS, "uint8"), to=1),
    }


def _along_axes() -> dict[str, Made]:
    p = partial
    image, picture = (1, 64, 56, 56), (1, 192, 56, 56)
    two = _normal(64), _normal(64)
    scores = (12, 384, 384)
    return {
        "ReduceMean_last": p(layer, "ReduceMean", _ROWS, _ints(1)),
        "ReduceSum_first": p(layer, "ReduceSum", (3072, 128), _ints(0)),
        "ReduceMax_middle": p(layer, "ReduceMax", (16, 256, 128), _ints(1)),
        "ReduceL2_last": p(layer, "ReduceL2", _ROWS, _ints(1)),
        "ReduceMean_places": p(layer, "ReduceMean", (1, 256, 28, 28), _ints(2, 3)),
        "ReduceMin_all": p(layer, "ReduceMin", _ROWS),
        "ReduceProd_last": p(layer, "ReduceProd", _ROWS, _ints(1)),
        "ArgMax_last": p(layer, "ArgMax", (64, 1000), axis=1),
        "ArgMax_channels": p(layer, "ArgMax", (1, 21, 65, 65), axis=1),
        "CumSum_last": p(layer, "CumSum", (128, 384), np.array(1, np.int64)),
        "TopK_10_of_1000": p(layer, "TopK", (64, 1000), _ints(10), results=2),
        "TopK_300_of_8400": p(layer, "TopK", (1, 8400), _ints(300), results=2),
        "Softmax_384": p(layer, "Softmax", scores),
        "Softmax_1500": p(layer, "Softmax", (100, 1500)),
        "Softmax_1000": p(layer, "Softmax", (1, 1000)),
        "Softmax_channels": p(layer, "Softmax", (1, 21, 65, 65), axis=1),
        "LogSoftmax_1000": p(layer, "LogSoftmax", (64, 1000)),
        "LayerNormalization_768": p(layer, "LayerNormalization", (128, 768), *[_normal(768)] * 2),
        "LayerNormalization_192": p(layer, "LayerNormalization", (197, 192), *[_normal(192)] * 2),
        "BatchNormalization_64_56": p(
            layer, "BatchNormalization", image, *two, two[0], np.abs(two[1])
        ),
        "InstanceNormalization_64_56": p(layer, "InstanceNormalization", image, *two),
        "LRN_64_56": p(layer, "LRN", image, size=5),
        "LRN_192_56": p(layer, "LRN", picture, size=5),
        "LpNormalization_128": p(layer, "LpNormalization", (64, 128)),
    }


def _gather() -> onnx.ModelProto:
    """128 rows of a vocabulary's embeddings."""
    return layer("Gather", _normal(30522, 384), ((128,), "int64"))


def _moves() -> dict[str, Made]:
    p = partial
    image, heads = (1, 64, 56, 56), (1, 384, 12, 64)
    wide = _ints(0, 0, 1, 1, 0, 0, 1, 1)
    places = np.random.default_rng(0).integers(0, 128, (128, 384))
    return {
        "Transpose_512_768": p(layer, "Transpose", (512, 768), perm=[1, 0]),
        "Transpose_to_channels_last": p(layer, "Transpose", image, perm=[0, 2, 3, 1]),
        "Transpose_to_channels_first": p(layer, "Transpose", (1, 56, 56, 64), perm=[0, 3, 1, 2]),
        "Transpose_heads": p(layer, "Transpose", heads, perm=[0, 2, 1, 3]),
        "Transpose_keys": p(layer, "Transpose", heads, perm=[0, 2, 3, 1]),
        "Concat_channels": p(layer, "Concat", image, image, axis=1),
        "Concat_last": p(layer, "Concat", (128, 384), (128, 384), axis=1),
        "Split_last": p(layer, "Split", (128, 2304), results=3, axis=1, num_outputs=3),
        "Slice_rows": p(layer, "Slice", _ROWS, _ints(8), _ints(120), _ints(0)),
        "Slice_by2": p(layer, "Slice", image, _ints(0), _ints(56), _ints(3), _ints(2)),
        "Pad_constant": p(layer, "Pad", image, wide),
        "Pad_reflect": p(layer, "Pad", image, wide, mode="reflect"),
        "Gather_rows_fed": _gather,
        "GatherElements_128_384": p(layer, "GatherElements", (128, 384), places, axis=0),
        "GatherND_128": p(layer, "GatherND", (128, 384), ((128, 1), "int64")),
        "ScatterElements_128_384": p(
            layer, "ScatterElements", (128, 384), places, (128, 384), axis=0
        ),
        "ScatterND_128": p(
            layer, "ScatterND", (128, 384), _ints(*range(64)).reshape(64, 1), (64, 384)
        ),
        "Expand_rows": p(layer, "Expand", (1, 3072), _ints(128, 3072)),
        "Tile_2": p(layer, "Tile", (1, 64, 28, 28), _ints(1, 1, 2, 2)),
        "DepthToSpace_2": p(layer, "DepthToSpace", (1, 64, 56, 56), blocksize=2),
        "SpaceToDepth_2": p(layer, "SpaceToDepth", (1, 3, 640, 640), blocksize=2),
        "Trilu": p(layer, "Trilu", (12, 128, 128)),
        "OneHot_1000": p(
            layer, "OneHot", ((128,), "int64"), _ints(1000), np.array([0, 1], np.float32)
        ),
        "Compress_rows": p(layer, "Compress", _ROWS, ((128,), "bool"), axis=0),
        "NonZero_128_384": p(layer, "NonZero", ((128, 384), "int64")),
    }


def _linear(rows: int, terms: int, columns: int) -> onnx.ModelProto:
    net = _Layer()
    y = net.op("MatMul", net.given((rows, terms)), net.given(_normal(columns, terms).T.copy()))
    return net.ends(net.op("Add", y, net.given(_normal(columns))))


def _attention(rows: int, keys: int, heads: int, width: int = 64) -> onnx.ModelProto:
    """Softmax(Q K^T / sqrt(width)) V; K is fed transposed."""
    net = _Layer()
    q, k, v = (net.given((1, heads, *s)) for s in ((rows, width), (width, keys), (keys, width)))
    scale = net.given(np.array(width**-0.5, np.float32))
    scores = net.op("Mul", net.op("MatMul", q, k), scale)
    return net.ends(net.op("MatMul", net.op("Softmax", scores), v))


def _products() -> dict[str, Made]:
    p = partial
    byte = np.random.default_rng(0).integers(-100, 100, (768, 768)).astype(np.int8)
    scale, zero = np.array(0.02, np.float32), np.array(3, np.uint8)
    sizes = (
        (1, 768, 768), (1, 1024, 1000), (1, 4096, 4096), (8, 512, 512), (64, 256, 512),
        (128, 384, 1536), (128, 768, 3072), (197, 192, 768), (384, 1536, 384), (1024, 64, 64),
    )  # fmt: skip
    double = ((256, 256), "float64")
    return {
        **{f"linear_{r}_{t}_{c}": p(_linear, r, t, c) for r, t, c in sizes},
        "MatMul_12x384_64_384": p(layer, "MatMul", (12, 384, 64), (12, 64, 384)),
        "MatMul_8x128_128_64": p(layer, "MatMul", (8, 128, 128), (8, 128, 64)),
        "MatMul_f64": p(layer, "MatMul", double, double),
        "MatMul_f16": p(layer, "MatMul", *[((256, 256), "float16")] * 2),
        "MatMulInteger_128": p(layer, "MatMulInteger", ((128, 768), "uint8"), byte, zero),
        "Gemm_transposed_128": p(
            layer, "Gemm", (128, 768), _normal(768, 768), _normal(768), transB=1
        ),
        "Einsum_128": p(
            layer, "Einsum", (1, 128, 12, 64), (1, 128, 12, 64), equation="bqhd,bkhd->bhqk"
        ),
        "QuantizeLinear": p(layer, "QuantizeLinear", _ROWS, scale, zero),
        "DequantizeLinear": p(layer, "DequantizeLinear", (_ROWS, "uint8"), scale, zero),
        "DynamicQuantizeLinear": p(layer, "DynamicQuantizeLinear", (128, 768), results=3),
        "attention_384_by_12": p(_attention, 384, 384, 12),
        "attention_1024_by_8": p(_attention, 1024, 1024, 8),
        "attention_1_over_1024": p(_attention, 1, 1024, 12),
    }


def _recurrent(kind: str, gates: int, steps: int, rows: int, size: int) -> onnx.ModelProto:
    weights = _normal(1, gates * size, size), _normal(1, gates * size, size)
    return layer(kind, (steps, rows, size), *weights, hidden_size=size, results=2)


def _regions() -> onnx.ModelProto:
    """64 regions of several sizes, in a picture of 50 x 50 cells of 16."""
    corners = np.array([[16, 16, 200, 120]]) * np.linspace(1, 3, 64)[:, None]
    return layer(
        "RoiAlign", (1, 256, 50, 50), corners.astype(np.float32), np.zeros(64, np.int64),
        output_height=7, output_width=7, sampling_ratio=2, spatial_scale=0.0625,
    )  # fmt: skip


def _others() -> dict[str, Made]:
    p = partial
    most, least = np.array(0.5, np.float32), np.array(0.01, np.float32)  # overlap, score
    found = (1, 8400, 4), (1, 1, 8400), _ints(100), most, least
    return {
        "LSTM_100_1_128": p(_recurrent, "LSTM", 4, 100, 1, 128),
        "LSTM_32_16_256": p(_recurrent, "LSTM", 4, 32, 16, 256),
        "GRU_100_1_256": p(_recurrent, "GRU", 3, 100, 1, 256),
        "RNN_100_1_256": p(_recurrent, "RNN", 1, 100, 1, 256),
        "NonMaxSuppression_8400": p(layer, "NonMaxSuppression", *found),
        "RoiAlign_64": _regions,
    }
