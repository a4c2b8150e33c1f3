"""Graphs whose end the host performs (tail.py): names of classes, maps from class to score."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from test_stages import both, model

from sardonyx.engines import StagedEngine, TailedEngine, make_engine
from sardonyx.errors import FeedError, RunError
from sardonyx.loading import load
from sardonyx.tail import tail_of

ML = ', "ai.onnx.ml": 3'
NAMES = 'names = Constant<value_strings = ["no", "perhaps", "yes"]>()'
SCORES = np.array([[0.5, 2, 1], [3, 0, 1]], np.float32)
ENDS = {
    "names of the greatest": (
        "(float[n, 3] x) => (string[m] y, seq(map(string, float)) z)",
        f"""{NAMES}
        flat = Constant<value_ints = [-1]>() i = ArgMax<axis = 1, keepdims = 1>(x)
        taken = ai.onnx.ml.ArrayFeatureExtractor(names, i) y = Reshape(taken, flat)
        p = Softmax(x)
        z = ai.onnx.ml.ZipMap<classlabels_strings = ["no", "perhaps", "yes"]>(p)""",
        ["perhaps", "no"],
    ),
    "names that are joined": (
        "(float[n, 3] x) => (string[n] y, string[n] z)",
        f"""{NAMES} i = ArgMax<axis = 1, keepdims = 0>(x) z = Gather(names, i)
        one = Constant<value_string = "!">() y = StringConcat(z, one)""",
        ["perhaps!", "no!"],
    ),
    "names that are compared": (
        "(float[n, 3] x) => (string[n] z, bool[n] y)",
        f"""{NAMES} i = ArgMax<axis = 1, keepdims = 0>(x) z = Gather(names, i)
        one = Constant<value_strings = ["no"]>() y = Equal(z, one)""",
        ["perhaps", "no"],
    ),
    "a classifier's names": (
        "(float[n, 3] x) => (string[n] y, float[n, 3] p)",
        """l, p = ai.onnx.ml.LinearClassifier<classlabels_strings = ["no", "perhaps", "yes"],
        coefficients = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
        intercepts = [0.0, 0.0, 0.0]>(x) y = Identity(l)""",
        ["perhaps", "no"],
    ),
}


def graph_of(name: str) -> Any:
    sign, body, _ = ENDS[name]
    return load(model(sign, body, more=ML))


@pytest.mark.parametrize("name", ENDS)
def test_the_engines_agree(name: str) -> None:
    sign, body, wanted = ENDS[name]
    found = both(model(sign, body, more=ML), {"x": SCORES})
    assert found[0].tolist() == wanted


@pytest.mark.parametrize("name", ENDS)
def test_what_comes_again_is_answered_at_once(name: str) -> None:
    engine: Any = make_engine(graph_of(name), "native")
    assert isinstance(engine, TailedEngine)
    assert engine.quick({"x": SCORES}) is None
    engine.run({"x": SCORES})
    again = engine.quick({"x": SCORES[::-1].copy()})
    assert again[0].tolist() == ENDS[name][2][::-1]
    assert engine.quick({"x": SCORES[:1].copy()}) is None or name == "names that are compared"


def test_the_head_is_one_program_of_numbers() -> None:
    tail = tail_of(graph_of("names of the greatest"))
    assert tail is not None
    head = [op.op_type for op in tail.head.operations]
    assert head == ["Constant", "ArgMax", "ArrayFeatureExtractor", "Reshape", "Softmax"]
    assert {op.op_type for op in tail.ending.graph.operations} == {"Labels", "ZipMap"}


def test_a_loop_before_names_is_compiled_with_the_rest() -> None:
    """The distances of a nearest-neighbour classifier: a Scan, whose result names follow."""
    body = f"""{NAMES}
      d = Scan<num_scan_inputs = 1, body = b (float[k] row) => (float s) {{
        q = Mul(row, row) s = ReduceSum<keepdims = 0>(q)
      }}>(x)
      i = ArgMax<axis = 0, keepdims = 1>(d) y = Gather(names, i)"""
    proto = model("(float[3, k] x) => (string[1] y)", body)
    x = np.array([[1, 1], [0, 1], [5, 0]], np.float32)
    assert both(proto, {"x": x})[0].tolist() == ["yes"]
    engine: Any = make_engine(load(proto), "native")
    engine.run({"x": x})
    assert engine.quick({"x": -x})[0].tolist() == ["yes"]


def test_names_that_are_fed_are_no_numbers() -> None:
    sign = "(string[3] names, float[n, 3] x) => (string[n] y)"
    proto = model(sign, "i = ArgMax<axis = 1, keepdims = 0>(x) y = Gather(names, i)")
    assert tail_of(load(proto)) is None
    feeds = {"names": np.array(["a", "b", "c"], object), "x": SCORES}
    assert both(proto, feeds)[0].tolist() == ["b", "a"]


def test_weights_that_the_end_reads_are_at_hand() -> None:
    sign, body, wanted = ENDS["names that are joined"]
    proto = model(sign, body, more=ML)
    (constant,) = (n for n in proto.graph.node if "one" in n.output)
    proto.graph.node.remove(constant)
    proto.graph.initializer.append(onnx.helper.make_tensor("one", 8, [], [b"!"]))
    graph = load(proto)
    tail = tail_of(graph)
    assert tail is not None
    assert list(tail.ending.fixed) == ["one"]
    assert both(proto, {"x": SCORES})[0].tolist() == wanted


def test_names_of_places_that_the_model_has_chosen_stay_its_own() -> None:
    sign, body, wanted = ENDS["names that are joined"]
    proto = model(sign, f"{body} n = Neg(x) q = StringConcat(one, z)", more=ML)
    for node in proto.graph.node:
        for names in (node.input, node.output):
            names[:] = ["names/place" if n == "n" else n for n in names]
    proto.graph.output.add(name="names/place")
    found = both(proto, {"x": SCORES})
    assert found[0].tolist() == wanted
    assert np.array_equal(found[2], -SCORES)


def test_a_graph_of_strings_alone_has_no_head() -> None:
    graph = load(model("(string[2] x) => (string[2] y)", "y = StringConcat(x, x)"))
    assert tail_of(graph) is None
    assert isinstance(make_engine(graph, "native"), StagedEngine)


def test_errors_name_the_operation() -> None:
    body = "w = Neg(x) y = ai.onnx.ml.ZipMap<classlabels_int64s = [3, 5]>(w)"
    graph = load(model("(float[n, k] x) => (seq(map(int64, float)) y)", body, more=ML))
    engine = make_engine(graph, "native")
    with pytest.raises(RunError, match=r"ZipMap.*3 columns have 2 class labels"):
        engine.run({"x": SCORES})
    with pytest.raises(FeedError, match="'x' is not fed"):
        engine.run({})
