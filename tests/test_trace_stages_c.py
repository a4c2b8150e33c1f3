"""Traces of compiled programs with control flow: those of the machine."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest

from sardonyx.cli import main
from sardonyx.emit import emit
from sardonyx.errors import UnsupportedModel
from sardonyx.graph import Graph
from sardonyx.loading import load
from sardonyx.stages import is_staged
from sardonyx.trace import Subject, check, read
from sardonyx.trace.observe_stages import observed_stages
from sardonyx.types import Array
from tests.test_control_c import CASES as CONTROL
from tests.test_control_c import model
from tests.test_trace_c import STRICT, compiler, machines, traced
from tests.test_trace_stages import HEAD, TRAPS

NESTED = """
  twice = Add (x, x)
  five = Constant <value = int64 {5}> ()
  y, s = Loop (five, , x) <body = b (int64 i, bool c, float[3] v)
    => (bool d, float[3] w, float[3] o) <float[3] step = {0.5, 0.5, 0.5}> {
    d = Identity (c)
    sum = ReduceSum <keepdims = 0> (v)
    large = Greater (sum, top)
    w = If (large) <
      then_branch = th () => (float[3] p) { p = Sub (v, twice) },
      else_branch = el () => (float[3] q) <float[3] more = {1, 2, 3}> {
        h = Add (v, more)
        inner = Loop (i, , h) <body = e (int64 j, bool f, float[3] a) => (bool g, float[3] k) {
          k = Log (a)
          g = Identity (f)
        }>
        q = Add (inner, step)
      }
    >
    o = Neg (w)
  }>
  z = Relu (s)
"""
WRAPS = """
  n = Constant <value = int64 {3}> ()
  y, s = Loop (n, , x) <body = b (int64 i, bool c, int8[2] v) => (bool c, int8[2] w, int8[2] v) {
    w = Mul (v, v)
  }>
  u = Div (y, zero)
"""
PACKED = """
  y, t = Scan <num_scan_inputs = 1, body = b (int4[3] s, int4[3] r) => (int4[3] u, int4[3] v) {
    u = Identity (r)
    v = Identity (s)
  }> (z, x)
