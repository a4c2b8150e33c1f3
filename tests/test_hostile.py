"""Models of the ONNX node suite with a mistake in them: one of our errors, or a result."""

from __future__ import annotations

import random
import signal
import warnings
from functools import cache

import numpy as np
import pytest
from onnx import AttributeProto, ModelProto, NodeProto, parser
from onnx.backend.test.loader import load_model_tests

from sardonyx.errors import (
    InternalError,
    InvalidModel,
    LimitExceeded,
    SardonyxError,
    UnsupportedModel,
)
from sardonyx.graph import Graph
from sardonyx.machine import Machine
from sardonyx.model import Limits
from sardonyx.ops import control
from sardonyx.ops.text import _grams
from sardonyx.resolve import resolve
from sardonyx.types import Array

INTS = [0, 1, -1, 2, -2, 7, 16, 17, -8, 255, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63), 10**6]
FLOATS = [float("nan"), float("inf"), 0.0, -1.0, 1e30]
TEXTS = [b"", b"SAME_UPPER", b"constant", b"xx", b"\xff"]
SIZES = [0, 1, 2, 3, 5, 17, 10**6, 2**40]
CODES = [1, 2, 3, 6, 7, 9, 10, 11, 13, 16]


@cache
def models() -> tuple[ModelProto, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite's own arithmetic
        return tuple(c.model for c in load_model_tests(kind="node") if c.model is not None)


def spoil_attribute(a: AttributeProto, chance: random.Random) -> None:
    match a.type:
        case AttributeProto.INT:
            a.i = chance.choice(INTS)
        case AttributeProto.FLOAT:
            a.f = chance.choice(FLOATS)
        case AttributeProto.STRING:
            a.s = chance.choice(TEXTS)
        case AttributeProto.INTS:
            if a.ints and chance.random() < 0.7:
                a.ints[chance.randrange(len(a.ints))] = chance.choice(INTS)
            else:
                a.ints.append(chance.choice(INTS))


def spoil_input(model: ModelProto, chance: random.Random) -> None:
    tensor = chance.choice(list(model.graph.input)).type.tensor_type
    dims = tensor.shape.dim
    match chance.randrange(4):
        case 0 if dims:
            chance.choice(list(dims)).dim_value = chance.choice(SIZES)
        case 1 if dims:
            del dims[-1]
        case 2:
            dims.add().dim_value = chance.choice(SIZES[:4])
        case _:
            tensor.elem_type = chance.choice(CODES)


def spoil(model: ModelProto, chance: random.Random) -> None:
    node: NodeProto = chance.choice(list(model.graph.node))
    match chance.randrange(7):
        case 0 | 1 | 2 if node.attribute:
            spoil_attribute(chance.choice(list(node.attribute)), chance)
        case 3 if node.input:
            names = ["", *(v.name for v in model.graph.input)]
            node.input[chance.randrange(len(node.input))] = chance.choice(names)
        case 4 if node.input:
            del node.input[-1]
        case 5:
            node.output.append("extra")
        case _ if model.graph.input:
            spoil_input(model, chance)
    for output in model.graph.output:
        if chance.random() < 0.7 and output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")


def feeds(graph: Graph, chance: random.Random) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for name in graph.inputs:
        if name not in graph.types:
            raise UnsupportedModel(name)
        tensor = graph.types[name]
        shape = [d if isinstance(d, int) else 2 for d in tensor.shape or ()]
        if np.prod(shape, dtype=float) > 1e6:
            raise LimitExceeded(name)
        value = chance.choice([0, 1, -1, 3])
        found[name] = np.full(shape, value).astype(tensor.dtype.numpy)
    return found


@pytest.fixture(autouse=True)
def short_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Loop that never ends stops after 1000 trips: 10 million take hours on the machine."""
    monkeypatch.setattr(control, "TRIPS", 1000)


def survive(seed: int, number: int) -> None:
    chance = random.Random(seed)
    for _ in range(number):
        model = ModelProto()
        model.CopyFrom(chance.choice(models()))
        spoil(model, chance)
        try:
            graph = resolve(model, Limits(type_seconds=10))
            run_a_minute(Machine(graph, limit=1 << 28), feeds(graph, chance))
        except InternalError:
            raise
        except SardonyxError:
            continue


def run_a_minute(machine: Machine, given: dict[str, Array]) -> None:
    """A run that is given up after a minute: Unique of a million takes the machine more than an
    hour, and is no mistake of its."""

    def late(*_: object) -> None:
        raise LimitExceeded("a minute is over")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    try:
        machine.run(given)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def test_a_model_with_a_mistake_gives_one_of_our_errors_or_a_result() -> None:
    survive(0, 250)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 9))
def test_many_models_with_mistakes_give_our_errors_or_results(seed: int) -> None:
    survive(seed, 1500)


def test_skips_beyond_a_row_cost_nothing() -> None:
    """An attribute counts what is not there: what a row has bounds the work."""
    assert _grams([1, 2, 3], -(1 << 62), 1 << 62, 1 << 62) == [
        (1,), (2,), (3,), (1, 2), (2, 3), (1, 3), (1, 2, 3)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "nodes"),
    [
        ("Max", 'y = Max(x, "", x)'),
        ("Concat", 'y = Concat<axis=0>(x, "", x)'),
        ("Sum", 'y = Sum("", x)'),
        ("SequenceConstruct", 's = SequenceConstruct(x, "", x) y = SequenceLength(s)'),
    ],
)
def test_one_of_many_inputs_may_not_be_left_out(name: str, nodes: str) -> None:
    kind = "int64" if name.startswith("Seq") else "float[N]"
    model = parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 18]> g (float[2] x) => ({kind} y) {{ {nodes} }}'
    )
    with pytest.raises(InvalidModel, match=name):
        Machine(resolve(model)).run({"x": np.zeros(2, np.float32)})
