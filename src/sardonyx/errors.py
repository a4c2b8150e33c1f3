"""Every error that Sardonyx raises.

    SardonyxError
    |-- ModelError            the model cannot be used
    |   |-- InvalidModel      it breaks a rule of ONNX, or its file cannot be read
    |   |-- UnsupportedModel  it is valid, but names an operator, version or type that is not there
    |   `-- LimitExceeded     it is larger than a limit allows
    |-- FeedError             what the caller handed over does not fit the model's inputs
    |-- Undetermined          a size or value is not known yet (asks for concrete shapes)
    |-- RunError              a defined run-time error (a trap: an index out of range, ...)
    |   `-- Unfit             sizes or values of a run break a rule of an operator: InvalidModel too
    |-- BuildError            no C compiler, or the compiler refused
    `-- InternalError         a rule of our own is broken: a bug of Sardonyx

Each message names the model, operation or tensor, the rule, what was found, what was expected and
how to go on. Names are the model's own, and may be any text: `shown` is how people see them.
"""

from __future__ import annotations

from typing import Any


def shown(text: str) -> str:
    """Text for one line of a terminal or a page: what is no visible character (an end of a line, an
    escape sequence, an override of the direction) as Python escapes it."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class SardonyxError(Exception):
    """The root of the tree; catch it to catch all of them."""

    several_lines = False  # what has some is shown line by line

    def __init__(self, message: str = "") -> None:
        lines = message.split("\n") if self.several_lines else [message]
        super().__init__("\n".join(map(shown, lines)))


class ModelError(SardonyxError):
    """The model cannot be used."""


class InvalidModel(ModelError):
    """The model breaks a rule of ONNX, or its bytes cannot be read."""


class UnsupportedModel(ModelError):
    """The model is valid, but needs an operator, version or type that Sardonyx does not have."""


class LimitExceeded(ModelError):
    """The model, or what it asks for, is larger than a limit allows."""


class FeedError(SardonyxError):
    """A feed does not fit the model's inputs: name, type, rank, shape or form."""


class Undetermined(SardonyxError):
    """A size or a value is not known at this stage; concrete shapes or values would settle it.

    `tensor` names the operand whose value was asked for, where it was a value; equal: two Dims, if
    their being equal would settle it, or one and None, if its being a number would.
    """

    def __init__(
        self, message: str, tensor: str | None = None, equal: tuple[Any, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.tensor, self.equal = tensor, equal


class RunError(SardonyxError):
    """A defined run-time error, such as an index out of range."""


class Unfit(RunError, InvalidModel):
    """What is fed, or computed of it, breaks a rule of an operator: a size or a value that is known
    only in a run."""


class of_a_run:
    """What breaks a rule within is Unfit: the model is well, this run of it is not."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, InvalidModel) and not isinstance(error, Unfit):
            raise Unfit(str(error)) from error


class BuildError(SardonyxError):
    """There is no C compiler, or it refused the program."""

    several_lines = True  # the compiler's own


class InternalError(SardonyxError):
    """One of our own rules is broken. Please report it with the model."""
