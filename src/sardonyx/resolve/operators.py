"""Operators and attributes: nodes resolved to (domain, name, since_version) through ONNX's schemas.

Checked here, before ONNX's own inference sees the model: the operator exists and is not
deprecated, the numbers of inputs and outputs, the names, types and form of attributes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

import onnx.defs
from onnx import AttributeProto, FunctionProto, NodeProto, TypeProto
from onnx.defs import OpSchema

from sardonyx.errors import InvalidModel, UnsupportedModel
from sardonyx.model.load import canonical
from sardonyx.model.tensors import utf8
from sardonyx.resolve.custom import has_domain, registered

Key: TypeAlias = tuple[str, str, str]
A = AttributeProto
FIELDS: Mapping[int, str] = {
    A.FLOAT: "f", A.INT: "i", A.STRING: "s", A.TENSOR: "t", A.GRAPH: "g",
    A.FLOATS: "floats", A.INTS: "ints", A.STRINGS: "strings", A.TENSORS: "tensors",
    A.GRAPHS: "graphs", A.SPARSE_TENSOR: "sparse_tensor", A.SPARSE_TENSORS: "sparse_tensors",
    A.TYPE_PROTO: "tp", A.TYPE_PROTOS: "type_protos",
}  # fmt: skip
# Attributes that are 0 or 1.
FLAGS = (
    "align_corners", "allowzero", "antialias", "ceil_mode", "center_point_box",
    "count_include_pad", "detect_negative", "detect_positive", "do_rotary", "exclude_outside",
    "exclusive", "fmod", "input_forget", "interleaved", "inverse", "is_case_sensitive",
    "is_causal", "keepdims", "largest", "linear_before_reset", "onesided", "output_sequence",
    "periodic", "reverse", "rotary_interleaved", "saturate", "select_last_index", "sorted",
    "storage_order", "training_mode", "transA", "transB", "transBatchA", "transBatchB",
    "unidirectional", "upper",
)  # fmt: skip
# ONNX's inference does not come back from some equations of Einsum that are none: "i,i-", "i..j".
EQUATION = re.compile(rb"(?:[a-zA-Z, ]|\.\.\.)*(?:->(?:[a-zA-Z ]|\.\.\.)*)?")
SINGLE = ("f", "i", "s", "t", "g", "sparse_tensor", "tp")


def key(node: NodeProto) -> Key:
    """What a function that the node calls is identified by."""
    return canonical(node.domain), node.op_type, node.overload


def schema_of(node: NodeProto, opsets: Mapping[str, int], what: str) -> OpSchema:
    """The schema that the node's operator has under the imported operator sets."""
    domain = canonical(node.domain)
    if not node.op_type:
        raise InvalidModel(f"{what} names no operator (op_type)")
    newest = onnx.defs.C.schema_version_map().get(domain)
    known = newest is not None or has_domain(domain)
    if domain not in opsets:
        if not known:
            raise UnsupportedModel(f"{what}: no operator set {domain!r} is known")
        raise InvalidModel(
            f"{what} is of the operator set {domain or 'ai.onnx'!r}, which the model does not "
            "import (opset_import)"
        )
    version = opsets[domain]
    if not known:
        raise UnsupportedModel(f"{what}: no operator set {domain!r} is known")
    if newest is not None and version > newest[1]:
        raise UnsupportedModel(
            f"{what}: the operator set {domain or 'ai.onnx'!r} is known up to version "
            f"{newest[1]}, the model imports {version}"
        )
    return _checked_schema(domain, node, version, what)


def _checked_schema(domain: str, node: NodeProto, version: int, what: str) -> OpSchema:
    op_type = node.op_type
    found = _standard(domain, op_type, version) or registered(domain, op_type, version, node)
    where = f"the operator set {domain or 'ai.onnx'!r} in version {version}"
    if found is None:
        raise UnsupportedModel(f"{what}: {where} has no operator {op_type!r}")
    if found.deprecated:
        raise InvalidModel(f"{what}: {op_type} is deprecated, {where} does not have it any more")
    return found


def lookup(domain: str, op_type: str, version: int) -> OpSchema | None:
    """The newest schema of an operator that is not newer than `version`, or None: onnx's, or else
    that of a definition in our registry."""
    return _standard(domain, op_type, version) or registered(domain, op_type, version)


@cache
def _standard(domain: str, op_type: str, version: int) -> OpSchema | None:
    try:
        return onnx.defs.get_schema(op_type, version, domain)
    except onnx.defs.SchemaError:
        return None


