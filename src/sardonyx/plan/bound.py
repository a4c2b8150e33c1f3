"""The lower bound of N (docs/machine.md, section 6)."""

from __future__ import annotations

from itertools import accumulate

from sardonyx.plan.timeline import Timeline, padded


def lower_bound(timeline: Timeline) -> int:
    """The largest sum of padded sizes that are live at one step, each class of views counted once
    and an output that may take the place of a dying input not at all; no valid plan is smaller."""
    lives = timeline.lifetimes()
    root = classes(timeline)
    outer = {root[name] for name in timeline.outside}
    end: dict[str, int] = {}
    for name, (_, last) in lives.items():
        end[root[name]] = max(last, end.get(root[name], -1))
    change = [0] * (len(timeline.steps) + 3)
    for name, last in end.items():
        if name not in outer:
            change[lives[name][0] + 1] += padded(timeline.sizes[name])
            change[last + 2] -= padded(timeline.sizes[name])
    demand = list(accumulate(change))
    for k, step in enumerate(timeline.steps):
        demand[k + 1] += sum(map(padded, step.scratch))
        saved = {
            y
            for y, x in step.in_place
            if root[y] == y and y not in outer and x not in timeline.outside and lives[x][1] == k
        }
        demand[k + 1] -= sum(padded(timeline.sizes[y]) for y in saved)
    return max(0, *demand)


def classes(timeline: Timeline) -> dict[str, str]:
    """tensor -> the tensor written first among those whose bytes are equal because of views."""
    root = {name: name for name in timeline.initial}
    for step in timeline.steps:
        source = dict(step.views)
        for name in step.writes:
            root[name] = root[source[name]] if name in source else name
    return root
