"""onnxruntime's functions about the installation; Sardonyx is one provider, the CPU."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from operator import index
from typing import Any, TypeAlias, Union

API_VERSION = "1.31.1"
"""The version of onnxruntime whose Python API this is."""

PROVIDER = "CPUExecutionProvider"
Provider: TypeAlias = Union[str, tuple[str, dict[Any, Any]]]


def get_available_providers() -> list[str]:
    """["CPUExecutionProvider"], so that programs work."""
    return [PROVIDER]


def get_all_providers() -> list[str]:
    """The same."""
    return [PROVIDER]


def get_device() -> str:
    """ "CPU"."""
    return "CPU"


def get_version_string() -> str:
    """The version of onnxruntime whose API this is."""
    return API_VERSION


def get_build_info() -> str:
    """Which Sardonyx this is."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    try:
        own = version("sardonyx")
    except PackageNotFoundError:
        own = "unknown"
    return f"Sardonyx {own}, with the Python API of onnxruntime {API_VERSION}"


def set_default_logger_severity(severity: int) -> None:
    """Checked and ignored: Sardonyx has no log. RuntimeError outside 0 to 4."""
    if not 0 <= severity <= 4:
        raise RuntimeError(
            f"Invalid logging severity {severity}. 0:Verbose, 1:Info, 2:Warning, 3:Error, 4:Fatal"
        )


def set_default_logger_verbosity(verbosity: int) -> None:
    """Ignored: Sardonyx has no log."""


_state = {"seed": 0}  # onnxruntime's set_seed is of the process


def set_seed(seed: int) -> None:
    """The seed of random operators that state none, in sessions that are made from now on."""
    if not -(1 << 63) <= index(seed) < 1 << 63:
        raise TypeError(f"seed is {seed}; it takes an int of 64 bits")
    _state["seed"] = index(seed)


def current_seed() -> int:
    """What `set_seed` gave, or 0."""
    return _state["seed"]


def preload_dlls(
    cuda: bool = True, cudnn: bool = True, msvc: bool = True, directory: str | None = None
) -> None:
    """Nothing to load."""


def enable_telemetry_events() -> None:
    """Sardonyx sends nothing."""


def disable_telemetry_events() -> None:
    """Sardonyx sends nothing."""


def check_providers(
    providers: Sequence[Provider] | None, options: Sequence[dict[Any, Any]] | None
) -> None:
    """Warns, as onnxruntime does, of providers that are not there."""
    if providers is None:
        return
    if not isinstance(providers, Sequence):
        raise ValueError("'providers' should be a sequence.")
    if options is not None and len(options) != len(providers):
        raise ValueError(
            "'providers' and 'provider_options' should be the same length if both are given."
        )
    for given in [providers] if isinstance(providers, str) else providers:
        name = given if isinstance(given, str) else given[0] if isinstance(given, tuple) else None
        if not isinstance(name, str):
            raise ValueError("'providers' values must be either strings or (string, dict) tuples.")
        if name not in get_available_providers():
            warnings.warn(
                f"Specified provider '{name}' is not in available provider names."
                f"Available providers: '{', '.join(get_available_providers())}'",
                stacklevel=4,
            )
