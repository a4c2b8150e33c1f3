"""The legalizer: each fix on a model that needs it, byte for byte harmless, and what it leaves."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from sardonyx.checker import check
from sardonyx.checker.rules.container import _function
from sardonyx.checker.samples import model
from sardonyx.cli import main
from sardonyx.errors import BuildError
from sardonyx.legalize import FIXES, Legalized, legalize
from sardonyx.legalize.verify import differences, feeds_of, run
from sardonyx.legalize.work import Work
from sardonyx.resolve import resolve
from sardonyx.resolve.shapes import unstated

DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits.onnx"


def bare(text: str, opset: int = 25) -> Callable[[], ModelProto]:
    """A model with nothing but its graph."""

    def make() -> ModelProto:
        made = model(text, opset)
        del made.metadata_props[:]
        return made

    return make


def untyped() -> ModelProto:
    made = model("g (float[2] x) => (float[2] y) { h = Relu (x)  y = Exp (h) }")
    del made.graph.value_info[:]
    return made


def lying() -> ModelProto:
    """An inner tensor of a wrong size, an output of a wrong type."""
    made = model("g (float[2] x) => (float[2] y) { h = Relu (x)  y = Exp (h) }")
    made.graph.value_info[0].type.tensor_type.shape.dim[0].dim_value = 3
    made.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    return made


def lying_within() -> ModelProto:
    """A branch of an If that states a wrong size of what it gives."""
    branch = "b () => (float[%d] v) { v = Relu (x) }"
    branches = f"then_branch = {branch % 3}, else_branch = {branch % 2}"
    return model(f"g (float[2] x, bool c) => (float[2] y) {{ y = If (c) <{branches}> }}")


def early() -> ModelProto:
    """IR version 3, where every initializer is an input."""
    text = "g (float[2] x, float[2] w) => (float[2] y) { y = Add (x, w) }"
    made = model(text, 8)
    made.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    made.ir_version = 3
    return made


def lstm() -> ModelProto:
    made = model("g (float[3,1,2] x) => (float[3,1,1,4] y) { y = LSTM <hidden_size=4> (x) }", 22)
    source = np.random.default_rng(1)
    for name, shape in (("w", (1, 16, 2)), ("r", (1, 16, 4))):
        value = source.standard_normal(shape).astype(np.float32)
        made.graph.initializer.append(numpy_helper.from_array(value, name))
    made.graph.node[0].input.extend(["w", "r"])
    return made


def sparse_constant() -> ModelProto:
    made = model("g (float[3] x) => (float[3] y) { c = Constant <value_int=1> ()  y = Add (x, c) }")
    values = numpy_helper.from_array(np.array([1.5], np.float32), "v")
    indices = numpy_helper.from_array(np.array([1], np.int64), "i")
    node = made.graph.node[0]
    del made.graph.value_info[:]
    del node.attribute[:]
    sparse = helper.make_sparse_tensor(values, indices, [3])
    node.attribute.append(helper.make_attribute("sparse_value", sparse))
    return made


def initializer_as_output() -> ModelProto:
    made = model("g (float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}> { y = Add (x, w) }")
    made.graph.output.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [2]))
    return made


CONV = "g (float[1,2,5,5] x, float[3,2,3,3] w) => (float[1,3,%s] y) { y = Conv %s (x, w) }"


@dataclass(frozen=True)
class Case:
    """A model, the function of the fix that mends it, and the rule that it no longer breaks."""

    fix: str
    made: Callable[[], ModelProto]
    rule: str
    dims: dict[str, int] | None = None
    strict: bool = False


CASES = [
    Case("attributes",
         bare("g (float[2,3] x) => (float[2,3] y) { y = LeakyRelu (x) }"), "LeakyRelu.1"),
    Case("attributes", bare("g (float[2,3] x) => (float[3,2] y) { y = Transpose (x) }"), "A01"),
    Case("attributes", bare("g (float[2,3] x) => (int64[2] y) { y = Shape (x) }"), "Shape.1"),
    Case("attributes", bare(CONV % ("3,3", "")), "Conv.4"),
    Case("freeze", bare("g (float[N,3] x) => (float[N,3] y) { h = Relu (x)  y = Exp (h) }"), "T04",
         {"N": 2}),
    Case("contradictions", lying, "T05"),
    Case("contradictions", lying_within, ""),
    Case("state_types", untyped, "T02"),
    Case("functions", _function, "M05"),
    Case("broadcasts", bare("g (float[2,3] x, float[3] z) => (float[2,3] y) { y = Sub (z, x) }"),
         "EW.1"),
    Case("broadcasts", bare("g (float[2,3] x) => (float[2,3] y) <float[1] w = {3.0}> "
                            "{ y = Div (x, w) }"), "EW.1"),
    Case("broadcasts", bare("g (bool[3] c, float[2,3] x, float z) => (float[2,3] y) "
                            "{ y = Where (c, x, z) }"), "EW.1"),
    Case("gemm_broadcast", bare("g (float[2,3] a, float[3,4] b, float[4] c) => (float[2,4] y) "
                                "{ y = Gemm (a, b, c) }"), "Gemm.3"),
    Case("casts", bare("g (float[2] x) => (float[2] y) <int32[2] n = {2, 3}> { y = Pow (x, n) }"),
         "T06"),
    Case("casts", bare("g (float[2] x, int16[2] n) => (float[2] y) { y = Pow (x, n) }"), "T06"),
    Case("auto_pad", bare(CONV % ("3,3", '<auto_pad="SAME_UPPER", strides=[2,2]>')), "Conv.2"),
    Case("auto_pad", bare(CONV % ("5,5", '<auto_pad="SAME_LOWER", kernel_shape=[3,3]>')), "Conv.2"),
    Case("auto_pad", bare('g (float[1,1,5,5] x) => (float[1,1,2,2] y) '
                          '{ y = MaxPool <auto_pad="VALID", kernel_shape=[3,3], '
                          'strides=[2,2]> (x) }'),
         "MaxPool.3"),
    Case("conv_bias", bare(CONV % ("3,3", "")), "Conv.5"),
    Case("gemm_c", bare("g (float[2,3] a, float[3,4] b) => (float[2,4] y) "
                        "{ y = Gemm <alpha=0.5> (a, b) }"), "Gemm.4"),
    Case("clip_bounds",
         bare("g (float[4] x) => (float[4] y) <float l = {-0.5}> { y = Clip (x, l) }"),
         "Clip.1"),
    Case("clip_bounds", bare("g (int8[4] x) => (int8[4] y) { y = Clip (x) }"), "Clip.1"),
    Case("slice_axes",
         bare("g (float[4,5] x) => (float[4,2] y) <int64[1] s = {-3}, int64[1] e = {99},"
                            " int64[1] a = {-1}, int64[1] p = {2}> { y = Slice (x, s, e, a, p) }"),
         "Slice.1"),
    Case("slice_axes",
         bare("g (float[4,5] x) => (float[4,5] y) <int64[1] s = {-1}, int64[1] e = {-99},"
                            " int64[1] a = {1}, int64[1] p = {-1}> { y = Slice (x, s, e, a, p) }"),
         "Slice.1"),
    Case("lstm_inputs", lstm, "LSTM.1"),
    Case("negative_axes",
         bare("g (float[2,3] x) => (float[2,6] y) { y = Concat <axis=-1> (x, x) }"),
         "Concat.1"),
    Case("negative_axes",
         bare("g (float[2,3] x) => (float[2,3] y) { y = Softmax (x) }"), "Softmax.1"),
    Case("versions", bare("g (float[2] x) => (float[1,2] y) { y = Unsqueeze <axes=[0]> (x) }", 11),
         "M04"),
    Case("identities",
         bare("g (float[2] x) => (float[2] y) { h = Identity (x)  y = Relu (h) }"), "G12"),
    Case("identities",
         bare("g (float[2] x) => (float[2] y) { h = Dropout (x)  y = Relu (h) }"), "G14"),
    Case("fold", bare("g (float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}> "
                      "{ v = Neg (w)  u = Exp (v)  y = Add (x, u) }"), "G15"),
    Case("fold",
         bare("g (float[2,3] x) => (float[6] y) { s = Size (x)  n = Constant <value_ints=[1]> ()"
                      "  t = Reshape (s, n)  y = Reshape (x, t) }"), "G12"),
    Case("unused", bare("g (float[2] x, float[2] z) => (float[2] y) "
                        "{ y = Relu (x)  d = Exp (x)  e = Neg (d) }"), "G08"),
    Case("unused", bare("g (float[1,1,4,4] x) => (float[1,1,3,3] y) "
                        "{ y, i = MaxPool <kernel_shape=[2,2]> (x) }"), "G09"),
    Case("matmul",
         bare("g (float[2,3,4] x, float[4,5] w) => (float[2,3,5] y) { y = MatMul (x, w) }"),
         "MatMul.1"),
    Case("matmul", bare("g (float[1,3,4] x, float[1,1,4,5] w) => (float[1,1,3,5] y) "
                        "{ y = MatMul (x, w) }"), "MatMul.1"),
    Case("gemm", bare("g (float[2,3] a) => (float[2,1] y) <float[1,3] b = {1.0, 2.0, 3.0}, "
                      "float[2,1] c = {0.5, 0.25}> { y = Gemm <transB=1> (a, b, c) }"), "Gemm.2"),
    Case("gemm", bare("g (float[3,2] a, float[3,4] b, float[2,4] c) => (float[2,4] y) "
                      "{ y = Gemm <alpha=0.3, beta=1.7, transA=1> (a, b, c) }"),
         "Gemm.2", None, True),
    Case("constant_form", bare("g (float[2] x) => (float[2] y) "
                               "{ c = Constant <value_floats=[1.0, 2.0]> ()  y = Add (x, c) }"),
         "A03"),
    Case("constant_form", sparse_constant, "A03"),
    Case("outputs", initializer_as_output, "G06"),
    Case("early_inputs", early, "G01"),
    Case("sums", bare("g (float[2] a, float[2] b, float[2] c) => (float[2] y) "
                      "{ y = Sum (a, b, c) }"), "G12"),
    Case("stored_order",
         bare("g (float[2] x) => (float[2] y) { y = Exp (h)  h = Relu (x) }"), "G05"),
    Case("node_names", bare("g (float[2] x) => (float[2] y) { [n] h = Relu (x)  [n] y = Exp (h) }"),
         "G18"),
    Case("metadata", bare("g (float[2] x) => (float[2] y) { y = Relu (x) }"), "M10"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.fix}-{c.rule}")
def test_a_fix_mends_its_rule_and_keeps_every_byte(case: Case) -> None:
    before = case.made()
    broken = {f.rule for f in check(before, strict_tbc=case.strict).findings}
    assert not case.rule or case.rule in broken
    done = legalize(before, dims=case.dims, strict_tbc=case.strict)
    change = next(c for c in done.changes if c.name == case.fix)
    assert change.equal, change
    assert not done.undone
    assert case.rule not in {f.rule for f in done.report.findings}
    assert same(before, done)


def same(before: ModelProto, done: Legalized) -> bool:
    """Whether the model and its legalized form give the same bytes on further inputs."""
    after = resolve(done.model)
    sets = feeds_of(after, seed=7, random=3)
    old = resolve(unstated(before))
    wide = [{**{n: f[n] for n in f}, **missing(old, f)} for f in sets]
    return not list(differences(run(old, wide), run(after, sets)))


def missing(graph: object, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Zeros for the inputs that the legalizer dropped."""
    types = graph.types
    names = [n for n in graph.inputs if n not in feeds]
    return {n: np.zeros(types[n].shape, types[n].dtype.numpy) for n in names}


