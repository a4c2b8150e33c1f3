"""sardonyx diff: the first step in which two traces differ."""

from __future__ import annotations

import argparse
from pathlib import Path

from sardonyx.cli.common import kept_values, say, whole_trace
from sardonyx.errors import FeedError
from sardonyx.trace import Store, differences, distance, first_write


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("a", type=Path, metavar="A", help="a trace")
    parser.add_argument("b", type=Path, metavar="B", help="another one")
    parser.add_argument(
        "--values",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="the tensors of both by their digests, or of A and then of B: shows by how many ulp",
    )


def execute(args: argparse.Namespace) -> int:
    """Prints how the traces differ; 1 if they do."""
    if len(args.values) > 2:
        raise FeedError(
            f"--values is given {len(args.values)} times; expected one folder, or one of A and one "
            "of B"
        )
    stores = [Store(kept_values(folder)) for folder in args.values]
    a, b = whole_trace(args.a), whole_trace(args.b)
    found = list(differences(a, b))
    for difference in found:
        say(difference.what)
    pair = first_write(a, b)
    if pair is not None and stores:
        text = distance(pair, (stores[0].find, stores[-1].find))
        say(f"'{pair[0].name}': {text or 'its values were not kept'}")
    if not found:
        print(f"equal: {len(a.steps)} steps")
    return 1 if found else 0
