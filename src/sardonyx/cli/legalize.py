"""sardonyx legalize: a model made one of a profile, every bit of its results kept."""

from __future__ import annotations

import argparse

from sardonyx.checker import DEFAULT, dialects
from sardonyx.checker.text import text
from sardonyx.cli.common import check_written, dims_of, model_path, say, seed_argument, write
from sardonyx.errors import ModelError
from sardonyx.legalize import Change, Legalized, legalize
from sardonyx.model.load import serialized


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("model", metavar="MODEL", help="an ONNX file (.onnx, or text: .onnxtxt)")
    parser.add_argument("-o", "--output", type=model_path, required=True, metavar="OUT.onnx")
    parser.add_argument("--profile", default=DEFAULT, help=", ".join(dialects()))
    parser.add_argument(
        "--dim", action="append", default=[], metavar="NAME=SIZE", help="the size of a symbolic dim"
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        choices=["transient"],
        help="restrictions that are meant to be lifted do not count",
    )
    parser.add_argument(
        "--verify",
        choices=["fix", "model", "none"],
        default="fix",
        help="run before and after each fix (default), before and after all, or not",
    )
    parser.add_argument("--engine", choices=["machine", "native", "auto"], default="machine")
    seed_argument(parser, "of random inputs (default 0)")
    parser.add_argument(
        "--strict-tbc", action="store_true", help="what is to be confirmed is enforced"
    )
    parser.add_argument("--quiet", action="store_true", help="only the verdict")


def execute(args: argparse.Namespace) -> int:
    """Writes the model and tells what changed; 0 if it conforms then, 1 if not."""
    check_written("-o", args.output, args)
    done = _legalized(args)
    write(args.output, serialized(done.model))
    for change in done.changes if not args.quiet else ():
        _show(change, done)
    wrong = [c for c in done.changes if c.fix == "all" and c.undone]
    print(text(done.report) if not args.quiet else text(done.report).rsplit("\n", 1)[-1])
    return 0 if done.report.conforms and not wrong else 1


def _legalized(args: argparse.Namespace) -> Legalized:
    """The model after its fixes; what cannot be mended names the file."""
    try:
        return _fixed(args)
    except ModelError as error:
        said = str(error).removeprefix("the model: ")
        raise type(error)(said if args.model in said else f"{args.model}: {said}") from error


def _fixed(args: argparse.Namespace) -> Legalized:
    return legalize(
        args.model,
        args.profile,
        dims=dims_of(args.dim),
        strict_tbc=args.strict_tbc,
        allow=args.allow,
        verify=args.verify,
        engine=args.engine,
        seed=args.seed,
    )


def _show(change: Change, done: Legalized) -> None:
    if change.undone:
        say(f"{change.fix} {change.name}: not done: {change.undone}")
        return
    tried = {True: f"equal bytes on {done.feeds} sets of inputs", None: "not tried", False: ""}
    say(f"{change.fix} {change.name}: {tried[change.equal]}")
    for line in change.lines:
        say(f"    {line}")