def check_node(node: NodeProto, schema: OpSchema, what: str) -> None:
    """The node's inputs, outputs and attributes are as its schema says."""
    _check_count(len(node.input), schema.min_input, schema.max_input, f"{what} has", "inputs")
    _check_count(len(node.output), schema.min_output, schema.max_output, f"{what} has", "outputs")
    for formal, names in ((schema.inputs, node.input), (schema.outputs, node.output)):
        for parameter, name in zip(formal, names, strict=False):
            if not name and parameter.option == OpSchema.FormalParameterOption.Single:
                raise InvalidModel(f"{what} lacks its {parameter.name}, which is not optional")
    stated = check_attributes(node, what)
    for name, attribute in stated.items():
        if name.startswith("__"):
            continue
        known: Any = schema.attributes.get(name)
        if known is None:
            raise InvalidModel(
                f"{what} has the attribute {name!r}, which {schema.name}-"
                f"{schema.since_version} does not have"
            )
        if int(known.type.value) != attribute.type:
            raise InvalidModel(
                f"{what}: its attribute {name!r} is {A.AttributeType.Name(attribute.type)}, "
                f"expected {known.type.name}"
            )
        if name in FLAGS and attribute.type == A.INT and attribute.i not in (0, 1):
            raise InvalidModel(f"{what}: its attribute {name!r} is {attribute.i}, expected 0 or 1")
        if (schema.domain, schema.name) == ("", "Einsum") and not EQUATION.fullmatch(attribute.s):
            raise InvalidModel(
                f"{what}: its equation {attribute.s.decode(errors='replace')!r} has something else "
                "than letters, commas, ellipses (...) and one arrow (->)"
            )
    for name, known in schema.attributes.items():
        if known.required and name not in stated:
            raise InvalidModel(f"{what} lacks its attribute {name!r}")


def plain_body(schema: OpSchema, version: int) -> FunctionProto | None:
    """The body that a schema carries for an operator set, if it does not depend on types."""
    loose: Any = schema  # onnx's stubs lack these members
    usable = [v for v in loose.function_opset_versions if v <= version]
    data = loose.get_function_with_opset_version(max(usable)) if usable else b""
    return _with_defaults(data, schema) if data else None


def has_body(schema: OpSchema) -> bool:
    """Whether a schema carries any body."""
    loose: Any = schema
    return bool(loose.has_function or loose.has_context_dependent_function)


def has_typed_body(schema: OpSchema, version: int) -> bool:
    """Whether a schema carries a body that depends on the types of the inputs."""
    loose: Any = schema
    return any(v <= version for v in loose.context_dependent_function_opset_versions)


def typed_body(
    node: NodeProto, schema: OpSchema, version: int, types: Sequence[TypeProto]
) -> FunctionProto | None:
    """The body for inputs of these types; None if there is none for them."""
    loose: Any = schema
    usable = [v for v in loose.context_dependent_function_opset_versions if v <= version]
    data = loose.get_context_dependent_function_with_opset_version(
        max(usable), node.SerializeToString(), [t.SerializeToString() for t in types]
    )
    return _with_defaults(data, schema) if data else None


def _with_defaults(data: bytes, schema: OpSchema) -> FunctionProto:
    """A schema's body; the schema's defaults become the function's."""
    function: FunctionProto = FunctionProto.FromString(data)
    stated = {a.name for a in function.attribute_proto}
    for name, known in schema.attributes.items():
        if known.default_value.name and name not in stated:
            function.attribute_proto.append(known.default_value)
    return function


def check_attributes(node: NodeProto, what: str) -> dict[str, AttributeProto]:
    """The attributes by name: each occurs once and holds one value, of the type it states."""
    found: dict[str, AttributeProto] = {}
    for attribute in node.attribute:
        name = attribute.name
        if not name:
            raise InvalidModel(f"{what} has an attribute without a name")
        if name in found:
            raise InvalidModel(f"{what} has the attribute {name!r} twice")
        found[name] = attribute
        expected = FIELDS.get(attribute.type)
        if expected is None:
            raise InvalidModel(f"{what}: its attribute {name!r} states no type")
        filled = [f for f in SINGLE if attribute.HasField(f)]
        filled += [f for f in FIELDS.values() if f not in SINGLE and len(getattr(attribute, f))]
        wanted = [] if attribute.ref_attr_name else [expected]
        if filled != wanted and (filled or expected in SINGLE):
            raise InvalidModel(
                f"{what}: its attribute {name!r} holds {' and '.join(filled) or 'nothing'}, "
                f"expected {expected}"
            )
    return found


def _check_count(found: int, least: int, most: int, who: str, what: str) -> None:
    if not least <= found <= most:
        expected = f"{least}" if least == most else f"{least} to {most}"
        if most > 1 << 20:
            expected = f"at least {least}"
        raise InvalidModel(f"{who} {found} {what}, expected {expected}")


def value(attribute: AttributeProto, tensor: Callable[[onnx.TensorProto], Any], what: str) -> Any:
    """An attribute as a Python value: float, int, str, array, TypeProto, or a tuple of them."""
    found = getattr(attribute, FIELDS[attribute.type])
    match attribute.type:
        case A.STRING:
            return utf8(found, f"{what}: its attribute {attribute.name!r}")
        case A.STRINGS:
            return tuple(utf8(s, f"{what}: its attribute {attribute.name!r}") for s in found)
        case A.TENSOR:
            return tensor(found)
        case A.TENSORS:
            return tuple(tensor(t) for t in found)
        case A.FLOATS | A.INTS | A.TYPE_PROTOS:
            return tuple(found)
        case A.FLOAT | A.INT | A.TYPE_PROTO:
            return found
    raise UnsupportedModel(
        f"{what}: its attribute {attribute.name!r} of type "
        f"{A.AttributeType.Name(attribute.type)} is not supported"
    )
