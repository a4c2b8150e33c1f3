"""Times of runs: the runtimes in turn, so that what disturbs the machine disturbs them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from sardonyx.measure.peers import Run
from sardonyx.types import Value


def interleaved(
    runs: Mapping[str, Run],
    feeds: Mapping[str, Value],
    rounds: int,
    seconds: float = 0,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """The seconds of each run: at least `rounds` of each, for at least `seconds` in all.

    clock: time.process_time does not see what else the machine does, and counts every thread.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    end, done = time.perf_counter() + seconds, 0
    while done < rounds or time.perf_counter() < end:
        for name, run in runs.items():
            start = clock()
            run(feeds)
            times[name].append(clock() - start)
        done += 1
    return times
