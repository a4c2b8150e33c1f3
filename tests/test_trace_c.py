"""Traces and flags of compiled programs: those of the machine."""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto
from onnx.helper import make_graph, make_model, make_node, make_tensor_value_info

from sardonyx import types as t
from sardonyx.cli import main
from sardonyx.emit import emit
from sardonyx.emit.source import Source
from sardonyx.emit.weights import c_file
from sardonyx.errors import RunError
from sardonyx.graph import Graph
from sardonyx.loading import load
from sardonyx.machine import Machine
from sardonyx.monitor import Monitor, policy_of
from sardonyx.resolve import graph_from_nodes
from sardonyx.trace import Subject, check, read, trace
from sardonyx.trace.digest import elements
from sardonyx.trace.observe import observed
from sardonyx.trace.write import started
from sardonyx.types import Array, TensorType
from sardonyx.watched import WatchedEngine

DIGITS = Path(__file__).parents[1] / "examples" / "digits"
STRICT = "-std=c99 -pedantic -Wall -Wextra -Werror -ffp-contract=off -O1"
HASH = """#include "sha256.h"
void digest(const void *data, size_t size, size_t piece, unsigned char *out) {
  sx_sha256 h;
  size_t i;
  sx_sha256_start(&h);
  for (i = 0; i < size; i += piece)
    sx_sha256_more(&h, (const char *)data + i, size - i < piece ? size - i : piece);
  sx_sha256_end(&h, out);
}
"""


def compiler() -> str:
    found = shutil.which("gcc") or shutil.which("cc")
    if found is None:
        pytest.skip("there is no C compiler")
    return found