def test_a_model_of_strings_is_tried_too() -> None:
    made = model("g (string[3] x) => (string[3] y) { a = Identity (x)  y = Identity (a) }")
    done = legalize(made)
    assert done.feeds
    assert done.changes
    assert all(change.equal for change in done.changes)


@pytest.mark.parametrize(
    ("node", "given"),
    [
        ("SequenceConstruct (x, x)", "seq(float[2])"),
        ("SequenceEmpty ()", "seq(float)"),
        ("Optional (x)", "optional(float[2])"),
        ("Optional <type = float[2]> ()", "optional(float[2])"),
    ],
)
def test_outputs_that_are_no_tensors_are_compared(node: str, given: str) -> None:
    text = f"g (float[2] x) => (float[2] y, {given} z) {{ y = Identity (x)  z = {node} }}"
    done = legalize(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 18]> {text}'))
    assert done.feeds
    assert done.changes
    assert all(change.equal for change in done.changes)


def test_every_fix_has_a_case() -> None:
    assert {f.__name__ for _, f in FIXES} == {c.fix for c in CASES}


def test_a_fix_that_changes_a_byte_is_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    from sardonyx.legalize import pipeline

    def wrong(work: Work):
        work.proto.graph.node[0].op_type = "Neg"
        yield "Relu became Neg"

    monkeypatch.setattr(pipeline, "FIXES", (("F0", wrong),))
    done = legalize(model("g (float[2] x) => (float[2] y) { y = Relu (x) }"))
    assert [c.name for c in done.undone] == ["wrong"]
    assert done.model.graph.node[0].op_type == "Relu"


