"""The stages of resolve, in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from onnx import FunctionProto, GraphProto, ModelProto, TypeProto

from sardonyx.errors import InvalidModel, ModelError
from sardonyx.graph import Graph
from sardonyx.infer import infer
from sardonyx.model import Limits, Model, Source, load
from sardonyx.model.load import canonical, opsets, subgraphs
from sardonyx.ops.ms_common import DOMAIN as CONTRIB
from sardonyx.resolve.assemble import Assembler
from sardonyx.resolve.boundary import boundary
from sardonyx.resolve.calls import check_sizes
from sardonyx.resolve.fewer import fewer_products
from sardonyx.resolve.functions import Inliner, Note, Scope
from sardonyx.resolve.islands import integer_islands
from sardonyx.resolve.names import check_function, check_graph
from sardonyx.resolve.operators import Key
from sardonyx.resolve.rename import Names, unhide
from sardonyx.resolve.shapes import check_graph_types, dim_params, infer_types, name_dims
from sardonyx.resolve.weights import Weights
from sardonyx.settings import Numerics, Reading

Result = TypeVar("Result")
MAIN = "the main graph"


def resolve(
    source: Source,
    limits: Limits | None = None,
    seed: int = 0,
    qdq: Reading = "float",
    numerics: Numerics = "default",
) -> Graph:
    """The graph of a model in a file, in bytes, in a ModelProto or in a loaded Model. `seed` is
    the session's, for random operators whose nodes state none. qdq: whether islands between
    DequantizeLinear and QuantizeLinear are read as integer operations, or as they are written.
    numerics: "winograd" takes the definition of 3 x 3 convolutions with fewer products.

    Raises InvalidModel, UnsupportedModel or LimitExceeded, naming the model and the culprit.
    """
    return _with_model(source, limits, lambda m, p: _resolve(m, p, seed, qdq, numerics))


def value_types(source: Source, limits: Limits | None = None) -> dict[str, TypeProto]:
    """The types that inference finds for the tensors of the main graph, by name.

    Raises as `resolve` does.
    """
    return _with_model(source, limits, lambda m, p: dict(Scope.of(_prepare(m, p).typed).types))


def _with_model(
    source: Source, limits: Limits | None, use: Callable[[Model, ModelProto], Result]
) -> Result:
    """What `use` makes of a model and a private copy of its protobuf; errors name the model."""
    model = load(source, limits)
    proto = model.proto
    if not model.owned or isinstance(source, Model):
        proto = ModelProto()
        proto.CopyFrom(model.proto)
    try:
        return use(model, proto)
    except ModelError as error:
        raise type(error)(f"{model.name}: {error}") from error


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A model checked, inlined and typed."""

    weights: Weights
    inliner: Inliner
    typed: GraphProto
    params: Names
    unnamed: frozenset[str]


def _resolve(model: Model, proto: ModelProto, seed: int, qdq: Reading, numerics: Numerics) -> Graph:
    ready = _prepare(model, proto)
    unnamed = set(ready.unnamed)
    assembler = Assembler(ready.inliner, ready.weights, ready.params, model.limits, unnamed, seed)
    graph = infer(assembler.main(proto, ready.typed))
    graph = integer_islands(graph) if qdq == "integer" else graph
    return fewer_products(graph) if numerics == "winograd" else graph


def _prepare(model: Model, proto: ModelProto) -> Prepared:
    """Checks, inlines and types the main graph of `proto`, in place."""
    _complete(proto)
    names = Names.of(proto)
    unhide(proto.graph, names)
    check_graph(proto.graph, MAIN)
    functions = _functions(proto)
    _check_inputs(proto)
    check_sizes(functions, proto.graph.node, model.limits)
    weights = Weights(model.decoder())
    weights.take_model(proto)
    _check_overridden(proto.graph)
    check_graph_types(proto.graph, model.limits)
    params = dim_params(proto)
    unnamed = name_dims(proto.graph, params)
    inliner = Inliner(functions, model.limits, names, weights)
    inliner.annotate(proto.graph.node, Note("", (), opsets(proto.opset_import, "the model")))
    inliner.expand(proto.graph)
    typed = infer_types(proto, inliner)
    while inliner.deferred:
        before = inliner.made
        inliner.expand(proto.graph, Scope.of(typed))
        if inliner.made == before:
            break
        typed = infer_types(proto, inliner)
    return Prepared(weights, inliner, typed, params, unnamed)


def _complete(proto: ModelProto) -> None:
    """Imports the contributed operators if they are used, and finds the inputs or outputs of a
    graph that declares none, as far as types are stated."""
    graph = proto.graph
    if all(o.domain != CONTRIB for o in proto.opset_import) and _uses(graph, CONTRIB):
        proto.opset_import.add(domain=CONTRIB, version=1)  # the only one, as for ONNX Runtime
    if graph.input and graph.output:
        return
    stated = {v.name: v for v in graph.value_info}
    initializers = {t.name for t in graph.initializer}
    initializers |= {s.values.name for s in graph.sparse_initializer}
    edge = boundary(graph.node, initializers, proto.ir_version)
    if not graph.input:
        graph.input.extend(stated[n] for n in edge.all_inputs if n in stated)
    if not graph.output:
        for name in edge.outputs:
            graph.output.add().CopyFrom(stated[name]) if name in stated else graph.output.add(
                name=name
            )


def _uses(graph: GraphProto, domain: str) -> bool:
    """Whether a node is of the domain, in the graph or a subgraph; their depth was checked."""
    inner = (_uses(g, domain) for _, _, g in subgraphs(graph.node))
    return any(n.domain == domain for n in graph.node) or any(inner)


def _functions(proto: ModelProto) -> dict[Key, FunctionProto]:
    """The model-local functions by (domain, name, overload), each checked."""
    found: dict[Key, FunctionProto] = {}
    for function in proto.functions:
        identity = canonical(function.domain), function.name, function.overload
        if identity in found or not function.name:
            raise InvalidModel(
                f"the function {identity[0]}::{identity[1]} is defined twice"
                if function.name
                else "a function has no name"
            )
        check_function(function)
        opsets(function.opset_import, f"function {function.domain}::{function.name}")
        found[identity] = function
    return found


def _check_inputs(proto: ModelProto) -> None:
    """Main inputs state a type."""
    for info in proto.graph.input:
        kind = info.type.WhichOneof("value")
        if kind is None or (kind == "tensor_type" and not info.type.tensor_type.elem_type):
            raise InvalidModel(f"{MAIN} states no type for its input {info.name!r}")


def _check_overridden(graph: GraphProto) -> None:
    """An initializer that is also an input has the type that the input states."""
    infos = {v.name: v.type.tensor_type for v in graph.input}
    for tensor in graph.initializer:
        stated = infos.get(tensor.name)
        if stated is None:
            continue
        dims = [d.dim_value if d.HasField("dim_value") else -1 for d in stated.shape.dim]
        pairs = zip(dims, tensor.dims, strict=False)
        fits = len(dims) == len(tensor.dims) and all(d in (-1, size) for d, size in pairs)
        if stated.elem_type != tensor.data_type or (stated.HasField("shape") and not fits):
            raise InvalidModel(
                f"initializer {tensor.name!r} has the type {tensor.data_type} and the shape "
                f"{list(tensor.dims)}; as an input it states {stated.elem_type} and {dims}"
            )
