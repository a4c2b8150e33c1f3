"""What is copied only to get a border is written with it at once.

    y[h, w] = f;  p[h, w] = y[h - 1, w - 1], else 0   =>   p[h + 1, w + 1] = f;  p = 0 around it

All that reads y reads p then, and several such copies of y are one, as they are where nothing here
writes y. Convolutions with borders (passes/padding.py) read what their producers wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from operator import and_

from sardonyx.dims import Dim, atom
from sardonyx.kernel.affine import affine
from sardonyx.kernel.expr import Axis, Buffer, Const, Expr, Load, lift, walk
from sardonyx.kernel.ir import Compute, Stmt, Store, expressions, mapped, nested, statements
from sardonyx.kernel.place import checked
from sardonyx.kernel.rewrite import rewrite
from sardonyx.passes.program import Launch, Program
from sardonyx.types import TensorType

Sizes = tuple[int, ...]
Move = tuple[int, str, Sizes]  # a launch, what it reads, where that begins in what it shall read


def write_borders(program: Program) -> Program:
    """The program without the copies that only put a border around what a launch writes."""
    tensors, launches = dict(program.tensors), dict(enumerate(program.launches))
    makers = {name: i for i, launch in launches.items() for name in launch.writes}
    readers, kept = program.readers(), set(program.outputs)
    for name, found in _copies(program).items():
        maker, frame = makers.get(name), _union(found)
        moves = list(_moves(name, found, frame, readers))
        alike = len({(type(c.border.value), c.border.value) for c in found}) == 1
        if not alike or kept & {c.target for c in found}:
            continue
        made = None if maker is None or name in kept else _writing(launches[maker], frame)
        if made is None and len(found) > 1:  # one copy for all
            first, *found = found
            maker, made = first.at, _copying(launches[first.at], frame)
            moves = [move for move in moves if move[1] != name]
        may = all(_may_read(launches[i], old, frame) for i, old, _ in moves)
        if maker is None or made is None or not may:
            continue
        launches[maker] = made
        tensors[frame.target] = TensorType(tensors[name].dtype, frame.shape)
        for i, old, start in moves:
            launches[i] = _reading(launches[i], old, frame, start)
        for copy in found:
            del launches[copy.at]
    return replace(program, tensors=tensors, launches=tuple(launches.values()))


@dataclass(frozen=True, slots=True, eq=False)
class _Frame:
    """Launch `at` copies all of a tensor, of a size, to the target, of this shape, from `before`
    on; around it is the border."""

    at: int
    target: str
    before: Sizes
    size: Sizes
    shape: Sizes
    border: Const


def _copies(program: Program) -> dict[str, list[_Frame]]:
    """tensor -> the launches that copy it so."""
    found: dict[str, list[_Frame]] = {}
    for i, launch in enumerate(program.launches):
        (name, *more), frame = launch.reads or (None,), _frame(i, launch)
        if frame is not None and name is not None and not more:
            found.setdefault(name, []).append(frame)
    return found


def _frame(at: int, launch: Launch) -> _Frame | None:
    """The launch as such a copy. The target may have more than is read of it."""
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
    return _Frame(at, launch.writes[0], before, size, shape, x.default)


def _side(index: Expr, axis: Axis, size: Dim, whole: Dim) -> tuple[int, int, int] | None:
    """Along one dimension: where the source begins, its size, that of the target."""
    form = affine(index)
    before = None if form is None else 0 if size == whole == 1 else atom(axis) - form
    if not (isinstance(before, int) and isinstance(size, int) and isinstance(whole, int)):
        return None
    return (before, size, max(whole, before + size)) if before >= 0 else None


def _union(frames: Sequence[_Frame]) -> _Frame:
    """One that has room for the borders of all."""
    before = tuple(map(max, zip(*(f.before for f in frames), strict=True)))
    after = [[n - b for n, b in zip(f.shape, f.before, strict=True)] for f in frames]
    shape = tuple(b + max(n) for b, *n in zip(before, *after, strict=True))
    return replace(frames[0], before=before, shape=shape)


def _moves(
    name: str, copies: Sequence[_Frame], frame: _Frame, readers: Mapping[str, Sequence[int]]
) -> Iterator[Move]:
    """What reads the tensor or a copy of it."""
    gone = {copy.at for copy in copies}
    yield from ((i, name, frame.before) for i in readers[name] if i not in gone)
    for copy in copies:
        start = tuple(a - b for a, b in zip(frame.before, copy.before, strict=True))
        yield from ((i, copy.target, start) for i in readers.get(copy.target, ()))


def _may_read(launch: Launch, name: str, frame: _Frame) -> bool:
    """Whether each load of a tensor may be one of a box of another: none finds a border itself."""
    kernel, at = launch.kernel, [i for i, n in enumerate(launch.reads) if n == name]
    if launch.call is not None or any(i in at for _, i in kernel.views):
        return False
    own = {kernel.inputs[i] for i in at}
    nodes = (e for s in statements(kernel.body) for e in walk(*expressions(s)))
    loads = [e for e in nodes if isinstance(e, Load) and e.buffer.root in own]
    wider = [n != size for n, size in zip(frame.size, frame.shape, strict=True)]
    return all(e.buffer.base is None and not any(map(and_, checked(e), wider)) for e in loads)


def _writing(launch: Launch, frame: _Frame) -> Launch | None:
    """The launch, of one Compute or of stores alone, that writes the target with its border."""
    kernel = launch.kernel
    single = len(kernel.body) == 1 or not any(isinstance(s, Compute) for s in kernel.body)
    if launch.call is not None or len(kernel.outputs) != 1 or kernel.views or not single:
        return None
    (y,), inner = kernel.outputs, list(statements(kernel.body))
    whole = Buffer(y.name, y.dtype, frame.shape)
    written = {s.buffer for s in inner if isinstance(s, Compute | Store) and s.buffer.root is y}
    boxes = {b: _box(b, whole, frame) for b in written}
    known = {b: box for b, box in boxes.items() if box is not None}
    loads = (e for s in inner for e in walk(*expressions(s)) if isinstance(e, Load))
    if len(known) < len(boxes) or any(e.buffer.root is y for e in loads):
        return None
    body = (
        *(mapped(s, lambda e: e, lambda b: known.get(b, b)) for s in kernel.body),
        *_around(whole, frame),
    )
    changed = replace(kernel, outputs=(whole,), body=body)
    return replace(launch, kernel=changed, writes=(frame.target,))


def _copying(launch: Launch, frame: _Frame) -> Launch:
    """A launch that copies, with a wider border."""
    (s,), (y,) = launch.kernel.body, launch.kernel.outputs
    assert isinstance(s, Compute)
    assert isinstance(s.expr, Load)
    target = Buffer(y.name, y.dtype, frame.shape)
    axes = tuple(Axis(f"i{d}", n) for d, n in enumerate(frame.shape))
    index = tuple(a - n for a, n in zip(axes, frame.before, strict=True))
    body = (Compute(target, axes, Load(s.expr.buffer, index, "guard", frame.border)),)
    return replace(launch, kernel=replace(launch.kernel, outputs=(target,), body=body))


def _box(b: Buffer, whole: Buffer, frame: _Frame) -> Buffer | None:
    """What b, the tensor under some shape, is of the target under such a shape; None where a
    dimension with a border is not one of b's."""
    left, shape, start = list(b.shape), list[Dim](), list[Dim]()
    for first, n, size in zip(frame.before, frame.size, frame.shape, strict=True):
        taken: Dim = 1
        while left and (taken != n or (n == 1 != size and taken == 1)):
            taken = taken * left[0]
            if size != n and left[0] not in (1, n):
                return None
            own = size != n and left[0] == n
            shape.append(size if own else left[0])
            start.append(first if own else 0)
            left.pop(0)
            if own:
                break
        if taken != n:
            return None
    if any(d != 1 for d in left):
        return None
    shape, start = [*shape, *left], [*start, *(0 for _ in left)]
    return Buffer(b.name, b.dtype, tuple(shape), base=whole, start=tuple(start))