"""
X = np.array([1.5, -2, 3], np.float32)
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    **CONTROL,
    "nested": (
        "(float[3] x, float top) => (float[3] y, float[5, 3] z)",
        NESTED,
        {"x": X, "top": np.array(4, np.float32)},
    ),
    "wraps and divides by zero": (
        "(int8[2] x, int8[2] zero) => (int8[2] y, int8[3, 2] s, int8[2] u)",
        WRAPS,
        {"x": np.array([1, 3], np.int8), "zero": np.array([0, 1], np.int8)},
    ),
    "rows that begin within a byte": (
        "(int4[3] z, int4[4, 3] x) => (int4[3] y, int4[4, 3] t)",
        PACKED,
        {
            "z": np.array([1, -2, 3], ml_dtypes.int4),
            "x": np.arange(-6, 6).reshape(4, 3).astype(ml_dtypes.int4),
        },
    ),
}


def of_c(graph: Graph, feeds: Mapping[str, Array], folder: Path, flags: str = "") -> str:
    """What the program writes, compiled so that it may be observed."""
    made = observed_stages(graph, feeds, Subject())
    source = emit(made.program, made.plan, watched=made.watched)
    return traced(source, made.files, feeds, folder, f"-DSARDONYX_TRACE {flags}")


@pytest.mark.parametrize("name", CASES)
def test_the_trace_of_the_c_is_that_of_the_machine(name: str, tmp_path: Path) -> None:
    sign, body, feeds = CASES[name]
    graph = load(model(sign, body))
    assert is_staged(graph)
    found = of_c(graph, feeds, tmp_path)
    assert found == machines(graph, feeds)
    assert check(read(found)) == []


@pytest.mark.parametrize("name", ["nested", "rows that begin within a byte"])
def test_it_is_so_under_the_sanitizers(name: str, tmp_path: Path) -> None:
    sign, body, feeds = CASES[name]
    graph = load(model(sign, body))
    flags = "-g -fsanitize=address,undefined -fno-sanitize-recover=all"
    assert of_c(graph, feeds, tmp_path, flags) == machines(graph, feeds)


@pytest.mark.parametrize("turns", [0, 1, 4])
def test_a_trap_within_a_loop_is_told_of_every_operation_around_it(
    turns: int, tmp_path: Path
) -> None:
    graph = load(onnx.parser.parse_model(HEAD + TRAPS))
    feeds = {"x": X, "n": np.array(turns)}
    found = of_c(graph, feeds, tmp_path)
    assert found == machines(graph, feeds)
    whole = read(found)
    assert whole.footer["end"] == ("trapped" if turns > 1 else "complete")
    assert check(whole) == []


def test_flags_are_raised_in_each_turn(tmp_path: Path) -> None:
    sign, body, feeds = CASES["wraps and divides by zero"]
    whole = read(of_c(load(model(sign, body)), feeds, tmp_path))
    products = [s for s in whole.steps if s.operation["op_type"] == "Mul"]
    assert [s.flags["wrap"] for s in products] == [0, 0, 1]
    assert any(s.flags["division"] for s in whole.steps)


def test_one_program_serves_other_values(tmp_path: Path) -> None:
    sign, body, _ = CASES["nested"]
    graph = load(model(sign, body))
    feeds = {"x": -X, "top": np.array(-40, np.float32)}
    first = observed_stages(graph, CASES["nested"][2], Subject())
    source = emit(first.program, first.plan, watched=first.watched)
    found = traced(source, first.files, feeds, tmp_path, "-DSARDONYX_TRACE")
    assert found == machines(graph, feeds)


def test_without_the_macro_nothing_is_observed(tmp_path: Path) -> None:
    sign, body, feeds = CASES["nested"]
    made = observed_stages(load(model(sign, body)), feeds, Subject())
    source = emit(made.program, made.plan, watched=made.watched)
    for name, text in {**source.files(), **made.files}.items():
        (tmp_path / name).write_text(text)
    command = [compiler(), *STRICT.split(), "-c", "model.c", "observe.c"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert b"sx_tell" not in (tmp_path / "model.o").read_bytes()
    refused = subprocess.run([*command, "-DSARDONYX_MONITOR"], cwd=tmp_path, capture_output=True)
    assert b"use -DSARDONYX_TRACE" in refused.stderr


def test_sizes_that_data_decide_are_refused() -> None:
    rows = NESTED.replace("Loop (five,", "Loop (n,")
    sign = "(float[3] x, float top, int64 n) => (float[3] y, float[k, 3] z)"
    feeds = {**CASES["nested"][2], "n": np.array(5)}
    with pytest.raises(UnsupportedModel, match="C cannot write its trace"):
        observed_stages(load(model(sign, rows)), feeds, Subject())


def test_an_input_that_is_no_tensor_is_refused() -> None:
    """An optional is fed as an array, and is none of the graph's tensors."""
    text = "g (optional(float[2]) x) => (bool y) { y = OptionalHasElement (x) }"
    graph = load(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 18]> {text}'))
    with pytest.raises(UnsupportedModel, match="an input is no tensor of numbers"):
        observed_stages(graph, {"x": np.ones(2, np.float32)}, Subject())


def test_a_model_with_control_flow_is_exported_with_its_trace(tmp_path: Path) -> None:
    compiler()
    sign, body, feeds = CASES["nested"]
    path, run = str(tmp_path / "m.onnx"), tmp_path / "run.jsonl"
    onnx.save(model(sign, body), path)
    np.savez(tmp_path / "feeds.npz", **feeds)
    given = [path, "--input", str(tmp_path / "feeds.npz"), "-o"]
    assert main(["trace", *given, str(run)]) == 0
    assert main(["compile", *given, str(tmp_path / "c"), "--trace"]) == 0
    for target in ("test", "trace"):
        subprocess.run(["make", "-s", target], cwd=tmp_path / "c", check=True, capture_output=True)
    assert (tmp_path / "c" / "run.jsonl").read_bytes() == run.read_bytes()
