"""Recurrent networks of many rows: which are taken a block of rows at a time, that threads share
out the blocks, and that no byte depends on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nets import Net
from test_schedule import fed, values

from sardonyx.emit import model
from sardonyx.errors import RunError
from sardonyx.graph import Graph
from sardonyx.kernel.c99 import beside, share
from sardonyx.kernel.c99.print_product import packed_product
from sardonyx.kernel.c99.share import share_of_loop
from sardonyx.kernel.ir import Compute, For, If, Kernel, Stmt, statements
from sardonyx.machine import Machine
from sardonyx.native import NativeEngine
from sardonyx.passes import sequences
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.types import Array

STEPS, INPUT, HIDDEN = 5, 12, 20
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
BOTH = {"direction": "bidirectional"}
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "lstm": ("LSTM", {}),
    "gru": ("GRU", {"linear_before_reset": 1, "direction": "reverse"}),
    "rnn": ("RNN", {**BOTH, "activations": ["Relu", "Tanh"]}),
    "lstm-batch-first": ("LSTM", {**BOTH, "layout": 1, "clip": 0.4}),
    "gru-batch-first": ("GRU", {"layout": 1}),
    "lstm-coupled": ("LSTM", {"input_forget": 1, "direction": "reverse"}),
    "rnn-batch-first": ("RNN", {"layout": 1}),
}


@pytest.fixture
def small_units(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that can be shared out is, however little work it is."""
    for module in (share, beside, model):
        monkeypatch.setattr(module, "UNIT", 64)


def network(form: str, batch: int, full: bool = False) -> tuple[Graph, dict[str, Array]]:
    """full: with a bias, lengths, a state before the first step, and what an LSTM has besides."""
    (op, options), rng, net = FORMS[form], np.random.default_rng(3), Net()
    count, first = (2 if options.get("direction") == "bidirectional" else 1), options.get("layout")
    rows, cells = GATES[op] * HIDDEN, 2 if op == "LSTM" else 1
    x = fed(net, rng, *((batch, STEPS, INPUT) if first else (STEPS, batch, INPUT)))
    given: list[Any] = [values(rng, count, rows, INPUT), values(rng, count, rows, HIDDEN)]
    if full:
        lengths = net.feed("lengths", rng.integers(0, STEPS + 1, batch).astype(np.int32))
        shape = (batch, count, HIDDEN) if first else (count, batch, HIDDEN)
        given += [values(rng, count, 2 * rows), lengths, *(values(rng, *shape),) * cells]
        given += [values(rng, count, 3 * HIDDEN)] if op == "LSTM" else []
    net.give(*net.op(op, x, *given, count=1 + cells, hidden_size=HIDDEN, **options))
    return net.graph(), net.feeds


def turn(loop: For) -> tuple[Stmt, ...]:
    """What a turn of a loop does, whether or not any row has the step."""
    match loop.body:
        case (If(_, then, ()),):
            return then
    return loop.body


def loops(graph: Graph, first: type) -> list[tuple[Kernel, For]]:
    """The loops that compute something, whose turns begin with such a statement."""
    kernels = [x.kernel for x in optimise(lower(graph)).launches]
    found = [(k, s) for k in kernels for s in k.body if isinstance(s, For)]
    computing = [(k, s) for k, s in found if any(isinstance(x, Compute) for x in statements((s,)))]
    return [(k, s) for k, s in computing if isinstance(turn(s)[0], first)]


def products(block: For) -> int:
    """How many products a step of a block takes, with what is packed."""
    (steps,) = block.body
    assert isinstance(steps, For)
    return sum(isinstance(x, Compute) and packed_product(x) is not None for x in turn(steps))


