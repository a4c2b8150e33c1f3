"""Protobuf to the graph G: names, opsets, functions, types, inputs and outputs.

    graph = resolve("net.onnx")
    graph = graph_from_nodes([make_node("Relu", ["x"], ["y"])], types={"x": TensorType(...)})

The last layer that sees protobuf. What it accepts is acyclic, single-assignment and typed; what it
refuses, it refuses with one ModelError that names the model, the culprit and the rule.
"""

from sardonyx.resolve.boundary import Boundary, boundary
from sardonyx.resolve.nodes import graph_from_nodes
from sardonyx.resolve.pipeline import resolve, value_types

__all__ = [
    "Boundary",
    "boundary",
    "graph_from_nodes",
    "resolve",
    "value_types",
]
