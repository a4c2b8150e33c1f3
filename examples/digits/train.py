"""Trains digits.onnx: a small convolutional network for scikit-learn's 8 x 8 digits, in NumPy.

    pip install scikit-learn
    python examples/digits/train.py

Writes digits.onnx, test.npz (the 360 images that training never sees), digit.npz (the first of
them, as a feed) and expected.json (what it shows). Everything is seeded; matrix products are
NumPy's, whose sums may differ in the last bits on another CPU, and so the weights with them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HERE = Path(__file__).parent
LABELS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
CHANNELS = (16, 32)
EPOCHS, BATCH, RATE, DECAY, MOMENTUM, EPSILON = 40, 32, 2e-3, 1e-4, 0.9, 1e-5

Array = np.ndarray
Parameters = dict[str, Array]
Backward = Callable[[Array], Array]


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


def gradients(p: Parameters, x: Array, y: Array) -> tuple[float, Parameters]:
    """The mean cross entropy of a batch, and its derivative by every trained parameter."""
    grads: Parameters = {}
    backwards: list[Backward] = []
    x = x / 16
    for i in (1, 2):
        for layer in (conv, norm):
            x, backward = layer(p, f"{layer.__name__}{i}", x, grads)
            backwards.append(backward)
        x, backward = relu_pool(x)
        backwards.append(backward)
    flat = x.reshape(len(x), -1)
    logits = flat @ p["gemm.w"] + p["gemm.b"]
    exps = np.exp(logits - logits.max(1, keepdims=True))
    scores = exps / exps.sum(1, keepdims=True)
    loss = -np.log(scores[np.arange(len(y)), y] + 1e-12).mean()
    d = (scores - np.eye(len(LABELS), dtype=np.float32)[y]) / len(y)
    grads["gemm.w"], grads["gemm.b"] = flat.T @ d, d.sum(0)
    d = (d @ p["gemm.w"].T).reshape(x.shape)
    for backward in reversed(backwards):
        d = backward(d)
    return float(loss), grads


def initial(random: np.random.Generator) -> Parameters:
    """Weights of He's variance; running statistics of a standard normal."""
    p: Parameters = {}
    inputs = 1
    for i, outputs in enumerate(CHANNELS, 1):
        p[f"conv{i}.w"] = random.normal(0, np.sqrt(2 / (inputs * 9)), (outputs, inputs, 3, 3))
        p |= {f"norm{i}.{k}": np.ones(outputs) for k in ("scale", "var")}
        p |= {f"norm{i}.{k}": np.zeros(outputs) for k in ("b", "mean")}
        inputs = outputs
    p["gemm.w"] = random.normal(0, np.sqrt(1 / (inputs * 4)), (inputs * 4, len(LABELS)))
    p["gemm.b"] = np.zeros(len(LABELS))
    return {name: value.astype(np.float32) for name, value in p.items()}


def shifted(x: Array, random: np.random.Generator) -> Array:
    """Each image moved by at most one pixel each way."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    corners = random.integers(0, 3, (len(x), 2))
    pairs = zip(padded, corners, strict=True)
    return np.stack([image[:, i : i + 8, j : j + 8] for image, (i, j) in pairs])


def train(x: Array, y: Array) -> Parameters:
    """Adam with decoupled weight decay; the rate falls along half a cosine."""
    random = np.random.default_rng(0)
    p = initial(random)
    first = {name: np.zeros_like(value) for name, value in p.items()}
    second = {name: np.zeros_like(value) for name, value in p.items()}
    step, steps = 0, EPOCHS * (len(x) // BATCH)
    for epoch in range(EPOCHS):
        order = random.permutation(len(x))
        for start in range(0, len(x) - BATCH + 1, BATCH):
            batch = order[start : start + BATCH]
            loss, grads = gradients(p, shifted(x[batch], random), y[batch])
            step += 1
            rate = RATE * (1 + np.cos(np.pi * step / steps)) / 2
            for name, g in grads.items():
                first[name] += 0.1 * (g - first[name])
                second[name] += 0.001 * (g * g - second[name])
                m, v = first[name] / (1 - 0.9**step), second[name] / (1 - 0.999**step)
                p[name] -= (rate * (m / (np.sqrt(v) + 1e-8) + DECAY * p[name])).astype(np.float32)
        print(f"epoch {epoch + 1:2} of {EPOCHS}: loss {loss:.4f}")
    return p


def export(p: Parameters) -> onnx.ModelProto:
    """The trained network as a model whose batch size is open."""
    node = helper.make_node
    nodes = [node("Mul", ["image", "scale"], ["x0"], name="scale")]
    for i in (1, 2):
        statistics = [f"norm{i}.{k}" for k in ("scale", "b", "mean", "var")]
        nodes += [
            node("Conv", [f"x{i - 1}", f"conv{i}.w"], [f"c{i}"], name=f"conv{i}", pads=[1] * 4),
            node("BatchNormalization", [f"c{i}", *statistics], [f"n{i}"], name=f"norm{i}"),
            node("Relu", [f"n{i}"], [f"r{i}"], name=f"relu{i}"),
            node("MaxPool", [f"r{i}"], [f"x{i}"], f"pool{i}", kernel_shape=[2, 2], strides=[2, 2]),
        ]
    nodes += [
        node("Flatten", ["x2"], ["flat"], name="flatten"),
        node("Gemm", ["flat", "gemm.w", "gemm.b"], ["logits"], name="gemm"),
        node("Softmax", ["logits"], ["scores"], name="softmax"),
    ]
    weights = {"scale": np.float32(1 / 16), **p}
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["N", len(LABELS)])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
        doc_string="8 x 8 grey images of handwritten digits, 0 white to 16 black, to ten scores",
    )
    opsets = [helper.make_opsetid("", 22)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10, producer_name="sardonyx")
    facts = {"labels": json.dumps(LABELS), "author": "Sardonyx", "license": "Apache-2.0"}
    helper.set_model_props(model, facts)
    onnx.checker.check_model(model, full_check=True)
    return model


def main() -> None:
    """Trains on four fifths of the data and writes the files."""
    digits = load_digits()
    images = digits.images.astype(np.float32)[:, None]
    x, rest, y, labels = train_test_split(
        images, digits.target, test_size=360, stratify=digits.target, random_state=0
    )
    onnx.save(export(train(x, y)), HERE / "digits.onnx")
    np.savez_compressed(
        HERE / "test.npz", images=rest.astype(np.uint8), labels=labels.astype(np.uint8)
    )
    np.savez(HERE / "digit.npz", image=rest[:1])
    shown = {"index": int(labels[0]), "label": LABELS[labels[0]]}
    (HERE / "expected.json").write_text(json.dumps(shown) + "\n")


if __name__ == "__main__":
    main()
