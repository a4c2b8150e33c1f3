"""Rules about the model's parameters: their bytes, and where they lie."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
from onnx import ModelProto, TensorProto

from sardonyx.checker.context import Context
from sardonyx.checker.finding import Severity
from sardonyx.checker.registry import Found, of, rule
from sardonyx.checker.samples import Files, model
from sardonyx.errors import ModelError
from sardonyx.types import Array

ADD = "g (float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}> { y = Add (x, w) }"


def _external(location: str, **entries: str) -> Files:
    made = model(ADD)
    data = np.array([1, 2], np.float32).tobytes()
    tensor = made.graph.initializer[0]
    del tensor.float_data[:]
    tensor.data_location = TensorProto.EXTERNAL
    sums = {"checksum": hashlib.sha1(data).hexdigest()}
    for key, value in {"location": location, **sums, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    return Files(made.SerializeToString(), {"w.bin": data})


@rule("M07", "external data is there and unchanged", Severity.ERROR, "AI-006", "F16",
      good=lambda: _external("w.bin"), bad=lambda: _external("../w.bin"), blocks=True)  # fmt: skip
def external(check: Context) -> Found:
    """External data lies beneath the model's folder, within its file, with a matching checksum.

    Why: the parameters are part of the model; a file that can be exchanged changes the function.
    Example: the location ../w.bin; an offset past the end of the file.
    Limits: a checksum is ONNX's own, SHA-1 of the whole file; that there is none is a warning.
    """
    decoder = check.model.decoder()
    for what, tensor in tensors(check.proto):
        if tensor.data_location != TensorProto.EXTERNAL:
            continue
        try:
            decoder.tensor(tensor, what)
        except ModelError as error:
            yield of(tensor.name, error, "bytes beneath the model's folder")
            continue
        if "checksum" not in {e.key for e in tensor.external_data}:
            yield of(tensor.name, "no checksum", "one", severity=Severity.WARNING)


def _short() -> ModelProto:
    made = model(ADD)
    tensor = made.graph.initializer[0]
    del tensor.float_data[:]
    tensor.raw_data = b"\0" * 7
    return made


@rule("M08", "parameters to the last bit", Severity.ERROR, "REQ-FO-030 (parameter_representation)",
      good=ADD, bad=_short, blocks=True)  # fmt: skip
def exact(check: Context) -> Found:
    """A tensor has its data in one place, of the length that its type and dims ask for.

    Why: parameters are given to the last bit; a reader must not have to guess.
    Example: float[2] with 7 bytes of raw_data.
    Limits: NaN and infinities among parameters are a warning, but for infinite bounds of Clip; for
    external data M07 speaks.
    """
    decoder = check.model.decoder()
    bounds = {name for node in check.of("Clip") for name in node.inputs[1:]}
    for what, tensor in tensors(check.proto):
        if tensor.data_location == TensorProto.EXTERNAL:
            continue
        try:
            value = decoder.tensor(tensor, what)
        except ModelError as error:
            yield of(tensor.name, error, "one place that holds prod(dims) elements")
            continue
        if value.dtype.kind in "fV" and not _finite(value, bounds, tensor.name):
            yield of(tensor.name, "NaN or infinity", "finite numbers", severity=Severity.WARNING)


def _finite(value: Array, bounds: set[str], name: str) -> bool:
    wide = value.astype(np.float64)
    return bool((~np.isnan(wide) if name in bounds else np.isfinite(wide)).all())


def tensors(proto: ModelProto) -> Iterator[tuple[str, TensorProto]]:
    """The initializers, and the tensors that are attributes of nodes."""
    for tensor in proto.graph.initializer:
        yield f"initializer {tensor.name!r}", tensor
    for node in proto.graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield f"attribute {attribute.name} of {node.op_type} {node.name!r}", attribute.t
