"""Rules about what contributes to the graph's outputs. They look at G, before any pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx import NodeProto

from sardonyx.checker.context import Context
from sardonyx.checker.finding import Severity
from sardonyx.checker.nodes import Node
from sardonyx.checker.registry import Found, Seen, at, of, rule
from sardonyx.checker.rules.operators import RANDOM
from sardonyx.errors import InvalidModel
from sardonyx.graph import Graph, reads
from sardonyx.model.load import subgraphs
from sardonyx.resolve.calls import every_node
from sardonyx.resolve.names import node_reads, order

RELU = "g (float[2] x) => (float[2] y) { y = Relu (x) }"
PADS = 'auto_pad="NOTSET", ceil_mode=0, dilations=[1,1], pads=[0,0,0,0], storage_order=0'


@rule("G07", "graph inputs are used", Severity.ERROR, "V1 C1; V2 C2", "F10", stage="graph",
      good=RELU, bad="g (float[2] x, float[2] z) => (float[2] y) { y = Relu (x) }")  # fmt: skip
def inputs(check: Context) -> Found:
    """Every graph input feeds a node.

    Why: an input without effect is a mistake, or hides what the function depends on.
    Example: the input z, which no node reads.
    Limits: both founding texts ask for it; the present text does not say it any more.
    """
    assert check.graph is not None
    read = check.graph.consumers()
    for name in (*check.graph.inputs, *check.graph.overridable):
        if name not in read and name not in check.graph.outputs:
            yield of(name, "no node reads it", "a reader")


@rule("G08", "no dead node", Severity.ERROR, "graph.md [R2]; V1 R1", "F10", stage="graph",
      good=RELU, bad="""g (float[2] x) => (float[2] y)
                        { y = Relu (x)  a = Exp (x)  b = Sigmoid (a) }""")  # fmt: skip
def dead(check: Context) -> Found:
    """Every node contributes to a graph output.

    Why: a dead node is code without a purpose, which must not be deployed.
    Example: a = Exp(x), b = Sigmoid(a), and b is no graph output.
    Limits: a node all of whose outputs nobody reads is dead too; that some are unread is G09.
    """
    assert check.graph is not None
    live = contributing(check.graph)
    for op in check.graph.operations:
        if not live.intersection(op.outputs):
            yield Seen("reaches no graph output", "on a path to one", op.origin.name or
                       f"#{op.origin.path[0]}", op.op_type)  # fmt: skip


def contributing(graph: Graph) -> set[str]:
    """The tensors that a graph output depends on."""
    live = set(graph.outputs)
    for op in reversed(graph.operations):
        if live.intersection(op.outputs):
            live.update(reads(op))
    return live


@rule("G09", "unused outputs are omitted", Severity.WARNING, "graph.md [RX]; meeting 2025-10-24",
      "F10", good=RELU,
      bad=f"""g (float[1,1,2,2] x) => (float[1,1,1,1] y) {{
              y, i = MaxPool <{PADS}, kernel_shape=[2,2], strides=[1,1]> (x) }}""")  # fmt: skip
def unused(check: Context) -> Found:
    """A node with a used output names no output that nobody uses.

    Why: the text asks that every unread tensor be a graph output; the meeting of 2025-10-24 found
    this too strong and asks for one used output per node.
    Example: MaxPool's Indices, named and never read.
    Limits: a node without any used output is G08's.
    """
    for node in check.nodes:
        named = [n for n in node.outputs if n]
        used = [n for n in named if n in check.consumers or n in check.outputs]
        for name in named:
            if used and name not in used:
                yield at(node, "nobody reads it", "an omitted output", tensor=name)


@rule("G11", "a node has an output", Severity.ERROR, "V1 C4", good=RELU, blocks=True,
      bad='g (float[2] x) => (float[2] y) { y = Relu (x)  "" = Exp (x) }')  # fmt: skip
def some_output(check: Context) -> Found:
    """Every node names at least one output.

    Why: a node without outputs has no effect, for operators have no side effects.
    Example: a node whose only output is "".
    Limits: none.
    """
    for node in check.nodes:
        if not any(node.outputs):
            yield at(node, "no output", "at least one")


@rule("G15", "constants are Constant nodes or initializers", Severity.WARNING, "graph.md T06a",
      "F10", good=RELU, bad="""g (float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}>
                               { v = Neg (w)  y = Add (x, v) }""")  # fmt: skip
def foldable(check: Context) -> Found:
    """A node that depends on constants alone is a Constant.

    Why: its value could be written down, to the last bit; what is computed is to be verified.
    Example: Neg of an initializer.
    Limits: a node is found where each of its inputs is an initializer or made by such a node.
    """
    for node in fixed_nodes(check, check.initializers - set(check.inputs)):
        if node.op != "Constant":
            yield at(node, "only constant operands", "a Constant or an initializer")


def fixed_nodes(check: Context, known: Iterable[str]) -> Iterator[Node]:
    """The nodes that depend on `known` tensors alone, each after those that it reads."""
    protos, fixed = [node.proto for node in check.nodes], set(known)
    try:
        places = order(protos)
    except InvalidModel:  # a cycle, which is G04's: what is behind it is not found
        places = list(range(len(protos)))
    for i in places:
        if is_fixed(protos[i], fixed):
            fixed.update(protos[i].output)
            yield check.nodes[i]


def is_fixed(node: NodeProto, fixed: set[str]) -> bool:
    """Whether a node's value depends on `fixed` tensors alone: on no graph input, on no chance."""
    plain = node.op_type not in RANDOM and not any(subgraphs([node]))
    return plain and all(n in fixed for n in node.input if n)


def drawn(nodes: Iterable[NodeProto]) -> set[str]:
    """The tensors of which chance decides the elements, though no input does."""
    found: set[str] = set()
    for node in nodes:
        chance = any(inner.op_type in RANDOM for inner in every_node([node]))
        taken = node.op_type not in ("Shape", "Size") and found.intersection(node_reads(node))
        if chance or taken:
            found.update(node.output)
    return found
