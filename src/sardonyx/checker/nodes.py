"""One node of the main graph as rules see it: as in the file, before defaults are filled in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from onnx import AttributeProto, NodeProto
from onnx.defs import OpSchema

from sardonyx.model.load import canonical
from sardonyx.resolve.operators import FIELDS, lookup

ALIASES = {"SoftPlus": "Softplus", "FullyConnected": "Gemm", "Dense": "Gemm", "Padding": "Pad"}


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A NodeProto, its place and its schema (None where ONNX has none for it)."""

    index: int
    proto: NodeProto
    schema: OpSchema | None
    given: Mapping[str, Any]

    @property
    def name(self) -> str:
        return self.proto.name or f"#{self.index}"

    @property
    def op(self) -> str:
        return self.proto.op_type

    @property
    def domain(self) -> str:
        return canonical(self.proto.domain)

    @property
    def since(self) -> int:
        return 0 if self.schema is None else self.schema.since_version

    @property
    def inputs(self) -> Sequence[str]:
        return list(self.proto.input)

    @property
    def outputs(self) -> Sequence[str]:
        return list(self.proto.output)

    def input(self, i: int) -> str:
        """The name of input i, "" where it is absent."""
        return self.proto.input[i] if i < len(self.proto.input) else ""

    def output(self, i: int = 0) -> str:
        """The name of output i, "" where it is absent."""
        return self.proto.output[i] if i < len(self.proto.output) else ""

    def value(self, name: str) -> Any:
        """An attribute as given, else its schema's default, else None."""
        if name in self.given:
            return self.given[name]
        known: Any = None if self.schema is None else self.schema.attributes.get(name)
        if known is None or not known.default_value.name:
            return None
        return attribute_value(known.default_value)

    def ints(self, name: str) -> list[int] | None:
        """An attribute that is given as a list of integers."""
        found = self.given.get(name)
        return [int(v) for v in found] if isinstance(found, tuple | list) else None

    def integer(self, name: str) -> int | None:
        """An attribute that is given as one integer."""
        found = self.given.get(name)
        return found if isinstance(found, int) else None


def attribute_value(attribute: AttributeProto) -> Any:
    """A number, a text or a tuple of them; the protobuf message for anything else."""
    field = FIELDS.get(attribute.type)
    if field is None:
        return None
    found = getattr(attribute, field)
    if isinstance(found, bytes):
        return found.decode(errors="replace")
    if field in ("floats", "ints"):
        return tuple(found)
    if field == "strings":
        return tuple(s.decode(errors="replace") for s in found)
    return found


def nodes_of(model: onnx.ModelProto) -> Iterator[Node]:
    """The nodes of the main graph."""
    versions = {canonical(o.domain): o.version for o in model.opset_import}
    for index, node in enumerate(model.graph.node):
        domain = canonical(node.domain)
        schema = lookup(domain, node.op_type, versions.get(domain, 0))
        given = {a.name: attribute_value(a) for a in node.attribute}
        yield Node(index, node, schema, given)
