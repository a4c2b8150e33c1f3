"""What is copied only to get a border is written with it at once.

    y[h, w] = f;  p[h, w] = y[h - 1, w - 1], else 0   =>   p[h + 1, w + 1] = f;  p = 0 around it

All that reads y reads p then, and several such copies of y are one, as they are where nothing here
writes y. Convolutions with borders (passes/padding.py) read what their producers wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from sardonyx.dims import Dim, atom
from sardonyx.kernel.affine import affine
from sardonyx.kernel.expr import Axis, Buffer, Const, Expr, Load, lift
from sardonyx.kernel.ir import Compute, Stmt, Store, nested
from sardonyx.passes.boxes import Box, Span, Starts, may_read, reading, writing
from sardonyx.passes.program import Launch, Program
from sardonyx.types import TensorType

Move = tuple[int, str, Starts]  # a launch, what it reads, where that begins in what it shall read


def write_borders(program: Program) -> Program:
    """The program without the copies that only put a border around what a launch writes."""
    tensors, launches = dict(program.tensors), dict(enumerate(program.launches))
    makers = {name: i for i, launch in launches.items() for name in launch.writes}
    readers, kept = program.readers(), set(program.outputs)
    for name, found in _copies(program).items():
        maker, box, border = makers.get(name), _union(found), found[0].border
        moves = list(_moves(name, found, box, readers))
        alike = len({(type(c.border.value), c.border.value) for c in found}) == 1
        if not alike or kept & {c.box.whole for c in found}:
            continue
        made = None if maker is None or name in kept else writing(launches[maker], box)
        if made is not None:
            made = _with_border(made, box, border)
        elif len(found) > 1:  # one copy for all
            first, *found = found
            maker, made = first.at, _copying(launches[first.at], box, border)
            moves = [move for move in moves if move[1] != name]
        may = all(may_read(launches[i], old, box) for i, old, _ in moves)
        if maker is None or made is None or not may:
            continue
        launches[maker] = made
        tensors[box.whole] = TensorType(tensors[name].dtype, box.shape)
        for i, old, start in moves:
            launches[i] = reading(launches[i], old, box, start)
        for copy in found:
            del launches[copy.at]
    return replace(program, tensors=tensors, launches=tuple(launches.values()))


@dataclass(frozen=True, slots=True, eq=False)
class _Copy:
    """Launch `at` copies all of a tensor into the box; around it is the border."""

    at: int
    box: Box
    border: Const


def _copies(program: Program) -> dict[str, list[_Copy]]:
    """tensor -> the launches that copy it so."""
    found: dict[str, list[_Copy]] = {}
    for i, launch in enumerate(program.launches):
        (name, *more), copy = launch.reads or (None,), _copy(i, launch)
        if copy is not None and name is not None and not more:
            found.setdefault(name, []).append(copy)
    return found


def _copy(at: int, launch: Launch) -> _Copy | None:
    """The launch as such a copy. The whole may have more than is read of it."""
    kernel = launch.kernel
    s = kernel.body[0] if len(kernel.body) == 1 and not kernel.views else None
    if not isinstance(s, Compute) or not isinstance(s.expr, Load) or s.buffer.dtype.is_packed:
        return None
    x, plain = s.expr, s.buffer.base is None and s.expr.buffer.base is None
    if not plain or not isinstance(x.default, Const) or len(x.index) != len(s.axes):
        return None
    sides = [
        _side(*each) for each in zip(x.index, s.axes, x.buffer.shape, s.buffer.shape, strict=True)
    ]
    known = [side for side in sides if side is not None]
    if len(known) != len(sides) or all(side[1] == side[2] for side in known):
        return None
    before, size, shape = zip(*known, strict=True)
    return _Copy(at, Box(launch.writes[0], before, size, shape), x.default)


def _side(index: Expr, axis: Axis, size: Dim, whole: Dim) -> Span | None:
    """Along one dimension: where the source begins, its size, that of the whole."""
    form, own = affine(index), atom(axis)
    alone = size == whole == 1 and form == 0  # an axis of one turn is not in the index
    before = None if form is None else 0 if alone else own - form
    if not isinstance(before, int) or before < 0:
        return None
    if isinstance(size, int) and isinstance(whole, int):
        return before, size, max(whole, before + size)
    return (0, size, whole) if before == 0 and size == whole else None


def _union(copies: Sequence[_Copy]) -> Box:
    """A box that has room for the borders of all."""
    boxes = [copy.box for copy in copies]
    before = tuple(map(max, zip(*(b.start for b in boxes), strict=True)))
    after = [[n - s for n, s in zip(b.shape, b.start, strict=True)] for b in boxes]
    shape = tuple(b + _largest(n) for b, *n in zip(before, *after, strict=True))
    return replace(boxes[0], start=before, shape=shape)


def _largest(sizes: Sequence[Dim]) -> Dim:
    """The largest, of numbers or of what is one and the same."""
    return max((n for n in sizes if isinstance(n, int)), default=sizes[0])


def _moves(
    name: str, copies: Sequence[_Copy], box: Box, readers: Mapping[str, Sequence[int]]
) -> Iterator[Move]:
    """What reads the tensor or a copy of it."""
    gone = {copy.at for copy in copies}
    yield from ((i, name, box.start) for i in readers[name] if i not in gone)
    for copy in copies:
        start = tuple(a - b for a, b in zip(box.start, copy.box.start, strict=True))
        yield from ((i, copy.box.whole, start) for i in readers.get(copy.box.whole, ()))


def _with_border(launch: Launch, box: Box, border: Const) -> Launch:
    """The launch that writes the box, and what is around it."""
    (whole,) = launch.kernel.outputs
    body = (*launch.kernel.body, *_around(whole, box, border))
    return replace(launch, kernel=replace(launch.kernel, body=body))


def _copying(launch: Launch, box: Box, border: Const) -> Launch:
    """A launch that copies, with a wider border."""
    (s,), (y,) = launch.kernel.body, launch.kernel.outputs
    assert isinstance(s, Compute)
    assert isinstance(s.expr, Load)
    target = Buffer(y.name, y.dtype, box.shape)
    axes = tuple(Axis(f"i{d}", n) for d, n in enumerate(box.shape))
    index = tuple(a - n for a, n in zip(axes, box.start, strict=True))
    body = (Compute(target, axes, Load(s.expr.buffer, index, "guard", border)),)
    return replace(launch, kernel=replace(launch.kernel, outputs=(target,), body=body))


def _around(b: Buffer, box: Box, border: Const) -> Iterator[Stmt]:
    """The border: along each dimension, of what is inside along those before it. What ends a row
    and begins the next is stored together."""
    sides = box.spans()
    last = max(d for d, (_, n, whole) in enumerate(sides) if n != whole)
    for d, (first, n, whole) in enumerate(sides):
        inside = [(f, f + k) for f, k, _ in sides[:d]]
        if d == last and d and inside[-1][0] > 0 and inside[-1][1] != sides[d - 1][2]:
            yield from _between(b, d, box, border)
            continue
        for begin, end in ((0, first), (first + n, whole)):
            if begin != end:
                ranges = [*inside, (begin, end), *((0, m) for *_, m in sides[d + 1 :])]
                yield from _filled(b, ranges, border)


def _between(b: Buffer, d: int, box: Box, border: Const) -> tuple[Stmt, ...]:
    """The loops that store what lies between the rows, along dimension d, of those inside."""
    row, inner = prod(box.shape[d:]), prod(box.shape[d + 1 :])
    flat = Buffer(b.name, b.dtype, (*box.shape[: d - 1], prod(box.shape[d - 1 :])), base=b)
    gap, first = (box.shape[d] - box.size[d]) * inner, box.start[d - 1] - 1
    outer = [Axis(f"i{i}", n) for i, n in enumerate(box.size[: d - 1])]
    r, e = Axis("row", box.size[d - 1] + 1), Axis("run", gap)
    at = _inside(r, first) * row + _inside(e, (box.start[d] + box.size[d]) * inner)
    places = (_inside(a, begin) for a, begin in zip(outer, box.start, strict=False))
    store = Store(flat, (*places, at), border)
    return nested([a for a in (*outer, r, e) if a.extent != 1], (store,))


def _filled(b: Buffer, ranges: Sequence[tuple[Dim, Dim]], value: Const) -> tuple[Stmt, ...]:
    """The loops that store a value over ranges of each dimension."""
    axes = [Axis(f"i{d}", end - begin) for d, (begin, end) in enumerate(ranges)]
    index = tuple(_inside(a, begin) for a, (begin, _) in zip(axes, ranges, strict=True))
    return nested([a for a in axes if a.extent != 1], (Store(b, index, value),))


def _inside(a: Axis, begin: Dim) -> Expr:
    """The index at a, from `begin` on; an axis of one turn is no loop."""
    return lift(begin) if a.extent == 1 else a if begin == 0 else a + begin
