"""Traces of graphs in stages: control flow, sizes that depend on data, sequences and strings."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sardonyx import types as t
from sardonyx.cli import main
from sardonyx.errors import RunError, SardonyxError
from sardonyx.graph import Graph
from sardonyx.loading import load
from sardonyx.machine import Machine
from sardonyx.stages import is_staged
from sardonyx.trace import (
    InvalidTrace,
    Trace,
    check,
    differences,
    disclose,
    disclosed,
    matches_stages,
    read,
    replay_stages,
    trace,
)
from sardonyx.trace.digest import chained, root
from sardonyx.trace.read import Entered, Layout, Touched
from sardonyx.trace.values import decoded, encoded, kind
from sardonyx.types import Value
from tests.node_cases import all_cases

HEAD = '<ir_version: 10, opset_import: ["" : 22]>\n'
LOOP = """g (int32[4] x, int64 n) => (int32[k] y, int64[1, j] z) {
  true = Constant <value = bool {1}> ()
  y = Loop (n, true, x) <body = b (int64 i, bool c, int32[4] v) => (bool d, int32[4] w) {
    d = Identity (c)
    w = Mul (v, v)
  }>
  z = NonZero (y)
}"""
NESTED = """g (float[3] x, int64 n) => (float[k] y, float[m, 3] s) <float[3] bias = {1, 2, 3}> {
  true = Constant <value = bool {1}> ()
  twice = Add (x, x)
  y, s = Loop (n, true, x) <body = b (int64 i, bool c, float[3] v)
    => (bool d, float[3] w, float[3] o)
  <float[3] step = {0.5, 0.5, 0.5}> {
    d = Identity (c)
    sum = ReduceSum <keepdims = 0> (v)
    ten = Constant <value = float {10.0}> ()
    large = Greater (sum, ten)
    w = If (large) <
      then_branch = th () => (float[3] p) { p = Sub (v, twice) },
      else_branch = el () => (float[3] q) { h = Add (v, bias)  q = Add (h, step) }
    >
    o = Neg (w)
  }>
}"""
SEQUENCES = """g (float[4] x, int64 n) => (float[k] y, int64 many) {
  empty = SequenceEmpty <dtype = 1> ()
  one = SequenceInsert (empty, x)
  r = Relu (x)
  two = SequenceInsert (one, r)
  y = ConcatFromSequence <axis = 0> (two)
  many = SequenceLength (two)
}"""
STRINGS = """g (string[3] x, float[2] v) => (string[k] y, float[2] w) {
  y = StringNormalizer <case_change_action = "UPPER", stopwords = ["a"]> (x)
  w = Neg (v)
}"""
TRAPS = """g (float[3] x, int64 n) => (float[1] y)
<int64[1] zero = {0}, int64[1] one = {1}, int64 two = {2}, int64[1] axis = {0}> {
  true = Constant <value = bool {1}> ()
  first = Slice (x, zero, one)
  y = Loop (n, true, first) <body = b (int64 i, bool c, float[1] v) => (bool d, float[1] w) {
    d = Identity (c)
    next = Add (i, two)
    at = Unsqueeze (next, axis)
    w = Gather <axis = 0> (x, at)
  }>
}"""
X = np.array([1.5, -2, 3], np.float32)
CASES: dict[str, tuple[str, dict[str, Value]]] = {
    "loop": (LOOP, {"x": np.array([70000, 1, 0, 3], np.int32), "n": np.array(2)}),
    "no turn": (LOOP, {"x": np.array([7, 1, 0, 3], np.int32), "n": np.array(0)}),
    "nested": (NESTED, {"x": X, "n": np.array(4)}),
    "sequences": (SEQUENCES, {"x": np.array([1, -1, np.nan, 2], np.float32), "n": np.array(1)}),
    "strings": (STRINGS, {"x": np.array(["a", "bé", ""], object), "v": X[:2]}),
}
GRAPHS = {name: load(onnx.parser.parse_model(HEAD + text)) for name, (text, _) in CASES.items()}
VALUES: dict[str, bytes] = {}


def traced(name: str) -> str:
    return "".join(trace(GRAPHS[name], CASES[name][1], keep=VALUES.__setitem__))


def again(name: str, whole: Trace) -> set[str]:
    found = replay_stages(GRAPHS[name], whole.lines, whole.steps, True, VALUES.get)
    return {done.outcome for done in found}


@pytest.mark.parametrize("name", CASES)
def test_a_trace_is_whole_keeps_the_discipline_and_is_repeated(name: str) -> None:
    whole = read(traced(name))
    assert whole.staged
    assert whole.complete
    assert check(whole) == []
    assert matches_stages(GRAPHS[name], whole) == []
    assert again(name, whole) == {"equal"}


@pytest.mark.parametrize("name", CASES)
def test_the_outputs_are_those_of_the_machine_and_each_of_its_steps_has_a_line(name: str) -> None:
    machine = Machine(GRAPHS[name]).start(CASES[name][1])
    steps = list(machine)
    whole = read(traced(name))
    own = [s for s in whole.steps if not s.scope]
    assert [(list(s.operation["path"]), s.operation["op_type"]) for s in own] == [
        (list(r.operation.origin.path), r.operation.op_type) for r in steps
    ]
    for x in whole.footer["outputs"]:
        assert encoded(machine.outputs[x["name"]]) == VALUES[x["sha256"]]


def test_steps_of_a_subgraph_are_numbered_within_their_execution() -> None:
    whole = read(traced("nested"))
    turns = [line.scope for line in whole.lines if isinstance(line, Entered)]
    loops = [scope[0][2] for scope in turns if len(scope) == 1]
    branches = [scope[1][1] for scope in turns if len(scope) == 2]
    assert loops == [0, 1, 2, 3]
    assert set(branches) == {"then_branch", "else_branch"}
    (adds,) = {s.operation["path"][0] for s in whole.steps if s.operation["op_type"] == "Loop"}
    assert all(s.operation["path"][0] == adds for s in whole.steps if s.scope)
    layouts = [line.number for line in whole.lines if isinstance(line, Layout)]
    assert layouts == list(range(len(layouts)))


def test_a_run_that_traps_in_a_subgraph_has_a_trace_that_ends_there() -> None:
    graph = load(onnx.parser.parse_model(HEAD + TRAPS))
    lines: list[str] = []
    with pytest.raises(RunError, match="out of bounds"):
        lines.extend(trace(graph, {"x": X, "n": np.array(3)}, keep=VALUES.__setitem__))
    whole = read("".join(lines))
    assert not whole.complete
    assert [s.operation["op_type"] for s in whole.steps if s.flags["index"]] == ["Gather", "Loop"]
    assert check(whole) == []
    done = list(replay_stages(graph, whole.lines, whole.steps, True, VALUES.get))
    assert {d.outcome for d in done} == {"equal"}


def test_an_initializer_that_is_fed_with_another_value_is_repeated_with_that() -> None:
    proto = onnx.parser.parse_model(HEAD + LOOP)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.int32([1, 2, 3, 4]), "x"))
    graph = load(proto)
    for feeds in ({"n": np.array(2)}, CASES["loop"][1]):
        whole = read("".join(trace(graph, feeds, keep=VALUES.__setitem__)))
        assert check(whole) == []
        assert matches_stages(graph, whole) == []
        done = replay_stages(graph, whole.lines, whole.steps, True, VALUES.get)
        assert {d.outcome for d in done} == {"equal"}


@settings(max_examples=200)
@given(data=st.data())
def test_a_change_of_any_byte_is_found(data: st.DataObject) -> None:
    raw = bytearray(traced("nested").encode())
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255).filter(lambda b: b != raw[at]))
    with pytest.raises(InvalidTrace):
        read(bytes(raw))


def forged(text: str, change: Callable[[list[Any]], None]) -> str:
    """The trace with its lines changed and everything that protects it made again."""
    rows = [json.loads(line) for line in text.splitlines()]
    change(rows)
    chain, lines, bodies = "00" * 32, [], []
    for row in rows:
        row.pop("chain")
        if "end" in row:
            row.pop("root")
            row["steps"] = sum("step" in r for r in rows)
            row["root"] = root(bodies)
        bodies.append(json.dumps(row, separators=(",", ":"))[:-1])
        chain = chained(chain, bodies[-1])
        lines.append(f'{bodies[-1]},"chain":"{chain}"}}\n')
    return "".join(lines)


def digests(row: Any) -> Iterator[tuple[Any, str]]:
    """Every digest of a line that says what a step reads or gives, or what a scope begins with."""
    for key in ("initial", "inputs", "captured", "reads", "writes"):
        for place in row.get(key, ()):
            yield place, "after" if key == "writes" else "sha256"


@settings(max_examples=150)
@given(data=st.data())
def test_a_forged_digest_is_found_by_the_discipline_or_by_repeating(data: st.DataObject) -> None:
    text = traced("nested")
    every = list(VALUES)

    def change(rows: list[Any]) -> None:
        places = [found for row in rows[:-1] for found in digests(row)]
        place, key = places[data.draw(st.integers(0, len(places) - 1))]
        place[key] = data.draw(st.sampled_from([d for d in every if d != place[key]]))

    whole = read(forged(text, change))
    wrong = check(whole) or matches_stages(GRAPHS["nested"], whole)
    assert wrong or "differs" in again("nested", whole)


def lines_without(kind: str) -> Callable[[list[Any]], None]:
    def change(rows: list[Any]) -> None:
        del rows[next(i for i, row in enumerate(rows) if kind in row and row.get("scope"))]
        for number, row in enumerate(r for r in rows if "step" in r):
            row["step"] = number

    return change


@pytest.mark.parametrize("kind", ["layout", "body", "step"])
def test_a_line_that_is_left_out_is_found(kind: str) -> None:
    whole = read(forged(traced("nested"), lines_without(kind)))
    assert check(whole) or "differs" in again("nested", whole)


def test_a_turn_that_is_left_out_or_counted_twice_is_found() -> None:
    def twice(rows: list[Any]) -> None:
        for row in rows:
            for entry in row.get("scope", ()):
                entry[2] = min(entry[2], 2)

    assert check(read(forged(traced("nested"), twice)))


def test_another_number_of_turns_is_found_by_repeating_the_loop() -> None:
    """Whatever the subgraph's own inputs are said to be, the loop gives them itself."""
    other = dict(CASES["nested"][1], n=np.array(3))
    fewer = json.loads("".join(trace(GRAPHS["nested"], other)).splitlines()[0])["initial"]
    digest = {x["name"]: x["sha256"] for x in fewer}["n"]
    VALUES[digest] = encoded(np.array(3))

    def change(rows: list[Any]) -> None:
        for row in rows:
            for place, key in digests(row):
                if place["name"] == "n":
                    place[key] = digest

    whole = read(forged(traced("nested"), change))
    assert check(whole) == []
    assert "differs" in again("nested", whole)


