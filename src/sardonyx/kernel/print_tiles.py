"""Moves across memory: tiles, where what is read lies along another axis than what is written.

    for p in 16s: for l in 16s: for p in tile: for l in tile: out[p][l] = in[l][p]

Transpositions and reorders of layouts take this form: each line of memory that is read serves the
whole tile.
"""

from __future__ import annotations

from sardonyx.dims import Dim
from sardonyx.kernel.expr import Axis, Fold, Load, free_axes, walk
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.place import Block, place
from sardonyx.kernel.write import Expression, Writer, nest, stored

TILE = 16  # elements: a line of memory of float32
LEAST = 8  # a shorter axis is not worth a tile


def across(s: Compute) -> Axis | None:
    """The axis along which s reads neighbours, if it is not the one along which it writes them."""
    if not s.axes or not _is_long(s.axes[-1].extent):
        return None
    nodes = list(walk(s.expr))
    if any(isinstance(e, Fold) for e in nodes):
        return None
    found = [_along(e, s.axes) for e in nodes if isinstance(e, Load) and e.index]
    return next((a for a in found if a is not None), None)


def _along(e: Load, axes: tuple[Axis, ...]) -> Axis | None:
    free = free_axes(*e.index)
    inner = free[id(e.index[-1])]
    if axes[-1] in inner or not any(axes[-1] in free[id(i)] for i in e.index):
        return None
    return next((a for a in axes[:-1] if a in inner and _is_long(a.extent)), None)


def _is_long(extent: Dim) -> bool:
    return not isinstance(extent, int) or extent >= LEAST


def print_tiles(s: Compute, p: Axis, names: Writer) -> list[str]:
    """The loop nest of s in tiles of p and its last axis."""
    last = s.axes[-1]
    axes = (*(a for a in s.axes if a is not p and a is not last), p, last)
    root = block = Block()
    blocks = []
    for axis in axes:
        block = Block(block, axis)
        blocks.append(block)
    expression = Expression(names, place([(s.expr, block)], names.given))
    before = expression.declare(root)
    heads, bodies = list[str](), list[list[str]]()
    for axis, inner in zip(axes[:-2], blocks, strict=False):
        heads.append(names.loop(axis))
        bodies.append(expression.declare(inner))
    tiles = [_tile(axis, names) for axis in axes[-2:]]
    heads += [head for head, _, _ in tiles] + [element for _, _, element in tiles]
    bodies += [[end] for _, end, _ in tiles]
    bodies += [expression.declare(inner) for inner in blocks[-2:]]
    value = stored(names, expression.text(s.expr, block), s.expr, s.buffer)
    store = names.assign(s.buffer, [names.given[a] for a in s.axes], value)
    return [*before, *nest(heads, bodies, [store])]


def _tile(axis: Axis, names: Writer) -> tuple[str, str, str]:
    """The loop over the tiles of an axis, the declaration of a tile's end, the loop inside it."""
    (first, n), start, end, i = names.span(axis), *map(names.fresh, ("b", "e", "i"))
    names.given[axis] = i
    return (
        f"for (int64_t {start} = {first}; {start} < {n}; {start} += {TILE}) {{",
        f"const int64_t {end} = {n} - {start} < {TILE} ? {n} : {start} + {TILE};",
        f"for (int64_t {i} = {start}; {i} < {end}; {i}++) {{",
    )
