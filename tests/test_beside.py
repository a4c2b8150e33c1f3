"""Loops of one kernel that run at the same time: which may, and that no byte depends on it."""

from __future__ import annotations

import numpy as np
import pytest
from nets import Net
from test_schedule import fed, values

from sardonyx import types as t
from sardonyx.emit import model
from sardonyx.graph import Graph
from sardonyx.kernel.c99 import beside as loops
from sardonyx.kernel.c99 import share
from sardonyx.kernel.c99.beside import beside
from sardonyx.kernel.expr import Axis, Buffer, Expr, Load, lift
from sardonyx.kernel.ir import For, Kernel, Stmt, Store
from sardonyx.native import NativeEngine
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.types import Array

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@pytest.fixture(autouse=True)
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that can be shared out is, however little work it is."""
    for module in (share, loops, model):
        monkeypatch.setattr(module, "UNIT", 64)


def recurrent(op: str, direction: str, batch: int = 2) -> tuple[Graph, dict[str, Array]]:
    rng, net = np.random.default_rng(3), Net()
    count, inner = 2 if direction == "bidirectional" else 1, 24
    x, rows = fed(net, rng, 9, batch, 20), GATES[op] * inner
    given = values(rng, count, rows, 20), values(rng, count, rows, inner)
    y = net.op(op, x, *given, values(rng, count, 2 * rows), count=2, hidden_size=inner,
               direction=direction)  # fmt: skip
    net.give(*y)
    return net.graph(), net.feeds


def groups(graph: Graph) -> list[int]:
    """How many loops stand together, where several do."""
    found = (len(g) for x in optimise(lower(graph)).launches for g in beside(x.kernel))
    return [n for n in found if n > 1]


@pytest.mark.parametrize("op", GATES)
def test_both_directions_run_at_the_same_time(op: str) -> None:
    assert groups(recurrent(op, "bidirectional")[0]) == [2]
    assert groups(recurrent(op, "reverse")[0]) == []


@pytest.mark.parametrize("op", GATES)
@pytest.mark.parametrize("batch", [1, 3])
def test_bytes_do_not_depend_on_threads(op: str, batch: int) -> None:
    graph, feeds = recurrent(op, "bidirectional", batch)
    want = NativeEngine(graph, schedule=False).run(feeds)
    for count in (1, 2, 3):
        found = NativeEngine(graph, threads=count).run(feeds)
        assert all(found[n].tobytes() == y.tobytes() for n, y in want.items())


def kernel(*places: tuple[int, int, int]) -> Kernel:
    """For each (step, first, read): y[step * a + first] = y[read] for all a."""
    y, body = Buffer("y", t.int64, (4096,)), list[Stmt]()
    for step, first, read in places:
        a = Axis("a", 512)
        index: Expr = a * step + first
        body.append(For(a, (Store(y, (index,), Load(y, (lift(read),)), proven=True),)))
    return Kernel("loops", (), (y,), (), (), tuple(body))


@pytest.mark.parametrize(
    ("places", "together"),
    [
        (((2, 0, 0), (2, 1, 1)), [2]),
        (((2, 0, 0), (2, 1, 4)), [1, 1]),  # the second reads what the first writes
        (((2, 0, 3), (2, 1, 1)), [1, 1]),  # the first reads what the second writes
        (((2, 0, 0), (4, 2, 2)), [1, 1]),  # 2, 6, 10, ... are written by both
        (((4, 0, 0), (4, 1, 1), (4, 3, 3)), [3]),
        (((4, 0, 0), (4, 1, 1), (4, 1, 1)), [2, 1]),
    ],
)
def test_loops_that_touch_the_same_element_stay_in_order(
    places: tuple[tuple[int, int, int], ...], together: list[int]
) -> None:
    assert [len(g) for g in beside(kernel(*places))] == together
