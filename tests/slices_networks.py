"""The networks among the graphs of slices.py: convolutions, register tiles, a transformer block."""

from __future__ import annotations

from typing import Any

import numpy as np
import seeded
from nets import Net

from sardonyx import types as t
from sardonyx.kernel.elementary.pieces import PER_UNIT
from sardonyx.types import Array


def ints(*values: int) -> Array:
    return np.array(values, np.int64)


# A convolutional network: odd channel counts, groups, strides, dilations, every kind of padding.


def convolutional(net: Net) -> None:
    """Conv, BatchNormalization, Relu, pools, ConvTranspose, Gemm, Softmax."""
    x = net.feed("image", seeded.normal("image", 2, 7, 13, 11))
    a = _block(net, x, (19, 7, 3, 3), strides=[2, 1], pads=[1, 0, 2, 1])
    b = _block(net, a, (33, 19, 1, 1))
    c = _block(net, b, (21, 11, 2, 3), group=3, auto_pad="SAME_UPPER")
    d = _block(net, c, (21, 1, 3, 3), group=21, pads=[2, 2, 2, 2], dilations=[2, 2])
    shortcut = net.op("Conv", b, weights("shortcut", 21, 33, 1, 1))
    e = net.op("Relu", net.op("Add", d, shortcut))
    f = net.op("MaxPool", e, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1)
    pads = {"pads": [1, 1, 0, 1], "count_include_pad": 0}
    g = net.op("AveragePool", e, kernel_shape=[3, 2], strides=[2, 1], **pads)
    up = weights("up", 21, 5, 3, 3)
    h = net.op("ConvTranspose", f, up, strides=[2, 2], output_padding=[1, 0], pads=[1, 0, 1, 1])
    pooled = net.op("Flatten", net.op("GlobalAveragePool", f))
    fc, bias = weights("fc", 10, 21), seeded.normal("fc bias", 10)
    logits = net.op("Gemm", pooled, fc, bias, transB=1, alpha=0.75, beta=1.5)
    net.give(a, e, g, h, net.op("Softmax", logits), net.op("LogSoftmax", logits))


def tiles(net: Net) -> None:
    """numerics="winograd": tiles of 4 x 4 and of 2 x 2, partial ones, and what is fused to them."""
    net.numerics = "winograd"
    x = net.feed("tiles", seeded.normal("tiles", 2, 16, 13, 18))
    a = net.op("Relu", net.op("Conv", x, weights("tiles a", 32, 16, 3, 3), pads=[1, 1, 1, 1]))
    b = net.op("Conv", a, weights("tiles b", 20, 32, 3, 3), seeded.normal("tiles bias", 20))
    c = net.op("MaxPool", b, kernel_shape=[2, 2], strides=[2, 2])
    d = net.op("Conv", c, weights("tiles d", 20, 20, 3, 3), pads=[1, 2, 1, 0])
    net.give(b, net.op("Add", d, c))


def halves(net: Net) -> None:
    """Filters of which the last block of 16 lanes is at most half full, or a little more."""
    x = net.feed("halves", seeded.normal("halves", 1, 19, 7, 9))
    for filters in (1, 8, 9, 24, 34):
        y = net.op("Conv", x, weights(f"half{filters}", filters, 19, 3, 3), pads=[1, 1, 1, 1])
        net.give(net.op("Relu", y))
    rows, w = net.feed("half_rows", seeded.normal("rows", 17, 523)), weights("half", 523, 40)
    net.give(net.op("MatMul", rows, w))


def weights(seed: str, *shape: int) -> Array:
    return seeded.normal(seed, *shape) * np.float32(0.25)


def _block(net: Net, x: str, shape: tuple[int, ...], **attributes: Any) -> str:
    seed, channels = f"block{len(net.nodes)}", shape[0]
    y = net.op("Conv", x, weights(seed, *shape), seeded.normal(f"{seed}b", channels), **attributes)
    shift, mean = (seeded.normal(f"{seed}{part}", channels) for part in ("shift", "mean"))
    scale, variance = (seeded.positive(f"{seed}{part}", channels) for part in ("scale", "var"))
    return net.op("Relu", net.op("BatchNormalization", y, scale, shift, mean, variance))


def half_rows(net: Net) -> None:
    """A norm, scores with their softmax, and GELU behind a product, of float16: rows that fill no
    strips."""

    def some(seed: str, *shape: int) -> Array:
        return seeded.normal(f"rows16{seed}", *shape).astype(np.float16)

    x = net.feed("rows16", some("x", 37, 50))
    x = net.op("LayerNormalization", x, some("scale", 50), some("bias", 50))
    scores = net.op("MatMul", x, net.op("Transpose", x, perm=[1, 0]))
    share = net.op("Softmax", net.op("Mul", scores, np.float16(0.14)))
    y = net.op(
        "Add", net.op("MatMul", net.op("MatMul", share, x), some("w", 50, 48)), some("b", 48)
    )
    half = net.op("Add", net.op("Erf", net.op("Div", y, np.float16(1.414))), np.float16(1))
    net.give(share, net.op("Mul", net.op("Mul", y, half), np.float16(0.5)))


