"""The plan checker extracted to C from formal/checker.mlw and its Python twin agree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_plan import timelines

from sardonyx import proved
from sardonyx.compiler import find_compiler
from sardonyx.errors import BuildError
from sardonyx.plan import Plan, Step, Timeline, check_plan, guard, plan

CLAUSES = {
    1: {"W1"},
    2: {"W2", "W3"},
    4: {"W4"},
    11: {"V1"},
    12: {"V2", "V3"},
    14: {"V4"},
    15: {"V5"},
    16: {"V6"},
    17: {"V7"},
}


@pytest.fixture(autouse=True, scope="module")
def _compiler() -> None:
    try:
        find_compiler()
    except BuildError:
        pytest.skip("no C compiler")


def agree(found: Plan, timeline: Timeline) -> bool:
    """The common verdict; the clause that the C names is among those that the twin names."""
    twin = {v.clause for v in check_plan(found, timeline)}
    code = proved.clause(found, timeline)
    assert code is not None
    assert (code == 0) == (not twin)
    assert code == 0 or CLAUSES[code] & twin
    return code == 0


@given(timelines())
@settings(max_examples=100)
def test_a_plan_that_is_made_passes_both(timeline: Timeline) -> None:
    assert agree(plan(timeline), timeline)
    assert agree(plan(timeline, no_reuse=True), timeline)


@given(timelines(), st.data())
@settings(max_examples=400)
def test_both_say_the_same_of_a_plan_that_was_changed(timeline: Timeline, data: Any) -> None:
    found = plan(timeline)
    for _ in range(data.draw(st.integers(1, 2))):
        found = _changed_plan(found, timeline, data)
    agree(found, timeline)


def _changed_plan(found: Plan, timeline: Timeline, data: Any) -> Plan:
    names = st.sampled_from([*timeline.sizes, "nobody"])
    field = data.draw(
        st.sampled_from(["offsets", "size", "scratch", "aliases", "in_place", "hosts"])
    )
    if field == "size":
        change = data.draw(st.sampled_from([-64, -1, 1, 64, -found.size, -found.size - 64]))
        return replace(found, size=found.size + change)
    if field == "scratch":
        rows = [list(row) for row in found.scratch]
        if rows and data.draw(st.booleans()):
            row = data.draw(st.sampled_from(rows))
            offset = data.draw(st.sampled_from([0, 32, 64, 128, -64]))
            row[:1] = [offset] if data.draw(st.booleans()) else []
        else:
            rows.append([])
        return replace(found, scratch=tuple(map(tuple, rows)))
    table = dict(getattr(found, field))
    key = data.draw(names)
    offset = st.sampled_from([0, 32, 64, 128, 256, -64, *found.offsets.values()])
    if data.draw(st.booleans()):
        table.pop(key, None)
    else:
        table[key] = data.draw(offset if field == "offsets" else names)
    return replace(found, **{field: table})


@given(timelines(), st.data())
@settings(max_examples=200)
def test_both_say_the_same_of_a_timeline_that_was_changed(timeline: Timeline, data: Any) -> None:
    found = plan(timeline)
    names = [*timeline.sizes, "nobody"]
    kind = data.draw(st.sampled_from(["size", "unsized", "initial", "final", "outside", "step"]))
    name = data.draw(st.sampled_from(names))
    changed = timeline
    if kind == "size":
        size = data.draw(st.sampled_from([-1, 0, 64, 100, 1000]))
        changed = replace(timeline, sizes={**timeline.sizes, name: size})
    elif kind == "unsized":
        changed = replace(timeline, sizes={n: s for n, s in timeline.sizes.items() if n != name})
    elif kind == "initial":
        changed = replace(timeline, initial=(*timeline.initial, name))
    elif kind == "final":
        changed = replace(timeline, final=(*timeline.final, name))
    elif kind == "outside":
        changed = replace(timeline, outside=timeline.outside ^ {name})
    elif timeline.steps:
        changed = _changed_step(timeline, name, data.draw(st.sampled_from(names)), data)
    agree(found, changed)


def _changed_step(timeline: Timeline, name: str, other: str, data: Any) -> Timeline:
    k = data.draw(st.integers(0, len(timeline.steps) - 1))
    step = timeline.steps[k]
    field = data.draw(st.sampled_from(["reads", "writes", "views", "in_place", "scratch"]))
    more: object = (name, other) if field in ("views", "in_place") else name
    if field == "scratch":
        more = data.draw(st.sampled_from([-1, 0, 64]))
    changed = replace(step, **{field: (*getattr(step, field), more)})
    return replace(timeline, steps=(*timeline.steps[:k], changed, *timeline.steps[k + 1 :]))


def test_the_planner_asks_the_extracted_checker(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Plan] = []
    real = proved.is_valid
    monkeypatch.setattr(guard, "_proved", lambda: lambda q, w: asked.append(q) or real(q, w))
    timeline = Timeline((Step(("x",), ("y",)),), {"x": 4, "y": 4}, ("x",), ("y",))
    found = plan(timeline)
    assert asked == [found]


def test_numbers_beyond_64_bits_go_to_the_twin() -> None:
    timeline = Timeline((), {"x": 1 << 70}, ("x",), ("x",))
    assert proved.is_valid(Plan({"x": 0}, (), 1 << 70, 0), timeline) is None
    assert guard.violations(Plan({"x": 0}, (), 1 << 70, 0), timeline) == []
