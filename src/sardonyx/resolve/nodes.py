"""A graph built from nodes in Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Union

import onnx
from onnx import FunctionProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, numpy_helper

from sardonyx.dims import str_dim
from sardonyx.errors import InvalidModel
from sardonyx.graph import Graph
from sardonyx.model import Limits
from sardonyx.resolve.boundary import boundary
from sardonyx.resolve.names import order
from sardonyx.resolve.pipeline import resolve
from sardonyx.settings import Numerics, Reading
from sardonyx.types import Array, TensorType

Value = Union[str, ValueInfoProto]
IR_VERSION = 10


def graph_from_nodes(
    nodes: Iterable[NodeProto],
    initializers: Mapping[str, Array] | Iterable[TensorProto] = (),
    *,
    inputs: Sequence[Value] | None = None,
    outputs: Sequence[Value] | None = None,
    types: Mapping[str, TensorType] | None = None,
    opsets: Mapping[str, int] | None = None,
    functions: Iterable[FunctionProto] = (),
    ir_version: int = IR_VERSION,
    name: str = "graph",
    limits: Limits | None = None,
    qdq: Reading = "integer",
    numerics: Numerics = "default",
) -> Graph:
    """The graph of these nodes, in any order.

    inputs, outputs: names, or ValueInfoProtos with their types; None finds them, as
    `boundary` says. types: of the inputs given by name, and of any other tensor. opsets: default
    is the newest ai.onnx. Raises InvalidModel as `resolve` does, and for an input without a type.
    """
    given = list(nodes)
    given = [given[i] for i in order(given)]
    tensors = _tensors(initializers)
    names = [t.name for t in tensors]
    edge = boundary(given, names, ir_version, _names(inputs), _names(outputs))
    infos = {t: _info(t, kind) for t, kind in (types or {}).items()}
    infos |= {t.name: _tensor_info(t) for t in tensors}
    infos |= {v.name: v for v in (*(inputs or ()), *(outputs or ())) if not isinstance(v, str)}
    for missing in edge.all_inputs:
        if missing not in infos:
            raise InvalidModel(f"the input {missing!r} has no type: state it in types")
    model = ModelProto(ir_version=ir_version, producer_name="sardonyx", functions=list(functions))
    for domain, version in (opsets or {"": onnx.defs.onnx_opset_version()}).items():
        model.opset_import.add(domain=domain, version=version)
    model.graph.name = name
    model.graph.node.extend(given)
    model.graph.initializer.extend(tensors)
    model.graph.input.extend(infos[n] for n in edge.all_inputs)
    model.graph.output.extend(infos.get(n, ValueInfoProto(name=n)) for n in edge.outputs)
    edges = {*edge.all_inputs, *edge.outputs, *names}
    model.graph.value_info.extend(v for n, v in infos.items() if n not in edges)
    return resolve(model, limits, qdq=qdq, numerics=numerics)


def _names(values: Sequence[Value] | None) -> list[str] | None:
    return None if values is None else [v if isinstance(v, str) else v.name for v in values]


def _tensors(given: Mapping[str, Array] | Iterable[TensorProto]) -> list[TensorProto]:
    if isinstance(given, Mapping):
        return [numpy_helper.from_array(array, name) for name, array in given.items()]
    return list(given)


def _info(name: str, kind: TensorType) -> ValueInfoProto:
    shape = (
        None
        if kind.shape is None
        else [d if isinstance(d, int) else str_dim(d) for d in kind.shape]
    )
    return onnx.helper.make_tensor_value_info(name, kind.dtype.onnx, shape)


def _tensor_info(tensor: TensorProto) -> ValueInfoProto:
    return onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))
