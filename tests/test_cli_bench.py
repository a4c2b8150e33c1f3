"""`sardonyx bench`: what is measured, and in what form it is told."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from sardonyx.cli import main
from sardonyx.loading import load
from sardonyx.measure.peers import Run, close, difference
from sardonyx.measure.rounds import SHORT, interleaved
from sardonyx.ort.events import events
from sardonyx.timed import timings
from sardonyx.types import Value

F = TensorProto.FLOAT
FIELDS = {"cat", "pid", "tid", "dur", "ts", "ph", "name", "args"}
NATIVE = pytest.mark.skipif(not shutil.which("cc"), reason="needs cc")


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """z = softmax(relu(x) + relu(x)), with a symbolic dim."""
    monkeypatch.chdir(tmp_path)
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Relu", ["x"], ["h"], name="positive"),
        helper.make_node("Add", ["h", "h"], ["y"], name="twice"),
        helper.make_node("Softmax", ["y"], ["z"], name="scores"),
    ]
    graph = helper.make_graph(nodes, "net", [info("x", F, ["N", 4])], [info("z", F, ["N", 4])])
    opsets = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=opsets), "net.onnx")
    return "net.onnx"


@pytest.fixture
def product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """y = x w, of 3 x 40 and 40 x 20."""
    monkeypatch.chdir(tmp_path)
    info = helper.make_tensor_value_info
    weights = onnx.numpy_helper.from_array(np.ones((40, 20), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [info("x", F, [3, 40])],
        [info("y", F, [3, 20])],
        [weights],
    )
    opsets = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=opsets), "product.onnx")
    return "product.onnx"


@NATIVE
def test_bench_tells_of_the_peaks_of_a_core(
    product: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--runs", "2", "--json", "all.json", "--markdown", "all.md"]
    assert main(["bench", product, *options]) == 0
    shown, figures = capsys.readouterr().out, json.loads(Path("all.json").read_text())
    assert figures["macs"] == 3 * 40 * 20
    assert figures["bytes"] == 4 * (3 * 40 + 40 * 20)
    assert min(figures["peak"], figures["reading"]) > 0
    ours = figures["runtimes"]["sardonyx"]
    share = 2e-9 * 2400 / ours["least_s"] / figures["peak"]
    assert ours["of_peak"] == pytest.approx(share)
    assert "work    2,400 multiply-adds" in shown
    head, *rows = (x for x in Path("all.md").read_text().splitlines() if x.startswith("|"))
    assert "| of peak | of reading |" in head
    assert len({row.count("|") for row in (head, *rows)}) == 1


@NATIVE
def test_bench_draws_the_roofline(product: str) -> None:
    pytest.importorskip("matplotlib")
    assert main(["bench", product, "--runs", "1", "--plot", "roof.svg"]) == 0
    assert "product" in Path("roof.svg").read_text()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--json", "nowhere/all.json"], "--json nowhere/all.json: expected a file"),
        (["--profile", "."], "--profile .: expected a file"),
        (["--threads", "-1"], "--threads -1: expected at least 1"),
        (["--threads", "99999"], "--threads 99999: expected 1 to 256"),
    ],
)
def test_bench_refuses_before_it_measures(
    net: str, options: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", net, "--dim", "N=3", *options]) != 0
    assert word in capsys.readouterr().err


@pytest.mark.usefixtures("machine_engine")
def test_bench_writes_figures_and_a_profile(net: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--dim", "N=3", "--runs", "2", "--json", "all.json", "--profile", "trace.json"]
    assert main(["bench", net, *options]) == 0
    shown = capsys.readouterr().out
    for words in ("ms of 2 runs", "engine  machine", "N  ", "3 times a step", "scores"):
        assert words in shown
    figures = json.loads(Path("all.json").read_text())
    ours = figures["runtimes"]["sardonyx"]
    assert len(ours["seconds"]) == 2
    assert 0 < ours["least_s"] <= ours["median_s"]
    assert min(ours["load_s"], ours["first_s"], ours["peak"], figures["n"]) > 0
    found = json.loads(Path("trace.json").read_text())
    nodes = [e for e in found if e["cat"] == "Node"]
    assert [e["args"]["op_name"] for e in nodes[:3]] == ["Relu", "Add", "Softmax"]
    assert all(set(e) == FIELDS for e in found)
    assert nodes[0]["name"] == "positive_kernel_time"
    assert nodes[0]["args"]["input_type_shape"] == [{"float": [3, 4]}]
    assert nodes[0]["args"]["output_size"] == "48"


def test_bench_refuses_no_runs(net: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", net, "--runs", "0"]) == 2
    assert "expected at least 1" in capsys.readouterr().err


@NATIVE
def test_the_launches_of_the_native_engine_are_timed_in_order(net: str) -> None:
    runs = timings(load(net), {"x": np.ones((2, 4), np.float32)}, 2)
    assert len(runs) == 2
    for run in runs:
        ends = [t.begin + t.duration for t in run]
        assert all(t.duration >= 0 and t.work.kind == "launch" for t in run)
        assert all(end <= t.begin for end, t in zip(ends, run[1:], strict=False))
        assert {str(op.origin) for t in run for op in t.work.operations} == {
            "positive",
            "twice",
            "scores",
        }
    whole = [e for e in events(runs) if e["name"] == "model_run"]
    assert len(whole) == 2


@NATIVE
def test_what_data_decides_is_timed_in_stages(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("NonZero", ["x"], ["i"], name="where"),
        helper.make_node("Transpose", ["i"], ["y"], name="turned"),
    ]
    shapes = info("x", F, [4]), info("y", TensorProto.INT64, ["n", 1])
    graph = helper.make_graph(nodes, "g", [shapes[0]], [shapes[1]])
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])
    (run,) = timings(load(model), {"x": np.array([0, 1, 0, 2], np.float32)}, 1)
    assert [op.op_type for t in run for op in t.work.operations][-1] == "Transpose"


def test_a_loop_that_is_compiled_whole_is_timed_so() -> None:
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
        g (float[4] x, int64 n) => (float[4] y) {
          t = Constant<value_int = 1>()
          c = Cast<to = 9>(t)
          y = Loop(n, c, x) <body = b (int64 i, bool k, float[4] a) => (bool l, float[4] z) {
            l = Identity(k)
            z = Add(a, a)
          }>
        }""")
    feeds = {"x": np.ones(4, np.float32), "n": np.array(3)}
    (run,) = timings(load(model), feeds, 1)
    assert {t.work.kind for t in run} == {"launch"}


