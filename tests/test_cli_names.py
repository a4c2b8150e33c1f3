"""Names of a model may be any text: what is printed of them are visible characters."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from sardonyx.cli import main
from sardonyx.errors import BuildError, SardonyxError, shown

pytestmark = pytest.mark.usefixtures("machine_engine")
F = TensorProto.FLOAT
Shell = pytest.CaptureFixture[str]
# An end of a line, an escape sequence, a carriage return, an override of the direction, C1's CSI,
# an end of a comment, a trigraph, a continued line, a format.
ODD = 'a\nb\x1b[31m\rc\u202ed\x9be*/f??/\\\n"%s'


@pytest.fixture(autouse=True)
def _net(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """odd.onnx, whose every name is odd; free.onnx: with an odd dim, too."""
    monkeypatch.chdir(tmp_path)
    for file, rows in (("odd.onnx", 2), ("free.onnx", f"{ODD}N")):
        info = helper.make_tensor_value_info
        nodes = [
            helper.make_node("Log", [f"{ODD}x"], [f"{ODD}h"], name=f"{ODD}1"),
            helper.make_node("Softmax", [f"{ODD}h"], [f"{ODD}y"], name=f"{ODD}2"),
        ]
        inputs, outputs = [info(f"{ODD}x", F, [rows, 3])], [info(f"{ODD}y", F, [rows, 3])]
        graph = helper.make_graph(nodes, ODD, inputs, outputs, doc_string=ODD)
        opsets = [helper.make_opsetid("", 21)]
        model = helper.make_model(
            graph, ir_version=10, opset_imports=opsets, producer_name=ODD, producer_version=ODD
        )
        helper.set_model_props(model, {ODD: ODD})
        onnx.save(model, file)


def printed(shell: Shell, *arguments: str) -> list[str]:
    """The lines that a command prints."""
    main(arguments)
    said = shell.readouterr()
    return [*said.out.split("\n"), *said.err.split("\n")]


COMMANDS = [
    "info odd.onnx",
    "info free.onnx",
    "run odd.onnx",
    "run free.onnx",
    "run odd.onnx --input none=x.npy",
    "step odd.onnx",
    "step odd.onnx --show none",
    "step odd.onnx --until none",
    "check odd.onnx",
    "check odd.onnx --format json",
    "check odd.onnx --format sarif",
    "check odd.onnx --format html",
    "legalize odd.onnx -o out.onnx",
    "trace odd.onnx -o run.jsonl",
    "monitor odd.onnx",
    "monitor odd.onnx --policy none:nan=stop",
    "accuracy odd.onnx",
    "accuracy odd.onnx --range=1:2",
    "accuracy odd.onnx --range=none=1:2",
    "compile free.onnx -o c",
    "extract odd.onnx --inputs none --outputs none -o out.onnx",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_names_are_printed_in_visible_characters(command: str, capsys: Shell) -> None:
    lines = printed(capsys, *command.split())
    assert all(line.isprintable() for line in lines)
    assert not any(line.startswith("b\\x1b") for line in lines)


def test_steps_of_a_trace_are_printed_in_visible_characters(capsys: Shell) -> None:
    assert main(["trace", "odd.onnx", "-o", "a.jsonl", "--seed", "1"]) == 0
    assert main(["trace", "odd.onnx", "-o", "b.jsonl", "--seed", "2"]) == 0
    for command in ("replay a.jsonl --model odd.onnx", "diff a.jsonl b.jsonl"):
        lines = printed(capsys, *command.split())
        assert any(shown(ODD) in line for line in lines)
        assert all(line.isprintable() for line in lines)


def test_the_value_of_a_tensor_with_an_odd_name_is_printed(capsys: Shell) -> None:
    lines = printed(capsys, "step", "odd.onnx", "--show", f"{ODD}y")
    assert f"   {shown(ODD)}y =" in lines


def test_what_is_visible_is_shown_as_it_is() -> None:
    assert shown("/conv1/Conv:0 größe 畳み込み") == "/conv1/Conv:0 größe 畳み込み"


def test_errors_show_names_and_keep_the_lines_of_a_compiler() -> None:
    assert str(SardonyxError("tensor 'a\nb\x1b[2J'")) == "tensor 'a\\nb\\x1b[2J'"
    assert str(BuildError("refused:\na.c:1: \x1b[31merror")) == "refused:\na.c:1: \\x1b[31merror"


def test_a_terminal_without_the_characters_of_a_name_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "畳.onnx").write_bytes((tmp_path / "odd.onnx").read_bytes())
    command = [sys.executable, "-m", "sardonyx", "info", "畳.onnx"]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONIOENCODING": "ascii"}, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("model: \\u7573.onnx ")


@pytest.mark.skipif(os.name == "nt", reason="names of files are bytes elsewhere only")
def test_a_file_name_that_is_no_utf8_is_printed() -> None:
    name = os.fsdecode(b"\xff.onnx")
    Path(name).write_bytes(Path("odd.onnx").read_bytes())
    command = [sys.executable, "-m", "sardonyx", "info", name]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\udcff.onnx" in done.stdout
    for kind in ("text", "json", "html", "sarif"):
        assert main(["check", name, "--format", kind, "--output", f"report.{kind}"]) == 1
    assert '"uri": "%FF.onnx"' in Path("report.sarif").read_text()