def _around(b: Buffer, frame: _Frame) -> Iterator[Stmt]:
    """The border: along each dimension, of what is inside along those before it. What ends a row
    and begins the next is stored together."""
    sides = list(zip(frame.before, frame.size, frame.shape, strict=True))
    last = max(d for d, (_, n, whole) in enumerate(sides) if n != whole)
    for d, (first, n, whole) in enumerate(sides):
        inside = [(f, f + k) for f, k, _ in sides[:d]]
        if d == last and d and inside[-1][0] > 0 and inside[-1][1] < sides[d - 1][2]:
            yield from _between(b, d, frame)
            continue
        for begin, end in ((0, first), (first + n, whole)):
            if begin < end:
                ranges = [*inside, (begin, end), *((0, m) for *_, m in sides[d + 1 :])]
                yield from _filled(b, ranges, frame.border)


def _between(b: Buffer, d: int, frame: _Frame) -> tuple[Stmt, ...]:
    """The loops that store what lies between the rows, along dimension d, of those inside."""
    row, inner = prod(frame.shape[d:]), prod(frame.shape[d + 1 :])
    flat = Buffer(b.name, b.dtype, (*frame.shape[: d - 1], prod(frame.shape[d - 1 :])), base=b)
    gap, first = (frame.shape[d] - frame.size[d]) * inner, frame.before[d - 1] - 1
    outer = [Axis(f"i{i}", n) for i, n in enumerate(frame.size[: d - 1])]
    r, e = Axis("row", frame.size[d - 1] + 1), Axis("run", gap)
    at = _inside(r, first) * row + _inside(e, (frame.before[d] + frame.size[d]) * inner)
    places = (_inside(a, begin) for a, begin in zip(outer, frame.before, strict=False))
    store = Store(flat, (*places, at), frame.border)
    return nested([a for a in (*outer, r, e) if a.extent != 1], (store,))


