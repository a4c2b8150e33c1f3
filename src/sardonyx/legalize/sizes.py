"""F2: sizes are numbers, and every tensor states its type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from onnx import ValueInfoProto, helper

from sardonyx.dims import str_dim
from sardonyx.legalize.work import Work
from sardonyx.model import Limits
from sardonyx.resolve.rename import Names
from sardonyx.resolve.shapes import open_dims, tensor_type, unstated
from sardonyx.types import TensorType


def contradictions(work: Work) -> Iterator[str]:
    """F2: types that the model states of what nodes make, against the operators, become those that
    the operators give; inner tensors' are taken out, to be stated anew."""
    if not work.refusal:
        return
    mended = Work(unstated(work.proto), work.profile)
    if mended.refusal:
        return
    bare, types, before = mended.proto, mended.graph.types, work.proto.graph
    told = [_told(v, types) for v in (*before.output, *before.value_info)]
    for info, stated in zip(bare.graph.output, before.output, strict=True):
        info.CopyFrom(stated)
        if _told(stated, types):
            info.type.CopyFrom(_info(info.name, types[info.name]).type)
    work.proto.CopyFrom(bare)
    yield from list(filter(None, told)) or ["types that inner graphs state are taken out"]


def _told(info: ValueInfoProto, types: Mapping[str, TensorType]) -> str:
    """How what is stated of a tensor differs from what the operators give, "" if it does not."""
    found = types.get(info.name)
    stated = tensor_type(info.type, info.name, Names(set()), Limits(), set())
    if found is None or stated is None:
        return ""
    both = list(zip(stated.shape or (), found.shape or (), strict=False))
    ranks = {len(k.shape) for k in (stated, found) if k.shape is not None}
    apart = any(a != b for a, b in both if isinstance(a, int) and isinstance(b, int))
    if stated.dtype is found.dtype and len(ranks) < 2 and not apart:
        return ""
    return f"'{info.name}' was stated to be {stated}, its operator gives {found}"


def freeze(work: Work) -> Iterator[str]:
    """F2: symbolic dims of the graph's inputs become the sizes that are given for them; types of
    inner tensors and outputs are taken out, to be stated anew."""
    changed = False
    for tensor, axis, name, dim in open_dims(work.proto.graph.input):
        if name in work.dims:
            dim.dim_value = work.dims[name]
            changed = True
            yield f"dim {axis} of '{tensor}', {name}, is {dim.dim_value}"
    if changed:
        del work.proto.graph.value_info[:]
        for info in work.proto.graph.output:
            if info.type.HasField("tensor_type"):
                info.type.tensor_type.ClearField("shape")


def state_types(work: Work) -> Iterator[str]:
    """F2: the type and shape of every tensor that a node makes, from our own inference."""
    graph = work.proto.graph
    types = work.graph.types
    edge = {v.name for v in (*graph.input, *graph.output)}
    made = [n for node in graph.node for n in node.output if n and n not in edge]
    infos = [_info(n, types[n]) for n in made if n in types and types[n].shape is not None]
    infos += [v for v in graph.value_info if v.name in made and not v.type.HasField("tensor_type")]
    before = sorted(v.SerializeToString(deterministic=True) for v in graph.value_info)
    after = sorted(v.SerializeToString(deterministic=True) for v in infos)
    if before != after:
        del graph.value_info[:]
        graph.value_info.extend(infos)
        yield f"types of {len(infos)} inner tensors stated"
    for info in graph.output:
        found = types.get(info.name)
        if found is None or not _static(found):
            continue
        stated = _info(info.name, found)
        if stated.type != info.type:
            info.type.CopyFrom(stated.type)
            yield f"type of output '{info.name}' stated: {found}"


def _static(kind: TensorType) -> bool:
    return kind.shape is not None and all(isinstance(d, int) for d in kind.shape)


def _info(name: str, kind: TensorType) -> ValueInfoProto:
    shape = [d if isinstance(d, int) else str_dim(d) for d in kind.shape or ()]
    return helper.make_tensor_value_info(name, kind.dtype.onnx, shape)
