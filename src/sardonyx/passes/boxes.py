"""Launches that write, or read, a tensor as a box of a larger one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import and_

from sardonyx.dims import Dim
from sardonyx.kernel.c99.place import checked
from sardonyx.kernel.expr import Buffer, Expr, Load
from sardonyx.kernel.ir import Compute, Store, expressions, mapped, statements
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import walk
from sardonyx.passes.program import Launch

Starts = tuple[int, ...]
Sizes = tuple[Dim, ...]
Span = tuple[int, Dim, Dim]  # along a dimension: where a box begins, its size, that of the whole
Spans = Sequence[tuple[Dim, Dim, Dim]]


@dataclass(frozen=True, slots=True)
class Box:
    """The elements of tensor `whole`, of this shape, from `start` on, as many as `size`. A size
    that is no number is that of the whole."""

    whole: str
    start: Starts
    size: Sizes
    shape: Sizes

    def spans(self) -> list[Span]:
        """One of each dimension."""
        return list(zip(self.start, self.size, self.shape, strict=True))

    def fewer(self) -> Spans:
        """Those where a dimension of which the box has one index is one with the next."""
        found = list[tuple[Dim, Dim, Dim]]()
        one: tuple[Dim, Dim, Dim] = (0, 1, 1)
        for first, n, size in self.spans():
            at, whole = one[0] * size + first, one[2] * size
            one = (at, 1, whole) if n == 1 else (0, 1, 1)
            found += [] if n == 1 else [(at, n, whole)]
        return found if one == (0, 1, 1) else [*found, one]


def writing(launch: Launch, box: Box) -> Launch | None:
    """The launch, of one Compute or of stores alone, that writes the box of the whole; None where
    it cannot."""
    kernel = launch.kernel
    single = len(kernel.body) == 1 or not any(isinstance(s, Compute) for s in kernel.body)
    if launch.call is not None or len(kernel.outputs) != 1 or kernel.views or not single:
        return None
    (y,), inner = kernel.outputs, list(statements(kernel.body))
    whole = Buffer(y.name, y.dtype, box.shape)
    written = {s.buffer for s in inner if isinstance(s, Compute | Store) and s.buffer.root is y}
    boxes = {b: _box(b, whole, box.spans()) or _box(b, whole, box.fewer()) for b in written}
    known = {b: inside for b, inside in boxes.items() if inside is not None}
    loads = (e for s in inner for e in walk(*expressions(s)) if isinstance(e, Load))
    if len(known) < len(boxes) or any(e.buffer.root is y for e in loads):
        return None
    body = tuple(mapped(s, lambda e: e, lambda b: known.get(b, b)) for s in kernel.body)
    return replace(launch, kernel=replace(kernel, outputs=(whole,), body=body), writes=(box.whole,))


def _box(b: Buffer, whole: Buffer, spans: Spans) -> Buffer | None:
    """What b, the tensor under some shape, is of the whole under such a shape; None where a
    dimension that is longer there is not one of b's."""
    left, shape, start = list(b.shape), list[Dim](), list[Dim]()
    for first, n, size in spans:
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


def may_read(launch: Launch, name: str, box: Box) -> bool:
    """Whether each load of a tensor may be one of the box: none finds a border itself."""
    kernel, at = launch.kernel, [i for i, n in enumerate(launch.reads) if n == name]
    if launch.call is not None or any(i in at for _, i in kernel.views):
        return False
    own = {kernel.inputs[i] for i in at}
    nodes = (e for s in statements(kernel.body) for e in walk(*expressions(s)))
    loads = [e for e in nodes if isinstance(e, Load) and e.buffer.root in own]
    wider = [n != size for n, size in zip(box.size, box.shape, strict=True)]
    return all(e.buffer.base is None and not any(map(and_, checked(e), wider)) for e in loads)


def reading(launch: Launch, name: str, box: Box, start: Starts) -> Launch:
    """The launch that reads the whole, in which the tensor begins at `start`."""
    kernel = launch.kernel
    new = {
        b: Buffer(b.name, b.dtype, box.shape)
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
    reads = tuple(box.whole if n == name else n for n in launch.reads)
    return replace(launch, kernel=replace(kernel, inputs=inputs, body=body), reads=reads)
