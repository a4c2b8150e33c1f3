"""What a fix must leave alone, though no random input of its own trial shows it; what keeps it from
being made."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, numpy_helper

from sardonyx.checker.samples import model
from sardonyx.legalize import Legalized, legalize
from sardonyx.legalize.verify import differences, run
from sardonyx.resolve import resolve


def same(made: ModelProto, done: Legalized, **feeds: np.ndarray) -> bool:
    """Whether the model and its legalized form give the same bytes."""
    return not list(differences(run(resolve(made), [feeds]), run(resolve(done.model), [feeds])))


@pytest.mark.parametrize(
    "drawn",
    [
        "b = Bernoulli (c)",
        "b = RandomUniformLike (c)",
        "b = Dropout (c, h, t)",
        "m = Multinomial <sample_size=2> (c)  b = Cast <to=1> (m)",
    ],
)
def test_what_chance_decides_is_not_computed_once(drawn: str) -> None:
    text = f"""g (float[2,2] x) => (float[2,2] y) <float[2,2] c = {{0.5, 0.5, 0.5, 0.5}},
               float h = {{0.5}}, bool t = {{1}}> {{ {drawn}  y = Add (x, b) }}"""
    done = legalize(model(text, 22))
    assert len(done.model.graph.node) == text.count(" = ") - 3


def test_gemm_without_its_c_is_not_made_to_add_it() -> None:
    """With beta = 0 an infinity of C does not show."""
    made = model("""g (float[1,2] a, float[2,1] b, float[1,1] c) => (float[1,1] y)
                    { y = Gemm <alpha=0.5, beta=0.0> (a, b, c) }""", 13)  # fmt: skip
    done = legalize(made, strict_tbc=True, verify="none")
    assert [n.op_type for n in done.model.graph.node] == ["MatMul", "Mul"]
    ones = np.ones((1, 2), np.float32)
    assert same(made, done, a=ones, b=ones.T, c=np.full((1, 1), np.inf, np.float32))


def test_a_bound_that_an_early_clip_leaves_out_is_the_largest_float() -> None:
    made = model("g (float[1] x) => (float[1] y) { y = Clip <min=0.5> (x) }", 6)
    done = legalize(made, verify="none")
    assert done.model.opset_import[0].version > 10
    assert same(made, done, x=np.full(1, np.inf, np.float32))


def lstm(first: str, begins: bool) -> ModelProto:
    """An LSTM of one cell whose gates have the activation `first`."""
    made = model("g (float[1,1,1] x, float[1,1,1] c) => (float[1,1,1] y) { y = Add (x, c) }", 22)
    names = [first, "Tanh", "Tanh"]
    inputs = ["x", "w", "r", "", "", "", "c" if begins else ""]
    node = helper.make_node("LSTM", inputs, ["", "y"], hidden_size=1, activations=names)
    del made.graph.node[:]
    made.graph.node.append(node)
    for name, size in (("w", 1), ("r", 1)):
        value = np.full((1, 4, size), 2, np.float32)
        made.graph.initializer.append(numpy_helper.from_array(value, name))
    return made


@pytest.mark.parametrize("first", ["Sigmoid", "Relu"])
def test_a_cell_that_may_become_infinite_gets_no_peepholes(first: str) -> None:
    """0 times an infinity is NaN."""
    made = lstm(first, begins=True)
    done = legalize(made, verify="none")
    one = np.ones((1, 1, 1), np.float32)
    assert same(made, done, x=one, c=np.full((1, 1, 1), np.inf, np.float32))


def test_a_cell_that_stays_finite_gets_peepholes() -> None:
    done = legalize(lstm("Sigmoid", begins=False))
    assert len(done.model.graph.node[0].input) == 8
    assert not lstm_findings(done)


def lstm_findings(done: Legalized) -> list[str]:
    return [f.observed for f in done.report.findings if f.rule == "LSTM.1"]


def test_the_kernel_of_qlinearconv_is_that_of_its_weights() -> None:
    made = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        g (uint8[1,1,4,4] x) => (uint8[1,1,2,2] y)
        <float s = {0.5}, uint8 z = {0}, uint8[1,1,3,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}>
        { y = QLinearConv (x, s, z, w, s, z, s, z) }""")
    done = legalize(made)
    assert not done.undone
    given = {a.name: list(a.ints) for a in done.model.graph.node[0].attribute}
    assert given["kernel_shape"] == [3, 3]


