"""sardonyx operators: the operators that Sardonyx has."""

from __future__ import annotations

import argparse

from sardonyx.cli.common import table
from sardonyx.ops.registry import operators


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("name", nargs="?", default="", help="only names with this in them")
    parser.add_argument(
        "--sonnx", metavar="NAME", help="an operator's document in the form of the profile SONNX"
    )
    parser.add_argument("--profile", default="", help="the dialect of --sonnx")


def execute(args: argparse.Namespace) -> int:
    """Prints a table: domain, operator, versions, accuracy; or one operator's document."""
    if args.sonnx is not None:
        return _document(args.sonnx, args.profile)
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


def _document(name: str, profile: str) -> int:
    from sardonyx.checker import DEFAULT, find_profile
    from sardonyx.documents import page

    print(page(name, find_profile(profile or DEFAULT)), end="")
    return 0
