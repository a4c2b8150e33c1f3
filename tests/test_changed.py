"""A session that was made before is of what it was made of, whatever changes meanwhile."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import sardonyx
from sardonyx import InferenceSession, SessionOptions, build, set_seed
from sardonyx.emit.weights import Blob
from sardonyx.errors import InvalidModel
from sardonyx.images import ImageEngine
from sardonyx.native import NativeEngine
from sardonyx.ort.environment import current_seed

X = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
W = np.ones((8, 20), np.float32)


@pytest.fixture(autouse=True)
def _native(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SARDONYX_ENGINE", raising=False)


def model(scale: float = 1.0, external: bool = False) -> bytes:
    """y = x * scale @ w + noise, where w may be fed, which is for the full engine. external: scale
    lies in the file s.bin."""
    w = np.random.default_rng(1).standard_normal((8, 20)).astype(np.float32)
    given = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 8]),
        helper.make_tensor_value_info("w", TensorProto.FLOAT, [8, 20]),
    ]
    nodes = [
        helper.make_node("Mul", ["x", "s"], ["m"]),
        helper.make_node("MatMul", ["m", "w"], ["p"]),
        helper.make_node("RandomNormalLike", ["p"], ["r"]),
        helper.make_node("Add", ["p", "r"], ["y"]),
    ]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 20])]
    s = numpy_helper.from_array(np.full((1,), scale, np.float32), "s")
    if external:
        s.ClearField("raw_data")
        s.data_location = TensorProto.EXTERNAL
        s.external_data.add(key="location", value="s.bin")
    graph = helper.make_graph(nodes, "g", given, made, [numpy_helper.from_array(w, "w"), s])
    opsets = [helper.make_opsetid("", 18)]
    data: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    return data


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of a model that has been made before, in the working folder."""
    monkeypatch.chdir(tmp_path)
    Path("net.onnx").write_bytes(model())
    InferenceSession("net.onnx")
    return "net.onnx"


def full(session: InferenceSession, x: np.ndarray = X) -> bytes:
    assert isinstance(session._sess, ImageEngine)
    y: np.ndarray = session.run(None, {"x": x, "w": W})[0]
    return y.tobytes()


def test_a_version_is_another_though_its_files_have_the_sizes_and_times_of_the_last(
    tmp_path: Path,
) -> None:
    shutil.copytree(Path(sardonyx.__file__).parent, tmp_path / "sardonyx")
    code = "from sardonyx.keys import digest_of, key_of; print(key_of(digest_of(b'x'), ()))"
    keys = set[str]()
    for name in ("sardonyx-0.1.0.dist-info", "sardonyx-0.1.1.dist-info"):
        (tmp_path / name).mkdir()
        command = [sys.executable, "-c", code]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        keys.add(subprocess.run(command, env=environment, capture_output=True, text=True).stdout)
        (tmp_path / name).rmdir()
    assert len(keys) == 2


def test_a_file_with_another_model_is_refused(path: str) -> None:
    session = InferenceSession(path)
    Path(path).write_bytes(model(2.0))
    with pytest.raises(InvalidModel, match=r"net\.onnx has changed"):
        full(session)


def test_a_relative_path_is_of_the_folder_that_it_was_given_in(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, expected = InferenceSession(path), full(InferenceSession(path))
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert full(session) == expected


def test_options_that_change_later_do_not_count(path: str) -> None:
    options = SessionOptions()
    session, expected = InferenceSession(path, options), full(InferenceSession(path), X[:2])
    options.add_free_dimension_override_by_name("N", 3)
    assert full(session, X[:2]) == expected


def test_the_seed_is_that_of_when_a_session_was_made(path: str) -> None:
    before, expected = current_seed(), full(InferenceSession(path))
    session = InferenceSession(path)
    set_seed(before + 1)
    try:
        assert full(session) == expected
    finally:
        set_seed(before)


def test_what_changes_between_key_and_reading_is_not_kept(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, data = InferenceSession._read, model(3.0)
    Path(path).write_bytes(data)

    def read(self: InferenceSession, source: str | bytes) -> object:
        Path(path).write_bytes(model(4.0))
        return real(self, source)

    with monkeypatch.context() as patched:
        patched.setattr(InferenceSession, "_read", read)
        InferenceSession(path)
    Path(path).write_bytes(data)
    assert isinstance(InferenceSession(path)._sess, NativeEngine)


def test_weights_that_change_before_they_are_written_are_refused() -> None:
    blob, weights = Blob(), np.ones(9, np.float32)
    blob.add(weights)
    weights[0] = 2
    with pytest.raises(InvalidModel, match="changed while it was read"):
        build.mapped(blob)


@pytest.mark.parametrize("key", [b"\x0a\x08", b"\x8a\x00\x08", b"\x8a\x80\x80\x00\x88\x00"])
def test_files_are_seen_however_their_key_is_written(tmp_path: Path, key: bytes) -> None:
    usual, name = b"\x0a\x08location\x12\x05s.bin", b"s.bin"[: 7 - len(key)]
    written = key + b"location\x12" + bytes([len(name)]) + name  # as many bytes
    path = tmp_path / "net.onnx"
    path.write_bytes(model(external=True).replace(usual, written))
    for scale in (1, 2):
        (tmp_path / name.decode()).write_bytes(np.full((1,), scale, np.float32).tobytes())
        assert isinstance(InferenceSession(path)._sess, NativeEngine)
