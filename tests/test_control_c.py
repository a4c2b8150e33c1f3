"""If, Loop and Scan as C: one compiled program, and the machine's bytes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from sardonyx.cli import main
from sardonyx.engines import make_engine
from sardonyx.errors import InvalidModel, RunError
from sardonyx.loading import load
from sardonyx.machine import Machine
from sardonyx.native import NativeEngine

X = np.array([0.5, -2, 0, 3], np.float32)
BRANCHES = """
  y = If(c) <then_branch = t () => (float[4] p) {
      p = If(e) <then_branch = tt () => (float[4] q) { q = Add(x, x) },
                 else_branch = te () => (float[4] r) { r = Neg(x) }>
    }, else_branch = f () => (float[4] o) { o = Identity(x) }>
"""
SUMS = """
  m = Constant<value = int64 {5}>()
  y, s = Loop(m, , x) <body = b (int64 i, bool c, float[4] v) => (bool d, float[4] w, float[4] t) {
    k = Cast<to = 1>(i)
    u = Add(v, x)
    w = Mul(u, k)
    t = Sub(w, v)
    d = Identity(c)
  }>
"""
UNTIL = """
  y, z = Loop(n, , x, x) <body = b (int64 i, bool c, float[4] v, float[4] o)
                                => (bool d, float[4] w, float[4] p) {
    w = Add(v, x)
    p = Identity(v)
    k = ReduceMax<keepdims = 0>(w)
    d = Less(k, top)
  }>
  r = Relu(y)
"""
LOOPS = """
  y = Loop(n, , x) <body = b (int64 i, bool c, float[4] v) => (bool d, float[4] w) {
    w = Loop(i, , v) <body = e (int64 j, bool f, float[4] a) => (bool g, float[4] h) {
      h = Add(a, x)
      g = Identity(f)
    }>
    d = Identity(c)
  }>
"""
SCAN = """
  y, t = Scan<num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [-1],
              scan_input_directions = [1], scan_output_directions = [1],
              body = b (float[2] s, float[2] r) => (float[2] u, float[2] v) {
    u = Add(s, r)
    v = Sub(s, r)
  }>(z, x)
"""
CONV = """
  y = If(c) <then_branch = t () => (float[1, 4, 6, 6] p) { q = Conv(i, w) p = Relu(q) },
             else_branch = f () => (float[1, 4, 6, 6] o) { a = Conv(i, w) o = Tanh(a) }>
  z = Conv(y, v)
