"""Every operator definition has the signature of its ONNX schema."""

from __future__ import annotations

from inspect import Parameter, signature
from typing import Any

import numpy as np
import onnx
import pytest

from sardonyx.ops.registry import INTERNAL, Operator, operators

Option = onnx.defs.OpSchema.FormalParameterOption
KEYWORD, VARIADIC = Parameter.KEYWORD_ONLY, Parameter.VAR_POSITIONAL
MICROSOFT = "com.microsoft"  # tests/test_contrib.py compares it with onnxruntime's schemas
ADDED = {("LayerNormalization", 1), ("SimplifiedLayerNormalization", 1)}  # by onnxruntime
OPERATORS = tuple(
    o
    for o in operators()
    if o.domain not in (INTERNAL, MICROSOFT) and not (not o.domain and (o.name, o.since) in ADDED)
)
HINTS = {"consumed_inputs"}  # about memory, before opset 6; `lower` drops them


def schema(op: Operator) -> onnx.defs.OpSchema:
    return onnx.defs.get_schema(op.name, op.since, op.domain)


def stated(op: Operator) -> dict[str, Any]:
    """attribute -> the schema's default, Parameter.empty where it is required."""
    found = {}
    for name, attribute in schema(op).attributes.items():
        if name in HINTS:
            continue
        default = attribute.default_value
        if attribute.required:
            found[name] = Parameter.empty
        else:
            value = onnx.helper.get_attribute_value(default) if default.type else None
            found[name] = _text(value)
    return found


def _text(value: Any) -> Any:
    if isinstance(value, list):
        return [_text(v) for v in value]
    return value.decode() if isinstance(value, bytes) else value


def ours(op: Operator) -> dict[str, Any]:
    parameters = signature(op.define).parameters.values()
    return {p.name: _as_stored(p.default) for p in parameters if p.kind is KEYWORD}


def _as_stored(value: Any) -> Any:
    if isinstance(value, float):
        return float(np.float32(value))
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("op", OPERATORS, ids=str)
def test_the_version_exists(op: Operator) -> None:
    assert schema(op).since_version == op.since


def newest(op: Operator) -> bool:
    """Whether op is the newest of the versions that its definition serves."""
    return op.since == max(o.since for o in OPERATORS if o.define is op.define)


@pytest.mark.parametrize("op", OPERATORS, ids=str)
def test_attributes_and_defaults_are_those_of_the_schema(op: Operator) -> None:
    """An older version that shares its definition with a newer one may have fewer."""
    found, expected = ours(op), stated(op)
    assert {a: found[a] for a in found if newest(op) or a in expected} == expected


@pytest.mark.parametrize("op", OPERATORS, ids=str)
def test_inputs_are_as_many_and_as_optional_as_in_the_schema(op: Operator) -> None:
    """An older version that shares its definition with a newer one may require more."""
    given = [p for p in signature(op.define).parameters.values() if p.kind is not KEYWORD][1:]
    assert all(p.default in (None, Parameter.empty) for p in given)
    found = [_option(p) for p in given]
    expected = [i.option for i in schema(op).inputs]
    if newest(op):
        assert found == expected
    else:
        pairs = zip(found, expected, strict=False)
        assert len(found) >= len(expected)
        assert all(f == e or (f, e) == (Option.Optional, Option.Single) for f, e in pairs)


def _option(p: Parameter) -> onnx.defs.OpSchema.FormalParameterOption:
    if p.kind is VARIADIC:
        return Option.Variadic
    return Option.Single if p.default is Parameter.empty else Option.Optional
