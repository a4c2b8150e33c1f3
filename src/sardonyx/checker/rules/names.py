"""Rules about names, order and completeness of the graph."""

from __future__ import annotations

from collections import Counter

from onnx import ModelProto, helper, numpy_helper

from sardonyx.checker.context import OVERRIDE_IR, Context
from sardonyx.checker.finding import Severity
from sardonyx.checker.registry import Found, Seen, at, of, rule
from sardonyx.checker.samples import model
from sardonyx.errors import InvalidModel
from sardonyx.resolve.names import node_reads, order

RELU = "g (float[2] x) => (float[2] y) { y = Relu (x) }"
CHAIN = "g (float[2] x) => (float[2] y) { h = Relu (x)  y = Sigmoid (h) }"


def _overridable() -> ModelProto:
    import numpy as np

    made = model("g (float[2] x, float[2] w) => (float[2] y) { y = Add (x, w) }")
    made.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    return made


@rule("G01", "unique names", Severity.ERROR, "graph.md T02b", good=RELU, bad=_overridable,
      blocks=True)  # fmt: skip
def unique(check: Context) -> Found:
    """Inputs and initializers have names of their own.

    Why: a tensor is known by its name. An initializer that is an input too is a default value,
    which a caller may replace without being seen.
    Example: w among the inputs and among the initializers.
    Limits: before IR version 4 ONNX asks for it, and it cannot be replaced: a warning.
    """
    graph = check.proto.graph
    inputs = Counter(v.name for v in graph.input)
    made = Counter([*(t.name for t in graph.initializer),
                    *(s.values.name for s in graph.sparse_initializer)])  # fmt: skip
    for name, count in (*inputs.items(), *made.items()):
        if count > 1:
            yield of(name, f"{count} times", "once")
    late = check.proto.ir_version >= OVERRIDE_IR
    for name in sorted(set(inputs) & set(made)):
        severity = None if late else Severity.WARNING
        yield of(name, "an input and an initializer", "one of the two", severity=severity)


@rule("G02", "single assignment", Severity.ERROR, "graph.md T06e; V2 C1", blocks=True, good=CHAIN,
      bad="g (float[2] x) => (float[2] y) { y = Relu (x)  y = Sigmoid (x) }")  # fmt: skip
def single(check: Context) -> Found:
    """A tensor is made by one node, once, and is then no graph input or initializer.

    Why: a tensor that is assigned twice has two values, and the order of execution chooses.
    Example: two nodes with the output y.
    Limits: none.
    """
    fixed = {*check.inputs, *check.initializers}
    makers: dict[str, str] = {}
    for node in check.nodes:
        for name in filter(None, node.outputs):
            other = "a graph input or initializer" if name in fixed else makers.get(name)
            if other is not None:
                yield at(node, f"makes what {other} is", "a name of its own", tensor=name)
            makers.setdefault(name, f"an output of {node.op} '{node.name}'")


@rule("G03", "inputs have a source", Severity.ERROR, "graph.md T04a; V1 C5", blocks=True,
      good=CHAIN, bad="g (float[2] x) => (float[2] y) { y = Add (x, nowhere) }")  # fmt: skip
def sources(check: Context) -> Found:
    """Every input of a node is a graph input, an initializer or the output of a node.

    Why: an operator needs a value for each operand.
    Example: a node that reads `nowhere`.
    Limits: names that a subgraph captures count as the node's inputs.
    """
    known = {*check.inputs, *check.initializers, *check.producers}
    for node in check.nodes:
        for name in node_reads(node.proto):
            if name not in known:
                yield at(node, "nothing makes it", "a source", tensor=name)


@rule("G04", "acyclic", Severity.ERROR, "graph.md T01a; V1 C3", good=CHAIN, blocks=True,
      bad="""g (float[2] x) => (float[2] y) <float[2] a, float[2] b>
             { a = Add (x, b)  b = Relu (a)  y = Sigmoid (b) }""")  # fmt: skip
def acyclic(check: Context) -> Found:
    """No node needs, directly or by others, what it makes itself.

    Why: in a cycle no node is ever executable.
    Example: a = Add(x, b), b = Relu(a).
    Limits: one cycle is named, where there may be more.
    """
    cycle = order_error(check)
    if cycle:
        yield Seen(cycle, "no cycle")


def order_error(check: Context) -> str:
    try:
        order(check.proto.graph.node)
    except InvalidModel as error:
        return str(error)
    return ""


@rule("G05", "stored in topological order", Severity.ERROR, "ONNX IR", "F15", good=CHAIN,
      blocks=True, bad="g (float[2] x) => (float[2] y) <float[2] h> "
          "{ y = Sigmoid (h)  h = Relu (x) }")  # fmt: skip
def stored(check: Context) -> Found:
    """A node reads what nodes before it make.

    Why: ONNX asks for it, so that the file's order is one of execution.
    Example: y = Sigmoid(h) before h = Relu(x).
    Limits: a cycle is G04's.
    """
    if order_error(check):
        return
    for node in check.nodes:
        for name in node_reads(node.proto):
            maker = check.producers.get(name)
            if maker is not None and maker.index >= node.index:
                yield at(node, f"made by {maker.op} '{maker.name}' later", "made before",
                         tensor=name)  # fmt: skip


def _pass_through() -> ModelProto:
    made = model(RELU)
    made.graph.output.append(helper.make_tensor_value_info("x", 1, [2]))
    return made


@rule("G06", "outputs are made by nodes", Severity.ERROR, "V1 C2; V2 C3", "F14", good=RELU,
      bad=_pass_through, blocks=True)  # fmt: skip
def outputs(check: Context) -> Found:
    """There is a graph output, none twice, and a node makes each.

    Why: at the end of execution every graph output has a value that an operator gave it.
    Example: the graph input x as a graph output.
    Limits: none.
    """
    graph = check.proto.graph
    if not graph.output:
        yield Seen("no graph output", "at least one")
    for name, count in Counter(v.name for v in graph.output).items():
        if count > 1:
            yield of(name, f"a graph output {count} times", "once")
        if name not in check.producers:
            yield of(name, "no node makes it", "the output of a node")
