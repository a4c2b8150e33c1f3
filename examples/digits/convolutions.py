"""A convolutional network: Conv, BatchNormalization, Relu and MaxPool, twice; then Gemm."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper

CHANNELS, CLASSES = (16, 32), 10
MOMENTUM, EPSILON = 0.9, 1e-5

Array = np.ndarray
Parameters = dict[str, Array]
Backward = Callable[[Array], Array]


def initial(random: np.random.Generator) -> Parameters:
    """Weights of He's variance; running statistics of a standard normal."""
    p: Parameters = {}
    inputs = 1
    for i, outputs in enumerate(CHANNELS, 1):
        p[f"conv{i}.w"] = random.normal(0, np.sqrt(2 / (inputs * 9)), (outputs, inputs, 3, 3))
        p |= {f"norm{i}.{k}": np.ones(outputs) for k in ("scale", "var")}
        p |= {f"norm{i}.{k}": np.zeros(outputs) for k in ("b", "mean")}
        inputs = outputs
    p["gemm.w"] = random.normal(0, np.sqrt(1 / (inputs * 4)), (inputs * 4, CLASSES))
    p["gemm.b"] = np.zeros(CLASSES)
    return {name: value.astype(np.float32) for name, value in p.items()}


def logits(p: Parameters, x: Array, grads: Parameters) -> tuple[Array, Backward]:
    """(n, 1, 8, 8) -> (n, 10), and what turns its derivative into that of every parameter."""
    backwards: list[Backward] = []
    for i in (1, 2):
        for layer in (conv, norm):
            x, backward = layer(p, f"{layer.__name__}{i}", x, grads)
            backwards.append(backward)
        x, backward = relu_pool(x)
        backwards.append(backward)
    flat = x.reshape(len(x), -1)

    def backward(d: Array) -> Array:
        grads["gemm.w"], grads["gemm.b"] = flat.T @ d, d.sum(0)
        d = (d @ p["gemm.w"].T).reshape(x.shape)
        for inner in reversed(backwards):
            d = inner(d)
        return d

    return flat @ p["gemm.w"] + p["gemm.b"], backward


def conv(p: Parameters, name: str, x: Array, grads: Parameters) -> tuple[Array, Backward]:
    """3 x 3, padded by 1, without bias: (n, c, h, w) -> (n, m, h, w), and its derivative."""
    w = p[f"{name}.w"]

    def columns(a: Array) -> Array:
        padded = np.pad(a, ((0, 0), (0, 0), (1, 1), (1, 1)))
        return np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))

    seen = columns(x)

    def backward(dy: Array) -> Array:
        grads[f"{name}.w"] = np.einsum("nchwij,nmhw->mcij", seen, dy, optimize=True)
        flipped = w[:, :, ::-1, ::-1]
        return np.einsum("nmhwij,mcij->nchw", columns(dy), flipped, optimize=True)

    return np.einsum("nchwij,mcij->nmhw", seen, w, optimize=True), backward


def norm(p: Parameters, name: str, x: Array, grads: Parameters) -> tuple[Array, Backward]:
    """Batch normalization by the batch's own statistics, which move the running ones."""
    axes, column = (0, 2, 3), (1, -1, 1, 1)
    mean, var = x.mean(axes), x.var(axes)
    for key, value in (("mean", mean), ("var", var)):
        running = p[f"{name}.{key}"]
        running[...] = MOMENTUM * running + (1 - MOMENTUM) * value
    deviation = np.sqrt(var + EPSILON).reshape(column)
    z = (x - mean.reshape(column)) / deviation
    scale = p[f"{name}.scale"].reshape(column)

    def backward(dy: Array) -> Array:
        grads[f"{name}.scale"], grads[f"{name}.b"] = (dy * z).sum(axes), dy.sum(axes)
        dz = dy * scale
        across = dz.mean(axes).reshape(column) + z * (dz * z).mean(axes).reshape(column)
        return (dz - across) / deviation

    return z * scale + p[f"{name}.b"].reshape(column), backward


def relu_pool(x: Array) -> tuple[Array, Backward]:
    """max(x, 0), then the largest of each 2 x 2."""
    n, c, h, w = x.shape
    tiles = x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 1, 2, 4, 3, 5)
    tiles = tiles.reshape(n, c, h // 2, w // 2, 4)
    best = tiles.argmax(-1)[..., None]
    largest = np.take_along_axis(tiles, best, -1)[..., 0]

    def backward(dy: Array) -> Array:
        spread = np.zeros_like(tiles)
        np.put_along_axis(spread, best, (dy * (largest > 0))[..., None], -1)
        spread = spread.reshape(n, c, h // 2, w // 2, 2, 2).transpose(0, 1, 2, 4, 3, 5)
        return spread.reshape(x.shape)

    return np.maximum(largest, 0), backward


def nodes() -> list[onnx.NodeProto]:
    """From the tensor x0 to the tensor logits."""
    node = helper.make_node
    found = []
    for i in (1, 2):
        statistics = [f"norm{i}.{k}" for k in ("scale", "b", "mean", "var")]
        found += [
            node("Conv", [f"x{i - 1}", f"conv{i}.w"], [f"c{i}"], name=f"conv{i}", pads=[1] * 4),
            node("BatchNormalization", [f"c{i}", *statistics], [f"n{i}"], name=f"norm{i}"),
            node("Relu", [f"n{i}"], [f"r{i}"], name=f"relu{i}"),
            node("MaxPool", [f"r{i}"], [f"x{i}"], f"pool{i}", kernel_shape=[2, 2], strides=[2, 2]),
        ]
    return [
        *found,
        node("Flatten", ["x2"], ["flat"], name="flatten"),
        node("Gemm", ["flat", "gemm.w", "gemm.b"], ["logits"], name="gemm"),
    ]
