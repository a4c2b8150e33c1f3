"""Traces that someone made anew with anything in them: told, not a traceback."""

from __future__ import annotations

import json
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_trace import VALUES as PLAIN_VALUES
from test_trace import digits, text
from test_trace_stages import CASES, GRAPHS, traced
from test_trace_stages import VALUES as STAGED_VALUES

from sardonyx.errors import SardonyxError
from sardonyx.stages import is_staged
from sardonyx.trace import (
    InvalidTrace,
    check,
    differences,
    disclose,
    disclosed,
    distance,
    first_write,
    machine_of,
    matches,
    matches_stages,
    read,
    replay,
    replay_stages,
)
from sardonyx.trace.chain import Chain

VALUES = {**PLAIN_VALUES, **STAGED_VALUES}
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from([None, True, -1, 0, 1, 1 << 40, 1 << 63, 0.5, "", "x", "\0", "00" * 32]),
    st.sampled_from(["float32", "int64", "string", "sequence", "none", "[]", {}, [], [[]], [0]]),
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to all values within a JSON value."""
    return [p for k, v in items(value) for p in ((*at, k), *places(v, (*at, k)))]


def walk(value: Any) -> list[tuple[Any, Any]]:
    """All values within a JSON value, with their keys."""
    return [x for k, v in items(value) for x in ((k, v), *walk(v))]


def items(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, list):
        return list(enumerate(value))
    return list(value.items()) if isinstance(value, dict) else []


def changed(whole: str, data: st.DataObject) -> str:
    """The trace with one to three values changed, dropped or taken from elsewhere in it, and with
    chains and a root that fit."""
    bodies = [json.loads(line) for line in whole.splitlines()]
    for _ in range(data.draw(st.integers(1, 3))):
        line = data.draw(st.sampled_from(bodies))
        *path, last = data.draw(st.sampled_from(places(line)))
        for key in path:
            line = line[key]
        other = data.draw(st.sampled_from(bodies))
        what = data.draw(st.sampled_from(["drop", "other", "scalar"]))
        if what == "drop":
            del line[last]
        else:
            near = [v for k, v in walk(other) if k == last] if what == "other" else []
            line[last] = deepcopy(data.draw(st.sampled_from(near) if near else SCALARS))
        bodies = [b for b in bodies if b]
    return remade(bodies)


def remade(bodies: list[dict[str, Any]]) -> str:
    """The text of lines, with what makes them a whole trace."""
    chain = Chain()
    lines = []
    for body in bodies[:-1]:
        told = {k: v for k, v in body.items() if k != "chain"}
        lines.append(chain.line(json.dumps(told, separators=(",", ":"))[:-1]))
    foot = {k: v for k, v in bodies[-1].items() if k not in ("chain", "root")}
    text = json.dumps(foot, separators=(",", ":"))[:-1]
    lines.append(chain.footer(f'{text}{"," if foot else ""}"root":"'))
    return "".join(lines)


def used(name: str, made: str, whole: str) -> None:
    """All that is done with a trace."""
    graph = digits() if name == "digits" else GRAPHS[name]
    found = read(made)
    for a, b in ((found, read(whole)), (read(whole), found)):
        list(differences(a, b))
        pair = first_write(a, b)
        if pair is not None:
            distance(pair, (VALUES.get, VALUES.get))
    if found.steps:
        disclosed(disclose(made, 0))
    check(found)
    if found.staged != is_staged(graph):
        return
    if found.staged:
        matches_stages(graph, found)
        list(replay_stages(graph, found.lines, found.steps, True, VALUES.get))
    else:
        machine = machine_of(graph, found.header, found.initial, VALUES.get)
        matches(machine, found)
        list(replay(machine, found.steps, True, VALUES.get))


@pytest.mark.parametrize("name", ["digits", *CASES])
@settings(max_examples=10)
@given(data=st.data())
def test_a_trace_with_anything_in_it_is_refused_or_told(name: str, data: st.DataObject) -> None:
    whole = text() if name == "digits" else traced(name)
    VALUES.update(PLAIN_VALUES | STAGED_VALUES)
    made = changed(whole, data)
    with suppress(SardonyxError):
        used(name, made, whole)


def test_a_trace_that_was_not_changed_is_made_whole_as_it_was() -> None:
    whole = traced("nested")
    assert remade([json.loads(line) for line in whole.splitlines()]) == whole


def test_what_is_no_json_is_no_trace() -> None:
    chain = Chain()
    lines = chain.line('{"trace":' + "9" * 5000), chain.line('{"step":0')
    foot = chain.footer('{"end":"complete","steps":1,"outputs":[],"root":"')
    with pytest.raises(InvalidTrace, match="line 1 is not JSON"):
        read("".join((*lines, foot)))


@pytest.mark.parametrize("wrong", [None, 1.5, True, "", [], [1.5, []], {"a": 1}])
@pytest.mark.parametrize("key", ["disclosed", "root", "header", "line", "step", "values"])
def test_a_shown_step_with_anything_in_it_is_refused(key: str, wrong: object) -> None:
    shown = json.loads(disclose(traced("nested"), 0))
    with pytest.raises(InvalidTrace):
        disclosed(json.dumps({**shown, key: wrong}))


def test_a_shown_value_that_has_another_digest_is_refused() -> None:
    whole = traced("nested")
    step = next(s for s in read(whole).steps if any(x.size for x in s.reads))
    digest = step.reads[0].before
    shown = json.loads(disclose(whole, step.number, {digest: b"another"}))
    with pytest.raises(InvalidTrace, match="another digest"):
        disclosed(json.dumps(shown))
