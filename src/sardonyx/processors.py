"""How many processors this process may use: of its affinity and of the control groups it is in."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path


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
