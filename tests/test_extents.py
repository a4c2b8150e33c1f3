"""Exported C of sizes that depend on data: capacity in M, the extent found as it runs."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from sardonyx.calls import Context, pointers
from sardonyx.cli import main
from sardonyx.errors import FeedError, UnsupportedModel
from sardonyx.loading import load
from sardonyx.memory import aligned
from sardonyx.passes.extents import with_extents
from sardonyx.passes.lower import lower

X = np.array([[0.5, -2, 0, 3], [0, 0, 1, 0]], np.float32)
ZERO = np.zeros_like(X)
BOXES = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 2, 1, 3], [5, 5, 6, 6]]], np.float32)
SCORES = np.array([[[0.9, 0.8, 0.7, 0.2]]], np.float32)
SELECTED = """
  i = NonZero(x)
  t = Transpose(i)
  g = GatherND(x, t)
  y = Mul(g, g)
  s = ReduceSum<keepdims = 0>(y)
"""
BEST = """
  k = Constant<value = int64[1] {2}>()
  h = Constant<value = float[1] {0.5}>()
  l = Constant<value = float[1] {0.3}>()
  i = NonMaxSuppression(b, c, k, h, l)
  two = Constant<value = int64[1] {2}>()
  j = Gather<axis = 1>(i, two)
  z = Constant<value = int64[1] {-1}>()
  f = Reshape(j, z)
  q = Squeeze(b)
  y = Gather(q, f)
"""
COMPUTED = """
  m = Cast<to = 7>(p)
  y = Tile(x, m)
"""
COUNTED = """
  q = NonZero(x)
  r = Shape<start = 1>(q)
  n = Neg(r)
  z = Constant<value = int64[1] {0}>()
"""
LEFT = "p = Concat<axis = 0>(n, z, z, z) e = Exp(w) c = Pad(e, p) s = Softmax<axis = 0>(c)"
ROW, GRID = np.array([1, 0, 0, 0], np.float32), np.arange(400, dtype=np.float32).reshape(4, 100)
REST = """
  m = Cast<to = 7>(p)
  e = Constant<value = int64[1] {99}>()
  r = Slice(x, m, e)
  t = Exp(r)
  z = Neg(t)
  i = NonZero(z)
  y = Concat<axis = 0>(z, x, t)
"""
TURNS = """
  one = Constant<value = int64 {1}>()
  none = Constant<value = float {0}>()
  q = NonZero(x)
  s = Shape(q)
  n = Gather(s, one)
  z = Constant<value = int64[1] {0}>()
  p = Squeeze(q, z)
  h, y = Loop(n, "", none) <body = b (int64 i, bool c, float h) => (bool d, float g, float w) {
    d = Identity(c)
    j = Gather(p, i)
    u = Gather(x, j)
    g = Add(h, u)
    w = Tanh(g)
  }>
