"""What loops hand on unchanged, and weights that lie in the subgraphs that read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from test_stages import both, model, theirs

from sardonyx.engines import StagedEngine, make_engine
from sardonyx.graph import Graph, Operation
from sardonyx.loading import load
from sardonyx.native import NativeEngine
from sardonyx.passes.carried import lightened
from sardonyx.passes.lower import lower
from sardonyx.types import Array

W = "float[2, 2] w = {1, 2, -1, 0.5}"
X = np.array([1, 2], np.float32)
LOOP = """
  m = Constant<value = int64 {TRIPS}>()
  one = Unsqueeze(x, zero)
  y, same = Loop(m, , one, w) <body = b (int64 i, bool c, float[1, 2] v, float[2, 2] k)
                              => (bool d, float[1, 2] u, float[2, 2] kept) {
    u = MatMul(v, k)
    d = Identity(c)
    kept = Identity(k)
  }>
"""
SCAN = """
  last, same, y = Scan<num_scan_inputs = 1, body = b (float a, float[2, 2] k, float e)
                       => (float s, float[2, 2] k, float[2, 2] row) {
    s = Add(a, e)
    row = Mul(k, s)
  }>(start, w, x)
"""
COUNTED = """
  on = Constant<value = bool {1}>()
  y = Loop(m, on, at) <body = b (int64 i, bool c, int64[1] p)
                       => (bool d, int64[1] next, float[k] part) {
    small = Cast<to = 1>(p)
    more = Add(small, small_one)
    next = Cast<to = 7>(more)
    part = Slice(x, p, next)
    d = Identity(c)
  }>
"""


def looping(trips: int = 3, more: str = "") -> onnx.ModelProto:
    """A product with a weight, which the loop carries."""
    sign = f"(float[2] x) => (float[1, 2] y, float[2, 2] same) <{W}, int64[1] zero = {{0}}>"
    return model(sign, LOOP.replace("TRIPS", str(trips)) + more)


def only(graph: Graph, name: str) -> Operation:
    (found,) = (op for op in graph.operations if op.op_type == name)
    return found


def check(proto: onnx.ModelProto, feeds: dict[str, Any]) -> None:
    for ours, other in zip(both(proto, feeds), theirs(proto, feeds), strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-6)


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_a_weight_that_a_loop_carries_is_the_body_s(trips: int) -> None:
    graph = lightened(load(looping(trips)))
    loop = only(graph, "Loop")
    assert loop.inputs == ("m", "", "one")
    assert list(loop.subgraphs["body"].initializers) == []  # the output reads it as well
    assert only(graph, "Identity").outputs == ("same",)
    check(looping(trips), {"x": X})


def test_a_weight_that_a_loop_alone_reads_is_its_body_s() -> None:
    proto = looping()
    del proto.graph.output[1]
    graph = lightened(load(proto))
    body = only(graph, "Loop").subgraphs["body"]
    assert [v.shape for v in body.initializers.values()] == [(2, 2)]
    assert "w" not in lower(load(proto)).weights
    check(proto, {"x": X})


def test_a_state_that_a_scan_hands_on() -> None:
    """onnxruntime gives zeros for it (docs/disagreements.md)."""
    sign = "(float[2] x) => (float last, float[2, 2] same, float[2, 2, 2] y)"
    proto = model(f"{sign} <{W}, float start = {{0}}>", SCAN)
    scan = only(lightened(load(proto)), "Scan")
    assert (scan.inputs, len(scan.subgraphs["body"].outputs)) == (("start", "x"), 2)
    last, same, y = both(proto, {"x": X})
    w = np.array([[1, 2], [-1, 0.5]], np.float32)
    for found, expected in ((last, np.float32(3)), (same, w), (y, np.stack([w, 3 * w]))):
        np.testing.assert_array_equal(found, expected)


def test_a_state_that_changes_stays() -> None:
    proto = looping()
    body = next(n for n in proto.graph.node if n.op_type == "Loop").attribute[0].g
    next(n for n in body.node if "kept" in n.output).op_type = "Neg"
    graph = load(proto)
    assert len(only(lightened(graph), "Loop").inputs) == 4
    check(proto, {"x": X})


def test_weights_that_both_branches_read_stay_outside() -> None:
    sign = f"(bool c, float[1, 2] x) => (float[1, 2] y) <{W}, float[2, 2] own = {{1, 1, 2, 2}}>"
    proto = model(
        sign,
        """y = If(c) <then_branch = t () => (float[1, 2] a) { b = MatMul(x, w) a = MatMul(b, own) },
                      else_branch = e () => (float[1, 2] z) { z = MatMul(x, w) }>""",
    )
    graph = lightened(load(proto))
    branches = only(graph, "If").subgraphs
    assert (list(branches["then_branch"].initializers), list(graph.initializers)) == (
        ["own"],
        ["w"],
    )
    for c in (True, False):
        check(proto, {"c": np.array(c), "x": X[None]})


def made_for(trips: Array) -> int:
    """How many programs are made for a loop of as many iterations, each with other sizes to be."""
    sign = "(int64 m, float[20] x) => (int64[1] end, float[n, k] y)"
    sign += " <int64[1] at = {0}, float[1] small_one = {1}>"
    proto = model(sign, COUNTED.replace("y = Loop", "end, y = Loop"))
    graph, x = load(proto), np.arange(20, dtype=np.float32)
    parts: list[Graph] = []

    def make(part: Graph) -> NativeEngine:
        parts.append(part)
        return NativeEngine(part)

    engine = StagedEngine(lightened(graph), make)
    found = engine.run({"m": trips, "x": x})["y"]
    np.testing.assert_array_equal(found, x[: int(trips), None])
    assert found.tobytes() == make_engine(graph, "machine").run({"m": trips, "x": x})["y"].tobytes()
    return len(parts) + sum(len(e._special) for e in engine._runner.all_made())


def test_iterations_whose_values_decide_sizes_share_programs() -> None:
    assert made_for(np.array(4)) == made_for(np.array(15))


@pytest.mark.parametrize("c", [True, False])
def test_constants_of_branches_that_go_by_stages(c: bool) -> None:
    """A size that data decide keeps the branch from being one program; int32 stays int32."""
    sign = "(bool c, float[4] x) => (float[n] y, int32[k] z)"
    proto = model(
        sign,
        """y, z = If(c) <then_branch = t () => (float[a] u, int32[b] v) {
             start = Constant<value = int32[1] {1}>()
             at = NonZero(x)
             row = Squeeze(at)
             picked = Gather(x, row)
             u = Mul(picked, picked)
             v = Add(start, start)
           }, else_branch = e () => (float[d] p, int32[q] r) {
             scale = Constant<value = float[4] {1, 2, 3, 4}>()
             r = Constant<value = int32[2] {7, 8}>()
             p = Mul(x, scale)
           }>""",
    )
    check(proto, {"c": np.array(c), "x": np.array([0, 1, -2, 0], np.float32)})


@pytest.mark.parametrize("result", ["float[2] y", "y"])
def test_a_loop_that_gives_only_what_it_hands_on(result: str) -> None:
    body = """zero = Constant<value = int64 {0}>()
    n = Max(m, zero)
    y = Loop(n, "", x) <body = b (int64 i, bool c, v) => (bool d, w) {
      three = Constant<value_int = 3>() d = Less(i, three) w = Identity(v) }>"""
    proto = model(f"(int64 m, float[2] x) => ({result})", body)
    check(proto, {"m": np.array(5), "x": X})
