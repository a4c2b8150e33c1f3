"""sardonyx check: whether a model is one of a profile."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from sardonyx.checker import DEFAULT, check, dialects
from sardonyx.checker.html import html
from sardonyx.checker.sarif import sarif
from sardonyx.checker.text import as_json, text
from sardonyx.cli.common import check_written, output_path, ranges_of, write
from sardonyx.errors import FeedError

FORMATS = {"text": text, "json": as_json, "sarif": sarif, "html": html}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("model", metavar="MODEL", help="an ONNX file (.onnx, or text: .onnxtxt)")
    parser.add_argument(
        "--profile",
        default=DEFAULT,
        help=f"{', '.join(dialects())}, or a .toml or .yaml file (default {DEFAULT})",
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        choices=["transient"],
        help="restrictions that are meant to be lifted become warnings",
    )
    parser.add_argument(
        "--range",
        action="append",
        default=[],
        metavar="NAME=LO:HI",
        help="between which numbers a graph input lies, without NaN",
    )
    parser.add_argument(
        "--dynamic",
        choices=["forbid", "batch"],
        default="forbid",
        help="batch: the first dim may be symbolic (default forbid)",
    )
    parser.add_argument(
        "--strict-tbc", action="store_true", help="what is to be confirmed is an error"
    )
    parser.add_argument("--format", choices=list(FORMATS), default="text")
    parser.add_argument(
        "--output", type=output_path, metavar="FILE", help="write the report to a file"
    )


def execute(args: argparse.Namespace) -> int:
    """Prints the report; 0 if the model conforms, 1 if not."""
    check_written("--output", args.output, args)
    report = check(
        args.model,
        args.profile,
        allow=args.allow,
        ranges=_ranges(args.range),
        batch=args.dynamic == "batch",
        strict_tbc=args.strict_tbc,
    )
    written = FORMATS[args.format](report)
    if args.output is None:
        print(written)
    else:
        write(args.output, written + "\n")
    return 0 if report.conforms else 1


def _ranges(options: Sequence[str]) -> dict[str, tuple[float, float]]:
    """The ranges that --range options give. FeedError where one has no name."""
    form = "NAME=LO:HI, as in --range x=-1:1"
    found = ranges_of(options, form)
    if "" in found:
        raise FeedError(f"--range {options[[*found].index('')]}: expected {form}")
    return found
