"""Trains the models for scikit-learn's 8 x 8 digits, in NumPy: convolutions.py and encoder.py.

    pip install scikit-learn
    python examples/digits/train.py

Writes the two models, test.npz (the 360 images that training never sees), digit.npz (the first of
them, as a feed) and expected.json (what it shows). Everything is seeded; matrix products are
NumPy's, whose sums may differ in the last bits on another CPU, and so the weights with them.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import convolutions
import encoder
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

HERE = Path(__file__).parent
LABELS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
MODELS = {"digits.onnx": (convolutions, 40), "encoder.onnx": (encoder, 80)}  # network, epochs
BATCH, RATE, DECAY = 32, 2e-3, 1e-4

Array = np.ndarray
Parameters = dict[str, Array]


def gradients(network: ModuleType, p: Parameters, x: Array, y: Array) -> tuple[float, Parameters]:
    """The mean cross entropy of a batch, and its derivative by every trained parameter."""
    grads: Parameters = {}
    logits, backward = network.logits(p, x / 16, grads)
    exps = np.exp(logits - logits.max(1, keepdims=True))
    scores = exps / exps.sum(1, keepdims=True)
    loss = -np.log(scores[np.arange(len(y)), y] + 1e-12).mean()
    backward((scores - np.eye(len(LABELS), dtype=np.float32)[y]) / len(y))
    return float(loss), grads


def shifted(x: Array, random: np.random.Generator) -> Array:
    """Each image moved by at most one pixel each way."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    corners = random.integers(0, 3, (len(x), 2))
    pairs = zip(padded, corners, strict=True)
    return np.stack([image[:, i : i + 8, j : j + 8] for image, (i, j) in pairs])


def train(network: ModuleType, epochs: int, x: Array, y: Array) -> Parameters:
    """Adam with decoupled weight decay; the rate falls along half a cosine."""
    random = np.random.default_rng(0)
    p = network.initial(random)
    first = {name: np.zeros_like(value) for name, value in p.items()}
    second = {name: np.zeros_like(value) for name, value in p.items()}
    step, steps = 0, epochs * (len(x) // BATCH)
    for epoch in range(epochs):
        order = random.permutation(len(x))
        for start in range(0, len(x) - BATCH + 1, BATCH):
            batch = order[start : start + BATCH]
            loss, grads = gradients(network, p, shifted(x[batch], random), y[batch])
            step += 1
            rate = RATE * (1 + np.cos(np.pi * step / steps)) / 2
            for name, g in grads.items():
                first[name] += 0.1 * (g - first[name])
                second[name] += 0.001 * (g * g - second[name])
                m, v = first[name] / (1 - 0.9**step), second[name] / (1 - 0.999**step)
                p[name] -= (rate * (m / (np.sqrt(v) + 1e-8) + DECAY * p[name])).astype(np.float32)
        print(f"epoch {epoch + 1:2} of {epochs}: loss {loss:.4f}")
    return p


def export(network: ModuleType, p: Parameters) -> onnx.ModelProto:
    """The trained network as a model whose batch size is open."""
    nodes = [
        helper.make_node("Mul", ["image", "sixteenth"], ["x0"], name="scaled"),
        *network.nodes(),
        helper.make_node("Softmax", ["logits"], ["scores"], name="softmax"),
    ]
    weights = {"sixteenth": np.float32(1 / 16), **p}
    graph = helper.make_graph(
        nodes,
        network.__name__,
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
    for name, (network, epochs) in MODELS.items():
        onnx.save(export(network, train(network, epochs, x, y)), HERE / name)
    np.savez_compressed(
        HERE / "test.npz", images=rest.astype(np.uint8), labels=labels.astype(np.uint8)
    )
    np.savez(HERE / "digit.npz", image=rest[:1])
    shown = {"index": int(labels[0]), "label": LABELS[labels[0]]}
    (HERE / "expected.json").write_text(json.dumps(shown) + "\n")


if __name__ == "__main__":
    main()
