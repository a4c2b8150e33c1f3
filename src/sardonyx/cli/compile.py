"""sardonyx compile: a folder of C99 that computes a model."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from sardonyx.cli.common import dims_of, feed_arguments, model_arguments, progress, size_text
from sardonyx.cli.feeds import completed, read
from sardonyx.emit import emit
from sardonyx.emit.export import export
from sardonyx.errors import FeedError
from sardonyx.kernel.schedule import print_scheduled
from sardonyx.loading import open_model
from sardonyx.machine import Machine
from sardonyx.passes.extents import with_extents
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.timeline import timeline_of
from sardonyx.plan import plan


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    model_arguments(parser)
    feed_arguments(parser)
    parser.add_argument(
        "--max-dim",
        action="append",
        default=[],
        metavar="NAME=SIZE",
        help="the bound of a size that depends on data",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR")


def execute(args: argparse.Namespace) -> int:
    """Writes the folder, with a run of the machine as its test."""
    opened = open_model(args.model, dims=dims_of(args.dim), qdq=args.qdq)
    graph = opened.graph
    if graph.symbols:
        sizes = " ".join(f"--dim {name}=SIZE" for name in graph.symbols)
        raise FeedError(f"{opened.name} has symbolic dims, exported C needs sizes: add {sizes}")
    feeds = completed(graph, read(graph, args.input), args.seed)
    progress(0, 4, "lowering")
    graph, extents = with_extents(graph, dims_of(args.max_dim))
    program = optimise(lower(graph, overridable=False))
    progress(1, 4, "planning")
    bounds = {e.symbol: e.most for e in extents}
    made = plan(timeline_of(program, bounds) if bounds else timeline_of(program))
    progress(2, 4, "running the machine, for the test")
    results = Machine(replace(graph, values={}, extents=())).run(feeds)
    progress(3, 4, "writing")
    source = emit(program, made, printer=print_scheduled, extents=extents)
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
        print(f"{path}  {size_text(path.stat().st_size)}")
    print(f"N: {size_text(made.size)}; test it with: make -C {args.output} test")
    return 0
