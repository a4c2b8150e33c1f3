"""What the passes see in the transforms of a convolution by tiles (ops/winograd.py, and of
bytes passes/fewer.py).

transform_in(kernel)     what transforms the input, in a kernel that is a convolution by tiles
patch_of(s)              the square of x that the input transform s reads for one tile
outputs_of(s, sums)      the tile of y that the output transform s computes from sums
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sardonyx.dims import Dim
from sardonyx.kernel.affine import affine
from sardonyx.kernel.c99.place import checked
from sardonyx.kernel.expr import Alu, Axis, Buffer, Const, Expr, Load, Where
from sardonyx.kernel.ir import Compute, Kernel
from sardonyx.kernel.walk import walk

AXES = 7  # of transformed patches: two in the tile, sample, rows, columns, blocks, channels


@dataclass(frozen=True, slots=True, eq=False)
class Patch:
    """A square of the buffer `source`. loads: each with its row and column in the square; dims: the
    two dimensions of source along which it lies; low: the index of its first element; open:
    whether an element may lie outside source."""

    source: Buffer
    loads: tuple[tuple[Load, int, int], ...]
    dims: tuple[int, int]
    low: tuple[Expr, ...]
    open: bool


def transform_in(kernel: Kernel) -> Compute | None:
    """What transforms the patches of the input by tiles; None if the kernel does not."""
    if len(kernel.body) < 3:
        return None
    wide = (s for s in kernel.body if isinstance(s, Compute) and len(s.axes) == AXES)
    return next((s for s in wide if patch_of(s) is not None), None)


def patch_of(s: Compute) -> Patch | None:
    """The patch that s reads; None where its loads do not form one."""
    loads = [e for e in walk(s.expr) if isinstance(e, Load)]
    if not loads or len({e.buffer for e in loads}) != 1:
        return None
    apart = [_apart(e.index, loads[0].index) for e in loads]
    rows = [row for row in apart if row is not None]
    dims = [d for d in range(len(loads[0].index)) if len({row[d] for row in rows}) > 1]
    if len(rows) != len(loads) or len(dims) != 2:
        return None
    y, x = dims
    top, left = min(row[y] for row in rows), min(row[x] for row in rows)
    places = [(row[y] - top, row[x] - left) for row in rows]
    return Patch(
        loads[0].buffer,
        tuple((e, *place) for e, place in zip(loads, places, strict=True)),
        (y, x),
        loads[places.index((0, 0))].index,
        any(checked(e)[d] for e in loads for d in dims),
    )


def _apart(index: Sequence[Expr], first: Sequence[Expr]) -> list[int] | None:
    """How far an index is from another, if that is the same everywhere."""
    found: list[int] = []
    for a, b in zip(index, first, strict=True):
        one, other = affine(a), affine(b)
        distance: Dim | None = None if one is None or other is None else one - other
        if not isinstance(distance, int):
            return None
        found.append(distance)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Outputs:
    """The tiles of an output transform. edge: the outputs along an edge of a tile; axes: down and
    across; core: what chooses an output of the tile; places: the nodes that say which one it is,
    down and across; channels: a loop over blocks, if there is one; lanes: the innermost axis."""

    edge: int
    axes: tuple[Axis, Axis]
    core: Where
    places: tuple[tuple[Expr, int], ...]
    channels: tuple[Axis, ...]
    lanes: Axis


def outputs_of(s: Compute, sums: Buffer) -> Outputs | None:
    """The tiles of s; None where its channels do not lie innermost."""
    chosen = [
        (e, e.args[0], e.args[1].value)
        for e in walk(s.expr)
        if isinstance(e, Alu) and e.op == "imod" and isinstance(e.args[1], Const)
    ]
    axes = [a for a in s.axes if any(x is a for _, x, _ in chosen)]
    core = _core(s.expr, sums)
    if core is None or len(axes) != 2 or len({m for *_, m in chosen}) != 1:
        return None
    lanes, channels = s.axes[-1], tuple(a for a in s.axes[1:-1] if a not in axes)
    if lanes in axes or not isinstance(lanes.extent, int) or len(channels) > 1:
        return None
    places = tuple((e, [a is x for a in axes].index(True)) for e, x, _ in chosen)
    return Outputs(int(chosen[0][2]), (axes[0], axes[1]), core, places, channels, lanes)


def loads_of(root: Expr, buffer: Buffer) -> list[Load]:
    """The loads of a buffer below root."""
    return [e for e in walk(root) if isinstance(e, Load) and e.buffer is buffer]


def _core(root: Expr, sums: Buffer) -> Where | None:
    """The innermost selection that holds all loads of the sums."""
    count = len(loads_of(root, sums))
    found: Iterable[Where] = (e for e in walk(root) if isinstance(e, Where))
    return next((e for e in found if len(loads_of(e, sums)) == count), None)
