"""Strings, sequences and optionals through onnxruntime's API and the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import sardonyx as ort
from sardonyx.cli import main

SEQUENCE = """<ir_version: 10, opset_import: ["": 21]>
g (float[2] x, seq(float[2]) q) => (seq(float[2]) y, int64 n) {
  y = SequenceInsert(q, x) n = SequenceLength(y) }"""
TEXT = """<ir_version: 10, opset_import: ["": 21]>
g (string[n] x) => (string[n] y, bool[n] m) {
  y = StringConcat(x, x) m = RegexFullMatch<pattern = "a+">(x) }"""
X = np.array([1, 2], np.float32)


def data(text: str) -> bytes:
    return onnx.parser.parse_model(text).SerializeToString()


@pytest.mark.parametrize("text", [SEQUENCE, TEXT])
def test_arguments_are_told_as_by_onnxruntime(text: str) -> None:
    ours, theirs = (o.InferenceSession(data(text)) for o in (ort, onnxruntime))
    for mine, yours in zip(
        (*ours.get_inputs(), *ours.get_outputs()),
        (*theirs.get_inputs(), *theirs.get_outputs()),
        strict=True,
    ):
        assert (mine.name, mine.type, mine.shape) == (yours.name, yours.type, yours.shape)


def test_sequences_go_in_and_out_as_lists() -> None:
    feeds = {"x": X, "q": [X + 1, X + 2]}
    (ours, n), (theirs, m) = (
        o.InferenceSession(data(SEQUENCE)).run(None, feeds) for o in (ort, onnxruntime)
    )
    assert [a.tolist() for a in ours] == [a.tolist() for a in theirs]
    assert n == m == 3


@pytest.mark.parametrize("kind", [str, object])
def test_strings_go_in_as_text_or_objects_and_out_as_objects(kind: type) -> None:
    feeds = {"x": np.array(["aa", "b"], kind)}
    for mine, yours in zip(
        *(o.InferenceSession(data(TEXT)).run(None, feeds) for o in (ort, onnxruntime)), strict=True
    ):
        assert mine.tolist() == yours.tolist()
        assert mine.dtype == yours.dtype


@pytest.mark.parametrize(
    ("text", "feeds"),
    [
        (SEQUENCE, {"x": X, "q": X}),
        (SEQUENCE, {"x": X, "q": [X.astype(np.int64)]}),
        (TEXT, {"x": X}),
        (TEXT, {"x": np.array([["a"]])}),
    ],
)
def test_a_value_of_another_type_is_an_invalid_argument(
    text: str, feeds: dict[str, object]
) -> None:
    session = ort.InferenceSession(data(text))
    with pytest.raises(ort.capi.onnxruntime_pybind11_state.InvalidArgument):
        session.run(None, feeds)


@pytest.mark.parametrize("text", [SEQUENCE, TEXT])
@pytest.mark.parametrize("command", ["run", "info", "step"])
def test_the_commands_take_such_models(
    command: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.onnx").write_bytes(data(text))
    assert main([command, str(tmp_path / "net.onnx")]) == 0
    assert "y" in capsys.readouterr().out


def test_the_table_of_operators_has_every_one_of_onnx(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["operators"]) == 0
    shown = {tuple(line.split()[:2]) for line in capsys.readouterr().out.splitlines()}
    schemas = onnx.defs.get_all_schemas_with_history()
    assert {(s.domain or "ai.onnx", s.name) for s in schemas} <= shown