"""
rng = np.random.default_rng(0)
IMAGE = {
    "i": rng.standard_normal((1, 3, 8, 8), np.float32),
    "w": rng.standard_normal((4, 3, 3, 3), np.float32),
    "v": rng.standard_normal((2, 4, 1, 1), np.float32),
}
YES, NO = np.array(True), np.array(False)
COUNTED = "(float[4] x, int64 n) => (float[4] y)"
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "then, else": (
        "(bool c, bool e, float[4] x) => (float[4] y)", BRANCHES, {"c": YES, "e": NO, "x": X}
    ),
    "else": ("(bool c, bool e, float[4] x) => (float[4] y)", BRANCHES, {"c": NO, "e": NO, "x": X}),
    "a loop with scanned sums": ("(float[4] x) => (float[4] y, float[5, 4] s)", SUMS, {"x": X}),
    "a loop that ends early": (
        "(float[4] x, int64 n, float top) => (float[4] r, float[4] z)",
        UNTIL,
        {"x": X, "n": np.array(100), "top": np.array(20, np.float32)},
    ),
    "no iteration": (
        "(float[4] x, int64 n, float top) => (float[4] r, float[4] z)",
        UNTIL,
        {"x": X, "n": np.array(-3), "top": np.array(20, np.float32)},
    ),
    "a loop in a loop": (COUNTED, LOOPS, {"x": X, "n": np.array(4)}),
    "a scan of columns, backwards": (
        "(float[2] z, float[2, 3] x) => (float[2] y, float[2, 3] t)",
        SCAN,
        {"z": X[:2], "x": np.arange(6, dtype=np.float32).reshape(2, 3)},
    ),
    "convolutions in and after branches": (
        "(bool c, float[1,3,8,8] i, float[4,3,3,3] w, float[2,4,1,1] v) => (float[1,2,6,6] z)",
        CONV,
        {"c": NO, **IMAGE},
    ),
}  # fmt: skip


def model(sign: str, body: str) -> onnx.ModelProto:
    text = f'<ir_version: 10, opset_import: ["": 21]> g {sign} {{ {body} }}'
    return onnx.parser.parse_model(text)


@pytest.mark.parametrize("schedule", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_compiled_control_flow_gives_the_bytes_of_the_machine(name: str, schedule: bool) -> None:
    sign, body, feeds = CASES[name]
    graph = load(model(sign, body))
    expected = Machine(graph).run(feeds)
    found = NativeEngine(graph, schedule=schedule).run(feeds)
    assert {n: v.tobytes() for n, v in found.items()} == {
        n: v.tobytes() for n, v in expected.items()
    }


def test_the_whole_graph_is_one_program_where_all_sizes_are_known() -> None:
    sign, body, _ = CASES["a loop in a loop"]
    assert isinstance(make_engine(load(model(sign, body)), "native"), NativeEngine)


@pytest.mark.parametrize("before", ["w = Identity(x)", "v = Neg(x) u = Softmax(v) w = Exp(u)"])
def test_a_trap_in_a_branch_names_the_control_flow(before: str) -> None:
    body = f"""{before} y = If(c) <then_branch = t () => (float[1] p) {{ p = Gather(w, i) }},
      else_branch = f () => (float[1] q) {{ q = Gather(w, i) }}>"""
    graph = load(model("(bool c, float[4] x, int64[1] i) => (float[1] y)", body))
    with pytest.raises(RunError, match="If"):
        NativeEngine(graph).run({"c": YES, "x": X, "i": np.array([9])})


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("name", ["then, else", "a loop with scanned sums"])
def test_an_exported_folder_with_control_flow_passes_its_test(
    name: str, compiler: str, tmp_path: Path
) -> None:
    sign, body, feeds = CASES[name]
    onnx.save(model(sign, body), tmp_path / "net.onnx")
    np.savez(tmp_path / "net.npz", **feeds)
    folder = tmp_path / "c"
    arguments = ["compile", str(tmp_path / "net.onnx"), "--input", str(tmp_path / "net.npz")]
    assert main([*arguments, "-o", str(folder)]) == 0
    flags = "-std=c99 -O1 -pedantic -Wall -Wextra -Werror -fsanitize=address,undefined"
    more = f"{flags} -fno-sanitize-recover=all -ffp-contract=off -fno-strict-aliasing"
    command = ["make", "-C", str(folder), "test", f"CC={compiler}", f"CFLAGS={more}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


STEP = """y = Loop(n, "", x) <body = b (int64 i, bool c, float[4] v) => (d, float[4] w) {
    w = Neg(v)
    d = COND
  }>"""
WRONG = {
    "a condition of two": ("bool[2] c", BRANCHES.replace("If(e)", "If(c)"), np.ones(2, bool)),
    "a trip count of two": ("int64[2] n", STEP.replace("COND", "Identity(c)"), np.ones(2, int)),
    "two conditions of a body": (
        "int64 n", STEP.replace("COND", "Constant<value = bool[2] {1, 1}>()"), np.array(3)
    ),
    "a condition of a body that is a number": (
        "int64 n", STEP.replace("COND", "ReduceSum<keepdims = 0>(v)"), np.array(3)
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["machine", "native"])
@pytest.mark.parametrize("name", WRONG)
def test_what_decides_how_often_something_runs_is_one_element(name: str, kind: Any) -> None:
    given, body, value = WRONG[name]
    engine = make_engine(load(model(f"({given}, float[4] x) => (float[4] y)", body)), kind)
    with pytest.raises(RunError, match=r"one boolean|expected one"):
        engine.run({given.split()[1]: value, "x": X})


DIRECTIONS = {
    "[1, 1]": "directions has 2 numbers, expected 1",
    "[2]": "directions has 2, expected 0",
}


@pytest.mark.parametrize("kind", ["machine", "native"])
@pytest.mark.parametrize("given", DIRECTIONS)
def test_directions_of_a_scan_are_0_or_1_for_each(given: str, kind: Any) -> None:
    body = SCAN.replace("directions = [1]", f"directions = {given}")
    graph = load(model("(float[2] z, float[2, 3] x) => (float[2] y, float[2, 3] t)", body))
    with pytest.raises(InvalidModel, match=DIRECTIONS[given]):
        make_engine(graph, kind).run({"z": X[:2], "x": np.ones((2, 3), np.float32)})


def test_a_body_without_outputs_is_refused() -> None:
    body = """y = Loop(n, "", x) <body = b (int64 i, bool c, float[4] v) => () { d = Neg(v) }>"""
    with pytest.raises(InvalidModel, match=r"body of Loop '#0'.*no outputs"):
        load(model(COUNTED, body))
