"""Windows that slide over an array, read off the index expressions of a fold; loops in strips.

x[n, c, 2h + r - 1, 2w + q - 1], a fold over (r, q)  =>  a Slide along each of h and w
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from sardonyx.dims import atom
from sardonyx.kernel.affine import affine, coefficient
from sardonyx.kernel.c99.place import checked
from sardonyx.kernel.expr import Axis, Buffer, Expr, Fold, Load, alu, lift
from sardonyx.kernel.ir import Compute, For, Stmt, Store, nested
from sardonyx.kernel.walk import walk
from sardonyx.passes.program import Launch, Program

STRIPS = (16, 8)


@dataclass(frozen=True, slots=True, eq=False)
class Slide:
    """A dimension along which the windows move: index = place * by + tap * apart + start."""

    dimension: int
    size: int
    tap: Axis
    place: Axis
    by: int
    apart: int
    start: int

    @property
    def taps(self) -> int:
        assert isinstance(self.tap.extent, int)
        return self.tap.extent

    @property
    def before(self) -> int:
        """The border at the beginning, which the windows reach into."""
        return max(0, -self.start)

    @property
    def after(self) -> int:
        """The border at the end."""
        assert isinstance(self.place.extent, int)
        last = (self.place.extent - 1) * self.by + (self.taps - 1) * self.apart + self.start
        return max(0, last - self.size + 1)

    def ends(self) -> tuple[int, int]:
        """The places whose windows lie within the dimension: the first, and that after the last."""
        assert isinstance(self.place.extent, int)
        last = self.size - 1 - self.start - (self.taps - 1) * self.apart
        begin = min(max(0, -(self.start // self.by)), self.place.extent)
        return begin, max(begin, min(last // self.by + 1, self.place.extent))

    def holds(self) -> bool:
        """Whether the nearest neighbour inside of each index outside is in its window."""
        assert isinstance(self.place.extent, int)
        reach = (self.taps - 1) * self.apart
        last = (self.place.extent - 1) * self.by + self.start
        inside = self.start >= 0 and last + reach < self.size
        return inside or (self.apart == 1 and self.start + reach >= 0 and last < self.size)

    def within(self, place: Expr, tap: Expr | int) -> Expr:
        """The index of a tap where the dimension has its border."""
        return place * self.by + (tap * self.apart + self.start + self.before)

    def dealt(self, place: Expr, tap: int) -> tuple[Expr, Expr]:
        """Where within(place, tap) is once rows are dealt out to as many as a window moves by: the
        row, and the index in it."""
        first = tap * self.apart + self.start + self.before
        return lift(first % self.by), place + first // self.by

    def at(self, place: Expr, tap: int, inside: bool) -> Expr:
        """The index of a tap, or its nearest neighbour inside."""
        index = place * self.by + (tap * self.apart + self.start)
        return index if inside else alu("min", alu("max", index, 0), self.size - 1)


def slides(s: Compute, x: Load, fold: Fold) -> tuple[Slide, ...]:
    """The dimensions of x along which the windows of a fold move, each axis of them along one; none
    where one of them is not understood, or its sizes are not known."""
    dimensions = [
        d
        for d, guarded in enumerate(checked(x))
        if guarded or any(a in fold.axes for a in walk(x.index[d]))
    ]
    every = [slide_of(s, x, d, fold) for d in dimensions]
    found = tuple(one for one in every if one is not None)
    return found if len(found) == len(every) and _is_sound(found, x, fold) else ()


def slide_of(s: Compute, x: Load, d: int, fold: Fold) -> Slide | None:
    """How windows of a fold move along a dimension of x; None where it is not understood."""
    form, size = affine(x.index[d]), x.buffer.shape[d]
    inside = [a for a in walk(x.index[d]) if isinstance(a, Axis) and a.extent != 1]
    taps, places = [a for a in inside if a in fold.axes], [a for a in inside if a in s.axes]
    if form is None or len(taps) != 1 or len(places) != 1 or len(inside) != 2:
        return None
    (tap,), (place,) = taps, places
    by, apart = coefficient(form, place), coefficient(form, tap)
    if not (isinstance(by, int) and isinstance(apart, int) and by > 0 and apart > 0):
        return None
    start = form - atom(place) * by - atom(tap) * apart
    if not (isinstance(start, int) and isinstance(size, int)):
        return None
    if not (isinstance(place.extent, int) and isinstance(tap.extent, int)):
        return None
    empty = 0 in (size, place.extent, tap.extent)
    return None if empty else Slide(d, size, tap, place, by, apart, start)


def _is_sound(found: Sequence[Slide], x: Load, fold: Fold) -> bool:
    """Whether each axis of the windows moves along one dimension alone."""
    taps = [a for a in fold.axes if a.extent != 1]
    moving = [a for one in found for a in (one.tap, one.place)]
    seen = [a for i in x.index for a in {e for e in walk(i) if isinstance(e, Axis)}]
    return {one.tap for one in found} == set(taps) and all(seen.count(a) == 1 for a in moving)


Loops = tuple[Sequence[Stmt], Sequence[Buffer]]  # statements, and the temporaries that they need


def in_loops(program: Program, found: Callable[[Compute], Loops | None]) -> Program:
    """The program with the loops that are found for a Compute in its place."""
    return replace(program, launches=tuple(_in_loops(x, found) for x in program.launches))


def _in_loops(launch: Launch, found: Callable[[Compute], Loops | None]) -> Launch:
    body, made = list[Stmt](), list[Buffer]()
    for s in launch.kernel.body:
        loops = found(s) if isinstance(s, Compute) else None
        statements, temporaries = loops or ((s,), ())
        body += statements
        made += temporaries
    kernel = launch.kernel
    if tuple(body) == kernel.body:
        return launch
    whole = (*kernel.temporaries, *made)
    return replace(launch, kernel=replace(kernel, body=tuple(body), temporaries=whole))


def bordered(
    near: Buffer,
    x: Load,
    found: Sequence[Slide],
    border: Expr,
    term: Callable[[Load], Expr],
    phases: int = 1,
) -> tuple[Stmt, ...]:
    """The statements that make near the plane of x along the slides, each element as a term, in its
    border. phases: rows that each row is dealt out to, an axis of near where there are several."""
    *above, along = found
    rows = [Axis("i", one.size) for one in above]
    begin, end = -(-along.before // phases), (along.before + along.size) // phases

    def copy(at: Expr, phase: int) -> Store:
        """The element of a row `phase` at the index `at`."""
        index, last = list(x.index), at * phases + (phase - along.before)
        for one, i in zip(found, (*rows, last), strict=True):
            index[one.dimension] = i
        place = [i + one.before for one, i in zip(above, rows, strict=True)]
        dealt = [lift(phase), at] if phases > 1 else [at]
        return Store(near, (*place, *dealt), term(Load(x.buffer, tuple(index))))

    def turn(at: Expr) -> tuple[Stmt, ...]:
        return tuple(copy(at + begin, phase) for phase in range(phases))

    axes = tuple(Axis(f"i{d}", n) for d, n in enumerate(near.shape))
    last = along.before + along.size
    turns, ends = list[Stmt](), [*range(along.before, last)]
    if begin < end:
        turns += in_strips(end - begin, turn)
        ends = [*range(along.before, begin * phases), *range(end * phases, last)]
    inner = [*turns, *(copy(lift(i // phases), i % phases) for i in ends)]
    return (Compute(near, axes, border), *nested(rows, inner))


def in_strips(extent: int, body: Callable[[Expr], tuple[Stmt, ...]]) -> Iterator[Stmt]:
    """The loops of a body over an axis in strips, whole vectors of an extent that is known; the
    last one may begin within that before it. What the body stores twice must be the same."""
    width = next((n for n in STRIPS if n <= extent), extent)
    starts: list[Expr | int] = [0]
    if extent >= 2 * width:
        strip = Axis("s", extent // width)
        starts = [strip * width]
    if extent % width:
        starts.append(extent - width)
    for start in starts:
        lane = Axis("l", width)
        loop = For(lane, body(lane + start))
        yield For(strip, (loop,)) if isinstance(start, Expr) else loop
