"""Types and shapes: ONNX's own inference, strict, with data propagation and type checks.

It runs on a copy without large tensors: those become inputs, which leaves their types. A node whose
operator version is not the one that the model imports (a body of another operator set) is wrapped
in a function that imports its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import onnx
import onnx.shape_inference
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

from sardonyx.dims import Dim, symbol
from sardonyx.errors import InvalidModel
from sardonyx.model.limits import Limits
from sardonyx.model.load import canonical, serialized, subgraphs
from sardonyx.resolve.contain import contained
from sardonyx.resolve.functions import Inliner, Note
from sardonyx.resolve.operators import has_body, lookup
from sardonyx.resolve.rename import Names
from sardonyx.resolve.weights import is_light
from sardonyx.resolve.windows import restate_window
from sardonyx.types import (
    Container,
    MapType,
    OptionalType,
    SequenceType,
    TensorType,
    ValueType,
    by_onnx,
)

VERSIONED = "sardonyx.versioned"
OPAQUE = "sardonyx.opaque"  # of nodes whose outputs ONNX is not asked about
NAMELESS = ("", "?", "-1", "None")  # what exporters write in the place of a dim's name


def name_dims(graph: GraphProto, params: Names) -> frozenset[str]:
    """Gives each nameless unknown dim of the main inputs a symbol of its own; their names. Other
    tensors' nameless dims say nothing from then on."""
    made = set()
    for info in (*graph.output, *graph.value_info):
        for dim in info.type.tensor_type.shape.dim if info.type.HasField("tensor_type") else ():
            if dim.dim_param and is_unknown(dim):
                dim.Clear()
    for info in graph.input:
        if info.type.HasField("tensor_type") and info.type.tensor_type.HasField("shape"):
            for axis, dim in enumerate(info.type.tensor_type.shape.dim):
                if is_unknown(dim):
                    dim.dim_param = params.fresh(f"{info.name}_{axis}")
                    made.add(dim.dim_param)
    return frozenset(made)


def is_unknown(dim: onnx.TensorShapeProto.Dimension) -> bool:
    """Whether a dim says nothing; -1 is an old way to say nothing."""
    return dim.dim_param in NAMELESS and (not dim.HasField("dim_value") or dim.dim_value == -1)


def open_dims(
    inputs: Iterable[ValueInfoProto],
) -> Iterator[tuple[str, int, str, onnx.TensorShapeProto.Dimension]]:
    """The dims of inputs that are no numbers: the input, the axis, the name and the dim itself. A
    nameless one of the input x is called x_0, x_1, ... after its axis."""
    for info in inputs:
        for axis, dim in enumerate(
            info.type.tensor_type.shape.dim if info.type.HasField("tensor_type") else ()
        ):
            if is_unknown(dim):
                yield info.name, axis, f"{info.name}_{axis}", dim
            elif dim.dim_param:
                yield info.name, axis, dim.dim_param, dim


def dim_params(model: ModelProto) -> Names:
    """The names of the symbolic dims that the main graph states."""
    graph = model.graph
    infos = (*graph.input, *graph.output, *graph.value_info)
    tensors = [v.type.tensor_type for v in infos if v.type.HasField("tensor_type")]
    return Names({d.dim_param for t in tensors for d in t.shape.dim} - {*NAMELESS})


def check_graph_types(graph: GraphProto, limits: Limits) -> None:
    """`check_stated` for all that a graph and its subgraphs state, before inference sees it."""
    for info in (*graph.input, *graph.output, *graph.value_info):
        check_stated(info.type, info.name, limits)
    for _, _, inner in subgraphs(graph.node):
        check_graph_types(inner, limits)


def unstated(model: ModelProto, *, shapes_only: bool = False) -> ModelProto:
    """A copy that states no types, or no shapes, of what operators make."""
    bare = ModelProto()
    bare.CopyFrom(model)
    work = [bare.graph]
    while work:
        graph = work.pop()
        for info in (*graph.output, *graph.value_info):
            if not shapes_only:
                info.ClearField("type")
            elif info.type.HasField("tensor_type"):
                info.type.tensor_type.ClearField("shape")
        if not shapes_only:
            del graph.value_info[:]
        work += [inner for _, _, inner in subgraphs(graph.node)]
    return bare


