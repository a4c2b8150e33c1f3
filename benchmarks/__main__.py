"""Times every engine on every model, interleaved in one process on one core, and says so in JSON
and Markdown.

    python -m benchmarks [--seconds 20] [--models resnet50,squeezenet] [--core 0] [--output DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engines import ENGINES
from benchmarks.models import inputs, models
from benchmarks.peak import measured_peak
from benchmarks.report import markdown

LEAST = 15  # rounds


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--seconds", type=float, default=20, help="for each model")
    parser.add_argument("--models", default="", help="names, separated by commas; all by default")
    parser.add_argument("--core", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("build/benchmarks"))
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    os.sched_setaffinity(0, {given.core})
    found = models(given.output)
    chosen = [n for n in given.models.split(",") if n] or list(found)
    result: dict[str, Any] = {"machine": machine(), "peak": measured_peak(), "models": {}}
    for name in chosen:
        print(name, file=sys.stderr, flush=True)
        result["models"][name] = {
            "macs": macs(found[name]),
            "load": {e: loads(e, found[name]) for e in ENGINES},
            **timed(found[name], given.seconds),
        }
    result["peak"] = max(result["peak"], measured_peak())
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


def macs(path: Path) -> int:
    """Multiply-adds of the model's sums of products, padding included, for these inputs."""
    from sardonyx.cli.costs import macs as of_kernel
    from sardonyx.infer import bind
    from sardonyx.passes.lower import lower
    from sardonyx.resolve import resolve
    from sardonyx.types import TensorType

    graph, feeds = resolve(path), inputs(path)
    types = {n: TensorType(graph.types[n].dtype, x.shape) for n, x in feeds.items()}
    return sum(of_kernel(x.kernel) for x in lower(bind(graph, types, feeds)).launches)


def loads(engine: str, path: Path) -> dict[str, float]:
    """What benchmarks.load says; for sardonyx with a new cache (compile_s), then again."""
    with tempfile.TemporaryDirectory() as cache:
        there = {**os.environ, "SARDONYX_CACHE": cache}
        first = _alone(engine, path, there)
        if engine != "sardonyx":
            return first
        return {**_alone(engine, path, there), "compile_s": first["load_s"]}


def _alone(engine: str, path: Path, environment: dict[str, str]) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.load", engine, str(path)]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def timed(path: Path, seconds: float) -> dict[str, Any]:
    """Seconds of the CPU for each run, the engines in turn, and whether the outputs agree. The
    process's clock does not see what else the machine does; each engine has one thread."""
    feeds = inputs(path)
    runs = {name: make(path) for name, make in ENGINES.items()}
    outputs = {name: run(feeds) for name, run in runs.items()}
    times: dict[str, list[float]] = {name: [] for name in runs}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times["sardonyx"]) < LEAST:
        for name, run in runs.items():
            start = time.process_time()
            run(feeds)
            times[name].append(time.process_time() - start)
    return {"times": times, "close": {n: _close(outputs[n], outputs["sardonyx"]) for n in runs}}


def _close(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    """Whether outputs agree at rtol 1e-3, with 1e-5 of the largest element for those near 0."""
    return all(
        np.allclose(x, y, rtol=1e-3, atol=1e-5 * float(np.abs(x).max()))
        for x, y in zip(a, b, strict=True)
    )


if __name__ == "__main__":
    main()
