"""sardonyx extract: a part of a model, cut out between named tensors."""

from __future__ import annotations

import argparse

from sardonyx.cli.common import check_written, model_path, say, write
from sardonyx.errors import FeedError
from sardonyx.extract import extract
from sardonyx.model.load import serialized


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("--inputs", required=True, metavar="A,B", help="tensors, by commas")
    parser.add_argument("--outputs", required=True, metavar="C", help="tensors, by commas")
    parser.add_argument("-o", "--output", type=model_path, required=True, metavar="OUT.onnx")


def execute(args: argparse.Namespace) -> int:
    """Writes the part."""
    check_written("-o", args.output, args)
    part = extract(args.model, _names(args.inputs), _names(args.outputs))
    if not part.graph.node:
        raise FeedError(f"no node lies between {args.inputs} and {args.outputs}: name others")
    write(args.output, serialized(part))
    say(f"{args.output}: {len(part.graph.node)} nodes")
    return 0


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
