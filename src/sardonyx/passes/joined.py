"""What is only joined (Concat) is written where it lies in the whole.

    a = f;  b = g;  y[c] = c < 64 ? a[c] : b[c - 64]   =>   y[c] = f;  y[c + 64] = g

The launches that write a and b write y, each elements of its own, and all that reads a or b reads
y. What cannot be written so is copied as before.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from sardonyx.dims import Dim, at_least, product, substitute, symbols
from sardonyx.kernel.affine import affine
from sardonyx.kernel.expr import Axis, Load
from sardonyx.kernel.ir import Compute, expressions, statements
from sardonyx.kernel.walk import is_move, walk
from sardonyx.passes.boxes import Box, Sizes, Starts, may_read, reading, writing
from sardonyx.passes.choices import Side, loops, sides
from sardonyx.passes.program import Launch, Program
from sardonyx.passes.timeline import timeline_of
from sardonyx.plan.bound import lower_bound

RUN = 8  # elements side by side that a launch writes as fast as it writes all of a tensor


def write_joined(program: Program, roomy: bool = False) -> Program:
    """The program whose launches write in their places what is joined. It needs no more memory,
    unless `roomy`."""
    if not (roomy or program.is_fixed):
        return program
    most = inf if roomy else lower_bound(timeline_of(program))
    for at in reversed(range(len(program.launches))):  # a part may be joined itself
        found = _placed(program, at)
        bound = inf if roomy or found is None else lower_bound(timeline_of(found))
        if found is not None and bound <= most:
            program, most = found, bound
    return program


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Sides of a choice that together copy all of a tensor into a box of the whole."""

    name: str
    box: Box
    sides: tuple[Side, ...]


def _placed(program: Program, at: int) -> Program | None:
    """The program in which what launch `at` joins is written in place; None where nothing is."""
    joining = program.launches[at]
    kernel, s = joining.kernel, next(iter(joining.kernel.body), None)
    if (
        len(joining.writes) != 1
        or not isinstance(s, Compute)
        or joining.call
        or kernel.views
        or not is_move(s.expr)
    ):
        return None
    found = sides(s)
    launches, last, gone = dict(enumerate(program.launches)), at, list[_Part]()
    for part in _parts(joining, s, found) if len(found) > 1 else ():
        maker = _write(program, launches, part, at)
        if maker is not None:
            gone, last = [*gone, part], maker if last == at else max(last, maker)
    if not gone:
        return None
    launches[at] = _rest(joining, found, gone)
    if not launches[at].kernel.body:
        del launches[at]
        does = (*launches[last].operations, *joining.operations)
        launches[last] = replace(launches[last], operations=does)
    joined = program.joined.union(joining.writes)
    return replace(program, launches=tuple(launches.values()), joined=joined)


def _parts(joining: Launch, s: Compute, found: Sequence[Side]) -> Iterator[_Part]:
    """The tensors all of which is copied to one box each."""
    kernel, root = joining.kernel, s.buffer.root
    others = [e for x in statements(kernel.body[1:]) for e in walk(*expressions(x))]
    if root is not kernel.outputs[0] or s.buffer.dtype.is_packed:
        return
    if any(isinstance(e, Load) for e in others):  # more than a border is written
        return
    for x, name in zip(kernel.inputs, joining.reads, strict=True):
        own = tuple(side for side in found if x is not None and _source(side) is x)
        starts = {_start(side, s) for side in own}
        start = starts.pop() if len(starts) == 1 else None
        if x is None or name is None or start is None or joining.reads.count(name) != 1:
            continue
        copied: Dim = 0
        for _, axes in own:
            copied = copied + product(tuple(a.extent for a in axes))
        sides_fit = copied == product(x.shape) and _is_box(start, x.shape, root.shape)
        if x.shape and sides_fit and _is_long(x.shape, root.shape):
            yield _Part(name, Box(joining.writes[0], start, x.shape, root.shape), own)


def _is_box(start: Starts, size: Sizes, shape: Sizes) -> bool:
    """Whether what is no number is all of its dimension."""
    sides = zip(start, size, shape, strict=True)
    return all(
        n == whole and not first for first, n, whole in sides if symbols(n) or symbols(whole)
    )


def _is_long(size: Sizes, shape: Sizes) -> bool:
    """Whether RUN elements of a box or more lie side by side, or all."""
    for d in reversed(range(len(size))):
        if size[d] != shape[d]:
            return at_least(product(size[d:]), RUN) or product(size[:d]) == 1
    return True


def _source(side: Side) -> object:
    """The buffer that a side does nothing but copy from."""
    e = side[0].expr
    return e.buffer if isinstance(e, Load) and e.mode == "proven" else None


def _start(side: Side, s: Compute) -> Starts | None:
    """Where element 0 of what a side copies lies in the whole."""
    e, shape, start = side[0].expr, s.buffer.root.shape, list[int]()
    first = s.buffer.start or (0,) * len(s.buffer.shape)
    indices = zip(s.buffer.shape, side[0].index, first, strict=True)
    own = [(n, affine(i), begin) for n, i, begin in indices if n != 1]  # dimensions of 1 aside
    if not isinstance(e, Load) or [n for n, *_ in own] != [n for n in shape if n != 1]:
        return None
    if len(e.index) != len(shape):
        return None
    places = iter(own)
    for n, of in zip(shape, map(affine, e.index), strict=True):
        _, to, begin = (n, of, 0) if n == 1 else next(places)
        distance = None if to is None or of is None else substitute(to - of + begin, _at_zero)
        if not isinstance(distance, int):
            return None
        start.append(distance)
    return tuple(start)


def _at_zero(a: Hashable) -> Dim | None:
    return 0 if isinstance(a, Axis) and a.extent == 1 else None


def _write(program: Program, launches: dict[int, Launch], part: _Part, at: int) -> int | None:
    """Has a part written, and read, in its box; the launch that writes it, None where none can."""
    kept = {*program.inputs, *program.weights, *program.outputs, *program.joined}
    makers = [i for i, launch in launches.items() if part.name in launch.writes]
    readers = [i for i, x in launches.items() if part.name in x.reads and i != at]
    if part.name in kept or len(makers) != 1:
        return None
    (maker,) = makers
    made = writing(launches[maker], part.box)
    if made is None or not all(may_read(launches[i], part.name, part.box) for i in readers):
        return None
    launches[maker] = made
    for i in readers:
        launches[i] = reading(launches[i], part.name, part.box, part.box.start)
    return maker


def _rest(joining: Launch, found: Sequence[Side], gone: Sequence[_Part]) -> Launch:
    """The launch without the parts that are written in place."""
    left = [side for side in found if not any(side in part.sides for part in gone)]
    kernel, names = joining.kernel, {part.name for part in gone}
    given = [(b, n) for b, n in zip(kernel.inputs, joining.reads, strict=True) if n not in names]
    body = (*loops(left), *kernel.body[1:])
    kernel = replace(kernel, inputs=tuple(b for b, _ in given), body=body)
    return replace(joining, kernel=kernel, reads=tuple(n for _, n in given))
