"""The two models of each rule. Most are ONNX text of a graph; what text cannot say, is made.

`model(sample)` completes a text: header, metadata, names of nodes and types of inner tensors, so
that a sample shows nothing but what its rule is about.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, Union

import onnx
import onnx.parser
import onnx.shape_inference
from onnx import ModelProto

OPSET = 25
IR_VERSION = 10


@dataclass(frozen=True, slots=True)
class Files:
    """A model with the files that lie beside it, by name."""

    model: bytes
    beside: Mapping[str, bytes] = field(default_factory=dict)


Sample: TypeAlias = Union[str, Callable[[], Union[ModelProto, Files]]]


def model(text: str, opset: int = OPSET, profile: str = "sonnx") -> ModelProto:
    """The complete model of a graph in ONNX text."""
    graph = onnx.parser.parse_graph(text)
    made = onnx.helper.make_model(
        graph, ir_version=IR_VERSION, opset_imports=[onnx.helper.make_opsetid("", opset)]
    )
    edge = {v.name: "a number" for v in (*graph.input, *graph.output)}
    about = {"sonnx.profile": profile, "sonnx.replication": "exact", "sonnx.io": json.dumps(edge)}
    onnx.helper.set_model_props(made, about)
    complete(made)
    return made


def complete(made: ModelProto) -> None:
    """Names the nodes without a name, and states the types that ONNX infers."""
    graph = made.graph
    for index, node in enumerate(graph.node):
        if not node.name:
            node.name = f"{node.op_type.lower()}_{index}"
    try:
        inferred = onnx.shape_inference.infer_shapes(made, strict_mode=True, data_prop=True).graph
    except onnx.shape_inference.InferenceError:
        return
    stated = {v.name for v in (*graph.value_info, *graph.input, *graph.output)}
    graph.value_info.extend(v for v in inferred.value_info if v.name not in stated)


def build(sample: Sample) -> Files:
    """A sample's files."""
    made = model(sample) if isinstance(sample, str) else sample()
    return made if isinstance(made, Files) else Files(made.SerializeToString())
