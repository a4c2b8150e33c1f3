"""sardonyx accuracy: a bound on the error of each tensor, of one run or of a range of inputs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from sardonyx.accuracy.ranges import ranged
from sardonyx.accuracy.shadow import shadow
from sardonyx.cli.common import (
    dims_of,
    feed_arguments,
    model_arguments,
    ranges_of,
    reading,
    table,
)
from sardonyx.cli.feeds import completed, read
from sardonyx.errors import FeedError
from sardonyx.graph import Graph
from sardonyx.loading import open_model


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    model_arguments(parser)
    feed_arguments(parser)
    parser.add_argument(
        "--range",
        action="append",
        default=[],
        metavar="[INPUT=]LOW:HIGH",
        help="for all inputs between these numbers, not for one run (--range=-1:1, with =)",
    )


def execute(args: argparse.Namespace) -> int:
    """Prints a line per tensor: no element is further from exact real arithmetic than `error`.

    Of one run, that is `ulp` units in the last place of the largest element; `likely` is no bound.
    """
    graph = open_model(args.model, dims=dims_of(args.dim), **reading(args), seed=args.seed).graph
    if args.range:
        return _ranged(args, graph)
    feeds = completed(graph, read(graph, args.input), args.seed)
    rows = [("operation", "tensor", "type", "largest", "likely", "error", "ulp", "")]
    for row in shadow(graph, feeds):
        numbers = (f"{row.largest:.4g}", f"{row.likely:.3g}", f"{row.error:.3g}", f"{row.ulps:.3g}")
        rows.append((str(row.operation), row.tensor, row.dtype.name, *numbers, row.why))
    print(table(rows, ""))
    return 0


def _ranged(args: argparse.Namespace, graph: Graph) -> int:
    rows = [("operation", "tensor", "type", "low", "high", "error", "")]
    feeds = read(graph, args.input)
    for row in ranged(graph, _ranges(graph, args.range), feeds):
        numbers = (f"{row.low:.4g}", f"{row.high:.4g}", f"{row.error:.3g}")
        rows.append((str(row.operation), row.tensor, row.dtype.name, *numbers, row.why))
    print(table(rows, ""))
    return 0


def _ranges(graph: Graph, options: Sequence[str]) -> dict[str, tuple[float, float]]:
    """The ranges that options give; one without a name is for each input of floats that has none of
    its own."""
    found = ranges_of(options, "[INPUT=]LOW:HIGH")
    floats = [n for n in graph.inputs if n in graph.types and graph.types[n].dtype.is_float]
    for name in found:
        if name and name not in floats:
            there = f"they are {', '.join(floats)}" if floats else "there are none"
            raise FeedError(f"--range: the model has no input of floats '{name}'; {there}")
    every = dict.fromkeys(floats, found.pop("")) if "" in found else {}
    return every | found
