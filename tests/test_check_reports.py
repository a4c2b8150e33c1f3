"""What surrounds the rules: the command, its formats, profiles, intervals, the founding example."""

from __future__ import annotations

import json
import runpy
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, helper

import sardonyx as sx
from sardonyx.checker import Severity, all_rules, check, find_profile
from sardonyx.checker.rules.founding import DANGLING
from sardonyx.checker.samples import build, model
from sardonyx.cli import main
from sardonyx.errors import InvalidModel, SardonyxError
from sardonyx.resolve import resolve

ROOT = Path(__file__).parents[1]
CLEAN = "g (float[2] x) => (float[2] y) { y = Relu (x) }"
BROKEN = "g (float[2] x, float[2] z) => (float[2] y) { y = Softmax (x) }"
Shell = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    onnx.save(model(CLEAN), "clean.onnx")
    onnx.save(model(BROKEN), "broken.onnx")
    return tmp_path


def founding_example() -> ModelProto:
    """The illustration of the founding texts: the output of Sub is not used."""
    nodes = [
        helper.make_node("Add", ["I1", "I2"], ["O1"]),
        helper.make_node("Constant", [], ["op2_out"], value=helper.make_tensor("", 1, [1], [2.0])),
        helper.make_node("Mul", ["O1", "op2_out"], ["O2"]),
        helper.make_node("Sub", ["I1", "I2"], ["op4_out"], name="Sub"),
    ]
    info = helper.make_tensor_value_info
    inputs = [info(name, 1, [None, None]) for name in ("I1", "I2")]
    outputs = [info(name, 1, [None, None]) for name in ("O1", "O2")]
    graph = helper.make_graph(nodes, "Test", inputs, outputs)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


def test_the_founding_texts_reject_their_example_and_name_sub() -> None:
    report = check(founding_example(), "sonnx@v2")
    assert {(f.rule, f.node) for f in report.findings} == {("V1.R1", "Sub"), ("V2.R1", "Sub")}
    assert report.of("V2.R1")[0].tensor == "op4_out"


def test_the_founding_example_runs_without_the_profile() -> None:
    x, y = np.ones((2, 3), np.float32), np.full((2, 3), 3, np.float32)
    found = sx.Machine(resolve(founding_example())).run({"I1": x, "I2": y})
    assert {k: v.tolist() for k, v in found.items()} == {
        "O1": (x + y).tolist(),
        "O2": (2 * (x + y)).tolist(),
    }


def test_the_founding_example_is_mended_by_the_legalizer() -> None:
    from sardonyx.legalize import legalize

    dims = {f"{name}_{axis}": 2 for name in ("I1", "I2") for axis in (0, 1)}
    done = legalize(founding_example(), "sonnx@v2", dims=dims)
    assert done.report.conforms
    assert "Sub" not in {n.op_type for n in done.model.graph.node}


def test_the_present_profile_rejects_the_illustration_as_a_dead_node() -> None:
    assert {(f.rule, f.operator) for f in check(model(DANGLING)).violations} == {("G08", "Sub")}


def test_exit_codes(folder: Path, capsys: Shell) -> None:
    (folder / "rubbish.onnx").write_bytes(b"this is no protobuf")
    assert main(["check", "clean.onnx"]) == 0
    assert main(["check", "broken.onnx"]) == 1
    for wrong in ("rubbish.onnx", "absent.onnx", "clean.onnx --profile nonsense",
                  "clean.onnx --range x=1", "clean.onnx --range q=0:1"):  # fmt: skip
        assert main(["check", *wrong.split()]) == 2, wrong
    assert "sardonyx: error: " in capsys.readouterr().err


def test_text_names_rule_place_and_fix(folder: Path, capsys: Shell) -> None:
    main(["check", "broken.onnx"])
    said = capsys.readouterr().out
    assert "error: Softmax.1: Softmax's axis: Softmax 'softmax_0', attribute 'axis'" in said
    assert "error: G07: graph inputs are used: tensor 'z'" in said
    assert "fix F10" in said
    assert said.endswith("broken.onnx: does not conform to sonnx@wg-2026-08 (2 error)\n")


