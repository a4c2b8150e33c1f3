"""What host functions make of their attributes is made once for each operation."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

KEPT = 256  # of one function

P = ParamSpec("P")
Made = TypeVar("Made")


def once(make: Callable[P, Made]) -> Callable[P, Made]:
    """make, which remembers what it gave for the very same objects: to compare or to hash a table
    of all words would take as long as a run. Attributes are never changed."""
    known: dict[tuple[int, ...], tuple[tuple[Any, ...], Made]] = {}

    @wraps(make)
    def made(*args: P.args, **kwargs: P.kwargs) -> Made:
        key = tuple(map(id, args))
        found = known.get(key)
        if found is None:
            if len(known) >= KEPT:
                known.clear()
            found = known[key] = args, make(*args, **kwargs)  # ids of what is kept stay its own
        return found[1]

    return made
