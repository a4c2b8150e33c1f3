"""A session's profile: Chrome-trace JSON with onnxruntime's names for what a session does."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path


def event(
    category: str, name: str, begin: float, duration: float, args: Mapping[str, object]
) -> dict[str, object]:
    """One event; microseconds since profiling started."""
    return {
        "cat": category,
        "pid": os.getpid(),
        "tid": threading.get_native_id(),
        "dur": duration,
        "ts": begin,
        "ph": "X",
        "name": name,
        "args": dict(args),
    }


class Profile:
    """Events of one session: loading, each run, and each node of a run."""

    def __init__(self, prefix: str) -> None:
        self.start_ns = time.monotonic_ns()
        self._prefix = prefix
        self._events: list[dict[str, object]] = []

    @contextmanager
    def event(self, name: str) -> Iterator[None]:
        """Notes how long the block takes."""
        begin = time.monotonic_ns()
        try:
            yield
        finally:
            took, since = time.monotonic_ns() - begin, begin - self.start_ns
            self._events.append(event("Session", name, since // 1000, took // 1000, {}))

    def add(self, events: Iterable[dict[str, object]]) -> None:
        """Adds events whose times count from start_ns."""
        self._events += events

    def write(self) -> str:
        """Writes the events to a file; its name."""
        stamp = f"{datetime.now():%Y-%m-%d_%H-%M-%S}_{os.getpid()}"
        path = Path(f"{self._prefix}_{stamp}.json")
        number = 0
        while path.exists():
            number += 1
            path = Path(f"{self._prefix}_{stamp}_{number}.json")
        path.write_text(json.dumps(self._events, indent=0), encoding="utf-8")
        return str(path)
