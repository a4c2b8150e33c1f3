"""sardonyx bench: how long a model's run takes, alone or beside onnxruntime and OpenVINO."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from statistics import median
from typing import TypeAlias

from sardonyx.cli.common import (
    check_written,
    dims_of,
    feed_arguments,
    memory_text,
    model_arguments,
    reading,
    say,
    table,
    thread_arguments,
    tuning,
    tuning_arguments,
    write,
)
from sardonyx.cli.feeds import completed, read
from sardonyx.engines import make_engine
from sardonyx.errors import BuildError, FeedError, shown
from sardonyx.loading import open_model
from sardonyx.measure.alone import loads
from sardonyx.measure.costs import work
from sardonyx.measure.peak import measured_peak, measured_reading
from sardonyx.measure.peers import PEERS, Run, Subject, difference, installed
from sardonyx.measure.roofline import draw, formats
from sardonyx.measure.rounds import interleaved
from sardonyx.ort.events import events, named
from sardonyx.timed import Timing, Work, timings
from sardonyx.types import Value

PROFILED = 10  # runs
HEADS = ("ratio (median)", "largest difference")
FILES = ("json", "markdown", "plot", "profile")
SLOWEST = 5  # launches that are printed
Result: TypeAlias = dict[str, object]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    model_arguments(parser)
    feed_arguments(parser)
    thread_arguments(parser, 1)
    tuning_arguments(parser)
    parser.add_argument("--runs", type=int, default=30, help="of each runtime (default 30)")
    parser.add_argument(
        "--compare",
        action="store_true",
        help="also onnxruntime and OpenVINO where they are installed: in turn, equal threads",
    )
    parser.add_argument(
        "--cold", action="store_true", help="also load with an empty cache, so that C is compiled"
    )
    parser.add_argument(
        "--profile",
        type=Path,
        metavar="FILE",
        help="the time of each launch (native engine: operations that it fuses) or step (machine) "
        f"of {PROFILED} more runs, as Chrome-trace JSON with onnxruntime's field names",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="every figure as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="the table as Markdown")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="the roofline of a core, and the model below it"
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Measured:
    """What was found of one runtime. seconds: of each run; alone: of a process of its own (see
    measure/alone.py); apart: the largest difference of its outputs from ours."""

    seconds: Sequence[float]
    alone: Mapping[str, float]
    apart: float


@dataclass(frozen=True, slots=True)
class _Roof:
    """The multiply-adds of a run, the bytes of weights and inputs, and what a core can do at most:
    GFLOP/s of float32, GB/s read from memory."""

    macs: int
    bytes: int
    peak: float
    reading: float

    def of_peak(self, seconds: float, threads: int) -> float:
        return 2e-9 * self.macs / seconds / (self.peak * threads)

    def of_reading(self, seconds: float) -> float:
        return 1e-9 * self.bytes / seconds / self.reading

    def __str__(self) -> str:
        counted = f"{self.macs:,} multiply-adds" if self.macs else "no multiply-adds are counted"
        return (
            f"{counted}, {self.bytes / 1e6:.3g} MB of weights and inputs; a core "
            f"at its peak: {self.peak:.0f} GFLOP/s of float32, {self.reading:.0f} GB/s read"
        )


def execute(args: argparse.Namespace) -> int:
    """Prints the times, and the memory that a process took."""
    _check(args)
    dims = dims_of(args.dim)
    entries = {"sardonyx.tune": str(int(args.tune)), "sardonyx.schedule": str(args.schedule or "")}
    subject = Subject(args.model, dims, args.qdq, args.numerics, args.threads, entries)
    graph = open_model(args.model, dims=subject.dims, **reading(args), seed=args.seed).graph
    feeds = completed(graph, read(graph, args.input), args.seed)
    found, lacking = _measure(args, subject, feeds)
    engine = make_engine(graph, threads=args.threads, tuning=tuning(args))
    engine.run(feeds)
    size, bound = engine.memory()
    roof = _roof(work(graph, feeds))
    rows = _rows(found, roof, args.threads)
    print(_title(found, args.threads))
    print(table(rows, ""))
    for name, why in lacking.items():
        say(f"{name}: {why}")
    say(f"engine  {engine.name}")
    say(f"N       {memory_text(size, bound)}")
    if roof is not None:
        say(f"work    {roof}")
    if args.json is not None:
        result: Result = {
            "model": args.model,
            "engine": engine.name,
            "n": size,
            "n_lower_bound": bound,
            "threads": args.threads,
        }
        result["lacking"] = lacking
        result["runtimes"] = {n: _figures(one, roof, args.threads) for n, one in found.items()}
        if roof is not None:
            result |= asdict(roof)
        write(args.json, json.dumps(result, indent=1) + "\n")
    if args.markdown is not None:
        write(args.markdown, _markdown(rows, _title(found, args.threads), roof))
    if args.plot is not None:
        _plot(found, roof, args)
    if args.profile is not None:
        _profile(timings(graph, feeds, PROFILED, args.threads, tuning(args)), args.profile)
    return 0


def _measure(
    args: argparse.Namespace, subject: Subject, feeds: Mapping[str, Value]
) -> tuple[dict[str, _Measured], dict[str, str]]:
    """What was found of each runtime, and why another cannot take part."""
    names = installed() if args.compare else ("sardonyx",)
    lacking = {n: "not installed" for n in PEERS if args.compare and n not in names}
    alone, runs, outputs = {}, dict[str, Run](), {}
    for name in names:
        try:
            alone[name] = loads(name, subject, feeds, cold=args.cold and name == "sardonyx")
            run = PEERS[name](subject)
            outputs[name] = run(feeds)
            runs[name] = run
        except Exception as error:
            if name == "sardonyx":
                raise
            lacking[name] = " ".join(str(error).split())[:200]
    times = interleaved(runs, feeds, args.runs, threads=args.threads)
    ours = outputs["sardonyx"]
    found = {n: _Measured(times[n], alone[n], difference(outputs[n], ours)) for n in runs}
    return found, lacking


def _title(found: Mapping[str, _Measured], threads: int) -> str:
    each = "one thread" if threads == 1 else f"{threads} threads"
    runs = len(found["sardonyx"].seconds)
    return f"ms of {runs} runs each, {each}; first, load, memory: a new process"


def _rows(
    found: Mapping[str, _Measured], roof: _Roof | None, threads: int
) -> list[tuple[str, ...]]:
    """The table, its heads first."""
    ours, shares = found["sardonyx"], () if roof is None else ("of peak", "of reading")
    several = HEADS if len(found) > 1 else ()
    rows = [("", "least", "median", "first", "load", "compile", "peak MB", *shares, *several)]
    for name, one in found.items():
        least, middle = min(one.seconds), median(one.seconds)
        ratios = f"{least / min(ours.seconds):.2f} ({middle / median(ours.seconds):.2f})"
        row = (
            name,
            *map(_milliseconds, (least, middle, one.alone["first_s"], one.alone["load_s"])),
            _milliseconds(one.alone["compile_s"]) if "compile_s" in one.alone else "",
            f"{one.alone['peak'] / 1e6:.0f}",
        )
        if roof is not None:
            share = f"{roof.of_peak(least, threads):.0%}" if roof.macs else ""
            row += (share, f"{roof.of_reading(least):.0%}")
        if several:
            row += ("", "") if one is ours else (ratios, f"{one.apart:.3g}")
        rows.append(row)
    return rows


def _check(args: argparse.Namespace) -> None:
    """Raises FeedError for what could only fail after the measurement."""
    if args.runs < 1:
        raise FeedError(f"--runs {args.runs}: expected at least 1")
    written = [(name, path) for name in FILES if (path := getattr(args, name)) is not None]
    for i, (name, path) in enumerate(written):
        check_written(f"--{name}", path, args)
        for other, before in written[:i]:
            if path.resolve() == before.resolve():
                raise FeedError(f"--{name} {path}: it is written by --{other}, too; choose another")
    if args.plot is not None and find_spec("matplotlib") is None:
        raise FeedError("--plot needs matplotlib: pip install 'sardonyx[bench]'")
    if args.plot is not None:
        known = formats()
        if args.plot.suffix and args.plot.suffix[1:].lower() not in known:
            raise FeedError(
                f"--plot {args.plot}: expected a name that ends in .{', .'.join(known)}"
            )


def _roof(done: Mapping[str, int]) -> _Roof | None:
    """None where there is no compiler to measure with."""
    try:
        return _Roof(done["macs"], done["bytes"], measured_peak(), measured_reading())
    except BuildError:
        return None


def _markdown(rows: Sequence[Sequence[str]], title: str, roof: _Roof | None) -> str:
    head, *rest = (f"| {' | '.join(row)} |" for row in rows)
    under = "|---" * len(rows[0]) + "|"
    more = [] if roof is None else ["", f"{roof}."]
    return "\n".join([f"{title}.", "", head, under, *rest, *more]) + "\n"


def _plot(found: Mapping[str, _Measured], roof: _Roof | None, args: argparse.Namespace) -> None:
    if roof is None:
        raise FeedError("--plot: the peaks of a core are measured by a C program; there is no cc")
    times = {name: [*one.seconds] for name, one in found.items()}
    model = {"macs": roof.macs, "bytes": roof.bytes, "times": times}
    about = {"machine": {"cpu": platform.processor() or platform.machine()}}
    models = {shown(Path(args.model).stem): model}
    draw({**about, "peak": roof.peak, "reading": roof.reading, "models": models}, args.plot)


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.4g}" if seconds < 1 else f"{1e3 * seconds:.0f}"


def _figures(one: _Measured, roof: _Roof | None, threads: int) -> Result:
    seconds, least = [*one.seconds], min(one.seconds)
    shares: Result = {}
    if roof is not None:
        shares = {"of_peak": roof.of_peak(least, threads), "of_reading": roof.of_reading(least)}
    return {
        **shares,
        "least_s": least,
        "median_s": median(seconds),
        "seconds": seconds,
        **one.alone,
        "difference": one.apart if isfinite(one.apart) else None,
    }


def _profile(runs: Sequence[Sequence[Timing]], path: Path) -> None:
    """Writes the timings, and prints those that take longest."""
    write(path, json.dumps(events(runs), indent=0) + "\n")
    if len({len(run) for run in runs}) != 1 or not runs[0]:
        say(f"profile {path}")
        return
    least = [min(column, key=_duration) for column in zip(*runs, strict=True)]
    total = sum(map(_duration, least))
    kind = " or ".join(dict.fromkeys(t.work.kind for t in least))
    say(f"profile {path}: {len(least)} times a {kind}, least times together {total / 1e6:.4g} ms")
    rows = [
        (f"{t.duration / 1e6:.4g} ms", f"{t.duration / max(1, total):.0%}", _work(t.work))
        for t in sorted(least, key=_duration, reverse=True)[:SLOWEST]
    ]
    print(table(rows))


def _work(work: Work) -> str:
    kinds = "+".join(op.op_type for op in work.operations) or "copy"
    return f"{kinds} '{named(work)}'"[:100]


def _duration(timing: Timing) -> int:
    return timing.duration
