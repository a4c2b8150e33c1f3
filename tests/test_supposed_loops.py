"""Loops and scans of a symbolic length are one program, and so is a body whose carried values grow
(supposed.py, passes/lower.py)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from backend_suite import assert_equal_bytes
from test_whole import assert_machine_s, graph_of

from sardonyx.engines import StagedEngine, make_engine
from sardonyx.graph import Graph
from sardonyx.native import NativeEngine

SCAN = """
  h, y = Scan(h0, x, z) <num_scan_inputs = 2, scan_input_directions = [0, 1],
      body = b (float[B, 3] h, float[B, 3] u, float[B, 3] v) => (float[B, 3] g, float[B, 3] w) {
    s = Mul(h, u)
    g = Add(s, v)
    w = Tanh(g)
  }>
"""
LOOP = """
  size = Shape(x)
  zero = Constant<value = int64 {0}>()
  n = Gather(size, zero)
  h, y = Loop(n, "", h0) <body = b (int64 i, bool c, float[B, 3] h)
      => (bool d, float[B, 3] g, float[B, 3] w) {
    d = Identity(c)
    u = Gather(x, i)
    s = Mul(h, u)
    g = Add(s, u)
    w = Tanh(g)
  }>
"""
GROWING = """
  trips = Constant<value = int64 {9}>()
  k, v, y = Loop(trips, "", k0, k0) <body = b (int64 i, bool c, float[1, n, 3] k, float[1, m, 3] v)
      => (bool d, float[1, p, 3] k1, float[1, q, 3] v1, float[1, 1, 3] w) {
    d = Identity(c)
    k1 = Concat<axis = 1>(k, x)
    v1 = Concat<axis = 1>(v, x)
    t = Transpose<perm = [0, 2, 1]>(k1)
    s = MatMul(x, t)
    a = Softmax(s)
    w = MatMul(a, v1)
  }>
"""
HEADS = {
    "scan": ("(float[B, 3] h0, float[T, B, 3] x, float[U, B, 3] z)", SCAN),
    "loop": ("(float[B, 3] h0, float[T, B, 3] x)", LOOP),
}


def graph(form: str) -> Graph:
    inputs, body = HEADS[form]
    return graph_of(f"{inputs} => (float[B, 3] h, float[T, B, 3] y)", body)


def fed(form: str, t: int, b: int = 2) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(t)
    shapes = {"h0": (b, 3), "x": (t, b, 3), **({"z": (t, b, 3)} if form == "scan" else {})}
    return {n: rng.standard_normal(shape).astype(np.float32) for n, shape in shapes.items()}


def staged(graph: Graph) -> StagedEngine:
    engine = make_engine(graph, "native")
    assert isinstance(engine, StagedEngine)
    return engine


@pytest.mark.parametrize("form", HEADS)
def test_one_program_serves_all_lengths(form: str) -> None:
    engine = staged(graph(form))
    for t in (3, 1, 7, 20):
        engine.run(fed(form, t))
    assert len(engine._programs.wide) == 1
    assert not engine._programs.made


@pytest.mark.parametrize("form", HEADS)
def test_it_gives_the_machine_s_bits(form: str) -> None:
    made = graph(form)
    engine = staged(made)
    for t, b in ((3, 2), (1, 2), (20, 2), (0, 2), (5, 1), (2, 2)):
        assert_machine_s(made, engine, fed(form, t, b))


def test_a_body_whose_carried_values_grow_is_compiled_a_few_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[Any] = []
    original = NativeEngine._compile

    def compile_(self: NativeEngine, graph: Graph, overridden: bool) -> Any:
        made = original(self, graph, overridden)
        compiled.append(made)
        return made

    monkeypatch.setattr(NativeEngine, "_compile", compile_)
    made = graph_of("(float[1, 1, 3] x, float[1, N, 3] k0) => (float[a, b, c, d] y)", GROWING)
    feeds = {"x": np.ones((1, 1, 3), np.float32), "k0": np.zeros((1, 0, 3), np.float32)}
    staged(made).run(feeds)
    assert len(compiled) <= 3


def test_a_growing_cache_gives_the_machine_s_bits_again_and_again() -> None:
    made = graph_of("(float[1, 1, 3] x, float[1, N, 3] k0) => (float[a, b, c, d] y)", GROWING)
    engine = staged(made)
    for n in (0, 0, 2, 1, 0):
        rng = np.random.default_rng(n)
        shapes = {"x": (1, 1, 3), "k0": (1, n, 3)}
        feeds = {k: rng.standard_normal(s).astype(np.float32) for k, s in shapes.items()}
        assert_machine_s(made, engine, feeds)


def test_a_body_answers_feeds_of_other_sizes_after_the_short_way() -> None:
    """The second run of each length goes the short way through the body."""
    made = graph_of("(float[1, 1, 3] x, float[1, N, 3] k0) => (float[a, b, c, d] y)", GROWING)
    engine = staged(made)
    x, wide = np.ones((1, 1, 3), np.float32), np.ones((1, 4, 3), np.float32)
    first = [engine.run({"x": x, "k0": wide[:, :n]})["y"] for n in (1, 4, 1)]
    assert_equal_bytes([first[0]], [first[2]])
