"""Each operator that onnxruntime has, on values drawn by hypothesis: within the tolerance that the
operator's definition declares. What differs otherwise is in docs/disagreements.md."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from onnx import helper
from test_properties import by_name, lowered

from sardonyx import types as t
from sardonyx.errors import RunError
from sardonyx.kernel import interpret
from sardonyx.types import Array

TOLERANCE = {"exact": (0.0, 0.0), "rounding": (1e-5, 2e-5), "approximate": (1e-4, 1e-5)}
OTHERWISE = {
    "ai.onnx.Constant": "it has no operand",
    "ai.onnx.MelWeightMatrix": "onnxruntime refuses a sampling rate of 0",
    "ai.onnx.MeanVarianceNormalization": "NaN in onnxruntime where the variance is 0",
}


def session(name: str) -> onnxruntime.InferenceSession | None:
    """onnxruntime's session of one node, None where it does not take it."""
    op, feeds, attributes, outputs = by_name()[name]
    names = [f"x{i}" if x is not None else "" for i, x in enumerate(feeds)]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(op.name, names, results, domain=op.domain, **attributes)
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for n, x in zip(names, feeds, strict=True)
        if x is not None
    ]
    made = [onnx.ValueInfoProto(name=r) for r in results]
    imports = [helper.make_opsetid(op.domain, op.since)]
    graph = helper.make_graph([node], "g", infos, made)
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    with suppress(Exception):
        return onnxruntime.InferenceSession(model.SerializeToString(), options)
    return None


def drawn(x: Array) -> st.SearchStrategy[Array]:
    """Values of moderate size."""
    dtype = t.by_numpy(x.dtype)
    assert dtype is not None
    if dtype.is_float:
        few = st.integers(-64, 64).map(lambda n: n / 16)
        return hnp.arrays(np.float64, x.shape, elements=few).map(lambda a: a.astype(x.dtype))
    most = 1 if dtype is t.bool_ else 3
    whole = hnp.arrays(np.int64, x.shape, elements=st.integers(0, most))
    return whole.map(lambda a: a.astype(x.dtype))


@pytest.mark.parametrize("name", [n for n in by_name() if n not in OTHERWISE])
def test_it_gives_what_onnxruntime_gives(name: str) -> None:
    op, feeds, attributes, outputs = by_name()[name]
    theirs = session(name)
    if theirs is None:
        pytest.skip("onnxruntime does not take it")
    subject = lowered(op, feeds, attributes, outputs, name)
    assert subject is not None
    given_names = [f"x{i}" for i in range(len(feeds))]
    rtol, atol = TOLERANCE[op.accuracy]

    @settings(max_examples=10, database=None, derandomize=True,
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(st.tuples(*(drawn(feeds[i]) for i in subject.free)))
    def holds(values: tuple[Array, ...]) -> None:
        operands: list[Any] = list(feeds)
        for i, x in zip(subject.free, values, strict=True):
            operands[i] = x
        pairs = zip(given_names, operands, strict=True)
        inputs = {n: x for n, x in pairs if x is not None}
        try:
            ours = interpret.evaluate(subject.kernel, operands)
        except RunError:
            return
        for mine, yours in zip(ours, theirs.run(None, inputs), strict=True):
            assert mine.dtype == yours.dtype
            wide = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in (mine, yours)]
            half = 1e-2 if mine.dtype.itemsize == 2 else 0
            finite = np.abs(wide[1][np.isfinite(wide[1])]) if atol or half else np.zeros(0)
            largest = max(1.0, float(finite.max(initial=0)))
            near = max(atol, half) * largest
            np.testing.assert_allclose(*wide, rtol=max(rtol, half), atol=near)

    holds()
