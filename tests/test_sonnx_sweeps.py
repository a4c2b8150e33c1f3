"""Exhaustive sweeps: all pairs of 8-bit integers, every float16, against exact arithmetic; and the
compliance report."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from sardonyx.checker.samples import model
from sardonyx.machine import Machine
from sardonyx.resolve import resolve
from sardonyx.types import Array

PAIRS: dict[str, Callable[[int, int], int]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": lambda a, b: 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "Max": max,
    "Min": min,
}
EXACT: dict[str, Callable[[Array], Array]] = {
    "Abs": np.abs, "Neg": np.negative, "Relu": lambda x: np.maximum(x, 0.0),
    "Sqrt": np.sqrt,
}  # fmt: skip
ROUNDED: dict[str, Callable[[Array], Array]] = {
    "Exp": np.exp, "Log": np.log, "Tanh": np.tanh, "Sin": np.sin, "Asin": np.arcsin,
    "Acos": np.arccos, "Atan": np.arctan, "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Softplus": lambda x: np.logaddexp(0, x),
}  # fmt: skip
INTEGERS = {"int8": "INT", "uint8": "UINT"}
SWEPT = {
    "all pairs of 8-bit integers": {(op, family) for op in PAIRS for family in INTEGERS.values()},
    "every float16 (within 1 ulp)": {(op, "FLOAT") for op in (*EXACT, *ROUNDED)},
}


def run(op: str, kind: str, *operands: Array) -> Array:
    size = operands[0].size
    names = "xz"[: len(operands)]
    inputs = ", ".join(f"{kind}[{size}] {n}" for n in names)
    text = f"g ({inputs}) => ({kind}[{size}] y) {{ y = {op} ({', '.join(names)}) }}"
    found = Machine(resolve(model(text, 22))).run(dict(zip(names, operands, strict=True)))
    return found["y"]


@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.parametrize("op", PAIRS)
def test_every_pair_of_bytes(op: str, kind: str) -> None:
    """Sums, differences and products wrap; Div goes towards zero, by 0 it gives 0."""
    info = np.iinfo(kind)
    one = np.arange(info.min, info.max + 1)
    a, b = (g.reshape(-1) for g in np.meshgrid(one, one, indexing="ij"))
    exact = [PAIRS[op](x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    expected = np.array(exact, np.int64).astype(kind)
    assert (run(op, kind, a.astype(kind), b.astype(kind)) == expected).all()


# of 65,536, how many are one ulp beside the exact value rounded once: the float32 result is rounded
TWICE = {"Exp": 2, "Log": 1, "Sin": 4, "Acos": 3, "Atan": 6, "Sigmoid": 7, "Softplus": 1}


@pytest.mark.parametrize("op", [*EXACT, *ROUNDED])
def test_every_float16(op: str) -> None:
    """The exact value rounded once, but for a few that float32 has rounded to a midpoint."""
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(all="ignore"):
        expected = {**EXACT, **ROUNDED}[op](x.astype(np.float64)).astype(np.float16)
    found = run(op, "float16", x)
    nan = np.isnan(expected)
    assert (np.isnan(found) == nan).all()
    assert (found.view(np.uint16)[nan] == 0x7E00).all()
    differs = ~nan & (found != expected)
    assert np.count_nonzero(differs) == TWICE.get(op, 0)
    steps = found.view(np.int16)[differs].astype(int) - expected.view(np.int16)[differs]
    assert (np.abs(steps) == 1).all()


@pytest.mark.slow
def test_the_compliance_report_is_current_and_without_failures() -> None:
    """Else: python -m tests.compliance --update"""
    from tests.compliance import PAGE, page

    text = page()
    assert "| FAIL |" not in text
    assert PAGE.read_text() == text
