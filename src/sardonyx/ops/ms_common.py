"""What the operators of the domain com.microsoft share.

onnx holds no schemas for them; their meaning is what ONNX Runtime's CPU kernels do (its
docs/ContribOperators.md says less).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from sardonyx.errors import InvalidModel, UnsupportedModel
from sardonyx.kernel.build import Tensor
from sardonyx.ops.registry import Accuracy, Definition, operator

DOMAIN = "com.microsoft"
Defined = TypeVar("Defined", bound=Definition)


def contrib(name: str, accuracy: Accuracy = "exact") -> Callable[[Defined], Defined]:
    """Registers a definition of an operator of com.microsoft; there is one version of each."""
    return operator(name, 1, domain=DOMAIN, accuracy=accuracy)


def needed(x: Tensor | None, name: str) -> Tensor:
    """An input that is required and stands behind an optional one."""
    if x is None:
        raise InvalidModel(f"the input {name} is required")
    return x


def refuse(**given: object) -> None:
    """UnsupportedModel where an input or attribute that Sardonyx does not have is given."""
    for name, value in given.items():
        if isinstance(value, Tensor) or value:
            raise UnsupportedModel(f"{name} is not supported")
