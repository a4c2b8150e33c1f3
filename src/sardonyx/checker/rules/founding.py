"""The constraints and restrictions of the founding texts, as they are worded: graph specification
V1 (nodes and edges) and V2 (tensors and operations). They make up the dialect sonnx@v2.

An initializer is read as ONNX's IR version 3 has it: a graph input whose value is fixed.
"""

from __future__ import annotations

from sardonyx.checker.context import Context
from sardonyx.checker.finding import Severity
from sardonyx.checker.registry import Found, Seen, at, of, rule
from sardonyx.checker.rules.names import order_error
from sardonyx.checker.rules.operators import RANDOM
from sardonyx.resolve.names import node_reads

E = Severity.ERROR
V2 = "sonnx@v2"
ADD = "g (float[2] x, float[2] z) => (float[2] y) { y = Add (x, z) }"
UNUSED = "g (float[2] x, float[2] z) => (float[2] y) { y = Relu (x) }"
UNMADE = "g (float[2] x) => (float[2] y, float[2] z) { y = Relu (x) }"
CYCLE = "g (float[2] x) => (float[2] y) { a = Add (x, b)  b = Relu (a)  y = Relu (x) }"
DANGLING = """g (float[2] i1, float[2] i2) => (float[2] o1, float[2] o2) {
    o1 = Add (i1, i2)  op2_out = Constant <value = float[2] {2.0, 2.0}> ()
    o2 = Mul (o1, op2_out)  op4_out = Sub (i1, i2) }"""
POOL = """g (float[1,1,2,2] x) => (float[1,1,1,1] y) { y, i = MaxPool <kernel_shape=[2,2]> (x) }"""


def _given(check: Context) -> set[str]:
    """The graph's inputs, and its initializers."""
    return {*check.inputs, *check.initializers}


def _unused(check: Context) -> list[str]:
    return [n for n in sorted(_given(check)) if n not in check.consumers]


@rule("V1.C1", "each graph input is connected", E, "graph specification V1, (C1)", "F10", good=ADD,
      bad=UNUSED, dialect=V2, implies=("V2.C2",))  # fmt: skip
def c1(check: Context) -> Found:
    """Each input of the graph is connected to one or more inputs of its nodes.

    Why: an input without effect is a mistake.
    Example: the input z, which no node reads.
    Limits: an initializer is a graph input whose value is fixed.
    """
    for name in _unused(check):
        yield of(name, "connected to no node", "an input of a node")


@rule("V1.C2", "each graph output is driven by a node", E, "graph specification V1, (C2)", "F14",
      good=ADD, bad=UNMADE, dialect=V2, blocks=True, implies=("V2.C3",))  # fmt: skip
def c2(check: Context) -> Found:
    """Each output of the graph is connected to the output of one of its nodes.

    Why: evaluating a graph's output is evaluating the output of the node it is connected to.
    Example: the output z, which no node makes.
    Limits: a graph input that is a graph output breaks it too.
    """
    for name in check.outputs:
        if name not in check.producers:
            yield of(name, "connected to no node's output", "the output of a node")


@rule("V1.C3", "a graph is acyclic", E, "graph specification V1, (C3)", good=ADD, bad=CYCLE,
      dialect=V2, blocks=True)  # fmt: skip
def c3(check: Context) -> Found:
    """A graph is acyclic.

    Why: a node can only be executed if all its input values are defined.
    Example: a = Add(x, b), b = Relu(a).
    Limits: one cycle is named. Where a graph output depends on it, V2.C3 is broken as well.
    """
    cycle = order_error(check)
    if cycle:
        yield Seen(cycle, "no cycle")


@rule("V1.C4", "a node has an output", E, "graph specification V1, (C4)", good=ADD,
      bad='g (float[2] x) => (float[2] y) { y = Relu (x)  "" = Exp (x) }', dialect=V2,
      blocks=True, implies=("V1.R1",))  # fmt: skip
def c4(check: Context) -> Found:
    """A node has zero or more inputs and at least one output.

    Why: a node without outputs does nothing that could be seen.
    Example: a node whose only output is "".
    Limits: none.
    """
    for node in check.nodes:
        if not any(node.outputs):
            yield at(node, "no output", "at least one")


@rule("V1.C5", "a node's input is connected", E, "graph specification V1, (C5)", good=ADD,
      bad="g (float[2] x) => (float[2] y) { y = Add (x, nowhere) }", dialect=V2, blocks=True,
      implies=("V2.C3",))  # fmt: skip
def c5(check: Context) -> Found:
    """A node's input is either connected to the output of another node or to an input of the graph.

    Why: edges have two ends.
    Example: a node that reads `nowhere`. The graph output y then gets no value: V2.C3.
    Limits: an input that a node leaves out ("") is no input of it. A node that reads its own output
    is a cycle: V1.C3.
    """
    for node in check.nodes:
        for name in node_reads(node.proto):
            if name not in _given(check) and name not in check.producers:
                yield at(node, "connected to nothing", "a node's output or a graph input",
                         tensor=name)  # fmt: skip


