"""Inputs and outputs are found as ONNX Runtime finds them; graphs are built and cut."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import FunctionProto, GraphProto, NodeProto, helper

from sardonyx.errors import InvalidModel
from sardonyx.extract import extract
from sardonyx.machine import Machine
from sardonyx.model import Limits, parse
from sardonyx.resolve import boundary, graph_from_nodes, resolve
from sardonyx.types import TensorType, float32

HERE = Limits(type_seconds=0)
V = TensorType(float32, (2,))


def nodes(*texts: str) -> list[NodeProto]:
    return [helper.make_node(t[0], t[1].split(), t[2].split()) for t in map(_split, texts)]


def _split(text: str) -> tuple[str, str, str]:
    outputs, rest = text.split("=")
    op, *inputs = rest.split()
    return op, " ".join(inputs), outputs


CHAIN = nodes("a = Add x w", "b = Neg a", "c = Add b z", "d = Add x a")


def test_inputs_are_found_in_the_order_in_which_nodes_read_them() -> None:
    found = boundary(CHAIN, {"w"}, 8)
    assert found.inputs == ("x", "z")
    assert found.all_inputs == ("x", "z")
    assert found.overridable == ()


def test_outputs_are_what_no_node_reads_in_the_order_in_which_nodes_make_them() -> None:
    found = boundary(CHAIN, {"w"}, 8)
    assert found.outputs == ("c", "d")
    assert found.intermediate == ("a", "b")


def test_before_ir_4_initializers_are_inputs_that_cannot_be_fed() -> None:
    found = boundary(CHAIN, {"w"}, 3)
    assert found.all_inputs == ("x", "w", "z")
    assert found.inputs == ("x", "z")
    assert found.overridable == ()


def test_an_initializer_named_as_an_input_is_overridable_from_ir_4_on() -> None:
    found = boundary(CHAIN, {"w"}, 4, ["w", "x", "z", "x"])
    assert found.all_inputs == ("w", "x", "z")
    assert found.inputs == ("x", "z")
    assert found.overridable == ("w",)
    assert boundary(CHAIN, {"w"}, 3, ["w", "x", "z"]).overridable == ()


def test_inputs_said_by_hand_must_be_complete() -> None:
    text = "z must be either specified in graph inputs or graph initializers."
    with pytest.raises(InvalidModel, match=text.replace(".", r"\.")):
        boundary(CHAIN, {"w"}, 8, ["x"])


def test_outer_names_are_no_inputs() -> None:
    assert boundary(CHAIN, {"w"}, 8, outer={"x"}).inputs == ("z",)


def test_absent_inputs_and_outputs_do_not_count() -> None:
    clip = NodeProto(op_type="Clip", input=["x", "", "m"], output=["y", ""])
    found = boundary([clip], set(), 8)
    assert (found.inputs, found.outputs) == (("x", "m"), ("y",))


def test_captures_of_subgraphs_count_as_read() -> None:
    text = (
        '<ir_version: 8, opset_import: ["": 17]> g (bool c, float[2] x) => (float[2] y) {'
        "a = Neg(x) y = If(c) <then_branch = t () => (float[2] u) { u = Add(a, q) },"
        "else_branch = e () => (float[2] v) { v = Neg(a) }> }"
    )
    found = boundary(parse(text).proto.graph.node, set(), 8)
    assert found.inputs == ("x", "c", "q")
    assert found.outputs == ("y",)


def test_a_graph_is_built_from_nodes_in_any_order() -> None:
    weights = {"w": np.ones(2, np.float32)}
    graph = graph_from_nodes(
        reversed(CHAIN), weights, types={"x": V, "z": V}, opsets={"": 17}, limits=HERE
    )
    assert graph.inputs == ("x", "z")
    assert set(graph.outputs) == {"c", "d"}
    assert str(graph.types["c"]) == "float32[2]"


IN_ORDER = {
    "of the graph": "a = Neg(x) b = Abs(a) y = Add(a, b)",
    "of what a branch reads": (
        "z = Neg(x) k = Constant<value = bool {1}>()"
        "y = If(k) <then_branch = t () => (float[2] u) { v = Neg(z) u = Abs(v) },"
        "else_branch = e () => (float[2] w) { w = Identity(z) }>"
    ),
    "of a function": "b = own.twice(x) y = Neg(b)",
}


@pytest.mark.parametrize("case", IN_ORDER)
def test_the_nodes_of_a_file_may_stand_in_any_order(case: str) -> None:
    sign = '<ir_version: 8, opset_import: ["": 17, "own": 1]> g (float[2] x) => (float[2] y)'
    own = '<opset_import: ["": 17], domain: "own"> twice (p) => (r) { q = Add(p, p) r = Neg(q) }'
    proto = parse(f"{sign} {{ {IN_ORDER[case]} }} {own}").proto
    expected = resolve(proto, HERE)
    bodies: list[GraphProto | FunctionProto] = [proto.graph, *proto.functions]
    bodies += [a.g for n in proto.graph.node for a in n.attribute if a.HasField("g")]
    for body in bodies:
        turned = list(body.node)[::-1]
        del body.node[:]
        body.node.extend(turned)
    feeds = {"x": np.array([1, -2], np.float32)}
    (y,), (same,) = (Machine(g).run(feeds).values() for g in (resolve(proto, HERE), expected))
    assert y.tobytes() == same.tobytes()


def test_before_ir_version_4_an_initializer_need_not_be_an_input() -> None:
    head = '<ir_version: 3, opset_import: ["": 8]> g (float[2] x) => (float[2] y)'
    graph = resolve(parse(f"{head} <float[2] w = {{1, 2}}> {{ y = Add(x, w) }}").proto, HERE)
    assert (graph.inputs, graph.overridable) == (("x",), ())
    (y,) = Machine(graph).run({"x": np.array([1, -2], np.float32)}).values()
    np.testing.assert_array_equal(y, [2, 0])


def test_contributed_operators_need_not_be_imported() -> None:
    inner = "<then_branch = t () => (float[2] u) { u = com.microsoft.QuickGelu(x) },"
    inner += "else_branch = e () => (float[2] v) { v = Neg(x) }>"
    sign = "g (float[2] x, bool c) => (float[2] y)"
    stated, silent = (
        parse(f'<ir_version: 8, opset_import: ["": 17{more}]> {sign} {{ y = If(c) {inner} }}').proto
        for more in (', "com.microsoft": 1', "")
    )
    feeds = {"x": np.array([1, -2], np.float32), "c": np.array(True)}
    (y,), (same,) = (Machine(resolve(p, HERE)).run(feeds).values() for p in (stated, silent))
    assert y.tobytes() == same.tobytes()


def test_a_graph_built_with_inputs_keeps_their_order() -> None:
    weights = {"w": np.ones(2, np.float32)}
    info = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])
    graph = graph_from_nodes(
        CHAIN, weights, inputs=["z", info, "w"], outputs=["d"], types={"z": V},
        opsets={"": 17}, limits=HERE,
    )  # fmt: skip
    assert graph.inputs == ("z", "x")
    assert graph.overridable == ("w",)
    assert graph.outputs == ("d",)


def test_nodes_in_a_cycle_make_no_graph() -> None:
    with pytest.raises(InvalidModel, match="cycle"):
        graph_from_nodes(nodes("a = Neg b", "b = Neg a"))


def test_an_input_without_a_type_makes_no_graph() -> None:
    with pytest.raises(InvalidModel, match="'x' has no type"):
        graph_from_nodes(nodes("y = Neg x"))


def test_a_model_that_declares_no_inputs_or_outputs_gets_them_from_its_nodes() -> None:
    text = (
        '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y)'
        "{ a = Neg(x) y = Neg(a) }"
    )
    proto = parse(text).proto
    proto.graph.value_info.append(proto.graph.input[0])
    del proto.graph.input[:]
    del proto.graph.output[:]
    graph = resolve(proto, HERE)
    assert (graph.inputs, graph.outputs) == (("x",), ("y",))


MODEL = (
    '<ir_version: 8, opset_import: ["": 17, "f": 1]> g (float[N, 4] x, float[N, 4] z) '
    "=> (float[N, 4] y) <float[4] w = {1.0, 2.0, 3.0, 4.0}, float[4] v = {1.0, 1.0, 1.0, 1.0}>"
    "{ a = Add(x, w) b, c = f.two(a) d = Mul(b, v) e = Add(c, z) y = Add(d, e) }"
    '<opset_import: ["": 17], domain: "f"> two (p) => (q, r) { q = Neg(p) r = Abs(p) }'
    '<opset_import: ["": 17], domain: "f"> unused (p) => (q) { q = Neg(p) }'
)


def test_a_part_keeps_what_it_needs_and_no_more() -> None:
    part = extract(parse(MODEL, HERE), ["a"], ["d"])
    assert [n.op_type for n in part.graph.node] == ["two", "Mul"]
    assert [t.name for t in part.graph.initializer] == ["v"]
    assert [f.name for f in part.functions] == ["two"]
    graph = resolve(part, HERE)
    assert (graph.inputs, graph.outputs) == (("a",), ("d",))
    assert str(graph.types["a"]) == "float32[N, 4]"
    onnx.checker.check_model(part)


def test_a_part_may_start_at_one_output_of_a_node_that_it_keeps() -> None:
    part = extract(parse(MODEL, HERE), ["x", "z", "b"], ["y"])
    assert resolve(part, HERE).inputs == ("x", "z", "b")


def test_an_initializer_may_become_an_input() -> None:
    part = extract(parse(MODEL, HERE), ["x", "w"], ["a"])
    assert resolve(part, HERE).inputs == ("x", "w")
    assert not part.graph.initializer


@pytest.mark.parametrize(
    ("inputs", "outputs", "text"),
    [
        (["a"], ["y"], r"'e|Add '#3' needs the graph input 'z'"),
        ([], ["x"], "needs the graph input 'x'"),
        (["nope"], ["y"], "input 'nope' is no tensor"),
        (["x"], ["nope"], "output 'nope' is no tensor"),
        (["x", "x"], ["a"], "twice"),
        (["x"], [], "no output"),
    ],
)
def test_a_part_that_cannot_be_cut_is_refused(
    inputs: list[str], outputs: list[str], text: str
) -> None:
    with pytest.raises(InvalidModel, match=text):
        extract(parse(MODEL, HERE), inputs, outputs)
