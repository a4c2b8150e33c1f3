"""A transformer encoder: the eight rows of an image are eight tokens of eight pixels.

Two blocks of LayerNormalization, attention of four heads, LayerNormalization and Gelu between two
matrix products, each half added to what it read; then the mean of the tokens, and Gemm.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import helper

BLOCKS, TOKENS, WIDTH, HEADS, INNER, CLASSES = 2, 8, 32, 4, 64, 10
DEPTH = WIDTH // HEADS
EPSILON, SLOPE = 1e-5, np.float32(np.sqrt(2 / np.pi))

Array = np.ndarray
Parameters = dict[str, Array]
Backward = Callable[[Array], Array]


def initial(random: np.random.Generator) -> Parameters:
    """Normal weights of variance 1 / inputs; what is added starts at 0, what scales at 1."""
    sizes = {"embed": (TOKENS, WIDTH), "gemm": (WIDTH, CLASSES)}
    p: Parameters = {"places": random.normal(0, 0.1, (TOKENS, WIDTH))}
    for i in range(BLOCKS):
        p |= {f"{n}{i}.scale": np.ones(WIDTH) for n in ("norm_a", "norm_b")}
        p |= {f"{n}{i}.b": np.zeros(WIDTH) for n in ("norm_a", "norm_b")}
        sizes |= {f"{n}{i}": (WIDTH, WIDTH) for n in ("q", "k", "v", "o")}
        sizes |= {f"up{i}": (WIDTH, INNER), f"down{i}": (INNER, WIDTH)}
    for name, (inputs, outputs) in sizes.items():
        p[f"{name}.w"] = random.normal(0, np.sqrt(1 / inputs), (inputs, outputs))
        p[f"{name}.b"] = np.zeros(outputs)
    return {name: value.astype(np.float32) for name, value in p.items()}


def logits(p: Parameters, x: Array, grads: Parameters) -> tuple[Array, Backward]:
    """(n, 1, 8, 8) -> (n, 10), and what turns its derivative into that of every parameter."""
    x, embedded = linear(p, "embed", x[:, 0], grads)
    x = x + p["places"]
    halves: list[Backward] = []
    for i in range(BLOCKS):
        for name, half in (("norm_a", attention), ("norm_b", perceptron)):
            z, outer = norm(p, f"{name}{i}", x, grads)
            z, inner = half(p, i, z, grads)
            x = x + z
            halves.append(lambda d, outer=outer, inner=inner: d + outer(inner(d)))
    y, ended = linear(p, "gemm", x.mean(1), grads)

    def backward(d: Array) -> Array:
        d = np.repeat(ended(d)[:, None] / np.float32(TOKENS), TOKENS, 1)
        for half in reversed(halves):
            d = half(d)
        grads["places"] = d.sum(0)
        return embedded(d)

    return y, backward


def linear(p: Parameters, name: str, x: Array, grads: Parameters) -> tuple[Array, Backward]:
    """x w + b along the last axis."""
    w = p[f"{name}.w"]

    def backward(d: Array) -> Array:
        rows = d.reshape(-1, d.shape[-1])
        grads[f"{name}.w"] = x.reshape(-1, x.shape[-1]).T @ rows
        grads[f"{name}.b"] = rows.sum(0)
        return d @ w.T

    return x @ w + p[f"{name}.b"], backward


def norm(p: Parameters, name: str, x: Array, grads: Parameters) -> tuple[Array, Backward]:
    """Layer normalization of each token."""
    deviation = np.sqrt(x.var(-1, keepdims=True) + EPSILON)
    z = (x - x.mean(-1, keepdims=True)) / deviation
    scale = p[f"{name}.scale"]

    def backward(d: Array) -> Array:
        grads[f"{name}.scale"], grads[f"{name}.b"] = (d * z).sum((0, 1)), d.sum((0, 1))
        dz = d * scale
        across = dz.mean(-1, keepdims=True) + z * (dz * z).mean(-1, keepdims=True)
        return (dz - across) / deviation

    return z * scale + p[f"{name}.b"], backward


def attention(p: Parameters, i: int, x: Array, grads: Parameters) -> tuple[Array, Backward]:
    """softmax(q k^T / sqrt(depth)) v of each head, then the output's matrix."""

    def split(a: Array) -> Array:
        return a.reshape(len(a), TOKENS, HEADS, DEPTH).transpose(0, 2, 1, 3)

    def join(a: Array) -> Array:
        return a.transpose(0, 2, 1, 3).reshape(len(a), TOKENS, WIDTH)

    (q, of_q), (k, of_k), (v, of_v) = (linear(p, f"{n}{i}", x, grads) for n in "qkv")
    q, k, v = split(q), split(k), split(v)
    scale = np.float32(DEPTH**-0.5)
    scores = q @ k.swapaxes(2, 3) * scale
    exps = np.exp(scores - scores.max(-1, keepdims=True))
    weights = exps / exps.sum(-1, keepdims=True)
    y, of_y = linear(p, f"o{i}", join(weights @ v), grads)

    def backward(d: Array) -> Array:
        d = split(of_y(d))
        dw = d @ v.swapaxes(2, 3)
        ds = weights * (dw - (dw * weights).sum(-1, keepdims=True)) * scale
        parts = (ds @ k, of_q), (ds.swapaxes(2, 3) @ q, of_k), (weights.swapaxes(2, 3) @ d, of_v)
        return sum(of(join(part)) for part, of in parts)

    return y, backward