def infer_types(model: ModelProto, inliner: Inliner) -> GraphProto:
    """The inlined main graph as ONNX's inference types it; InvalidModel names the node."""
    light = ModelProto()
    light.CopyFrom(model)
    del light.functions[:]
    del light.metadata_props[:]
    for entry in light.opset_import:
        entry.domain = canonical(entry.domain)
    light.opset_import.add(domain=OPAQUE, version=1)
    _strip(light.graph)
    restated = []
    for node, note in _noted(light.graph, inliner):
        node.name = note.name or "#" + ".".join(map(str, note.path))
        if restate_window(node):
            restated.append(f"{node.op_type} {node.name!r}")
        node.domain = OPAQUE if _is_misread(node) else canonical(node.domain)
        _state_defaults(node, note)
    _wrap_versions(light, inliner)
    data = serialized(light)
    limits = inliner.limits
    what = "the types and shapes"
    try:
        found = contained(_infer, data, what, limits.type_seconds, limits.type_bytes)
    except InvalidModel as error:
        raise _explained(error, restated) from error
    typed: ModelProto = ModelProto.FromString(found)
    return typed.graph


def _explained(error: InvalidModel, pools: list[str]) -> InvalidModel:
    """The error; of what is stated, with what to do, and where it may come from if pools were
    restated. It stays refused: other types may follow from it, which cannot be told from the
    user's own."""
    if "existing" not in str(error):
        return error
    why = (
        f"if ONNX's inference stated the second: it counts a window of {pools[0]} that starts in "
        "the padding, which is none; "
        if pools and "existing shape differ" in str(error)
        else ""
    )
    return InvalidModel(
        f"{error}; {why}mend or remove what the model states of its tensors (graph.value_info, "
        "graph.output), or let `sardonyx legalize` state it anew"
    )


def _infer(data: bytes) -> bytes:
    """The inferred model. ONNX's propagation of values takes x[:, None] + y of vectors x and y for
    a sum of vectors of unequal length: what it refuses is tried without."""
    for values in (True, False):
        try:
            return serialized(onnx.shape_inference.infer_shapes(data, True, True, values))
        except (onnx.shape_inference.InferenceError, RuntimeError, ValueError) as error:
            said = _clean(str(error))
    raise InvalidModel(said)


def _noted(graph: GraphProto, inliner: Inliner) -> Iterator[tuple[NodeProto, Note]]:
    for node in graph.node:
        yield node, inliner.note(node)
        for _, _, inner in subgraphs([node]):
            yield from _noted(inner, inliner)


def _is_misread(node: NodeProto) -> bool:
    """Whether ONNX may leave a shape half done: that of a transposed convolution whose output_shape
    is smaller than its input has two dims."""
    transposed = node.op_type == "ConvTranspose" and canonical(node.domain) == ""
    return transposed and any(a.name == "output_shape" for a in node.attribute)


def _state_defaults(node: NodeProto, note: Note) -> None:
    """States the defaults of an operator with a body: ONNX infers through the body without them,
    and takes STFT's onesided for 0 where it is not stated."""
    schema = note.schema
    if schema is not None and (has_body(schema) or schema.name == "STFT"):
        stated = {a.name for a in node.attribute}
        for name, known in schema.attributes.items():
            if known.default_value.name and name not in stated:
                node.attribute.append(known.default_value)


def _clean(text: str) -> str:
    for word in ("[ShapeInferenceError]", "[TypeInferenceError]", "Inference error(s):"):
        text = text.replace(word, "")
    return " ".join(text.split())


def _strip(main: GraphProto) -> None:
    """Turns large initializers and constants into inputs of the main graph."""
    stated = {v.name for v in main.input}
    hoisted: dict[str, bytes] = {}
    work = [main]
    while work:
        graph = work.pop()
        kept = [
            t
            for t in graph.initializer
            if not (is_light(t) and _hoist(main, t, t.name, hoisted, stated))
        ]
        if len(kept) != len(graph.initializer):
            _replace(graph.initializer, kept)
        nodes = []
        for node in graph.node:
            constant = node.op_type == "Constant" and canonical(node.domain) == ""
            tensors = [a.t for a in node.attribute if a.HasField("t")] if constant else []
            light = [t for t in tensors if is_light(t)]
            if not (
                light and node.output and _hoist(main, light[0], node.output[0], hoisted, stated)
            ):
                nodes.append(node)
        if len(nodes) != len(graph.node):
            _replace(graph.node, nodes)
        work += [inner for _, _, inner in subgraphs(graph.node)]


def _replace(field: Any, kept: list[NodeProto] | list[TensorProto]) -> None:
    del field[:]
    field.extend(kept)


def _hoist(
    main: GraphProto, tensor: TensorProto, name: str, hoisted: dict[str, bytes], stated: set[str]
) -> bool:
    """Makes a tensor an input of the main graph; where another type has that name already, gives
    the tensor zeros instead, and False."""
    made = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    text = made.SerializeToString(deterministic=True)
    if hoisted.setdefault(name, text) != text:
        _zeros(tensor)
        return False
    if name not in stated:
        stated.add(name)
        main.input.add(name=name, type=made)
    return True


