"""Times every engine on every model, interleaved in one process on one core, and says so in JSON
and Markdown.

    python -m benchmarks [--seconds 20] [--core 0] [--threads 1] [--output DIR] [--runs-only]
                         [--numerics winograd] [--layers] [NAME ...]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.layers import layers
from benchmarks.models import inputs, models, written
from benchmarks.report import ALONE, markdown
from benchmarks.wheels import Absent
from sardonyx.measure.alone import loads
from sardonyx.measure.costs import work
from sardonyx.measure.peak import measured_peak, measured_reading
from sardonyx.measure.peers import PEERS, Subject, close, difference
from sardonyx.measure.rounds import interleaved
from sardonyx.resolve import resolve

LEAST = 15  # rounds


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--seconds", type=float, default=20, help="for each model")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"all, or of {', '.join(models())}"
    )
    parser.add_argument("--core", type=int, default=0, help="-1: whichever is free")
    parser.add_argument("--threads", type=int, default=1, help="of each engine (default 1)")
    parser.add_argument("--numerics", choices=["default", "winograd"], default="default")
    parser.add_argument("--layers", action="store_true", help="single layers, not models")
    parser.add_argument("--runs-only", action="store_true", help="without loading and memory")
    parser.add_argument("--output", type=Path, default=Path("build/benchmarks"))
    given = parser.parse_args()
    if given.threads < 1:
        parser.error(f"--threads is {given.threads}, expected 1 or more")
    allowed = sorted(os.sched_getaffinity(0))
    if given.threads == 1 and given.core >= 0 and given.core not in allowed:
        parser.error(f"--core is {given.core}; this process may use {allowed}")
    given.output.mkdir(parents=True, exist_ok=True)
    if given.core >= 0 and given.threads == 1:
        os.sched_setaffinity(0, {given.core})
    there = layers() if given.layers else models()
    unknown = [n for n in given.names if n not in there]
    if unknown:
        parser.error(f"there is no model {unknown[0]}; there are {', '.join(there)}")
    result: dict[str, Any] = {"machine": machine(), "peak": measured_peak()}
    result |= {"reading": measured_reading(), "models": {}}
    result["threads"] = given.threads
    for name in given.names or there:
        print(name, file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as cache:  # empty: what is compiled is timed
            if not given.runs_only:
                os.environ["SARDONYX_CACHE"] = cache
            try:
                path = written(there[name], given.output / f"{name}.onnx")
            except Absent as error:
                print(f"{name}: {error}", file=sys.stderr)
                continue
            subject = Subject(str(path), threads=given.threads, numerics=given.numerics)
            result["models"][name] = measured(subject, given.seconds, given.runs_only)
        (given.output / "result.json").write_text(json.dumps(result, indent=1))
    text = markdown(result)
    (given.output / "result.md").write_text(text)
    print(text)


def machine() -> dict[str, str]:
    """What was measured, where and when."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), "")
    import onnxruntime
    import openvino

    import sardonyx

    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cpu": model or platform.processor(),
        "load": f"{os.getloadavg()[0]:.1f} of {os.cpu_count()} cores busy with other work",
        "python": platform.python_version(),
        "sardonyx": getattr(sardonyx, "__version__", ""),
        "onnxruntime": onnxruntime.__version__,
        "openvino": openvino.__version__.split("-")[0],
    }


def measured(subject: Subject, seconds: float, runs_only: bool = False) -> dict[str, Any]:
    """Loading in a process of its own; the seconds for each run (of the CPU for one thread, by the
    clock on the wall for more), the runtimes in turn, so many threads each, and Sardonyx on one
    beside several; whether the outputs agree with ours; lacking: why another runtime cannot run
    the model."""
    path, threads = Path(subject.path), subject.threads
    feeds = inputs(path)
    load, runs, outputs, lacking = {}, {}, {}, {}
    for name, make in PEERS.items():
        try:
            if not runs_only:
                load[name] = loads(name, subject, feeds)
            run = make(subject)
            outputs[name] = run(feeds)
            runs[name] = run
        except Exception as error:
            if name == "sardonyx":
                raise
            lacking[name] = " ".join(str(error).split())[:200]
    ours = outputs["sardonyx"]
    if threads > 1:
        runs[ALONE] = PEERS["sardonyx"](replace(subject, threads=1))
    clock = time.process_time if threads == 1 else time.perf_counter
    return {
        **work(resolve(path), feeds),
        "load": load,
        "times": interleaved(runs, feeds, LEAST, seconds, threads, clock),
        "close": {n: close(x, ours) for n, x in outputs.items()},
        "difference": {n: difference(x, ours) for n, x in outputs.items()},
        "lacking": lacking,
    }


if __name__ == "__main__":
    main()
