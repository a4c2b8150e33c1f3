"""Sardonyx as an onnx.backend.base.Backend.

    from sardonyx import backend
    backend.prepare(model).run([x])

SARDONYX_ENGINE=machine|native picks the engine; by default it is native where there is a compiler.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

from sardonyx.engines import make_engine
from sardonyx.errors import FeedError
from sardonyx.graph import Graph
from sardonyx.model import Limits, Source
from sardonyx.resolve import graph_from_nodes, resolve
from sardonyx.settings import Kind
from sardonyx.types import Array, TensorType, Value, by_numpy


class SardonyxRep(BackendRep):
    """A model made ready to run."""

    def __init__(self, graph: Graph, engine: Kind = "auto") -> None:
        self.graph = graph
        self._engine = make_engine(graph, engine)

    @property
    def engine(self) -> str:
        """The engine that runs it: "machine" or "native"."""
        return self._engine.name

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs, also under their names, for arrays in the order of the model's inputs, a
        dict of them by name, or one array where the model has one input. Raises FeedError."""
        found = self._engine.run(_named(self.graph, inputs))
        kind = namedtupledict("Outputs", list(self.graph.outputs))
        return kind(*(found[name] for name in self.graph.outputs))


class SardonyxBackend(Backend):
    """The functions below, as onnx's test runner wants them."""

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Whether `prepare` would take the model is found out by `prepare`."""
        return cls.supports_device(device)

    @classmethod
    def prepare(
        cls,
        model: Source,
        device: str = "CPU",
        *,
        engine: Kind = "auto",
        limits: Limits | None = None,
        **kwargs: Any,
    ) -> SardonyxRep:
        """The model made ready to run. Raises ModelError where it cannot be used."""
        _check_device(device)
        return SardonyxRep(resolve(model, limits, qdq="integer"), engine)

    @classmethod
    def run_model(
        cls, model: Source, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple[Any, ...]:
        """prepare, then run."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """The outputs of one node, of the newest operator set unless opset_version=... says."""
        _check_device(device)
        opset = kwargs.pop("opset_version", None)
        names = list(dict.fromkeys(filter(None, node.input)))
        if not isinstance(inputs, Mapping) and len(inputs) != len(names):
            raise FeedError(f"{len(inputs)} inputs are given; the node has {', '.join(names)}")
        given = inputs if isinstance(inputs, Mapping) else dict(zip(names, inputs, strict=True))
        feeds = {name: _array(name, value) for name, value in given.items()}
        opsets = None if opset is None else {node.domain: opset}
        types = {name: _type_of(name, value) for name, value in feeds.items()}
        graph = graph_from_nodes([node], types=types, opsets=opsets)
        return SardonyxRep(graph, kwargs.get("engine", "auto")).run(feeds)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Only the CPU."""
        try:
            return bool(Device(device).type == DeviceType.CPU)
        except (AttributeError, ValueError):
            return False


def _check_device(device: str) -> None:
    if not SardonyxBackend.supports_device(device):
        raise ValueError(f"the device '{device}' is not supported; Sardonyx runs on the CPU")


def _type_of(name: str, value: Array) -> TensorType:
    dtype = by_numpy(value.dtype)
    if dtype is None:
        raise FeedError(f"'{name}' is fed with {value.dtype}, which Sardonyx does not have")
    return TensorType(dtype, value.shape)


def _named(graph: Graph, inputs: Any) -> dict[str, Value]:
    """The feeds by name."""
    if isinstance(inputs, Mapping):
        return {name: _value(graph, name, value) for name, value in inputs.items()}
    if isinstance(inputs, np.ndarray):
        inputs = [inputs]
    names = (*graph.inputs, *graph.overridable)
    if not len(graph.inputs) <= len(inputs) <= len(names):
        raise FeedError(f"{len(inputs)} inputs are given; the model has {', '.join(names)}")
    return {name: _value(graph, name, x) for name, x in zip(names, inputs, strict=False)}


def _value(graph: Graph, name: str, value: Value) -> Value:
    return value if name in graph.containers else _array(name, value)


def _array(name: str, value: Any) -> Array:
    try:
        return np.asarray(value)
    except ValueError as error:
        raise FeedError(f"'{name}' is fed with what is no array: {error}") from error


is_compatible = SardonyxBackend.is_compatible
prepare = SardonyxBackend.prepare
run_model = SardonyxBackend.run_model
run_node = SardonyxBackend.run_node
supports_device = SardonyxBackend.supports_device
