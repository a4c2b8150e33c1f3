"""Sardonyx: the same bits everywhere.

    import sardonyx as sx
    session = sx.InferenceSession("net.onnx")       # onnxruntime's own API; all of it: sardonyx.ort
    session.run(None, {"x": x})

    graph = sx.load("net.onnx")                     # the graph G
    for record in sx.Machine(graph).start(feeds):   # the machine, step by step
        ...

Importing this package loads nothing else; a name loads its module when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sardonyx.checker import Finding, Report, check
    from sardonyx.engines import make_engine
    from sardonyx.errors import (
        BuildError,
        FeedError,
        InternalError,
        InvalidModel,
        LimitExceeded,
        ModelError,
        RunError,
        SardonyxError,
        Undetermined,
        UnsupportedModel,
    )
    from sardonyx.graph import Graph, Operation
    from sardonyx.loading import load
    from sardonyx.machine import Machine
    from sardonyx.model import Limits
    from sardonyx.ort import (
        ExecutionMode,
        GraphOptimizationLevel,
        InferenceSession,
        IOBinding,
        ModelMetadata,
        NodeArg,
        OrtValue,
        RunOptions,
        SessionOptions,
        get_all_providers,
        get_available_providers,
        get_build_info,
        get_device,
        get_version_string,
        preload_dlls,
        set_default_logger_severity,
        set_default_logger_verbosity,
        set_seed,
    )
    from sardonyx.resolve import graph_from_nodes

    __version__: str

_PLACES = {
    "checker": ("Finding", "Report", "check"),
    "engines": ("make_engine",),
    "errors": (
        "BuildError", "FeedError", "InternalError", "InvalidModel", "LimitExceeded", "ModelError",
        "RunError", "SardonyxError", "Undetermined", "UnsupportedModel",
    ),
    "graph": ("Graph", "Operation"),
    "loading": ("load",),
    "machine": ("Machine",),
    "model": ("Limits",),
    "ort": (
        "ExecutionMode", "GraphOptimizationLevel", "IOBinding", "InferenceSession",
        "ModelMetadata", "NodeArg", "OrtValue", "RunOptions", "SessionOptions",
        "get_all_providers", "get_available_providers", "get_build_info", "get_device",
        "get_version_string", "preload_dlls", "set_default_logger_severity",
        "set_default_logger_verbosity", "set_seed",
    ),
    "resolve": ("graph_from_nodes",),
}  # fmt: skip
_MODULE = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    "BuildError",
    "ExecutionMode",
    "FeedError",
    "Finding",
    "Graph",
    "GraphOptimizationLevel",
    "IOBinding",
    "InferenceSession",
    "InternalError",
    "InvalidModel",
    "LimitExceeded",
    "Limits",
    "Machine",
    "ModelError",
    "ModelMetadata",
    "NodeArg",
    "Operation",
    "OrtValue",
    "Report",
    "RunError",
    "RunOptions",
    "SardonyxError",
    "SessionOptions",
    "Undetermined",
    "UnsupportedModel",
    "__version__",
    "check",
    "get_all_providers",
    "get_available_providers",
    "get_build_info",
    "get_device",
    "get_version_string",
    "graph_from_nodes",
    "load",
    "make_engine",
    "preload_dlls",
    "set_default_logger_severity",
    "set_default_logger_verbosity",
    "set_seed",
]


def __getattr__(name: str) -> object:
    value: object
    if name == "__version__":
        from importlib.metadata import version

        value = version("sardonyx")
    elif name in _MODULE:
        value = getattr(import_module(f"sardonyx.{_MODULE[name]}"), name)
    elif name in ("backend", "custom", "ort"):
        value = import_module(f"sardonyx.{name}")
    elif name == "capi":
        value = import_module("sardonyx.ort.capi")
    else:
        raise AttributeError(f"module 'sardonyx' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
