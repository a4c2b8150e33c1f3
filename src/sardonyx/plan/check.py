"""The checker of every plan: docs/machine.md, Definitions 12 to 14, clause by clause.

It is written from the definitions and shares no code with the planner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TypeAlias

import numpy as np

from sardonyx.plan.timeline import ALIGNMENT, Plan, Step, Timeline

Name: TypeAlias = "str | tuple[int, int]"  # a tensor, or a temporary: (step, number)


@dataclass(frozen=True, slots=True)
class Violation:
    """A clause (W1 to W4, V1 to V7) that does not hold, and of what."""

    clause: str
    text: str

    def __str__(self) -> str:
        return f"{self.clause}: {self.text}"


@dataclass(frozen=True, slots=True)
class _Item:
    """A name with its place, size and life. space: -1 is M, others number outside tensors."""

    name: Name
    space: int
    offset: int
    size: int
    first: int
    last: int


def check_timeline(timeline: Timeline) -> list[Violation]:
    """What is wrong with a timeline; nothing if it is well-formed."""
    return [*_sized(timeline), *_ordered(timeline), *_pairs(timeline)]


def check_plan(plan: Plan, timeline: Timeline) -> list[Violation]:
    """What is wrong with a plan of a timeline; nothing if and only if it is valid."""
    broken = check_timeline(timeline) or list(_placed(plan, timeline))
    if broken:
        return broken
    items = {item.name: item for item in _items(plan, timeline)}
    return [
        *_bounds(plan, items),
        *_aliases(plan, timeline, items),
        *_in_place(plan, timeline, items),
        *_hosts(plan, timeline),
        *_separate(plan, timeline, items),
    ]


def _sized(timeline: Timeline) -> Iterator[Violation]:
    named = chain(timeline.initial, timeline.final, timeline.outside)
    for name in dict.fromkeys(chain(named, *(s.reads + s.writes for s in timeline.steps))):
        if name not in timeline.sizes:
            yield Violation("W1", f"'{name}' has no size")
    scratch = chain.from_iterable(s.scratch for s in timeline.steps)
    for size in chain(timeline.sizes.values(), scratch):
        if size < 0:
            yield Violation("W1", f"{size} is not a size")


def _ordered(timeline: Timeline) -> Iterator[Violation]:
    born = set(timeline.initial)
    if len(born) != len(timeline.initial):
        yield Violation("W2", "an initial tensor is named twice")
    for k, step in enumerate(timeline.steps):
        for name in step.reads:
            if name not in born:
                yield Violation("W3", f"step {k} reads '{name}' before it has a value")
        for name in step.writes:
            if name in born:
                yield Violation("W2", f"step {k} assigns '{name}' a second time")
            born.add(name)
    for name in timeline.final:
        if name not in born:
            yield Violation("W3", f"'{name}' is final and never has a value")
    for name in sorted(timeline.outside - born):
        yield Violation("W3", f"'{name}' is outside and never has a value")


def _pairs(timeline: Timeline) -> Iterator[Violation]:
    for k, step in enumerate(timeline.steps):
        for y, x in (*step.views, *step.in_place):
            if y not in step.writes or x not in step.reads:
                yield Violation("W4", f"step {k} does not read '{x}' and write '{y}'")
            elif timeline.sizes.get(x) != timeline.sizes.get(y):
                yield Violation("W4", f"step {k}: '{y}' and '{x}' have different sizes")
        if len({y for y, _ in step.views}) != len(set(step.views)):
            yield Violation("W4", f"step {k}: an output is a view of two inputs")


def _placed(plan: Plan, timeline: Timeline) -> Iterator[Violation]:
    names = _born(timeline)
    for name in dict.fromkeys((*names, *plan.offsets, *plan.hosts)):
        places = (name in plan.offsets) + (name in plan.hosts) + (name in timeline.outside)
        if places != (name in names):
            yield Violation("V1", f"'{name}' has {places} places")
    if [len(offsets) for offsets in plan.scratch] != [len(s.scratch) for s in timeline.steps]:
        yield Violation("V1", "a temporary has no place")


def _born(timeline: Timeline) -> dict[str, int]:
    born = dict.fromkeys(timeline.initial, -1)
    for k, step in enumerate(timeline.steps):
        for name in step.writes:
            born[name] = k
    return born


def _items(plan: Plan, timeline: Timeline) -> Iterator[_Item]:
    """Every name with its place, size, first and last; sizes nobody names are left out."""
    first = _born(timeline)
    last = dict(first)
    for k, step in enumerate(timeline.steps):
        for name in step.reads:
            last[name] = max(last[name], k)
    for name in timeline.final:
        last[name] = len(timeline.steps)
    spaces = {name: i for i, name in enumerate(sorted(timeline.outside))}
    for name in first:
        space = -1 if name in plan.offsets else spaces.get(plan.hosts.get(name, name), -2)
        offset = plan.offsets.get(name, 0)
        yield _Item(name, space, offset, timeline.sizes[name], first[name], last[name])
    for k, step in enumerate(timeline.steps):
        for i, (size, offset) in enumerate(zip(step.scratch, plan.scratch[k], strict=True)):
            yield _Item((k, i), -1, offset, size, k, k)


def _same_place(a: _Item, b: _Item) -> bool:
    return (a.space, a.offset) == (b.space, b.offset)


def _bounds(plan: Plan, items: Mapping[Name, _Item]) -> Iterator[Violation]:
    if plan.size < 0:
        yield Violation("V2", f"N is {plan.size}")
    for item in items.values():
        if item.space != -1:
            continue
        if item.offset < 0 or item.offset + item.size > plan.size:
            yield Violation("V2", f"{item.name!r} is not within the {plan.size} bytes of M")
        if item.offset % ALIGNMENT:
            yield Violation("V3", f"{item.name!r} lies at {item.offset}, not at a multiple of 64")
    if plan.size % ALIGNMENT:
        yield Violation("V3", f"N is {plan.size}, not a multiple of 64")


def _aliases(plan: Plan, timeline: Timeline, items: Mapping[Name, _Item]) -> Iterator[Violation]:
    for y, x in plan.aliases.items():
        if y not in items or x not in items or (y, x) not in _writer(y, timeline, items).views:
            yield Violation("V4", f"'{y}' is not a view of '{x}'")
        elif not _same_place(items[y], items[x]):
            yield Violation("V4", f"'{y}' does not lie where '{x}' lies")


def _in_place(plan: Plan, timeline: Timeline, items: Mapping[Name, _Item]) -> Iterator[Violation]:
    for y, x in plan.in_place.items():
        if y not in items or x not in items or not _covered(y, x, timeline, items):
            yield Violation("V5", f"'{y}' may not take the place of '{x}'")
        elif x in timeline.outside or x in plan.hosts:
            yield Violation("V5", f"'{x}' is outside of M and may not be overwritten")


def _covered(y: str, x: str, timeline: Timeline, items: Mapping[Name, _Item]) -> bool:
    """Whether y may lie on x, which dies in the step that writes y."""
    return (
        (y, x) in _writer(y, timeline, items).in_place
        and items[x].last == items[y].first
        and _same_place(items[y], items[x])
    )


def _writer(y: str, timeline: Timeline, items: Mapping[Name, _Item]) -> Step:
    """The step that writes y; an initial tensor has one that does nothing."""
    k = items[y].first
    return timeline.steps[k] if k >= 0 else Step((), ())


def _hosts(plan: Plan, timeline: Timeline) -> Iterator[Violation]:
    root = _classes(plan, timeline)
    for name, host in plan.hosts.items():
        if host not in timeline.outside or root.get(name) != root.get(host):
            yield Violation("V6", f"'{name}' has not the bytes of its host '{host}'")
        elif host in timeline.initial and name not in plan.aliases:
            yield Violation("V6", f"'{name}' would be written into '{host}'")


def _classes(plan: Plan, timeline: Timeline) -> dict[str, str]:
    """name -> the first of its class of aliases; pairs that V4 rejects do not count."""
    root = {name: name for name in timeline.initial}
    for step in timeline.steps:
        for y in step.writes:
            x = plan.aliases.get(y)
            root[y] = root[x] if x is not None and (y, x) in step.views else y
    return root


def _separate(plan: Plan, timeline: Timeline, items: Mapping[Name, _Item]) -> Iterator[Violation]:
    """V7. The overlaps in space and in time are found for one name against all at a time."""
    root = _classes(plan, timeline)
    every = [item for item in items.values() if item.size > 0]
    highest = max((abs(item.offset) + item.size for item in every), default=0)
    number = np.int64 if highest < 1 << 62 else object
    rows = np.array(
        [(i.space, i.offset, i.offset + i.size, i.first, i.last) for i in every], number
    ).reshape(-1, 5)
    space, start, end, first, last = rows.T
    for i, a in enumerate(every):
        meets = (space[:i] == a.space) & (start[:i] < a.offset + a.size) & (end[:i] > a.offset)
        meets &= (first[:i] <= a.last) & (last[:i] >= a.first)
        for j in np.flatnonzero(meets):
            b = every[j]
            if not _may_overlap(a, b, root, plan, timeline, items):
                yield Violation("V7", f"{a.name!r} and {b.name!r} are live at once and overlap")


def _may_overlap(
    a: _Item,
    b: _Item,
    root: Mapping[str, str],
    plan: Plan,
    timeline: Timeline,
    items: Mapping[Name, _Item],
) -> bool:
    """Whether two names that are live at once may share bytes."""
    x, y = a.name, b.name
    if isinstance(x, tuple) or isinstance(y, tuple):
        return False
    if root[x] == root[y]:
        return True
    return any(
        new in plan.in_place and _covered(new, old, timeline, items)
        for new, old in ((x, y), (y, x))
    )
