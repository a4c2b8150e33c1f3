"""Lines of a trace in stages as C fills them, and what is observed of the programs of its stages.

Line(kind, cut(text), ..)     text is a line's JSON, with marks in the place of what is filled in
Draft(..), numbered(draft, lines)     what emit takes; each line has a number from then on
tables(lines)                         the C of all lines
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sardonyx.machine import Access
from sardonyx.passes.program import Told, Watched
from sardonyx.trace.form import Hole, HoleKind
from sardonyx.trace.observe import Counter, pieces, regions

Piece = str | Hole | Counter
MARK = "\x00"  # in no name: begins and ends what is filled in


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A line: its kind ("h" header, "b" body, "l" layout, "s" step in M, "o" of the host, "f"
    footer), its pieces, the tensors they are of; where the flags of a step are, or how deep a body
    lies."""

    kind: str
    pieces: tuple[Piece, ...]
    reads: tuple[Access, ...] = ()
    writes: tuple[Access, ...] = ()
    at: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The tensors it is of."""
        return tuple(a.name for a in (*self.reads, *self.writes))


@dataclass(slots=True, eq=False)
class Draft:
    """What is observed of a program, its lines without their numbers."""

    hooks: dict[int, tuple[Line, bool, bool]] = field(default_factory=dict)
    clears: int = 0
    begin: Line | None = None
    end: Line | None = None
    opens: dict[int, int] = field(default_factory=dict)
    after: dict[int, Line] = field(default_factory=dict)
    lost: dict[int, Line] = field(default_factory=dict)
    cut: Line | None = None


def mark(kind: str, index: int = 0) -> str:
    """What stands for a digest ("r" before a step, "b" of what it will write, "d" now), for a flag
    ("f"), or for what is counted."""
    return f"{MARK}{kind}{index}{MARK}"


_HOLES: Mapping[str, HoleKind] = {"r": "read", "b": "before", "d": "after", "f": "flag"}


def cut(text: str) -> tuple[Piece, ...]:
    """A line in pieces; digests stand in quotes, numbers do not."""
    found: list[Piece] = []
    end = 0
    for m in re.finditer(r'"\\u0000([a-z])(\d+)\\u0000"', text):
        kind, index = m[1], int(m[2])
        quote = '"' if kind in "rbd" else ""
        found.append(text[end : m.start()] + quote)
        found.append(Hole(_HOLES[kind], index) if kind in _HOLES else Counter(kind, index))
        end = m.end() - len(quote)
    return (*found, text[end:])


def numbered(draft: Draft, lines: dict[Line, int]) -> Watched:
    """What is observed of a program, its lines having numbers: those of `lines`, or the next."""

    def told(line: Line) -> Told:
        return lines.setdefault(line, len(lines)), () if line.kind == "l" else line.names

    return Watched(
        hooks={i: (told(line)[0], a, b) for i, (line, a, b) in draft.hooks.items()},
        clears=draft.clears,
        begin=None if draft.begin is None else told(draft.begin),
        end=None if draft.end is None else told(draft.end),
        opens=draft.opens,
        after={i: told(line) for i, line in draft.after.items()},
        lost={i: told(line) for i, line in draft.lost.items()},
        cut=None if draft.cut is None else told(draft.cut)[0],
    )


def tables(lines: Mapping[Line, int]) -> Iterator[str]:
    """The C of all lines: what they are of, and their pieces."""
    held = max((len(x.names) for x in lines if x.kind == "s"), default=1)
    depth = 1 + max((x.at for x in lines if x.kind == "b"), default=0)
    yield f"#define SX_HELD {max(1, held)}\n#define SX_DEPTH {depth + 1}"
    rows = []
    for x, k in lines.items():
        yield regions(f"sx_regions{k}", (*x.reads, *x.writes))
        yield pieces(f"sx_line{k}", x.pieces)
        sizes = f"{len(x.reads)}, {len(x.writes)}"
        rows.append(f"{{sx_regions{k}, {sizes}, sx_line{k}, {x.at}, '{x.kind}'}}")
    yield "static const sx_step sx_table[] = {\n" + ",\n".join(rows) + "};"