def perceptron(p: Parameters, i: int, x: Array, grads: Parameters) -> tuple[Array, Backward]:
    """Gelu, by its tanh form, between two matrix products."""
    h, of_h = linear(p, f"up{i}", x, grads)
    t = np.tanh(SLOPE * (h + np.float32(0.044715) * h**3))
    y, of_y = linear(p, f"down{i}", h * (1 + t) / 2, grads)

    def backward(d: Array) -> Array:
        slope = SLOPE * (1 + np.float32(3 * 0.044715) * h**2)
        return of_h(of_y(d) * ((1 + t) / 2 + h * (1 - t * t) * slope / 2))

    return y, backward


def nodes() -> list[onnx.NodeProto]:
    """From the tensor x0 to the tensor logits."""
    node = helper.make_node
    found = [
        *constants(),
        node("Squeeze", ["x0", "one"], ["rows"], name="rows"),
        *affine("embed", "rows"),
        node("Add", ["embed", "places"], ["h0"], name="places"),
    ]
    x = "h0"
    for i in range(BLOCKS):
        found += [
            normalization(f"norm_a{i}", x),
            *(n for name in "qkv" for n in head(f"{name}{i}", f"norm_a{i}")),
            node("Mul", [f"q{i}.heads", "scale"], [f"q{i}.scaled"], name=f"q{i}.scaled"),
            node("MatMul", [f"q{i}.scaled", f"k{i}.heads"], [f"scores{i}"], name=f"scores{i}"),
            node("Softmax", [f"scores{i}"], [f"weights{i}"], name=f"weights{i}"),
            node("MatMul", [f"weights{i}", f"v{i}.heads"], [f"mixed{i}"], name=f"mixed{i}"),
            node("Transpose", [f"mixed{i}"], [f"turned{i}"], f"turned{i}", perm=[0, 2, 1, 3]),
            node("Reshape", [f"turned{i}", "joined"], [f"joined{i}"], name=f"joined{i}"),
            *affine(f"o{i}", f"joined{i}"),
            node("Add", [x, f"o{i}"], [f"a{i}"], name=f"a{i}"),
            normalization(f"norm_b{i}", f"a{i}"),
            *affine(f"up{i}", f"norm_b{i}"),
            node("Gelu", [f"up{i}"], [f"gelu{i}"], name=f"gelu{i}", approximate="tanh"),
            *affine(f"down{i}", f"gelu{i}"),
            node("Add", [f"a{i}", f"down{i}"], [f"h{i + 1}"], name=f"h{i + 1}"),
        ]
        x = f"h{i + 1}"
    return [
        *found,
        node("ReduceMean", [x, "one"], ["mean"], name="mean", keepdims=0),
        node("Gemm", ["mean", "gemm.w", "gemm.b"], ["logits"], name="gemm"),
    ]


def constants() -> list[onnx.NodeProto]:
    """The axis of the tokens, how heads are split and joined, and 1 / sqrt(depth)."""
    return [
        helper.make_node("Constant", [], ["one"], value_ints=[1]),
        helper.make_node("Constant", [], ["split"], value_ints=[0, 0, HEADS, DEPTH]),
        helper.make_node("Constant", [], ["joined"], value_ints=[0, 0, WIDTH]),
        helper.make_node("Constant", [], ["scale"], value_float=DEPTH**-0.5),
    ]


def affine(name: str, x: str) -> list[onnx.NodeProto]:
    """x w + b, called `name`."""
    return [
        helper.make_node("MatMul", [x, f"{name}.w"], [f"{name}.product"], name=f"{name}.product"),
        helper.make_node("Add", [f"{name}.product", f"{name}.b"], [name], name=name),
    ]


def head(name: str, x: str) -> list[onnx.NodeProto]:
    """x w + b with its heads apart; the keys with tokens last."""
    order = [0, 2, 3, 1] if name.startswith("k") else [0, 2, 1, 3]
    return [
        *affine(name, x),
        helper.make_node("Reshape", [name, "split"], [f"{name}.split"], name=f"{name}.split"),
        helper.make_node("Transpose", [f"{name}.split"], [f"{name}.heads"], perm=order),
    ]


def normalization(name: str, x: str) -> onnx.NodeProto:
    """The layer normalization of x."""
    inputs = [x, f"{name}.scale", f"{name}.b"]
    return helper.make_node("LayerNormalization", inputs, [name], name=name, epsilon=EPSILON)
