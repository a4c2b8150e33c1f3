"""The command line: what it prints, its exit codes, and one clear line for every mistake."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sardonyx import ort
from sardonyx.cli import COMMANDS, main
from sardonyx.errors import FeedError
from sardonyx.loading import load

pytestmark = pytest.mark.usefixtures("machine_engine")
F = TensorProto.FLOAT
Shell = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def net(tmp_path: Path) -> str:
    """y = softmax(x @ w + b) over three labelled classes."""
    weights = [
        numpy_helper.from_array(np.eye(4, 3, dtype=np.float32), "w"),
        numpy_helper.from_array(np.zeros(3, np.float32), "b"),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["x", "w", "b"], ["h"], name="dense"),
            helper.make_node("Softmax", ["h"], ["y"], name="scores"),
        ],
        "net",
        [info("x", F, ["N", 4]), info("b", F, [3])],
        [info("y", F, ["N", 3])],
        weights,
    )
    model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21)])
    helper.set_model_props(model, {"labels": "cat,dog,owl"})
    onnx.save(model, tmp_path / "net.onnx")
    return "net.onnx"


def fails(shell: Shell, words: str, *arguments: str) -> None:
    """Exit code 2, and one line on stderr that has these words."""
    assert main(arguments) == 2
    said = shell.readouterr()
    assert said.err.startswith("sardonyx: error: ")
    assert said.err.count("\n") == 1
    assert words in said.err, said.err


def test_run_without_inputs_says_that_they_are_random(net: str, capsys: Shell) -> None:
    assert main(["run", net]) == 0
    said = capsys.readouterr()
    assert "x: random input, seed 0, with N=1" in said.err
    for word in ("cat", "dog", "owl", "time ", "engine  machine", "N  ", "lower bound"):
        assert word in said.out
    assert main(["run", net, "--dim", "N=2"]) == 0
    assert "y: float32[2, 3]" in capsys.readouterr().out


def test_run_reads_npz_npy_and_pb(net: str, capsys: Shell) -> None:
    x = np.array([[0, 0, 9, 0]], np.float32)
    np.savez("x.npz", x=x)
    np.save("x.npy", x)
    Path("x.pb").write_bytes(numpy_helper.from_array(x, "x").SerializeToString())
    Path("other.pb").write_bytes(numpy_helper.from_array(x, "other").SerializeToString())
    for given in ("x.npz", "x.npy", "x.pb", "other.pb", "x=x.npy", "x=x.npz", "x=other.pb"):
        assert main(["run", net, "--input", given, "--top", "1"]) == 0
        said = capsys.readouterr()
        assert "random" not in said.err
        assert "\n  owl 0.9998\n" in said.out


def test_run_takes_labels_from_a_file_and_feeds_initializers(net: str, capsys: Shell) -> None:
    Path("names.txt").write_text("one\ntwo\nthree\n")
    np.savez("all.npz", x=np.zeros((1, 4), np.float32), b=np.array([0, 8, 0], np.float32))
    options = ["--input", "all.npz", "--labels", "names.txt", "--top", "1"]
    assert main(["run", net, *options]) == 0
    assert "\n  two 0.9993\n" in capsys.readouterr().out


def test_run_writes_outputs(net: str) -> None:
    x = np.array([[1, 2, 3, 4], [4, 3, 2, 1]], np.float32)
    np.save("x.npy", x)
    assert main(["run", net, "--input", "x.npy", "--output", "out.npz"]) == 0
    expected = ort.InferenceSession(net).run(["y"], {"x": x})[0]
    np.testing.assert_array_equal(np.load("out.npz")["y"], expected)


def test_random_inputs_depend_on_the_seed_alone(net: str) -> None:
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        assert main(["run", net, "--seed", seed, "--output", f"{name}.npz"]) == 0
    a, b, c = (np.load(f"{name}.npz")["y"] for name in "abc")
    assert a.tobytes() == b.tobytes() != c.tobytes()


def test_mistakes_are_one_line(net: str, capsys: Shell) -> None:
    np.save("wide.npy", np.zeros((1, 5), np.float32))
    np.save("doubles.npy", np.zeros((1, 4)))
    np.save("objects.npy", np.array([{}, 1], object), allow_pickle=True)
    np.savez("q.npz", q=np.zeros(3, np.float32))
    Path("bad.onnx").write_bytes(b"not a model")
    Path("bad.npz").write_bytes(b"not an archive")
    Path("bad.pb").write_bytes(b"\xff\xff")
    fails(capsys, "nope.onnx cannot be read: No such file", "run", "nope.onnx")
    fails(capsys, "bad.onnx is not an ONNX file", "info", "bad.onnx")
    fails(capsys, "nope.npy: No such file", "run", net, "--input", "x=nope.npy")
    fails(capsys, "bad.npz cannot be read as .npz", "run", net, "--input", "bad.npz")
    fails(capsys, "bad.pb cannot be read as .pb", "run", net, "--input", "bad.pb")
    fails(capsys, "objects.npy cannot be read as .npy", "run", net, "--input", "objects.npy")
    fails(capsys, "ends in .npz, .npy or .pb", "run", net, "--input", "x.txt")
    fails(capsys, "no input 'q'; the inputs are x, b", "run", net, "--input", "q=wide.npy")
    fails(capsys, "holds 'q'; the inputs are x, b", "run", net, "--input", "q.npz")
    fails(capsys, "expected float32[N, 4]", "run", net, "--input", "wide.npy")
    fails(capsys, "float64", "run", net, "--input", "doubles.npy")
    fails(capsys, "no symbolic dim 'M': it has N", "run", net, "--dim", "M=3")
    fails(capsys, "expected NAME=SIZE", "run", net, "--dim", "N")
    fails(capsys, "expected at least 1", "run", net, "--dim", "N=0")
    fails(capsys, ".npz file", "run", net, "--output", "x.txt")
    fails(capsys, "names.txt: No such file", "run", net, "--labels", "names.txt")
    fails(capsys, "no node has this name", "step", net, "--until", "nope")
    fails(capsys, "no such tensor", "step", net, "--show", "nope")
    fails(capsys, "is no tensor", "extract", net, "--inputs", "q", "--outputs", "y", "-o", "o.onnx")
    fails(capsys, "add --dim N=SIZE", "compile", net, "-o", "folder")
    fails(capsys, "is the model itself", "extract", net, "--inputs=x", "--outputs=y", "-o", net)


LONG = "99999999999999999999"
TWO = ("--dim", "N=2")
FOLDER = (*TWO, "-o", "folder")
REFUSED: dict[str, tuple[str, tuple[str, ...]]] = {
    "a dim of 20 digits": ("20 digits, expected at most 9223", ("run", "--dim", f"N={LONG}")),
    "a dim of 5000": ("5000 digits", ("compile", "-o", "folder", "--dim", f"N={'9' * 5000}")),
    "a dim beyond int64": (f"expected at most {2**63 - 1}", ("run", "--dim", f"N={2**63}")),
    "of legalize": ("expected at most", ("legalize", "-o", "o.onnx", "--dim", f"N={2**63}")),
    "a dim twice": ("--dim N=2: N is given twice, before as 1", ("run", "--dim", "N=1", *TWO)),
    "Arabic digits": ("expected NAME=SIZE", ("run", "--dim", "N=\u0663")),
    "an underscore": ("expected NAME=SIZE", ("run", "--dim", "N=1_0")),
    "a seed": ("--seed -1: expected at least 0", ("run", *TWO, "--seed", "-1")),
    "a seed of compile": ("--seed -1: expected", ("compile", *FOLDER, "--seed", "-1")),
    "a seed of legalize": ("--seed -1: expected", ("legalize", "-o", "o.onnx", "--seed", "-1")),
    "threads": ("--threads -1: expected at least 0", ("run", *TWO, "--threads", "-1")),
    "many threads": (
        "--threads 99999999999: expected 0 to 256",
        ("run", *TWO, "--threads", "99999999999"),
    ),
    "top": ("--top -1: expected at least 0", ("run", *TWO, "--top", "-1")),
    "a bound": ("no size 'K' depends on data: none does", ("compile", *FOLDER, "--max-dim", "K=1")),
    "a bound of 0": ("size 0, expected at least 1", ("compile", *FOLDER, "--max-dim", "K=0")),
    "a long bound": (
        "--max-dim K: a size of 20 digits",
        ("compile", *FOLDER, "--max-dim", f"K={LONG}"),
    ),
    "a wrong bound": ("as in --max-dim N=1", ("compile", *FOLDER, "--max-dim", "K")),
    "a trace of threads": ("--trace with --threads:", ("compile", *FOLDER, "--trace", "--threads")),
    "a trace, tuned": ("--trace with --tune:", ("compile", *FOLDER, "--trace", "--tune")),
    "a trace of schedules": (
        "--trace with --schedule:",
        ("compile", *FOLDER, "--trace", "--schedule", "s.json"),
    ),
    "a trace of bounds": (
        "--trace with --max-dim:",
        ("compile", *FOLDER, "--trace", "--max-dim", "K=1"),
    ),
    "no folder": ("--output is empty", ("compile", *TWO, "-o", "")),
    "no file": ("--output is empty", ("trace", *TWO, "-o", "")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_an_option_cannot_mean_is_refused(name: str, net: str, capsys: Shell) -> None:
    words, (command, *options) = REFUSED[name]
    fails(capsys, words, command, net, *options)
    assert not {"folder", "o.onnx", "model.c"} & {path.name for path in Path().iterdir()}


def test_labels_that_are_not_utf8_are_refused(net: str, capsys: Shell) -> None:
    Path("names.txt").write_bytes(b"cat\ndog\n\xff\n")
    fails(capsys, "names.txt: byte 8 is not UTF-8", "run", net, "--labels", "names.txt")


@pytest.mark.parametrize("size", [-1, 0, 2**63])
def test_load_refuses_a_size_that_is_none(net: str, size: int) -> None:
    with pytest.raises(FeedError, match=f"'N' is given the size {size}, expected at"):
        load(net, dims={"N": size})


def test_an_operator_that_is_not_there_is_named(capsys: Shell) -> None:
    info = helper.make_tensor_value_info
    domain = "ai.onnx.preview.training"
    node = helper.make_node("Gradient", ["x"], ["y"], "slope", domain=domain, xs=["x"], y="x")
    graph = helper.make_graph([node], "g", [info("x", F, [2, 2])], [info("y", F, [2, 2])])
    opsets = [helper.make_opsetid("", 22), helper.make_opsetid(domain, 1)]
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=opsets), "slope.onnx")
    said = f"Gradient 'slope': Sardonyx does not have {domain}::Gradient-1: the gradient"
    fails(capsys, said, "run", "slope.onnx")
    assert main(["info", "slope.onnx"]) == 0
    assert "Sardonyx does not have it" in capsys.readouterr().out


def noise(name: str) -> None:
    info = helper.make_tensor_value_info
    node = helper.make_node("RandomNormal", [], ["y"], shape=[3])
    graph = helper.make_graph([node], "g", [], [info("y", F, [3])])
    opsets = [helper.make_opsetid("", 22)]
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=opsets), name)


def test_run_seeds_random_operators_and_says_so(capsys: Shell) -> None:
    noise("noise.onnx")
    for seed, name in (("1", "a.npz"), ("2", "b.npz")):
        assert main(["run", "noise.onnx", "--seed", seed, "--output", name]) == 0
        assert f"seed    {seed} (of random operators)" in capsys.readouterr().out
    assert not np.array_equal(np.load("a.npz")["y"], np.load("b.npz")["y"])


def test_compile_seeds_random_operators() -> None:
    noise("noise.onnx")
    for seed in ("1", "2"):
        assert main(["run", "noise.onnx", "--seed", seed, "--output", f"{seed}.npz"]) == 0
        assert main(["compile", "noise.onnx", "--seed", seed, "-o", f"c{seed}"]) == 0
    texts = [
        {p.name: p.read_bytes() for p in Path(f"c{seed}").iterdir() if p.is_file()} for seed in "12"
    ]
    assert texts[0] != texts[1]
    for seed, files in zip("12", texts, strict=True):
        expected = np.load(f"{seed}.npz")["y"].tobytes()
        assert any(expected in data for data in files.values())


def test_info_tells_what_a_model_is(net: str, capsys: Shell) -> None:
    assert main(["info", net, "--dim", "N=5"]) == 0
    shown = capsys.readouterr().out
    for line in (
        "  x  float32[5, 4]\n",
        "  y  float32[5, 3]\n",
        "overridable initializers:\n  b  float32[3]\n",
        "opsets: ai.onnx 21",
        "  Gemm-13     1\n",
        "  Softmax-13  1\n",
        "parameters: 15 in 2 initializers, 60 bytes\n",
        f"MACs: {5 * 4 * 3}\n",
        "metadata: labels = cat,dog,owl\n",
    ):
        assert line in shown
    assert main(["info", net]) == 0
    shown = capsys.readouterr().out
    assert "x  float32[N, 4]" in shown
    assert "MACs: 12 (at N=1)" in shown
    assert "subnormal" not in shown


def test_info_counts_constants_and_what_is_subnormal(capsys: Shell) -> None:
    head = '<ir_version: 10, opset_import: ["": 21]> g (float[3] x) => (y)'
    body = "c = Constant<value = float[3] {0, 1e-40, 1}>() y = Add(x, c)"
    onnx.save(onnx.parser.parse_model(f"{head} {{ {body} }}"), "small.onnx")
    assert main(["info", "small.onnx"]) == 0
    shown = capsys.readouterr().out
    assert "parameters: 3 in 0 initializers and 1 constants, 12 bytes\n" in shown
    assert "subnormal: 1 of these" in shown


def test_step_walks_the_machine(net: str, capsys: Shell) -> None:
    np.save("x.npy", np.array([[1, 2, 3, np.nan]], np.float32))
    assert main(["step", net, "--input", "x.npy", "--until", "dense", "--show", "h"]) == 0
    shown = capsys.readouterr().out
    assert "0: Gemm 'dense'\n" in shown
    assert "reads  w at " in shown
    assert "float32[4, 3]" in shown
    assert "only NaN" in shown
    assert "h =\n   [[nan, nan, nan]]" in shown
    assert "Softmax" not in shown
    assert main(["step", net, "--until", "0", "--show", "y"]) == 0
    assert "not reached: y" in capsys.readouterr().out


def test_extract_writes_a_part_that_runs(net: str, capsys: Shell) -> None:
    assert main(["extract", net, "--inputs", "h", "--outputs", "y", "-o", "part.onnx"]) == 0
    h = np.array([[1, 2, 3]], np.float32)
    (found,) = ort.InferenceSession("part.onnx").run(None, {"h": h})
    assert np.argmax(found) == 2
    assert "1 nodes" in capsys.readouterr().out


@pytest.mark.skipif(not (shutil.which("make") and shutil.which("cc")), reason="needs make and cc")
def test_compile_writes_c_that_passes_its_own_test(net: str, capsys: Shell) -> None:
    assert main(["compile", net, "--dim", "N=2", "-o", "folder"]) == 0
    shown = capsys.readouterr().out
    for name in ("model.h", "model.c", "weights.bin", "test_main.c", "Makefile", "CMakeLists.txt"):
        assert f"folder/{name}" in shown
    done = subprocess.run(["make", "-s", "-C", "folder", "test"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "equal to the recorded ones" in done.stdout


def test_operators_prints_a_table(capsys: Shell) -> None:
    assert main(["operators", "relu"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"ai\.onnx +Relu ", shown)
    assert re.search(r"Relu +1, 6 ", shown)
    assert main(["operators", "nonzero"]) == 0
    assert re.search("NonZero +9 .*two kernels", capsys.readouterr().out)
    assert main(["operators", "nonsense"]) == 1


def test_doctor_tells_of_the_compiler_and_clears_the_cache(
    capsys: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SARDONYX_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / f"{'a' * 40}.so").write_bytes(b"12345")
    assert main(["doctor"]) in (0, 1)
    shown = capsys.readouterr().out
    assert "compiler" in shown
    assert "5 bytes" in shown
    assert main(["doctor", "--clear-cache"]) == 0
    assert "freed 5 bytes" in capsys.readouterr().out
    assert not list((tmp_path / "cache").iterdir())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: Shell) -> None:
    with pytest.raises(SystemExit) as raised:
        main([name, "--help"])
    assert raised.value.code == 0
    assert f"usage: sardonyx {name}" in capsys.readouterr().out


@pytest.mark.parametrize("module", ["sardonyx", "sardonyx.cli"])
def test_the_command_is_installed_and_says_its_version(module: str) -> None:
    command = [sys.executable, "-m", module, "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("sardonyx 0.")


def test_wrong_arguments_are_exit_code_2(capsys: Shell) -> None:
    for wrong in (["nonsense"], ["run"], ["run", "a", "--engine", "magic"]):
        with pytest.raises(SystemExit) as raised:
            main(wrong)
        assert raised.value.code == 2
    assert main([]) == 0
    assert "COMMAND" in capsys.readouterr().out


def odd(name: str, node: onnx.NodeProto, shape: list[int | str] | None) -> str:
    info = helper.make_tensor_value_info
    dtype = TensorProto.INT64 if node.op_type == "NonZero" else F
    graph = helper.make_graph([node], "g", [info("x", F, [0, 2])], [info("y", dtype, shape)])
    opsets = [helper.make_opsetid("", 22)]
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=opsets), name)
    return name


def test_errors_of_the_profile_commands_name_the_file_and_the_reason(capsys: Shell) -> None:
    cyclic = odd("cycle.onnx", helper.make_node("Relu", ["y"], ["y"]), [2])
    fails(capsys, "cycle.onnx: ", "legalize", cyclic, "-o", "out.onnx")
    Path("none.jsonl").write_text("x")
    fails(capsys, "none.jsonl: the trace is cut off", "diff", "none.jsonl", "none.jsonl")
    shown = ("trace", "none.jsonl", "--disclose", "0", "-o", "part.json")
    fails(capsys, "none.jsonl: the trace is cut off", *shown)


def test_a_policy_names_nodes_that_are_there(capsys: Shell) -> None:
    model = odd("empty.onnx", helper.make_node("Relu", ["x"], ["y"]), [0, 2])
    fails(capsys, "no node and no operator 'Tanh'", "monitor", model, "--policy", "Tanh:nan=stop")
    assert main(["monitor", model, "--policy", "Relu:nan=stop"]) == 0


def test_a_tensor_without_elements_has_no_ends(capsys: Shell) -> None:
    model = odd("empty.onnx", helper.make_node("Relu", ["x"], ["y"]), [0, 2])
    assert main(["accuracy", model, "--range", "0:1"]) == 0
    assert "it has no elements" in capsys.readouterr().out
