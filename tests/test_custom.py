"""Operators of users: in the kernel IR, as NumPy functions, and as classes of onnx.reference."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

import sardonyx as sx
from sardonyx import custom
from sardonyx.engines import make_engine
from sardonyx.graph import Graph
from sardonyx.ops import registry
from sardonyx.resolve import graph_from_nodes
from sardonyx.types import Array, TensorType, float32

PAGE = Path(__file__).parents[1] / "docs" / "custom-operators.md"
DOMAIN = "test.domain"


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    """Takes off what a test registers."""
    before = keys()
    yield
    for domain, name in keys() - before:
        registry.remove(domain, name)


def keys() -> set[tuple[str, str]]:
    return {(o.domain, o.name) for o in (*registry.operators(), *registry.hosts())}


def node(name: str, *inputs: str, output: str = "y", **attributes: Any) -> NodeProto:
    return helper.make_node(name, inputs, [output], domain=DOMAIN, **attributes)


def graph(*nodes: NodeProto, version: int = 1, **inputs: Array) -> Graph:
    types = {n: TensorType(float32, x.shape) for n, x in inputs.items()}
    return graph_from_nodes(nodes, types=types, opsets={"": 21, DOMAIN: version})


def both(made: Graph, **inputs: Array) -> Array:
    """The output y, of both engines the same bytes."""
    found = [make_engine(made, kind).run(inputs)["y"] for kind in ("machine", "native")]
    assert found[0].tobytes() == found[1].tobytes()
    return found[0]


X = np.arange(-3, 3, dtype=np.float32).reshape(2, 3)


def test_the_page_s_examples_run() -> None:
    scope: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S):
        exec(compile(block, str(PAGE), "exec"), scope)


def test_a_definition_runs_on_both_engines_between_operators_of_onnx() -> None:
    @custom.operator("Scale", domain=DOMAIN)
    def scale(k: Any, x: Any, y: Any = None, *, by: float = 2.0) -> Any:
        return custom.elementwise(k, lambda e: e * by, x)

    nodes = [helper.make_node("Relu", ["x"], ["r"]), node("Scale", "r", output="s", by=3.0)]
    nodes.append(helper.make_node("Add", ["s", "x"], ["y"]))
    np.testing.assert_array_equal(both(graph(*nodes, x=X), x=X), np.maximum(X, 0) * 3 + X)


def test_exported_c_holds_a_definition(tmp_path: Path) -> None:
    from sardonyx.cli import main

    @custom.operator("Cube", domain=DOMAIN)
    def cube(k: Any, x: Any) -> Any:
        return custom.elementwise(k, lambda e: e * e * e, x)

    inputs = [helper.make_tensor_value_info("x", 1, [2, 3])]
    outputs = [helper.make_tensor_value_info("y", 1, [2, 3])]
    made = helper.make_graph([node("Cube", "x")], "g", inputs, outputs)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(made, opset_imports=opsets, ir_version=10)
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    assert main(["compile", str(path), "-o", str(tmp_path / "c")]) == 0


def test_a_function_runs_between_native_parts() -> None:
    calls = []

    @custom.function("Sorted", domain=DOMAIN)
    def ordered(x: Array, *, axis: int = -1) -> Array:
        calls.append(x.shape)
        return np.sort(x, axis)

    nodes = [helper.make_node("Neg", ["x"], ["n"]), node("Sorted", "n", output="s", axis=0)]
    nodes.append(helper.make_node("Relu", ["s"], ["y"]))
    found = both(graph(*nodes, x=X), x=X)
    np.testing.assert_array_equal(found, np.maximum(np.sort(-X, 0), 0))
    assert calls[-1] == (2, 3)


def test_a_function_may_give_several_outputs_of_sizes_that_depend_on_data() -> None:
    @custom.function("Positive", domain=DOMAIN)
    def positive(x: Array) -> tuple[Array, Array]:
        return x[x > 0], np.asarray(x.sum(), np.float32)

    made = helper.make_node("Positive", ["x"], ["p", "s"], domain=DOMAIN)
    after = helper.make_node("Mul", ["p", "s"], ["y"])
    np.testing.assert_array_equal(both(graph(made, after, x=X), x=X), X[X > 0] * X.sum())


class Clipped(OpRun):
    op_domain = DOMAIN

    def _run(self, x: Any, low: Any = None, high: Any = None) -> tuple[Any]:
        return (np.clip(x, low, high),)


def test_a_class_of_onnx_reference_gives_what_the_reference_evaluator_gives() -> None:
    custom.reference(Clipped)
    made = node("Clipped", "x", low=-1.0, high=1.5)
    inputs = [helper.make_tensor_value_info("x", 1, [2, 3])]
    proto = helper.make_graph([made], "g", inputs, [helper.make_tensor_value_info("y", 1, [2, 3])])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(proto, opset_imports=opsets, ir_version=10)
    expected = ReferenceEvaluator(model, new_ops=[Clipped]).run(None, {"x": X})[0]
    (found,) = sx.InferenceSession(model).run(None, {"x": X})
    np.testing.assert_array_equal(found, expected)


def test_a_node_has_the_newest_version_that_the_model_imports() -> None:
    custom.operator("Plus", 1, domain=DOMAIN)(
        lambda k, x: custom.elementwise(k, lambda e: e + 1, x)
    )
    custom.operator("Plus", 3, domain=DOMAIN)(
        lambda k, x: custom.elementwise(k, lambda e: e + 3, x)
    )
    for imported, added in ((1, 1), (2, 1), (3, 3), (7, 3)):
        made = graph(node("Plus", "x"), x=X, version=imported)
        np.testing.assert_array_equal(make_engine(made, "machine").run({"x": X})["y"], X + added)


def test_a_session_never_remembers_an_older_definition() -> None:
    inputs, outputs = ([helper.make_tensor_value_info(n, 1, [2, 3])] for n in "xy")
    made = helper.make_graph([node("Shift", "x")], "g", inputs, outputs)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    data = helper.make_model(made, opset_imports=opsets, ir_version=10).SerializeToString()
    for by in (1.0, 2.0):
        custom.operator("Shift", domain=DOMAIN)(
            lambda k, x, *, add=by: custom.elementwise(k, lambda e: e + add, x)
        )
        (found,) = sx.InferenceSession(data).run(None, {"x": X})
        np.testing.assert_array_equal(found, X + np.float32(by))
        custom.remove("Shift", domain=DOMAIN)
    with pytest.raises(sx.ModelError):
        sx.InferenceSession(data)


def test_nodes_are_checked_against_the_signature() -> None:
    @custom.operator("Two", domain=DOMAIN)
    def two(k: Any, a: Any, b: Any, *, size: int, name: str = "") -> Any:
        return custom.elementwise(k, lambda x, y: x + y, a, b)

    for wrong, said in (
        (node("Two", "x", size=1), "1 inputs, expected 2"),
        (node("Two", "x", "x"), "lacks its attribute 'size'"),
        (node("Two", "x", "x", size=1.5), "FLOAT, expected INT"),
        (node("Two", "x", "x", size=1, other=2), "has the attribute 'other'"),
    ):
        with pytest.raises(sx.InvalidModel, match=re.escape(said)):
            graph(wrong, x=X)
    with pytest.raises(sx.UnsupportedModel, match="has no operator 'Three'"):
        graph(node("Three", "x"), x=X)


def test_reserved_domains_and_names_that_are_taken_are_refused() -> None:
    for domain in ("", "ai.onnx", "ai.onnx.ml", "sardonyx"):
        with pytest.raises(sx.SardonyxError, match="reserved"):
            custom.operator("Mine", domain=domain)
        with pytest.raises(sx.SardonyxError, match="reserved"):
            custom.remove("Relu", domain=domain)
    with pytest.raises(sx.SardonyxError, match="there already"):
        custom.function("Gelu", domain="com.microsoft")
    custom.function("Mine", domain=DOMAIN)(lambda x: x)
    with pytest.raises(sx.SardonyxError, match="there already"):
        custom.operator("Mine", domain=DOMAIN)
    custom.remove("Mine", domain=DOMAIN)
    with pytest.raises(sx.SardonyxError, match="no operator"):
        custom.remove("Mine", domain=DOMAIN)


def test_the_default_of_an_input_is_none() -> None:
    for register in (custom.operator, custom.function):
        with pytest.raises(sx.SardonyxError, match="default can only be None"):
            register("Mine", domain=DOMAIN)(lambda k, x=3: x)


def test_what_a_function_gives_must_be_a_tensor() -> None:
    custom.function("Odd", domain=DOMAIN)(lambda x: x.astype("M8[s]"))
    engine = make_engine(graph(node("Odd", "x"), x=X), "machine")
    with pytest.raises(sx.RunError, match="Odd gives an array of datetime64"):
        engine.run({"x": X})