def half_tables(net: Net) -> None:
    """Long functions of one float16: of every one, and of sums of products, rows of which fill no
    strips."""

    def function(x: str) -> str:
        return net.op("Mul", x, net.op("Add", net.op("Erf", x), np.float16(1)))

    x = net.feed("codes16", np.arange(1 << 16, dtype=np.uint16).view(np.float16).reshape(256, 256))
    rows = net.feed("tables16", seeded.normal("tables16", 250, 50).astype(np.float16))
    w = seeded.normal("tables16w", 50, 72).astype(np.float16)
    net.give(function(x), function(net.op("MatMul", rows, w)))


def pieces(net: Net) -> None:
    """Gelu in strips of sixteen lanes that are whole, cut, short, turned or behind sums, and where
    Erf's pieces end; Sigmoid where results are subnormal."""
    ends = (np.arange(-9, 10) / 2 / PER_UNIT * 2**0.5).astype(np.float32)
    near = np.nextafter(np.repeat(ends, 2), np.tile(np.float32([-9, 9]), len(ends)))
    net.give(net.op("Gelu", net.feed("ends", np.concatenate([ends, near]))))
    for rows, width in ((64, 48), (37, 30), (50, 7)):
        x = net.feed(f"pieces{width}", seeded.normal(f"pieces{width}", 2, rows, width) * 2)
        y = net.op("Gelu", x)
        net.give(y, net.op("Transpose", net.op("Gelu", net.op("Add", x, x)), perm=[0, 2, 1]))
        net.give(net.op("Gelu", net.op("MatMul", x, weights(f"pieces{width}w", width, 45))))
    image = net.feed("image of pieces", seeded.normal("image of pieces", 1, 32, 19, 19))
    for filters, group in ((30, 1), (48, 1), (32, 32)):
        w = weights(f"pieces{filters}{group}", filters, 32 // group, 3, 3)
        net.give(net.op("Gelu", net.op("Conv", image, w, group=group)))
    net.give(net.op("Sigmoid", net.feed("low", np.linspace(-105, -86, 400).astype(np.float32))))


# A transformer block: two sequences of nine tokens, four heads of five.


def transformer(net: Net) -> None:
    """Gather, LayerNormalization, MatMul, Softmax, Gelu."""
    ids = net.feed("tokens", seeded.integers("tokens", 0, 31, 2, 9))
    mask = net.feed("mask", np.where(seeded.integers("mask", 0, 4, 2, 1, 9, 9) == 0, -1e9, 0.0))
    x = net.op("Gather", seeded.normal("embedding", 31, 20), ids)
    y = _attention(net, _normalised(net, x), net.op("Cast", mask, to=t.float32.onnx))
    z = net.op("Add", x, y)
    hidden = _linear(net, _normalised(net, z), 20, 37)
    out = _linear(net, net.op("Gelu", hidden), 37, 20)
    tanh = _linear(net, net.op("Gelu", hidden, approximate="tanh"), 37, 20)
    summed = net.op("Add", z, out)
    net.give(y, summed, tanh, net.op("ReduceMean", summed, ints(1), keepdims=0))


def _normalised(net: Net, x: str) -> str:
    scale = seeded.positive(f"scale{len(net.nodes)}", 20)
    return net.op("LayerNormalization", x, scale, seeded.normal(f"bias{len(net.nodes)}", 20))


def _linear(net: Net, x: str, rows: int, columns: int) -> str:
    seed = f"linear{len(net.nodes)}"
    product = net.op("MatMul", x, weights(seed, rows, columns))
    return net.op("Add", product, seeded.normal(f"{seed}b", columns))


def _attention(net: Net, x: str, mask: str) -> str:
    heads = (net.op("Reshape", _linear(net, x, 20, 20), ints(2, 9, 4, 5)) for _ in range(3))
    q, k, v = (net.op("Transpose", h, perm=[0, 2, 1, 3]) for h in heads)
    scores = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 1, 3, 2]))
    scaled = net.op("Add", net.op("Div", scores, np.float32(np.sqrt(5))), mask)
    mixed = net.op("MatMul", net.op("Softmax", scaled), v)
    joined = net.op("Reshape", net.op("Transpose", mixed, perm=[0, 2, 1, 3]), ints(2, 9, 20))
    return _linear(net, joined, 20, 20)
