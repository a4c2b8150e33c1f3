"""Rules about which operators there are, and with how many operands."""

from __future__ import annotations

import json
from collections import Counter

from onnx import ModelProto, helper
from onnx.defs import OpSchema

from sardonyx.checker.context import Context
from sardonyx.checker.finding import Severity
from sardonyx.checker.nodes import ALIASES, Node
from sardonyx.checker.registry import Found, Seen, at, rule
from sardonyx.checker.samples import model
from sardonyx.resolve.names import node_reads

RELU = "g (float[2] x) => (float[2] y) { y = Relu (x) }"
RANDOM = (
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
    "RandomUniformLike", "Dropout",
)  # fmt: skip
CONTROL = ("If", "Loop", "Scan", "SequenceMap")
ELSEWHERE = ("Adagrad", "Adam", "Gradient", "Momentum", "NegativeLogLikelihoodLoss",
             "SoftmaxCrossEntropyLoss", *RANDOM, *CONTROL)  # fmt: skip
# inputs that their own rules ask for, or that mean something when they are absent
TRULY_OPTIONAL = {
    "Clip": (1, 2), "Conv": (2,), "Gemm": (2,), "LSTM": range(3, 8), "Slice": (3, 4),
    "Resize": (1, 2, 3), "Split": (1,), "Pad": (3,), "DequantizeLinear": (2,),
    "QuantizeLinear": (2,),
}  # fmt: skip


@rule("G10", "as many operands as the operator has", Severity.ERROR, "graph.md [R1], T03c, [Rx]",
      "F7", good=RELU, bad="g (float[2] x) => (float[2] y) { y = Relu (x, x) }",
      blocks=True)  # fmt: skip
def arity(check: Context) -> Found:
    """A node has the operator's inputs, the optional ones too, and no more outputs than it has.

    Why: every input of a node is bound to a tensor; an omitted one is a default value (GR4).
    Example: ReduceSum without axes.
    Limits: optional outputs may be left out (meeting of 2025-10-24). Inputs that an operator's own
    rule asks for (Conv's B, Clip's bounds) are reported by that rule; the second of the ways in
    which Resize and Split are told their sizes is not asked for.
    """
    for node in check.nodes:
        if node.schema is None or node.op in ELSEWHERE:
            continue
        yield from _counts(node, node.schema)
        exempt = TRULY_OPTIONAL.get(node.op, ())
        for i, formal in enumerate(node.schema.inputs):
            optional = formal.option == OpSchema.FormalParameterOption.Optional
            if optional and i not in exempt and not node.input(i):
                yield at(node, f"no {formal.name}", f"input {i}, {formal.name}")


def _counts(node: Node, schema: OpSchema) -> Found:
    for what, found, least, most in (
        ("inputs", len(node.inputs), schema.min_input, schema.max_input),
        ("outputs", len(node.outputs), schema.min_output, schema.max_output),
    ):
        if not least <= found <= most:
            yield at(node, f"{found} {what}", f"{least} to {most}")


@rule("G12", "operators of the profile", Severity.ERROR, "graph.md [R3], REQ-OP-000", "F10, F17",
      good=RELU,
      bad="g (float[2] x) => (float[2] y) { y = Cos (x) }", blocks=True)  # fmt: skip
def operators(check: Context) -> Found:
    """Every operator is of the profile's list and has a document.

    Why: the operator's meaning is what its document says.
    Example: Cos.
    Limits: an operator that is on the list but has no document yet is a warning. Names that
    REQ-OP-000 spells otherwise than ONNX (FullyConnected, SoftPlus, ...) are taken as ONNX's.
    """
    for node in check.nodes:
        if node.domain or node.op in ELSEWHERE:
            continue
        entry = check.profile.operators.get(ALIASES.get(node.op, node.op))
        if entry is None:
            yield at(node, "not on the profile's list", "an operator of the profile")
        elif not entry.specified:
            yield at(node, "no document yet", "a specified operator", severity=Severity.WARNING)


def _branch() -> ModelProto:
    made = model("g (bool c, float[2] x) => (float[2] y) { y = Where (c, x, x) }")
    made.graph.ClearField("node")
    info = helper.make_tensor_value_info
    node = helper.make_node("Relu", ["x"], ["z"], name="relu")
    branch = helper.make_graph([node], "branch", [], [info("z", 1, [2])])
    made.graph.node.append(
        helper.make_node("If", ["c"], ["y"], name="if", then_branch=branch, else_branch=branch)
    )
    return made


@rule("G13", "no control flow", Severity.ERROR, "graph.md, control flow", good=RELU, bad=_branch,
      blocks=True)  # fmt: skip
