"""The machine on small graphs: its state, its order, its memory and its errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import DEFINITIONS, DOMAIN, ROW, graph, numbers

from sardonyx import types as t
from sardonyx.dims import symbol
from sardonyx.errors import (
    FeedError,
    InvalidModel,
    LimitExceeded,
    RunError,
    UnsupportedModel,
)
from sardonyx.graph import Graph
from sardonyx.machine import Machine
from sardonyx.ops import registry
from sardonyx.types import Array, TensorType


@pytest.fixture(autouse=True, scope="module")
def _operators() -> Iterator[None]:
    """The operators above are in the registry while these tests run."""
    with pytest.MonkeyPatch.context() as patch:
        for name, define in DEFINITIONS.items():
            made = registry.Operator(DOMAIN, name, 1, define, "exact")
            patch.setitem(registry._REGISTRY, (DOMAIN, name, 1), made)
        yield


DIAMOND: list[ROW] = [
    ("Add", "x w", "a"),
    ("Relabel", "a", "v"),
    ("Twist", "v x", "b"),
    ("Add", "a b", "c"),
    ("Add", "c c", "y"),
]


def diamond() -> Graph:
    return graph(DIAMOND, "x", "y", {"w": numbers(2, 3, seed=1)})


def expected(x: Array) -> Array:
    a = x + numbers(2, 3, seed=1)
    c = a + a[::-1] * x
    return c + c


def test_the_outputs_are_what_the_operators_say() -> None:
    x = numbers(2, 3)
    found = Machine(diamond()).run({"x": x})
    assert list(found) == ["y"]
    np.testing.assert_array_equal(found["y"], expected(x))


@pytest.mark.parametrize("no_reuse", [False, True])
@pytest.mark.parametrize("byte", [0xA5, 0xFF])
def test_results_do_not_depend_on_uninitialised_memory(byte: int, no_reuse: bool) -> None:
    x = numbers(2, 3)
    found = Machine(diamond(), poison=byte, no_reuse=no_reuse).run({"x": x})
    assert found["y"].tobytes() == expected(x).tobytes()


def test_each_step_says_what_it_reads_and_writes() -> None:
    machine = Machine(diamond()).start({"x": numbers(2, 3)})
    records = list(machine)
    assert [r.number for r in records] == [0, 1, 2, 3, 4]
    assert [[a.name for a in r.reads] for r in records][2:] == [["v", "x"], ["a", "b"], ["c"]]
    for record in records:
        for access in (*record.reads, *record.writes):
            entry = machine.table[access.name]
            assert access.offset == entry.offset
            assert access.offset % 64 == 0
            assert access.shape == (2, 3)
            assert access.dtype is t.float32


def test_only_inputs_and_initializers_have_values_at_the_start() -> None:
    machine = Machine(diamond()).start({"x": numbers(2, 3)})
    assert machine.state.valued == {"x", "w"}
    assert machine.outputs == {}
    with pytest.raises(RunError, match="'a' has no value"):
        machine.value("a")
    machine.step()
    assert machine.state.valued == {"x", "w", "a"}
    assert machine.state.counter == 1


def test_a_tensor_that_is_dead_cannot_be_read() -> None:
    machine = Machine(diamond()).start({"x": numbers(2, 3)})
    list(machine)
    with pytest.raises(RunError, match="'a' is dead since step 3"):
        machine.value("a")


def test_a_step_that_was_not_taken_can_be_looked_at() -> None:
    machine = Machine(diamond()).start({"x": numbers(2, 3)})
    ahead = machine.peek()
    done = machine.step()
    assert ahead is not None
    assert done is not None
    assert (ahead.number, ahead.writes) == (done.number, done.writes)


def test_views_and_in_place_steps_take_no_memory() -> None:
    machine = Machine(diamond()).start({"x": numbers(2, 3)})
    table = machine.table
    assert table["v"].offset == table["a"].offset
    assert table["c"].offset in (table["a"].offset, table["b"].offset)
    assert machine.plan.size == machine.plan.lower_bound == len(machine.memory)


def test_memory_starts_at_a_multiple_of_64_bytes() -> None:
    assert Machine(diamond()).start({"x": numbers(2, 3)}).memory.ctypes.data % 64 == 0


def test_outputs_are_copies() -> None:
    machine = Machine(diamond()).start({"x": numbers(2, 3)})
    list(machine)
    first = machine.outputs["y"].copy()
    machine.outputs["y"][...] = 0
    machine.memory[...] = machine.memory
    assert machine.outputs["y"].tobytes() == first.tobytes()


def test_feeds_are_not_written_to() -> None:
    x = numbers(2, 3)
    kept = x.copy()
    Machine(diamond()).run({"x": x})
    assert x.tobytes() == kept.tobytes()


def test_a_machine_starts_again() -> None:
    machine = Machine(diamond())
    for seed in (0, 3):
        x = numbers(2, 3, seed=seed)
        np.testing.assert_array_equal(machine.run({"x": x})["y"], expected(x))


@st.composite
def dags(draw: st.DrawFn) -> tuple[Graph, list[list[int]]]:
    """A random graph of up to 10 operations, and three permutations of them."""
    rows: list[ROW] = []
    names = ["x", "w"]
    for k in range(draw(st.integers(1, 10))):
        kind = draw(st.sampled_from(["Add", "Twist", "Relabel", "Both"]))
        count = 2 if kind in ("Add", "Twist") else 1
        ins = [draw(st.sampled_from(names)) for _ in range(count)]
        outs = [f"t{k}", f"u{k}"][: 2 if kind == "Both" else 1]
        rows.append((kind, " ".join(ins), " ".join(outs)))
        names += outs
    outputs = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))
    orders = [draw(st.permutations(range(len(rows)))) for _ in range(3)]
    made = graph(rows, "x", " ".join([*outputs, names[-1]]), {"w": numbers(2, 3, seed=1)})
    return made, orders


def order_of(machine: Machine) -> list[int]:
    return [r.operation.origin.path[0] for r in machine]


@given(dags())
@settings(max_examples=30)
def test_order_does_not_matter(case: tuple[Graph, list[list[int]]]) -> None:
    """T4: random linear extensions, with a plan without reuse and with the plan of that order."""
    made, orders = case
    feeds = {"x": numbers(2, 3)}
    wanted = Machine(made, no_reuse=True).run(feeds)
    for order in orders:
        for options in ({"no_reuse": True}, {"poison": 0xFF}):
            found = Machine(made, order=order, **options).run(feeds)
            assert {n: v.tobytes() for n, v in found.items()} == {
                n: v.tobytes() for n, v in wanted.items()
            }


def test_the_first_executable_operation_of_the_order_is_next() -> None:
    rows: list[ROW] = [("Relabel", "x", "a"), ("Relabel", "x", "b"), ("Add", "a b", "y")]
    made = graph(rows, "x", "y")
    feeds = {"x": numbers(2, 3)}
    assert order_of(Machine(made, order=[2, 1, 0]).start(feeds)) == [1, 0, 2]
    with pytest.raises(ValueError, match="not a permutation"):
        Machine(made, order=[0, 0, 1])


def test_operations_may_be_listed_in_any_order() -> None:
    rows: list[ROW] = [("Add", "a b", "y"), ("Relabel", "x", "a"), ("Relabel", "x", "b")]
    x = numbers(2, 3)
    np.testing.assert_array_equal(Machine(graph(rows, "x", "y")).run({"x": x})["y"], x + x)


def test_an_incomplete_graph_is_run_as_far_as_it_goes_and_says_what_is_missing() -> None:
    rows: list[ROW] = [("Relabel", "x", "a"), ("Add", "a ghost", "y"), ("Add", "y a", "z")]
    machine = Machine(graph(rows, "x", "a z")).start({"x": numbers(2, 3)})
    assert machine.step() is not None
    with pytest.raises(
        InvalidModel, match=r"outputs z have no value.*'n1' lacks ghost.*'n2' lacks y"
    ):
        machine.step()
    assert list(machine.outputs) == ["a"]


def test_an_output_that_nothing_writes_is_named() -> None:
    with pytest.raises(InvalidModel, match="outputs z have no value"):
        Machine(graph([], "x", "x z")).run({"x": numbers(2, 3)})


def test_a_cycle_is_an_incomplete_graph() -> None:
    rows: list[ROW] = [("Add", "x b", "a"), ("Add", "x a", "b")]
    with pytest.raises(InvalidModel, match="'n0' lacks b"):
        Machine(graph(rows, "x", "b")).run({"x": numbers(2, 3)})


@pytest.mark.parametrize(
    "rows",
    [
        [("Relabel", "x", "y"), ("Relabel", "x", "y")],
        [("Relabel", "x", "x")],
        [("Both", "x", "y y")],
    ],
)
def test_a_tensor_that_is_assigned_twice_is_refused(rows: list[ROW]) -> None:
    with pytest.raises(InvalidModel, match="has a value already"):
        Machine(graph(rows, "x", "y"))


def test_outputs_may_be_inputs_or_initializers_or_stand_twice() -> None:
    x, w = numbers(2, 3), numbers(2, 3, seed=1)
    rows: list[ROW] = [("Add", "x x", "y")]
    found = Machine(graph(rows, "x", "w x y y", {"w": w}), poison=0xFF).run({"x": x})
    np.testing.assert_array_equal(found["w"], w)
    np.testing.assert_array_equal(found["x"], x)
    np.testing.assert_array_equal(found["y"], x + x)


def test_an_absent_output_is_not_written() -> None:
    x = numbers(2, 3)
    found = Machine(graph([("Both", "x", "- y")], "x", "y")).run({"x": x})
    np.testing.assert_array_equal(found["y"], x + np.float32(1))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,)])
def test_scalars_and_empty_tensors_run(shape: tuple[int, ...]) -> None:
    rows: list[ROW] = [("Add", "x x", "a"), ("Relabel", "a", "b"), ("Both", "b", "c y")]
    x = numbers(*shape)
    found = Machine(graph(rows, "x", "y c", shape=shape), poison=0xA5).run({"x": x})
    np.testing.assert_array_equal(found["y"], x + x + np.float32(1))
    assert found["y"].shape == found["c"].shape == shape


def pick_graph() -> Graph:
    at, y = TensorType(t.int64, (2,)), TensorType(t.float32, (2,))
    x = TensorType(t.float32, (4,))
    return graph([("Pick", "x at", "y")], "x at", "y", types={"x": x, "at": at, "y": y})


def test_a_trap_names_the_operation_the_tensor_and_the_index() -> None:
    machine = Machine(pick_graph()).start({"x": numbers(4), "at": np.array([1, 7])})
    with pytest.raises(RunError, match=r"Pick 'n0', step 0: the index 7 is out of bounds.* 'x' "):
        machine.step()
    with pytest.raises(RunError, match="Pick 'n0'"):
        machine.step()
    assert machine.state.counter == 0


def test_an_initializer_that_is_an_input_too_may_be_fed() -> None:
    x, w = numbers(2, 3), numbers(2, 3, seed=1)
    made = replace(graph([("Add", "x w", "y")], "x", "y", {"w": w}), overridable=("w",))
    machine = Machine(made)
    assert machine.run({"x": x})["y"].tobytes() == (x + w).tobytes()
    assert machine.run({"x": x, "w": x})["y"].tobytes() == (x + x).tobytes()
    assert machine.run({"x": x})["y"].tobytes() == (x + w).tobytes()


def test_a_graph_with_symbolic_dims_takes_the_shapes_of_its_feeds() -> None:
    made = graph(DIAMOND[2:3], "v x", "b", shape=(symbol("n"), symbol("m")))
    machine = Machine(made)
    for shape in ((2, 3), (5, 1), (2, 3)):
        x = numbers(*shape)
        found = machine.run({"v": x, "x": x})["b"]
        assert found.tobytes() == (x[::-1] * x).tobytes()
        assert machine.table["b"].shape == shape
    with pytest.raises(FeedError, match="the input 'x' is"):
        machine.start({"v": numbers(2, 3), "x": numbers(3, 2)})


def test_a_shape_may_depend_on_the_value_of_a_feed() -> None:
    types = {"s": TensorType(t.int64, (1,)), "y": TensorType(t.float32, None)}
    machine = Machine(graph([("Fill", "s", "y")], "s", "y", types=types))
    for n in (3, 0, 5):
        assert machine.run({"s": np.array([n])})["y"].tolist() == [1.0] * n


@pytest.mark.parametrize(
    ("feeds", "words"),
    [
        ({}, "'x' is not fed"),
        ({"x": numbers(2, 3), "z": numbers(1)}, "'z' is not an input"),
        ({"x": numbers(3, 2)}, r"shape \(3, 2\)"),
        ({"x": numbers(6)}, r"shape \(6,\)"),
        ({"x": numbers(2, 3).astype(np.float64)}, "float64"),
        ({"x": np.array([[None] * 3] * 2)}, "object"),
    ],
)
def test_feeds_that_do_not_fit_are_refused(feeds: dict[str, Array], words: str) -> None:
    with pytest.raises(FeedError, match=words):
        Machine(diamond()).start(feeds)


def test_feeds_in_any_layout_and_byte_order_are_taken() -> None:
    x = numbers(2, 3)
    wanted = Machine(diamond()).run({"x": x})["y"]
    for other in (np.asfortranarray(x), x.astype(">f4"), np.repeat(x, 2, 1)[:, ::2]):
        assert Machine(diamond()).run({"x": other})["y"].tobytes() == wanted.tobytes()


def test_memory_beyond_the_limit_is_refused() -> None:
    with pytest.raises(LimitExceeded, match="more than the limit of 100"):
        Machine(diamond(), limit=100).start({"x": numbers(2, 3)})


def test_an_operator_without_a_definition_is_named() -> None:
    with pytest.raises(UnsupportedModel, match=r"Nonesuch.*1"):
        Machine(graph([("Nonesuch", "x", "y")], "x", "y")).start({"x": numbers(2, 3)})


def test_an_input_of_a_type_that_is_not_there_is_named() -> None:
    made = diamond()
    types = {name: tensor for name, tensor in made.types.items() if name != "x"}
    with pytest.raises(UnsupportedModel, match="the input 'x'"):
        Machine(replace(made, types=types)).start({})


def test_a_machine_that_was_not_started_says_so() -> None:
    with pytest.raises(RunError, match="start"):
        Machine(diamond()).step()
