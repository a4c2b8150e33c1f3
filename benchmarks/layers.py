"""Single layers as models have them, each a model of its own with channels as ONNX has them, so
that what a layer pays for another layout is in it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import onnx

from benchmarks.layer import Layer, Made, Shape, ints, layer, normal
from benchmarks.layer_convolutions import convolutions

_ROWS = (128, 3072)  # of elementwise operators


def layers() -> dict[str, Made]:
    """name -> what makes the model."""
    parts = (convolutions, _windows, _elementwise, _along_axes, _moves, _products, _others)
    return {name: made for part in parts for name, made in part().items()}


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
        "GridSample_64_64": p(layer, "GridSample", (1, 64, 64, 64), (1, 64, 64, 2)),
        "DeformConv_64_28": p(
            layer,
            "DeformConv",
            (1, 64, 28, 28),
            normal(64, 64, 3, 3),
            (1, 18, 28, 28),
            opset=19,
            pads=[1] * 4,
        ),
    }


_UNARY = (
    "Abs", "Atan", "Ceil", "Cos", "Elu", "Erf", "Exp", "Floor", "HardSigmoid", "HardSwish",
    "LeakyRelu", "Mish", "Neg", "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin",
    "Softplus", "Softsign", "Tan", "Tanh",
)  # fmt: skip


def _after_abs(kind: str, *more: np.ndarray | Shape) -> onnx.ModelProto:
    """An operator of what is not negative."""
    net = Layer()
    x = net.op("Abs", net.given(_ROWS))
    return net.ends(net.op(kind, x, *map(net.given, more)))


def _there_and_back(through: int) -> onnx.ModelProto:
    net = Layer()
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
        "PRelu": p(layer, "PRelu", (1, 64, 56, 56), normal(64, 1, 1)),
        "Add": p(layer, "Add", _ROWS, _ROWS),
        "Add_row": p(layer, "Add", _ROWS, normal(3072)),
        "Add_column": p(layer, "Add", _ROWS, (128, 1)),
        "Add_channels": p(layer, "Add", (1, 256, 28, 28), normal(256, 1, 1)),
        "Mul_scalar": p(layer, "Mul", _ROWS, np.array(0.5, np.float32)),
        "Div": p(layer, "Div", _ROWS, _ROWS),
        "Max": p(layer, "Max", _ROWS, _ROWS),
        "Where": p(layer, "Where", flags, _ROWS, _ROWS),
        "Less": p(layer, "Less", _ROWS, _ROWS),
        "Equal_i64": p(layer, "Equal", whole, whole),
        "And": p(layer, "And", flags, flags),
        "Add_i64": p(layer, "Add", whole, whole),
        "Mod_i64": p(layer, "Mod", whole, ints(7)),
        "Div_i64": p(layer, "Div", whole, ints(7)),
        "Cast_to_i32": p(layer, "Cast", _ROWS, to=6),
        "Cast_to_f16_and_back": p(_there_and_back, 10),
        "Cast_to_bf16_and_back": p(_there_and_back, 16),
        "Cast_of_u8": p(layer, "Cast", (_ROWS, "uint8"), to=1),
    }


def _along_axes() -> dict[str, Made]:
    p = partial
    image, picture = (1, 64, 56, 56), (1, 192, 56, 56)
    two = normal(64), normal(64)
    scores = (12, 384, 384)
    return {
        "ReduceMean_last": p(layer, "ReduceMean", _ROWS, ints(1)),
        "ReduceSum_first": p(layer, "ReduceSum", (3072, 128), ints(0)),
        "ReduceMax_middle": p(layer, "ReduceMax", (16, 256, 128), ints(1)),
        "ReduceL2_last": p(layer, "ReduceL2", _ROWS, ints(1)),
        "ReduceMean_places": p(layer, "ReduceMean", (1, 256, 28, 28), ints(2, 3)),
        "ReduceMin_all": p(layer, "ReduceMin", _ROWS),
        "ReduceProd_last": p(layer, "ReduceProd", _ROWS, ints(1)),
        "ArgMax_last": p(layer, "ArgMax", (64, 1000), axis=1),
        "ArgMax_channels": p(layer, "ArgMax", (1, 21, 65, 65), axis=1),
        "CumSum_last": p(layer, "CumSum", (128, 384), np.array(1, np.int64)),
        "TopK_10_of_1000": p(layer, "TopK", (64, 1000), ints(10), results=2),
        "TopK_300_of_8400": p(layer, "TopK", (1, 8400), ints(300), results=2),
        "Softmax_384": p(layer, "Softmax", scores),
        "Softmax_1500": p(layer, "Softmax", (100, 1500)),
        "Softmax_1000": p(layer, "Softmax", (1, 1000)),
        "Softmax_channels": p(layer, "Softmax", (1, 21, 65, 65), axis=1),
        "LogSoftmax_1000": p(layer, "LogSoftmax", (64, 1000)),
        "LayerNormalization_768": p(layer, "LayerNormalization", (128, 768), *[normal(768)] * 2),
        "LayerNormalization_192": p(layer, "LayerNormalization", (197, 192), *[normal(192)] * 2),
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
    return layer("Gather", normal(30522, 384), ((128,), "int64"))


def _moves() -> dict[str, Made]:
    p = partial
    image, heads = (1, 64, 56, 56), (1, 384, 12, 64)
    wide = ints(0, 0, 1, 1, 0, 0, 1, 1)
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
        "Slice_rows": p(layer, "Slice", _ROWS, ints(8), ints(120), ints(0)),
        "Slice_by2": p(layer, "Slice", image, ints(0), ints(56), ints(3), ints(2)),
        "Pad_constant": p(layer, "Pad", image, wide),
        "Pad_reflect": p(layer, "Pad", image, wide, mode="reflect"),
        "Gather_rows_fed": _gather,
        "GatherElements_128_384": p(layer, "GatherElements", (128, 384), places, axis=0),
        "GatherND_128": p(layer, "GatherND", (128, 384), ((128, 1), "int64")),
        "ScatterElements_128_384": p(
            layer, "ScatterElements", (128, 384), places, (128, 384), axis=0
        ),
        "ScatterND_128": p(
            layer, "ScatterND", (128, 384), ints(*range(64)).reshape(64, 1), (64, 384)
        ),
        "Expand_rows": p(layer, "Expand", (1, 3072), ints(128, 3072)),
        "Tile_2": p(layer, "Tile", (1, 64, 28, 28), ints(1, 1, 2, 2)),
        "DepthToSpace_2": p(layer, "DepthToSpace", (1, 64, 56, 56), blocksize=2),
        "SpaceToDepth_2": p(layer, "SpaceToDepth", (1, 3, 640, 640), blocksize=2),
        "Trilu": p(layer, "Trilu", (12, 128, 128)),
        "OneHot_1000": p(
            layer, "OneHot", ((128,), "int64"), ints(1000), np.array([0, 1], np.float32)
        ),
        "Compress_rows": p(layer, "Compress", _ROWS, ((128,), "bool"), axis=0),
        "NonZero_128_384": p(layer, "NonZero", ((128, 384), "int64")),
    }


def _linear(rows: int, terms: int, columns: int) -> onnx.ModelProto:
    net = Layer()
    y = net.op("MatMul", net.given((rows, terms)), net.given(normal(columns, terms).T.copy()))
    return net.ends(net.op("Add", y, net.given(normal(columns))))


def _attention(rows: int, keys: int, heads: int, width: int = 64) -> onnx.ModelProto:
    """Softmax(Q K^T / sqrt(width)) V; K is fed transposed."""
    net = Layer()
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
            layer, "Gemm", (128, 768), normal(768, 768), normal(768), transB=1
        ),
        "Einsum_128": p(
            layer, "Einsum", (1, 128, 12, 64), (1, 128, 12, 64), equation="bqhd,bkhd->bhqk"
        ),
        "QuantizeLinear": p(layer, "QuantizeLinear", _ROWS, scale, zero),
        "DequantizeLinear": p(layer, "DequantizeLinear", (_ROWS, "uint8"), scale, zero),
        "DynamicQuantizeLinear": p(layer, "DynamicQuantizeLinear", (128, 768), results=3),
        "QAttention_128_by_12": _quantised_attention,
        "RotaryEmbedding_halves": p(_rotary, 0),
        "RotaryEmbedding_pairs": p(_rotary, 1),
        "attention_384_by_12": p(_attention, 384, 384, 12),
        "attention_1024_by_8": p(_attention, 1024, 1024, 8),
        "attention_1_over_1024": p(_attention, 1, 1024, 12),
    }


def _rotary(interleaved: int) -> onnx.ModelProto:
    """32 heads of 64 elements at 128 places."""
    angles = np.outer(np.arange(128), 1e4 ** -(np.arange(32) / 32))[None]
    caches = (f(angles).astype(np.float32) for f in (np.cos, np.sin))
    return layer(
        "RotaryEmbedding", (1, 128, 2048), *caches, opset=23, num_heads=32, interleaved=interleaved
    )  # fmt: skip


def _quantised_attention() -> onnx.ModelProto:
    """As onnxruntime quantises an attention of 12 heads."""
    weights = np.random.default_rng(0).integers(-60, 60, (768, 2304)).astype(np.int8)
    steps = (np.array(x, np.float32) for x in (0.02, 0.01))
    return layer(
        "QAttention", ((1, 128, 768), "uint8"), weights, normal(2304), *steps, None,
        np.array(128, np.uint8), np.array(0, np.int8), num_heads=12, domain="com.microsoft",
        shape=(1, 128, 768),
    )  # fmt: skip


def _recurrent(kind: str, gates: int, steps: int, rows: int, size: int) -> onnx.ModelProto:
    weights = normal(1, gates * size, size), normal(1, gates * size, size)
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
    found = (1, 8400, 4), (1, 1, 8400), ints(100), most, least
    return {
        "LSTM_100_1_128": p(_recurrent, "LSTM", 4, 100, 1, 128),
        "LSTM_32_16_256": p(_recurrent, "LSTM", 4, 32, 16, 256),
        "GRU_100_1_256": p(_recurrent, "GRU", 3, 100, 1, 256),
        "RNN_100_1_256": p(_recurrent, "RNN", 1, 100, 1, 256),
        "NonMaxSuppression_8400": p(layer, "NonMaxSuppression", *found),
        "RoiAlign_64": _regions,
    }