def _filled(b: Buffer, ranges: Sequence[tuple[int, int]], value: Const) -> tuple[Stmt, ...]:
    """The loops that store a value over ranges of each dimension."""
    axes = [Axis(f"i{d}", end - begin) for d, (begin, end) in enumerate(ranges)]
    index = tuple(_inside(a, begin) for a, (begin, _) in zip(axes, ranges, strict=True))
    return nested([a for a in axes if a.extent != 1], (Store(b, index, value),))


def _inside(a: Axis, begin: int) -> Expr:
    """The index at a, from `begin` on; an axis of one turn is no loop."""
    return lift(begin) if a.extent == 1 else a + begin if begin else a


def _reading(launch: Launch, name: str, frame: _Frame, start: Sizes) -> Launch:
    """The launch that reads the target, in which the tensor begins at `start`."""
    kernel = launch.kernel
    new = {
        b: Buffer(b.name, b.dtype, frame.shape)
        for b, n in zip(kernel.inputs, launch.reads, strict=True)
        if b is not None and n == name
    }

    def load(e: Load) -> Expr | None:
        if e.buffer not in new:
            return None
        index = tuple(i + k for i, k in zip(e.index, start, strict=True))
        return Load(new[e.buffer], index, e.mode, e.default)

    inputs = tuple(b if b is None else new.get(b, b) for b in kernel.inputs)
    body = tuple(mapped(s, lambda e: rewrite(e, {}, load), lambda b: b) for s in kernel.body)
    reads = tuple(frame.target if n == name else n for n in launch.reads)
    return replace(launch, kernel=replace(kernel, inputs=inputs, body=body), reads=reads)
