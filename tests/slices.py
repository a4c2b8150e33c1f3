"""The graphs that every target must compute alike: a convolutional network, a transformer block,
and single operations at the values where arithmetic goes wrong first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import seeded
from kernels import edges
from nets import Net
from slices_networks import (
    convolutional,
    half_rows,
    half_tables,
    halves,
    ints,
    pieces,
    tiles,
    transformer,
    weights,
)

from sardonyx import types as t
from sardonyx.graph import Graph
from sardonyx.types import Array, DType

FAR = 1 << 62  # Slice: to the end
NUMBERS = tuple(d for d in t.DTYPES if d.kind != "c")
PLAIN = tuple(d for d in NUMBERS if d.bits == 16 or not d.is_storage)


# Single operations at the edges.

UNARY = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Elu", "Erf",
    "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish", "Neg",
    "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus",
    "Softsign", "Sqrt", "Tan", "Tanh", "IsNaN", "IsInf",
)  # fmt: skip
BINARY = ("Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "Less", "Equal")
FUNCTIONS = ("Exp", "Log", "Tanh", "Erf", "Sin", "Sqrt", "Reciprocal", "Round")


def edge_floats(net: Net) -> None:
    """float32 at NaNs, infinities, signed zeros, subnormals and ties."""
    values = np.concatenate([edges(t.float32), seeded.bit_patterns("float32", t.float32, 600)])
    x = net.feed("floats", values)
    net.give(*(net.op(name, x) for name in UNARY))
    y = net.feed("others", np.concatenate([edges(t.float32)[::2], np.float32([2, 3, -1 / 3])]))
    column = _column(net, x, 2)
    net.give(*(net.op(name, column, y) for name in BINARY))
    net.give(net.op("PRelu", column, np.float32([-0.25])), net.op("Mod", column, y, fmod=1))
    net.give(net.op("Where", net.op("IsNaN", y), column, y))
    for reduce in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2"):
        net.give(net.op(reduce, net.op("Add", column, y), ints(0)))


def _column(net: Net, x: str, step: int) -> str:
    """Every step-th element of a vector, as a column."""
    return net.op("Unsqueeze", net.op("Slice", x, ints(0), ints(FAR), ints(0), ints(step)), ints(1))


def edge_products(net: Net) -> None:
    """Sums of products that are ties, subnormal, infinite, or not numbers."""
    a = [seeded.delicate(f"a{e}", e, 17, 19) for e in (0, -70, 60)]
    b = [seeded.delicate(f"b{e}", e, 19, 35) for e in (0, -65, 66)]
    pairs = [*zip(a, b, strict=True)]
    wild = seeded.bit_patterns("wild", t.float32, 17, 5), seeded.normal("tame", 5, 21)
    for i, (left, right) in enumerate([*pairs, wild]):
        x, y = net.feed(f"left{i}", left), net.feed(f"right{i}", right)
        net.give(net.op("MatMul", x, y), net.op("MatMul", x, right))
    x = net.feed("pixels", seeded.delicate("pixels", -66, 1, 18, 6, 6))
    w = seeded.delicate("kernel", -62, 17, 18, 3, 3)
    net.give(net.op("Conv", x, w), net.op("Conv", x, np.float32([np.inf] * 18).reshape(1, 18, 1, 1),
             pads=[1, 1, 1, 1]))  # fmt: skip


def doubles(net: Net) -> None:
    """Sums of products of float64: a row and many, blocks of lanes and passes of terms that are not
    full, borders, what overflows, is subnormal or no number."""
    for rows, terms in ((1, 40), (2, 300), (7, 5), (23, 601)):
        x = net.feed(f"rows{rows}", seeded.normal(f"rows{rows}", rows, terms) / np.float64(3))
        y = net.feed(f"terms{rows}", seeded.normal(f"terms{rows}", terms, 37) / np.float64(7))
        w = seeded.normal(f"double{rows}", terms, 37) / np.float64(7)
        net.give(net.op("Add", net.op("MatMul", x, w), w[0]), net.op("MatMul", x, y))
    picture = net.feed("doubles", seeded.normal("doubles", 1, 19, 7, 9) / np.float64(3))
    filters = seeded.normal("double filters", 21, 19, 3, 3) / np.float64(3)
    net.give(net.op("Relu", net.op("Conv", picture, filters, pads=[1, 1, 1, 1])))
    wild = net.feed("wild doubles", seeded.bit_patterns("wild doubles", t.float64, 17, 5))
    net.give(net.op("MatMul", wild, seeded.normal("tame doubles", 5, 21).astype(np.float64)))


def byte_products(net: Net) -> None:
    """Sums of products of bytes less their zero points: even and odd numbers of terms, channels in
    whole blocks, in parts of one, and few; int32 sums that wrap; requantised ones."""
    scales = [np.float32(s) for s in (0.02, 0.3, 40.0)]
    for c, kind, low in ((32, np.uint8, 0), (19, np.int8, -128), (3, np.uint8, 0)):
        x = net.feed(f"bytes{c}", seeded.integers(f"b{c}", low, low + 256, 1, c, 7, 6).astype(kind))
        w = seeded.integers(f"w{c}", -128, 128, 21, c, 3, 3).astype(np.int8)
        bias = seeded.integers(f"c{c}", -(1 << 31), 1 << 31, 21).astype(np.int32)
        zero = kind(low + 131)
        parts = [x, scales[0], zero, w, scales[1], np.int8(-7), scales[2], np.uint8(9)]
        y = net.op("QLinearConv", *parts, bias // 4096, pads=[1, 1, 1, 1])
        net.give(y, net.op("ConvInteger", x, w, zero, np.int8(127), strides=[2, 1]))
        net.give(net.op("QLinearConv", *parts, bias, dilations=[1, 2]))
    for k in (1, 38, 515):
        a = net.feed(f"byte_rows{k}", seeded.integers(f"l{k}", 0, 256, 17, k).astype(np.uint8))
        b = seeded.integers(f"r{k}", -128, 128, k, 35).astype(np.int8)
        fed = net.feed(f"byte_columns{k}", b)
        zeros = seeded.integers(f"z{k}", -128, 128, 35).astype(np.int8)
        net.give(*(net.op("MatMulInteger", a, f, np.uint8(255), zeros) for f in (b, fed)))


def small_weights(net: Net) -> None:
    """Sums of products of uint8 and of weights within 64, which are taken of the bytes as they are:
    dense, depthwise and strided convolutions, rows with a zero point that is known or fed."""
    scales = [np.float32(s) for s in (0.02, 0.3, 9.0)]
    for c, group, stride in ((32, 1, 1), (3, 1, 2), (20, 20, 1), (5, 1, 1)):
        x = net.feed(f"small{c}", seeded.integers(f"s{c}", 0, 256, 1, c, 9, 8).astype(np.uint8))
        w = seeded.integers(f"v{c}", -64, 65, 20, c // group, 3, 3).astype(np.int8)
        parts = [x, scales[0], np.uint8(131), w, scales[1], np.int8(0), scales[2], np.uint8(9)]
        about = {"pads": [1, 1, 1, 1], "group": group, "strides": [stride, stride]}
        net.give(net.op("QLinearConv", *parts, **about))
    fed = net.feed("small_zero", np.uint8(7))
    for k in (24, 515):
        a = net.feed(f"small_rows{k}", seeded.integers(f"a{k}", 0, 256, 17, k).astype(np.uint8))
        b = seeded.integers(f"u{k}", -64, 65, k, 35).astype(np.int8)
        net.give(
            *(net.op("MatMulInteger", a, b, zero, np.int8(0)) for zero in (np.uint8(200), fed))
        )


def held_weights(net: Net) -> None:
    """Sums of products of weights that are held in fewer bits than float32 has: in each of the six
    kinds, of few rows and of many, with a last block and last terms that are not full."""
    rows = net.feed("held", seeded.normal("held rows", 19, 520))
    given = {n: net.op("Slice", rows, ints(0, 0), ints(n, 520)) for n in (1, 2, 3, 7, 16, 19)}

    def give(k: int, product: Callable[[str], Any]) -> None:
        for x in given.values():
            net.give(product(net.op("Slice", x, ints(0), ints(k), ints(1))))

    for dtype, k, size in ((t.float16, 253, 2.0**-16), (t.bfloat16, 264, 2.0**30)):
        halves = (weights(str(dtype), k, 264) * np.float32(size)).astype(dtype.numpy)
        halves[3, 5:7] = np.inf, np.nan
        w = net.op("Cast", halves, to=1)
        give(k, lambda x, w=w: net.op("MatMul", x, w))
    for kind, low, zero in (("i8", -128, 0), ("u8", 0, 255)):
        q = seeded.integers(kind, low, low + 256, 249, 265).astype(np.int8 if low else np.uint8)
        z = seeded.integers("zero", 0, zero + 1, 265).astype(q.dtype)
        w = net.op("DequantizeLinear", q, seeded.normal("scale", 265), z, axis=1)
        bias = seeded.normal("bias", 265)
        give(249, lambda x, w=w, b=bias: net.op("Relu", net.op("Gemm", x, w, b)))
    for dtype, size, zeros in ((t.int4, 32, False), (t.uint4, 16, True), (t.int8, 128, True)):
        low, k, n = dtype.min, 520, 130
        shape = -(-k // size), n
        parts = [seeded.integers(f"q{size}", low, dtype.max + 1, k, n).astype(dtype.numpy)]
        parts.append(seeded.normal(f"s{size}", *shape))
        if zeros:
            parts.append(seeded.integers("z", low, dtype.max + 1, *shape).astype(dtype.numpy))
        w = net.op("DequantizeLinear", *parts, axis=0, block_size=size)
        give(k, lambda x, w=w: net.op("MatMul", x, w))


def other_floats(dtype: DType) -> Callable[[Net], None]:
    """float64, float16 or bfloat16: values, functions, products, norms."""

    def write(net: Net) -> None:
        values = edges(dtype)
        if dtype.bits == 16:
            values = values[::7]
        x = net.feed(f"{dtype}_x", values)
        net.give(*(net.op(name, x) for name in FUNCTIONS))
        y = net.feed(f"{dtype}_y", np.concatenate([edges(dtype)[:: len(edges(dtype)) // 40 + 1]]))
        column = net.op(
            "Unsqueeze", net.op("Slice", x, ints(0), ints(FAR), ints(0), ints(13)), ints(1)
        )
        for name in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Pow"):
            net.give(net.op(name, column, y))
        a = net.feed(f"{dtype}_a", seeded.values(f"{dtype}a", dtype, 5, 23))
        b = net.feed(f"{dtype}_b", seeded.values(f"{dtype}b", dtype, 23, 18))
        net.give(net.op("MatMul", a, b), net.op("Softmax", a), net.op("ReduceMean", a, ints(1)))
        net.give(net.op("Gemm", a, b, seeded.values(f"{dtype}c", dtype, 18), alpha=0.3))

    return write


def rounded(net: Net) -> None:
    """A convolution of float16 and of bfloat16 with what follows, and elements in strips."""
    for dtype in (t.float16, t.bfloat16):
        image = net.feed(f"{dtype}_i", seeded.values(f"{dtype}i", dtype, 1, 16, 8, 6))
        y = net.op("Conv", image, seeded.values(f"{dtype}k", dtype, 24, 16, 3, 3))
        z = net.op("Clip", y, *(np.array(x, dtype.numpy) for x in (0, 6)))
        net.give(net.op("Mul", z, net.op("Sigmoid", z)), net.op("Erf", image))


def edge_integers(net: Net) -> None:
    """Wrapping, division, remainders and shifts of every integer type."""
    for dtype in t.INTEGERS:
        values = edges(dtype)[:: 1 + len(edges(dtype)) // 30]
        x, y = net.feed(f"{dtype}_x", values[:, None]), net.feed(f"{dtype}_y", values)
        for name in ("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Less", "BitwiseXor"):
            net.give(net.op(name, x, y))
        net.give(net.op("Mod", x, y, fmod=1), net.op("Abs", x), net.op("Sign", x))
        if dtype.kind == "i":
            net.give(net.op("Neg", x))
        else:
            net.give(*(net.op("BitShift", x, y, direction=d) for d in ("LEFT", "RIGHT")))
        if dtype.bits >= 32:
            net.give(net.op("MatMul", x, net.op("Unsqueeze", y, ints(0))))
            net.give(net.op("ReduceSum", x, ints(0)), net.op("ReduceProd", x, ints(0)))


def casts(net: Net) -> None:
    """Every type that C has, and the floats of 16 bits, to every other."""
    for source in PLAIN:
        x = net.feed(f"{source}_cast", _few(source))
        net.give(*(net.op("Cast", x, to=to.onnx) for to in PLAIN if to is not source))


def small_casts(net: Net) -> None:
    """The types of at most 8 bits that C does not have: all their values, all ways to round."""
    small = [d for d in NUMBERS if d not in PLAIN]
    for source in NUMBERS:
        x = net.feed(f"{source}_small", _few(source))
        targets = NUMBERS if source in small else small
        net.give(*(net.op("Cast", x, to=to.onnx) for to in targets if to is not source))
        net.give(
            *(
                net.op("Cast", x, to=to.onnx, saturate=s, round_mode=mode)
                for to in (*t.SMALL[:4], t.float8e8m0)
                for mode in (("up", "nearest", "down") if to is t.float8e8m0 else ("up",))
                for s in (0, 1)
                if to is not source and source in (*t.FLOATS, t.int64, t.float8e5m2)
            )
        )


def small_moves(net: Net) -> None:
    """What keeps the bits of the types of at most 8 bits, and what quantises to them."""
    y = net.feed("quantised", edges(t.float32))
    for dtype in NUMBERS[len(PLAIN) :]:
        x = net.feed(f"{dtype}_moved", edges(dtype).reshape(2, -1))
        if dtype is not t.float8e8m0:
            scale, zero = np.float32(0.37), edges(dtype)[1]
            net.give(net.op("QuantizeLinear", y, scale, zero), net.op("DequantizeLinear", x, scale))
        if dtype.bits == 6:
            continue  # onnx has them in few operators
        net.give(net.op("Transpose", x), net.op("Pad", x, ints(1, 0, 0, 2)))
        net.give(*(net.op("BitCast", x, to=to.onnx) for to in NUMBERS if to.bits == dtype.bits))
        if dtype in t.SMALL[:4]:
            net.give(net.op("IsNaN", x), net.op("IsInf", x))


def complex_moves(net: Net) -> None:
    """Complex numbers are moved, never computed with."""
    for dtype, part in ((t.complex64, t.float32), (t.complex128, t.float64)):
        value = seeded.bit_patterns(f"{dtype}", part, 4, 12).view(dtype.numpy)
        x, i = net.feed(f"{dtype}_x", value), net.feed(f"{dtype}_i", ints(0, -1, 3))
        pairs, flag = ints(0, 1, 3, 2).reshape(2, 2), np.arange(24).reshape(4, 6) % 2 == 0
        net.give(*(net.op(name, x) for name in ("Identity", "Transpose", "Flatten", "Trilu")))
        net.give(net.op("Pad", x, ints(1, 1, 0, 2)), net.op("Gather", x, i, axis=0))
        net.give(net.op("Pad", x, ints(1, 1, 0, 2), value[2, 3]), net.op("GatherND", x, pairs))
        net.give(net.op("Concat", x, value[:2], axis=0), net.op("Where", flag, x, value[::-1]))
        net.give(net.op("Slice", x, ints(3), ints(-FAR), ints(0), ints(-2)), net.op("Shape", x))
        net.give(
            net.op("ScatterND", x, pairs, value[0, :2]),
            net.op("OneHot", i, np.int64(5), value[1, :2]),
        )
        net.give(
            net.op("ReverseSequence", x, ints(4, 1, 2, 3, 4, 2)), net.op("Tile", x, ints(2, 1))
        )


def _few(dtype: DType) -> Array:
    values = edges(dtype)
    return values[:: 1 + len(values) // 3000] if dtype.bits == 16 else values


def moves(net: Net) -> None:
    """What keeps the bits of a NaN, and what does not."""
    x = net.feed("moved", seeded.bit_patterns("moved", t.float32, 6, 35))
    y = net.feed("marked", edges(t.float32)[:35])
    net.give(net.op("Transpose", x), net.op("Concat", x, net.op("Unsqueeze", y, ints(0)), axis=0))
    net.give(
        net.op("Pad", x, ints(1, 2, 0, 3), np.float32(np.nan)), net.op("Expand", y, ints(3, 35))
    )
    net.give(net.op("Where", net.op("IsNaN", y), x, y), net.op("Tile", y, ints(2)))
    net.give(*net.op("Split", x, ints(2, 30, 3), axis=1, count=3))
    net.give(net.op("Gather", x, ints(5, 0, -1), axis=0), net.op("Relu", net.op("Transpose", x)))
    scales = np.float32([1, 1.5])
    net.give(
        net.op("Resize", x, "", scales, mode="nearest"),
        net.op("Resize", x, "", scales, mode="linear"),
    )


def half_windows(net: Net) -> None:
    """Pools of floats of 16 bits, NaNs of every payload in them, and rows of these as columns."""
    for dtype in (t.float16, t.bfloat16):
        values = seeded.bit_patterns(dtype.name, dtype, 2, 3, 19, 34)
        values[1] = seeded.normal("pooled", 3, 19, 34).astype(dtype.numpy)
        x = net.feed(f"pooled {dtype}", values)
        for size, stride in ((3, 2), (2, 2), (5, 1)):
            window = {"kernel_shape": [size] * 2, "strides": [stride] * 2, "pads": [size // 2] * 4}
            net.give(net.op("MaxPool", x, **window), net.op("AveragePool", x, **window))
        net.give(net.op("Transpose", x, perm=[0, 2, 3, 1]), net.op("Transpose", x))


PARTS: dict[str, Callable[[Net], None]] = {
    "convolutional": convolutional,
    "tiles": tiles,
    "halves": halves,
    "transformer": transformer,
    "edge_floats": edge_floats,
    "edge_products": edge_products,
    "doubles": doubles,
    "byte_products": byte_products,
    "small_weights": small_weights,
    "held_weights": held_weights,
    "float64": other_floats(t.float64),
    "float16": other_floats(t.float16),
    "bfloat16": other_floats(t.bfloat16),
    "rounded": rounded,
    "half_rows": half_rows,
    "half_tables": half_tables,
    "edge_integers": edge_integers,
    "casts": casts,
    "moves": moves,
    "half_windows": half_windows,
    "pieces": pieces,
    "small_casts": small_casts,
    "small_moves": small_moves,
    "complex_moves": complex_moves,
}


@cache
def slice_of(parts: Sequence[str] = tuple(PARTS)) -> tuple[Graph, dict[str, Array]]:
    """These parts as one graph, and what it is fed."""
    net = Net()
    for part in parts:
        PARTS[part](net)
    return net.graph(), net.feeds
