"""The elementary functions, as the interpreter evaluates them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from sardonyx import types as t
from sardonyx.accuracy.double import arguments, distance, exact, inside, reference
from sardonyx.accuracy.harness import UNARY, kernel_of, operands
from sardonyx.kernel import elementary
from sardonyx.kernel.expr import Alu, Cast, Const, Load, Where
from sardonyx.kernel.interpret import evaluate
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.walk import walk
from sardonyx.types import Array, DType

INF, NAN = math.inf, math.nan
ODD = ("asin", "asinh", "atan", "atanh", "erf", "expm1", "log1p", "sin", "sinh", "tan", "tanh")
SYMMETRIC = tuple(n for n in ODD if n not in ("expm1", "log1p"))
PI = {t.float32: float(np.float32(np.pi)), t.float64: math.pi}

SPECIAL: dict[str, list[tuple[float, float]]] = {
    "exp": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, 0), (1000, INF), (-1000, 0)],
    "exp2": [
        (0.0, 1),
        (3, 8),
        (-2, 0.25),
        (INF, INF),
        (-INF, 0),
        (2000, INF),
        (-2000, 0),
        (-126, 2.0**-126),
    ],
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1), (-1000, -1), (1000, INF)],
    "log": [(1, 0.0), (0.0, -INF), (-0.0, -INF), (-1, NAN), (-INF, NAN), (INF, INF)],
    "log2": [
        (1, 0.0),
        (8, 3),
        (0.25, -2),
        (0.0, -INF),
        (-0.0, -INF),
        (-1, NAN),
        (INF, INF),
        (2.0**-130, -130),
    ],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (-1, -INF), (-2, NAN), (INF, INF), (-INF, NAN)],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (INF, 1), (-INF, 0), (100, 1)],
    "softplus": [(INF, INF), (-INF, 0), (2000, 2000), (-2000, 0)],
    "tanh_softplus": [(0.0, 0.6), (-0.0, 0.6), (INF, 1), (-INF, 0), (100, 1), (-2000, 0)],
    "tanh": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (100, 1), (-100, -1)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1), (-INF, -1), (10, 1), (-10, -1)],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "cos": [(0.0, 1), (-0.0, 1), (INF, NAN), (-INF, NAN)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN)],
    "asin": [(0.0, 0.0), (-0.0, -0.0), (2, NAN), (-2, NAN), (INF, NAN)],
    "acos": [(1, 0.0), (2, NAN), (-2, NAN), (INF, NAN)],
    "atan": [(0.0, 0.0), (-0.0, -0.0)],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (1000, INF)],
    "cosh": [(0.0, 1), (-0.0, 1), (INF, INF), (-INF, INF), (1000, INF)],
    "asinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF)],
    "acosh": [(1, 0.0), (0.5, NAN), (-1, NAN), (INF, INF), (-INF, NAN)],
    "atanh": [(0.0, 0.0), (-0.0, -0.0), (1, INF), (-1, -INF), (2, NAN), (INF, NAN)],
}
# x, y, x**y: C99 F.9.4.4
POWERS = [
    (0.0, -3, INF), (-0.0, -3, -INF), (0.0, -2, INF), (-0.0, -2, INF), (0.0, -INF, INF),
    (0.0, 3, 0.0), (-0.0, 3, -0.0), (-0.0, 2, 0.0), (-0.0, 2.5, 0.0), (-0.0, -2.5, INF),
    (-1, INF, 1), (-1, -INF, 1), (1, NAN, 1), (1, INF, 1), (NAN, 0.0, 1), (INF, -0.0, 1),
    (0.0, 0.0, 1), (-8, 1 / 3, NAN), (-2, 3, -8), (-2, 2, 4), (-2, -1, -0.5), (0.5, -INF, INF),
    (2, -INF, 0.0), (0.5, INF, 0.0), (-2, INF, INF), (-0.5, INF, 0.0), (-INF, -3, -0.0),
    (-INF, -2, 0.0), (-INF, 3, -INF), (-INF, 2, INF), (-INF, 2.5, INF), (-INF, -2.5, 0.0),
    (INF, 3, INF), (INF, -3, 0.0), (NAN, 1, NAN), (2, NAN, NAN), (-1, NAN, NAN), (10, 2, 100),
    (2, 1e9, INF), (-2, 1e9, INF), (2, -1e9, 0.0), (4, 0.5, 2), (-1, 3, -1), (-1, 1e30, 1),
]  # fmt: skip


def apply(name: str, dtype: DType, *given: Array, fused: bool = True) -> Array:
    arrays = [np.asarray(x, dtype.numpy).reshape(-1) for x in given]
    return evaluate(kernel_of(name, dtype, arrays[0].size), arrays, fused)[0]


def narrowed(x: Array, dtype: DType) -> Array:
    """x in the type, without NaN."""
    with np.errstate(all="ignore"):
        x = x[~np.isnan(x)].astype(dtype.numpy)
    return x


def same(got: Array, want: Array) -> bool:
    return bool(np.array_equal(got, want, equal_nan=True)) and bool(
        np.array_equal(np.signbit(got)[~np.isnan(want)], np.signbit(want)[~np.isnan(want)])
    )


def single_distance(got: float, want: Any) -> float:
    exponent = max(mp.frexp(want)[1] - 1 if want else -126, -126)
    top = mp.mpf(2) ** 128
    value = mp.mpf(got) if np.isfinite(got) else mp.sign(got) * top
    return float(abs(value - max(-top, min(top, want))) * mp.mpf(2) ** (23 - min(exponent, 127)))


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("dtype", [t.float32, t.float64], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_special_values(name: str, dtype: DType, fused: bool) -> None:
    """Zeros, infinities, NaN and the ends of the domain give what C99 Annex F says."""
    x, want = (np.array(v, dtype.numpy) for v in zip(*SPECIAL[name], (NAN, NAN), strict=True))
    got = apply(name, dtype, x, fused=fused)
    assert same(got, want), (x, got, want)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("dtype", [t.float32, t.float64], ids=str)
def test_special_powers(dtype: DType, fused: bool) -> None:
    """pow has the special values of C99 F.9.4.4."""
    x, y, want = (np.array(v, dtype.numpy) for v in zip(*POWERS, strict=True))
    got = apply("pow", dtype, x, y, fused=fused)
    assert same(got, want), list(zip(x, y, got, want, strict=True))


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("dtype", [t.float32, t.float64], ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_accuracy(name: str, dtype: DType, fused: bool) -> None:
    """On stratified samples float32 is within 1 ulp and float64 within 2 ulp of mpmath."""
    random = np.random.default_rng(5)
    (x,) = arguments(name, 1, random)
    x = narrowed(random.choice(x, 600), dtype)
    x = x[inside(name, x)]
    got = apply(name, dtype, x, fused=fused)
    measured: Callable[[float, Any], float] = single_distance if dtype is t.float32 else distance
    with mp.workprec(160):
        pairs = zip(got, x, strict=True)
        errors = [measured(float(g), exact(reference(name), [float(v)])) for g, v in pairs]
    worst = int(np.argmax(errors))
    assert errors[worst] <= (1 if dtype is t.float32 else 2), (float(x[worst]).hex(), errors[worst])


@pytest.mark.parametrize("dtype", [t.float32, t.float64], ids=str)
def test_accuracy_of_pow(dtype: DType) -> None:
    """pow of positive bases is within 1 ulp on stratified samples."""
    random = np.random.default_rng(6)
    for kind in (1, 3, 5):
        x, y = (v[:200] for v in operands(random, dtype.numpy, kind, 4096))
        with np.errstate(all="ignore"):
            size = np.abs(y * np.log2(np.abs(x)))
        keep = np.isfinite(x) & np.isfinite(y) & (x > 0) & (size < 1100)
        x, y = x[keep], y[keep]
        got = apply("pow", dtype, x, y)
        measured = single_distance if dtype is t.float32 else distance
        with mp.workprec(160):
            for g, a, b in zip(got, x, y, strict=True):
                error = measured(float(g), exact(mp.power, [float(a), float(b)]))
                assert error <= 1, (float(a).hex(), float(b).hex(), error)


@pytest.mark.parametrize("dtype", [t.float32, t.float64], ids=str)
@pytest.mark.parametrize("name", [*SYMMETRIC, "cos", "cosh"])
def test_symmetry(name: str, dtype: DType) -> None:
    """Odd functions change only the sign bit with the sign of x; even ones change nothing."""
    (x,) = arguments(name, 1, np.random.default_rng(7))
    x = np.abs(narrowed(x, dtype))
    up, down = apply(name, dtype, x), apply(name, dtype, -x)
    assert same(down, -up if name in ODD else up)


@pytest.mark.parametrize("name", ODD)
def test_tiny(name: str) -> None:
    """Functions like x near 0 return subnormal arguments unchanged, or to within 1 ulp for erf."""
    x = np.array([1, 2, 3, 1000, 0x7FFFFF], np.uint32).view(np.float32)
    x = np.concatenate([x, -x])
    want = x if name != "erf" else (x.astype(np.float64) * 1.1283791670955126).astype(np.float32)
    step = np.abs(apply(name, t.float32, x).view(np.int32) - want.view(np.int32))
    assert step.max() <= (name == "erf")


@pytest.mark.parametrize("dtype", [t.float32, t.float64], ids=str)
@pytest.mark.parametrize("name", elementary.__all__)
def test_form(name: str, dtype: DType) -> None:
    """A function is a DAG of loads, constants, alu nodes, casts and selections, nothing else."""
    (s,) = kernel_of(name, dtype, 4).body
    assert isinstance(s, Compute)
    loads = [e for e in walk(s.expr) if isinstance(e, Load)]
    inner = {id(i) for load in loads for i in load.index}
    rest = [e for e in walk(s.expr) if id(e) not in inner]
    assert all(isinstance(e, Alu | Cast | Const | Load | Where) for e in rest)
    assert len(loads) == (2 if name == "pow" else 1)


@pytest.mark.parametrize("name", ["exp", "tanh"])
def test_small_types(name: str) -> None:
    """float16 arguments are widened: the result is that of float32, rounded once."""
    x = np.arange(0, 0x7C00, 7, np.uint16).view(np.float16)
    got = apply(name, t.float16, x)
    with np.errstate(over="ignore"):
        want = apply(name, t.float32, x.astype(np.float32)).astype(np.float16)
    assert same(got, want)
