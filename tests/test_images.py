"""A session that was made before is found again, and is the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

from sardonyx import InferenceSession, build
from sardonyx.errors import FeedError, InvalidModel, RunError
from sardonyx.images import ImageEngine
from sardonyx.keys import digest_of, key_of
from sardonyx.native import NativeEngine
from sardonyx.ort.capi.onnxruntime_pybind11_state import Fail
from sardonyx.ort.options import SessionOptions

X = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)


@pytest.fixture(autouse=True)
def _native(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SARDONYX_ENGINE", raising=False)


def model(rows: int | str = 3, scale: float = 1.0, overridable: bool = False) -> bytes:
    """y = softmax(x @ w), z = the row of y at i."""
    w = np.random.default_rng(1).standard_normal((8, 20)).astype(np.float32) * np.float32(scale)
    given = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 8]),
        helper.make_tensor_value_info("i", TensorProto.INT64, [1]),
    ]
    if overridable:
        given.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [8, 20]))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Softmax", ["m"], ["y"]),
        helper.make_node("Gather", ["y", "i"], ["z"]),
    ]
    made = [
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 20]),
        helper.make_tensor_value_info("z", TensorProto.FLOAT, [1, 20]),
    ]
    graph = helper.make_graph(nodes, "g", given, made, [numpy_helper.from_array(w, "w")])
    opsets = [helper.make_opsetid("", 18)]
    data: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    return data


def feeds(x: np.ndarray = X, i: int = 1) -> dict[str, np.ndarray]:
    return {"x": x, "i": np.array([i])}


def key(source: str | Path | bytes, options: object) -> str | None:
    return key_of(digest_of(source), options)


def told(session: InferenceSession) -> list[tuple[str, str, list[object]]]:
    return [(a.name, a.type, a.shape) for a in (*session.get_inputs(), *session.get_outputs())]


@pytest.mark.parametrize("rows", [3, "N"])
def test_the_second_session_is_found_and_is_the_same(rows: int | str) -> None:
    first, second = (InferenceSession(model(rows)) for _ in range(2))
    assert isinstance(first._sess, NativeEngine)
    assert isinstance(second._sess, ImageEngine)
    assert told(first) == told(second)
    assert first.get_modelmeta().graph_name == second.get_modelmeta().graph_name
    for x in (X, X[:1], X, np.repeat(X, 5, 0)) if rows == "N" else (X, X):
        expected, found = (s.run(None, feeds(x, 0)) for s in (first, second))
        assert [y.tobytes() for y in expected] == [y.tobytes() for y in found]
        assert first._sess.memory() == second._sess.memory()
    assert second._sess._full is None


def repeated() -> bytes:
    """y = x repeated n times along a new axis, its exponential."""
    given = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 8]),
        helper.make_tensor_value_info("n", TensorProto.INT64, [1]),
    ]
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Concat", ["n", "s"], ["to"], axis=0),
        helper.make_node("Expand", ["x", "to"], ["e"]),
        helper.make_node("Exp", ["e"], ["y"]),
    ]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["M", "N", 8])]
    graph = helper.make_graph(nodes, "g", given, made)
    opsets = [helper.make_opsetid("", 18)]
    data: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    return data


def test_values_that_decide_sizes_and_sizes_of_zero_are_in_images() -> None:
    first, second = (InferenceSession(repeated()) for _ in range(2))
    for n, x in ((3, X), (1, X), (0, X), (3, X[:2]), (40, X), (2, X[:0]), (0, X[:0]), (3, X)):
        expected, found = (s.run(None, {"x": x, "n": np.array([n])})[0] for s in (first, second))
        assert found.shape == (n, *x.shape)
        assert found.tobytes() == expected.tobytes()
        assert second._sess.memory() == first._sess.memory()
    assert isinstance(second._sess, ImageEngine)
    assert second._sess._full is None
    with pytest.raises(Fail):
        second.run(None, {"x": X, "n": np.array([-3])})


@pytest.mark.parametrize("rows", [3, "N"])
def test_a_session_that_was_made_before_loads_neither_onnx_nor_the_compiler(
    rows: int | str, tmp_path: Path
) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(model(rows))
    code = (
        "import sys, numpy, sardonyx\n"
        f"session = sardonyx.InferenceSession({str(path)!r})\n"
        "feeds = {'x': numpy.ones((3, 8), numpy.float32), 'i': numpy.array([1])}\n"
        "assert session.run(['z'], feeds)[0].shape == (1, 20)\n"
        "there = {m for m in sys.modules if m.startswith(('onnx', 'google', 'sardonyx'))}\n"
        "print(*sorted(x.removeprefix('sardonyx.') for x in there))\n"
    )
    long, short = (
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        for _ in range(2)
    )
    heavy = {"onnx", "google.protobuf", "ops.registry", "infer", "native", "machine", "resolve"}
    assert heavy <= set(long.stdout.split())
    assert not heavy & set(short.stdout.split())


def test_a_path_and_its_bytes_are_one_model(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(model())
    InferenceSession(path)
    assert isinstance(InferenceSession(model())._sess, ImageEngine)


def test_what_an_image_cannot_do_is_done_in_full() -> None:
    data = model("N", overridable=True)
    for _ in range(2):
        session = InferenceSession(data)
        other = {**feeds(), "w": np.zeros((8, 20), np.float32)}
        assert np.all(session.run(["y"], other)[0] == np.float32(1) / np.float32(20))
        with pytest.raises(RunError, match="Gather"):
            session.run(None, feeds(i=9))
    assert isinstance(session._sess, ImageEngine)


def test_feeds_are_refused_alike() -> None:
    for _ in range(2):
        session = InferenceSession(model())
        with pytest.raises(FeedError):
            session.run(None, feeds(X[:2]))
        with pytest.raises(FeedError):
            session.run(None, feeds(X.astype(np.float64)))
        with pytest.raises(ValueError, match="Required inputs"):
            session.run(None, {"x": X})


def test_sizes_that_do_not_fit_are_refused_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    head = '<ir_version: 8, opset_import: ["": 17]> g (float[1, 1, n] x) => (float[1, 1, m] y)'
    text = f"{head} {{ a = Relu(x) y = MaxPool<kernel_shape = [5]>(a) }}"
    data, told = onnx.parser.parse_model(text).SerializeToString(), list[str]()
    for engine in ("native", "native", "machine"):
        monkeypatch.setenv("SARDONYX_ENGINE", engine)
        with pytest.raises(InvalidModel, match=r"MaxPool .* a window of 5 is larger") as caught:
            InferenceSession(data).run(None, {"x": np.zeros((1, 1, 3), np.float32)})
        told.append(str(caught.value))
    assert told == told[:1] * 3


def test_other_bytes_and_other_options_are_other_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = {key(model(), ()), key(model(scale=2), ()), key(model(), (1,))}
    monkeypatch.setenv("CC", "gcc")
    keys.add(key(model(), ()))
    assert len(keys) == 4
    assert None not in keys
    InferenceSession(model("N"))
    options = SessionOptions()
    options.add_free_dimension_override_by_name("N", 3)
    assert isinstance(InferenceSession(model("N"), options)._sess, NativeEngine)


def test_a_model_of_many_pieces_that_names_a_file_has_no_key(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    for length in (b"\x08", b"\x88\x00", b"\x88" + b"\x80" * 8 + b"\x00"):
        for before in range((1 << 20) - 21, (1 << 20) + 2):
            path.write_bytes(bytes(before) + b"\x0a" + length + b"location" + bytes(5))
            assert key(path, ()) is None
    path.write_bytes(b"allocation_head")
    assert key(path, ()) is not None
    path.write_bytes(bytes(1 << 21))
    assert key(path, ()) == key(bytes(1 << 21), ())


def test_a_text_has_no_key(tmp_path: Path) -> None:
    path = tmp_path / "net.onnxtxt"
    path.write_text('<ir_version: 9> g () => () <float[1] w = ["location": "w.bin"]> {}')
    assert key(path, ()) is None


def test_what_is_no_file_has_no_key(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert key(tmp_path / "pipe", ()) is None
    assert key("/dev/zero", ()) is None


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "one byte less": lambda data: data[:-1],
    "half": lambda data: data[: len(data) // 2],
    "zeros": lambda data: bytes(len(data)),
    "a bit": lambda data: bytes([data[0] ^ 1]) + data[1:],
    "nothing": lambda data: b"",
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("what", ["*.image", "*.weights", "*.so"])
def test_a_damaged_cache_is_made_again(own_cache: Path, what: str, damage: str) -> None:
    expected = InferenceSession(model()).run(None, feeds())
    for path in own_cache.glob(what):
        data = path.read_bytes()
        path.unlink()  # it may be mapped
        path.write_bytes(DAMAGES[damage](data))
    session = InferenceSession(model())
    assert isinstance(session._sess, NativeEngine)
    assert [y.tobytes() for y in session.run(None, feeds())] == [y.tobytes() for y in expected]
    assert isinstance(InferenceSession(model())._sess, ImageEngine)


@pytest.mark.parametrize("what", ["*.image", "*.weights"])
def test_a_file_under_anothers_name_is_not_taken(own_cache: Path, what: str) -> None:
    expected = InferenceSession(model()).run(None, feeds())
    (one,) = own_cache.glob(what)
    InferenceSession(model(scale=2))
    (other,) = {*own_cache.glob(what)} - {one}
    os.replace(other, one)
    found = InferenceSession(model()).run(None, feeds())
    assert [y.tobytes() for y in found] == [y.tobytes() for y in expected]


def test_images_leave_the_cache_with_the_rest(own_cache: Path) -> None:
    InferenceSession(model())
    assert list(own_cache.glob("*.image"))
    build.evict(own_cache, 0)
    assert not list(own_cache.glob("*.image"))


def test_the_machine_keeps_nothing(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SARDONYX_ENGINE", "machine")
    InferenceSession(model())
    assert not list(own_cache.glob("*.image"))


def outside(path: Path, location: str = "w.bin") -> Path:
    """The model with its weights in a file beside it."""
    proto = onnx.load_from_string(model())
    onnx.save(proto, path, save_as_external_data=True, location=location, size_threshold=0)
    return path


def test_the_files_that_a_model_names_are_part_of_its_key(tmp_path: Path) -> None:
    path = outside(tmp_path / "m.onnx")
    first = InferenceSession(path).run(["y"], feeds())[0]
    again = InferenceSession(path)
    assert isinstance(again._sess, ImageEngine)
    assert again.run(["y"], feeds())[0].tobytes() == first.tobytes()
    weights = np.fromfile(tmp_path / "w.bin", np.float32) * np.float32(2)
    before = os.stat(tmp_path / "w.bin")
    weights.tofile(tmp_path / "w.bin")
    os.utime(tmp_path / "w.bin", ns=(before.st_atime_ns, before.st_mtime_ns))
    changed = InferenceSession(path)
    assert isinstance(changed._sess, NativeEngine)
    assert changed.run(["y"], feeds())[0].tobytes() != first.tobytes()


def test_a_model_whose_other_files_cannot_be_read_has_no_key(tmp_path: Path) -> None:
    long = "x" * 200 + ".bin"
    path = outside(tmp_path / "m.onnx", long)
    assert key(path, ()) is not None
    assert key(path.read_bytes(), ()) is None
    (tmp_path / long).rename(tmp_path / "elsewhere")
    assert key(path, ()) is None
    (tmp_path / long).symlink_to(tmp_path / "elsewhere")
    assert key(path, ()) is None


def test_locations_that_are_not_written_as_usual_have_no_key(tmp_path: Path) -> None:
    """As where the same entry states two, of which readers take the last."""
    path = outside(tmp_path / "m.onnx")
    data = path.read_bytes()
    entry = b"\x6a\x11\x0a\x08location\x12\x05w.bin"
    assert entry in data
    for other in (
        b"\x6a\x18\x0a\x08location\x12\x05w.bin\x12\x05v.bin",
        b"\x6a\x11\x12\x05w.bin\x0a\x08location",
        b"\x72\x11\x0a\x08location\x12\x05w.bin",
    ):
        path.write_bytes(data.replace(entry, other))
        assert key(path, ()) is None


def test_a_session_that_was_made_before_starts_no_process(tmp_path: Path) -> None:
    """Neither a compiler nor anything else, with all threads, its first run included."""
    program = (
        "import subprocess, sys, numpy as np\n"
        "def none(*given, **named): raise AssertionError(given)\n"
        "if len(sys.argv) > 2: subprocess.Popen = none\n"
        "from sardonyx import InferenceSession\n"
        "session = InferenceSession(sys.argv[1])\n"
        "session.run(None, {'x': np.zeros((3, 8), np.float32), 'i': np.array([1])})\n"
        "print(type(session._sess).__name__)\n"
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(model("N"))
    for more, engine in (((), "NativeEngine"), (("again",), "ImageEngine")):
        command = [sys.executable, "-c", program, str(path), *more]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        assert done.stdout.split() == [engine]
