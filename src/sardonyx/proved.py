"""The plan checker of the formal specification (formal/checker.mlw): its C, compiled and called.

What of it is proved is said in docs/machine.md, section 8.

plan/guard.py asks it about every plan. Where there is no compiler, or a number does not fit 64
bits, the Python twin (plan/check.py) is asked instead.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import accumulate, chain
from typing import TypeAlias

import numpy as np

from sardonyx.build import library, load, own
from sardonyx.errors import BuildError
from sardonyx.plan.timeline import Plan, Timeline
from sardonyx.types import Array

# struct given_ of plan_check.c: a number, or the int64_t array of that name.
NUMBERS = ("n_names", "n_steps", "n_initial", "n_finals", "n_bytes", "n_rows")
FIELDS = (
    *("n_names", "n_steps", "n_initial", "n_finals", "n_bytes"),
    *("sizes", "initial", "final", "outer"),
    *("reads_lo", "reads_el", "writes_lo", "writes_el", "scratch_lo", "scratch_el"),
    *("views_lo", "views_y", "views_x", "inpl_lo", "inpl_y", "inpl_x"),
    *("placed", "at_offset", "host", "aliased", "over"),
    *("n_rows", "rows_lo", "rows_offset"),
)
Entry: TypeAlias = Callable[..., int]


class _Given(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int64 if name in NUMBERS else ctypes.c_void_p) for name in FIELDS]


def source() -> str:
    """The extracted C."""
    return files("sardonyx.plan").joinpath("plan_check.c").read_text(encoding="utf-8")


def is_valid(plan: Plan, timeline: Timeline) -> bool | None:
    """Whether the timeline is well-formed and the plan is valid (docs/machine.md, T7); None where
    there is no compiler or a number does not fit."""
    code = clause(plan, timeline)
    return None if code is None else code == 0


def clause(plan: Plan, timeline: Timeline) -> int | None:
    """0 if the plan is valid, else the number of a clause that does not hold: 1, 2, 4 for W1, W2 or
    W3, W4; 11, 12, 14 to 17 for V1, V2 or V3, V4 to V7. None as is_valid's."""
    entry = checker()
    if entry is None:
        return None
    try:
        numbers, arrays = encoded(plan, timeline)
    except OverflowError:
        return None
    values = {**numbers, **{name: array.ctypes.data for name, array in arrays.items()}}
    first, last = (np.empty(numbers["n_names"] + 1, np.int64) for _ in range(2))
    given = _Given(*(values[name] for name in FIELDS))
    return entry(given, first.ctypes.data, last.ctypes.data)


@cache
def checker() -> Entry | None:
    """The extracted checker; None where there is neither a compiler nor one made before."""
    try:
        made = load(own("plan_check.c", lambda: library({"plan_check.c": source()})))
    except BuildError:
        return None
    entry = made.check_plan
    entry.argtypes = [_Given, ctypes.c_void_p, ctypes.c_void_p]
    entry.restype = ctypes.c_int64
    return entry


def encoded(plan: Plan, timeline: Timeline) -> tuple[dict[str, int], dict[str, Array]]:
    """A plan and its timeline as numbers and int64 arrays: names are numbered, the lists of all
    steps stand one after the other. Raises OverflowError where a number does not fit."""
    index = {name: i for i, name in enumerate(_names(plan, timeline))}
    steps = timeline.steps
    lists: dict[str, Sequence[int]] = {
        "sizes": _sizes(index, timeline),
        "initial": [index[t] for t in timeline.initial],
        "final": [index[t] for t in timeline.final],
        "outer": [t in timeline.outside for t in index],
        "placed": [t in plan.offsets for t in index],
        "at_offset": [plan.offsets.get(t, 0) for t in index],
        **_rows("reads", [[index[t] for t in s.reads] for s in steps]),
        **_rows("writes", [[index[t] for t in s.writes] for s in steps]),
        **_rows("scratch", [s.scratch for s in steps]),
        **_pairs("views", index, [s.views for s in steps]),
        **_pairs("inpl", index, [s.in_place for s in steps]),
        "rows_lo": _starts(plan.scratch),
        "rows_offset": list(chain.from_iterable(plan.scratch)),
    }
    partial = {"host": plan.hosts, "aliased": plan.aliases, "over": plan.in_place}
    for field, table in partial.items():
        lists[field] = [index[table[t]] if t in table else -1 for t in index]
    numbers = {
        "n_names": len(index),
        "n_steps": len(steps),
        "n_initial": len(timeline.initial),
        "n_finals": len(timeline.final),
        "n_bytes": plan.size,
        "n_rows": len(plan.scratch),
    }
    if not -(1 << 63) <= plan.size < 1 << 63:
        raise OverflowError
    return numbers, {name: np.array([*values, 0], np.int64) for name, values in lists.items()}


def _names(plan: Plan, timeline: Timeline) -> Iterable[str]:
    steps = timeline.steps
    said = chain(timeline.initial, timeline.final, timeline.outside, timeline.sizes)
    done = chain.from_iterable((*s.reads, *s.writes) for s in steps)
    pairs = [pair for s in steps for pair in (*s.views, *s.in_place)]
    tables = (plan.hosts, plan.aliases, plan.in_place)
    planned = chain(plan.offsets, *tables, *(table.values() for table in tables))
    return dict.fromkeys(chain(said, done, chain.from_iterable(pairs), planned))


def _sizes(index: Mapping[str, int], timeline: Timeline) -> list[int]:
    """The size of each name; -1 where the timeline has the name and no size for it."""
    occurs = {*timeline.initial, *timeline.final, *timeline.outside}
    occurs.update(chain.from_iterable((*s.reads, *s.writes) for s in timeline.steps))
    return [timeline.sizes.get(name, -1 if name in occurs else 0) for name in index]


def _starts(rows: Sequence[Sequence[object]]) -> list[int]:
    return list(accumulate(map(len, rows), initial=0))


def _rows(field: str, rows: Sequence[Sequence[int]]) -> dict[str, list[int]]:
    return {f"{field}_lo": _starts(rows), f"{field}_el": list(chain.from_iterable(rows))}


def _pairs(
    field: str, index: Mapping[str, int], rows: Sequence[Sequence[tuple[str, str]]]
) -> dict[str, list[int]]:
    every = [pair for row in rows for pair in row]
    return {
        f"{field}_lo": _starts(rows),
        f"{field}_y": [index[y] for y, _ in every],
        f"{field}_x": [index[x] for _, x in every],
    }
