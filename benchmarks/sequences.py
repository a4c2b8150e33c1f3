"""Transformers and a recurrent network, made like the ones that they are named after."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from benchmarks.net import Net

VOCABULARY = 8192


@dataclass(frozen=True)
class Size:
    """Of a transformer; tokens: 0 where they are as many as are fed."""

    layers: int
    tokens: int
    width: int
    heads: int

    @property
    def part(self) -> int:
        """The width of a head."""
        return self.width // self.heads


def encoder() -> onnx.ModelProto:
    """4 layers, 128 tokens, width 256."""
    size, net = Size(4, 128, 256, 4), Net()
    shape = [1, size.tokens, size.width]
    return net.model({"x": shape}, {layers(net, "x", size): shape})


def minilm() -> onnx.ModelProto:
    """The sizes of MiniLM-L6: 6 layers, 128 tokens, width 384; the mean of all."""
    size, net = Size(6, 128, 384, 12), Net()
    x = net.op("Gather", net.weight(net.normal((VOCABULARY, size.width), 1)), "ids")
    x = net.op("Add", x, net.weight(net.normal((1, size.tokens, size.width), 0.1)))
    y = net.op("ReduceMean", layers(net, x, size), net.ints(1), keepdims=0)
    ids = {"ids": TensorProto.INT64}
    return net.model({"ids": [1, size.tokens]}, {y: [1, size.width]}, ids)


def minilm_any() -> onnx.ModelProto:
    """MiniLM-L6 as it is exported: batch and tokens are symbols, a mask, 512 positions; the states
    of all tokens. Timed with 128 tokens."""
    size, net = Size(6, 0, 384, 12), Net()
    x = net.op("Gather", net.weight(net.normal((VOCABULARY, size.width), 1)), "ids")
    positions = net.weight(net.normal((1, 512, size.width), 0.1))
    tokens = net.op("Shape", "ids", start=1)
    x = net.op("Add", x, net.op("Slice", positions, net.ints(0), tokens, net.ints(1)))
    mask = _mask(net)
    y = layers(net, norm(net, x, size.width), size, mask)
    given = {n: ["batch", "sequence"] for n in ("ids", "mask")}
    results = {y: ["batch", "sequence", size.width]}
    model = net.model(given, results, dict.fromkeys(given, TensorProto.INT64))
    for n in given:
        model.metadata_props.add(key=f"shape of {n}", value="1 128")
    return model


def vit() -> onnx.ModelProto:
    """The sizes of ViT-Ti/16 at 224 x 224: 12 layers, 197 tokens, width 192."""
    size, net = Size(12, 197, 192, 3), Net()
    patches = net.weight(net.normal((size.width, 3, 16, 16), 768**-0.5))
    x = net.op("Conv", "x", patches, strides=[16, 16])
    x = net.op("Transpose", net.op("Reshape", x, net.ints(1, size.width, 196)), perm=[0, 2, 1])
    x = net.op("Concat", net.weight(net.normal((1, 1, size.width), 1)), x, axis=1)
    x = net.op("Add", x, net.weight(net.normal((1, size.tokens, size.width), 0.1)))
    first = net.op("Gather", layers(net, x, size), net.weight(np.int64(0)), axis=1)
    y = net.linear(first, size.width, 1000)
    return net.model({"x": [1, 3, 224, 224]}, {y: [1, 1000]})


def bert() -> onnx.ModelProto:
    """The sizes of BERT-base: 12 layers, 128 tokens, width 768, a mask; the first token's state."""
    size, net = Size(12, 128, 768, 12), Net()
    x = net.op("Gather", net.weight(net.normal((VOCABULARY, size.width), 1)), "ids")
    x = net.op("Add", x, net.weight(net.normal((1, size.tokens, size.width), 0.1)))
    mask = _mask(net)
    states = layers(net, norm(net, x, size.width), size, mask)
    y = net.op("Gather", states, net.weight(np.int64(0)), axis=1)
    given = {n: [1, size.tokens] for n in ("ids", "mask")}
    return net.model(given, {y: [1, size.width]}, dict.fromkeys(given, TensorProto.INT64))


def _mask(net: Net) -> str:
    """What is added to scores: a large negative number where the input `mask` is 0."""
    kept = net.op("Cast", net.op("Unsqueeze", "mask", net.ints(1, 2)), to=TensorProto.FLOAT)
    return net.op("Mul", net.op("Sub", net.scalar(1), kept), net.scalar(-1e4))


def gpt2prefill() -> onnx.ModelProto:
    """The sizes of GPT-2: 12 layers, width 768, 128 tokens at once, keys and values returned."""
    return gpt2(Size(12, 128, 768, 12), 0)


def gpt2decode() -> onnx.ModelProto:
    """The sizes of GPT-2: one token after 255 others."""
    return gpt2(Size(12, 1, 768, 12), 255)


