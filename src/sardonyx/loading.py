"""From a model's file to its graph, as the public face wants it: with sizes fixed, with metadata.

load("net.onnx", dims={"N": 1})        the graph G
opened = open_model("net.onnx")        opened.graph, opened.metadata
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

from onnx import ModelProto, TensorShapeProto

from sardonyx.dims.given import check_given, check_named
from sardonyx.errors import InvalidModel, ModelError
from sardonyx.graph import Graph
from sardonyx.model import Limits, Model, Source
from sardonyx.model import load as load_model
from sardonyx.opened import Metadata, Opened
from sardonyx.resolve import resolve
from sardonyx.resolve.shapes import is_unknown, open_dims, unstated
from sardonyx.settings import Numerics, Reading, numerics_named


def load(
    source: Source,
    *,
    dims: Mapping[str, int] | None = None,
    limits: Limits | None = None,
    seed: int = 0,
    qdq: Reading = "integer",
    numerics: Numerics = "default",
) -> Graph:
    """The graph of a model: a path, bytes or a ModelProto. dims: sizes for symbolic dims. seed: of
    random operators that state none. qdq: "integer" reads DequantizeLinear -> operator ->
    QuantizeLinear as one integer operation where that is exact (docs/numerics.md), "float" as it is
    written. numerics: "winograd" computes 3 x 3 convolutions with fewer products, in another
    rounding, the same bits everywhere.

    Raises ModelError, and FeedError where the model has no such dim.
    """
    return open_model(source, dims=dims, limits=limits, seed=seed, qdq=qdq, numerics=numerics).graph


def open_model(
    source: Source,
    *,
    dims: Mapping[str, int] | None = None,
    denotations: Mapping[str, int] | None = None,
    limits: Limits | None = None,
    strict: bool = True,
    seed: int = 0,
    qdq: Reading = "integer",
    numerics: Numerics = "default",
) -> Opened:
    """The graph of a model and its metadata; `dims` and `denotations` (of dims) fix sizes, `seed`
    is the seed of random operators that state none, `qdq` and `numerics` are as `load` takes them.

    Raises ModelError; FeedError for an unknown dim, unless not strict, and for a size below 1 or
    beyond int64. Not strict: shapes that a model states of what its operators make, against them,
    are warned of.
    """
    numerics_named(numerics, "numerics")
    model = load_model(source, limits)
    metadata = _metadata(model.proto)
    if dims or denotations:
        model = _fixed(model, dims or {}, denotations or {}, strict)
    read = partial(resolve, seed=seed, qdq=qdq, numerics=numerics)
    doubt = ""
    try:
        graph = read(model)
    except InvalidModel as error:
        found = None if strict else _without_shapes(model, read)
        if found is None:
            raise
        graph = found
        doubt = f"{error}; the shapes that it states of what it makes are not used"
        warnings.warn(doubt, stacklevel=2)
    return Opened(graph, metadata, model.name, doubt)


def _without_shapes(model: Model, read: Callable[[Model], Graph]) -> Graph | None:
    """The graph without the shapes that the model states of what its operators make; None where
    that is not what is wrong with it."""
    try:
        return read(replace(model, proto=unstated(model.proto, shapes_only=True)))
    except ModelError:
        return None


def _metadata(proto: ModelProto) -> Metadata:
    return Metadata(
        proto.producer_name,
        proto.producer_version,
        proto.graph.name,
        proto.domain,
        proto.doc_string,
        proto.graph.doc_string,
        proto.model_version,
        proto.ir_version,
        {entry.key: entry.value for entry in proto.metadata_props},
    )


def _fixed(
    model: Model, dims: Mapping[str, int], denotations: Mapping[str, int], strict: bool
) -> Model:
    """The model with sizes in the place of symbolic dims; a nameless dim of the input x is called
    x_0, x_1, ... after its axis, as in the graph."""
    for name, size in (*dims.items(), *denotations.items()):
        check_given(f"the dim '{name}'", size)
    proto = ModelProto()
    proto.CopyFrom(model.proto)
    seen: dict[str, None] = {}
    for name, dim in _dims(proto):
        seen[name] = None
        fixed = dims.get(name, denotations.get(dim.denotation, 0))
        if fixed:
            dim.dim_value = fixed
    if strict:
        check_named(model.name, dims, seen)
    return replace(model, proto=proto)


def _dims(proto: ModelProto) -> Iterator[tuple[str, TensorShapeProto.Dimension]]:
    """The symbolic dims that the main graph states, with their names."""
    graph = proto.graph
    yield from ((name, dim) for _, _, name, dim in open_dims(graph.input))
    for info in (*graph.output, *graph.value_info):
        for dim in info.type.tensor_type.shape.dim if info.type.HasField("tensor_type") else ():
            if dim.dim_param and not is_unknown(dim):
                yield dim.dim_param, dim
