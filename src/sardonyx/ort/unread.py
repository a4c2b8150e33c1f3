"""Why a model could not be read, as onnxruntime says it."""

from __future__ import annotations

import os
from pathlib import Path

import onnx
import onnx.parser
from google.protobuf.message import DecodeError
from onnx import ModelProto

from sardonyx.errors import InvalidModel, SardonyxError, UnsupportedModel
from sardonyx.ort.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    InvalidGraph,
    InvalidProtobuf,
    NoSuchFile,
    NotImplemented,
    status,
)


def load_error(source: str | bytes, error: SardonyxError) -> SardonyxError:
    """The error of reading `source` or of making an engine for it, as onnxruntime says it."""
    if isinstance(source, str) and not os.path.exists(source):
        return status(
            NoSuchFile,
            f"Load model from {source} failed:Load model {source} failed. File doesn't exist",
            InvalidModel,
        )
    kind = type(error)
    proto = _parsed(source) if isinstance(error, InvalidModel | UnsupportedModel) else ModelProto()
    if proto is None:
        words = "Failed to load model because protobuf parsing failed."
        if isinstance(source, str):
            words = f"Load model from {source} failed:Protobuf parsing failed."
        return status(InvalidProtobuf, f"{words} {error}", kind)
    if isinstance(error, InvalidModel | UnsupportedModel) and not proto.HasField("graph"):
        return status(InvalidArgument, f"No graph was found in the protobuf. {error}", kind)
    if isinstance(error, InvalidModel) or _has_unknown_operator(proto):
        return status(InvalidGraph, f"This is an invalid model. {error}", kind)
    if isinstance(error, UnsupportedModel) and _known_versions(proto):
        return status(NotImplemented, str(error), kind)
    return status(Fail, str(error), kind)


def _parsed(source: str | bytes) -> ModelProto | None:
    """The protobuf, or None if the bytes are none. (Text models are parsed elsewhere.)"""
    try:
        if isinstance(source, str) and source.endswith(".onnxtxt"):
            return onnx.parser.parse_model(Path(source).read_text())
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
        proto = ModelProto()
        proto.ParseFromString(data)
        return proto
    except (DecodeError, OSError, ValueError, onnx.parser.ParseError):
        return None


def _known_versions(proto: ModelProto) -> bool:
    newest = onnx.defs.C.schema_version_map()
    known = [(newest.get(o.domain or ""), o.version) for o in proto.opset_import]
    return proto.ir_version <= onnx.IR_VERSION and all(k and v <= k[1] for k, v in known)


def _has_unknown_operator(proto: ModelProto) -> bool:
    """Whether a node of the main graph is of a known operator set that does not have it."""
    if not _known_versions(proto):
        return False
    opsets = {o.domain: o.version for o in proto.opset_import}
    own = {(f.domain, f.name) for f in proto.functions}
    for node in proto.graph.node:
        if (node.domain, node.op_type) in own:
            continue
        try:
            onnx.defs.get_schema(node.op_type, opsets.get(node.domain, 1), node.domain)
        except onnx.defs.SchemaError:
            return True
    return False
