"""onnxruntime's functions about the installation; Sardonyx is one provider, the CPU."""

from __future__ import annotations

from operator import index

API_VERSION = "1.31.1"
"""The version of onnxruntime whose Python API this is."""

PROVIDER = "CPUExecutionProvider"


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