def test_sha256_in_c_is_that_of_hashlib(tmp_path: Path) -> None:
    (tmp_path / "sha256.h").write_text(
        files("sardonyx.trace").joinpath("sha256.h").read_text("utf-8")
    )
    (tmp_path / "hash.c").write_text(HASH)
    command = [compiler(), *STRICT.split(), "-shared", "-fPIC", "hash.c", "-o", "hash.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "hash.so"))
    rng, out = np.random.default_rng(0), ctypes.create_string_buffer(32)
    for size in [*range(200), 1000, 4096, 100_000]:
        data = rng.bytes(size)
        for piece in (1, 13, 64, 4096):
            library.digest(data, ctypes.c_size_t(size), ctypes.c_size_t(piece), out)
            assert out.raw == hashlib.sha256(data).digest()


def compiled(graph: Graph, feeds: Mapping[str, Array], folder: Path, flags: str) -> str:
    """What the program, compiled as a whole, writes on these feeds."""
    made = observed(started(graph, feeds, fused=True), Subject())
    source = emit(made.program, made.plan, hooks=made.hooks)
    return traced(source, made.files, feeds, folder, flags)


def traced(
    source: Source,
    files: Mapping[str, str],
    feeds: Mapping[str, Array],
    folder: Path,
    flags: str,
) -> str:
    """What a program writes on these feeds."""
    weights = {"weights.c": c_file(source.prefix, source.blob)}
    for name, text in {**source.files(), **files, **weights}.items():
        (folder / name).write_text(text)
    names = []
    for i, name in enumerate(source.inputs):
        names.append(f"input{i}.bin")
        (folder / names[-1]).write_bytes(elements(t.in_memory(feeds[name])))
    sources = ["trace_main.c", "model.c", "observe.c", "weights.c"]
    command = [compiler(), *STRICT.split(), *flags.split(), *sources, "-o", "traced", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    done = subprocess.run(["./traced", *names], cwd=folder, capture_output=True, text=True)
    return done.stdout


def machines(graph: Graph, feeds: Mapping[str, Array]) -> str:
    lines: list[str] = []
    with suppress(RunError):
        lines.extend(trace(graph, feeds))
    return "".join(lines)


@pytest.mark.parametrize("name", ["digits", "encoder"])
def test_the_trace_of_the_c_is_the_trace_of_the_machine(name: str, tmp_path: Path) -> None:
    graph = load(DIGITS / f"{name}.onnx", dims={"N": 1})
    with np.load(DIGITS / "digit.npz") as archive:
        feeds = {"image": archive["image"]}
    assert compiled(graph, feeds, tmp_path, "-DSARDONYX_TRACE") == machines(graph, feeds)


def test_a_graph_without_operations_has_a_trace_too(tmp_path: Path) -> None:
    x = make_tensor_value_info("x", 1, [2])
    graph = load(make_model(make_graph([], "g", [x], [x]), ir_version=10))
    feeds = {"x": np.ones(2, np.float32)}
    assert compiled(graph, feeds, tmp_path, "-DSARDONYX_TRACE") == machines(graph, feeds)


def test_a_view_may_have_another_result_beside_it(tmp_path: Path) -> None:
    """Dropout's mask: its first result lies where its input lies, and nothing copies it."""
    nodes = [
        make_node("Relu", ["a"], ["b"]),
        make_node("Dropout", ["b"], ["c", "mask"]),
        make_node("Neg", ["c"], ["y"]),
    ]
    types = {"a": TensorType(t.float32, (3,))}
    graph = graph_from_nodes(nodes, types=types, outputs=["y", "mask"])
    feeds = {"a": np.array([-1, 0, 1], np.float32)}
    assert compiled(graph, feeds, tmp_path, "-DSARDONYX_TRACE") == machines(graph, feeds)


def flagged(
    nodes: list[NodeProto], dtype: t.DType, **feeds: list[float]
) -> tuple[Graph, dict[str, Array]]:
    given = {n: np.array(v, np.int64 if n == "at" else dtype.numpy) for n, v in feeds.items()}
    types = {n: TensorType(t.int64 if n == "at" else dtype, v.shape) for n, v in given.items()}
    return graph_from_nodes(nodes, types=types), given


CASES = {
    "wraps": flagged([make_node("Add", ["a", "b"], ["c"]), make_node("Mul", ["c", "c"], ["y"])],
                     t.int8, a=[100, 1, 2], b=[100, 1, 2]),
    "divides": flagged([make_node("Div", ["a", "b"], ["y"])], t.int32, a=[1, 2], b=[0, 1]),
    "nan": flagged([make_node("Log", ["a"], ["b"]), make_node("Relu", ["b"], ["y"])],
                   t.float32, a=[-1, 0, 1]),
    "half": flagged([make_node("Mul", ["a", "a"], ["y"])], t.float16, a=[300, 2]),
    "product": flagged([make_node("MatMul", ["a", "b"], ["y"])], t.int32,
                       a=[70000, 70000], b=[70000, 70000]),
    "index": flagged([make_node("Relu", ["a"], ["b"]), make_node("Gather", ["b", "at"], ["y"])],
                     t.float32, a=[1, 2, 3], at=[5]),
    "doubles": flagged([make_node("Div", ["a", "b"], ["y"])], t.float64, a=[1, 2], b=[0, 1]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_flags_of_the_c_are_those_of_the_machine(case: str, tmp_path: Path) -> None:
    graph, feeds = CASES[case]
    found = compiled(graph, feeds, tmp_path, "-DSARDONYX_TRACE")
    assert found == machines(graph, feeds)
    whole = read(found)
    assert any(flag for step in whole.steps for flag in step.flags.values())
    assert check(whole) == []


def test_without_the_macros_nothing_is_observed(tmp_path: Path) -> None:
    graph, feeds = CASES["wraps"]
    made = observed(started(graph, feeds, fused=True), Subject())
    source = emit(made.program, made.plan, hooks=made.hooks)
    for name, text in {**source.files(), **made.files}.items():
        (tmp_path / name).write_text(text)
    for flags in ("", "-DSARDONYX_MONITOR"):
        command = [compiler(), *STRICT.split(), *flags.split(), "-c", "model.c", "observe.c"]
        subprocess.run(command, cwd=tmp_path, check=True)
        sizes = [(tmp_path / name).stat().st_size for name in ("model.o", "observe.o")]
        symbols = (tmp_path / "model.o").read_bytes()
        assert (b"sx_before" in symbols) == bool(flags), sizes


@pytest.mark.parametrize("case", CASES)
def test_the_watched_engine_finds_what_the_machine_finds(case: str) -> None:
    compiler()
    graph, feeds = CASES[case]
    seen = []
    for watched in (False, True):
        monitor, outputs = Monitor(), {}
        with suppress(RunError):
            if watched:
                outputs = WatchedEngine(graph, monitor).run(feeds)
            else:
                outputs = Machine(graph, monitor=monitor).run(feeds)
        bits = {n: np.asarray(v).tobytes() for n, v in outputs.items()}
        seen.append(([str(f) for f in monitor.findings], bits))
    assert seen[0] == seen[1]
    assert seen[0][0]


def test_the_watched_engine_stops_where_the_policy_says() -> None:
    compiler()
    graph, feeds = CASES["nan"]
    with pytest.raises(RunError, match="step 0: the monitor stopped at nan"):
        WatchedEngine(graph, Monitor(policy_of(["nan=stop"]))).run(feeds)
    ignoring = Monitor(policy_of(["nan=ignore", "infinity=ignore", "domain=ignore"]))
    assert WatchedEngine(graph, ignoring).run(feeds)
    assert not ignoring.findings


def test_a_model_is_legalized_checked_traced_replayed_and_exported_with_the_same_trace(
    tmp_path: Path,
) -> None:
    compiler()
    feed, values = str(DIGITS / "digit.npz"), str(tmp_path / "values")
    model, run = str(tmp_path / "digits.onnx"), tmp_path / "run.jsonl"
    fixed = [str(DIGITS / "digits.onnx"), "--dim", "N=1", "--verify", "model"]
    assert main(["legalize", *fixed, "-o", model]) == 0
    assert main(["check", model]) == 0
    given = [model, "--input", feed, "-o"]
    assert main(["trace", *given, str(run), "--values", values]) == 0
    assert main(["replay", str(run), "--model", model, "--values", values]) == 0
    assert main(["monitor", model, "--input", feed, "--engine", "native"]) == 0
    assert main(["compile", *given, str(tmp_path / "c"), "--trace"]) == 0
    for target in ("test", "trace"):
        subprocess.run(["make", "-s", target], cwd=tmp_path / "c", check=True, capture_output=True)
    again = tmp_path / "c" / "run.jsonl"
    assert again.read_bytes() == run.read_bytes()
    assert main(["diff", str(run), str(again)]) == 0
    assert '"profile":"sonnx' in run.read_text()
