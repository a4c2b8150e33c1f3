"""Errors of our tree said again as onnxruntime says them; each stays an error of our tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sardonyx.errors import (
    FeedError,
    InternalError,
    RunError,
    SardonyxError,
    Undetermined,
    Unfit,
    UnsupportedModel,
)
from sardonyx.ort.capi.onnxruntime_pybind11_state import (
    Fail,
    InvalidArgument,
    NotImplemented,
    RuntimeException,
    both,
    status,
)

LEADING = re.compile(r"\[ONNXRuntimeError\] : \d+ : \w+ : ")


@contextmanager
def loading(source: str | bytes) -> Iterator[None]:
    """Says the errors of reading `source` and of making an engine for it."""
    try:
        yield
    except SardonyxError as error:
        from sardonyx.ort.unread import load_error  # what it was is found with onnx

        raise load_error(source, error) from error


class ExecutionError(SardonyxError, RuntimeError):
    """What onnxruntime says of a run on what is bound."""


@contextmanager
def binding() -> Iterator[None]:
    """Says the errors of a run on what is bound, which onnxruntime makes RuntimeErrors of."""
    try:
        yield
    except SardonyxError as error:
        words = "Error in execution: "
        text = LEADING.sub("", str(error)).removeprefix(words)
        raise both(ExecutionError, type(error))(words + text) from error


@contextmanager
def running() -> Iterator[None]:
    """Says the errors of a run."""
    try:
        yield
    except FeedError as error:
        raise status(InvalidArgument, str(error), type(error)) from error
    except RunError as error:
        words = "Non-zero status code returned while running"
        kind = Fail if isinstance(error, Unfit) else InvalidArgument
        raise status(kind, f"{words} {error}", type(error)) from error
    except (Undetermined, UnsupportedModel) as error:
        raise status(NotImplemented, str(error), type(error)) from error
    except InternalError as error:
        raise status(RuntimeException, str(error), type(error)) from error
    except SardonyxError as error:
        raise status(Fail, str(error), type(error)) from error
