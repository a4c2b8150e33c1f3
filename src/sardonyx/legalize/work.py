"""The model that fixes change, and what they ask of it and do to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.defs import OpSchema

from sardonyx.checker.profile import Profile
from sardonyx.errors import SardonyxError
from sardonyx.graph import Graph
from sardonyx.model.load import canonical
from sardonyx.resolve import resolve
from sardonyx.resolve.names import node_reads
from sardonyx.resolve.operators import lookup
from sardonyx.types import Array

Fix = Callable[["Work"], Iterator[str]]
"""A fix changes the work's model and says, one line each, what it changed."""


@dataclass(slots=True, eq=False)
class Work:
    """A private copy of the model; `dims`: sizes for symbolic dims; `strict`: whether restrictions
    that are to be confirmed are enforced."""

    proto: ModelProto
    profile: Profile
    dims: Mapping[str, int] = field(default_factory=dict)
    strict: bool = False
    _graph: Graph | None = None

    @property
    def graph(self) -> Graph:
        """G of the model as it now is; raises ModelError where it cannot be resolved."""
        if self._graph is None:
            self._graph = resolve(self.proto)
        return self._graph

    @property
    def refusal(self) -> str:
        """Why the model as it now is cannot be resolved, "" if it can."""
        try:
            _ = self.graph
        except SardonyxError as error:
            return str(error)
        return ""

    def forget(self) -> None:
        """To be called when the model was changed."""
        self._graph = None

    def copy(self) -> Work:
        twin = ModelProto()
        twin.CopyFrom(self.proto)
        return Work(twin, self.profile, self.dims, self.strict)

    @property
    def nodes(self) -> list[NodeProto]:
        return list(self.proto.graph.node)

    def of(self, *operators: str) -> list[NodeProto]:
        """The nodes of these operators of ai.onnx."""
        return [n for n in self.nodes if is_of(n, *operators)]

    @property
    def version(self) -> int:
        """The version of ONNX's operator set."""
        found = (o.version for o in self.proto.opset_import if not canonical(o.domain))
        return max(found, default=0)

    def schema(self, node: NodeProto) -> OpSchema | None:
        """The schema that a node resolves to."""
        versions = {canonical(o.domain): o.version for o in self.proto.opset_import}
        domain = canonical(node.domain)
        return lookup(domain, node.op_type, versions.get(domain, 0))

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a tensor where all of it is known."""
        found = self.graph.types.get(name) if name else None
        if found is None or found.shape is None:
            return None
        numbers = tuple(d for d in found.shape if isinstance(d, int))
        return numbers if len(numbers) == len(found.shape) else None

    def dtype(self, name: str) -> np.dtype[np.generic] | None:
        """The element type of a tensor, as NumPy has it."""
        found = self.graph.types.get(name)
        return None if found is None else found.dtype.numpy

    def constant(self, name: str) -> Array | None:
        """The value of a tensor that is the same in every run, where it is known."""
        graph = self.graph
        if name in graph.inputs or name in graph.overridable:
            return None
        if name in graph.initializers:
            return graph.initializers[name]
        for node in self.of("Constant"):
            value = attribute(node, "value")
            if name in node.output and value is not None:
                return numpy_helper.to_array(value.t)
        found = graph.values.get(name)
        return None if found is None or found.dtype == object else found

    def names(self) -> set[str]:
        """All names of tensors."""
        graph = self.proto.graph
        found = {v.name for v in (*graph.input, *graph.output, *graph.value_info)}
        found |= {t.name for t in graph.initializer}
        return found | {n for node in graph.node for n in (*node.input, *node.output)}

    def fresh(self, stem: str) -> str:
        """A name of a tensor that is new in the model."""
        taken = self.names()
        if stem not in taken:
            return stem
        return next(n for i in range(len(taken) + 1) if (n := f"{stem}_{i}") not in taken)

    def add_constant(self, stem: str, value: Array) -> str:
        """The name of a new initializer."""
        name = self.fresh(stem)
        self.proto.graph.initializer.append(from_array(np.array(value, order="C"), name))
        return name

    def replace_nodes(self, nodes: Iterable[NodeProto]) -> None:
        """Puts other nodes in the place of the main graph's."""
        kept = [NodeProto.FromString(n.SerializeToString()) for n in nodes]
        del self.proto.graph.node[:]
        self.proto.graph.node.extend(kept)

    def readers(self) -> dict[str, int]:
        """tensor -> how many nodes read it, graph outputs counted."""
        counts: dict[str, int] = {}
        for node in self.proto.graph.node:
            for name in node_reads(node):
                counts[name] = counts.get(name, 0) + 1
        for info in self.proto.graph.output:
            counts[info.name] = counts.get(info.name, 0) + 1
        return counts


def from_array(value: Array, name: str) -> TensorProto:
    """A TensorProto with raw data."""
    return numpy_helper.from_array(np.asarray(value), name)


def attribute(node: NodeProto, name: str) -> AttributeProto | None:
    """An attribute that is given in a node."""
    return next((a for a in node.attribute if a.name == name), None)


def given(node: NodeProto, name: str, default: object = None) -> object:
    """The value of an attribute: a number, a text (as str), a list of them."""
    found = attribute(node, name)
    if found is None:
        return default
    value = helper.get_attribute_value(found)
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def integers(node: NodeProto, name: str, default: list[int]) -> list[int]:
    """The value of an attribute that is a list of integers."""
    found = attribute(node, name)
    return default if found is None else list(found.ints)


def put(node: NodeProto, name: str, value: object) -> None:
    """Gives an attribute a value; an empty list is one of integers."""
    drop(node, name)
    kind = AttributeProto.INTS if value == [] else None
    node.attribute.append(helper.make_attribute(name, value, attr_type=kind))


def drop(node: NodeProto, name: str) -> None:
    """Takes an attribute away."""
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend(kept)


def is_of(node: NodeProto, *operators: str) -> bool:
    """Whether a node is of one of these operators of ai.onnx."""
    return node.op_type in operators and not canonical(node.domain)


def put_input(node: NodeProto, i: int, name: str) -> None:
    """Binds input i, with "" for those before it that are absent."""
    while len(node.input) <= i:
        node.input.append("")
    node.input[i] = name


def label(node: NodeProto) -> str:
    return f"{node.op_type} '{node.name or ', '.join(node.output)}'"
