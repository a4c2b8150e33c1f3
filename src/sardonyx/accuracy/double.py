"""Samples the float64 elementary functions against mpmath."""

from __future__ import annotations

import ctypes
import pathlib
import tempfile
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from sardonyx import types as t
from sardonyx.accuracy.harness import BLOCK, MODES, Row, compiled, operands, operations, patterns
from sardonyx.types import Array

PRECISION = 160  # bits of mpmath's arithmetic, and more where a result cancels
# Arguments near which functions are hard: zeros, changes of method, multiples of pi / 2, limits.
HARD = (
    0.0, 0.25, 0.34657359027997264, 0.41421356237309503, 0.5, 0.90625, 0.7071067811865476,
    0.78515625, 0.875, 1.0, 1.0397207708399179, 1.4142135623730951, 1.5707963267948966,
    2.414213562373095, 3.141592653589793, 4.71238898038469, 11.0, 22.0, 36.7, 709.782712893384,
    744.44, 745.1332191019411, 710.4758600739439, 5.319372648326541e255,
    6381956970095103.0 * 2.0**797,
)  # fmt: skip


def mpmath() -> Any:
    """The module, which only measuring needs."""
    return import_module("mpmath")


def reference(name: str) -> Callable[..., Any]:
    """The function in mpmath, for finite arguments within its domain."""
    mp = mpmath()
    own: dict[str, Callable[..., Any]] = {
        "exp2": lambda x: mp.power(2, x),
        "log2": lambda x: mp.log(x) / mp.log(2),
        "sigmoid": lambda x: mp.exp(x) / (1 + mp.exp(x)),
        "softplus": lambda x: mp.log1p(mp.exp(x)),
        "tanh_softplus": lambda x: mp.tanh(mp.log1p(mp.exp(x))),
        "pow": mp.power,
    }
    return own.get(name) or getattr(mp, name)


def arguments(name: str, count: int, random: np.random.Generator) -> list[Array]:
    """Finite float64 arguments within the function's domain, a multiple of BLOCK of them."""
    count = -(-count // BLOCK) * BLOCK
    if name == "pow":
        made = [operands(random, np.dtype(np.float64), i, BLOCK) for i in range(count // BLOCK)]
        return [np.concatenate(part) for part in zip(*made, strict=True)]
    quarter = count // 4
    near = random.choice(HARD, quarter) * (1 + random.uniform(-1, 1, quarter) * 1e-3)
    steps = random.choice(HARD, quarter).view(np.int64) + random.integers(-20, 20, quarter)
    spread = 10.0 ** random.uniform(-9, 3, quarter)
    x = np.concatenate([patterns(random, np.dtype(np.float64), quarter), near,
                        steps.view(np.float64), spread])  # fmt: skip
    x = np.concatenate([x, np.zeros(count - x.size)])
    return [np.copysign(x, random.choice([-1.0, 1.0], count))]


def inside(name: str, x: Array) -> Array:
    """Where x is finite and the function is."""
    bound = {"log": x > 0, "log2": x > 0, "log1p": x > -1, "acosh": x >= 1, "asin": abs(x) <= 1,
             "acos": abs(x) <= 1, "atanh": abs(x) < 1}  # fmt: skip
    finite: Array = np.isfinite(x) & bound.get(name, np.isfinite(x))
    return finite


def distance(got: float, want: Any) -> float:
    """The error in units of the last place of the exact value `want`."""
    mp = mpmath()
    if np.isnan(got):
        return float("inf")
    top = mp.mpf(2) ** 1024
    want = max(-top, min(top, want))
    value = mp.mpf(got) if np.isfinite(got) else mp.sign(got) * top
    exponent = min(max(mp.frexp(want)[1] - 1 if want else -1022, -1022), 1023)
    return float(abs(value - want) * mp.mpf(2) ** (52 - exponent))


def measure(name: str, samples: int) -> list[Row]:
    """The greatest error on the samples, in both modes."""
    mp = mpmath()
    given = arguments(name, samples, np.random.default_rng(64))
    worst: list[tuple[float, tuple[str, ...]]] = [(-1.0, ())] * 2
    function, tried = reference(name), 0
    with tempfile.TemporaryDirectory() as made, mp.workprec(PRECISION):
        outputs = [run(name, given, pathlib.Path(made), mode) for mode in MODES]
        for i in np.nonzero(_usable(name, given))[0]:
            at = [float(x[i]) for x in given]
            want = exact(function, at)
            tried += 1
            for m, out in enumerate(outputs):
                error = distance(float(out[i]), want)
                if error > worst[m][0]:
                    worst[m] = (error, tuple(x.hex() for x in at))
    count = operations(name, t.float64)
    return [
        Row(name, "float64", mode, error, at, tried, count)
        for mode, (error, at) in zip(MODES, worst, strict=True)
    ]


def _usable(name: str, given: list[Array]) -> Array:
    if name != "pow":
        return inside(name, given[0])
    x, y = given
    with np.errstate(all="ignore"):
        size = np.abs(y * np.log2(np.abs(x)))
    usable: Array = np.isfinite(x) & np.isfinite(y) & (x > 0) & (size < 1200)
    return usable


def exact(function: Callable[..., Any], at: list[float]) -> Any:
    """The value with enough bits whatever cancels in mpmath's own evaluation."""
    mp = mpmath()
    size = max(abs(mp.frexp(x)[1]) for x in at)
    with mp.workprec(PRECISION + 2 * min(size, 1100)):
        return function(*(mp.mpf(x) for x in at))


def run(name: str, given: list[Array], folder: pathlib.Path, mode: str) -> Array:
    """The compiled function on the arguments."""
    library = compiled(name, t.float64, folder, mode)
    out = np.empty_like(given[0])
    for i in range(0, out.size, BLOCK):
        pointers = [ctypes.c_void_p(v[i:].ctypes.data) for v in (*given, out)]
        library.run(*pointers)
    return out
