"""sardonyx operators: the operators that Sardonyx has."""

from __future__ import annotations

import argparse

from sardonyx.cli.common import table
from sardonyx.ops.registry import operators


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("name", nargs="?", default="", help="only names with this in them")


def execute(args: argparse.Namespace) -> int:
    """Prints a table: domain, operator, versions, accuracy."""
    versions: dict[tuple[str, str, str], list[int]] = {}
    for op in operators():
        if args.name.lower() in op.name.lower():
            versions.setdefault((op.domain or "ai.onnx", op.name, op.accuracy), []).append(op.since)
    rows = [
        (domain, name, ", ".join(map(str, since)), accuracy)
        for (domain, name, accuracy), since in versions.items()
    ]
    if not rows:
        print(f"no operator has '{args.name}' in its name")
        return 1
    print(table([("domain", "operator", "since versions", "against others"), *rows], indent=""))
    print(f"{len({row[:2] for row in rows})} operators")
    return 0
