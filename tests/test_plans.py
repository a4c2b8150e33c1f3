"""Plans of programs with symbolic dims: one that has room for a size serves it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nets import Net

from sardonyx import types as t
from sardonyx.dims import extreme, symbol
from sardonyx.errors import InternalError
from sardonyx.native import NativeEngine
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.timeline import outline_of
from sardonyx.plan import Step, check_plan
from sardonyx.plan.outline import Outline, Slot
from sardonyx.plan.plans import KEPT, Plans, Workers, always
from sardonyx.types import TensorType

N = symbol("N")
SIZES = st.integers(1, 2000)
ROOM = 1 << 40


def cache_step(past: int) -> Net:
    """A token's attention over a cache that is returned with the token behind it."""
    net, rng = Net(), np.random.default_rng(3)
    x = net.feed("x", rng.standard_normal((1, 2, 1, 8), np.float32))
    keys = net.feed("keys", rng.standard_normal((1, 2, past, 8), np.float32))
    grown = net.op("Concat", keys, x, axis=2)
    scores = net.op("MatMul", x, net.op("Transpose", grown, perm=[0, 1, 3, 2]))
    mixed = net.op("MatMul", net.op("Softmax", scores, axis=-1), grown)
    net.give(net.op("Tanh", mixed), grown)
    return net


def grown_outline() -> Outline:
    graph = cache_step(7).graph(sizes={7: "N"})
    return outline_of(optimise(lower(graph), roomy=True))


def shrinking() -> Outline:
    """A tensor that is the smaller, the larger N is."""
    count = extreme("max", 1, 100 - N)
    tensors = {"x": (N,), "a": (count,), "b": (N,), "y": (N,)}
    steps = (Step(("x",), ("a",)), Step(("a", "x"), ("b",)), Step(("a", "b"), ("y",)))
    types = {n: TensorType(t.float32, shape) for n, shape in tensors.items()}
    return Outline(steps, ((), (), ()), types, ("x",), ("y",), frozenset("xy"))


def alike_from_18_on() -> Outline:
    """Two tensors that share a place, though their sizes are equal for some N alone."""
    tensors = {"x": (N,), "a": (N,), "b": (extreme("max", 18, N),), "y": (N,)}
    over = Step(("a",), ("b",), in_place=(("b", "a"),))
    steps = (Step(("x",), ("a",)), over, Step(("b",), ("y",)))
    types = {n: TensorType(t.float32, shape) for n, shape in tensors.items()}
    return Outline(steps, ((), (), ()), types, ("x",), ("y",), frozenset("xy"))


@pytest.mark.parametrize("made", [grown_outline, shrinking])
def test_every_plan_is_valid_for_the_sizes_it_is_used_for(made: Callable[[], Outline]) -> None:
    outline = made()

    @given(st.lists(SIZES, max_size=6))
    def check(sizes: list[int]) -> None:
        plans = Plans(outline, (), Workers(3 * N), ROOM)
        for n in sizes:
            found = plans.at({"N": n})
            assert check_plan(found.plan, outline.at({"N": n})) == []
            assert found.workers.at(found.dims, threads=2) >= 3 * n

    check()


@given(SIZES, SIZES)
def test_sizes_are_rounded_up_by_an_eighth_at_most(first: int, n: int) -> None:
    plans = Plans(grown_outline(), (), Workers(), ROOM)
    assert plans.at({"N": first}).dims == {"N": first}
    assert n <= plans.at({"N": n}).dims["N"] <= n * 9 / 8


def test_a_cache_that_doubles_is_planned_eight_times() -> None:
    plans = Plans(grown_outline(), (), Workers(), ROOM)
    plans.at({"N": 64})
    found = {id(plans.at({"N": n})) for n in range(65, 129)}
    assert len(found) == 8


def test_sizes_that_came_before_have_the_plan_of_before() -> None:
    plans = Plans(grown_outline(), (), Workers(), ROOM)
    first = plans.at({"N": 1001})
    plans.at({"N": 1000})
    assert plans.at({"N": 1001}) is first


def test_what_would_shrink_has_a_plan_of_its_own() -> None:
    plans = Plans(shrinking(), (), Workers(), ROOM)
    plans.at({"N": 1})
    assert plans.at({"N": 33}).dims == {"N": 33}
    assert plans.at({"N": 333}).dims == {"N": 352}


def test_what_shares_a_place_is_compared_at_the_sizes_of_the_run() -> None:
    plans = Plans(alike_from_18_on(), (), Workers(), ROOM)
    assert plans.at({"N": 100}).plan.in_place == {"b": "a"}
    assert plans.at({"N": 18}).dims == {"N": 18}
    with pytest.raises(InternalError, match="different sizes"):
        plans.at({"N": 17})


def test_where_memory_ends_plans_are_exact() -> None:
    outline = grown_outline()
    exact = Plans(outline, (), Workers(), ROOM).at({"N": 1001})
    plans = Plans(outline, (), Workers(), exact.plan.size)
    plans.at({"N": 1})
    assert plans.at({"N": 1001}).dims == {"N": 1001}


def test_as_many_are_kept_as_is_said() -> None:
    plans = Plans(grown_outline(), (), Workers(), ROOM)
    first = plans.at({"N": 1})
    for n in [digits << places for places in range(9) for digits in range(8, 16)][:KEPT]:
        plans.at({"N": n})
    again = plans.at({"N": 1})
    assert again is not first
    assert again.plan.offsets == first.plan.offsets


def test_offsets_are_those_of_the_plan() -> None:
    outline = shrinking()
    plans = Plans(outline, (Slot("b"), Slot("a")), 0, ROOM)
    found = plans.at({"N": 5})
    assert found.offsets.tolist() == [found.plan.offsets[n] for n in "ba"]
    assert always(found.plan, Workers(64))({}).size(3) == found.plan.size + 128


def test_results_are_those_of_engines_for_each_size() -> None:
    engine = NativeEngine(cache_step(7).graph(sizes={7: "N"}))
    for past in (5, 40, 41, 47, 48, 49, 3, 33, 41):
        net = cache_step(past)
        want = NativeEngine(net.graph(), schedule=False).run(net.feeds)
        found = engine.run(net.feeds)
        assert all(found[n].tobytes() == want[n].tobytes() for n in net.outputs)
