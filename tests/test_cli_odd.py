"""The command line: files and options that mean nothing are refused, in one line, and first."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from sardonyx.cli import main

pytestmark = pytest.mark.usefixtures("machine_engine")
F = TensorProto.FLOAT
Shell = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _net(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """net.onnx: y = softmax(relu(x)); x.npy and x.npz: an input; run.jsonl: a trace of it."""
    monkeypatch.chdir(tmp_path)
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Relu", ["x"], ["h"], name="positive"),
        helper.make_node("Softmax", ["h"], ["y"], name="scores"),
    ]
    graph = helper.make_graph(nodes, "net", [info("x", F, [2, 3])], [info("y", F, [2, 3])])
    opsets = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=opsets), "net.onnx")
    np.save("x.npy", np.ones((2, 3), np.float32))
    np.savez("x.npz", x=np.ones((2, 3), np.float32))


def files() -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in Path().iterdir() if p.is_file()}


def fails(shell: Shell, words: str, *arguments: str) -> None:
    """Exit code 2, one line on stderr that has these words, nothing on stdout, no file changed."""
    before = files()
    assert main(arguments) == 2
    said = shell.readouterr()
    assert said.err.startswith("sardonyx: error: ")
    assert said.err.count("\n") == 1
    assert words in said.err
    assert not said.out
    assert files() == before


PART = ("extract", "net.onnx", "--inputs", "h", "--outputs", "y", "-o")


def test_compile_writes_into_no_folder_of_somebody_else(capsys: Shell) -> None:
    Path("mine").mkdir()
    Path("mine/Makefile").write_text("all: ; true\n")
    Path("mine/notes").write_text("")
    arguments = ("compile", "net.onnx", "-o", "mine")
    fails(capsys, "-o mine: it holds Makefile and 1 more, but no model.c that", *arguments)
    Path("mine/model.c").write_text("int model;\n")
    fails(capsys, "-o mine: it holds Makefile and 2 more, but no model.c that", *arguments)
    assert Path("mine/Makefile").read_text() == "all: ; true\n"


def test_compile_writes_over_what_it_wrote_and_into_an_empty_folder(capsys: Shell) -> None:
    Path("empty").mkdir()
    assert main(["compile", "net.onnx", "-o", "empty"]) == 0
    Path("empty/main.c").write_text("int main(void);\n")
    assert main(["compile", "net.onnx", "-o", "empty", "--trace"]) == 0
    assert main(["compile", "net.onnx", "-o", "empty"]) == 0
    assert Path("empty/main.c").read_text() == "int main(void);\n"


@pytest.mark.parametrize("stopped", ["model.c.part", "model.h", "Makefile", "model.map.json"])
@pytest.mark.parametrize("before", [False, True])
def test_compile_that_a_full_disk_stopped_can_be_done_again(
    stopped: str, before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, compiling = Path.write_text, ["compile", "net.onnx", "-o", "made"]

    def until(path: Path, text: str, **given: str) -> int:
        written = write(path, text if path.name != stopped else "", **given)
        if path.name == stopped:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        return written

    assert not before or main(compiling) == 0
    with monkeypatch.context() as full:
        full.setattr(Path, "write_text", until)
        assert main(compiling) == 2
    assert main(compiling) == 0


def test_compile_knows_again_whatever_it_wrote(capsys: Shell) -> None:
    model = """<ir_version: 10, opset_import: ["" : 21]> g (float[1, 3] x) => (float[1, 2] y)
        <float[3, 2] w = {1, 2, 3, 4, 5, 6}> { y = MatMul(x, w) }"""
    Path("row.onnxtxt").write_text(model)
    assert main(["compile", "row.onnxtxt", "-o", "row"]) == 0
    assert Path("row/model.c").read_text().startswith("#define SX_ONE_ROW")
    assert main(["compile", "net.onnx", "-o", "row"]) == 0


FULL = [
    ("check", "net.onnx", "--output"),
    ("extract", "net.onnx", "--inputs", "h", "--outputs", "y", "-o"),
    ("legalize", "net.onnx", "-o"),
    ("trace", "net.onnx", "-o"),
    ("trace", "run.jsonl", "--disclose", "0", "-o"),
]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", FULL)
def test_a_full_disk_is_told_with_the_file(command: tuple[str, ...], capsys: Shell) -> None:
    assert main(["trace", "net.onnx", "-o", "run.jsonl"]) == 0
    capsys.readouterr()
    assert main([*command, "/dev/full"]) == 2
    assert "error: /dev/full: No space left on device\n" in capsys.readouterr().err


def test_a_standard_output_that_is_closed_is_no_error() -> None:
    command = [sys.executable, "-m", "sardonyx", "info", "net.onnx"]
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *command], stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, b"")


def test_schedules_that_cannot_be_written_are_told_before_they_are_measured(
    capsys: Shell,
) -> None:
    fails(capsys, "expected a file in a folder", "run", "net.onnx", "--tune", "--schedule", "no/s")
    command = ("run", "net.onnx", "--tune", "--schedule", "net.onnx")
    fails(capsys, "--schedule net.onnx is the model itself", *command)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
def test_schedules_are_read_from_a_regular_file(capsys: Shell) -> None:
    command = ("run", "net.onnx", "--engine", "native", "--schedule", "/dev/zero")
    fails(capsys, "/dev/zero is no file of schedules: it is no regular file", *command)


LOST: list[tuple[tuple[str, ...], str]] = [
    (PART, "net.onnx"),
    (("legalize", "net.onnx", "-o"), "net.onnx"),
    (("check", "net.onnx", "--output"), "net.onnx"),
    (("trace", "net.onnx", "-o"), "net.onnx"),
    (("trace", "net.onnx", "--input", "x=x.npy", "-o"), "x.npy"),
    (("run", "net.onnx", "--input", "x.npz", "--output"), "x.npz"),
    (("trace", "run.jsonl", "--disclose", "0", "-o"), "run.jsonl"),
    (("bench", "net.onnx", "--runs", "1", "--json"), "net.onnx"),
    (("bench", "net.onnx", "--runs", "1", "--input", "x.npy", "--markdown"), "x.npy"),
]


@pytest.mark.parametrize(("command", "file"), LOST)
def test_what_is_read_is_not_written_over(
    command: tuple[str, ...], file: str, capsys: Shell
) -> None:
    assert main(["trace", "net.onnx", "-o", "run.jsonl"]) == 0
    capsys.readouterr()
    what = "the trace" if file == "run.jsonl" else "the model"
    what = "an input" if file.startswith("x") else what
    fails(capsys, f"{file} is {what} itself; choose another file", *command, file)
    Path("link").symlink_to(file)
    if command[0] != "run":
        fails(capsys, f"link is {what} itself; choose another file", *command, "link")


@pytest.mark.parametrize("command", [command for command, _ in LOST])
def test_a_file_that_cannot_be_written_is_told_first(
    command: tuple[str, ...], capsys: Shell
) -> None:
    assert main(["trace", "net.onnx", "-o", "run.jsonl"]) == 0
    capsys.readouterr()
    Path("there.npz").mkdir()
    for path in ("there.npz", "nowhere/out.npz"):
        fails(capsys, f"{path}: expected a file in a folder that is there", *command, path)


def test_two_reports_are_not_one_file(capsys: Shell) -> None:
    both = ("--json", "out", "--markdown", "./out")
    said = "--markdown out: it is written by --json, too; choose another"
    fails(capsys, said, "bench", "net.onnx", "--runs", "1", *both)


TWICE = "is given twice, before as stop; give one"
REFUSED: list[tuple[str, str, tuple[str, ...]]] = [
    ("--range x=2:3: x had a range before", "check", ("--range", "x=0:1", "--range", "x=2:3")),
    ("--range x=1:0: it is empty", "check", ("--range", "x=1:0")),
    ("--range x=0:nan: it is empty", "check", ("--range", "x=0:nan")),
    ("--range 0:1: expected NAME=LO:HI", "check", ("--range", "x=0:1", "--range", "0:1")),
    ("--range x=2:3: x had a", "accuracy", ("--range", "x=0:1", "--range", "x=2:3")),
    ("--range 2:3: all inputs had a", "accuracy", ("--range", "0:1", "--range", "2:3")),
    ("--range x=1:0: it is empty", "accuracy", ("--range", "x=1:0")),
    ("--range: the model has no input of floats 'q'; they are x", "accuracy", ("--range", "q=0:1")),
    (f"nan=ignore: nan {TWICE}", "monitor", ("--policy", "nan=stop", "--policy", "nan=ignore")),
    (
        f": Relu:nan {TWICE}",
        "monitor",
        ("--policy", "Relu:nan=stop", "--policy", "Relu:nan=ignore"),
    ),
]


REPEAT = ("replay", "run.jsonl")
SHOWN = ("replay", "step.json")
NEITHER = "means nothing where no step is executed (--model MODEL); leave it out"
AGAIN = ("--model", "net.onnx")
VALUES = ("--values", "values")
NO_FOLDER = "--values x.npy: expected a folder"
OF_TRACES: list[tuple[str, tuple[str, ...]]] = [
    (f"--step {NEITHER}", (*REPEAT, "--step", "0")),
    (f"--values {NEITHER}", (*REPEAT, *VALUES)),
    (f"--dim {NEITHER}", (*REPEAT, "--dim", "N=2")),
    (NO_FOLDER, (*REPEAT, *AGAIN, "--values", "x.npy")),
    ("--values nowhere: expected a folder", (*REPEAT, *AGAIN, "--values", "nowhere")),
    ("--step means nothing for one step", (*SHOWN, *AGAIN, "--step", "0")),
    ("--values means nothing for one step", (*SHOWN, *AGAIN, *VALUES)),
    ("--values nowhere: expected", ("diff", "run.jsonl", "run.jsonl", "--values", "nowhere")),
    ("--values is given 3 times", ("diff", "run.jsonl", "run.jsonl", *VALUES, *VALUES, *VALUES)),
    (NO_FOLDER, ("trace", "net.onnx", "-o", "out", "--values", "x.npy")),
    (NO_FOLDER, ("trace", "run.jsonl", "-o", "out", "--disclose", "0", "--values", "x.npy")),
    ("--dim means nothing", ("trace", "run.jsonl", "-o", "out", "--disclose", "0", "--dim", "N=1")),
    ("--input means", ("trace", "run.jsonl", "-o", "out", "--disclose", "0", "--input", "x.npy")),
]


@pytest.mark.parametrize(("words", "command"), OF_TRACES)
def test_what_a_trace_has_no_use_for_is_refused(
    words: str, command: tuple[str, ...], capsys: Shell
) -> None:
    assert main(["trace", "net.onnx", "-o", "run.jsonl", *VALUES]) == 0
    assert main(["trace", "run.jsonl", "-o", "step.json", "--disclose", "0", *VALUES]) == 0
    capsys.readouterr()
    fails(capsys, words, *command)


def test_an_operator_s_document_is_of_one_operator(capsys: Shell) -> None:
    fails(capsys, "Relu means nothing beside --sonnx Conv", "operators", "Relu", "--sonnx", "Conv")
    fails(capsys, "--profile means nothing without", "operators", "Relu", "--profile", "sonnx@v2")


def test_what_an_archive_or_a_file_of_labels_lacks_is_told(capsys: Shell) -> None:
    np.savez("none.npz")
    fails(capsys, "none.npz holds no arrays", "run", "net.onnx", "--input", "none.npz")
    Path("two").write_text("cat\ndog\n")
    Path("three").write_text("cat\ndog\nowl\n")
    Path("empty").write_text("")
    said = "--labels two: 2 names, but the last axis of no output has as many: 'y' is float32[2, 3]"
    fails(capsys, said, "run", "net.onnx", "--labels", "two")
    fails(capsys, "--labels empty: 0 names", "run", "net.onnx", "--labels", "empty")
    assert main(["run", "net.onnx", "--labels", "three"]) == 0
    assert "owl" in capsys.readouterr().out


@pytest.mark.parametrize(("words", "command", "options"), REFUSED)
def test_what_an_option_cannot_mean_is_refused(
    words: str, command: str, options: tuple[str, ...], capsys: Shell
) -> None:
    fails(capsys, words, command, "net.onnx", *options)


def test_the_range_of_one_input_goes_before_that_of_all(capsys: Shell) -> None:
    said = []
    for order in (("0:1", "x=2:3"), ("x=2:3", "0:1"), ("x=2:3",)):
        options = [word for text in order for word in ("--range", text)]
        assert main(["accuracy", "net.onnx", *options]) == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] == said[2]


def test_doctor_tells_of_settings_that_are_none(
    capsys: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SARDONYX_CACHE", "x.npy")
    assert main(["doctor"]) == 1
    assert "x.npy, which is no folder: SARDONYX_CACHE can name" in capsys.readouterr().out
    monkeypatch.setenv("SARDONYX_CACHE", "cache")
    monkeypatch.setenv("SARDONYX_ENGINE", "fast")
    assert main(["doctor"]) == 1
    assert "SARDONYX_ENGINE is 'fast'; it can be machine, native, auto" in capsys.readouterr().out


def test_memory_that_is_not_there_is_told(capsys: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise MemoryError("Unable to allocate 128. GiB")

    monkeypatch.setattr("sardonyx.cli.feeds.random", none)
    fails(capsys, "does not have the memory for it: Unable to allocate 128. GiB", "run", "net.onnx")


def test_what_is_wrong_with_onnx_text_is_one_line(capsys: Shell) -> None:
    Path("net.onnxtxt").write_text("<ir_version: 8>\ngarbage <\n")
    fails(
        capsys,
        "net.onnxtxt is not ONNX text: [ParseError at position (line: 2",
        "info",
        "net.onnxtxt",
    )


def test_a_plot_of_no_known_format_is_refused_first(capsys: Shell) -> None:
    pytest.importorskip("matplotlib")
    said = "--plot roof.onnx: expected a name that ends in ."
    fails(capsys, said, "bench", "net.onnx", "--plot", "roof.onnx")
