"""Operators without a schema in onnx: their schema is the signature of our definition.

Tensors are the positional parameters (required where they have no default), attributes the keyword
ones; an attribute's type is its annotation, or that of its default, or what the node states.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from inspect import Parameter, signature

from onnx import AttributeProto, NodeProto
from onnx.defs import OpSchema

from sardonyx.ops import registry

Formal = OpSchema.FormalParameter
Option = OpSchema.FormalParameterOption
Kind = OpSchema.AttrType
ANY = ["tensor(float)"]  # types are checked by the definition
KINDS: Mapping[int, Kind] = {
    AttributeProto.AttributeType.Value(name): kind
    for name, kind in vars(Kind).items()
    if isinstance(kind, Kind)
}
SCALARS: Mapping[object, Kind] = {int: Kind.INT, float: Kind.FLOAT, str: Kind.STRING}
LISTS: Mapping[object, Kind] = {int: Kind.INTS, float: Kind.FLOATS, str: Kind.STRINGS}


def has_domain(domain: str) -> bool:
    """Whether the registry has an operator of that domain."""
    found = {op.domain for op in registry.operators()} | {op.domain for op in registry.hosts()}
    return domain in found


def registered(
    domain: str, name: str, version: int, node: NodeProto | None = None
) -> OpSchema | None:
    """The schema of the newest definition that is not newer than `version`, or None. `node` says
    the types of attributes whose definition leaves them open."""
    op = registry.newest(domain, name, version)
    if op is None:
        return None
    parameters = list(signature(op.define).parameters.values())
    given = [p for p in parameters if p.kind not in (Parameter.KEYWORD_ONLY, Parameter.VAR_KEYWORD)]
    if isinstance(op, registry.Operator):
        del given[0]  # the Builder
    stated = (
        {} if node is None else {a.name: KINDS[a.type] for a in node.attribute if a.type in KINDS}
    )
    attributes = [_attribute(op.define, p, stated) for p in parameters if p.kind is p.KEYWORD_ONLY]
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        attributes += [OpSchema.Attribute(n, kind, required=False) for n, kind in stated.items()]
    outputs = Formal("y", "T", param_option=Option.Variadic, is_homogeneous=False, min_arity=1)
    return OpSchema(
        name,
        domain,
        op.since,
        inputs=[Formal(p.name, "T", param_option=_option(p), is_homogeneous=False) for p in given],
        outputs=[outputs],
        type_constraints=[("T", ANY, "")],
        attributes=[a for a in attributes if a is not None],
    )


def _option(p: Parameter) -> OpSchema.FormalParameterOption:
    if p.kind is p.VAR_POSITIONAL:
        return Option.Variadic
    return Option.Single if p.default is p.empty else Option.Optional


def _attribute(
    define: registry.Definition, p: Parameter, stated: Mapping[str, Kind]
) -> OpSchema.Attribute | None:
    kind = (
        _annotated(_hints(define).get(p.name)) or stated.get(p.name) or SCALARS.get(type(p.default))
    )
    if kind is None:
        return None
    return OpSchema.Attribute(p.name, kind, required=p.default is p.empty)


def _hints(define: registry.Definition) -> Mapping[str, object]:
    try:
        return typing.get_type_hints(define)
    except (NameError, TypeError):  # a user's annotations need not be resolvable
        return {}


def _annotated(hint: object) -> Kind | None:
    """The attribute type that an annotation stands for: int, float, str, sequences of them, and
    any of these or None."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        found = [_annotated(h) for h in typing.get_args(hint) if h is not type(None)]
        return found[0] if len(found) == 1 else None
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is not None and arguments:
        return LISTS.get(arguments[0])
    return SCALARS.get(hint)