def test_json_has_every_finding(folder: Path, capsys: Shell) -> None:
    main(["check", "broken.onnx", "--format", "json"])
    found = json.loads(capsys.readouterr().out)
    assert not found["conforms"]
    assert {f["rule"] for f in found["findings"]} == {"Softmax.1", "G07"}
    assert any("sha256 of the model" in key for key in found["facts"])


def test_html_escapes_names(folder: Path) -> None:
    made = model("g (float[2] x) => (float[2] y) { [a] y = Cos (x) }")
    made.graph.node[0].name = "<script>alert(1)</script>"
    onnx.save(made, "script.onnx")
    main(["check", "script.onnx", "--format", "html", "--output", "report.html"])
    page = (folder / "report.html").read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_transient_restrictions_can_be_allowed(folder: Path) -> None:
    onnx.save(model("g (float[2,3] x) => (float[2,6] y) { y = Concat <axis=-1> (x, x) }"), "t.onnx")
    assert main(["check", "t.onnx"]) == 1
    assert main(["check", "t.onnx", "--allow", "transient"]) == 0


def test_the_first_dim_may_be_dynamic_where_the_user_says_so(folder: Path) -> None:
    onnx.save(model("g (float[N,3] x) => (float[N,3] y) { y = Relu (x) }"), "n.onnx")
    assert main(["check", "n.onnx"]) == 1
    assert main(["check", "n.onnx", "--dynamic", "batch"]) == 0


def test_what_is_to_be_confirmed_can_be_made_strict() -> None:
    made = model("""g (float[2,3] a, float[3,4] b, float[4] c) => (float[2,4] y)
                    { y = Gemm <alpha=2.0, beta=1.0, transA=0, transB=0> (a, b, c) }""")
    assert check(made).conforms
    assert {f.rule for f in check(made, strict_tbc=True).violations} == {"Gemm.2", "Gemm.3"}


def test_a_declared_range_settles_an_obligation(folder: Path, capsys: Shell) -> None:
    onnx.save(model("g (int8[1] x) => (int8[1] y) { y = Abs (x) }"), "abs.onnx")
    main(["check", "abs.onnx"])
    assert "left to the run-time monitor" in capsys.readouterr().out
    main(["check", "abs.onnx", "--range", "x=-100:100"])
    assert "Abs.1" not in capsys.readouterr().out


def test_dialects_differ_in_broadcasting() -> None:
    made = model("g (float[2,3] x, float[3] z) => (float[2,3] y) { y = Mul (x, z) }")
    assert {f.rule for f in check(made, "sonnx").violations} == {"EW.1"}
    assert check(made, "sonnx@ej-2026-10").conforms
    assert check(made, "sonnx@v2").conforms


YAML = """
extends: sonnx@wg-2026-08
name: ours
version: "1"
types: [float32]
rules: {G07: warning, Softmax.1: "off"}
limits: {variadic: 2}
operators:
  Relu: {since: [14], types: [float32]}
  Cos: {since: [22]}
"""


def test_a_profile_of_ones_own_uses_the_same_rules(folder: Path) -> None:
    (folder / "ours.yaml").write_text(YAML)
    assert str(find_profile("ours.yaml")) == "ours@1"
    assert main(["check", "broken.onnx", "--profile", "ours.yaml"]) == 0
    cos = model("g (float[2] x) => (float[2] y) { y = Cos (x) }")
    assert not check(cos, "sonnx").conforms
    assert check(cos, "ours.yaml").conforms
    double = model("g (double[2] x) => (double[2] y) { y = Relu (x) }")
    assert {f.rule for f in check(double, "ours.yaml").violations} == {"T03"}
    three = model("g (float[1] x) => (float[3] y) { y = Concat <axis=0> (x, x, x) }")
    assert {f.rule for f in check(three, "ours.yaml").findings} == {"G17"}


