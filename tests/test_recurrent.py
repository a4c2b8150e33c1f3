"""Recurrent networks, scheduled: the same bytes by both engines, with weights and with inputs in
their place, and products that are packed before the loop over the steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sardonyx.backend import prepare
from sardonyx.graph import Graph
from sardonyx.kernel.c99.print_product import packed_product
from sardonyx.kernel.ir import Compute, For
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.resolve import resolve

STEPS, INPUT, HIDDEN = 5, 12, 20
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("RNN", {}),
    ("RNN", {"direction": "bidirectional", "activations": ["Relu", "Tanh"]}),
    ("GRU", {}),
    ("GRU", {"linear_before_reset": 1, "direction": "reverse"}),
    ("GRU", {"direction": "bidirectional", "clip": 0.4, "layout": 1}),
    ("LSTM", {}),
    ("LSTM", {"input_forget": 1, "direction": "reverse", "layout": 1}),
    ("LSTM", {"direction": "bidirectional", "clip": 0.4, "peepholes": True}),
]


def model(op: str, given: dict[str, Any], batch: int, constant: bool, lengths: bool) -> Any:
    """(the model, its feeds): W, R, B and P are weights or, if not constant, inputs."""
    options = dict(given)
    random, directions = np.random.default_rng(1), 1 + (options.get("direction") == "bidirectional")
    rows = GATES[op] * HIDDEN
    shape = (batch, STEPS, INPUT) if options.get("layout") else (STEPS, batch, INPUT)
    arrays = {
        "x": random.standard_normal(shape),
        "w": random.standard_normal((directions, rows, INPUT)) * 0.4,
        "r": random.standard_normal((directions, rows, HIDDEN)) * 0.3,
        "b": random.standard_normal((directions, 2 * rows)) * 0.1,
    }
    values = {n: v.astype(np.float32) for n, v in arrays.items()}
    names = ["x", "w", "r", "b", "", "", "", ""][: 7 if op == "LSTM" else 6]
    if lengths:
        values["n"], names[4] = np.arange(batch, dtype=np.int32) % STEPS + 1, "n"
    if options.pop("peepholes", False):
        values["p"] = (random.standard_normal((directions, 3 * HIDDEN)) * 0.2).astype(np.float32)
        names.append("p")
    fixed = {n for n in values if constant and n not in ("x", "n")}
    results = ["y", "h", "c"][: 3 if op == "LSTM" else 2]
    node = helper.make_node(op, names, results, hidden_size=HIDDEN, **options)
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in values.items()
        if n not in fixed
    ]
    out = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in results]
    weights = [numpy_helper.from_array(values[n], n) for n in fixed]
    graph = helper.make_graph([node], "g", infos, out, weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=9)
    return made, {n: v for n, v in values.items() if n not in fixed}


@pytest.mark.parametrize(
    ("batch", "constant", "lengths"),
    [
        pytest.param(1, True, False, id="one"),
        pytest.param(7, False, True, id="seven-lengths"),
        pytest.param(1, True, True, id="one-lengths", marks=pytest.mark.slow),
        pytest.param(7, False, False, id="seven", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize(("op", "options"), OPTIONS)
def test_both_engines_give_the_same_bytes(
    op: str, options: dict[str, Any], batch: int, constant: bool, lengths: bool
) -> None:
    made, feeds = model(op, options, batch, constant, lengths)
    expected = prepare(made, engine="machine").run(list(feeds.values()))
    found = prepare(made, engine="native").run(list(feeds.values()))
    assert [np.asarray(v).tobytes() for v in found] == [np.asarray(v).tobytes() for v in expected]


def steps_of(made: onnx.ModelProto) -> list[Compute]:
    """What the loops over the steps compute, scheduled."""
    graph: Graph = resolve(made)
    (launch,) = optimise(lower(graph)).launches
    loops = [s for s in launch.kernel.body if isinstance(s, For)]
    return [x for s in loops for x in s.body if isinstance(x, Compute)]


@pytest.mark.parametrize("constant", [True, False], ids=["weights", "inputs"])
@pytest.mark.parametrize(("op", "count"), [("RNN", 1), ("GRU", 2), ("LSTM", 1)])
def test_a_step_is_packed_products(op: str, count: int, constant: bool) -> None:
    made, _ = model(op, {}, 1, constant, lengths=False)
    products = [packed_product(s) for s in steps_of(made)]
    assert len([p for p in products if p is not None]) == count