def test_a_bias_of_positive_zeros_would_change_a_byte() -> None:
    """-1e-30 * 1e-30 rounds to -0, which + 0 makes +0."""
    made = model("g (float[1,1,1,1] x, float[1,1,1,1] w) => (float[1,1,1,1] y) { y = Conv (x, w) }")
    done = legalize(made)
    feeds = {
        "x": np.full((1, 1, 1, 1), -1e-30, np.float32),
        "w": np.full((1, 1, 1, 1), 1e-30, np.float32),
    }
    old, new = run(resolve(made), [feeds]), run(resolve(done.model), [feeds])
    assert not list(differences(old, new))
    done.model.graph.initializer[0].raw_data = b"\0" * 4
    assert list(differences(old, run(resolve(done.model), [feeds])))


def test_the_digits_become_a_model_of_the_profile(tmp_path: Path) -> None:
    out = tmp_path / "digits.onnx"
    assert main(["legalize", str(DIGITS), "-o", str(out), "--dim", "N=1", "--quiet"]) == 0
    assert main(["check", str(out)]) == 0
    assert not check(out).findings
    image = np.load(DIGITS.with_name("digit.npz"))["image"]
    feeds = [{"image": image}]
    assert not list(differences(run(resolve(DIGITS), feeds), run(resolve(out), feeds)))


