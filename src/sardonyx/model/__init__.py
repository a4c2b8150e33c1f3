"""Bytes to a checked protobuf: size limits, versions, external data.

model = load("net.onnx")       # or PathLike, bytes, ModelProto
model.proto, model.decoder().tensor(model.proto.graph.initializer[0], "w")
"""

from sardonyx.model.limits import Limits
from sardonyx.model.load import Model, Source, load, parse
from sardonyx.model.tensors import Decoder

__all__ = ["Decoder", "Limits", "Model", "Source", "load", "parse"]
