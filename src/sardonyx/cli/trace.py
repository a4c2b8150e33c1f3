"""sardonyx trace: a run as a file that can be checked, or one step of such a file to be shown."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

from sardonyx.cli.common import (
    check_written,
    dims_of,
    feed_arguments,
    kept_values,
    model_arguments,
    output_path,
    reading,
    refuse_beside,
    say,
    size_text,
    whole_trace,
    write,
    writing,
)
from sardonyx.cli.feeds import completed, read
from sardonyx.errors import FeedError, RunError
from sardonyx.loading import open_model
from sardonyx.trace import Store, Subject, disclose, trace
from sardonyx.trace import read as read_trace


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    model_arguments(parser)
    feed_arguments(parser)
    parser.add_argument("-o", "--output", type=output_path, required=True, metavar="FILE")
    parser.add_argument(
        "--values",
        type=Path,
        metavar="DIR",
        help="a folder that holds the tensors by their digests: kept there, or (--disclose) shown",
    )
    parser.add_argument(
        "--disclose",
        type=int,
        metavar="STEP",
        help="MODEL is a trace: write this step of it, to be checked without the others",
    )


def execute(args: argparse.Namespace) -> int:
    """Writes the trace of one run, or one step of a trace."""
    check_written("-o", args.output, args, "the model" if args.disclose is None else "the trace")
    if args.disclose is not None:
        refuse_beside(args, ("dim", "input"), "for a step of a trace (--disclose)")
        return _disclose(args)
    if args.values is not None and args.values.exists() and not args.values.is_dir():
        raise FeedError(f"--values {args.values}: expected a folder, or a name for a new one")
    opened = open_model(args.model, dims=dims_of(args.dim), **reading(args), seed=args.seed)
    feeds = completed(opened.graph, read(opened.graph, args.input), args.seed)
    digest = hashlib.sha256(Path(args.model).read_bytes()).hexdigest()
    keep = None if args.values is None else Store(args.values).keep
    claimed = opened.metadata.custom.get("sonnx.profile")
    subject = Subject(Path(args.model).name, digest, claimed)
    lines = trace(opened.graph, feeds, subject, keep)
    trapped = None
    with writing(args.output), args.output.open("w", encoding="ascii", newline="\n") as file:
        try:
            for line in lines:
                file.write(line)
        except RunError as error:
            trapped = error
    whole = read_trace(args.output.read_bytes())
    say(f"{args.output}  {size_text(args.output.stat().st_size)}  {len(whole.steps)} steps")
    say(f"root: {whole.footer['root']}")
    for step in whole.steps:
        raised = [kind for kind, flag in step.flags.items() if flag]
        if raised:
            say(f"{step}: {', '.join(raised)}")
    if trapped is not None:
        raise trapped
    return 0


def _disclose(args: argparse.Namespace) -> int:
    data, whole = Path(args.model).read_bytes(), whole_trace(Path(args.model))
    if not 0 <= args.disclose < len(whole.steps):
        raise FeedError(f"--disclose {args.disclose}: the trace has {len(whole.steps)} steps")
    step, shown = whole.steps[args.disclose], {}
    if args.values is not None:
        store = Store(kept_values(args.values))
        found = {x.before: store.find(x.before) for x in step.reads}
        shown = {digest: value for digest, value in found.items() if value is not None}
    write(args.output, disclose(data, args.disclose, shown))
    say(f"{args.output}  {step}, with {len(shown)} values; root: {whole.footer['root']}")
    return 0
