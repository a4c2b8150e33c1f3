"""Bytes to a model: read under a size limit, decoded, and its form counted and checked.

What is checked here needs no knowledge of operators: the file is protobuf, the versions are ones
we know, subgraphs and nodes stay under their limits, and every name is UTF-8.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TypeAlias, Union

import onnx
import onnx.parser
from google.protobuf.message import DecodeError, EncodeError
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto

from sardonyx.errors import InvalidModel, LimitExceeded, UnsupportedModel
from sardonyx.model.files import Folder
from sardonyx.model.limits import Limits
from sardonyx.model.tensors import Decoder

OLDEST_IR = 3
_TEXT_DEPTH = 200  # onnx.parser recurses
# files that are taken for models: where which bytes stand, what it is and what to do
OTHERS = (
    (0, b"version https://git-lfs", "it is a pointer of Git LFS; `git lfs pull` fetches the model"),
    (4, b"ORTM", "it has ONNX Runtime's own format; give the ONNX model that it was made of"),
    (4, b"TFL3", "it is a model of TensorFlow Lite; tf2onnx makes an ONNX model of it"),
    (0, b"\x89HDF", "it is HDF5, as Keras stores models; tf2onnx makes an ONNX model of it"),
    (0, b"PK\x03\x04", "it is a zip archive, as PyTorch stores models; export it"),
    (0, b"\x1f\x8b", "it is compressed by gzip; decompress it"),
)
Source: TypeAlias = Union[str, "os.PathLike[str]", bytes, ModelProto, "Model"]


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A decoded model: the protobuf as the file has it, not to be changed.

    name: what errors call it. folder: where its external data lies, None if it came as bytes.
    owned: whether the protobuf was made by `load` (and not handed over by the caller).
    """

    proto: ModelProto
    name: str
    folder: Path | None
    limits: Limits = field(default_factory=Limits)
    owned: bool = False

    def decoder(self) -> Decoder:
        """A decoder of this model's tensors."""
        return Decoder(Folder(self.folder), self.limits)


def load(source: Source, limits: Limits | None = None) -> Model:
    """The model in a file, in bytes or in a ModelProto.

    A path that ends in .onnxtxt is read as ONNX text. Raises InvalidModel, UnsupportedModel or
    LimitExceeded, naming the file.
    """
    if isinstance(source, Model):
        return source
    model = decode(source, limits)
    check_form(model)
    return model


def decode(source: Source, limits: Limits | None = None) -> Model:
    """As `load`, of which it leaves out `check_form`: for who wants to say what is wrong."""
    if isinstance(source, Model):
        return source
    limits = limits or Limits()
    if isinstance(source, ModelProto):
        return Model(source, "the model", None, limits)
    if isinstance(source, bytes | bytearray | memoryview):
        limits.check("file_bytes", len(source), "the size of the model in bytes")
        return Model(_decode(bytes(source), "the model"), "the model", None, limits, True)
    path = Path(os.fspath(source))
    data = _read(path, limits)
    proto = _text(data, str(path)) if path.suffix == ".onnxtxt" else _decode(data, str(path))
    return Model(proto, str(path), path.parent, limits, True)


def parse(text: str, limits: Limits | None = None) -> Model:
    """The model that ONNX text (onnx.parser) describes."""
    model = Model(_text(text.encode(), "the text"), "the text", None, limits or Limits(), True)
    check_form(model)
    return model


def _read(path: Path, limits: Limits) -> bytes:
    try:
        with open(path, "rb", opener=_opener) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InvalidModel(f"{path} is not a regular file")
            limits.check("file_bytes", status.st_size, f"the size of {path} in bytes")
            return file.read(limits.file_bytes + 1)
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or error
        raise InvalidModel(f"{path} cannot be read: {problem}") from error


