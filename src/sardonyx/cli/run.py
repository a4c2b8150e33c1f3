"""sardonyx run: a model's result on given or random inputs."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from sardonyx.cli.common import (
    at_least,
    check_written,
    dims_of,
    feed_arguments,
    memory_text,
    model_arguments,
    output_path,
    progress,
    reading,
    refuse_beside,
    say,
    statistics,
    thread_arguments,
    tuning,
    tuning_arguments,
    type_of,
    writing,
)
from sardonyx.cli.feeds import completed, read
from sardonyx.engines import make_engine
from sardonyx.errors import FeedError
from sardonyx.graph import Graph
from sardonyx.loading import open_model
from sardonyx.opened import Opened
from sardonyx.resolve.seeds import is_seeded
from sardonyx.types import Array, Value

LABELS = ("labels", "classes", "class_names", "names")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    model_arguments(parser)
    feed_arguments(parser)
    thread_arguments(parser, 0)
    tuning_arguments(parser)
    parser.add_argument("--engine", choices=["auto", "native", "machine"], default="auto")
    parser.add_argument("--output", type=output_path, help="write the outputs to a .npz file")
    parser.add_argument("--labels", type=Path, help="the names of the classes, one a line")
    parser.add_argument(
        "--top", type=at_least("--top", 0), default=3, help="how many classes to show (default 3)"
    )


def execute(args: argparse.Namespace) -> int:
    """Runs the model and prints the result, the time, the engine and N."""
    if args.output is not None and args.output.suffix != ".npz":
        raise FeedError(f"--output {args.output}: outputs are written to a .npz file")
    if args.engine == "machine":
        refuse_beside(args, ("tune", "schedule"), "for the machine (--engine machine)")
    check_written("--output", args.output, args)
    labels = None if args.labels is None else _lines(args.labels)
    begin = time.perf_counter()
    opened = open_model(args.model, dims=dims_of(args.dim), **reading(args), seed=args.seed)
    if labels is not None:
        _check_labels(opened.graph, args.labels, len(labels))
    given = read(opened.graph, args.input)
    engine = make_engine(opened.graph, args.engine, progress, args.threads, tuning(args))
    feeds = completed(opened.graph, given, args.seed)
    ready = time.perf_counter()
    found = engine.run(feeds)
    seconds = first = time.perf_counter() - ready
    if engine.name == "native":  # the first run may have compiled
        again = time.perf_counter()
        engine.run(feeds)
        seconds = time.perf_counter() - again
    _show(opened, found, labels or _labels(opened.metadata.custom), args.top)
    start = ready - begin + first - seconds
    print(f"time    {_duration(seconds)} (made ready in {_duration(start)})")
    print(f"engine  {engine.name}")
    print(f"N       {memory_text(*engine.memory())}")
    if any(is_seeded(op) for op in opened.graph.operations):
        print(f"seed    {args.seed} (of random operators)")
    if args.output is not None:
        with writing(args.output), args.output.open("wb") as file:
            np.savez(file, allow_pickle=False, **_savable(found))
    return 0


def _savable(found: Mapping[str, Value]) -> dict[str, Array]:
    """The tensors, strings as fixed-width text; FeedError for anything else."""
    for name, value in found.items():
        if not isinstance(value, np.ndarray):
            raise FeedError(f"the output '{name}' is no tensor: --output cannot write it")
    return {n: v.astype(str) if v.dtype == object else v for n, v in found.items()}


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise FeedError(
            f"--labels {path}: byte {error.start} is not UTF-8; save the file as UTF-8"
        ) from error


def _check_labels(graph: Graph, path: Path, count: int) -> None:
    """FeedError where no output can have so many classes."""
    known = {name: graph.types.get(name) for name in graph.outputs}
    rows = [x.shape[-1] for x in known.values() if x is not None and x.shape]
    open_ones = [x for x in known.values() if x is None or x.shape is None]
    if not open_ones and not any(d == count or not isinstance(d, int) for d in rows):
        there = ", ".join(f"'{name}' is {type_of(graph, name)}" for name in known)
        raise FeedError(
            f"--labels {path}: {count} names, but the last axis of no output has as many: {there}"
        )


def _labels(metadata: Mapping[str, str]) -> list[str]:
    """The classes that a model's metadata names: JSON, or text split at lines or commas."""
    text = next((metadata[key] for key in LABELS if key in metadata), "").strip()
    try:
        found = json.loads(text) if text else []
    except ValueError:
        found = text.split("\n") if "\n" in text else text.split(",")
    if isinstance(found, Mapping):
        found = [found[key] for key in sorted(found, key=lambda k: (len(k), k))]
    return [str(label).strip() for label in found] if isinstance(found, list) else []


def _show(opened: Opened, found: Mapping[str, Value], labels: Sequence[str], top: int) -> None:
    for name, value in found.items():
        if not isinstance(value, np.ndarray):
            say(f"{name}: {value}")
            continue
        shape = ", ".join(map(str, value.shape))
        say(f"{name}: {value.dtype}[{shape}] {statistics(value)}")
        if labels and value.ndim and value.shape[-1] == len(labels) and value.dtype.kind in "fV":
            _classes(value.reshape(-1, len(labels)), labels, top)
        elif value.size <= 16:
            print(f"  {np.array2string(value, separator=', ').replace(chr(10), chr(10) + '  ')}")


def _classes(scores: Array, labels: Sequence[str], top: int) -> None:
    """The best classes of each row with their scores."""
    for number, row in enumerate(scores[:10]):
        wide = row.astype(np.float64)
        best = np.argsort(-wide, kind="stable")[:top]
        head = f"  {number}: " if len(scores) > 1 else "  "
        say(head + ", ".join(f"{labels[i]} {wide[i]:.4g}" for i in best))
    if len(scores) > 10:
        print(f"  ... and {len(scores) - 10} more")


def _duration(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"
