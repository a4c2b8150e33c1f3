"""What a session tells of its model: NodeArg and ModelMetadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sardonyx.dims import Dim, symbol, symbols
from sardonyx.graph import Graph
from sardonyx.opened import Metadata
from sardonyx.types import MapType, OptionalType, SequenceType, TensorType, ValueType


@dataclass(frozen=True, slots=True)
class NodeArg:
    """An input or output. type: as in "tensor(float)". shape: a size, the name of a symbolic dim,
    or None for each dim; [] also where the rank is not known."""

    name: str
    type: str
    shape: list[int | str | None]


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    """What the model's file says of itself."""

    custom_metadata_map: Mapping[str, str] = field(default_factory=dict)
    description: str = ""
    domain: str = ""
    graph_description: str = ""
    graph_name: str = ""
    producer_name: str = ""
    version: int = 0


def model_metadata(found: Metadata) -> ModelMetadata:
    """The seven fields that onnxruntime has."""
    return ModelMetadata(
        dict(found.custom),
        found.description,
        found.domain,
        found.graph_description,
        found.graph_name,
        found.producer_name,
        found.version,
    )


def node_arg(graph: Graph, name: str) -> NodeArg:
    """A tensor of the graph; a dim's name is the model's own where it states one."""
    found = graph.kind(name)
    if not isinstance(found, TensorType):
        return NodeArg(name, type_text(found), [])
    stated = graph.declared.get(name, found).shape or ()
    shape = found.shape or ()
    declared = stated if len(stated) == len(shape) else shape
    pairs = zip(shape, declared, strict=True)
    return NodeArg(name, type_text(found), [_dim(graph, a, b) for a, b in pairs])


def type_text(kind: ValueType | None) -> str:
    """onnxruntime's word for a type."""
    match kind:
        case TensorType(dtype):
            return f"tensor({dtype.ort})"
        case SequenceType(element):
            return f"seq({type_text(element)})"
        case OptionalType(element):
            return f"optional({type_text(element)})"
        case MapType(key, element):
            return f"map({key.ort},{type_text(element)})"
    return "unknown"


def _dim(graph: Graph, found: Dim, declared: Dim) -> int | str | None:
    if isinstance(found, int):
        return found
    for dim in (declared, found):
        names = symbols(dim)
        if len(names) == 1:
            (name,) = names
            if dim == symbol(name) and name not in graph.unnamed:
                return name
    return None
