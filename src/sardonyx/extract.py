"""A part of a model cut out between named tensors: `sardonyx extract`.

part = extract("net.onnx", inputs=["relu1"], outputs=["softmax"])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto

from sardonyx.errors import InvalidModel
from sardonyx.model import Limits, Model, Source, load
from sardonyx.model.load import canonical
from sardonyx.resolve import value_types
from sardonyx.resolve.calls import every_node
from sardonyx.resolve.names import label, node_reads
from sardonyx.resolve.operators import key


def extract(
    source: Source, inputs: Sequence[str], outputs: Sequence[str], limits: Limits | None = None
) -> ModelProto:
    """The model that computes `outputs` from `inputs`, both names of tensors of the main graph.

    It keeps the nodes that are needed, in their order, and the initializers, functions, types and
    metadata that go with them; an initializer that is named as an input becomes an input. External
    data stays where it is: the part belongs into the same folder. Raises InvalidModel for an
    unknown name, and where an output needs a graph input that is not among `inputs`.
    """
    model = load(source, limits)
    types = value_types(model)
    graph = model.proto.graph
    _check_names(model, inputs, outputs)
    nodes, reads = _needed(graph, set(inputs), outputs, model.name)
    part = ModelProto(
        ir_version=model.proto.ir_version,
        producer_name="sardonyx",
        opset_import=model.proto.opset_import,
        metadata_props=model.proto.metadata_props,
        functions=_called(model.proto, nodes),
    )
    part.graph.name = graph.name
    part.graph.node.extend(nodes)
    kept = reads - set(inputs)
    part.graph.initializer.extend(t for t in graph.initializer if t.name in kept)
    part.graph.sparse_initializer.extend(
        s for s in graph.sparse_initializer if s.values.name in kept
    )
    _state_types(part.graph, graph, inputs, outputs, types)
    return part


def _check_names(model: Model, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    graph = model.proto.graph
    known = {v.name for v in graph.input} | _initializers(graph)
    known |= {name for node in graph.node for name in node.output if name}
    for names, what in ((inputs, "input"), (outputs, "output")):
        for name in names:
            if name not in known:
                raise InvalidModel(f"{model.name}: the {what} {name!r} is no tensor of its graph")
        if len(set(names)) != len(names):
            raise InvalidModel(f"{model.name}: an {what} is named twice in {list(names)}")
    if not outputs:
        raise InvalidModel(f"{model.name}: no output is named")


def _initializers(graph: GraphProto) -> set[str]:
    return {t.name for t in graph.initializer} | {s.values.name for s in graph.sparse_initializer}


def _needed(
    graph: GraphProto, inputs: set[str], outputs: Sequence[str], model: str
) -> tuple[list[NodeProto], set[str]]:
    """The nodes between inputs and outputs, and all names that they or the outputs read."""
    makers = {name: i for i, node in enumerate(graph.node) for name in node.output if name}
    constant = _initializers(graph)
    used: set[int] = set()
    seen: set[str] = set()
    work = [(name, f"output {name!r}") for name in outputs]
    while work:
        name, reader = work.pop()
        if name in seen:
            continue
        seen.add(name)
        if name in inputs:
            continue
        if name in makers:
            index = makers[name]
            if index not in used:
                used.add(index)
                node = graph.node[index]
                work += [(n, label(node, index)) for n in node_reads(node)]
        elif name not in constant:
            raise InvalidModel(
                f"{model}: {reader} needs the graph input {name!r}, which is not among the "
                f"inputs {sorted(inputs)}"
            )
    return [_cut(graph.node[i], inputs) for i in sorted(used)], seen


def _cut(node: NodeProto, inputs: set[str]) -> NodeProto:
    """The node; an output of it that is an input of the part gets another name."""
    if not inputs.intersection(node.output):
        return node
    copy = NodeProto()
    copy.CopyFrom(node)
    copy.output[:] = [f"{name}/cut" if name in inputs else name for name in node.output]
    return copy


def _called(proto: ModelProto, nodes: Sequence[NodeProto]) -> list[FunctionProto]:
    """The functions that the nodes call, directly or not, in the model's order."""
    work = [key(node) for node in every_node(nodes)]
    by_key = {(canonical(f.domain), f.name, f.overload): f for f in proto.functions}
    seen = set()
    while work:
        found = work.pop()
        if found in by_key and found not in seen:
            seen.add(found)
            work += [key(node) for node in every_node(by_key[found].node)]
    return [f for k, f in by_key.items() if k in seen]


def _state_types(
    part: GraphProto,
    graph: GraphProto,
    inputs: Sequence[str],
    outputs: Sequence[str],
    types: Mapping[str, TypeProto],
) -> None:
    """States the part's inputs and outputs, and the types that the model states of its tensors.

    A type that the model states wins over the inferred one.
    """
    infos: dict[str, ValueInfoProto] = {
        v.name: v for v in (*graph.value_info, *graph.output, *graph.input)
    }
    made = {name for node in part.node for name in node.output}
    kept = _initializers(part)

    def info(name: str) -> ValueInfoProto:
        stated = infos.get(name)
        if stated is not None and stated.HasField("type"):
            return stated
        if name not in types:
            raise InvalidModel(f"the type of {name!r} is not known")
        return ValueInfoProto(name=name, type=types[name])

    part.input.extend(info(name) for name in inputs)
    part.input.extend(v for v in graph.input if v.name in kept)
    part.output.extend(info(name) for name in outputs)
    inner = made - set(outputs) - set(inputs)
    part.value_info.extend(v for v in graph.value_info if v.name in inner)