def gpt2step() -> onnx.ModelProto:
    """One token after 255 others: 6 layers, width 384, keys and values given and returned."""
    return gpt2(Size(6, 1, 384, 6), 255)


def gpt2(size: Size, before: int) -> onnx.ModelProto:
    """A decoder whose tokens see those before them, with so many keys and values given."""
    net, tokens = Net(), size.tokens
    x = net.op("Gather", net.weight(net.normal((VOCABULARY, size.width), 1)), "ids")
    mask = net.weight(np.triu(np.full((tokens, tokens), -1e4, "f"), 1)) if tokens > 1 else None
    given, results = {"ids": [1, tokens]}, {}
    for layer in range(size.layers):
        past = (f"keys{layer}", f"values{layer}") if before else None
        mixed, now = _attention(net, norm(net, x, size.width), size, past, mask)
        x = _perceptron(net, net.op("Add", x, mixed), size.width)
        given |= {n: [1, size.heads, before, size.part] for n in past or ()}
        results |= {n: [1, size.heads, before + tokens, size.part] for n in now}
    head = net.weight(net.normal((size.width, VOCABULARY), size.width**-0.5))
    y = net.op("MatMul", norm(net, x, size.width), head)
    return net.model(given, {y: [1, tokens, VOCABULARY], **results}, {"ids": TensorProto.INT64})


def bilstm() -> onnx.ModelProto:
    """Two LSTMs in both directions over 64 steps of 128 numbers, 128 hidden, then 32 classes."""
    net, inner, before = Net(), 128, 128
    x = "x"
    for _ in range(2):
        w, r = (net.normal((2, 4 * inner, n), n**-0.5) for n in (before, inner))
        b = net.weight(net.normal((2, 8 * inner), 0.1))
        given = x, net.weight(w), net.weight(r), b
        y = net.op("LSTM", *given, direction="bidirectional", hidden_size=inner)
        y = net.op("Transpose", y, perm=[0, 2, 1, 3])
        x, before = net.op("Reshape", y, net.ints(64, 1, 2 * inner)), 2 * inner
    return net.model({"x": [64, 1, 128]}, {net.linear(x, before, 32): [64, 1, 32]})


def gru() -> onnx.ModelProto:
    """A GRU over 100 steps of 80 numbers, 256 hidden, then 32 classes."""
    net, inner, before = Net(), 256, 80
    w, r = (net.normal((1, 3 * inner, n), n**-0.5) for n in (before, inner))
    b = net.weight(net.normal((1, 6 * inner), 0.1))
    given = "x", net.weight(w), net.weight(r), b
    y = net.op("GRU", *given, hidden_size=inner, linear_before_reset=1)
    y = net.op("Squeeze", y, net.ints(1))
    return net.model({"x": [100, 1, before]}, {net.linear(y, inner, 32): [100, 1, 32]})


def layers(net: Net, x: str, size: Size, mask: str | None = None) -> str:
    """Attention and two matrix products with Gelu (erf), each normalised before and added."""
    for _ in range(size.layers):
        mixed, _ = _attention(net, norm(net, x, size.width), size, None, mask)
        x = _perceptron(net, net.op("Add", x, mixed), size.width)
    return x


def norm(net: Net, x: str, width: int) -> str:
    ones, zeros = np.ones(width, np.float32), np.zeros(width, np.float32)
    return net.op("LayerNormalization", x, net.weight(ones), net.weight(zeros), axis=-1)


def _attention(
    net: Net,
    x: str,
    size: Size,
    past: tuple[str, str] | None = None,
    mask: str | None = None,
) -> tuple[str, tuple[str, str]]:
    """The result, and the keys and values, after those of the past; the mask is added to scores."""

    def heads() -> str:
        y = net.linear(x, size.width, size.width)
        y = net.op("Reshape", y, net.ints(0, size.tokens, size.heads, size.part))
        return net.op("Transpose", y, perm=[0, 2, 1, 3])

    q, k, v = heads(), heads(), heads()
    if past is not None:
        k, v = (net.op("Concat", p, y, axis=2) for p, y in zip(past, (k, v), strict=True))
    scores = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = net.op("Mul", scores, net.scalar(size.part**-0.5))
    if mask is not None:
        scores = net.op("Add", scores, mask)
    mixed = net.op("MatMul", net.op("Softmax", scores, axis=-1), v)
    mixed = net.op("Transpose", mixed, perm=[0, 2, 1, 3])
    joined = net.op("Reshape", mixed, net.ints(0, size.tokens, size.width))
    return net.linear(joined, size.width, size.width), (k, v)


def _perceptron(net: Net, x: str, width: int) -> str:
    h = net.linear(norm(net, x, width), width, 4 * width)
    erf = net.op("Erf", net.op("Div", h, net.scalar(2**0.5)))
    half = net.op("Mul", h, net.scalar(0.5))
    gelu = net.op("Mul", half, net.op("Add", erf, net.scalar(1)))
    return net.op("Add", x, net.linear(gelu, 4 * width, width))