def test_transpose_of_a_scalar_does_not_keep_attributes_from_being_given() -> None:
    done = legalize(model("g (float x) => (float y) { y = Transpose (x) }"))
    assert not done.undone
    assert [(a.name, list(a.ints)) for a in done.model.graph.node[0].attribute] == [("perm", [])]


BRANCHES = "then_branch = b () => (float[2] u) { u = Neg (%s) }, " \
           "else_branch = b () => (float[2] v) { v = Abs (%s) }"  # fmt: skip


def test_an_identity_that_a_branch_reads_stays_and_others_go() -> None:
    done = legalize(model(f"""g (float[2] x, bool c) => (float[2] y) {{
        h = Identity (x)  k = Identity (x)  z = If (c) <{BRANCHES % ("h", "h")}>
        y = Add (z, k) }}"""))  # fmt: skip
    assert not done.undone
    assert [n.op_type for n in done.model.graph.node] == ["Identity", "If", "Add"]


def test_an_initializer_that_is_an_output_is_made_before_a_branch_reads_it() -> None:
    made = model(f"""g (bool c) => (float[2] y, float[2] w) <float[2] w = {{1.0, 2.0}}>
                     {{ y = If (c) <{BRANCHES % ("w", "w")}> }}""")  # fmt: skip
    assert not [f for f in legalize(made).report.findings if f.rule == "G05"]


@pytest.mark.parametrize(
    ("text", "opset"),
    [
        ("g (float[2,2,2] x, float[2,1] w) => (float[2,2,1] y) { y = MatMul (x, w) }", 13),
        ("g (float[2,3] x, float[3] w) => (float[2,3] y) { y = Add (x, w) }", 7),
    ],
)
def test_what_is_mended_by_a_later_operator_is_converted_first(text: str, opset: int) -> None:
    done = legalize(model(text, opset))
    assert not done.undone
    assert not [f for f in done.report.findings if f.rule in ("MatMul.1", "EW.1", "Reshape.1")]


def test_a_function_that_cannot_be_inlined_is_not_told_as_inlined() -> None:
    """ONNX's inliner leaves a function of another operator set."""
    made = model("g (float[2] x) => (float[2] y) { y = my.F (x) }", 21)
    relu = helper.make_node("Relu", ["a"], ["b"])
    ops = [helper.make_opsetid("", 13)]
    made.functions.append(helper.make_function("my", "F", ["a"], ["b"], [relu], ops))
    made.opset_import.append(helper.make_opsetid("my", 1))
    done = legalize(made)
    assert len(done.model.functions) == 1
    assert "F3" not in {c.fix for c in done.changes}


def test_the_long_name_of_the_domain_is_the_short_one() -> None:
    made = model("g (float[2] x) => (float[2] y) { y = Sum (x, x) }", 21)
    made.graph.node[0].domain = "ai.onnx"
    assert [n.op_type for n in legalize(made).model.graph.node] == ["Add"]


@pytest.mark.parametrize(
    "node",
    ["h = Sum (x)  y = Relu (h)", "y = Gemm <alpha=0.5, beta=0.5, transA=0, transB=0> (x, w, w)"],
)
def test_what_a_fix_makes_is_mended_at_once(node: str) -> None:
    """An Identity of one that is left, a product of constants."""
    made = model(f"""g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {{1.0, 2.0, 3.0, 4.0}}>
                     {{ {node} }}""")  # fmt: skip
    done = legalize(made, strict_tbc=True)
    assert not [f for f in done.report.findings if f.rule in ("G12", "G15")]
    assert not legalize(done.model, strict_tbc=True).changes


def test_the_type_that_is_stated_of_a_sequence_stays() -> None:
    made = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        g (float[2] x) => (int64 y) <seq(float[2]) s>
        { s = SequenceConstruct (x)  y = SequenceLength (s) }""")
    assert "s" in {v.name for v in legalize(made).model.graph.value_info}
