"""Loads at places that weights decide do not trap where all of them are inside."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from nets import Net
from test_passes import check, outputs, values

from sardonyx.errors import RunError
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.kernel.expr import Load, Where
from sardonyx.kernel.ir import expressions, statements
from sardonyx.kernel.verify import settle
from sardonyx.kernel.walk import walk
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.places import known_places
from sardonyx.passes.program import Program

AT = np.array([[2, -1, 0], [1, 3, -4]])
TUPLES = np.array([[0, -1], [3, 4], [-4, 0]])
READING: list[tuple[str, Any, dict[str, Any]]] = [
    ("Gather", np.array(-1), {"axis": 1}),
    ("Gather", np.array([1, 2, 3]), {"axis": 1}),
    ("Gather", np.array([3, 1, -3, 2]), {"axis": 0}),
    ("Gather", AT, {"axis": 1}),
    ("GatherElements", AT, {"axis": 0}),
    ("GatherND", TUPLES, {}),
    ("GatherND", TUPLES.reshape(3, 2)[:, :1], {}),
]


def loads(program: Program) -> list[Load]:
    bodies = [s for launch in program.launches for s in statements(launch.kernel.body)]
    return [e for s in bodies for e in walk(*expressions(s)) if isinstance(e, Load)]


def reading(op: str, at: np.ndarray, **attributes: Any) -> Net:
    net = Net()
    net.give(net.op(op, net.feed("x", values(1, 4, 5)), at, **attributes))
    return net


@pytest.mark.parametrize(("op", "at", "attributes"), READING)
def test_places_inside_are_proven(op: str, at: np.ndarray, attributes: dict[str, Any]) -> None:
    net = reading(op, at, **attributes)
    assert any(e.mode == "trap" for e in loads(lower(net.graph())))
    (launch,), (found,) = check(net).launches, known_places(lower(net.graph())).launches
    assert settle(found.kernel)[1] == 0
    nodes = list(walk(*(e for s in statements(launch.kernel.body) for e in expressions(s))))
    assert not any(isinstance(e, Where) for e in nodes)
    assert all(e.mode == "proven" for e in nodes if isinstance(e, Load))


def test_features_that_are_extracted_are_proven() -> None:
    net, at = Net(opsets={"": 18, "ai.onnx.ml": 3}), np.array([0, 4, 1])
    x = net.feed("x", values(1, 4, 5))
    node = onnx.helper.make_node(
        "ArrayFeatureExtractor", [x, net.weight(at)], ["y"], domain="ai.onnx.ml"
    )
    net.nodes.append(node)
    net.give(net.op("Neg", "y"))
    assert len(check(net).launches) == 1


@pytest.mark.parametrize("at", [5, -6])
def test_places_outside_are_errors_of_the_run(at: int) -> None:
    net = reading("Gather", np.array([0, at, 1]), axis=1)
    program = lower(net.graph())
    for each in program, optimise(program):
        with pytest.raises(RunError, match="out of bounds"):
            outputs(each, net.feeds)


@pytest.mark.parametrize(("at", "mode"), [(0, "proven"), (-1, "proven"), (1, "trap"), (-2, "trap")])
def test_places_along_what_has_no_size_yet(at: int, mode: str) -> None:
    """Each size is 1 or more."""
    program = known_places(lower(reading("Gather", np.array(at)).graph("n")))
    assert [e.mode for e in loads(program) if e.buffer.shape] == [mode]


def test_places_that_are_fed_are_left() -> None:
    net = Net()
    net.give(net.op("Gather", net.feed("x", values(1, 4, 5)), net.feed("at", AT), axis=1))
    assert any(e.mode == "trap" for e in loads(check(net)))


def test_threads_share_rows_at_known_places() -> None:
    net, at = Net(), np.random.default_rng(0).integers(-1000, 1000, 3000)
    net.give(net.op("Gather", net.feed("x", values(1, 1000, 64)), at))
    before, after = lower(net.graph()), optimise(lower(net.graph()))
    shares = [print_scheduled(p.launches[0].kernel, threads=True).shares for p in (before, after)]
    assert shares == [False, True]