@pytest.mark.parametrize("name", ["nested", "sequences", "strings"])
def test_a_disclosed_step_is_checked_and_repeated_without_the_others(name: str) -> None:
    text = traced(name)
    whole = read(text)
    for step in whole.steps:
        values = {x.before: VALUES[x.before] for x in step.reads}
        shown = disclosed(disclose(text, step.number, values), whole.footer["root"])
        assert shown.step == step
        (done,) = replay_stages(GRAPHS[name], None, (shown.step,), True, shown.values.get)
        assert done.outcome == "equal"


def test_the_first_step_that_differs_is_named_where_it_is() -> None:
    other = dict(CASES["loop"][1], x=np.array([70000, 1, 0, 4], np.int32))
    a, b = read(traced("loop")), read("".join(trace(GRAPHS["loop"], other)))
    found = [d for d in differences(a, b) if d.step is not None]
    assert [d.step for d in found] == [2]
    assert list(differences(a, a)) == []


@pytest.mark.parametrize(
    "value",
    [
        np.array(["a", "é"], object),
        [np.float32([1, np.nan]), np.zeros((0, 2), np.int8)],
        None,
        {1: 0.5, 2: -0.0},
        {"a": np.int64([1])},
        [{"x": 1.5}],
        np.array([True]),
    ],
    ids=str,
)
def test_any_value_is_the_same_from_its_bytes(value: Value) -> None:
    name, shape, size = kind(value)
    dtype = t.by_name(name) if isinstance(value, np.ndarray) else t.string
    data = encoded(value)
    assert size == len(data)
    back = decoded(Touched("x", dtype, shape, -1, size, ""), data)
    assert encoded(back) == data
    assert kind(back) == kind(value)


