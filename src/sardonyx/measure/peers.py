"""Sardonyx and the runtimes beside it, each as a function from feeds to outputs, on equal threads
and in float32.

    run = PEERS["onnxruntime"](Subject("net.onnx", {"N": 1}))
    outputs = run({"x": x})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:  # importing Sardonyx is measured
    from sardonyx.types import Array, Value

Run: TypeAlias = "Callable[[Mapping[str, Value]], list[Value]]"


@dataclass(frozen=True, slots=True)
class Subject:
    """What is measured: a model's file, sizes for its symbolic dims, how Sardonyx reads QDQ, which
    numerics it has, how many threads a run may use, further config entries of its session."""

    path: str
    dims: Mapping[str, int] = field(default_factory=dict)
    qdq: str = "integer"
    numerics: str = "default"
    threads: int = 1
    entries: Mapping[str, str] = field(default_factory=dict)


def sardonyx(subject: Subject) -> Run:
    """Through InferenceSession, as a user calls it."""
    from sardonyx.ort import InferenceSession, SessionOptions

    options = SessionOptions()
    options.intra_op_num_threads = subject.threads
    options.add_session_config_entry("sardonyx.qdq", subject.qdq)
    options.add_session_config_entry("sardonyx.numerics", subject.numerics)
    for key, value in subject.entries.items():
        options.add_session_config_entry(key, value)
    for name, size in subject.dims.items():
        options.add_free_dimension_override_by_name(name, size)
    session = InferenceSession(subject.path, options)
    return lambda feeds: list(session.run(None, feeds))


def onnxruntime(subject: Subject) -> Run:
    """The CPU provider, all optimisations (the default)."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = subject.threads, 1
    options.log_severity_level = 4
    for name, size in subject.dims.items():
        options.add_free_dimension_override_by_name(name, size)
    session = ort.InferenceSession(subject.path, options, providers=["CPUExecutionProvider"])
    return lambda feeds: list(session.run(None, dict(feeds)))


def openvino(subject: Subject) -> Run:
    """The CPU plugin for latency, in float32; symbolic dims are fixed by the first feeds."""
    import openvino as ov

    settings = {
        "INFERENCE_NUM_THREADS": subject.threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = ov.Core().compile_model(subject.path, "CPU", settings).create_infer_request()

    def run(feeds: Mapping[str, Value]) -> list[Value]:
        found = request.infer(dict(feeds), share_inputs=True)
        return [np.asarray(value) for value in found.values()]

    return run


PEERS: dict[str, Callable[[Subject], Run]] = {
    "sardonyx": sardonyx,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
}


def installed() -> tuple[str, ...]:
    """The names of the runtimes that can be imported, Sardonyx first."""
    return tuple(name for name in PEERS if find_spec(name) is not None)


def close(a: list[Value], b: list[Value]) -> bool:
    """Whether outputs agree at rtol 1e-3, with 1e-5 of the largest element for those near 0."""
    return len(a) == len(b) and all(map(_close, a, b))


def _close(a: Value, b: Value) -> bool:
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)):
        return str(a) == str(b)
    if a.shape != b.shape or not a.size:
        return bool(a.shape == b.shape)
    if a.dtype.kind not in "fiubcV" or b.dtype.kind not in "fiubcV":
        return bool(a.tolist() == b.tolist())
    x, y = _wide(a), _wide(b)
    finite = np.abs(x[np.isfinite(x)])
    least = 1e-5 * float(finite.max(initial=0))
    return bool(np.allclose(x, y, rtol=1e-3, atol=least, equal_nan=True))


def difference(a: list[Value], b: list[Value]) -> float:
    """The largest |x - y| of two lists of outputs; inf where they cannot be compared, or only one
    is NaN."""
    return max(map(_difference, a, b), default=0.0) if len(a) == len(b) else np.inf


def _difference(a: Value, b: Value) -> float:
    if not (isinstance(a, np.ndarray) and isinstance(b, np.ndarray)) or "O" in (
        a.dtype.kind,
        b.dtype.kind,
    ):
        return 0.0 if str(a) == str(b) else np.inf
    if a.shape != b.shape:
        return np.inf
    x, y = _wide(a), _wide(b)
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0, np.abs(x - y))
    return float(np.nan_to_num(apart, nan=np.inf).max(initial=0))


def _wide(x: Array) -> Array:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