def _zeros(tensor: TensorProto) -> None:
    count = 1
    for d in tensor.dims:
        count *= d
    if tensor.data_type == TensorProto.STRING:
        tensor.string_data.extend([b""] * count)
    else:
        bits = 8 * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
        tensor.raw_data = bytes((count * bits + 7) // 8)


def _wrap_versions(model: ModelProto, inliner: Inliner) -> None:
    """Wraps each node of another operator version than the model's in a function of its own."""
    imported = {canonical(o.domain): o.version for o in model.opset_import}
    work = [model.graph]
    while work:
        graph = work.pop()
        for node in graph.node:
            inner = [g for _, _, g in subgraphs([node])]
            work += inner
            note = inliner.note(node)
            schema = note.schema
            if schema is None or node.domain == OPAQUE:
                continue
            own = lookup(schema.domain, schema.name, imported.get(schema.domain, 0))
            if schema.domain not in imported:
                imported[schema.domain] = note.opsets[schema.domain]
                model.opset_import.add(domain=schema.domain, version=note.opsets[schema.domain])
            elif (own is None or own.since_version != schema.since_version) and not inner:
                _wrap(model, node, note.opsets)
    if model.functions:
        model.ir_version = max(model.ir_version, 8)
        model.opset_import.add(domain=VERSIONED, version=1)


def _wrap(model: ModelProto, node: NodeProto, opsets: Mapping[str, int]) -> None:
    name = f"node{node.doc_string}"
    function = model.functions.add(name=name, domain=VERSIONED)
    body = function.node.add()
    body.CopyFrom(node)
    body.name = node.op_type
    body.input[:] = [f"i{i}" if given else "" for i, given in enumerate(node.input)]
    body.output[:] = [f"o{i}" if given else "" for i, given in enumerate(node.output)]
    function.input.extend(f"i{i}" for i in range(len(node.input)))
    function.output.extend(f"o{i}" for i, given in enumerate(node.output) if given)
    for domain, version in opsets.items():
        function.opset_import.add(domain=domain, version=version)
    node.domain, node.op_type, node.overload = VERSIONED, name, ""
    del node.attribute[:]
    node.output[:] = [given for given in node.output if given]


def tensor_type(
    proto: TypeProto, name: str, params: Names, limits: Limits, unnamed: set[str]
) -> TensorType | None:
    """A TypeProto as a TensorType, None for what Sardonyx cannot express; unknown dims become new
    symbols, added to `unnamed`."""
    check_stated(proto, name, limits)
    if not proto.HasField("tensor_type"):
        return None
    dtype = by_onnx(proto.tensor_type.elem_type)
    if dtype is None:
        return None
    if not proto.tensor_type.HasField("shape"):
        return TensorType(dtype, None)
    shape: list[Dim] = []
    for axis, dim in enumerate(proto.tensor_type.shape.dim):
        if is_unknown(dim):
            fresh = params.fresh(f"{name}_{axis}")
            unnamed.add(fresh)
            shape.append(symbol(fresh))
        else:
            shape.append(dim.dim_value if dim.HasField("dim_value") else symbol(dim.dim_param))
    return TensorType(dtype, tuple(shape))


def container_type(
    proto: TypeProto, name: str, params: Names, limits: Limits, unnamed: set[str]
) -> Container | None:
    """A TypeProto that is no tensor's as a container type; None for any other."""

    def element(inner: TypeProto) -> ValueType | None:
        arguments = (inner, name, params, limits, unnamed)
        return tensor_type(*arguments) or container_type(*arguments)

    match proto.WhichOneof("value"):
        case "sequence_type":
            return SequenceType(element(proto.sequence_type.elem_type))
        case "optional_type":
            return OptionalType(element(proto.optional_type.elem_type))
        case "map_type":
            key = by_onnx(proto.map_type.key_type)
            return None if key is None else MapType(key, element(proto.map_type.value_type))
    return None


def check_stated(proto: TypeProto, name: str, limits: Limits) -> None:
    """The rank, dims and size that a type states are possible; sequences are not looked into."""
    if not proto.HasField("tensor_type"):
        return
    dims = proto.tensor_type.shape.dim
    limits.check("rank", len(dims), f"the rank of tensor {name!r}")
    dtype = by_onnx(proto.tensor_type.elem_type)
    size = dtype.size if dtype else 1
    stated = [d.dim_value for d in dims if d.HasField("dim_value") and d.dim_value != -1]
    if any(d < 0 for d in stated):
        raise InvalidModel(f"tensor {name!r} has the dim {min(stated)}")
    for d in stated:
        limits.check("tensor_bytes", d, f"a dim of tensor {name!r}")
        size *= d
    limits.check("tensor_bytes", size, f"the size of tensor {name!r} in bytes")
