"""Models are read under limits; external data stays beneath the folder; tensors decode exactly."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from sardonyx.errors import InvalidModel, LimitExceeded, SardonyxError, UnsupportedModel
from sardonyx.model import Decoder, Limits, load, parse
from sardonyx.model.files import Folder
from sardonyx.model.load import OTHERS
from sardonyx.model.tensors import STORAGE

TEXT = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Relu(x) }'


def decode(proto: TensorProto, folder: Path | None = None, **limits: int) -> np.ndarray:
    return Decoder(Folder(folder), Limits(**limits)).tensor(proto, "tensor 't'")


def test_a_model_loads_from_path_pathlike_bytes_and_proto(tmp_path: Path) -> None:
    proto = parse(TEXT).proto
    path = tmp_path / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    for source in (str(path), path, path.read_bytes(), proto):
        assert load(source).proto.graph.node[0].op_type == "Relu"
    assert load(path).folder == tmp_path
    assert load(path.read_bytes()).folder is None


def test_text_loads_from_a_file_that_ends_in_onnxtxt(tmp_path: Path) -> None:
    path = tmp_path / "m.onnxtxt"
    path.write_text(TEXT)
    assert load(path).proto.graph.name == "g"


@pytest.mark.parametrize(
    "content", [b"", b"\x08", b"hello world", b"\xff" * 100, b"\x08\x08"], ids=repr
)
def test_a_file_that_is_no_model_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    with pytest.raises(InvalidModel, match=r"bad\.onnx"):
        load(path)


@pytest.mark.parametrize(("at", "mark", "what"), OTHERS)
def test_another_kind_of_file_is_named(at: int, mark: bytes, what: str) -> None:
    with pytest.raises(InvalidModel, match=f"is not an ONNX file: {re.escape(what)}"):
        load(bytes(at) + mark + bytes(100))


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.onnx")
    for name in ("none.onnx", "pipe.onnx", ".", "a\0b"):
        with pytest.raises(InvalidModel, match=r"cannot be read|not a regular file"):
            load(tmp_path / name)


def test_limits_name_themselves() -> None:
    data = parse(TEXT).proto.SerializeToString()
    with pytest.raises(LimitExceeded, match="file_bytes"):
        load(data, Limits(file_bytes=10))
    with pytest.raises(LimitExceeded, match="nodes"):
        load(data, Limits(nodes=0))


def test_deep_nesting_costs_no_stack() -> None:
    model = ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 17)])
    graph = model.graph
    for _ in range(2000):
        node = graph.node.add(op_type="If", input=["c"], output=["y"], name="deep")
        graph = node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g
    with pytest.raises(LimitExceeded, match="nesting"):
        load(model)


def test_deep_brackets_in_text_are_refused() -> None:
    with pytest.raises(LimitExceeded, match="brackets"):
        parse("(" * 100_000)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"ir_version": None}, InvalidModel, "IR version"),
        ({"ir_version": 2}, UnsupportedModel, "IR version is 2"),
        ({"ir_version": 99}, UnsupportedModel, "IR version is 99"),
        ({"opsets": []}, InvalidModel, "opset_import"),
        ({"opsets": [("", 17), ("ai.onnx", 16)]}, InvalidModel, "'ai.onnx' twice"),
        ({"opsets": [("", 0)]}, InvalidModel, "version 0"),
        ({"opsets": [("", -3)]}, InvalidModel, "version -3"),
    ],
)
def test_versions_are_checked(
    change: dict[str, object], error: type[SardonyxError], text: str
) -> None:
    model = parse(TEXT).proto
    if "ir_version" in change:
        model.ClearField("ir_version")
        if change["ir_version"]:
            model.ir_version = change["ir_version"]
    if "opsets" in change:
        del model.opset_import[:]
        model.opset_import.extend(helper.make_opsetid(*o) for o in change["opsets"])
    with pytest.raises(error, match=text):
        load(model)


@pytest.mark.parametrize("code", sorted(STORAGE), ids=TensorProto.DataType.Name)
def test_raw_and_typed_data_decode_as_onnx_does(code: int) -> None:
    values = [2, 1, 1, 2, 1] if code == TensorProto.FLOAT8E8M0 else [0, 1, 1, 0, 1]  # it has no 0
    numbers = np.array(values).astype(STORAGE[code].numpy)
    raw = numpy_helper.from_array(numbers, "t")
    assert raw.data_type == code
    assert decode(raw).tobytes() == numbers.tobytes()
    typed = helper.make_tensor("t", code, [5], values)
    if not typed.HasField("raw_data"):
        assert decode(typed).tobytes() == numbers.tobytes()


def test_big_endian_hosts_swap_raw_data() -> None:
    raw = TensorProto(data_type=TensorProto.INT32, dims=[1], raw_data=b"\1\2\3\4")
    host = Decoder(Folder(None), byteorder="big").tensor(raw, "t")
    assert host.tobytes() == b"\4\3\2\1"


def test_strings_decode_to_str() -> None:
    proto = helper.make_tensor("t", TensorProto.STRING, [2], ["a", "é"])
    assert decode(proto).tolist() == ["a", "é"]


def test_a_bool_byte_above_one_is_true() -> None:
    proto = TensorProto(data_type=TensorProto.BOOL, dims=[3], raw_data=b"\0\2\1")
    assert decode(proto).view(np.uint8).tolist() == [0, 1, 1]


F, I8 = TensorProto.FLOAT, TensorProto.INT8
BAD_TENSORS = {
    "short raw": (TensorProto(data_type=F, dims=[2], raw_data=b"1234"), "4 bytes of raw data"),
    "long raw": (TensorProto(data_type=F, dims=[0], raw_data=b"1234"), "4 bytes of raw data"),
    "no data": (TensorProto(data_type=F, dims=[2]), "0 elements"),
    "two places": (
        TensorProto(data_type=F, dims=[1], raw_data=b"1234", float_data=[1]),
        "several places",
    ),
    "two fields": (
        TensorProto(data_type=F, dims=[1], int32_data=[1], float_data=[1]),
        "several places",
    ),
    "wrong field": (TensorProto(data_type=F, dims=[1], int32_data=[1]), "in int32_data"),
    "data of an empty tensor": (TensorProto(data_type=F, dims=[0], float_data=[1]), "1 elements"),
    "negative dim": (TensorProto(data_type=F, dims=[-1], raw_data=b""), "negative dim"),
    "overflowing dims": (
        TensorProto(data_type=F, dims=[2**32, 2**32], raw_data=b""),
        "tensor_bytes",
    ),
    "rank": (TensorProto(data_type=F, dims=[1] * 65, raw_data=b"1234"), "rank"),
    "int8 out of range": (TensorProto(data_type=I8, dims=[1], int32_data=[128]), "outside"),
    "bfloat16 out of range": (
        TensorProto(data_type=TensorProto.BFLOAT16, dims=[1], int32_data=[-1]),
        "outside",
    ),
    "undefined type": (TensorProto(dims=[1]), "data type 0"),
    "unknown type": (TensorProto(data_type=99, dims=[1]), "data type 99"),
    "segment": (
        TensorProto(data_type=F, dims=[1], segment=TensorProto.Segment(begin=0, end=1)),
        "segments",
    ),
    "strings as raw": (
        TensorProto(data_type=TensorProto.STRING, dims=[1], raw_data=b"a"),
        "string_data",
    ),
    "strings not UTF-8": (
        TensorProto(data_type=TensorProto.STRING, dims=[1], string_data=[b"\xff"]),
        "UTF-8",
    ),
    "too few strings": (TensorProto(data_type=TensorProto.STRING, dims=[2]), "0 strings"),
}


@pytest.mark.parametrize("case", BAD_TENSORS)
def test_a_bad_tensor_is_refused_by_name(case: str) -> None:
    proto, text = BAD_TENSORS[case]
    with pytest.raises(SardonyxError, match=text) as caught:
        decode(proto)
    assert "tensor 't'" in str(caught.value)


def external(location: str = "w.bin", **entries: object) -> TensorProto:
    proto = TensorProto(data_type=F, dims=[2], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **entries}.items():
        proto.external_data.add(key=key, value=str(value))
    return proto


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inner = tmp_path / "model"
    (inner / "sub").mkdir(parents=True)
    data = np.arange(4, dtype=np.float32).tobytes()
    (inner / "w.bin").write_bytes(data)
    (inner / "sub" / "w.bin").write_bytes(data)
    (tmp_path / "secret.bin").write_bytes(data)
    (inner / "link.bin").symlink_to(tmp_path / "secret.bin")
    (inner / "inner.bin").symlink_to("w.bin")
    (inner / "up").symlink_to(tmp_path)
    (inner / "hard.bin").hardlink_to(tmp_path / "secret.bin")
    os.mkfifo(inner / "pipe.bin")
    return inner


def test_external_data_is_mapped_from_its_range(folder: Path) -> None:
    assert decode(external(), folder).tolist() == [0, 1]
    assert decode(external("sub/w.bin", offset=8, length=8), folder).tolist() == [2, 3]
    found = decode(external("./w.bin", offset=4), folder)
    assert found.tolist() == [1, 2]
    assert not found.flags.owndata
    assert not found.flags.writeable


def test_a_checksum_is_verified(folder: Path) -> None:
    right = hashlib.sha1((folder / "w.bin").read_bytes()).hexdigest()
    assert decode(external(checksum=right), folder).tolist() == [0, 1]
    with pytest.raises(InvalidModel, match="SHA-1"):
        decode(external(checksum="0" * 40), folder)


BAD_LOCATIONS = [
    "../secret.bin", "sub/../../secret.bin", "/etc/passwd", "", ".", "sub//w.bin", "link.bin",
    "inner.bin", "up/secret.bin", "hard.bin", "pipe.bin", "sub", "none.bin", "a\\b", "c:w.bin",
    "w.bin\0", "*/_ORT_MEM_ADDR_/*", "w.bin/", "x" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("location", BAD_LOCATIONS, ids=lambda s: s[:20])
def test_no_location_leads_out_of_the_folder(folder: Path, location: str) -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    with pytest.raises(InvalidModel, match="tensor 't'"):
        decode(external(location), folder)
    if before:
        assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("entries", "text"),
    [
        ({"offset": -4}, "natural"),
        ({"offset": "1e3"}, "natural"),
        ({"offset": 9}, "ends at byte 17"),
        ({"offset": 2**62}, "ends at byte"),
        ({"length": 4}, "length 4"),
        ({"length": 16}, "length 16"),
        ({"length": "9" * 30}, "natural"),
        ({"mode": "w"}, "key 'mode'"),
        ({"__class__": "x"}, "key '__class__'"),
    ],
)
def test_lengths_and_keys_of_external_data_are_checked(
    folder: Path, entries: dict[str, object], text: str
) -> None:
    with pytest.raises(InvalidModel, match=text):
        decode(external(**entries), folder)


def test_a_key_given_twice_is_refused(folder: Path) -> None:
    proto = external()
    proto.external_data.add(key="location", value="sub/w.bin")
    with pytest.raises(InvalidModel, match="twice"):
        decode(proto, folder)


def test_a_model_from_bytes_has_no_external_data() -> None:
    with pytest.raises(InvalidModel, match="load it from its path"):
        decode(external())


def sparse(values: list[float], indices: np.ndarray, dims: list[int]) -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(
        numpy_helper.from_array(np.array(values, np.float32), "s"),
        numpy_helper.from_array(indices),
        dims,
    )


def test_sparse_tensors_become_dense() -> None:
    decoder = Decoder(Folder(None))
    flat = sparse([5, 6], np.array([1, 5]), [2, 3])
    pairs = sparse([5, 6], np.array([[0, 1], [1, 2]]), [2, 3])
    for proto in (flat, pairs):
        assert decoder.sparse(proto, "s").tolist() == [[0, 5, 0], [0, 0, 6]]


@pytest.mark.parametrize(
    ("indices", "dims", "text"),
    [
        (np.array([1, 6]), [2, 3], "out of bounds"),
        (np.array([-1, 2]), [2, 3], "out of bounds"),
        (np.array([2, 1]), [2, 3], "ascending"),
        (np.array([1, 1]), [2, 3], "ascending"),
        (np.array([1]), [2, 3], "1 indices"),
        (np.array([[0, 3], [1, 0]]), [2, 3], "out of bounds"),
        (np.array([[0], [1]]), [2, 3], "1 columns"),
        (np.array([0, 1], np.int32), [2, 3], "int32"),
        (np.array([0, 1]), [2**20, 2**20], "sparse_bytes"),
    ],
)
def test_bad_sparse_tensors_are_refused(indices: np.ndarray, dims: list[int], text: str) -> None:
    with pytest.raises(SardonyxError, match=text):
        Decoder(Folder(None)).sparse(sparse([5, 6], indices, dims), "s")


def test_packed_types_decode_from_the_low_bits_up() -> None:
    proto = TensorProto(data_type=TensorProto.INT4, dims=[3], raw_data=b"\xf1\x07")
    assert decode(proto).astype(int).tolist() == [1, -1, 7]
    assert decode(proto).dtype == ml_dtypes.int4