def _opener(path: str, flags: int) -> int:
    """Opens without waiting for the other end of a pipe."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _decode(data: bytes, name: str) -> ModelProto:
    proto = ModelProto()
    try:
        proto.ParseFromString(data)
    except (DecodeError, ValueError) as error:
        known = (what for at, mark, what in OTHERS if data.startswith(mark, at))
        why = next(known, str(error) or "its protobuf is malformed")
        raise InvalidModel(f"{name} is not an ONNX file: {why}") from None
    return proto


def _text(data: bytes, name: str) -> ModelProto:
    depth = max(accumulate((c in b"({") - (c in b")}") for c in data), default=0)
    if depth > _TEXT_DEPTH:
        raise LimitExceeded(f"{name}: its brackets nest {depth} deep, above {_TEXT_DEPTH}")
    try:
        return onnx.parser.parse_model(data.decode())
    except (onnx.parser.ParseError, UnicodeDecodeError, DecodeError) as error:
        found = error.args[0] if isinstance(error, onnx.parser.ParseError) else error
        said = found.decode(errors="replace") if isinstance(found, bytes) else str(found)
        raise InvalidModel(f"{name} is not ONNX text: {' '.join(said.split())}") from None


def check_form(model: Model) -> None:
    """Versions, nesting, number of nodes and names; raises as `load` does."""
    try:
        _check_versions(model.proto)
        _check_form(model.proto, model.limits)
    except (InvalidModel, LimitExceeded, UnsupportedModel) as error:
        raise type(error)(f"{model.name}: {error}") from None


def _check_versions(proto: ModelProto) -> None:
    """The IR version is one we know, and each domain is imported once."""
    if not proto.HasField("graph"):
        raise InvalidModel("it holds no graph; is it an ONNX model?")
    if not proto.HasField("ir_version"):
        raise InvalidModel("it states no IR version (ir_version)")
    if not OLDEST_IR <= proto.ir_version <= onnx.IR_VERSION:
        raise UnsupportedModel(
            f"its IR version is {proto.ir_version}; known are {OLDEST_IR} to {onnx.IR_VERSION}"
        )
    if not proto.opset_import:
        raise InvalidModel("it imports no operator set (opset_import)")
    opsets(proto.opset_import, "the model")


def opsets(entries: Iterable[OperatorSetIdProto], what: str) -> dict[str, int]:
    """domain -> version of OperatorSetIdProtos ("ai.onnx" is ""); each domain has one version."""
    found: dict[str, int] = {}
    for entry in entries:
        domain = canonical(entry.domain)
        if found.get(domain, entry.version) != entry.version:  # converters repeat themselves
            raise InvalidModel(
                f"{what} imports the operator set {domain or 'ai.onnx'!r} twice "
                f"(versions {found[domain]} and {entry.version})"
            )
        if entry.version < 1:
            raise InvalidModel(
                f"{what} imports the operator set {domain or 'ai.onnx'!r} "
                f"in version {entry.version}; versions start at 1"
            )
        found[domain] = entry.version
    return found


def canonical(domain: str) -> str:
    """The domain's one spelling: "" for ai.onnx."""
    return "" if domain == "ai.onnx" else domain


def subgraphs(nodes: Iterable[NodeProto]) -> Iterator[tuple[NodeProto, str, GraphProto]]:
    """Each graph that is an attribute of one of the nodes, with its node and attribute name."""
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield node, attribute.name, attribute.g
            for graph in attribute.graphs:
                yield node, attribute.name, graph


def _check_form(proto: ModelProto, limits: Limits) -> None:
    """Nesting, number of nodes and spelling of names; a work list, so depth costs no stack."""
    work: list[tuple[str, Sequence[NodeProto], list[str], int]] = [
        (f"function {f.name!r}", f.node, _function_names(f), 0) for f in proto.functions
    ]
    entries = [text for p in proto.metadata_props for text in (p.key, p.value)]
    _check_text([*(o.domain for o in proto.opset_import), *entries], "the model")
    work.append(("the main graph", proto.graph.node, _graph_names(proto.graph), 0))
    total = 0
    while work:
        where, nodes, names, depth = work.pop()
        limits.check("nesting", depth, f"the depth of subgraphs in {where}")
        total += len(nodes)
        limits.check("nodes", total, "the number of nodes")
        _check_text(names, where)
        for node in nodes:
            texts = (node.name, node.op_type, node.domain, *node.input, *node.output)
            attributes = [t for a in node.attribute for t in (a.name, a.ref_attr_name, a.t.name)]
            _check_text((*texts, node.overload, *attributes), f"node {node.name!r} of {where}")
        for node, name, graph in subgraphs(nodes):
            inner = f"{name} of {node.op_type} {node.name!r}"
            work.append((inner, graph.node, _graph_names(graph), depth + 1))


def _function_names(function: FunctionProto) -> list[str]:
    defaults = [a.name for a in function.attribute_proto]
    imports = [o.domain for o in function.opset_import]
    own = (function.name, function.domain, function.overload)
    return [*own, *function.input, *function.output, *function.attribute, *defaults, *imports]


def _graph_names(graph: GraphProto) -> list[str]:
    infos = [v.name for v in (*graph.input, *graph.output, *graph.value_info)]
    params = [
        dim.dim_param
        for v in (*graph.input, *graph.output, *graph.value_info)
        if v.type.HasField("tensor_type")
        for dim in v.type.tensor_type.shape.dim
    ]
    sparse = [s.values.name for s in graph.sparse_initializer]
    return [graph.name, *infos, *params, *(t.name for t in graph.initializer), *sparse]


def _check_text(names: Iterable[str | bytes], where: str) -> None:
    """Protobuf hands over a string that is not UTF-8 as bytes."""
    for name in names:
        if not isinstance(name, str):
            raise InvalidModel(f"{where} has a name that is not UTF-8 text: {name[:40]!r}")


def serialized(proto: ModelProto) -> bytes:
    """The model's bytes; LimitExceeded where protobuf cannot hold them."""
    try:
        return bytes(proto.SerializeToString())
    except (EncodeError, ValueError) as error:
        raise LimitExceeded(f"the model is too large for protobuf ({error})") from None
