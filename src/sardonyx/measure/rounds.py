"""Times of runs: the runtimes in turn, so that what disturbs the machine disturbs them alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from sardonyx.measure.peers import Run
from sardonyx.types import Value

SHORT = 1e-4  # seconds; shorter runs are timed several at a time, since clocks have steps
PAUSE = 0.05  # seconds in which the threads of the runtime before fall asleep


def interleaved(
    runs: Mapping[str, Run],
    feeds: Mapping[str, Value],
    rounds: int,
    seconds: float = 0,
    threads: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, list[float]]:
    """The seconds of a run: at least `rounds` times of each, for at least `seconds` in all.

    threads: of each; with several a turn is a pause, a run to wake them and three that are timed.
    clock: time.process_time does not see what else the machine does, and counts every thread.
    """
    times: dict[str, list[float]] = {name: [] for name in runs}
    turns = {name: max(1, round(SHORT / _once(run, feeds))) for name, run in runs.items()}
    end, done, timed = time.perf_counter() + seconds, 0, 1 if threads == 1 else 3
    while done < rounds or time.perf_counter() < end:
        for name, run in runs.items():
            if threads > 1:
                time.sleep(PAUSE)
                run(feeds)
            for _ in range(timed):
                start = clock()
                for _ in range(turns[name]):
                    run(feeds)
                times[name].append((clock() - start) / turns[name])
        done += timed
    return times


def _once(run: Run, feeds: Mapping[str, Value]) -> float:
    """The least seconds of a few runs."""
    found = []
    for _ in range(3):
        start = time.perf_counter()
        run(feeds)
        found.append(time.perf_counter() - start)
    return max(min(found), 1e-9)
