"""Calls of functions: how large they get, and which attributes they hand over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter

from onnx import AttributeProto, FunctionProto, NodeProto

from sardonyx.errors import InvalidModel
from sardonyx.model.limits import Limits
from sardonyx.model.load import subgraphs
from sardonyx.resolve.operators import Key, key


def every_node(nodes: Sequence[NodeProto]) -> Iterator[NodeProto]:
    """The nodes and those of their subgraphs."""
    for node in nodes:
        yield node
        for _, _, graph in subgraphs([node]):
            yield from every_node(graph.node)


def node_count(nodes: Sequence[NodeProto]) -> int:
    return sum(1 for _ in every_node(nodes))


def check_sizes(
    functions: Mapping[Key, FunctionProto], nodes: Sequence[NodeProto], limits: Limits
) -> None:
    """Refuses recursion, and more nodes after inlining than the limit, before any is made.

    Each function is counted once, callees first, so a doubling chain costs nothing.
    """
    calls = {k: [key(n) for n in every_node(f.node)] for k, f in functions.items()}
    size: dict[Key, int] = {}
    depth: dict[Key, int] = {}
    try:
        inner = {k: [c for c in found if c in functions] for k, found in calls.items()}
        callees_first = list(TopologicalSorter(inner).static_order())
    except CycleError as error:
        around = " -> ".join(f"{k[0]}::{k[1]}" for k in reversed(error.args[1]))
        raise InvalidModel(f"functions call themselves: {around}") from None
    for k in callees_first:
        size[k] = sum(size.get(c, 1) for c in calls[k]) + 1
        depth[k] = 1 + max((depth.get(c, 0) for c in calls[k]), default=0)
        limits.check("call_depth", depth[k], f"the depth of calls in function {k[0]}::{k[1]}")
    total = sum(size.get(key(n), 1) for n in every_node(nodes))
    limits.check("inlined_nodes", total, "the number of nodes after inlining")


def call_attributes(
    call: NodeProto, function: FunctionProto, what: str
) -> dict[str, AttributeProto]:
    """The function's attributes by name: defaults, then what the call states."""
    found = {a.name: a for a in function.attribute_proto}
    known = {*found, *function.attribute}
    for attribute in call.attribute:
        unknown = attribute.name not in known and not attribute.name.startswith("__")
        if unknown and function.domain:  # ONNX's own bodies list only what they refer to
            raise InvalidModel(
                f"{what} has the attribute {attribute.name!r}, which its function does not have"
            )
        found[attribute.name] = attribute
    return found


def bind_attributes(node: NodeProto, given: Mapping[str, AttributeProto], what: str) -> None:
    """Replaces references to the function's attributes, in subgraphs too; one that refers to an
    attribute that is not given is dropped."""
    kept = []
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            kept.append(attribute)
            continue
        actual = given.get(attribute.ref_attr_name)
        if actual is None:
            continue
        if attribute.type not in (actual.type, AttributeProto.UNDEFINED):
            raise InvalidModel(
                f"{what}: its attribute {actual.name!r} is "
                f"{AttributeProto.AttributeType.Name(actual.type)}, its function uses it as "
                f"{AttributeProto.AttributeType.Name(attribute.type)}"
            )
        bound = AttributeProto()
        bound.CopyFrom(actual)
        bound.name = attribute.name
        kept.append(bound)
    del node.attribute[:]
    node.attribute.extend(kept)
    for _, _, graph in subgraphs([node]):
        for inner in graph.node:
            bind_attributes(inner, given, what)