"""
CASES: dict[str, tuple[str, str, dict[str, Any], list[str]]] = {
    "what is not 0": (
        "(float[2, 4] x) => (float[n] y, float s)", SELECTED, {"x": X}, []
    ),
    "nothing": ("(float[2, 4] x) => (float[n] y, float s)", SELECTED, {"x": ZERO}, []),
    "the best boxes": (
        "(float[1, 4, 4] b, float[1, 1, 4] c) => (float[n, 4] y)",
        BEST,
        {"b": BOXES, "c": SCORES},
        [],
    ),
    "what is left of a cut": (
        "(float[4] x, float[4, 100] w) => (float[m, 100] y, float[4, 100] v)",
        f"{COUNTED} {LEFT} y = CumSum(s, z) v = Exp(w)",
        {"x": ROW, "w": GRID / 100},
        [],
    ),
    "a computed size with a bound": (
        "(float[2, 4] x, float[2] p) => (float[n, k] y)",
        COMPUTED,
        {"x": X, "p": np.array([2.5, 1.5], np.float32)},
        ["--max-dim", "m[0]=3", "--max-dim", "m[1]=2"],
    ),
    "a loop of as many turns": ("(float[4] x) => (float[n] y, float h)", TURNS, {"x": ROW}, []),
    "a loop of no turn": (
        "(float[4] x) => (float[n] y, float h)", TURNS, {"x": np.zeros(4, np.float32)}, []
    ),
    "what is larger for a smaller number": (
        "(float[4, 40] x, float[1] p) => (float[n, 40] y, int64[2, k] i, float[l, 40] t)",
        REST,
        {"x": np.linspace(0, 1, 160, dtype=np.float32).reshape(4, 40), "p": np.ones(1, np.float32)},
        ["--max-dim", "m=4"],
    ),
}  # fmt: skip


def model(sign: str, body: str) -> onnx.ModelProto:
    text = f'<ir_version: 10, opset_import: ["": 21]> g {sign} {{ {body} }}'
    return onnx.parser.parse_model(text)


def compiled(sign: str, body: str, feeds: dict[str, Any], options: list[str], folder: Path) -> Path:
    onnx.save(model(sign, body), folder / "net.onnx")
    np.savez(folder / "net.npz", **feeds)
    arguments = ["compile", str(folder / "net.onnx"), "--input", str(folder / "net.npz"), *options]
    assert main([*arguments, "-o", str(folder / "c")]) == 0
    return folder / "c"


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("name", CASES)
def test_an_exported_folder_gives_the_bytes_of_the_machine(
    name: str, compiler: str, tmp_path: Path
) -> None:
    folder = compiled(*CASES[name], tmp_path)
    flags = "-std=c99 -O1 -pedantic -Wall -Wextra -Werror -fsanitize=address,undefined"
    more = f"{flags} -fno-sanitize-recover=all -ffp-contract=off -fno-strict-aliasing"
    command = ["make", "-C", str(folder), "test", f"CC={compiler}", f"CFLAGS={more}"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_scratch_of_a_thread_is_for_the_largest_sizes(tmp_path: Path) -> None:
    body = "b = Cast<to = 9>(x) e = Compress<axis = 1>(w, b) s = Softmax(e) t = Exp(s) y = Neg(t)"
    sign = "(float[128] x, float[64, 128] w) => (float[64, n] y)"
    feeds = {"x": np.ones(128, np.float32), "w": np.ones((64, 128), np.float32)}
    header = (compiled(sign, body, feeds, ["--threads"], tmp_path) / "model.h").read_text()
    (size,) = re.findall(r"#define SARDONYX_WORKER_BYTES (\d+)\n", header)
    assert int(size) >= 128 * 4


def test_a_size_beyond_its_bound_is_a_reported_error(tmp_path: Path) -> None:
    sign, body, feeds, options = CASES["a computed size with a bound"]
    folder = compiled(sign, body, feeds, options, tmp_path)
    text = (folder / "model.c").read_text()
    assert "extents[0] > 3" in text
    (folder / "model.c").write_text(text.replace("extents[0] > 3", "extents[0] > 1"))
    done = subprocess.run(["make", "-C", str(folder), "test"], capture_output=True, text=True)
    assert done.returncode != 0
    assert "error 3" in done.stdout + done.stderr


UNFIT = {
    "what repeats nothing": 'p = Concat<axis = 0>(n, r) y = Pad<mode = "edge">(w, p)',
    "more than there are": "y, i = TopK(w, r)",
    "a cut of more than there is": "p = Concat<axis = 0>(n, z) y = Pad(w, p)",
}


@pytest.mark.parametrize("name", UNFIT)
def test_sizes_that_do_not_fit_are_reported_errors(name: str, tmp_path: Path) -> None:
    sign, two = "(float[4] x, float[2] w) => (float[m] y)", np.array([5, 6], np.float32)
    folder = compiled(sign, COUNTED + UNFIT[name], {"x": ROW, "w": two}, [], tmp_path)
    assert called(folder, [ROW, two]) == 0
    assert called(folder, [np.ones(4, np.float32), two]) == 3


def called(folder: Path, feeds: list[Any]) -> int:
    """What sardonyx_run of an exported folder returns, with 64 bytes for each output."""
    command = ["cc", "-shared", "-fPIC", "-o", "net.so", "model.c", "weights.c", "-lm"]
    subprocess.run(command, cwd=folder, check=True)
    results, memory = [aligned(64, 0) for _ in range(3)], aligned(4096, 0)
    given, written = pointers(feeds), pointers(results)
    places = memory.ctypes.data, None, None, None
    context = Context(*places, ctypes.addressof(given), ctypes.addressof(written))
    return int(ctypes.CDLL(str(folder / "net.so")).sardonyx_run(ctypes.byref(context)))


def test_a_size_without_a_bound_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sign, body, feeds, _ = CASES["a computed size with a bound"]
    onnx.save(model(sign, body), tmp_path / "net.onnx")
    np.savez(tmp_path / "net.npz", **feeds)
    arguments = ["compile", str(tmp_path / "net.onnx"), "--input", str(tmp_path / "net.npz")]
    assert main([*arguments, "-o", str(tmp_path / "c")]) == 2
    assert "--max-dim m[0]=N" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("bound", "words"),
    [
        ({"K": 1}, r"no size 'K' depends on data: there are m\[0\], m\[1\]"),
        ({"m[0]": 0}, r"m\[0\] is given the size 0, expected at least 1"),
        ({"m[0]": 2**63}, r"m\[0\] is given the size \d+, expected at most"),
    ],
)
def test_a_bound_that_is_none_is_refused(bound: dict[str, int], words: str) -> None:
    sign, body, *_ = CASES["a computed size with a bound"]
    with pytest.raises(FeedError, match=words):
        with_extents(load(model(sign, body)), {"m[0]": 3, "m[1]": 2, **bound})


def test_what_the_host_performs_is_refused_by_name() -> None:
    graph = load(model("(string[2] x) => (string[2] y)", "y = StringConcat(x, x)"))
    with pytest.raises(UnsupportedModel, match=r"StringConcat.*host"):
        lower(graph)
