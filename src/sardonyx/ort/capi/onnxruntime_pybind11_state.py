"""onnxruntime's exceptions, with its class names and leading words, in our tree.

    SardonyxError
    |-- Fail, InvalidArgument, NoSuchFile, NoModel, EngineError, RuntimeException, InvalidProtobuf,
    |   ModelLoaded, NotImplemented, InvalidGraph, EPFail, ModelLoadCanceled,
    |   ModelRequiresCompilation, NotFound, DeviceReset

What a session raises is both: `except InvalidArgument` and `except sardonyx.FeedError` catch it.
"""

from __future__ import annotations

from typing import Any

from sardonyx.errors import SardonyxError


class Fail(SardonyxError):
    """1: the general failure."""


class InvalidArgument(SardonyxError):
    """2: a feed, a name or a model is not what was expected."""

    several_lines = True


class NoSuchFile(SardonyxError):
    """3: the model's file is not there."""


class NoModel(SardonyxError):
    """4: there is no model."""


class EngineError(SardonyxError):
    """5: never raised by Sardonyx."""


class RuntimeException(SardonyxError):
    """6: an error inside Sardonyx."""


class InvalidProtobuf(SardonyxError):
    """7: the bytes are no ONNX model."""


class ModelLoaded(SardonyxError):
    """8: never raised by Sardonyx."""


class NotImplemented(SardonyxError):
    """9: the model is valid, but needs what Sardonyx does not have."""


class InvalidGraph(SardonyxError):
    """10: the model breaks a rule of ONNX."""


class EPFail(SardonyxError):
    """11: never raised by Sardonyx."""


class ModelLoadCanceled(SardonyxError):
    """12: never raised by Sardonyx."""


class ModelRequiresCompilation(SardonyxError):
    """13: never raised by Sardonyx."""


class NotFound(SardonyxError):
    """14: something asked for is not there."""


class DeviceReset(SardonyxError):
    """15: never raised by Sardonyx."""


STATUS: dict[type[SardonyxError], str] = {
    Fail: "1 : FAIL",
    InvalidArgument: "2 : INVALID_ARGUMENT",
    NoSuchFile: "3 : NO_SUCHFILE",
    NoModel: "4 : NO_MODEL",
    EngineError: "5 : ENGINE_ERROR",
    RuntimeException: "6 : RUNTIME_EXCEPTION",
    InvalidProtobuf: "7 : INVALID_PROTOBUF",
    ModelLoaded: "8 : MODEL_LOADED",
    NotImplemented: "9 : NOT_IMPLEMENTED",
    InvalidGraph: "10 : INVALID_GRAPH",
    EPFail: "11 : EP_FAIL",
    ModelLoadCanceled: "12 : MODEL_LOAD_CANCELED",
    ModelRequiresCompilation: "13 : MODEL_REQUIRES_COMPILATION",
    NotFound: "14 : NOT_FOUND",
    DeviceReset: "15 : DEVICE_RESET",
}


def status(
    kind: type[SardonyxError], message: str, cause: type[SardonyxError] = SardonyxError
) -> SardonyxError:
    """An error of onnxruntime's class `kind`, with its leading words, that is a `cause` too."""
    return both(kind, cause)(f"[ONNXRuntimeError] : {STATUS[kind]} : {message}")


_BOTH: dict[tuple[type[SardonyxError], type[SardonyxError]], type[SardonyxError]] = {}


def both(kind: type[SardonyxError], other: type[SardonyxError]) -> type[SardonyxError]:
    """The class below both, called as the first."""
    if issubclass(kind, other):
        return kind
    if (kind, other) not in _BOTH:
        _BOTH[kind, other] = _made(kind, other)
    return _BOTH[kind, other]


def _made(kind: type[SardonyxError], other: type[SardonyxError]) -> type[SardonyxError]:
    def reduce(self: SardonyxError) -> tuple[Any, ...]:
        return _rebuilt, (kind, other, self.args)

    body = {"__module__": kind.__module__, "__doc__": kind.__doc__, "__reduce__": reduce}
    return type(kind.__name__, (kind, other), body)


def _rebuilt(
    kind: type[SardonyxError], other: type[SardonyxError], arguments: tuple[Any, ...]
) -> SardonyxError:
    return both(kind, other)(*arguments)
