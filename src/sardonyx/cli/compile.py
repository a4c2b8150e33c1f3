"""sardonyx compile: a folder of C99 that computes a model."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from sardonyx.cli.common import (
    dims_of,
    feed_arguments,
    model_arguments,
    output_path,
    progress,
    reading,
    say,
    size_text,
    tuning,
    tuning_arguments,
    write,
)
from sardonyx.cli.feeds import completed, read
from sardonyx.emit import emit
from sardonyx.emit.export import KNOWN_BY, export
from sardonyx.emit.source import WRITTEN, Source, bounds_of
from sardonyx.errors import FeedError
from sardonyx.graph import Graph
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.loading import open_model
from sardonyx.machine import Machine
from sardonyx.opened import Opened
from sardonyx.passes.extents import with_extents
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.timeline import timeline_of
from sardonyx.passes.workers import workers_of
from sardonyx.plan import plan
from sardonyx.stages import is_staged
from sardonyx.trace import Subject
from sardonyx.trace.digest import elements
from sardonyx.trace.observe import Observed, make_rules, observed
from sardonyx.trace.observe_stages import ObservedStages, observed_stages
from sardonyx.trace.write import started
from sardonyx.tune import chosen, lookup
from sardonyx.types import Array, in_memory

BESIDE = ("max_dim", "tune", "schedule", "threads")  # what --trace cannot have beside it


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    model_arguments(parser)
    feed_arguments(parser)
    tuning_arguments(parser)
    parser.add_argument(
        "--max-dim",
        action="append",
        default=[],
        metavar="NAME=SIZE",
        help="the bound of a size that depends on data",
    )
    parser.add_argument(
        "--trace",
        action="store_true",
        help="C that can write a trace (make trace) and raise flags (-DSARDONYX_MONITOR): "
        "operation by operation, in the plan of G, with plain loops",
    )
    parser.add_argument(
        "--threads",
        action="store_true",
        help="the caller may supply a parallel_for (see model.h); without it, no trace of threads",
    )
    parser.add_argument("-o", "--output", type=output_path, required=True, metavar="DIR")


def execute(args: argparse.Namespace) -> int:
    """Writes the folder, with a run of the machine as its test."""
    _check(args)
    opened = open_model(args.model, dims=dims_of(args.dim), **reading(args), seed=args.seed)
    graph = opened.graph
    if graph.symbols:
        sizes = " ".join(f"--dim {name}=SIZE" for name in graph.symbols)
        raise FeedError(f"{opened.name} has symbolic dims, exported C needs sizes: add {sizes}")
    if args.trace:
        return _traced(args, opened)
    graph, extents = with_extents(graph, dims_of(args.max_dim, "--max-dim"))
    feeds = completed(opened.graph, read(opened.graph, args.input), args.seed)
    progress(0, 4, "lowering")
    program = optimise(lower(graph, overridable=False))
    progress(1, 4, "planning")
    bounds = bounds_of(extents)
    made = plan(timeline_of(program, bounds) if bounds else timeline_of(program))
    progress(2, 4, "running the machine, for the test")
    results = Machine(replace(graph, values={}, extents=())).run(feeds)
    progress(3, 4, "writing")
    choices = lookup(chosen(program, tuning(args), progress))
    printer = partial(print_scheduled, threads=args.threads, choices=choices)
    workers = workers_of(program).within(bounds) if args.threads else None
    source = emit(program, made, printer=printer, extents=extents, workers=workers)
    given = [feeds.get(n, graph.initializers.get(n)) for n in program.inputs]
    files = export(
        program,
        source,
        args.output,
        [x for x in given if x is not None],
        [results[n] for n in program.outputs],
        extents,
    )
    progress(4, 4, "written")
    for path in files:
        say(f"{path}  {size_text(path.stat().st_size)}")
    say(f"N: {size_text(made.size)}; test it with: make -C {args.output} test")
    return 0


def _check(args: argparse.Namespace) -> None:
    """FeedError for an option that has no meaning beside --trace, or a file for the folder."""
    for name in BESIDE if args.trace else ():
        if getattr(args, name):
            option = f"--{name.replace('_', '-')}"
            raise FeedError(
                f"--trace with {option}: a trace is of plain loops in the plan of G, for which "
                f"{option} means nothing; leave out one of them"
            )
    _check_folder(args.output)


def _check_folder(folder: Path) -> None:
    """FeedError where a folder can not be one for an export: it is none, or it holds files, but not
    the first file of an earlier export, which a new one writes over."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise FeedError(f"-o {folder}: expected a folder, or a name for a new one")
    there, before = sorted(path.name for path in folder.iterdir()), folder / KNOWN_BY
    if not there or (before.is_file() and WRITTEN.encode() in _head(before)):
        return
    raise FeedError(
        f"-o {folder}: it holds {there[0]}{f' and {len(there) - 1} more' if there[1:] else ''}, "
        f"but no {KNOWN_BY} that Sardonyx wrote; expected an empty folder, a name for a new one, "
        "or the folder of an earlier compile, which is written over"
    )


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(1000)


def _traced(args: argparse.Namespace, opened: Opened) -> int:
    """Writes the folder of a program that can be observed."""
    feeds = completed(opened.graph, read(opened.graph, args.input), args.seed)
    digest = hashlib.sha256(Path(args.model).read_bytes()).hexdigest()
    claimed = opened.metadata.custom.get("sonnx.profile")
    subject = Subject(Path(args.model).name, digest, claimed)
    made, source, size = _observed(opened.graph, feeds, subject)
    outputs = Machine(opened.graph).run(feeds)
    given = [feeds[n] for n in made.program.inputs]
    results = [outputs[n] for n in made.program.outputs]
    paths = export(made.program, source, args.output, given, [np.asarray(x) for x in results])
    for name, text in made.files.items():
        paths.append(args.output / name)
        write(paths[-1], text)
    for i, value in enumerate(given):
        paths.append(args.output / f"input{i}.bin")
        write(paths[-1], elements(in_memory(value)))
    with (args.output / "Makefile").open("a", encoding="utf-8", newline="\n") as file:
        file.write(make_rules(len(given)))
    for path in paths:
        say(f"{path}  {size_text(path.stat().st_size)}")
    say(f"N: {size_text(size)}; write a trace with: make -C {args.output} trace")
    return 0


def _observed(
    graph: Graph, feeds: Mapping[str, Array], subject: Subject
) -> tuple[Observed | ObservedStages, Source, int]:
    """The program that can be observed, its C, and N."""
    if is_staged(graph):
        staged = observed_stages(graph, feeds, subject)
        source = emit(staged.program, staged.plan, watched=staged.watched)
        return staged, source, staged.plan.size
    machine = started(graph, feeds, fused=True)
    made = observed(machine, subject)
    return made, emit(made.program, made.plan, hooks=made.hooks), machine.plan.size
