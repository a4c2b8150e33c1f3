"""Every tensor of a model decoded once, and its bytes taken out of the protobuf.

In the private copy that resolve works on, a tensor's doc_string becomes its number in `arrays`.
Large ones lose their data there, so that copying nodes and ONNX's inference stay cheap; sparse
initializers and sparse constants become dense.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from onnx import AttributeProto as A
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from sardonyx.model.load import subgraphs
from sardonyx.model.tensors import TYPED, Decoder
from sardonyx.resolve.names import label
from sardonyx.types import Array

LARGE = 8192


@dataclass(slots=True, eq=False)
class Weights:
    """The tensors of one model."""

    decoder: Decoder
    arrays: list[Array] = field(default_factory=list)

    def of(self, tensor: TensorProto) -> Array:
        """The value of a tensor that was taken."""
        return self.arrays[int(tensor.doc_string)]

    def take_function(self, function: FunctionProto) -> FunctionProto:
        """Takes every tensor of a function; the function itself is returned."""
        defaults = NodeProto(name=function.name, attribute=function.attribute_proto)
        self._take_all([defaults], [])
        del function.attribute_proto[:]
        function.attribute_proto.extend(defaults.attribute)
        self._take_all(function.node, [])
        return function

    def take_model(self, model: ModelProto) -> None:
        """Takes every tensor of the model; raises as `Decoder.tensor` does."""
        work: list[tuple[str, GraphProto]] = [("the main graph", model.graph)]
        for function in model.functions:
            self.take_function(function)
        self._take_all([], work)

    def _take_all(self, nodes: Sequence[NodeProto], work: list[tuple[str, GraphProto]]) -> None:
        self._take_nodes(nodes, work)
        while work:
            where, graph = work.pop()
            for tensor in graph.initializer:
                self._take(tensor, f"initializer {tensor.name!r} of {where}")
            for sparse in graph.sparse_initializer:
                name = sparse.values.name
                dense = self.decoder.sparse(sparse, f"sparse initializer {name!r} of {where}")
                tensor = graph.initializer.add(name=name, data_type=sparse.values.data_type)
                self._store(tensor, dense)
            del graph.sparse_initializer[:]
            self._take_nodes(graph.node, work)

    def _take_nodes(self, nodes: Sequence[NodeProto], work: list[tuple[str, GraphProto]]) -> None:
        for index, node in enumerate(nodes):
            for attribute in node.attribute:
                self._take_attribute(node, attribute, f"{attribute.name} of {label(node, index)}")
            work += [(f"{name} of {n.op_type} {n.name!r}", g) for n, name, g in subgraphs([node])]

    def _take_attribute(self, node: NodeProto, attribute: A, what: str) -> None:
        if node.op_type == "Constant" and attribute.HasField("sparse_tensor"):
            kind = attribute.sparse_tensor.values.data_type
            dense = self.decoder.sparse(attribute.sparse_tensor, f"attribute {what}")
            attribute.ClearField("sparse_tensor")
            attribute.name, attribute.type, attribute.t.data_type = "value", A.TENSOR, kind
            self._store(attribute.t, dense)
        elif attribute.HasField("t"):
            self._take(attribute.t, f"attribute {what}", node.op_type == "Constant")
        for tensor in attribute.tensors:
            self._take(tensor, f"attribute {what}", lighten=False)

    def _take(self, tensor: TensorProto, what: str, lighten: bool = True) -> None:
        """Decodes a tensor in place; without `lighten` it keeps its data whatever its size."""
        self._store(tensor, self.decoder.tensor(tensor, what), lighten)

    def _store(self, tensor: TensorProto, array: Array, lighten: bool = True) -> None:
        tensor.doc_string = str(len(self.arrays))
        self.arrays.append(array)
        external = tensor.data_location == TensorProto.EXTERNAL
        stored = not external and list(tensor.dims) == list(array.shape)
        if array.nbytes > LARGE and lighten:
            for name in (*TYPED, "raw_data", "external_data", "data_location"):
                tensor.ClearField(name)
            tensor.ClearField("dims")
            tensor.dims.extend(array.shape)
        elif not stored:
            name, number = tensor.name, tensor.doc_string
            tensor.CopyFrom(numpy_helper.from_array(array))
            tensor.name, tensor.doc_string = name, number


def is_light(tensor: TensorProto) -> bool:
    """Whether the data of a taken tensor was large and is no longer there."""
    return not any(len(getattr(tensor, name)) for name in (*TYPED, "raw_data")) and 0 not in (
        *tensor.dims,
    )
