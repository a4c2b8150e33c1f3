"""Rules about the file: what it is, what it imports, what else it holds."""

from __future__ import annotations

from onnx import FunctionProto, ModelProto, helper

from sardonyx.checker.context import Context
from sardonyx.checker.finding import Severity
from sardonyx.checker.nodes import ALIASES
from sardonyx.checker.registry import Found, Seen, at, rule
from sardonyx.checker.samples import model
from sardonyx.checker.wire import has_unknown_fields
from sardonyx.model.load import canonical

RELU = "g (float[2] x) => (float[2] y) { y = Relu (x) }"
TRAINING = ("Adagrad", "Adam", "Gradient", "Momentum")
LOSSES = ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")


def _unknown_wire_data() -> ModelProto:
    made = ModelProto()
    made.ParseFromString(model(RELU).SerializeToString() + bytes([0xF8, 0x3F, 1]))
    return made


@rule("M01", "a valid ONNX model", Severity.ERROR, "REQ-FO-000", good=RELU, bad=_unknown_wire_data,
      stage="bytes")  # fmt: skip
def valid(check: Context) -> Found:
    """The file is an ONNX model that can be resolved, and holds nothing that ONNX does not define.

    Why: a SONNX model is a correct ONNX model; data that one reader ignores may be read by another.
    Example: a field number that onnx.proto does not have; an operator whose inputs do not fit.
    Limits: a model that breaks a rule which says more precisely why it cannot be resolved is
    reported by that rule alone. Bytes that are no protobuf are no model: exit code 2.
    """
    if has_unknown_fields(check.model.proto):
        yield Seen("a field that ONNX does not define", "fields of onnx.proto alone")
    if check.refusal:
        yield Seen(check.refusal, "a model that can be resolved")


def _twice() -> ModelProto:
    made = model(RELU)
    made.opset_import.append(helper.make_opsetid("", 24))
    return made


@rule("M02", "operator sets are explicit", Severity.ERROR, "REQ-FO-020 (operator_versions)",
      good=RELU, bad=_twice, stage="bytes", blocks=True)  # fmt: skip
def opsets(check: Context) -> Found:
    """opset_import has one entry per domain, the default domain among them, each at least 1.

    Why: the version of each operator follows from it and from nothing else.
    Example: two entries for ai.onnx, versions 25 and 24.
    Limits: "" and "ai.onnx" are one domain.
    """
    seen: dict[str, int] = {}
    for entry in check.model.proto.opset_import:
        domain = canonical(entry.domain)
        if domain in seen:
            yield Seen(f"versions {seen[domain]} and {entry.version} of {domain or 'ai.onnx'}",
                       "one version per domain")  # fmt: skip
        seen[domain] = entry.version
        if entry.version < 1:
            yield Seen(f"version {entry.version} of {domain or 'ai.onnx'}", "at least 1")
    if "" not in seen:
        yield Seen("no version of ai.onnx", "an entry of opset_import for it")


def _foreign() -> ModelProto:
    made = model("g (float[2] x) => (float[2] y) { y = com.example.Twice (x) }")
    made.opset_import.append(helper.make_opsetid("com.example", 1))
    return made


@rule("M03", "domains of the profile", Severity.ERROR, "REQ-OP-000", good=RELU, bad=_foreign,
      blocks=True)  # fmt: skip
def domains(check: Context) -> Found:
    """Every node is of the domain ai.onnx.

    Why: the profile's operators are all of it; what another domain means, no document says.
    Example: com.example.Twice.
    Limits: calls of model-local functions are M05's.
    """
    local = {(canonical(f.domain), f.name) for f in check.model.proto.functions}
    for node in check.nodes:
        if node.domain and (node.domain, node.op) not in local:
            yield at(node, f"the domain {node.domain}", "ai.onnx")


@rule("M04", "the operator's version is covered", Severity.WARNING, "REQ-FO-020", "F9", good=RELU,
      bad=lambda: model("""g (float[2] x) => (float[2] y)
                           <float[2] s = {1.0, 1.0}>
                           { y = Pow (x, s) }""", opset=12))  # fmt: skip
def versions(check: Context) -> Found:
    """The version that an operator resolves to is one that the profile's document covers.

    Why: a later or earlier version may mean something else; the documents are of one version.
    Example: Pow-12, where the document is of Pow-15.
    Limits: which versions have the same meaning is data of the profile.
    """
    for node in check.nodes:
        entry = check.profile.operators.get(ALIASES.get(node.op, node.op))
        if entry is None or node.domain or not entry.since or not node.since:
            continue
        if node.since not in entry.since:
            yield at(node, f"{node.op}-{node.since}", f"a version of {list(entry.since)}")


def _function() -> ModelProto:
    made = model("g (float[2] x) => (float[2] y) { y = local.Twice (x) }")
    body = [helper.make_node("Add", ["a", "a"], ["b"], name="sum")]
    imports = [helper.make_opsetid("", 25)]
    made.functions.append(helper.make_function("local", "Twice", ["a"], ["b"], body, imports))
    made.opset_import.append(helper.make_opsetid("local", 1))
    return made


@rule("M05", "no model-local functions", Severity.TRANSIENT, "graph.md, functions; issue 1.1", "F3",
      good=RELU, bad=_function, stage="bytes")  # fmt: skip
def functions(check: Context) -> Found:
    """The model defines no functions of its own.

    Why: the section on functions is preliminary; a function node is convertible to nodes.
    Example: local.Twice(x), defined as Add(x, x).
    Limits: the other rules then look at the model with its functions inlined.
    """
    for function in check.model.proto.functions:
        yield Seen(f"the function {_called(function)}", "nodes in its place")


def _called(function: FunctionProto) -> str:
    return f"{function.domain}::{function.name}"


def _with_training() -> ModelProto:
    made = model(RELU)
    made.training_info.add().initialization.name = "start"
    return made


@rule("M06", "inference only", Severity.ERROR, "REQ-OP-020 (inference_operators)", good=RELU,
      bad=_with_training, stage="bytes", blocks=True)  # fmt: skip
def inference(check: Context) -> Found:
    """The model has no training_info, and no operator of training: gradients, optimizers, losses.

    Why: the profile specifies inference.
    Example: training_info with an initialization graph.
    Limits: an operator that is found here is not reported by M03 or G12 as well.
    """
    for _ in check.model.proto.training_info:
        yield Seen("training_info", "none")
    for node in check.model.proto.graph.node:
        if node.domain == "ai.onnx.preview.training" or node.op_type in (*TRAINING, *LOSSES):
            yield Seen(f"{node.op_type}", "operators of inference", node.name, node.op_type)
