"""Graphs that are written down node by node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import NodeProto

from sardonyx import types as t
from sardonyx.dims import symbol
from sardonyx.graph import Graph
from sardonyx.machine import Machine
from sardonyx.native import NativeEngine
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.resolve import graph_from_nodes
from sardonyx.settings import Numerics
from sardonyx.types import Array, DType, TensorType


@dataclass(slots=True)
class Net:
    """A graph that is being written down: nodes, weights, inputs with a value, outputs."""

    nodes: list[NodeProto] = field(default_factory=list)
    weights: dict[str, Array] = field(default_factory=dict)
    feeds: dict[str, Array] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    numerics: Numerics = "default"
    opsets: dict[str, int] | None = None

    def op(self, op_type: str, *inputs: str | Array, count: int = 1, **attributes: Any) -> Any:
        """Adds a node; the name of its output, or the names of its `count` outputs. Arrays become
        weights."""
        number = len(self.nodes)
        names = [x if isinstance(x, str) else self.weight(x) for x in inputs]
        made = [f"{op_type}{number}_{i}" for i in range(count)]
        node = onnx.helper.make_node(op_type, names, made, f"{op_type}{number}", **attributes)
        self.nodes.append(node)
        return made[0] if count == 1 else made

    def weight(self, value: Array) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = np.asarray(value)
        return name

    def feed(self, name: str, value: Array) -> str:
        self.feeds[name] = value
        return name

    def give(self, *names: str) -> None:
        """Makes tensors outputs."""
        self.outputs += names

    def graph(self, batch: str = "", sizes: Mapping[int, str] | None = None) -> Graph:
        """The graph; batch: a symbol for the first dimension of each input; sizes: symbols for the
        others that are these numbers."""
        named = {n: symbol(name) for n, name in (sizes or {}).items()}
        first = (symbol(batch),) if batch else ()
        shapes = {
            n: (*first, *(named.get(d, d) for d in v.shape[len(first) :]))
            for n, v in self.feeds.items()
        }
        types = {n: TensorType(_dtype(v), shapes[n]) for n, v in self.feeds.items()}
        return graph_from_nodes(
            self.nodes,
            self.weights,
            inputs=list(self.feeds),
            outputs=self.outputs,
            types=types,
            opsets=self.opsets,
            numerics=self.numerics,
        )


def merged(nets: Mapping[str, Net]) -> Net:
    """Several graphs as one; the names of each begin with its key and a dot."""
    out = Net()
    for key, net in nets.items():
        for node in net.nodes:
            copy = NodeProto()
            copy.CopyFrom(node)
            copy.input[:] = [f"{key}.{n}" if n else "" for n in node.input]
            copy.output[:] = [f"{key}.{n}" for n in node.output]
            copy.name = f"{key}.{node.name}"
            out.nodes.append(copy)
        out.weights |= {f"{key}.{n}": v for n, v in net.weights.items()}
        out.feeds |= {f"{key}.{n}": v for n, v in net.feeds.items()}
        out.outputs += [f"{key}.{n}" for n in net.outputs]
    return out


def _dtype(value: Array) -> DType:
    found = t.by_numpy(value.dtype)
    assert found is not None
    return found


def check_any_batch(net: Net) -> None:
    """Asserts that where the batch is a symbol there are the launches that there are where it is a
    number, and the same bytes."""
    programs = [optimise(lower(net.graph(batch)), roomy=True) for batch in ("", "N")]
    names = [[launch.kernel.name for launch in program.launches] for program in programs]
    assert names[0] == names[1]
    want, found = (NativeEngine(net.graph(batch)).run(net.feeds) for batch in ("", "N"))
    wrong = [n for n in net.outputs if found[n].tobytes() != want[n].tobytes()]
    assert not wrong


def check_engines(net: Net) -> None:
    """Asserts that the schedules and plain loops give the machine's bytes."""
    graph = net.graph()
    expected = Machine(graph).run(net.feeds)
    for schedule in (True, False):
        found = NativeEngine(graph, schedule=schedule).run(net.feeds)
        wrong = [n for n in graph.outputs if found[n].tobytes() != expected[n].tobytes()]
        assert not wrong, (schedule, wrong)
