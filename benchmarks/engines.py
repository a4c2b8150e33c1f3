"""The engines, each as a function from feeds to outputs, on one thread and in float32."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

Run = Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]


def sardonyx(path: Path) -> Run:
    from sardonyx import InferenceSession

    session = InferenceSession(path)
    return lambda feeds: session.run(None, dict(feeds))


def onnxruntime(path: Path) -> Run:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda feeds: list(session.run(None, dict(feeds)))


def openvino(path: Path) -> Run:
    import openvino as ov

    settings = {
        "INFERENCE_NUM_THREADS": 1,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    request = ov.Core().compile_model(str(path), "CPU", settings).create_infer_request()

    def run(feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        found = request.infer(dict(feeds), share_inputs=True)
        return [np.asarray(value) for value in found.values()]

    return run


ENGINES: dict[str, Callable[[Path], Run]] = {
    "sardonyx": sardonyx,
    "onnxruntime": onnxruntime,
    "openvino": openvino,
}