@pytest.mark.parametrize("full", [False, True], ids=["plain", "full"])
@pytest.mark.parametrize("form", FORMS)
def test_threads_share_out_the_blocks(form: str, full: bool, small_units: None) -> None:
    """Of what runs back from the length of each row, a turn reads another step of each: the
    products of the input are made for all steps."""
    direction = FORMS[form][1].get("direction", "forward")
    ahead, back = direction != "reverse", direction != "forward"
    split, left = (loops(network(form, 16, full)[0], kind) for kind in (For, Compute))
    assert (len(split), len(left)) == (ahead + back, 0)
    own = 2 if form == "gru-batch-first" else 1
    assert [products(s) for _, s in split] == [own + 1] * ahead + [own + (not full)] * back
    for kernel, s in split:
        assert s.axis.extent == 2
        assert share_of_loop(s, kernel) is not None


@pytest.mark.parametrize("form", FORMS)
def test_steps_that_no_row_has_are_left_out(form: str) -> None:
    found = loops(network(form, 2, full=True)[0], Compute)
    assert found
    assert all(isinstance(s.body[0], If) for _, s in found)


@pytest.mark.parametrize("lengths", [[0, 0], [3, 1], [0, 5], [-1, 2], [5, 9]], ids=str)
@pytest.mark.parametrize("op", GATES)
def test_lengths_of_any_kind_give_the_machine_s_bits(op: str, lengths: list[int]) -> None:
    net, rng = Net(), np.random.default_rng(4)
    x = fed(net, rng, STEPS, 2, INPUT)
    weights = (values(rng, 1, GATES[op] * HIDDEN, n) for n in (INPUT, HIDDEN))
    given = net.feed("lengths", np.array(lengths, np.int32))
    net.give(*net.op(op, x, *weights, "", given, count=2, hidden_size=HIDDEN))
    found, want = NativeEngine(net.graph()).run(net.feeds), Machine(net.graph()).run(net.feeds)
    assert all(found[n].tobytes() == np.asarray(y).tobytes() for n, y in want.items())


def test_a_length_beyond_the_steps_is_an_error_from_the_end_on() -> None:
    graph, feeds = network("lstm-coupled", 3, full=True)
    lengths = np.array([2, STEPS + 1, 0], np.int32)
    for engine in (NativeEngine(graph), Machine(graph)):
        with pytest.raises(RunError):
            engine.run({**feeds, "lengths": lengths})


@pytest.mark.parametrize("batch", [1, 11])
def test_few_rows_go_together(batch: int) -> None:
    assert loops(network("lstm", batch)[0], For) == []


@pytest.mark.parametrize(("room", "count"), [(INPUT + HIDDEN, 2), (HIDDEN, 1), (HIDDEN - 1, 0)])
def test_blocks_read_weights_that_stay_near(
    room: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few, the products of the input are those of a step; with many, there are no blocks."""
    monkeypatch.setattr(sequences, "ROOM", 4 * HIDDEN * room * 4)
    split = [s for _, s in loops(network("lstm", 16)[0], For)]
    assert [products(s) for s in split] == ([count] if count else [])


@pytest.mark.parametrize(
    ("rows", "each"),
    [
        (12, 6),
        (14, 7),
        (16, 8),
        (17, 17),
        (24, 12),
        (27, 27),
        (32, 8),
        (40, 10),
        (64, 16),
        (100, 25),
        (128, 32),
    ],
)
def test_blocks_are_even_in_number(rows: int, each: int) -> None:
    assert sequences.rows_of(rows) == each


@pytest.mark.parametrize(
    ("form", "batch", "full"),
    [
        ("lstm", 16, False),
        ("lstm-batch-first", 16, True),
        *(
            pytest.param(form, batch, full, marks=pytest.mark.slow)
            for form in FORMS
            for batch, full in ((16, True), (17, False))
        ),
    ],
)
def test_bytes_depend_neither_on_blocks_nor_on_threads(
    form: str, batch: int, full: bool, small_units: None
) -> None:
    graph, feeds = network(form, batch, full)
    want = NativeEngine(graph, schedule=False).run(feeds)
    for count in (1, 2, 3):
        found = NativeEngine(graph, threads=count).run(feeds)
        assert all(found[n].tobytes() == y.tobytes() for n, y in want.items())
