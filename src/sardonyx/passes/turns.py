"""Rows of channels, as transformers have pixels, turned for convolutions, and back.

    y (N, P, C) -> Transpose (N, C, P) -> Reshape (N, C, H, W) -> Conv -> Reshape -> Transpose

With its channels last a convolution reads and writes rows as they are, so that nothing is turned.
What is told here of a program decides where layout.py keeps channels last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

from sardonyx.dims import product
from sardonyx.kernel.affine import affine
from sardonyx.kernel.expr import Axis, Buffer, Fold, Load
from sardonyx.kernel.ir import Compute, expressions
from sardonyx.kernel.walk import free_axes, walk
from sardonyx.passes.program import Launch, Program
from sardonyx.types import TensorType

FEW = 16  # terms of an interpolation
FEWEST = 8  # of a row times a column

Source: TypeAlias = Callable[[Launch], str | None]


def keeps_channels(launch: Launch, tensors: Mapping[str, TensorType]) -> bool:
    """Whether it is (N, C, ...) seen as (N, C, ...) with other axes of pixels."""
    if (0, 0) not in launch.kernel.views or launch.reads[0] is None or len(launch.writes) > 1:
        return False
    have, want = (tensors[n].shape or () for n in (launch.reads[0], launch.writes[0]))
    alike = min(len(have), len(want)) >= 3 and have[:2] == want[:2]
    return alike and product(have[2:]) == product(want[2:])


def turns(launch: Launch, rows: Collection[str] = ()) -> bool:
    """Whether it writes channels first and has them last: its filters are the channels, or it
    reads channels side by side, and reads nothing side by side along an axis of pixels but factors
    of an interpolation. rows: of the tensors that it reads, those whose channels are last."""
    s = launch.kernel.body[-1] if launch.kernel.body else None
    if not isinstance(s, Compute) or s.buffer is not launch.kernel.outputs[0] or len(s.axes) < 3:
        return False
    _, channel, *space = s.axes
    names = zip(launch.kernel.inputs, launch.reads, strict=True)
    last = {b for b, n in names if n in rows}
    loads = [e for e in walk(s.expr) if isinstance(e, Load) and e.index and e.buffer not in last]
    free = free_axes(*(i for e in loads for i in e.index))
    beside, deep = False, has_product(launch)
    folds = () if deep else [e for e in walk(s.expr) if isinstance(e, Fold)]
    pixels = {*space, *(a for e in folds for a in e.axes)}
    for e in loads:
        *outer, inner = (free[id(i)] for i in e.index)
        if not inner.isdisjoint(space) and any(x - pixels for x in outer):
            return False
        beside = beside or channel in inner
    return beside or deep


def has_product(launch: Launch) -> bool:
    """Whether it computes sums of more products than an interpolation has, or rows by columns."""
    every = walk(*(e for s in launch.kernel.body for e in expressions(s)))
    return any(_is_product(e) for e in every if isinstance(e, Fold) and e.kind == "dot")


def _is_product(e: Fold) -> bool:
    terms = product(tuple(a.extent for a in e.axes))
    if not isinstance(terms, int) or terms > FEW:
        return True
    loads = [x for x in e.terms if isinstance(x, Load) and None not in map(affine, x.index)]
    single = sum(a.extent != 1 for a in e.axes) == 1
    return single and len(loads) == 2 and terms >= FEWEST


def towards(program: Program, source: Source) -> frozenset[str]:
    """The tensors that reach a convolution, whose input `source` tells, through what moves or
    changes elements alone, or makes rows of rows."""
    found: set[str] = set()
    for launch in reversed(program.launches):
        read = source(launch)
        whole = not launch.kernel.views or keeps_channels(launch, program.tensors)
        if read is not None:
            found.add(read)
        elif whole and any(name in found for name in launch.writes):
            deep = {n for n in launch.reads if n and len(program.tensors[n].shape or ()) >= 3}
            if has_product(launch) or turns(launch):
                deep = {n for n in deep if turns(launch, (n,)) and takes_rows(launch, n)}
            found |= deep
    return frozenset(found)


def turned(program: Program, source: Source) -> frozenset[str]:
    """The tensors whose channels all readers take side by side, or as the terms of a sum."""
    found: set[str] = set()
    readers = program.readers()
    for launch in reversed(program.launches):
        for name in launch.writes:
            shape = program.tensors[name].shape or ()
            reading = [program.launches[i] for i in readers.get(name, ())]
            if len(shape) < 3 or not reading or name in program.outputs:
                continue
            views = [x for x in reading if keeps_channels(x, program.tensors)]
            others = [x for x in reading if x not in views]
            rows = all(source(x) is None and takes_rows(x, name) for x in others)
            if rows and all(x.writes[0] in found for x in views):
                found.add(name)
    return frozenset(found)


def takes_rows(launch: Launch, name: str) -> bool:
    """Whether the launch takes the channels of a tensor side by side, or as the terms of a sum."""
    if launch.call is not None:
        return False
    names = zip(launch.kernel.inputs, launch.reads, strict=True)
    read = {b for b, n in names if n == name and b is not None}
    body, back = launch.kernel.body, turns(launch, (name,))
    for s in body:
        lane = s.axes[1 if back and s is body[-1] else -1 :][:1] if isinstance(s, Compute) else ()
        if not isinstance(s, Compute) or not all(_side_by_side(s, read, lane)):
            return False
    return True


def _side_by_side(s: Compute, read: set[Buffer], lane: Sequence[Axis]) -> Iterator[bool]:
    """Of each load of the buffers `read`, whether its channels alone lie along the lane of s or the
    axes of a fold."""
    along = {*lane, *(a for e in walk(s.expr) if isinstance(e, Fold) for a in e.axes)}
    loads = [e for e in walk(s.expr) if isinstance(e, Load) and e.buffer.root in read]
    free = free_axes(*(i for e in loads for i in e.index))
    for e in loads:
        rows = e.buffer.base is None and not free[id(e.index[1])].isdisjoint(along)
        yield rows and free[id(e.index[-1])].isdisjoint(along)
