"""sardonyx monitor: a run watched for what the profile leaves to be seen at run time."""

from __future__ import annotations

import argparse

from sardonyx.cli.common import dims_of, feed_arguments, model_arguments, reading, say, some
from sardonyx.cli.feeds import completed, read
from sardonyx.errors import FeedError, RunError
from sardonyx.graph import Graph
from sardonyx.loading import open_model
from sardonyx.machine import Machine
from sardonyx.monitor import KINDS, Monitor, policy_of
from sardonyx.watched import WatchedEngine


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    model_arguments(parser)
    feed_arguments(parser)
    parser.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="[NODE:]KIND=MODE",
        help=f"ignore, record or stop; kinds: {', '.join(KINDS)} (default: record)",
    )
    parser.add_argument(
        "--engine", choices=("machine", "native"), default="machine", help="what runs the model"
    )


def execute(args: argparse.Namespace) -> int:
    """Prints each flag that an operation raised; 1 if one did."""
    graph = open_model(args.model, dims=dims_of(args.dim), **reading(args), seed=args.seed).graph
    policy = policy_of(args.policy)
    known = _names(graph)
    for name in policy.operations:
        if name not in known:
            raise FeedError(
                f"--policy {name}: the model has no node and no operator '{name}'; "
                f"{some(sorted(known))}"
            )
    feeds = completed(graph, read(graph, args.input), args.seed)
    monitor = Monitor(policy)
    try:
        if args.engine == "native":
            WatchedEngine(graph, monitor).run(feeds)
        else:
            Machine(graph, monitor=monitor).run(feeds)
    except RunError as error:
        say(str(error))
    for finding in monitor.findings:
        say(str(finding))
    if not monitor.findings:
        print("no operation raised a flag")
    return 1 if monitor.findings else 0


def _names(graph: Graph) -> set[str]:
    """The nodes and operators of a graph and its subgraphs."""
    found = {name for op in graph.operations for name in (str(op.origin), op.op_type)}
    for op in graph.operations:
        for body in op.subgraphs.values():
            found |= _names(body)
    return found
