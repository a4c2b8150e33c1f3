"""onnxruntime's options: SessionOptions, RunOptions and their enumerations.

Sardonyx obeys enable_profiling, profile_file_prefix, the free-dimension overrides, the config
entries "sardonyx.engine" (machine, native, auto), "sardonyx.numerics" (default, winograd: how
3 x 3 convolutions are defined) and "sardonyx.qdq" (integer, float: how QDQ
islands are read), and RunOptions.terminate. The other fields are kept and handed back; none of them
can change a result.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from enum import IntEnum
from operator import index
from pathlib import Path
from typing import Any, ClassVar, SupportsIndex

import numpy as np

from sardonyx.ort.capi.onnxruntime_pybind11_state import InvalidArgument
from sardonyx.ort.values import ValueRefused

LONGEST_KEY = 1024  # bytes of the name of a config entry


class Named(IntEnum):
    """Numbers that are printed by their names, as in onnxruntime."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class GraphOptimizationLevel(Named):
    """Kept; results do not depend on it."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(Named):
    """Kept; operations run one after the other."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(Named):
    """Kept."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


def _number(value: object, wanted: type[int]) -> object:
    """As onnxruntime takes them: integers of NumPy as an int, those and its booleans as a bool."""
    if isinstance(value, np.bool_):
        value = bool(value)
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        return value
    return wanted(index(value))


def _name(text: object) -> str:
    if not isinstance(text, str):
        raise TypeError(f"{text!r} is given as a name; it takes a str")
    return text


class _Options:
    """Fields with defaults whose types are checked when they are set, and config entries."""

    __slots__ = ("_entries",)
    _defaults: ClassVar[Mapping[str, Any]] = {}

    def __init__(self) -> None:
        object.__setattr__(self, "_entries", {})
        for name, value in self._defaults.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        if name not in self._defaults:
            raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")
        default = self._defaults[name]
        if isinstance(default, str) and isinstance(value, os.PathLike):
            value = os.fspath(value)
        wanted = type(default)
        if wanted in (int, bool):
            value = _number(value, wanted)
        if type(value) is not wanted:
            raise TypeError(
                f"{name} is set to {value!r}, a {type(value).__name__}; "
                f"it takes a {wanted.__name__}, such as {default!r}"
            )
        if isinstance(value, int) and not -(1 << 31) <= value < 1 << 31:
            raise TypeError(f"{name} is set to {value}; it takes an int of 32 bits")
        object.__setattr__(self, name, value)

    def _set_entry(self, key: str, value: str) -> None:
        if not (isinstance(key, str) and isinstance(value, str)):
            raise TypeError(f"a config entry is two strings; found {key!r} and {value!r}")
        if not 0 < len(key.encode()) <= LONGEST_KEY:
            raise ValueRefused(
                f"Config key is empty or longer than maximum length {LONGEST_KEY}: {len(key)}"
            )
        self._entries[key] = value

    def __getstate__(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self._defaults}
        return {**fields, **{n: dict(getattr(self, n)) for n in self._tables()}}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)

    @classmethod
    def _tables(cls) -> tuple[str, ...]:
        return ("_entries",)

    def _entry(self, key: str) -> str:
        if key not in self._entries:
            raise RuntimeError(f"{type(self).__name__} does not have configuration with key: {key}")
        return self._entries[key]

    _entries: dict[str, str]


class SessionOptions(_Options):
    """How a session is made."""

    __slots__ = (
        "_by_denotation", "_by_name", "enable_cpu_mem_arena", "enable_mem_pattern",
        "enable_mem_reuse", "enable_profiling", "execution_mode", "execution_order",
        "graph_optimization_level", "inter_op_num_threads", "intra_op_num_threads",
        "log_severity_level", "log_verbosity_level", "logid", "optimized_model_filepath",
        "profile_file_prefix", "use_deterministic_compute", "use_per_session_threads",
    )  # fmt: skip
    _defaults: ClassVar[Mapping[str, Any]] = {
        "enable_cpu_mem_arena": True,
        "enable_mem_pattern": True,
        "enable_mem_reuse": True,
        "enable_profiling": False,
        "execution_mode": ExecutionMode.ORT_SEQUENTIAL,
        "execution_order": ExecutionOrder.DEFAULT,
        "graph_optimization_level": GraphOptimizationLevel.ORT_ENABLE_ALL,
        "inter_op_num_threads": 0,
        "intra_op_num_threads": 0,
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "optimized_model_filepath": "",
        "profile_file_prefix": "onnxruntime_profile_",
        "use_deterministic_compute": False,
        "use_per_session_threads": True,
    }
    enable_cpu_mem_arena: bool
    enable_mem_pattern: bool
    enable_mem_reuse: bool
    enable_profiling: bool
    execution_mode: ExecutionMode
    execution_order: ExecutionOrder
    graph_optimization_level: GraphOptimizationLevel
    inter_op_num_threads: int
    intra_op_num_threads: int
    log_severity_level: int
    log_verbosity_level: int
    logid: str
    optimized_model_filepath: str
    profile_file_prefix: str
    use_deterministic_compute: bool
    use_per_session_threads: bool
    _by_name: dict[str, int]
    _by_denotation: dict[str, int]

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "_by_name", {})
        object.__setattr__(self, "_by_denotation", {})

    @classmethod
    def _tables(cls) -> tuple[str, ...]:
        return ("_entries", "_by_name", "_by_denotation")

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Sets a config entry."""
        self._set_entry(key, value)

    def get_session_config_entry(self, key: str) -> str:
        """A config entry; RuntimeError where it was not set."""
        return self._entry(key)

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Fixes a symbolic dim."""
        self._by_name[_name(name)] = index(size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Fixes all symbolic dims of a denotation."""
        self._by_denotation[_name(denotation)] = index(size)

    def has_providers(self) -> bool:
        """Providers are given to the session."""
        return False

    def register_custom_ops_library(self, path: str) -> None:
        """RuntimeError: Sardonyx does not load foreign machine code."""
        raise RuntimeError(f"Sardonyx does not load libraries of custom operators ({path})")


def check_written(options: SessionOptions) -> None:
    """InvalidArgument, as in onnxruntime, for an optimized_model_filepath that cannot be written,
    though Sardonyx has nothing to write to it."""
    text = options.optimized_model_filepath
    path = Path(text)
    if not text:
        return
    if path.is_dir():
        code = errno.EISDIR
    elif not path.parent.is_dir():
        code = errno.ENOENT
    elif not os.access(path if path.exists() else path.parent, os.W_OK):
        code = errno.EACCES
    else:
        return
    raise InvalidArgument(
        f"SystemError : {code}; optimized_model_filepath {text} cannot be written "
        f"({os.strerror(code)}); expected a file in a folder that is there"
    )


class RunOptions(_Options):
    """How one run is done."""

    __slots__ = (
        "log_severity_level", "log_verbosity_level", "logid", "only_execute_path_to_fetches",
        "terminate",
    )  # fmt: skip
    _defaults: ClassVar[Mapping[str, Any]] = {
        "log_severity_level": -1,
        "log_verbosity_level": 0,
        "logid": "",
        "only_execute_path_to_fetches": False,
        "terminate": False,
    }
    log_severity_level: int
    log_verbosity_level: int
    logid: str
    only_execute_path_to_fetches: bool
    terminate: bool

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Sets a config entry."""
        self._set_entry(key, value)

    def get_run_config_entry(self, key: str) -> str:
        """A config entry; RuntimeError where it was not set."""
        return self._entry(key)
