"""Sizes that a program finds as it runs, and what must hold of them, as C.

Where one is beyond its bound, sizes differ that must be equal, or one would be negative, the run
ends with error 3 at the launch that gave the last size of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sardonyx.dims import Dim, symbols
from sardonyx.emit.names import escaped
from sardonyx.emit.places import Places
from sardonyx.emit.source import Extent, Program


@dataclass(frozen=True, slots=True, eq=False)
class Sizes:
    """The sizes of one program, by the launches that give them (-1: they are there before). The
    body of control flow has none of its own; those of the program around it are there. checked:
    what must hold of them; if not, the caller sees to it."""

    program: Program
    places: Places
    extents: Sequence[Extent]
    checked: bool

    def after(self, launch: int) -> list[str]:
        """The statements that follow a launch: -1 stands for the beginning."""
        written = {n: i for i, x in enumerate(self.program.launches) for n in x.writes}
        given = {e.symbol: written.get(e.tensor, -1) for e in self.extents}
        lines = []
        for j, e in enumerate(self.extents):
            if given[e.symbol] == launch:
                kind = self.places.program.tensors[e.tensor].dtype.c
                value = f"((const {kind} *)({self.places.tensor(e.tensor)}))[{e.element}]"
                lines.append(f"extents[{j}] = (int64_t){value}{' + 1' if e.more else ''};")
                wrong = f"extents[{j}] < 1 || extents[{j}] > {e.most}"
                lines += _refused(wrong, launch)
        for dims, wrong in self._rules() if self.checked else ():
            if max((given.get(s, -1) for d in dims for s in symbols(d)), default=-1) == launch:
                lines += _refused(wrong, launch)
        return lines

    def _rules(self) -> Iterator[tuple[tuple[Dim, ...], str]]:
        """What must not be, and the sizes that it is about."""
        size = self.places.size
        for a, b in self.program.equal:
            yield (a, b), f"{size(a)} != {size(b)}"
        for d in self.program.sizes:
            yield (d,), f"{size(d)} < 0"


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
