"""sardonyx accuracy: a bound on the error of each tensor of a run."""

from __future__ import annotations

import argparse

from sardonyx.accuracy.shadow import shadow
from sardonyx.cli.common import dims_of, feed_arguments, model_arguments, table
from sardonyx.cli.feeds import completed, read
from sardonyx.loading import open_model


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    model_arguments(parser)
    feed_arguments(parser)


def execute(args: argparse.Namespace) -> int:
    """Prints a line per tensor: no element is further from exact real arithmetic than `error`,
    which is `ulp` units in the last place of the largest element; `likely` is no bound."""
    graph = open_model(args.model, dims=dims_of(args.dim)).graph
    feeds = completed(graph, read(graph, args.input), args.seed)
    rows = [("operation", "tensor", "type", "largest", "likely", "error", "ulp", "")]
    for row in shadow(graph, feeds):
        numbers = (f"{row.largest:.4g}", f"{row.likely:.3g}", f"{row.error:.3g}", f"{row.ulps:.3g}")
        rows.append((str(row.operation), row.tensor, row.dtype.name, *numbers, row.why))
    print(table(rows, ""))
    return 0
