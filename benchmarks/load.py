"""One engine alone in a process: `python -m benchmarks.load ENGINE MODEL` prints JSON.

import_s: importing it; load_s: from the file to what can run (for sardonyx with an empty cache, the
C compiler runs in it); first_s: the first run; resident: the bytes of memory afterwards.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from importlib import import_module
from pathlib import Path

from benchmarks.engines import ENGINES


def main(engine: str, path: Path) -> dict[str, float]:
    start = time.perf_counter()
    import_module("sardonyx.ort.session" if engine == "sardonyx" else engine)
    imported = time.perf_counter()
    run = ENGINES[engine](path)
    loaded = time.perf_counter()
    from benchmarks.models import inputs

    feeds = inputs(path)
    before = time.perf_counter()
    run(feeds)
    after = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "import_s": imported - start,
        "load_s": loaded - imported,
        "first_s": after - before,
        "resident": _resident(),
        "peak": peak,
    }


def _resident() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
