"""sardonyx operators: what is known of each operator, from the registry and ONNX's schemas."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sardonyx.cli.common import refuse_beside, say, table
from sardonyx.errors import FeedError
from sardonyx.ops.registry import INTERNAL, Form, form_of, hosts, operators, sized_operators
from sardonyx.types import DTYPES

EXPANSION = "expansion"
ENGINES = {
    "kernel": ("machine, native", "yes"),
    "two kernels": ("machine, native", "with a bound"),
    "control flow": ("machine, native", "where sizes are known"),
    EXPANSION: ("machine, native", "as what it consists of"),
    "host": ("machine, native", "no"),
}
TYPES = {"float": "float32", "double": "float64"}


@dataclass(frozen=True, slots=True)
class Row:
    """One operator version. form: None where Sardonyx does not have it; why: then the reason."""

    domain: str
    name: str
    since: int
    types: str
    form: Form | str | None


def arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("name", nargs="?", default="", help="only names with this in them")
    parser.add_argument(
        "--sonnx", metavar="NAME", help="an operator's document in the form of the profile SONNX"
    )
    parser.add_argument("--profile", help="the dialect of --sonnx")


def execute(args: argparse.Namespace) -> int:
    """Prints a table: operator, versions, types, form, engines, exported C; or one document."""
    if args.sonnx is None:
        refuse_beside(args, ("profile",), "without --sonnx NAME")
    elif args.name:
        raise FeedError(f"{args.name} means nothing beside --sonnx {args.sonnx}; leave it out")
    if args.sonnx is not None:
        return _document(args.sonnx, args.profile)
    groups: dict[tuple[str, ...], list[int]] = {}
    for row in rows():
        if args.name.lower() in row.name.lower():
            engines, exported = ENGINES.get(row.form or "", ("none", "no"))
            key = (row.domain or "ai.onnx", row.name, row.types, row.form or "-", engines, exported)
            groups.setdefault(key, []).append(row.since)
    if not groups:
        say(f"no operator has '{args.name}' in its name")
        return 1
    head = ("domain", "operator", "since versions", "types", "form", "engines", "exported C")
    lines = [
        (domain, name, ", ".join(map(str, since)), *rest)
        for (domain, name, *rest), since in groups.items()
    ]
    print(table([head, *lines], indent=""))
    print(f"{len({line[:2] for line in lines})} operators")
    return 0


def _document(name: str, profile: str | None) -> int:
    from sardonyx.checker import DEFAULT, find_profile
    from sardonyx.documents import page

    print(page(name, find_profile(profile or DEFAULT)), end="")
    return 0


def rows() -> Iterator[Row]:
    """Every operator version of ONNX's schemas and of the registry, sorted."""
    import onnx.defs

    schemas = {
        (s.domain, s.name, s.since_version): s for s in onnx.defs.get_all_schemas_with_history()
    }
    known = {(o.domain, o.name, o.since) for o in operators()} | {*sized_operators()}
    known |= {(h.domain, h.name, h.since) for h in hosts()}
    for key in sorted({*schemas, *known}):
        schema = schemas.get(key)
        if key[0] == INTERNAL:
            continue
        form: Form | str | None = form_of(*key)
        if form is None and schema is not None and _has_body(schema):
            form = EXPANSION
        yield Row(*key, _types(schema), form)


def _has_body(schema: object) -> bool:
    return bool(
        getattr(schema, "has_function", False)
        or getattr(schema, "has_context_dependent_function", False)
    )


def _types(schema: object) -> str:
    """The element types that the schema admits, in short."""
    constraints: Iterable[object] = getattr(schema, "type_constraints", ())
    texts = {t for c in constraints for t in getattr(c, "allowed_type_strs", ())}
    if not texts:
        return "as its kernel"
    kinds = {t[t.rindex("(") + 1 :].split(")")[0] for t in texts}
    found = sorted(TYPES.get(k, k) for k in kinds)
    numbers = {d.name for d in DTYPES}
    if numbers <= set(found):
        more = [k for k in found if k not in numbers]
        return "all numbers" + (f", {', '.join(more)}" if more else "")
    floats = [d.name for d in DTYPES if d.is_float]
    integers = [d.name for d in DTYPES if d.is_integer]
    for group, word in ((integers, "integers"), (floats, "floats")):
        if set(group) <= set(found):
            found = [word, *(k for k in found if k not in group)]
    return ", ".join(found)
