"""Models of one operation, and the same with the function of onnx's schema in its place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TypeProto, helper

from sardonyx.engines import make_engine
from sardonyx.loading import load
from sardonyx.types import Array

Feeds = Mapping[str, Array | None]


def one(op_type: str, opset: int, feeds: Feeds, outputs: int = 1, **how: Any) -> onnx.ModelProto:
    """A model of one operation; feeds: its inputs in order, None where one is absent."""
    info = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in feeds.items()
        if v is not None
    ]
    names = [n if v is not None else "" for n, v in feeds.items()]
    made = [f"y{i}" for i in range(outputs)]
    out = [helper.make_tensor_value_info(n, info[0].type.tensor_type.elem_type, None) for n in made]
    graph = helper.make_graph([helper.make_node(op_type, names, made, **how)], "g", info, out)
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def as_function(made: onnx.ModelProto) -> onnx.ModelProto:
    """The model whose node calls the schema's own body as a function of the model."""
    (node,), opset = made.graph.node, made.opset_import[0].version
    schema: Any = onnx.defs.get_schema(node.op_type, opset)
    types = {x.name: x.type.SerializeToString() for x in made.graph.input}
    absent = TypeProto().SerializeToString()
    version = max(v for v in schema.context_dependent_function_opset_versions if v <= opset)
    data = schema.get_context_dependent_function_with_opset_version(
        version, node.SerializeToString(), [types.get(n, absent) for n in node.input]
    )
    body = onnx.FunctionProto.FromString(data)
    body.domain, body.name = "local", "Body"
    called = helper.make_node("Body", list(node.input), list(node.output), domain="local")
    called.attribute.extend(a for a in node.attribute if a.name in body.attribute)
    graph = helper.make_graph([called], "g", made.graph.input, made.graph.output)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=[body], ir_version=10)


def ran(made: onnx.ModelProto, feeds: Feeds, engine: str) -> list[bytes]:
    """The outputs of a run."""
    given = {n: v for n, v in feeds.items() if v is not None}
    outputs = make_engine(load(made.SerializeToString()), engine).run(given)
    return [np.asarray(y).tobytes() for y in outputs.values()]