def taken(calls: list[str], name: str) -> Run:
    """A run that says so."""

    def run(_: Mapping[str, Value]) -> list[Value]:
        time.sleep(SHORT)
        calls.append(name)
        return []

    return run


def test_runs_are_taken_in_turn() -> None:
    calls: list[str] = []
    times = interleaved({n: taken(calls, n) for n in "ab"}, {}, 3)
    assert calls[-6:] == [*"ababab"]
    assert [len(x) for x in times.values()] == [3, 3]


def test_with_several_threads_each_turn_begins_with_a_run_that_is_not_timed() -> None:
    calls: list[str] = []
    times = interleaved({n: taken(calls, n) for n in "ab"}, {}, 1, threads=2)
    assert calls[-8:] == [*"aaaabbbb"]
    assert [len(x) for x in times.values()] == [3, 3]


def test_short_runs_are_timed_several_at_a_time() -> None:
    calls: list[str] = []
    times = interleaved({"a": lambda _: calls.append("a") or []}, {}, 2)
    assert len(calls) > 10
    assert max(times["a"]) < SHORT


def test_outputs_are_compared() -> None:
    x = np.array([1, np.nan, np.inf], np.float32)
    y = np.array([1.5, np.nan, np.inf], np.float32)
    assert difference([x], [x]) == 0
    assert close([x], [x])
    assert difference([x], [y]) == 0.5
    assert not close([x], [y])
    assert difference([x], [x[:2]]) == difference([x], []) == np.inf
    assert difference([x], [np.nan_to_num(x)]) == np.inf
