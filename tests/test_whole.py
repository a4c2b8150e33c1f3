"""Control flow compiled as a whole: branches and loops that are decided by what is fed."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx.parser
import pytest
from backend_suite import assert_equal_bytes

from sardonyx.engines import StagedEngine, make_engine
from sardonyx.errors import Undetermined
from sardonyx.graph import Graph
from sardonyx.loading import load
from sardonyx.machine import Machine
from sardonyx.passes.branches import taken
from sardonyx.passes.lower import lower
from sardonyx.programs import OFTEN

TWO_IFS = """
  wide = Constant<value = int64 {2}>()
  c = Equal(k, wide)
  a = If(c) <then_branch = t () => (float[n, 4] u) { h = Neg(x) u = Concat<axis = 1>(h, x) },
             else_branch = e () => (float[n, 2] v) { h = Abs(x) v = Identity(h) }>
  d = Not(c)
  b = If(d) <then_branch = t2 () => (float[n, 2] u2) { h = Exp(x) u2 = Neg(h) },
             else_branch = e2 () => (float[n, 2] v2) { v2 = Identity(x) }>
  y = Concat<axis = 1>(a, b)
"""
WHILE = """
  size = Shape(x)
  zero = Constant<value = int64 {0}>()
  n = Gather(size, zero)
  go = Less(zero, n)
  i, s, rows = Loop("", go, zero, x0) <body = b (int64 j, bool c, int64 i, float[2] s)
      => (bool d, int64 k, float[2] r, float[2] w) {
    one = Constant<value = int64 {1}>()
    row = Gather(x, i)
    r = Add(s, row)
    w = Mul(r, r)
    k = Add(i, one)
    d = Less(k, n)
  }>
"""
SCAN = """
  axis = Constant<value = int64[1] {-1}>()
  y = Scan(x) <num_scan_inputs = 1, body = b (float[2] row) => (float[2, 1] r) {
    r = Unsqueeze(row, axis)
  }>
"""


def graph_of(sign: str, body: str) -> Graph:
    text = f'<ir_version: 10, opset_import: ["": 21]> g {sign} {{ {body} }}'
    return load(onnx.parser.parse_model(text))


def assert_machine_s(graph: Graph, engine: Any, feeds: dict[str, Any]) -> None:
    found, expected = engine.run(feeds), Machine(graph).run(feeds)
    assert_equal_bytes(list(found.values()), list(expected.values()))


@pytest.mark.parametrize("k", [1, 2])
def test_a_branch_that_an_input_decides_is_compiled_with_the_rest(k: int) -> None:
    graph = graph_of("(int64 k, float[n, 2] x) => (float[n, m] y)", TWO_IFS)
    engine = make_engine(graph, "native")
    assert isinstance(engine, StagedEngine)
    feeds = {"k": np.array(k), "x": np.float32([[1, -2], [3, -4]])}
    for _ in range(3):
        assert_machine_s(graph, engine, feeds)
    assert engine.quick(feeds) is not None
    assert engine.quick({**feeds, "k": np.array(3 - k)}) is None
    assert_machine_s(graph, engine, {**feeds, "k": np.array(3 - k)})


def test_a_while_loop_that_sizes_end_is_one_program() -> None:
    sign = "(float[n, 2] x, float[2] x0) => (int64 i, float[2] s, float[m, 2] rows)"
    graph = graph_of(sign, WHILE)
    engine = make_engine(graph, "native")
    assert isinstance(engine, StagedEngine)
    feeds = {"x": np.arange(10, dtype=np.float32).reshape(5, 2), "x0": np.float32([1, 2])}
    assert_machine_s(graph, engine, feeds)
    assert engine.quick(feeds) is not None


def test_other_sizes_are_compiled_as_a_whole_when_they_come_often() -> None:
    graph = graph_of("(int64 k, float[n, 2] x) => (float[n, m] y)", TWO_IFS)
    engine = make_engine(graph, "native")
    assert isinstance(engine, StagedEngine)
    counts = []
    for size in (1, 2, 3, *[4] * (OFTEN + 1)):
        feeds = {"k": np.array(2), "x": np.full((size, 2), size, np.float32)}
        assert_machine_s(graph, engine, feeds)
        counts.append(engine.quick(feeds) is not None)
    assert counts[0]
    assert not counts[3]
    assert counts[-1]


def test_what_a_subgraph_captures_is_known_in_it() -> None:
    graph = graph_of("(float[3, 2] x) => (float[3, 2, 1] y)", SCAN)
    assert lower(graph).launches


def test_the_branch_that_is_not_taken_may_break_rules() -> None:
    body = """
      c = Constant<value = bool {1}>()
      parts = Constant<value = int64[2] {4, -1}>()
      y = If(c) <then_branch = t () => (float[3] a) { a = Neg(x) },
                 else_branch = e () => (float[4] b) { b, d = Split(x, parts) }>
    """
    graph = taken(graph_of("(float[3] x) => (float[3] y)", body))
    assert [op.op_type for op in graph.operations if op.op_type != "Constant"] == [
        "Neg",
        "Identity",
    ]


def test_a_loop_that_does_not_end_is_not_counted() -> None:
    body = """
      go = Constant<value = bool {1}>()
      y, s = Loop("", go, x) <body = b (int64 j, bool c, float[2] v)
          => (bool d, float[2] w, float[2] r) { w = Neg(v) r = Identity(v) d = Identity(c) }>
    """
    with pytest.raises(Undetermined, match="more than"):
        lower(graph_of("(float[2] x) => (float[2] y, float[m, 2] s)", body))
