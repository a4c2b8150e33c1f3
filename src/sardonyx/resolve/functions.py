"""Functions inlined: model-local ones and the bodies that ONNX's schemas carry.

Inlining works on a private copy of the protobuf. A node's doc_string there is the number of its
`Note`, which says where the node comes from. Names of a body are made unique in the whole model.
An operator that has a definition of our own keeps it; a model-local function wins over both.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

import onnx.defs
from onnx import FunctionProto, GraphProto, NodeProto, TypeProto
from onnx.defs import OpSchema

from sardonyx.errors import InvalidModel
from sardonyx.model.limits import Limits
from sardonyx.model.load import opsets, subgraphs
from sardonyx.ops import registry
from sardonyx.resolve.calls import bind_attributes, call_attributes, node_count
from sardonyx.resolve.operators import (
    Key,
    check_attributes,
    check_node,
    has_typed_body,
    key,
    plain_body,
    schema_of,
    typed_body,
)
from sardonyx.resolve.rename import Names, rename_node
from sardonyx.resolve.weights import Weights

Types = Mapping[str, TypeProto]


@dataclass(frozen=True, slots=True)
class Note:
    """Where a node comes from: name and place (indices from the main graph inwards), the operator
    sets its operator is looked up in, the calls it was inlined from and their number, and, once it
    is looked up, its schema."""

    name: str
    path: tuple[int, ...]
    opsets: Mapping[str, int]
    prefix: str = ""
    depth: int = 0
    schema: OpSchema | None = None

    def label(self, node: NodeProto) -> str:
        """How errors call the node."""
        return f"{node.op_type} {self.name or '#' + '.'.join(map(str, self.path))!r}"


@dataclass(slots=True, eq=False)
class Inliner:
    """Inlines the functions of one model; `deferred` says that a body must wait for types."""

    functions: Mapping[Key, FunctionProto]
    limits: Limits
    names: Names
    weights: Weights
    notes: list[Note] = field(default_factory=list)
    deferred: bool = False
    made: int = 0

    def note(self, node: NodeProto) -> Note:
        return self.notes[int(node.doc_string)]

    def annotate(self, nodes: Sequence[NodeProto], at: Note) -> None:
        """Gives each node its note, those of subgraphs included; `at` is where the nodes stand."""
        for index, node in enumerate(nodes):
            name = f"{at.prefix}/{node.name or node.op_type}" if at.prefix else node.name
            note = replace(at, name=name, path=(*at.path, index))
            node.doc_string = str(len(self.notes))
            self.notes.append(note)
            for _, _, graph in subgraphs([node]):
                self.annotate(graph.node, replace(at, path=note.path))

    def expand(self, graph: GraphProto, types: Scope | None = None, depth: int = 0) -> None:
        """Inlines all calls in a graph. Without types, bodies that depend on them are deferred."""
        self.limits.check("nesting", depth, "the depth of subgraphs after inlining")
        pending = deque(graph.node)
        done: list[NodeProto] = []
        while pending:
            node = pending.popleft()
            body = self._body(node, types)
            if body is not None:
                pending.extendleft(reversed(body))
                continue
            for _, name, inner in subgraphs([node]):
                self.expand(inner, types and types.inner(node, name), depth + 1)
            done.append(node)
        del graph.node[:]
        graph.node.extend(done)

    def _body(self, node: NodeProto, types: Scope | None) -> list[NodeProto] | None:
        """The nodes that stand for a call, or None if the node stays an operation."""
        note = self.note(node)
        what = note.label(node)
        local = self.functions.get(key(node))
        if local is not None:
            check_attributes(node, what)
            imports = opsets(local.opset_import, f"function {local.name}")
            return self._instantiate(node, local, imports)
        if note.schema is None:
            schema = schema_of(node, note.opsets, what)
            check_node(node, schema, what)
            refs = [a.name for a in node.attribute if a.ref_attr_name]
            if refs:
                raise InvalidModel(f"{what}: its attribute {refs[0]!r} refers to no function's")
            note = self.notes[int(node.doc_string)] = replace(note, schema=schema)
        function = self._schema_body(node, note, types)
        if function is None:
            return None
        stated = opsets(function.opset_import, f"the body of {node.op_type}")
        return self._instantiate(node, function, {**note.opsets, **stated})

    def _schema_body(
        self, node: NodeProto, note: Note, types: Scope | None
    ) -> FunctionProto | None:
        """The body that the operator's schema carries, where we have no definition of our own."""
        schema = note.schema
        if schema is None or registry.find(schema.domain, schema.name, schema.since_version):
            return None
        version = note.opsets[schema.domain]
        plain = plain_body(schema, version)
        if plain is not None:
            return self.weights.take_function(plain)
        if not has_typed_body(schema, version):
            return None
        if types is None:
            self.deferred = True
            return None
        if any(name and name not in types.types for name in node.input):
            return None
        given = [types.types.get(name, TypeProto()) for name in node.input]
        typed = typed_body(node, schema, version, given)
        return typed and self.weights.take_function(typed)

    def _instantiate(
        self, call: NodeProto, function: FunctionProto, imports: Mapping[str, int]
    ) -> list[NodeProto]:
        """The body's nodes with the call's names and attributes put in."""
        note = self.note(call)
        what = note.label(call)
        if len(call.input) > len(function.input) or len(call.output) > len(function.output):
            raise InvalidModel(
                f"{what} has {len(call.input)} inputs and {len(call.output)} outputs; its "
                f"function takes {len(function.input)} and gives {len(function.output)}"
            )
        self.limits.check("call_depth", note.depth + 1, f"the depth of calls at {what}")
        self.made += node_count(function.node)
        self.limits.check("inlined_nodes", self.made, "the number of nodes after inlining")
        prefix = note.name or f"{call.op_type}_{'_'.join(map(str, note.path))}"
        at = Note("", note.path, imports, prefix, note.depth + 1)
        names, tail = self._bind(call, function)
        attributes = call_attributes(call, function, what)
        body = [NodeProto.FromString(n.SerializeToString()) for n in function.node]
        for node in body:
            rename_node(node, names, self.names, prefix)
            bind_attributes(node, attributes, what)  # a graph that is handed over reads the call's
        body += tail
        self.annotate(body, at)
        return body

    def _bind(
        self, call: NodeProto, function: FunctionProto
    ) -> tuple[dict[str, str], list[NodeProto]]:
        """The formal names' actual ones, and Identity nodes for outputs that no body node makes."""
        names = {"": ""}
        for formal, actual in zip_longest(function.input, call.input, fillvalue=""):
            names[formal] = actual
        tail = []
        for formal, actual in zip_longest(function.output, call.output, fillvalue=""):
            if actual and formal in names:
                tail.append(NodeProto(op_type="Identity", input=[names[formal]], output=[actual]))
            elif actual:
                names[formal] = actual
        return names, tail


@dataclass(frozen=True, slots=True)
class Scope:
    """What ONNX's inference found: the types visible in a graph, and its nodes by note number."""

    types: Types
    nodes: Mapping[str, NodeProto]

    @staticmethod
    def of(graph: GraphProto, outer: Types | None = None) -> Scope:
        types = dict(outer or {})
        for info in (*graph.input, *graph.value_info, *graph.output):
            if info.HasField("type"):
                types[info.name] = info.type
        for tensor in graph.initializer:
            if tensor.name not in types:
                types[tensor.name] = onnx.helper.make_tensor_type_proto(
                    tensor.data_type, tensor.dims
                )
        return Scope(types, {node.doc_string: node for node in graph.node})

    def inner(self, node: NodeProto, name: str) -> Scope | None:
        """The scope of the subgraph that is the attribute `name` of a node."""
        twin = self.nodes.get(node.doc_string)
        for _, attribute, graph in subgraphs([twin] if twin is not None else []):
            if attribute == name:
                return Scope.of(graph, self.types)
        return None
