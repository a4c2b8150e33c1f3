"""The peaks of one core, measured: of float32, independent multiply-adds in registers; of reading
memory, four streams at a time."""

from __future__ import annotations

import ctypes
from importlib.resources import files

from sardonyx.build import library, load


def measured_peak() -> float:
    """GFLOP/s of float32 on this core, multiply and add counted as two. BuildError where there is
    no compiler."""
    return _measured("peak")


def measured_reading() -> float:
    """GB/s that this core reads from memory. BuildError where there is no compiler."""
    return _measured("reading")


def _measured(name: str) -> float:
    text = files("sardonyx.measure").joinpath("peak.c").read_text("utf-8")
    function = load(library({"peak.c": text}))[name]
    function.restype = ctypes.c_double
    return float(function())
