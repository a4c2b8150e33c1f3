"""Traces: whole or changed, kept discipline or not, repeated, compared, disclosed."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.helper import make_node

from sardonyx import types as t
from sardonyx.cli import main
from sardonyx.errors import FeedError, RunError
from sardonyx.graph import Graph
from sardonyx.loading import load
from sardonyx.resolve import graph_from_nodes
from sardonyx.trace import (
    InvalidTrace,
    Store,
    Trace,
    check,
    differences,
    disclose,
    disclosed,
    distance,
    first_write,
    machine_of,
    matches,
    read,
    replay,
    trace,
)
from sardonyx.trace.compare import ulps
from sardonyx.trace.digest import chained, root
from sardonyx.trace.read import Record, Touched, initial_of
from sardonyx.types import Array, TensorType

DIGITS = Path(__file__).parents[1] / "examples" / "digits"
VALUES: dict[str, bytes] = {}


@cache
def digits() -> Graph:
    return load(DIGITS / "digits.onnx", dims={"N": 1})


@cache
def image() -> Array:
    with np.load(DIGITS / "digit.npz") as archive:
        return np.asarray(archive["image"])


@cache
def text() -> str:
    return "".join(trace(digits(), {"image": image()}, keep=VALUES.__setitem__))


def outcomes(graph: Graph, whole: Trace) -> set[str]:
    machine = machine_of(graph, whole.header, whole.initial, VALUES.get)
    assert not matches(machine, whole)
    return {done.outcome for done in replay(machine, whole.steps, True, VALUES.get)}


def test_a_trace_of_the_digits_is_whole_keeps_the_discipline_and_is_repeated() -> None:
    whole = read(text())
    assert whole.complete
    assert len(whole.steps) == len(digits().operations)
    assert check(whole) == []
    assert outcomes(digits(), whole) == {"equal"}


def test_a_transformer_with_views_keeps_the_discipline() -> None:
    graph = load(DIGITS / "encoder.onnx", dims={"N": 2})
    feeds = {"image": np.concatenate([image(), image()])}
    whole = read("".join(trace(graph, feeds, keep=VALUES.__setitem__)))
    assert check(whole) == []
    assert outcomes(graph, whole) == {"equal"}


@settings(max_examples=300)
@given(data=st.data())
def test_a_change_of_any_byte_is_found(data: st.DataObject) -> None:
    raw = bytearray(text().encode())
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255).filter(lambda b: b != raw[at]))
    with pytest.raises(InvalidTrace):
        read(bytes(raw))


@settings(max_examples=50)
@given(data=st.data())
def test_cutting_inserting_and_exchanging_lines_is_found(data: st.DataObject) -> None:
    lines = text().splitlines(keepends=True)
    i, j = sorted(data.draw(st.lists(st.integers(0, len(lines) - 1), min_size=2, max_size=2)))
    kind = data.draw(st.sampled_from(["cut", "exchange", "again"]))
    if kind == "cut":
        del lines[i : j + 1]
    elif kind == "again":
        lines.insert(i, lines[j])
    elif i == j:
        return
    else:
        lines[i], lines[j] = lines[j], lines[i]
    with pytest.raises(InvalidTrace):
        read("".join(lines))


def forged(change: dict[str, str]) -> str:
    """The trace with texts replaced and everything that protects it made again."""
    bodies = []
    for line in text().splitlines()[:-1]:
        body = line[: line.rindex(',"chain"')]
        for old, new in change.items():
            body = body.replace(old, new)
        bodies.append(body)
    footer = text().splitlines()[-1]
    bodies.append(footer[: footer.index('"root"')] + f'"root":"{root(bodies)}"')
    chain, lines = "00" * 32, []
    for body in bodies:
        chain = chained(chain, body)
        lines.append(f'{body},"chain":"{chain}"}}\n')
    return "".join(lines)


def test_a_trace_that_was_made_again_does_not_have_the_expected_root() -> None:
    known = read(text()).footer["root"]
    assert read(text(), known)
    assert read(text(), json.loads(text().splitlines()[-1])["chain"])
    made = forged({'"nan":0': '"nan":1'})
    assert read(made)
    with pytest.raises(InvalidTrace, match="expected"):
        read(made, known)


def test_a_forged_flag_or_digest_is_found_by_replaying() -> None:
    after = read(text()).steps[3].writes[0].after
    for change in ({'"nan":0': '"nan":1'}, {f'"after":"{after}"': f'"after":"{"0" * 64}"'}):
        whole = read(forged(change))
        machine = machine_of(digits(), whole.header, whole.initial, VALUES.get)
        found = {d.outcome for d in replay(machine, whole.steps, True, VALUES.get)}
        assert "differs" in found


def test_a_trace_of_another_graph_or_other_weights_is_told() -> None:
    whole = read(text())
    weights = dict(digits().initializers)
    weights["gemm.b"] = weights["gemm.b"] + np.float32(1)
    other = replace(digits(), initializers=weights)
    machine = machine_of(other, whole.header, whole.initial, VALUES.get)
    assert matches(machine, whole) == [
        "the trace is of another graph",
        "the initializer 'gemm.b' is another one",
    ]


def test_without_values_a_step_is_unknown() -> None:
    whole = read(text())
    machine = machine_of(digits(), whole.header, whole.initial, lambda digest: None)
    assert {d.outcome for d in replay(machine, whole.steps, True, lambda d: None)} == {"unknown"}


def touched(name: str, offset: int, before: str, after: str = "") -> Touched:
    return Touched(name, t.uint8, (64,), offset, 64, before, after)


def run(*steps: tuple[list[Touched], list[Touched]]) -> Trace:
    """A trace of x at 0, and these steps; the outputs are what the last one writes."""
    flags = dict.fromkeys(("nan", "infinity", "wrap", "division", "index"), 0)
    operation = {"name": "", "path": [0], "op_type": "Op"}
    records = [Record(i, operation, tuple(r), tuple(w), flags) for i, (r, w) in enumerate(steps)]
    last = steps[-1][1]
    header = {"memory": 256, "outputs": [x.name for x in last]}
    footer = {"end": "complete", "outputs": [{"name": x.name, "sha256": x.after} for x in last]}
    return Trace(header, (touched("x", 0, "X"),), tuple(records), footer)


X = touched("x", 0, "X")


@pytest.mark.parametrize(
    ("steps", "wrong"),
    [
        ([([X], [touched("y", 64, "", "Y")])], ""),
        ([([X], [touched("y", 0, "X", "Y")])], ""),  # in place
        ([([X], [touched("y", 32, "", "Y")])], "clobbers 'x'"),
        ([([touched("x", 0, "Z")], [touched("y", 64, "", "Y")])], "does not see the last write"),
        ([([touched("x", 64, "X")], [touched("y", 128, "", "Y")])], "where it was not written"),
        ([([touched("z", 0, "X")], [touched("y", 64, "", "Y")])], "has no value"),
        ([([X], [touched("x", 64, "", "Y")])], "assigned again"),
        ([([X], [touched("y", 224, "", "Y")])], "not within M"),
        ([([X], [touched("y", 0, "?", "Y")])], "was not there before"),
        ([([], [touched("y", 64, "", "Y")]), ([X], [touched("z", 64, "Y", "Z")])], ""),
        ([([], [touched("y", 0, "X", "Y")]), ([X], [touched("z", 64, "", "Z")])], "clobbers 'x'"),
        ([([], [touched("y", 0, "X", "X")]), ([X], [touched("z", 64, "", "Z")])], ""),  # a view
        ([([X], [touched("y", 64, "", "Y"), touched("z", 96, "", "Z")])], "overlap"),
    ],
)
def test_the_memory_discipline(
    steps: list[tuple[list[Touched], list[Touched]]], wrong: str
) -> None:
    found = check(run(*steps))
    assert any(wrong in text for text in found) if wrong else not found


def test_an_output_that_is_not_what_was_written_last_is_told() -> None:
    made = run(([X], [touched("y", 64, "", "Y")]))
    footer = {**made.footer, "outputs": [{"name": "y", "sha256": "Z"}]}
    assert check(replace(made, footer=footer)) == ["the footer: 'y' is not what was written last"]


def test_a_disclosed_step_is_checked_and_repeated_without_the_others() -> None:
    whole = read(text())
    for number in (0, 4, len(whole.steps) - 1):
        values = {x.before: VALUES[x.before] for x in whole.steps[number].reads}
        shown = disclosed(disclose(text(), number, values), whole.footer["root"])
        assert shown.step == whole.steps[number]
        machine = machine_of(digits(), shown.header, initial_of(shown.header), shown.values.get)
        (done,) = replay(machine, (shown.step,), True, shown.values.get)
        assert done.outcome == "equal"
    with pytest.raises(FeedError, match="there is no step"):
        disclose(text(), 12)


@settings(max_examples=100)
@given(data=st.data())
def test_a_disclosed_step_that_was_changed_does_not_lead_to_the_root(data: st.DataObject) -> None:
    raw = disclose(text(), 5)
    at = data.draw(st.integers(raw.index('"header"'), raw.index('"values"') - 1))
    new = data.draw(st.sampled_from("0123456789abcdef").filter(lambda c: c != raw[at]))
    with pytest.raises(InvalidTrace):
        disclosed(raw[:at] + new + raw[at + 1 :], read(text()).footer["root"])


def test_the_first_step_that_differs_is_named_with_its_distance() -> None:
    weights = dict(digits().initializers)
    bias = weights["gemm.b"].copy()
    bias[3] *= np.float32(1.001)
    weights["gemm.b"] = bias
    other = replace(digits(), initializers=weights)
    again = "".join(trace(other, {"image": image()}, keep=VALUES.__setitem__))
    a, b = read(text()), read(again)
    found = [difference.what for difference in differences(a, b)]
    assert found[1:] == [
        "'gemm.b' starts with other elements",
        "step 10, Gemm 'gemm': writes other elements into 'logits'",
    ]
    pair = first_write(a, b)
    assert pair is not None
    assert distance(pair, (VALUES.get, VALUES.get)).startswith("1 of 10 elements")
    assert distance(pair, (VALUES.get, {}.get)) == ""
    assert list(differences(a, a)) == []


@pytest.mark.parametrize("dtype", [t.float16, t.float32, t.float64], ids=str)
def test_distances_count_the_floats_between(dtype: t.DType) -> None:
    x = np.array([1, -1, 0, np.inf, np.nan], dtype.numpy)
    one = np.nextafter(x, dtype.numpy.type(2))
    assert ulps(x, one, dtype).tolist() == [1, 1, 1, 1, 0]
    assert ulps(x[:1], x[4:], dtype).tolist() == [np.inf]
    zero = np.array([0.0, -0.0], dtype.numpy)
    assert ulps(zero, zero[::-1], dtype).tolist() == [1, 1]


def test_a_run_that_traps_has_a_trace_that_ends_there() -> None:
    graph = graph_from_nodes(
        [make_node("Relu", ["a"], ["r"]), make_node("Gather", ["r", "at"], ["y"])],
        types={"a": TensorType(t.float32, (3,)), "at": TensorType(t.int64, (1,))},
    )
    lines: list[str] = []
    with pytest.raises(RunError):
        lines.extend(trace(graph, {"a": np.zeros(3, np.float32), "at": np.array([7])}))
    whole = read("".join(lines))
    assert not whole.complete
    assert whole.steps[-1].flags["index"] == 1
    assert check(whole) == []


def test_a_store_whose_file_was_changed_says_so(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert text()
    digest = next(iter(VALUES))
    store.keep(digest, VALUES[digest])
    assert store.find(digest) == VALUES[digest]
    (tmp_path / f"{digest}.bin").write_bytes(b"other")
    with pytest.raises(FeedError, match="does not have the bytes of its name"):
        store.find(digest)


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, feed = str(DIGITS / "digits.onnx"), str(DIGITS / "digit.npz")
    one, values, part = tmp_path / "one.jsonl", tmp_path / "values", tmp_path / "part.json"
    made = ["trace", model, "--dim", "N=1", "--input", feed, "-o", str(one)]
    assert main([*made, "--values", str(values)]) == 0
    again = ["replay", str(one), "--model", model, "--dim", "N=1"]
    assert main([*again, "--values", str(values)]) == 0
    assert "replayed: 12 equal" in capsys.readouterr().out
    assert main([*again, "--values", str(values), "--step", "4"]) == 0
    shown = ["trace", str(one), "--disclose", "4", "--values", str(values), "-o", str(part)]
    assert main(shown) == 0
    assert main(["replay", str(part), "--model", model, "--dim", "N=1"]) == 0
    assert "replayed: equal" in capsys.readouterr().out
    assert main(["diff", str(one), str(one)]) == 0
    two = tmp_path / "two.jsonl"
    assert main(["trace", model, "--dim", "N=1", "--seed", "3", "-o", str(two)]) == 0
    assert main(["diff", str(one), str(two)]) == 1
    one.write_bytes(one.read_bytes().replace(b"relu1", b"relu9"))
    assert main(["replay", str(one)]) == 1
    assert "was changed" in capsys.readouterr().out
    assert main(["monitor", model, "--dim", "N=1", "--input", feed]) == 0
