"""Threads of the native engine: how many there may be, and the pool that runs them (pool.c).

    available()         the processors that this process may use
    pool_of(threads)    what a program's context takes; None for one thread

The pool is compiled once for this host and kept in the cache. Where it cannot be had, the caller
does all the work.
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from sardonyx import build
from sardonyx.errors import BuildError

MOST = 256  # as in pool.c


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """A number of threads, and the addresses that a context takes. held: what must stay alive."""

    threads: int
    parallel_for: int = 0
    argument: int = 0
    held: object = None


ALONE = Pool(1)


def pool_of(threads: int = 0) -> Pool:
    """The pool for so many threads, the caller included; 0 or less: all that are available."""
    wanted = min(threads if threads > 0 else available(), MOST)
    function = None if wanted < 2 else _parallel_for()
    if function is None:
        return ALONE
    argument = ctypes.c_int64(wanted)
    return Pool(wanted, function, ctypes.addressof(argument), argument)


def available() -> int:
    """The processors that this process may use, by its affinity and the quotas of its control
    groups; at least 1."""
    try:
        count = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        count = os.cpu_count() or 1
    return max(1, min([count, *(math.ceil(x) for x in quotas(Path("/")))]))


def quotas(root: Path) -> Iterator[float]:
    """The processors that the control groups of this process allow, of either version, those above
    them included; / is `root`."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            yield from _along(root / "sys/fs/cgroup", path, _quota)
        elif "cpu" in controllers.split(","):
            yield from _along(root / "sys/fs/cgroup/cpu", path, _quota_v1)


def _along(top: Path, path: str, quota: Callable[[Path], float | None]) -> Iterator[float]:
    """The quotas of a group and of those above it. Inside of a container its own group is `top`."""
    group = top / path.lstrip("/")
    for folder in (group, *group.parents):
        found = quota(folder)
        if found is not None:
            yield found
        if folder == top:
            return


def _quota(folder: Path) -> float | None:
    """cpu.max: "max" or a quota, then a period, in microseconds."""
    try:
        quota, period = (folder / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _quota_v1(folder: Path) -> float | None:
    try:
        quota, period = (
            int((folder / f"cpu.cfs_{word}_us").read_text()) for word in ("quota", "period")
        )
        return quota / period if quota > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _compiled() -> Path:
    return build.library({"pool.c": files("sardonyx").joinpath("pool.c").read_text("utf-8")})


@cache
def _parallel_for() -> int | None:
    """The address of sardonyx_pool_for; None where the pool cannot be compiled."""
    try:
        library = build.load(build.own("pool.c", _compiled))
    except BuildError:
        return None
    return ctypes.cast(library.sardonyx_pool_for, ctypes.c_void_p).value
