"""Sizes that a program finds as it runs, and what must hold of them, as C.

Where one is beyond its bound, sizes differ that must be equal, or one would be negative, the run
ends with error 3 at the launch that gave the last size of these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from sardonyx.dims import Dim, symbols
from sardonyx.emit.names import escaped
from sardonyx.emit.places import Places
from sardonyx.emit.source import Extent, Program


def size_checks(
    program: Program, places: Places, extents: Sequence[Extent], checked: bool
) -> Mapping[int, list[str]]:
    """The statements behind each launch that gives sizes (-1: they are there before the first). The
    body of control flow has no extents of its own; those of the program around it are there.
    checked: what must hold of sizes; if not, the caller sees to it."""
    written = {n: i for i, x in enumerate(program.launches) for n in x.writes}
    given = {e.symbol: written.get(e.tensor, -1) for e in extents}
    lines: dict[int, list[str]] = defaultdict(list)
    for j, e in enumerate(extents):
        launch = given[e.symbol]
        value = f"((const {program.tensors[e.tensor].dtype.c} *)({places.tensor(e.tensor)}))"
        lines[launch] += [
            f"extents[{j}] = (int64_t){value}[{e.element}]{' + 1' if e.more else ''};",
            *_refused(f"extents[{j}] < 1 || extents[{j}] > {e.most}", launch),
        ]
    for dims, wrong in _rules(program, places) if checked else ():
        launch = max((given.get(s, -1) for d in dims for s in symbols(d)), default=-1)
        lines[launch] += _refused(wrong, launch)
    return lines


def _rules(program: Program, places: Places) -> Iterator[tuple[tuple[Dim, ...], str]]:
    """What must not be, and the sizes that it is about."""
    for a, b in program.equal:
        yield (a, b), f"{places.size(a)} != {places.size(b)}"
    for d in program.sizes:
        yield (d,), f"{places.size(d)} < 0"


def _refused(wrong: str, launch: int) -> list[str]:
    inner = f"  status->error = 3, status->operation = {max(0, launch)};"
    return [f"if ({wrong}) {{", inner, "  return;", "}"]


def told_sizes(program: Program, places: Places, extents: Sequence[Extent]) -> Iterator[str]:
    """What the header says of symbolic dims."""
    for e in extents:
        where = f"outputs[{list(program.outputs).index(e.tensor)}][{e.element}]"
        yield f"   {escaped(e.symbol)}: {where}{' + 1' if e.more else ''}, at most {e.most}"
    if places.symbols and not extents:
        yield f"   dims: {', '.join(map(escaped, places.symbols))}"
