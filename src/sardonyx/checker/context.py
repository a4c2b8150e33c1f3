"""What a rule may look at: the file as it is, and, where it can be resolved, the graph G."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

from onnx import ModelProto, TensorProto, TypeProto, ValueInfoProto

from sardonyx import types as t
from sardonyx.checker.interval import Interval, intervals, whole
from sardonyx.checker.nodes import Node, nodes_of
from sardonyx.checker.profile import Profile
from sardonyx.errors import SardonyxError
from sardonyx.graph import Graph
from sardonyx.model import Model
from sardonyx.types import Array, TensorType

OVERRIDE_IR = 4


@dataclass(eq=False)
class Context:
    """A model under check.

    model: as the file has it. proto: the same with model-local functions inlined. graph: G, None
    where the model cannot be resolved; `refusal` says why. source: the file's bytes, if it is one.
    ranges: of graph inputs, as the user declares them. batch: whether the first dim of graph
    inputs and outputs may be symbolic. strict_tbc: whether what is "to be confirmed" is an error.
    """

    model: Model
    proto: ModelProto
    profile: Profile
    graph: Graph | None = None
    refusal: str = ""
    source: bytes | None = None
    ranges: Mapping[str, Interval] = field(default_factory=dict)
    batch: bool = False
    strict_tbc: bool = False

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes of the main graph, as the file has them."""
        return tuple(nodes_of(self.proto))

    def of(self, *operators: str) -> Iterator[Node]:
        """The nodes of these operators of ai.onnx."""
        return (n for n in self.nodes if n.op in operators and not n.domain)

    @cached_property
    def inputs(self) -> Mapping[str, ValueInfoProto]:
        return {v.name: v for v in self.proto.graph.input}

    @cached_property
    def outputs(self) -> Mapping[str, ValueInfoProto]:
        return {v.name: v for v in self.proto.graph.output}

    @cached_property
    def initializers(self) -> frozenset[str]:
        graph = self.proto.graph
        sparse = (s.values.name for s in graph.sparse_initializer)
        return frozenset({t.name for t in graph.initializer} | set(sparse))

    @cached_property
    def producers(self) -> Mapping[str, Node]:
        """tensor -> the first node that makes it."""
        found: dict[str, Node] = {}
        for node in self.nodes:
            for name in filter(None, node.outputs):
                found.setdefault(name, node)
        return found

    @cached_property
    def consumers(self) -> Mapping[str, list[Node]]:
        """tensor -> the nodes that read it; captures of subgraphs included."""
        from sardonyx.resolve.names import node_reads

        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in node_reads(node.proto):
                found.setdefault(name, []).append(node)
        return found

    @cached_property
    def declared(self) -> Mapping[str, TypeProto]:
        """tensor -> the type that the file states."""
        graph = self.proto.graph
        found = {v.name: v.type for v in (*graph.input, *graph.output, *graph.value_info)}
        return {name: kind for name, kind in found.items() if kind.WhichOneof("value")}

    @cached_property
    def _stated(self) -> dict[str, TensorType]:
        found = {}
        for name, kind in self.declared.items():
            dtype = t.by_onnx(kind.tensor_type.elem_type)
            if dtype is not None and kind.tensor_type.HasField("shape"):
                dims = kind.tensor_type.shape.dim
                shape = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in dims)
                if min(shape, default=0) >= 0:
                    found[name] = TensorType(dtype, shape)
        for tensor in self.proto.graph.initializer:
            dtype = t.by_onnx(tensor.data_type)
            if dtype is not None:
                found[tensor.name] = TensorType(dtype, tuple(tensor.dims))
        return found

    def type(self, name: str) -> TensorType | None:
        """The type of a tensor: what G says, else what the file states."""
        found = self.graph.types.get(name) if self.graph is not None else None
        return found if found is not None else self._stated.get(name)

    def element(self, name: str) -> str:
        """The name of a tensor's element type, "" where it is not known."""
        kind = self.declared.get(name)
        if kind is not None and kind.HasField("tensor_type") and kind.tensor_type.elem_type == 8:
            return "string"
        found = self.type(name)
        return "" if found is None else found.dtype.name

    def stated_element(self, name: str) -> str:
        """The name of the element type that the file states, or that an initializer has."""
        found = self._stated.get(name)
        return "" if found is None else found.dtype.name

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a tensor where all of it is known."""
        found = self.type(name) if name else None
        if found is None or found.shape is None:
            return None
        numbers = tuple(d for d in found.shape if isinstance(d, int))
        return numbers if len(numbers) == len(found.shape) else None

    def rank(self, name: str) -> int | None:
        """The rank of a tensor where it is known."""
        found = self.type(name) if name else None
        return None if found is None or found.shape is None else len(found.shape)

    @cached_property
    def constants(self) -> Mapping[str, Array]:
        """tensor -> its value, where the value is the same in every run."""
        found: dict[str, Array] = {}
        if self.graph is not None:
            found.update({n: v for n, v in self.graph.values.items() if v.dtype != object})
            fixed = self.graph.initializers.items()
            found.update({n: v for n, v in fixed if n not in self.graph.overridable})
            fed = {*self.graph.inputs, *self.graph.overridable}
            found = {n: v for n, v in found.items() if n not in fed}
        else:
            found.update(self._decoded())
        decoder = self.model.decoder()
        for node in self.of("Constant"):
            tensor = node.given.get("value")
            if isinstance(tensor, TensorProto) and node.output() not in found:
                with suppress(SardonyxError):
                    found[node.output()] = decoder.tensor(tensor, node.output())
        return found

    def _decoded(self) -> Iterator[tuple[str, Array]]:
        """The initializers that can be decoded, where there is no G."""
        decoder = self.model.decoder()
        for tensor in self.proto.graph.initializer:
            if tensor.name not in self.inputs:
                with suppress(SardonyxError):
                    yield tensor.name, decoder.tensor(tensor, tensor.name)

    def constant(self, name: str) -> Array | None:
        """The value of a tensor that no input reaches."""
        return self.constants.get(name)

    @cached_property
    def _intervals(self) -> dict[str, Interval]:
        if self.graph is None:
            return {}
        try:
            return intervals(self.graph, self.ranges, self.constants)
        except (SardonyxError, ArithmeticError, IndexError, ValueError):
            return {}

    def interval(self, name: str) -> Interval:
        """Between which numbers the elements of a tensor lie in every run."""
        if name in self._intervals:
            return self._intervals[name]
        found = self.type(name)
        return whole(t.float32 if found is None else found.dtype)
