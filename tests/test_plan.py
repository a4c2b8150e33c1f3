"""Plans: the planner against the checker, and the checker against a simulation of memory."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sardonyx import types as t
from sardonyx.errors import InternalError, LimitExceeded
from sardonyx.kernel.build import Builder, operand
from sardonyx.kernel.ir import Kernel
from sardonyx.plan import (
    Plan,
    Step,
    Timeline,
    check_plan,
    check_timeline,
    lower_bound,
    plan,
)
from sardonyx.plan.kernels import in_place, step_of

SIZES = st.sampled_from([0, 1, 4, 63, 64, 65, 100, 128, 200, 512])


@st.composite
def timelines(draw: st.DrawFn, outside: bool = True) -> Timeline:
    """A random well-formed timeline of up to 12 steps."""
    initial = tuple(f"i{n}" for n in range(draw(st.integers(0, 4))))
    sizes = {name: draw(SIZES) for name in initial}
    steps = []
    for k in range(draw(st.integers(0, 12))):
        known = list(sizes)
        reads = draw(st.lists(st.sampled_from(known), unique=True, max_size=3)) if known else []
        writes, views, inplace = [], [], []
        for w in range(draw(st.integers(0, 3))):
            y = f"t{k}_{w}"
            writes.append(y)
            sizes[y] = draw(SIZES)
            kind = draw(st.sampled_from(["new", "view", "over", "both"])) if reads else "new"
            if kind != "new":
                x = draw(st.sampled_from(reads))
                sizes[y] = sizes[x]
            if kind in ("view", "both"):
                views.append((y, x))
            if kind in ("over", "both"):
                inplace += [(y, r) for r in reads if sizes[r] == sizes[y]]
        scratch = draw(st.lists(SIZES, max_size=2))
        steps.append(Step(*map(tuple, (reads, writes, scratch, views, inplace))))
    names = st.lists(st.sampled_from(list(sizes)), unique=True, max_size=4)
    final = draw(names) if sizes else []
    outer = draw(names) if sizes and outside else []
    return Timeline(tuple(steps), sizes, initial, tuple(final), frozenset(outer))


def simulate(found: Plan, timeline: Timeline) -> list[str]:
    """What goes wrong when the steps are done on real bytes: every byte holds the class of the
    value that was written there; a step writes its temporaries and its outputs, and its inputs
    may be read before or after that, except those that an output covers."""
    owner = {name: name for name in timeline.initial}
    for step in timeline.steps:
        source = dict(step.views)
        owner.update((y, owner[source[y]] if y in source else y) for y in step.writes)
    memory: dict[tuple[str, int], str] = {}
    wrong: list[str] = []

    def region(name: str) -> list[tuple[str, int]]:
        base = found.offsets.get(name, 0)
        space = "M" if name in found.offsets else found.hosts.get(name, name)
        return [(space, base + i) for i in range(timeline.sizes[name])]

    def expect(name: str, when: str) -> None:
        if any(memory.get(byte) != owner[name] for byte in region(name)):
            wrong.append(f"{name} is not there {when}")

    def write(names: tuple[str, ...]) -> None:
        for name in names:
            if name not in found.aliases:
                memory.update((byte, owner[name]) for byte in region(name))

    write(timeline.initial)
    for k, step in enumerate(timeline.steps):
        for name in step.reads:
            expect(name, f"before step {k}")
        for base, size in zip(found.scratch[k], step.scratch, strict=True):
            memory.update((("M", base + i), "garbage") for i in range(size))
        write(step.writes)
        over = {(y, x) for y, x in step.in_place if y in found.in_place}
        places = {y: region(y) for y in step.writes}
        for name in step.reads:
            if not any(x == name and places[y] == region(x) for y, x in over):
                expect(name, f"during step {k}")
        for name in step.writes:
            expect(name, f"after step {k}")
    for name in timeline.final:
        expect(name, "at the end")
    return wrong


@given(timelines())
@settings(max_examples=100)
def test_a_plan_of_any_timeline_is_valid_and_works_on_real_bytes(timeline: Timeline) -> None:
    assert check_timeline(timeline) == []
    found = plan(timeline)
    assert check_plan(found, timeline) == []
    assert simulate(found, timeline) == []
    assert found.size >= found.lower_bound == lower_bound(timeline)


@given(timelines())
def test_a_plan_without_reuse_shares_no_byte(timeline: Timeline) -> None:
    found = plan(timeline, no_reuse=True)
    assert found.aliases == found.in_place == found.hosts == {}
    spans = sorted(
        (o, o + timeline.sizes[n]) for n, o in found.offsets.items() if timeline.sizes[n]
    )
    assert all(a[1] <= b[0] for a, b in pairwise(spans))
    assert plan(timeline).size <= found.size


@given(timelines(outside=False), st.data())
@settings(max_examples=100)
def test_a_tensor_moved_onto_a_live_one_is_rejected(
    timeline: Timeline, data: st.DataObject
) -> None:
    found = plan(timeline)
    lives = timeline.lifetimes()
    shared = {*found.aliases, *found.aliases.values(), *found.in_place, *found.in_place.values()}
    free = [n for n in found.offsets if timeline.sizes[n] and n not in shared]
    pairs = [
        (a, b)
        for a in free
        for b in found.offsets
        if a != b
        and timeline.sizes[b]
        and lives[a][0] <= lives[b][1]
        and lives[b][0] <= lives[a][1]
    ]
    assume(pairs)
    a, b = data.draw(st.sampled_from(pairs))
    moved = replace(found, offsets={**found.offsets, a: found.offsets[b]})
    assert "V7" in {v.clause for v in check_plan(moved, timeline)}


@given(timelines(), st.data())
@settings(max_examples=100)
def test_what_the_checker_accepts_works_on_real_bytes(
    timeline: Timeline, data: st.DataObject
) -> None:
    found = plan(timeline)
    assume(found.offsets)
    name = data.draw(st.sampled_from(sorted(found.offsets)))
    offset = data.draw(st.integers(0, max(0, found.size // 64))) * 64
    changed = replace(found, offsets={**found.offsets, name: offset})
    if not check_plan(changed, timeline):
        assert simulate(changed, timeline) == []


def chain(length: int, size: int = 256, **kinds: bool) -> Timeline:
    """x0 -> x1 -> ... in steps that may work in place or are views, if so asked."""
    names = [f"x{i}" for i in range(length + 1)]
    steps = tuple(Step((x,), (y,), **dict.fromkeys(kinds, ((y, x),))) for x, y in pairwise(names))
    return Timeline(steps, dict.fromkeys(names, size), ("x0",), (names[-1],))


def test_a_chain_needs_two_tensors_and_one_if_it_works_in_place() -> None:
    assert plan(chain(5)).size == 512
    assert plan(chain(5, in_place=True)).size == 256
    assert plan(chain(5, views=True)).size == 256
    assert plan(chain(5), no_reuse=True).size == 6 * 256


def test_an_input_that_is_needed_later_is_not_overwritten() -> None:
    timeline = replace(chain(2, in_place=True), final=("x1", "x2"))
    found = plan(timeline)
    assert found.size == 512
    assert "x2" not in found.in_place
    forced = replace(found, offsets={**found.offsets, "x2": found.offsets["x1"]})
    assert [v.clause for v in check_plan(forced, timeline)] == ["V7"]


def test_a_view_that_outlives_its_source_keeps_the_place() -> None:
    steps = (
        Step(("x",), ("v",), views=(("v", "x"),)),
        Step(("x",), ("y",), in_place=(("y", "x"),)),
        Step(("v", "y"), ("z",)),
    )
    timeline = Timeline(steps, dict.fromkeys("xvyz", 64), ("x",), ("z",))
    found = plan(timeline)
    assert found.offsets["v"] == found.offsets["x"]
    assert found.offsets["y"] != found.offsets["x"]


@pytest.mark.parametrize("undeclared", ["aliases", "in_place"])
def test_sharing_that_the_plan_does_not_declare_is_rejected(undeclared: str) -> None:
    kind = {"aliases": "views", "in_place": "in_place"}[undeclared]
    timeline = chain(1, **{kind: True})
    found = replace(plan(timeline), **{undeclared: {}})
    assert [v.clause for v in check_plan(found, timeline)] == ["V7"]


@pytest.mark.parametrize(
    ("change", "clause"),
    [
        ({"offsets": {"x0": 0}}, "V1"),
        ({"offsets": {"x0": 0, "x1": 256, "other": 0}}, "V1"),
        ({"offsets": {"x0": 0, "x1": 448}}, "V2"),
        ({"offsets": {"x0": 0, "x1": -64}}, "V2"),
        ({"offsets": {"x0": 0, "x1": 257}, "size": 576}, "V3"),
        ({"size": 513}, "V3"),
        ({"aliases": {"x1": "x0"}}, "V4"),
        ({"in_place": {"x1": "x0"}}, "V5"),
        ({"offsets": {"x0": 0}, "hosts": {"x1": "x0"}}, "V6"),
        ({"offsets": {"x0": 0, "x1": 192}}, "V7"),
        ({"scratch": ((0,),)}, "V1"),
    ],
)
def test_each_clause_of_the_definition_is_checked(change: dict[str, object], clause: str) -> None:
    timeline = chain(1)
    good = Plan({"x0": 0, "x1": 256}, ((),), 512, 512)
    assert check_plan(good, timeline) == []
    assert clause in {v.clause for v in check_plan(replace(good, **change), timeline)}


@pytest.mark.parametrize(
    ("timeline", "clause"),
    [
        (Timeline((Step((), ("y",)),), {}, (), ()), "W1"),
        (Timeline((Step((), ("y",)), Step((), ("y",))), {"y": 1}, (), ()), "W2"),
        (Timeline((Step((), ("y",)),), {"y": 1}, ("y",), ()), "W2"),
        (Timeline((Step(("x",), ("y",)),), {"x": 1, "y": 1}, (), ()), "W3"),
        (Timeline((), {"x": 1}, (), ("x",)), "W3"),
        (Timeline((Step(("x",), ("y",), (), (("y", "x"),)),), {"x": 1, "y": 2}, ("x",), ()), "W4"),
    ],
)
def test_a_malformed_timeline_is_refused(timeline: Timeline, clause: str) -> None:
    assert clause in {v.clause for v in check_timeline(timeline)}
    with pytest.raises(InternalError):
        plan(timeline)


def test_temporaries_live_in_one_step_only() -> None:
    steps = (Step(("x",), ("y",), (1024,)), Step(("y",), ("z",), (1024,)))
    found = plan(Timeline(steps, dict.fromkeys("xyz", 64), ("x",), ("z",)))
    assert found.size == found.lower_bound == 1024 + 128
    assert not check_plan(found, Timeline(steps, dict.fromkeys("xyz", 64), ("x",), ("z",)))


def test_a_view_of_outside_memory_lies_there_and_is_never_written() -> None:
    steps = (Step(("w",), ("v",), views=(("v", "w"),)), Step(("v",), ("y",)))
    timeline = Timeline(steps, dict.fromkeys("wvy", 64), ("w",), ("y",), frozenset("wy"))
    found = plan(timeline)
    assert found.hosts == {"v": "w"}
    assert found.size == 0
    written = replace(found, aliases={})
    assert "V6" in {v.clause for v in check_plan(written, timeline)}


def test_a_tensor_whose_view_is_an_outside_output_is_computed_there() -> None:
    steps = (Step(("x",), ("a",)), Step(("a",), ("y",), views=(("y", "a"),)))
    timeline = Timeline(steps, dict.fromkeys("xay", 64), ("x",), ("y",), frozenset("xy"))
    found = plan(timeline)
    assert found.hosts == {"a": "y"}
    assert found.aliases == {"y": "a"}


def test_an_outside_output_that_is_a_view_of_an_outside_input_is_copied() -> None:
    steps = (Step(("x",), ("y",), views=(("y", "x"),)),)
    found = plan(Timeline(steps, dict.fromkeys("xy", 64), ("x",), ("y",), frozenset("xy")))
    assert not found.hosts
    assert not found.aliases


def test_sizes_beyond_any_memory_are_refused() -> None:
    with pytest.raises(LimitExceeded):
        plan(chain(2, size=1 << 62))


def test_a_plan_of_thousands_of_steps_is_made_and_checked() -> None:
    names = [f"x{i}" for i in range(2001)]
    sizes = {name: 64 * (1 + 37 * i % 101) for i, name in enumerate(names)}
    steps = tuple(Step((names[max(0, i - 9)], names[i]), (names[i + 1],)) for i in range(2000))
    found = plan(Timeline(steps, sizes, ("x0",), ("x2000",)))
    assert found.size <= 1.3 * found.lower_bound


def binary(swap: bool = False, flat: bool = False, shape: tuple[int, ...] = (1, 3, 4)) -> Kernel:
    """out = a + b over (3, 4); b is read transposed, or under another shape, if so asked."""
    k = Builder(1)
    a, b = operand("a", t.float32, shape), operand("b", t.float32, (4, 3) if swap else (3, 4))
    out = k.compute(shape, lambda h, i, j: a[h, i, j] + (b[j, i] if swap else b[i, j]))
    return k.kernel("Test", (a, b), (out,))


def test_in_place_needs_every_load_at_the_outputs_own_index() -> None:
    assert in_place(binary()) == {(0, 0), (0, 1)}
    assert in_place(binary(swap=True)) == {(0, 0)}


def test_a_load_at_a_neighbour_forbids_in_place() -> None:
    k = Builder(1)
    x = operand("x", t.float32, (8,))
    out = k.compute((8,), lambda i: x[i] + x.guard((i - 1,)))
    assert in_place(k.kernel("Test", (x,), (out,))) == set()


def test_an_input_of_another_width_or_broadcast_is_not_overwritten() -> None:
    k = Builder(1)
    x, s = operand("x", t.float32, (8,)), operand("s", t.float32, (1,))
    wide = k.compute((8,), lambda i: (x[i] + s[0]).cast(t.float64))
    assert in_place(k.kernel("Test", (x, s), (wide,))) == set()
    same = k.compute((8,), lambda i: (x[i] + s[0]).cast(t.int32))
    assert in_place(k.kernel("Test", (x, s), (same,))) == {(0, 0)}


def test_a_kernel_of_two_statements_does_not_work_in_place() -> None:
    k = Builder(1)
    x = operand("x", t.float32, (8,))
    half = k.compute((8,), lambda i: x[i] + 1.0)
    out = k.compute((8,), lambda i: half[i] + x[i])
    assert in_place(k.kernel("Test", (x,), (out,))) == set()


def test_a_flat_view_of_an_input_is_recognised() -> None:
    k = Builder(1)
    x = operand("x", t.float32, (2, 6))
    flat = x.reshaped((12,))
    out = k.compute((3, 4), lambda i, j: flat[i * 4 + j] + 1.0)
    assert in_place(k.kernel("Test", (x,), (out,))) == {(0, 0)}


def test_a_tensor_at_two_inputs_is_overwritten_only_if_both_allow_it() -> None:
    kernel = binary(swap=True, shape=(1, 3, 4))
    assert step_of(kernel, ("p", "q"), ("y",)).in_place == (("y", "p"),)
    assert step_of(kernel, ("p", "p"), ("y",)).in_place == ()
    assert step_of(kernel, ("p", "p"), ("y",)).reads == ("p",)
    assert step_of(binary(), ("p", "p"), ("y",)).in_place == (("y", "p"),)


def test_the_step_of_a_view_names_its_source() -> None:
    k = Builder(1)
    x = operand("x", t.float32, (2, 6))
    kernel = k.kernel("Test", (None, x), (k.view(x, (12,)),))
    found = step_of(kernel, ("", "p"), ("y",), captured=("outer",))
    assert found == Step(("p", "outer"), ("y",), (), (("y", "p"),), (("y", "p"),))


def test_temporaries_are_scratch() -> None:
    k = Builder(1)
    x = operand("x", t.float16, (8,))
    half = k.compute((8,), lambda i: x[i].cast(t.float32))
    out = k.compute((8,), lambda i: half[7 - i])
    assert step_of(k.kernel("Test", (x,), (out,)), ("p",), ("y",)).scratch == (32,)
