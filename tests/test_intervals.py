"""Intervals hold what is computed, and what they leave open the monitor sees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sardonyx as sx
from sardonyx.checker import Severity, check
from sardonyx.checker.interval import RULES as INTERVAL_RULES
from sardonyx.checker.interval import Interval, intervals
from sardonyx.checker.samples import model
from sardonyx.resolve import resolve

ROOT = Path(__file__).parents[1]
ENDS = st.floats(-1e4, 1e4, width=32)
UNARY = ["Abs", "Exp", "Log", "Neg", "Relu", "Sigmoid", "Softmax", "Sqrt", "Tanh", "LeakyRelu"]
BINARY = ["Add", "Sub", "Mul", "Div", "Max", "Min"]


@settings(max_examples=120)
@given(st.sampled_from(UNARY + BINARY), st.sampled_from(UNARY), ENDS, ENDS, st.integers(0, 99))
def test_what_is_computed_lies_in_its_interval(
    first: str, second: str, a: float, b: float, seed: int
) -> None:
    assert first in INTERVAL_RULES
    operands = "x, z" if first in BINARY else "x"
    graph = resolve(model(f"""g (float[32] x, float[32] z) => (float[32] y, float[32] h)
                              {{ h = {first} ({operands})  y = {second} (h) }}"""))  # fmt: skip
    low, high = sorted((a + 0.0, b + 0.0))
    source = np.random.default_rng(seed)
    feeds = {
        n: source.uniform(low, high, 32).clip(low, high).astype(np.float32) for n in ("x", "z")
    }
    feeds["x"][:2], feeds["z"][:2] = (low, high), (high, low)
    declared = {n: Interval(float(feeds[n].min()), float(feeds[n].max())) for n in feeds}
    found = intervals(graph, declared, {})
    for name, value in sx.Machine(graph).run(feeds).items():
        wide, interval = value.astype(np.float64), found[name]
        assert interval.nan or not np.isnan(wide).any()
        rest = wide[~np.isnan(wide)]
        assert rest.size == 0 or (interval.low <= rest.min() and rest.max() <= interval.high)


def test_every_tensor_of_a_trained_network_lies_in_its_interval() -> None:
    """With a declared range of the image; convolutions, norms, products and a softmax."""
    graph = sx.load(ROOT / "examples" / "digits" / "digits.onnx", dims={"N": 1})
    found = intervals(graph, {"image": Interval(0.0, 16.0)}, graph.initializers)
    assert found["scores"].low >= 0.0
    assert found["scores"].high < 1.01
    source = np.random.default_rng(2)
    images = [source.uniform(0, 16, 64), np.zeros(64), np.full(64, 16.0)]
    for image in images:
        machine = sx.Machine(graph)
        feeds = {"image": image.reshape(1, 1, 8, 8).astype(np.float32)}
        for step in machine.start(feeds):
            for name in [written.name for written in step.writes]:
                value, interval = machine.value(name), found[name]
                assert interval.low <= value.min(), name
                assert value.max() <= interval.high, name
    bounded = [i.finite and not i.nan for n, i in found.items() if n not in graph.initializers]
    assert all(bounded)


OBLIGATIONS = [
    ("Abs.1", "g (int8[1] x) => (int8[1] y) { y = Abs (x) }", np.int8, -128),
    ("Div.1", "g (int32[1] x) => (int32[1] y) { y = Div (x, x) }", np.int32, 0),
    ("Div.2", "g (int32[1] x) => (int32[1] y) <int32[1] d = {-1}> { y = Div (x, d) }",
     np.int32, -(2**31)),
    ("Log.1", "g (float[1] x) => (float[1] y) { y = Log (x) }", np.float32, -1),
    ("Log.1", "g (float[1] x) => (float[1] y) { y = Log (x) }", np.float32, 0),
    ("Sqrt.1", "g (float[1] x) => (float[1] y) { y = Sqrt (x) }", np.float32, -1),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "text", "dtype", "value"), OBLIGATIONS)
def test_what_is_left_to_the_monitor_is_seen_by_it(
    rule: str, text: str, dtype: Any, value: int
) -> None:
    from sardonyx.monitor import Monitor, policy_of

    made = model(text)
    (finding,) = check(made).of(rule)
    assert finding.severity == Severity.DYNAMIC
    monitor = Monitor(policy_of([]))
    sx.Machine(resolve(made), monitor=monitor).run({"x": np.array([value], dtype)})
    seen = {found.kind for found in monitor.findings}
    assert seen & set(finding.monitor.split(", "))
