"""The typed, frozen G out of the inlined protobuf and the types that inference found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from onnx import GraphProto, ModelProto, NodeProto

from sardonyx.graph import Graph, Operation, Origin
from sardonyx.model.limits import Limits
from sardonyx.model.load import canonical, opsets, subgraphs
from sardonyx.resolve.boundary import boundary
from sardonyx.resolve.functions import Inliner
from sardonyx.resolve.operators import value
from sardonyx.resolve.rename import Names
from sardonyx.resolve.seeds import default_seed
from sardonyx.resolve.shapes import container_type, tensor_type
from sardonyx.resolve.weights import Weights
from sardonyx.types import Array, Container, TensorType, by_numpy


@dataclass(slots=True, eq=False)
class Assembler:
    """Makes the graphs of one model; `seed` is the session's."""

    inliner: Inliner
    weights: Weights
    params: Names
    limits: Limits
    unnamed: set[str] = field(default_factory=set)
    seed: int = 0

    def main(self, model: ModelProto, inferred: GraphProto) -> Graph:
        """The main graph."""
        graph = model.graph
        initializers = self._initializers(graph)
        edge = boundary(
            graph.node,
            initializers,
            model.ir_version,
            [v.name for v in graph.input],
            [v.name for v in graph.output],
        )
        declared, containers = self._types(graph, inferred, initializers)
        return Graph(
            name=graph.name,
            inputs=edge.inputs,
            outputs=edge.outputs,
            overridable=edge.overridable,
            initializers=initializers,
            operations=self._operations(graph, inferred),
            types=declared,
            declared=declared,
            values={},
            opsets=opsets(model.opset_import, "the model"),
            metadata={p.key: p.value for p in model.metadata_props},
            unnamed=frozenset(self.unnamed),
            containers=containers,
        )

    def _inner(self, graph: GraphProto, inferred: GraphProto) -> Graph:
        """A subgraph; its initializers cannot be fed."""
        initializers = self._initializers(graph)
        declared, containers = self._types(graph, inferred, initializers)
        return Graph(
            name=graph.name,
            inputs=tuple(v.name for v in graph.input if v.name not in initializers),
            outputs=tuple(v.name for v in graph.output),
            overridable=(),
            initializers=initializers,
            operations=self._operations(graph, inferred),
            types=declared,
            declared=declared,
            values={},
            opsets={},
            containers=containers,
        )

    def _initializers(self, graph: GraphProto) -> dict[str, Array]:
        return {t.name: self.weights.of(t) for t in graph.initializer}

    def _operations(self, graph: GraphProto, inferred: GraphProto) -> tuple[Operation, ...]:
        twins = {node.doc_string: node for node in inferred.node}
        return tuple(self._operation(n, twins.get(n.doc_string)) for n in graph.node)

    def _operation(self, node: NodeProto, twin: NodeProto | None) -> Operation:
        note = self.inliner.note(node)
        assert note.schema is not None
        attributes: dict[str, Any] = {}
        for a in node.attribute:
            if not a.HasField("g") and not a.name.startswith("__"):
                attributes[a.name] = value(a, self.weights.of, note.label(node))
        typed = {name: g for _, name, g in subgraphs([twin] if twin is not None else [])}
        domain, since = canonical(node.domain), note.schema.since_version
        operator = domain, node.op_type, since
        attributes |= default_seed(operator, attributes, note.path, self.seed)
        return Operation(
            op_type=node.op_type,
            domain=domain,
            since=since,
            inputs=_trimmed(node.input),
            outputs=_trimmed(node.output),
            attributes=attributes,
            origin=Origin(note.name, note.path, frozenset(a.name for a in node.attribute)),
            subgraphs={
                name: self._inner(g, typed.get(name, g)) for _, name, g in subgraphs([node])
            },
        )

    def _types(
        self, graph: GraphProto, inferred: GraphProto, initializers: dict[str, Array]
    ) -> tuple[dict[str, TensorType], dict[str, Container]]:
        """The types of this graph's tensors, an initializer's value says its own; and of what is
        no tensor."""
        found: dict[str, TensorType] = {}
        containers: dict[str, Container] = {}
        own = {v.name for v in (*graph.input, *graph.output)} | set(initializers)
        own |= {name for node in graph.node for name in node.output}
        for info in (*inferred.input, *inferred.value_info, *inferred.output):
            if info.name in own and info.name not in found:
                arguments = (info.type, info.name, self.params, self.limits, self.unnamed)
                made = tensor_type(*arguments)
                if made is not None:
                    found[info.name] = made
                elif (container := container_type(*arguments)) is not None:
                    containers[info.name] = container
        for name, array in initializers.items():
            dtype = by_numpy(array.dtype)
            if dtype is not None:
                found[name] = TensorType(dtype, array.shape)
        return found, containers


def _trimmed(names: Sequence[str]) -> tuple[str, ...]:
    """The names without absent ones at the end."""
    kept = list(names)
    while kept and not kept[-1]:
        kept.pop()
    return tuple(kept)
