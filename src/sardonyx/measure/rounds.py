"""Times of runs: the runtimes in turn, so that what disturbs the machine disturbs them alike."""

from __future__ import annotations

import time
from collections.abc import Mapping

from sardonyx.measure.peers import Run
from sardonyx.types import Value


def interleaved(
    runs: Mapping[str, Run], feeds: Mapping[str, Value], rounds: int, seconds: float = 0
) -> dict[str, list[float]]:
    """The seconds of each run: at least `rounds` of each, for at least `seconds` in all."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    end, done = time.perf_counter() + seconds, 0
    while done < rounds or time.perf_counter() < end:
        for name, run in runs.items():
            start = time.perf_counter()
            run(feeds)
            times[name].append(time.perf_counter() - start)
        done += 1
    return times
