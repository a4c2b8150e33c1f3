"""Names of inlined bodies and of subgraphs, made unique in the whole model."""

from __future__ import annotations

from dataclasses import dataclass, field

from onnx import GraphProto, ModelProto, NodeProto

from sardonyx.model.load import subgraphs


@dataclass(slots=True, eq=False)
class Names:
    """All names of tensors in a model."""

    used: set[str] = field(default_factory=set)
    _next: dict[str, int] = field(default_factory=dict)

    @staticmethod
    def of(model: ModelProto) -> Names:
        """The names in the main graph and its subgraphs."""
        found: set[str] = set()
        work = [model.graph]
        while work:
            graph = work.pop()
            for part in (graph.input, graph.output, graph.initializer, graph.value_info):
                found.update(v.name for v in part)
            found.update(s.values.name for s in graph.sparse_initializer)
            for node in graph.node:
                found.update((*node.input, *node.output))
            work += [inner for _, _, inner in subgraphs(graph.node)]
        return Names(found)

    def fresh(self, name: str) -> str:
        """`name`, or the first of name_2, name_3, ... that is not taken; it is taken then."""
        found, n = name, self._next.get(name, 2)
        while found in self.used:
            found, n = f"{name}_{n}", n + 1
        self._next[name] = n
        self.used.add(found)
        return found


def unhide(graph: GraphProto, names: Names, outer: frozenset[str] = frozenset()) -> None:
    """Gives the inputs and initializers of subgraphs that hide a tensor of the graphs around them,
    `outer` and `graph`, names of their own, in place.

    ONNX (IR, graphs) asks that node outputs alone be distinct from what is visible around.
    """
    found = [inner for _, _, inner in subgraphs(graph.node)]
    if not found:
        return
    visible = outer.union(_own(graph), *(node.output for node in graph.node))
    for inner in found:
        unhide(inner, names, visible)
        hiding = {name: names.fresh(name) for name in _own(inner) if name and name in visible}
        if hiding:
            _put(inner, hiding)


def _own(graph: GraphProto) -> list[str]:
    """The names of the inputs and initializers of a graph."""
    sparse = [s.values.name for s in graph.sparse_initializer]
    return [*dict.fromkeys(v.name for v in (*graph.input, *graph.initializer)), *sparse]


def _put(graph: GraphProto, scope: dict[str, str]) -> None:
    """Puts new names of inputs and initializers into a graph and what is in it."""
    sparse = [s.values for s in graph.sparse_initializer]
    for part in (graph.input, graph.initializer, sparse, graph.output, graph.value_info):
        for item in part:
            item.name = scope.get(item.name, item.name)
    for node in graph.node:
        node.input[:] = [scope.get(name, name) for name in node.input]
    for _, _, inner in subgraphs(graph.node):
        _put(inner, scope)


def rename_node(node: NodeProto, scope: dict[str, str], names: Names, prefix: str) -> None:
    """Puts the actual names into a body's node; what it makes gets new names in `scope`."""
    node.input[:] = [scope.get(name, name) for name in node.input]
    for _, _, graph in subgraphs([node]):
        _rename_graph(graph, dict(scope), names, prefix)
    for name in node.output:
        if name not in scope:
            scope[name] = names.fresh(f"{prefix}/{name}")
    node.output[:] = [scope[name] for name in node.output]


def _rename_graph(graph: GraphProto, scope: dict[str, str], names: Names, prefix: str) -> None:
    for name in _own(graph):
        scope[name] = names.fresh(f"{prefix}/{name}")
    sparse = [s.values for s in graph.sparse_initializer]
    for part in (graph.input, graph.initializer, sparse):
        for item in part:
            item.name = scope[item.name]
    for node in graph.node:
        rename_node(node, scope, names, prefix)
    for item in graph.output:
        item.name = scope.get(item.name, item.name)
    for item in graph.value_info:
        item.name = scope.get(item.name, item.name)