def control(check: Context) -> Found:
    """No If, Loop, Scan or SequenceMap, and no attribute that is a graph.

    Why: the profile contains none; bounded time and memory follow from the graph alone.
    Example: If.
    Limits: none.
    """
    for node in check.nodes:
        graphs = [a.name for a in node.proto.attribute if a.HasField("g") or a.graphs]
        if node.op in CONTROL or graphs:
            yield at(node, f"graphs as attributes: {', '.join(graphs)}", "no control flow")


@rule("G14", "functional operators", Severity.ERROR, "REQ-OP-010; V2 R2", "F10", good=RELU,
      blocks=True, bad="""g (float[2] x) => (float[2] y)
      { y = Bernoulli <dtype=1, seed=1.0> (x) }""")  # fmt: skip
def functional(check: Context) -> Found:
    """No operator that draws random numbers, keeps a state, or behaves as in training.

    Why: for given inputs the execution of the graph always gives the same outputs.
    Example: Bernoulli.
    Limits: BatchNormalization's training_mode is BN.1's. Dropout is refused in any mode: in
    inference it is the identity.
    """
    for node in check.nodes:
        if node.op in RANDOM and not node.domain:
            yield at(node, "not a function of its inputs", "a functional operator")


def _ordered(*names: str) -> ModelProto:
    made = model("""g (float[2] x) => (float[2] y, float[2] z)
                    { a = Relu (x)  y = Exp (a)  z = Neg (a) }""")
    made.metadata_props.add(key="sonnx.order", value=json.dumps(names))
    return made


@rule("G16", "the stated order is one of execution", Severity.ERROR, "AI-003, REQ-FO-050",
      good=lambda: _ordered("relu_0", "neg_2", "exp_1"),
      bad=lambda: _ordered("exp_1", "relu_0", "neg_2"))  # fmt: skip
def stated_order(check: Context) -> Found:
    """The metadata sonnx.order, where it is there, lists all nodes, each after what it needs.

    Why: an order of execution may be part of the description; it must be one that is possible.
    Example: an order that has Exp before the Relu that it reads.
    Limits: the value is a JSON list of the names of the main graph's nodes.
    """
    text = next((p.value for p in check.proto.metadata_props if p.key == "sonnx.order"), None)
    if text is None:
        return
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    by_name = {node.proto.name: node for node in check.nodes}
    if not isinstance(names, list) or sorted(map(str, names)) != sorted(by_name):
        yield Seen(f"sonnx.order = {text:.80}", "a JSON list of the names of all nodes, each once")
        return
    place = {name: i for i, name in enumerate(names)}
    for node in check.nodes:
        for name in node_reads(node.proto):
            maker = check.producers.get(name)
            if maker is not None and place[maker.proto.name] > place[node.proto.name]:
                yield at(node, f"before {maker.op} '{maker.name}'", "after what it reads",
                         tensor=name)  # fmt: skip


def _many(count: int) -> ModelProto:
    names = ", ".join(["x"] * count)
    return model(f"g (float[1] x) => (float[{count}] y) {{ y = Concat <axis=0> ({names}) }}")


@rule("G17", "variadic operators are bounded", Severity.WARNING, "issue 1.7", good=lambda: _many(2),
      bad=lambda: _many(65))  # fmt: skip
def variadic(check: Context) -> Found:
    """Concat, Max, Min, Mean and Sum have at most as many inputs as the profile's limit says.

    Why: operators with any number of inputs were kept, with checks of the operator's own.
    Example: Concat of 65 tensors, where the limit is 64.
    Limits: the limit is data of the profile.
    """
    limit = check.profile.limits.get("variadic", 64)
    for node in check.of("Concat", "Max", "Min", "Mean", "Sum"):
        if len(node.inputs) > limit:
            yield at(node, f"{len(node.inputs)} inputs", f"at most {limit}")


def _nameless() -> ModelProto:
    made = model(RELU)
    made.graph.node[0].name = ""
    return made


@rule("G18", "nodes have names", Severity.WARNING, "AI-004", "F15", good=RELU,
      bad=_nameless)  # fmt: skip
def names(check: Context) -> Found:
    """Every node has a name that no other node has.

    Why: traces, reports and generated code refer to nodes by name.
    Example: a node whose name is empty.
    Limits: none.
    """
    counts = Counter(node.proto.name for node in check.nodes)
    for node in check.nodes:
        if not node.proto.name:
            yield at(node, "no name", "a name")
        elif counts[node.proto.name] > 1:
            yield at(node, f"{counts[node.proto.name]} nodes of this name", "one")
