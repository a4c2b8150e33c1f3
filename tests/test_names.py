"""Inputs and initializers of subgraphs that hide a tensor of the graphs around them."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from test_stages import both, model, theirs

from sardonyx.errors import InvalidModel
from sardonyx.loading import load

X = np.array([1, -2], np.float32)
HIDDEN = {
    "the state of a loop": """
        y = Loop(m, , x) <body = b (int64 i, bool c, float[2] x) => (bool d, float[2] u) {
          u = Add(x, w)  d = Identity(c)
        }>""",
    "a state that the loop hands on": """
        y, z = Loop(m, , x, w) <body = b (int64 i, bool c, float[2] v, float[2] w)
                                => (bool d, float[2] u, float[2] w) {
          u = Mul(v, w)  d = Identity(c)
        }>""",
    "of a loop in a loop": """
        y = Loop(m, , x) <body = b (int64 i, bool c, float[2] x) => (bool d, float[2] u) {
          u = Loop(m, , x) <body = e (int64 i, bool c, float[2] x) => (bool g, float[2] h) {
            h = Add(x, w)  g = Identity(c)
          }>
          d = Identity(c)
        }>""",
    "what the graph makes later": """
        q = Loop(m, , x) <body = b (int64 i, bool c, float[2] y) => (bool d, float[2] u) {
          u = Add(y, w)  d = Identity(c)
        }>
        y = Neg(q)""",
}


@pytest.mark.parametrize("case", HIDDEN)
def test_the_input_of_a_body_hides_what_is_around(case: str) -> None:
    sign = "(float[2] x) => (float[2] y) <int64 m = {3}, float[2] w = {10, 0.5}>"
    proto = model(sign, HIDDEN[case])
    for ours, other in zip(both(proto, {"x": X}), theirs(proto, {"x": X}), strict=True):
        np.testing.assert_array_equal(ours, other)


def with_weight(proto: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """The model whose first If has branches with a weight of this name, of twos."""
    found = next(n for n in proto.graph.node if n.op_type == "If")
    for attribute in found.attribute:
        twos = numpy_helper.from_array(np.array([2, 2], np.float32), name)
        attribute.g.initializer.append(twos)
    return proto


def test_the_weight_of_a_branch_hides_what_is_around() -> None:
    branches = "<then_branch = t () => (float[2] u) { u = Mul(x, w) }, else_branch = e () => "
    proto = model(
        "(float[2] x, bool c) => (float[2] y) <float[2] w = {1, 1}>",
        f"a = If(c) {branches} (float[2] v) {{ v = Add(x, w) }}> y = Mul(a, w)",
    )
    for c, expected in ((True, 2 * X), (False, X + 2)):
        (y,) = both(with_weight(proto, "w") if c else proto, {"x": X, "c": np.array(c)})
        np.testing.assert_array_equal(y, expected)


def test_the_weight_of_a_branch_in_a_function_hides_its_input() -> None:
    branch = helper.make_graph(
        [helper.make_node("Mul", ["w", "w"], ["u"])],
        "b",
        [],
        [helper.make_tensor_value_info("u", 1, [2])],
        [numpy_helper.from_array(np.array([3, 4], np.float32), "w")],
    )
    choice = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    function = helper.make_function("own", "F", ["w", "c"], ["y"], [choice], opsets[:1])
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("F", ["x", "c"], ["y"], domain="own")],
        "g",
        [info("x", 1, [2]), info("c", 9, [])],
        [info("y", 1, [2])],
    )
    proto = helper.make_model(graph, ir_version=10, opset_imports=opsets, functions=[function])
    (y,) = both(proto, {"x": X, "c": np.array(True)})
    np.testing.assert_array_equal(y, np.float32([9, 16]))


def test_a_node_of_a_body_may_not_hide() -> None:
    """ONNX: names of node outputs are distinct from those that are visible around."""
    body = """y = Loop(m, , x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] u) {
                w = Add(v, v)  u = Neg(w)  d = Identity(c) }>"""
    with pytest.raises(InvalidModel, match="makes 'w', which is made already"):
        load(model("(float[2] x) => (float[2] y) <int64 m = {3}, float[2] w = {1, 1}>", body))


def test_an_input_of_a_body_without_a_name_is_refused() -> None:
    """Though "" stands for an absent output around it."""
    body = """y = Loop(m, , x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] u) {
                u = Clip(v, , top)  d = Identity(c) }>"""
    sign = "(float[2] x) => (float[2] y) <int64 m = {3}, float top = {1}, int64[1] one = {1}>"
    proto = model(sign, "rest, at = TopK(x, one) " + body)
    proto.graph.node[0].output[0] = ""
    proto.graph.node[1].attribute[0].g.input[2].name = ""
    with pytest.raises(InvalidModel, match="an input without a name"):
        load(proto)


def test_a_branch_that_is_handed_to_a_function_reads_the_tensors_of_the_call() -> None:
    """Also where the function has an input of the same name."""

    def branch(op_type: str) -> onnx.GraphProto:
        out = helper.make_tensor_value_info("u", 1, None)
        return helper.make_graph([helper.make_node(op_type, ["x"], ["u"])], "b", [], [out])

    choice = helper.make_node("If", ["c"], ["b"], else_branch=branch("Relu"))
    handed = onnx.AttributeProto(name="then_branch", ref_attr_name="then")
    handed.type = onnx.AttributeProto.GRAPH
    choice.attribute.append(handed)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("my", 1)]
    proto = model("(bool c, float[2] x) => (float[2] y)", "w = Abs(x)", more=', "my": 1')
    call = helper.make_node("f", ["c", "w"], ["y"], domain="my", then=branch("Neg"))
    proto.graph.node.append(call)
    proto.functions.append(
        helper.make_function("my", "f", ["c", "x"], ["b"], [choice], opsets, ["then"])
    )
    found = [both(proto, {"c": np.array(c), "x": X})[0].tolist() for c in (True, False)]
    assert found == [(-X).tolist(), np.abs(X).tolist()]
