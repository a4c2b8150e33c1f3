"""One runtime alone in a process: what importing, loading and the first run take, and memory.

    alone("sardonyx", Subject("net.onnx"), feeds)

import_s: importing it; load_s: from the file to what can run; first_s: the first run; resident and
peak: bytes of memory afterwards and at most; compiled: 1 where the C compiler ran in it, else 0.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from sardonyx.errors import SardonyxError
from sardonyx.measure.peers import PEERS, Subject

if TYPE_CHECKING:  # importing Sardonyx is measured
    from sardonyx.types import Value


def alone(
    name: str, subject: Subject, feeds: Mapping[str, Value], cache: str | None = None
) -> dict[str, float]:
    """The figures of a new process; cache: another folder for what Sardonyx compiles.

    SardonyxError, with the last line that the process said, where it fails.
    """
    environment = {**os.environ, **({"SARDONYX_CACHE": cache} if cache else {})}
    done = subprocess.run(
        [sys.executable, "-m", "sardonyx.measure.alone", name],
        env=environment,
        input=pickle.dumps((subject, dict(feeds))),
        capture_output=True,
    )
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise SardonyxError(f"{name} failed: {said[-1]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def loads(
    name: str, subject: Subject, feeds: Mapping[str, Value], *, cold: bool = False
) -> dict[str, float]:
    """`alone`, with what it compiled in the cache; compile_s is then load and first run of the
    process that compiled. cold: with a cache that is empty at first."""
    with tempfile.TemporaryDirectory() as folder:
        cache = folder if cold else None
        first = alone(name, subject, feeds, cache)
        if not first["compiled"]:
            return first
        again = alone(name, subject, feeds, cache)
        return {**again, "compile_s": first["load_s"] + first["first_s"]}


def _measured(name: str, given: BinaryIO) -> dict[str, float]:
    """The figures of this process; `given` holds the subject and the feeds."""
    start = time.perf_counter()
    import_module("sardonyx.ort.session" if name == "sardonyx" else name)
    imported = time.perf_counter()
    subject, feeds = pickle.load(given)
    before = _libraries(name)
    begin = time.perf_counter()
    run = PEERS[name](subject)
    loaded = time.perf_counter()
    run(feeds)
    after = time.perf_counter()
    return {
        "import_s": imported - start,
        "load_s": loaded - begin,
        "first_s": after - loaded,
        "resident": _status("VmRSS"),
        "peak": _status("VmHWM"),
        "compiled": float(_libraries(name) != before),
    }


def _libraries(name: str) -> set[str]:
    """What is in Sardonyx's cache."""
    if name != "sardonyx":
        return set()
    from sardonyx.build import LIBRARY, cache_folder

    return {path.name for path in cache_folder().glob(f"*{LIBRARY}")}


def _status(key: str) -> int:
    """Bytes of a line of /proc/self/status; 0 where there is none."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(x.split()[1]) * 1024 for x in lines if x.startswith(key)), 0)


if __name__ == "__main__":
    print(json.dumps(_measured(sys.argv[1], sys.stdin.buffer)))
