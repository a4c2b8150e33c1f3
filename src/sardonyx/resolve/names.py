"""Names of one graph: each is made once, before it is read, and ambiguity is an error.

ONNX: single assignment (of nodes also against the graphs around), nodes in topological order, ""
for an absent optional input or output. Nodes that are stored in another order, as some converters
do, are put in one here: what they compute does not depend on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from graphlib import CycleError, TopologicalSorter
from heapq import heappop, heappush

from onnx import FunctionProto, GraphProto, NodeProto

from sardonyx.errors import InvalidModel
from sardonyx.model.load import subgraphs


def label(node: NodeProto, index: int) -> str:
    """How errors call a node."""
    return f"{node.op_type or 'node'} {node.name or f'#{index}'!r}"


def check_graph(graph: GraphProto, where: str, outer: frozenset[str] = frozenset()) -> None:
    """Checks a graph and the subgraphs in it; `outer` are the names visible around it.

    The nesting limit was checked before, so the recursion is bounded.
    """
    inputs = [v.name for v in graph.input]
    made = [t.name for t in graph.initializer]
    made += [s.values.name for s in graph.sparse_initializer]
    _once(inputs, f"{where} has the input", f"{where} has an input without a name")
    _once(made, f"{where} has the initializer", f"{where} has an initializer without a name")
    if not outer:
        _once([v.name for v in graph.output], f"{where} has the output", "")
    _check_infos(graph, where)
    known = _check_nodes(graph, {*inputs, *made}, outer, where)
    for v in graph.output:
        if v.name not in known and v.name not in outer:
            raise InvalidModel(f"{where} has the output {v.name!r}, but nothing makes it")


def check_function(function: FunctionProto) -> None:
    """Checks the names in the body of a model-local function."""
    where = f"function {function.domain}::{function.name}"
    _once(list(function.input), f"{where} has the input", f"{where} has an input without a name")
    _once(list(function.output), f"{where} has the output", f"{where} has an unnamed output")
    attributes = [*function.attribute, *(a.name for a in function.attribute_proto)]
    _once(attributes, f"{where} has the attribute", f"{where} has an unnamed attribute")
    known = _check_nodes(function, set(function.input), frozenset(), where)
    for name in function.output:
        if name not in known:
            raise InvalidModel(f"{where} has the output {name!r}, but nothing makes it")


def _check_nodes(
    body: GraphProto | FunctionProto, given: set[str], outer: frozenset[str], where: str
) -> set[str]:
    """The names known after the nodes; each node reads only what is known before it, for which they
    are sorted where they must be."""
    known = set(given)
    for index, node in enumerate(body.node):
        for name in node_reads(node):
            if name not in known and name not in outer:
                if any(name in n.output for n in body.node):
                    _sort(body, index, name, where)
                    return _check_nodes(body, given, outer, where)
                if name in node.input:
                    raise InvalidModel(
                        f"{label(node, index)} in {where} reads {name!r}, "
                        "but no input, initializer or node makes it"
                    )
        for part, attribute, graph in subgraphs([node]):
            if not graph.output:
                raise InvalidModel(f"{attribute} of {label(part, index)} in {where} has no outputs")
            visible = outer | known
            check_graph(graph, f"{attribute} of {label(part, index)} in {where}", visible)
        for name in filter(None, node.output):
            if name in known or name in outer:
                raise InvalidModel(
                    f"{label(node, index)} in {where} makes {name!r}, which is made already: "
                    "every name must be made once"
                )
            known.add(name)
    return known


def _sort(body: GraphProto | FunctionProto, index: int, name: str, where: str) -> None:
    """Puts the nodes in a topological order; with none, node `index` cannot read `name`."""
    try:
        found = [body.node[i] for i in order(body.node)]
    except InvalidModel as cycle:
        reader = f"{label(body.node[index], index)} in {where} reads {name!r}"
        raise InvalidModel(f"{reader}, but {cycle}") from None
    del body.node[:]
    body.node.extend(found)


def order(nodes: Sequence[NodeProto]) -> list[int]:
    """A topological order of the nodes, as close to theirs as can be; InvalidModel on a cycle."""
    makers = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    needs = {
        i: {makers[name] for name in node_reads(node) if name in makers}
        for i, node in enumerate(nodes)
    }
    sorter = TopologicalSorter(needs)
    try:
        sorter.prepare()
    except CycleError as error:
        around = " -> ".join(label(nodes[i], i) for i in reversed(error.args[1]))
        raise InvalidModel(f"the nodes form a cycle: {around}") from None
    ready, done = list[int](), list[int]()
    while sorter.is_active():
        for i in sorter.get_ready():
            heappush(ready, i)
        done.append(heappop(ready))
        sorter.done(done[-1])
    return done


def node_reads(node: NodeProto) -> list[str]:
    """The names that a node reads: its inputs, then what its subgraphs capture."""
    found = [name for name in node.input if name]
    for _, _, graph in subgraphs([node]):
        found += graph_captures(graph)
    return list(dict.fromkeys(found))


def graph_captures(graph: GraphProto) -> list[str]:
    """The names of outer scopes that a subgraph reads."""
    own = {v.name for v in graph.input} | {t.name for t in graph.initializer}
    own |= {s.values.name for s in graph.sparse_initializer}
    own |= {name for node in graph.node for name in node.output}
    read = [name for node in graph.node for name in node_reads(node)]
    return [name for name in (*read, *(v.name for v in graph.output)) if name and name not in own]


def _check_infos(graph: GraphProto, where: str) -> None:
    """A tensor's type is stated in one way."""
    seen: dict[str, bytes] = {}
    for v in graph.value_info:
        text = v.type.SerializeToString(deterministic=True)
        if seen.setdefault(v.name, text) != text:
            raise InvalidModel(f"{where} states two types for {v.name!r} in value_info")


def _once(names: Iterable[str], what: str, unnamed: str) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise InvalidModel(f"{what} {name!r} {count} times")
        if not name and unnamed:
            raise InvalidModel(unnamed)