@pytest.mark.parametrize(
    "text",
    ["rules: {G07: fatal}", "colour: red", "types: [float99]", "operators: {Relu: [1]}", "- 1",
     "limits: {variadic: many}", "rules: [", "extends: own.yaml"],
)  # fmt: skip
def test_a_broken_profile_is_one_clear_error(folder: Path, text: str) -> None:
    (folder / "own.yaml").write_text(text)
    with pytest.raises(SardonyxError, match=r"own\.yaml"):
        find_profile("own.yaml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rules: {G7: error}", "there is no rule 'G7'; docs/profile.md has them"),
        ("only: [G07, V1.C99]", "there is no rule 'V1.C99'"),
        ("limits: {variadics: 8}", "there is no limit 'variadics'; there are memory, variadic"),
        ("options: {broadcasts: [Add]}", "there is no option 'broadcasts'; there are allowed_meta"),
        ("options: {opset: [new]}", r"opset is \['new'\], expected \[25\]"),
        ("operators: {ReLU: {}}", "there is no operator 'ReLU'; `sardonyx operators` has them"),
        ("operators: {Relu: {since: [14, 15]}}", "no version of Relu '15'; there are 1, 6, 13, 14"),
    ],
)
def test_what_a_profile_misspells_is_not_passed_over(folder: Path, text: str, said: str) -> None:
    (folder / "own.yaml").write_text(f"extends: sonnx\n{text}\n")
    with pytest.raises(SardonyxError, match=rf"own\.yaml: .*{said}"):
        find_profile("own.yaml")


def test_each_rule_that_a_dialect_names_is_there() -> None:
    known = {rule.id for rule in all_rules()}
    for name in ("sonnx@v2", "sonnx@wg-2026-08", "sonnx@ej-2026-10"):
        profile = find_profile(name)
        assert (profile.only or frozenset()) | set(profile.severities) <= known


def test_functions_are_looked_into() -> None:
    """The rules see the nodes that a call stands for."""
    made = model(CLEAN)
    made.graph.node[0].CopyFrom(helper.make_node("F", ["x"], ["y"], domain="local", name="call"))
    body = [helper.make_node("Cos", ["a"], ["b"], name="cos")]
    imports = [helper.make_opsetid("", 25)]
    made.functions.append(helper.make_function("local", "F", ["a"], ["b"], body, imports))
    made.opset_import.append(helper.make_opsetid("local", 1))
    assert {f.rule for f in check(made).violations} == {"M05", "G12"}


@pytest.mark.parametrize("cyclic", [False, True])
def test_a_shape_behind_a_long_chain_or_a_cycle_is_no_constant(cyclic: bool) -> None:
    """The chain is longer than Python calls may be deep."""
    first = "s2000" if cyclic else "s"
    names = [first, *(f"s{i}" for i in range(2001))]
    nodes = [helper.make_node("Neg", [a], [b]) for a, b in pairwise(names)]
    made = model("g (float[2] x, int64[1] s) => (float[2] y) { y = Reshape (x, s) }")
    made.graph.node[0].input[1] = "s2000"
    made.graph.node.extend(nodes)
    assert [f.tensor for f in check(made).of("A05")] == ["s2000"]


def test_what_chance_decides_is_no_constant() -> None:
    made = model("""g (float[2] x) => (float[2] y) <float[2] w = {0.5, 0.5}>
                    { v = Bernoulli (w)  y = Add (x, v) }""", 22)  # fmt: skip
    assert not check(made).of("G15")


def test_a_fact_is_the_digest_of_each_initializer() -> None:
    report = check(
        model("g (float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}> { y = Add (x, w) }")
    )
    assert any("'w'" in key and len(value) == 64 for key, value in report.facts.items())


def test_the_page_is_current() -> None:
    """Else: python tools/profile_page.py"""
    page = runpy.run_path(str(ROOT / "tools" / "profile_page.py"))["page"]()
    assert (ROOT / "docs" / "profile.md").read_text() == page


@settings(max_examples=150)
@given(st.integers(0, 10_000), st.randoms(use_true_random=False))
def test_a_damaged_model_is_a_report_or_one_error(seed: int, random: Any) -> None:
    """Bytes are flipped, cut and doubled in the rules' own models."""
    rule = all_rules()[seed % len(all_rules())]
    data = bytearray(build(rule.bad if seed % 2 else rule.good).model)
    for _ in range(random.randint(1, 4)):
        data[random.randrange(len(data))] = random.randrange(256)
    if random.random() < 0.3:
        del data[random.randrange(len(data)) :]
    try:
        report = check(bytes(data), rule.dialect)
    except InvalidModel:
        return
    assert report.model
    assert all(f.severity in Severity for f in report.findings)
