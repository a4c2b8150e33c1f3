"""Trained models that lie in wheels of other projects: PP-OCR in rapidocr-onnxruntime, magika.

    pip install --no-deps rapidocr-onnxruntime magika

They are read where they are installed, and left out where they are not; sizes are made numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import onnx


class Absent(Exception):
    """The wheel is not installed."""


def ppocr(part: str, *shape: int) -> onnx.ModelProto:
    """The detector, recogniser or classifier of PP-OCR, for pictures of one size."""
    return _sized(_folder("rapidocr_onnxruntime"), f"*{part}_infer.onnx", shape)


def magika() -> onnx.ModelProto:
    """What tells the kind of a file from 2048 of its bytes, for one file."""
    return _sized(_folder("magika"), "standard_v3_3/model.onnx", (1, 2048))


def _folder(package: str) -> Path:
    found = find_spec(package)
    if found is None or found.origin is None:
        wheel = package.replace("_", "-")
        raise Absent(f"{wheel} is not installed: pip install --no-deps {wheel}")
    return Path(found.origin).parent / "models"


def _sized(folder: Path, pattern: str, shape: Sequence[int]) -> onnx.ModelProto:
    """The model of the folder, its one input of this shape."""
    paths = sorted(folder.glob(pattern))
    if len(paths) != 1:
        raise Absent(f"{folder} has {len(paths)} files {pattern}; one is expected")
    model = onnx.load(paths[0])
    (x,) = model.graph.input
    for dim, size in zip(x.type.tensor_type.shape.dim, shape, strict=True):
        dim.dim_value = size
    del model.graph.value_info[:]
    return model
