"""Operations of com.microsoft for tests: products, norms and quantised ones; what a case is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import NodeProto, helper

from sardonyx.types import Array

DOMAIN = "com.microsoft"
OPSETS = {"": 16, DOMAIN: 1}
RANDOM = np.random.default_rng(3)
TOLERANCE = {"exact": 0.0, "rounding": 2e-5, "approximate": 2e-5}


@dataclass(frozen=True)
class Case:
    """One operation; `steps` allows quantised results to be apart by that many."""

    op: str
    feeds: Sequence[Array | None]
    outputs: int = 1
    steps: int = 0
    domain: str = DOMAIN
    tolerance: float | None = None
    compared: Sequence[int] | None = None
    attributes: dict[str, Any] = field(default_factory=dict)

    def node(self, prefix: str = "") -> NodeProto:
        names = [f"{prefix}x{i}" if x is not None else "" for i, x in enumerate(self.feeds)]
        results = [f"{prefix}y{i}" for i in range(self.outputs)]
        return helper.make_node(
            self.op, names, results, prefix, domain=self.domain, **self.attributes
        )

    def named(self, prefix: str = "") -> dict[str, Array]:
        return {f"{prefix}x{i}": x for i, x in enumerate(self.feeds) if x is not None}


def normal(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


def byte(dtype: Any, *shape: int) -> Array:
    info = np.iinfo(dtype)
    return RANDOM.integers(info.min, info.max + 1, shape).astype(dtype)


def weights(*shape: int) -> Array:
    """int8 weights of 7 bits: on a CPU without VNNI onnxruntime's sums of pairs of uint8 * int8
    saturate at 16 bits with larger ones."""
    return RANDOM.integers(-64, 64, shape).astype(np.int8)


def f(x: float) -> Array:
    return np.array(x, np.float32)


def u8(x: int) -> Array:
    return np.array(x, np.uint8)


def i8(x: int) -> Array:
    return np.array(x, np.int8)


def make(op: str, *feeds: Any, **rest: Any) -> Case:
    own = {
        n: rest.pop(n) for n in ("outputs", "steps", "domain", "tolerance", "compared") if n in rest
    }
    return Case(op, feeds, attributes=rest, **own)


B, S, NH, H, P = 2, 5, 2, 4, 3
HID = NH * H
Q, K, V = normal(B, S, HID), normal(B, S, HID), normal(B, S, HID)
W, BIAS = normal(6, 3 * HID), normal(3 * HID)
INPUT = normal(B, S, 6)
PAST = normal(2, B, NH, P, H)
COS, SIN = np.cos(normal(16, H // 2)), np.sin(normal(16, H // 2))


def product_cases() -> list[Case]:
    a, b = normal(2, 3, 4), normal(2, 4, 5)
    packed, scale = byte(np.uint8, 6, 2, 16), np.abs(normal(12)) * np.float32(0.1)
    x = normal(2, 3, 64)
    n = {"K": 64, "N": 6, "block_size": 32}
    ints = byte(np.uint8, 3, 8), weights(8, 5)
    columns = np.abs(normal(5)) * np.float32(0.01)
    return [
        make("FusedMatMul", a, b, alpha=0.5),
        make("FusedMatMul", normal(2, 4, 3), b, transA=1),
        make("FusedMatMul", a, normal(2, 5, 4), transB=1, alpha=2.0),
        make("FusedMatMul", normal(3, 2, 4), b, transBatchA=1),
        make(
            "FusedMatMul",
            normal(4, 2, 3),
            normal(5, 2, 4),
            transA=1,
            transB=1,
            transBatchA=1,
            transBatchB=1,
        ),
        make("TransposeMatMul", a, normal(2, 5, 4), transB=1),
        make("MatMulNBits", x, packed, scale, **n),
        make("MatMulNBits", x, packed, scale, byte(np.uint8, 6), None, normal(6), **n),
        make("MatMulNBits", x, packed, scale, normal(12), **n),
        make("MatMulNBits", x, packed, scale, None, np.arange(64, dtype=np.int32) % 2, **n),
        make("MatMulNBits", x, packed, scale, normal(12), np.arange(64, dtype=np.int32) % 2, **n),
        make("MatMulNBits", x, byte(np.uint8, 6, 2, 32), scale, bits=8, **n),
        make("MatMulNBits", normal(3, 50), packed, scale, byte(np.uint8, 6), **{**n, "K": 50}),
        make("MatMulNBits", x, byte(np.uint8, 6, 2, 8), scale, byte(np.uint8, 6), bits=2, **n),
        make("DynamicQuantizeMatMul", normal(3, 8), ints[1], f(0.02), i8(3), normal(5)),
        make("DynamicQuantizeMatMul", normal(2, 3, 8), ints[1], columns),
        make("MatMulIntegerToFloat", *ints, f(0.03), columns, u8(7), byte(np.int8, 5), normal(5)),
        make("MatMulIntegerToFloat", *ints, f(0.03), f(0.2)),
        make(
            "QGemm",
            ints[0],
            f(0.03),
            u8(9),
            ints[1],
            columns,
            byte(np.int8, 5),
            byte(np.int32, 5) // 60000,
            f(0.2),
            u8(100),
        ),
        make(
            "QGemm",
            ints[0],
            f(0.03),
            u8(9),
            ints[1].T.copy(),
            f(0.02),
            i8(3),
            None,
            f(0.2),
            u8(100),
            transB=1,
            alpha=0.5,
        ),
        make("QGemm", ints[0], f(0.03), u8(9), ints[1], f(0.02), i8(3)),
        make(
            "FusedGemm",
            normal(3, 4),
            normal(4, 5),
            normal(5),
            activation="LeakyRelu",
            activation_alpha=0.2,
        ),
        make(
            "FusedConv",
            normal(1, 3, 6, 6),
            normal(4, 3, 3, 3),
            normal(4),
            activation="Relu",
            pads=[1] * 4,
        ),
        make(
            "FusedConv",
            normal(1, 3, 6, 6),
            normal(4, 3, 3, 3),
            None,
            normal(1, 4, 4, 4),
            activation="Relu",
        ),
        make(
            "FusedConv",
            normal(1, 3, 6, 6),
            normal(4, 3, 3, 3),
            activation="HardSigmoid",
            activation_params=[0.2, 0.5],
        ),
        make(
            "FusedConv",
            normal(1, 3, 6, 6),
            normal(4, 3, 3, 3),
            activation="Clip",
            activation_params=[-0.5, 1.5],
        ),
    ]


def norm_cases() -> list[Case]:
    x, skip, g, b = normal(2, 3, 8), normal(2, 3, 8), normal(8), normal(8)
    ids, kinds = (
        np.array([[1, 2, 0], [3, 4, 5]], np.int32),
        np.array([[0, 1, 1], [0, 0, 1]], np.int32),
    )
    word, place, kind = normal(6, 8), normal(4, 8), normal(2, 8)
    mask = np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    tables = [byte(np.uint8, *n) for n in ((6, 8), (4, 8), (2, 8), (8,), (8,))]
    scales, zeros = [f(0.01 * n) for n in range(1, 6)], [u8(n) for n in (120, 3, 99, 0, 128)]
    whole = (ids, kinds, *tables, mask, *scales, *zeros)
    without = (ids, None, *tables[:2], None, *tables[3:], None, *scales[:2], None, *scales[3:])
    pos = np.array([[2, 1, 0]], np.int32)
    return [
        make("SkipLayerNormalization", x, skip, g, b, normal(8), outputs=4, compared=(0, 3)),
        make("SkipLayerNormalization", x, skip[:1], g, epsilon=1e-3),
        make("SkipLayerNormalization", x, skip[0], g, b),
        make("SimplifiedLayerNormalization", x, g, domain="", outputs=2),
        make("LayerNormalization", x, g, b, domain="", outputs=3),
        make("SkipSimplifiedLayerNormalization", x, skip, g, b, outputs=4, compared=(0, 3)),
        make("QEmbedLayerNormalization", *whole, outputs=2),
        make("QEmbedLayerNormalization", *without, *zeros[:2], None, *zeros[3:], outputs=2),
        make("EmbedLayerNormalization", ids, kinds, word, place, kind, g, b, mask, outputs=2),
        make(
            "EmbedLayerNormalization",
            ids,
            None,
            word,
            place,
            None,
            g,
            b,
            None,
            pos,
            outputs=3,
            mask_index_type=0,
        ),
    ]


def quantised_cases() -> list[Case]:
    a, b = byte(np.uint8, 2, 3, 4), byte(np.uint8, 3, 1)
    x, y = byte(np.int8, 2, 3, 4), byte(np.int8, 2, 3, 4)
    image = byte(np.uint8, 1, 3, 7, 7)
    last = byte(np.uint8, 1, 7, 7, 3)
    conv = (
        byte(np.uint8, 1, 3, 7, 7),
        f(0.02),
        u8(110),
        weights(4, 3, 3, 3),
        f(0.01),
        i8(0),
        f(0.2),
        u8(120),
    )
    pool = {"kernel_shape": [3, 3], "strides": [2, 2]}
    past = {"kernel_shape": [3, 3], "strides": [3, 3], "ceil_mode": 1}  # windows past the input
    scales = f(0.0311), u8(120), f(0.0217), u8(60)
    return [
        make("QLinearAdd", a, f(0.03), u8(120), b, f(0.05), u8(3), f(0.1), u8(60), steps=1),
        make("QLinearAdd", x, f(0.03), i8(1), y, f(0.05), i8(3), f(0.04), i8(-6), steps=1),
        make("QLinearMul", a, f(0.03), u8(120), b, f(0.05), u8(3), f(0.2), u8(60), steps=1),
        make("QLinearSigmoid", x, f(0.05), i8(1), f(1 / 256), i8(-128), steps=1),
        make("QLinearLeakyRelu", x, f(0.05), i8(1), f(0.04), i8(3), alpha=0.1, steps=1),
        make("QLinearSoftmax", a, f(0.03), u8(120), f(1 / 256), u8(0), axis=-1, opset=13, steps=1),
        make("QLinearSoftmax", x, f(0.03), i8(0), f(1 / 256), i8(-128), axis=1, opset=12, steps=1),
        make(
            "QLinearConcat",
            f(0.05),
            u8(10),
            a,
            f(0.03),
            u8(120),
            a,
            f(0.05),
            u8(10),
            axis=1,
            steps=1,
        ),
        make(
            "QLinearWhere", a > 100, a, f(0.03), u8(120), a, f(0.05), u8(3), f(0.1), u8(60), steps=1
        ),
        make("QLinearGlobalAveragePool", image, f(0.03), u8(120), f(0.02), u8(60), steps=1),
        make(
            "QLinearGlobalAveragePool",
            last,
            f(0.03),
            u8(120),
            f(0.02),
            u8(60),
            channels_last=1,
            steps=1,
        ),
        make(
            "QLinearAveragePool",
            image,
            f(0.0311),
            u8(120),
            f(0.0217),
            u8(60),
            pads=[1] * 4,
            steps=1,
            **pool,
        ),
        make(
            "QLinearAveragePool",
            image,
            f(0.0311),
            u8(120),
            f(0.0217),
            u8(60),
            pads=[1] * 4,
            count_include_pad=1,
            steps=1,
            **pool,
        ),
        make(
            "QLinearAveragePool",
            last,
            f(0.0311),
            u8(120),
            f(0.0217),
            u8(60),
            channels_last=1,
            steps=1,
            **pool,
        ),
        make("QLinearAveragePool", image, *scales, steps=1, **past),
        make("QLinearAveragePool", image, *scales, count_include_pad=1, steps=1, **past),
        make(
            "QLinearAveragePool",
            last,
            *scales,
            channels_last=1,
            count_include_pad=1,
            steps=1,
            **past,
        ),
        make("NhwcMaxPool", last, pads=[1] * 4, **pool),
        make("NhwcMaxPool", byte(np.int8, 1, 7, 7, 3), **pool),
        make("QLinearConv", *conv, pads=[1] * 4),
        make("QLinearConv", last, *conv[1:], channels_last=1),
        make("QuantizeLinear", normal(3, 4), np.abs(normal(4)), byte(np.int8, 4), axis=1),
        make(
            "DequantizeLinear", byte(np.uint8, 3, 4), np.abs(normal(3)), byte(np.uint8, 3), axis=0
        ),
    ]


def other_cases() -> list[Case]:
    x, square = normal(2, 3, 8), normal(2, 4, 4)
    data, wide, zeros = byte(np.uint8, 6, 16), byte(np.uint8, 6, 32), byte(np.uint8, 6, 1)
    rows, steps = np.array([[1, 5], [0, 3]], np.int64), np.abs(normal(6, 2))
    ids, long = np.array([[0, 1, 2, 3, 4]] * 2, np.int64), normal(B, S, NH * H)
    return [
        make("Gelu", x),
        make("BiasGelu", x, normal(8)),
        make("FastGelu", x),
        make("FastGelu", x, normal(8)),
        make("QuickGelu", x, alpha=1.5),
        make("Inverse", square, tolerance=1e-4),
        make("Trilu", square, np.array(1, np.int64), upper=0),
        make("CDist", normal(5, 4), normal(3, 4), metric="euclidean"),
        make("CDist", normal(5, 4), normal(3, 4)),
        make("Range", f(1.5), f(4.0)),
        make("Range", f(1.0), f(4.0), f(0.7)),
        make("MatMulInteger16", byte(np.int16, 3, 4) // 99, byte(np.int16, 4, 5) // 99),
        make("GatherBlockQuantized", data, rows, steps, block_size=16, bits=4),
        make("GatherBlockQuantized", data, rows, steps, zeros, block_size=16, bits=4),
        make("GatherBlockQuantized", wide, rows, steps, block_size=16, bits=8),
        make("ExpandDims", x, np.array(1, np.int32)),
        make("GatherND", x, np.array([[0, 1], [1, 2]], np.int64)),
        make("RotaryEmbedding", normal(B, NH, S, H), ids, COS, SIN),
        make("RotaryEmbedding", long, ids, COS, SIN, interleaved=1),
        make("RotaryEmbedding", long, np.array([2], np.int64), COS, SIN),
        make(
            "RotaryEmbedding",
            normal(B, S, NH * 8),
            ids,
            COS,
            SIN,
            num_heads=NH,
            rotary_embedding_dim=4,
        ),
    ]
