"""Tokens one after the other, each with the keys and values of those before it: no two runs of a
generation have the same sizes.

    python -m benchmarks.generation [--tokens 64] [--core 0] [NAME ...]

Sardonyx and onnxruntime take turns token by token, each with a cache of its own. In the first
generation of a process every size is new; the second has the sizes of the first.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from benchmarks.net import Net
from benchmarks.sequences import Size, gpt2
from sardonyx.measure.peers import PEERS, Run, Subject

WIDTH, HEADS, SHARED, INNER, LAYERS = 768, 12, 4, 2048, 4  # of `grouped`
PART, PLACES, BLOCK, VOCABULARY = WIDTH // HEADS, 1024, 32, 8192
PROMPT = 100  # tokens that come at once, or are taken to have come


def growing() -> onnx.ModelProto:
    """GPT-2 (12 layers, width 768) for one token after any number of others."""
    size = Size(12, 1, 768, 12)
    model = gpt2(size, PROMPT)
    for x in (*model.graph.input, *model.graph.output):
        dims = x.type.tensor_type.shape.dim
        if len(dims) == 4:
            dims[2].dim_param = {PROMPT: "past", PROMPT + 1: "total"}[dims[2].dim_value]
    return model


def grouped() -> onnx.ModelProto:
    """A decoder as onnxruntime-genai exports them: weights of 4 bits, GroupQueryAttention with
    rotary positions, the prompt and each token by the same graph."""
    net = Net()
    angles = np.outer(np.arange(PLACES), 1e4 ** -(np.arange(0, PART, 2) / PART))
    caches = [net.weight(f(angles).astype("f")) for f in (np.cos, np.sin)]
    x = net.op("Gather", net.weight(net.normal((VOCABULARY, WIDTH), 0.5)), "ids")
    given: dict[str, list[Any]] = {"ids": [1, "tokens"], "ends": [1], "total": []}
    results: dict[str, list[Any]] = {}
    for layer in range(LAYERS):
        y = _norm(net, x)
        qkv = [_product(net, y, WIDTH, n * PART) for n in (HEADS, SHARED, SHARED)]
        past = [f"keys{layer}", f"values{layer}"]
        mixed, *now = net.ops(
            "GroupQueryAttention", *qkv, *past, "ends", "total", *caches, count=3,
            domain="com.microsoft", num_heads=HEADS, kv_num_heads=SHARED, do_rotary=1,
        )  # fmt: skip
        given |= {n: [1, SHARED, "past", PART] for n in past}
        results |= {n: [1, SHARED, "all", PART] for n in now}
        x = net.op("Add", x, _product(net, mixed, WIDTH, WIDTH))
        y = _norm(net, x)
        gate, up = (_product(net, y, WIDTH, INNER) for _ in range(2))
        y = net.op("Mul", net.op("Mul", gate, net.op("Sigmoid", gate)), up)
        x = net.op("Add", x, _product(net, y, INNER, WIDTH))
    y = _product(net, _norm(net, x), WIDTH, VOCABULARY)
    kinds = {"ids": TensorProto.INT64, "ends": TensorProto.INT32, "total": TensorProto.INT32}
    return net.model(
        given, {y: [1, "tokens", VOCABULARY], **results}, kinds, com_microsoft=1
    )  # fmt: skip


def _norm(net: Net, x: str) -> str:
    scale = net.weight(np.ones(WIDTH, "f"))
    return net.op("SimplifiedLayerNormalization", x, scale, axis=-1, epsilon=1e-5)


def _product(net: Net, x: str, rows: int, columns: int) -> str:
    shape = columns, rows // BLOCK, BLOCK // 2
    weights = net.weight(net.random.integers(0, 256, shape, np.uint8))
    scales = net.weight(net.random.uniform(0, 0.16 * rows**-0.5, shape[0] * shape[1]).astype("f"))
    return net.op(
        "MatMulNBits", x, weights, scales,
        domain="com.microsoft", K=rows, N=columns, bits=4, block_size=BLOCK,
    )  # fmt: skip


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {"growing": growing, "grouped": grouped}


def generate(path: Path, runs: Mapping[str, Run], tokens: int) -> dict[str, list[float]]:
    """Of each engine the CPU's milliseconds of each run: the prompt's first, if the graph takes
    one. The engines have to agree on every token's numbers at rtol 1e-3."""
    inputs = {x.name: x for x in onnx.load(path, load_external_data=False).graph.input}
    cached = [n for n in inputs if n.startswith(("keys", "values"))]
    prompt = PROMPT if "total" in inputs else 1
    held = 0 if "total" in inputs else PROMPT
    caches = {e: {n: _cache(inputs[n], held) for n in cached} for e in runs}
    times: dict[str, list[float]] = {e: [] for e in runs}
    for k in range(tokens + 1):
        new = prompt if k == 0 else 1
        held += new
        made = {}
        for engine, run in runs.items():
            feeds = {"ids": np.full((1, new), k % VOCABULARY, np.int64), **caches[engine]}
            if "total" in inputs:
                feeds |= {"ends": np.array([held - 1], np.int32), "total": np.array(held, np.int32)}
            start = time.process_time()
            made[engine], *now = run(feeds)
            times[engine].append(1e3 * (time.process_time() - start))
            caches[engine] = dict(zip(cached, now, strict=True))
        for y in made.values():
            np.testing.assert_allclose(y, made["sardonyx"], rtol=1e-3, atol=1e-3)
    return times


def _cache(x: onnx.ValueInfoProto, held: int) -> np.ndarray:
    dims = x.type.tensor_type.shape.dim
    return np.zeros([1, dims[1].dim_value, held, dims[3].dim_value], np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generation")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(MODELS))
    asked = parser.parse_args()
    os.sched_setaffinity(0, {asked.core})
    print("| model, generation | Sardonyx: prompt, token | onnxruntime | of the token |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in asked.names:
            path = Path(folder) / f"{name}.onnx"
            onnx.save(MODELS[name](), path)
            subject = Subject(str(path))
            runs = {e: PEERS[e](subject) for e in ("sardonyx", "onnxruntime")}
            for which in ("first", "second", "third"):
                print(_row(f"{name}, {which}", generate(path, runs, asked.tokens)), flush=True)


def _row(name: str, times: Mapping[str, list[float]]) -> str:
    """Prompt, median (mean) of a token, for each engine; the ratio."""
    cells = [f"{t[0]:.3g}, {np.median(t[1:]):.3g} ({np.mean(t[1:]):.3g})" for t in times.values()]
    ours, theirs = (np.array(times[e][1:]) for e in ("sardonyx", "onnxruntime"))
    ratio = f"{np.median(theirs) / np.median(ours):.2f} ({theirs.mean() / ours.mean():.2f})"
    return f"| {name} | {' | '.join(cells)} | {ratio} |"


if __name__ == "__main__":
    main()