@pytest.mark.parametrize("name", ["nested", "strings"])
def test_the_commands(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(onnx.parser.parse_model(HEAD + CASES[name][0]), model := str(tmp_path / "m.onnx"))
    one, values, part = tmp_path / "one.jsonl", tmp_path / "values", tmp_path / "part.json"
    assert main(["trace", model, "-o", str(one), "--values", str(values)]) == 0
    steps = len(read(one.read_bytes()).steps)
    repeat = ["replay", str(one), "--model", model]
    assert main([*repeat, "--values", str(values)]) == 0
    assert f"replayed: {steps} equal" in capsys.readouterr().out
    assert main(repeat) == 0
    assert "unknown" in capsys.readouterr().out
    shown = ["trace", str(one), "--disclose", "0", "--values", str(values), "-o", str(part)]
    assert main(shown) == 0
    assert main(["replay", str(part), "--model", model]) == 0
    assert main(["diff", str(one), str(one)]) == 0
    assert main(["monitor", model]) == 0
    assert main(["compile", model, "-o", str(tmp_path / "c"), "--trace"]) == 2
    assert "C cannot write its trace" in capsys.readouterr().err


def staged_cases() -> Iterator[tuple[str, Graph, dict[str, Value]]]:
    """Of onnx's node cases those that the machine runs in stages."""
    for case in all_cases():
        with suppress(SardonyxError):
            graph = load(case.model)
            feeds = dict(zip(graph.inputs, case.data_sets[0][0], strict=False))
            if is_staged(graph):
                Machine(graph).run(feeds)
                yield case.name, graph, feeds


@pytest.mark.slow
def test_every_node_case_in_stages_is_traced_and_repeated() -> None:
    """394 with onnx 1.23."""
    count = 0
    for name, graph, feeds in list(staged_cases()):
        count += 1
        kept: dict[str, bytes] = {}
        whole = read("".join(trace(graph, feeds, keep=kept.__setitem__)))
        done = replay_stages(graph, whole.lines, whole.steps, True, kept.get)
        assert (check(whole), matches_stages(graph, whole)) == ([], []), name
        assert {d.outcome for d in done} == {"equal"}, name
    assert count >= 390
