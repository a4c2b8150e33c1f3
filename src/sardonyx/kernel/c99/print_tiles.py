"""Moves across memory: tiles, where what is read lies along another axis than what is written.

    for p in 16s: for l in 16s: for p in tile: for l in tile: out[p][l] = in[l][p]

Transpositions and reorders of layouts take this form: each line of memory that is read serves the
whole tile. Bytes and words that only move go eight rows of eight at a time, as far as all are there
where a last block is filled up; of words sixteen rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.dims import Dim
from sardonyx.kernel.affine import affine, coefficient, position
from sardonyx.kernel.c99.place import Block, place
from sardonyx.kernel.c99.write import Expression, Writer, bare, nest, stored
from sardonyx.kernel.expr import Alu, Axis, Const, Expr, Fold, Load, Size, Where
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.walk import free_axes, walk

TILE = 16  # elements: a line of memory of float32
LINE, BLOCK = 64, 8  # bytes of a line, elements of a block
LINES = 4  # of words that a tile writes to neighbours: their pages are then turned to less often
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


def dealt(s: Compute) -> tuple[Axis, ...]:
    """The axes of s, the outermost loop first: where rows are dealt out (SpaceToDepth), the axis of
    what lies between neighbours comes before the last, so that memory is read once."""
    source = position(s.expr.index, s.expr.buffer.shape) if isinstance(s.expr, Load) else None
    if source is None or not s.axes:
        return s.axes
    by = coefficient(source, s.axes[-1])
    between = [a for a in s.axes[:-1] if a.extent == by != 1 and coefficient(source, a) == 1]
    return (*(a for a in s.axes[:-1] if a not in between), *between, s.axes[-1])


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
    steps = _steps(s, p)
    if steps is not None:
        moved = _moved(s, p, steps, names, expression, blocks[-2:])
        return [*before, *nest(heads, bodies, moved)]
    tiles = [_tile(axis, names) for axis in axes[-2:]]
    heads += [head for head, _, _ in tiles] + [element for _, _, element in tiles]
    bodies += [[end] for _, end, _ in tiles]
    bodies += [expression.declare(inner) for inner in blocks[-2:]]
    value = stored(names, expression.text(s.expr, block), s.expr, s.buffer)
    store = names.assign(s.buffer, [names.given[a] for a in s.axes], value)
    return [*before, *nest(heads, bodies, [store])]


def _tile(axis: Axis, names: Writer, size: int = TILE) -> tuple[str, str, str]:
    """The loop over the tiles of an axis, the declaration of a tile's end, the loop inside it."""
    (first, n), start, end, i = names.span(axis), *map(names.fresh, ("b", "e", "i"))
    names.given[axis] = i
    return (
        f"for (int64_t {start} = {first}; {start} < {n}; {start} += {size}) {{",
        f"const int64_t {end} = {n} - {start} < {size} ? {n} : {start} + {size};",
        f"for (int64_t {i} = {start}; {i} < {end}; {i}++) {{",
    )


def _steps(s: Compute, p: Axis) -> tuple[Dim, Dim] | None:
    """How many bytes apart s reads along its last axis and writes along p, where it only moves
    bytes or words that are neighbours along the other."""
    moves, b = _moves(s), s.buffer
    if moves is None or b.dtype.bits not in (8, 16, 32):
        return None
    x, column, _ = moves
    if column is not None:
        form = affine(column)
        if form is None or [coefficient(form, a) for a in (s.axes[-1], p)] != [1, 0]:
            return None
    source, target = position(x.index, x.buffer.shape), position(s.axes, b.shape)
    if source is None or target is None or x.dtype is not b.dtype or coefficient(source, p) != 1:
        return None
    read, wrote = coefficient(source, s.axes[-1]), coefficient(target, p)
    size = b.dtype.bits // 8
    return None if read is None or wrote is None else (read * size, wrote * size)


def _moves(s: Compute) -> tuple[Load, Expr | None, Dim] | None:
    """What s moves; the column and how many of them there are, where zeros fill up a last block."""
    match s.expr:
        case Load(mode="proven"):
            return s.expr, None, 0
        case Where(Alu("lt", (column, Const(int(n)) | Size(n))), Load(mode="proven") as x, Const()):
            return x, column, n
    return None


def _moved(
    s: Compute,
    p: Axis,
    steps: tuple[Dim, Dim],
    names: Writer,
    expression: Expression,
    blocks: Sequence[Block],
) -> list[str]:
    """The loops over p and the last axis of s, in tiles of a few lines and blocks of eight."""
    last, bits = s.axes[-1], s.buffer.dtype.bits
    line = LINE * 8 // bits
    outer, end, _ = _tile(p, names, line)
    inner, stop, _ = _tile(last, names, line if bits == 8 else LINES * line)
    i, j = names.given[p], names.given[last]
    above, below = (x.split()[2] for x in (end, stop))
    first, left = (x.split(" = ")[0].split()[-1] for x in (outer, inner))
    moves = _moves(s)
    assert moves is not None
    x, column, n = moves
    to = names.element(s.buffer, [names.given[a] for a in s.axes])
    lines = [line for block in blocks for line in expression.declare(block)]
    index = [bare(expression.text(e, blocks[-1])) for e in x.index]
    source = names.element(x.buffer, index)
    places = _byte(to), names.size(steps[1]), _byte(source, "const "), names.size(steps[0])
    eight, wide = (f"sx_across_{name}({', '.join(places)});" for name in (bits, "wide"))
    rows, columns = names.fresh("w"), names.fresh("w")
    full = f"{j} + {TILE} <= {columns}"
    one = bare(stored(names, expression.text(s.expr, blocks[-1]), s.expr, s.buffer))
    const = "const "
    if column is not None:
        at, most = expression.text(column, blocks[-1]), names.size(n)
        full = f"{full} && {at} + {TILE} <= {most}"
        const, eight = "", f"if ({at} + {BLOCK} <= {most}) {eight} else {columns} = {j};"
    turned = [eight]
    if bits == 32:
        turned = [f"if ({full}) {{", wide, f"{j} += {TILE - BLOCK};", "} else {", eight, "}"]
    return [
        *(outer, end, inner, stop),
        f"const int64_t {rows} = {first} + ({above} - {first}) / {BLOCK} * {BLOCK};",
        f"{const}int64_t {columns} = {left} + ({below} - {left}) / {BLOCK} * {BLOCK};",
        f"for (int64_t {i} = {first}; {i} < {rows}; {i} += {BLOCK})",
        *(f"for (int64_t {j} = {left}; {j} < {columns}; {j} += {BLOCK}) {{", *lines, *turned, "}"),
        f"for (int64_t {i} = {first}; {i} < {above}; {i}++)",
        f"for (int64_t {j} = {i} < {rows} ? {columns} : {left}; {j} < {below}; {j}++) {{",
        *(*lines, f"{to} = {one};", "}", "}", "}"),
    ]


def _byte(element: str, const: str = "") -> str:
    return f"({const}uint8_t *)({const}void *)&{element}"