def test_what_cannot_be_mended_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(model("g (float[N] x) => (float[N] y) { y = Cos (x) }"), tmp_path / "in.onnx")
    out = tmp_path / "out.onnx"
    assert main(["legalize", str(tmp_path / "in.onnx"), "-o", str(out)]) == 1
    said = capsys.readouterr().out
    assert "G12: operators of the profile: Cos 'cos_0'" in said
    assert "dim 0 is N" in said


def test_the_model_itself_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "in.onnx"
    onnx.save(model("g (float[2] x) => (float[2] y) { y = Relu (x) }"), path)
    assert main(["legalize", str(path), "-o", str(path)]) == 2


def test_external_data_is_taken_in(tmp_path: Path) -> None:
    made = model("g (float[64] x) => (float[64] y) { y = Add (x, w) }")
    weights = np.arange(64, dtype=np.float32)
    made.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    path = tmp_path / "in.onnx"
    onnx.save(made, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    done = legalize(path)
    assert done.report.conforms
    assert numpy_helper.to_array(done.model.graph.initializer[0]).tolist() == weights.tolist()


def test_a_model_that_cannot_be_run_is_mended_untried(monkeypatch: pytest.MonkeyPatch) -> None:
    from sardonyx.errors import UnsupportedModel
    from sardonyx.legalize import verify

    def refuse(*_: object) -> None:
        raise UnsupportedModel("no such operator")

    monkeypatch.setattr(verify, "make_engine", refuse)
    done = legalize(model("g (float[2,3] x) => (float[2,3] y) { y = Softmax (x) }"))
    assert done.feeds == 0
    assert {c.equal for c in done.changes} == {None}


def test_symbolic_dims_that_are_left_stay_stated() -> None:
    done = legalize(model("g (float[N] x) => (float[N] y) { h = Relu (x)  y = Exp (h) }"))
    assert {f.rule for f in done.report.violations} == {"T04"}


@pytest.mark.parametrize(
    ("sizes", "why"),
    [("N, 4", "it has N; give one of these"), ("3, 4", "all of its sizes are fixed; leave it out")],
)
def test_a_size_of_no_dim_is_refused_by_name(
    sizes: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = model(f"g (float[{sizes}] x) => (float[{sizes}] y) {{ y = Relu (x) }}")
    path, out = tmp_path / "net.onnx", tmp_path / "o.onnx"
    onnx.save(made, path)
    assert main(["legalize", str(path), "-o", str(out), "--dim", "M=3"]) == 2
    said = f"sardonyx: error: {path} has no symbolic dim 'M': {why}\n"
    assert capsys.readouterr().err == said
    assert not out.exists()


def test_a_size_of_minus_one_is_fixed_by_the_name_that_load_gives_it() -> None:
    made = model("g (float[3, 4] x) => (float[3, 4] y) { y = Relu (x) }")
    for info in (made.graph.input[0], made.graph.output[0]):
        info.type.tensor_type.shape.dim[0].dim_value = -1
    done = legalize(made, dims={"x_0": 3})
    assert done.report.conforms
    assert done.model.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 3


def test_transient_restrictions_can_be_allowed(tmp_path: Path) -> None:
    made = model("g (float[2,3,4] x, float[2,4,5] z) => (float[2,3,5] y) { y = MatMul (x, z) }")
    onnx.save(made, tmp_path / "in.onnx")
    command = ["legalize", str(tmp_path / "in.onnx"), "-o", str(tmp_path / "out.onnx"), "--quiet"]
    assert main(command) == 1
    assert main([*command, "--allow", "transient"]) == 0


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("gcc"), reason="the machine alone would take long")
def test_squeezenet_becomes_a_model_of_the_profile() -> None:
    """IR version 3, Dropout and weights that are computed; its bytes by the native engine."""
    path = Path(onnx.__file__).parent / "backend/test/data/light/light_squeezenet.onnx"
    done = legalize(path, verify="model", engine="native")
    assert not done.undone
    assert done.changes[-1].equal
    assert done.report.conforms
    assert {f.rule for f in done.report.findings} == {"G12"}  # GlobalAveragePool has no document


def test_a_compiler_that_is_not_there_is_no_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    model = """<ir_version: 10, opset_import: ["" : 21]> g (float[2] x) => (float[2] y)
        { y = Neg(x) }"""
    with pytest.raises(BuildError, match="no-such-compiler"):
        legalize(onnx.parser.parse_model(model), engine="native")