@rule("V1.C6", "a node's output is connected to inputs or graph outputs", E,
      "graph specification V1, (C6)", good=ADD, dialect=V2, blocks=True,
      bad="g (float[2] x, float[2] z) => (float[2] y) { y = Add (x, z)  x = Exp (z) }")  # fmt: skip
def c6(check: Context) -> Found:
    """A node's output is either connected to the input of another node, to an output of the graph,
    or remains unconnected.

    Why: a graph input has its value from outside.
    Example: a node that makes the graph input x.
    Limits: outputs of two nodes that are connected are V2.C1's.
    """
    for node in check.nodes:
        for name in filter(None, node.outputs):
            if name in _given(check):
                yield at(node, "connected to a graph input", "a node's input or a graph output",
                         tensor=name)  # fmt: skip


@rule("V1.R1", "no node without connected outputs", E, "graph specification V1, [R1]", "F10",
      good=ADD, bad=DANGLING, dialect=V2, implies=("V2.R1",))  # fmt: skip
def r1(check: Context) -> Found:
    """A graph shall not contain nodes with no connected outputs.

    Why: each node of the graph shall contribute to the function of the graph (no "dead node").
    Example: the illustration of the founding texts: the output of Sub is not used.
    Limits: as it is worded, a node whose output only a dead node reads is none of these.
    """
    for node in check.nodes:
        if not any(_connected(check, name) for name in node.outputs):
            yield at(node, "no output is connected", "at least one that is")


def _connected(check: Context, name: str) -> bool:
    return bool(name) and (name in check.consumers or name in check.outputs)


@rule("V2.C1", "single assignment", E, "graph specification V2, (C1)", good=ADD, dialect=V2,
      bad="g (float[2] x) => (float[2] y) { y = Relu (x)  y = Exp (x) }", blocks=True)  # fmt: skip
def single_assignment(check: Context) -> Found:
    """A tensor must appear in the output mapping of exactly one operation except for the graph
    inputs.

    Why: then the order of execution cannot change a value.
    Example: two operations with the output y.
    Limits: a tensor that no operation makes is V1.C5's or V1.C2's; one that is a graph input is
    excepted by the wording (V1.C6 has it).
    """
    makers: dict[str, str] = {}
    for node in check.nodes:
        for name in filter(None, node.outputs):
            if name in makers and name not in _given(check):
                yield at(node, f"made by {makers[name]} too", "one operation", tensor=name)
            makers.setdefault(name, f"{node.op} '{node.name}'")


@rule("V2.C2", "input usage", E, "graph specification V2, (C2)", "F10", good=ADD, bad=UNUSED,
      dialect=V2, implies=("V1.C1",))  # fmt: skip
def input_usage(check: Context) -> Found:
    """Every graph input must be used in the input mapping of at least one operation.

    Why: an input without effect is a mistake.
    Example: the input z, which no operation reads.
    Limits: an initializer is a graph input whose value is fixed.
    """
    for name in _unused(check):
        yield of(name, "used by no operation", "an input of an operation")


@rule("V2.C3", "completeness", E, "graph specification V2, (C3)", "F14", good=ADD, bad=UNMADE,
      dialect=V2, blocks=True, implies=("V1.C2",))  # fmt: skip
def completeness(check: Context) -> Found:
    """At the end of execution, all tensors designated as graph outputs must have values.

    Why: else the graph does not define its outputs.
    Example: the output z, which no operation makes.
    Limits: decided by executing every executable operation, without values, until no further
    progress is possible.
    """
    valued = _given(check)
    left = list(check.nodes)
    while ready := [n for n in left if valued.issuperset(node_reads(n.proto))]:
        left = [n for n in left if n not in ready]
        valued.update(name for node in ready for name in node.outputs if name)
    for name in check.outputs:
        if name not in valued:
            yield of(name, "no value at the end", "a value")


@rule("V2.R1", "every output is used", E, "graph specification V2, [R1]", "F10", good=ADD, bad=POOL,
      dialect=V2)  # fmt: skip
def every_output(check: Context) -> Found:
    """Each operation outputs must be used in the input mapping of at least one operation or be
    mapped to some graph output.

    Why: each operation of the graph shall contribute to the function of the graph (no "dead node").
    Example: MaxPool with Indices that nobody reads.
    Limits: stronger than V1.R1, which asks for one connected output per node. An output that the
    node leaves out ("") is no output of it.
    """
    for node in check.nodes:
        for name in filter(None, node.outputs):
            if not _connected(check, name):
                yield at(node, "used by nothing", "a reader, or a graph output", tensor=name)


@rule("V2.R2", "deterministic operators", E, "graph specification V2, [R2]", good=ADD, dialect=V2,
      bad="g (float[2] x) => (float[2] y) { y = Bernoulli <dtype=1> (x) }",
      blocks=True)  # fmt: skip
def deterministic(check: Context) -> Found:
    """A graph shall only contain deterministic operators.

    Why: for given inputs the execution of the graph always gives the same outputs.
    Example: Bernoulli.
    Limits: Dropout is deterministic in inference; it is named where it has a training_mode input.
    """
    for node in check.nodes:
        dropout = node.op == "Dropout" and not node.input(2)
        if node.op in RANDOM and not node.domain and not dropout:
            yield at(node, "not deterministic", "a deterministic operator")
