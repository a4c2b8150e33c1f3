"""Convolutions by tiles (ops/winograd.py), some tiles at a time, so that they stay in the cache.

    V = patches of x, transformed        For block:   V of these tiles
    P = products of V and weights   =>                P of these tiles
    Y = P transformed, epilogue                       Y of these tiles

Where V and Y choose one of many expressions by an index, all of them are computed for one tile and
sixteen channels together, and what they share once. Tiles are counted through the whole batch; the
last block counts its last tile again. Each value is what it was, so no bit changes. Where there are
blocks enough, threads share them out, each with a V and a P of its own; else the tiles of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product as cartesian
from typing import TypeAlias

from sardonyx import types as t
from sardonyx.dims import Dim, product
from sardonyx.kernel.c99.print_product import packed_product
from sardonyx.kernel.expr import Axis, Buffer, Expr, Fold, Load, Local, lift
from sardonyx.kernel.ir import Compute, For, If, Kernel, Set, Stmt, Store, nested
from sardonyx.kernel.rewrite import canonical, rewrite
from sardonyx.kernel.unroll import Pool, Target, assignments
from sardonyx.kernel.walk import walk
from sardonyx.ops.common import minimum
from sardonyx.ops.window import conjunction, within
from sardonyx.passes.patches import Outputs, Patch, loads_of, outputs_of, patch_of, transform_in
from sardonyx.passes.program import Launch, Program

LANES = 16
ROOM = 1 << 19  # bytes that V and P of one block may take, where enough tiles fit
ROWS = 6  # tiles that fill the registers
EXTRA = 2  # what a block costs beside its tiles, in tiles
FEWEST = 24  # tiles of a block: with fewer, the weights would be read too often
APART = 6  # blocks that are shared out: with fewer, one thread would wait for another too long


def in_tiles(program: Program) -> Program:
    """Each convolution by tiles, a block of tiles at a time."""
    return replace(program, launches=tuple(_launch(launch) for launch in program.launches))


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """The statements of a convolution by tiles, and what the others of its kernel are. packed: the
    weights; tail: how many channels the last block has, if it is not full."""

    before: tuple[Stmt, ...]
    patches: Compute
    products: Compute
    outputs: Compute
    packed: Load
    tail: int | None
    patch: Patch
    form: Outputs

    @property
    def tiles(self) -> tuple[Dim, ...]:
        """The tiles: of the batch, down and across."""
        return self.patches.buffer.shape[2:5]


def _launch(launch: Launch) -> Launch:
    parts = None if transform_in(launch.kernel) is None else _parts(launch.kernel)
    kernel = None if parts is None else _blocked(parts, launch.kernel)
    return launch if kernel is None else replace(launch, kernel=kernel)


def _parts(kernel: Kernel) -> _Parts | None:
    """The three statements, if the kernel is a convolution by tiles whose weights are packed."""
    made = {s.buffer: s for s in kernel.body if isinstance(s, Compute)}
    last = kernel.body[-1]
    if len(made) != len(kernel.body) or not isinstance(last, Compute):
        return None
    if any(isinstance(e, Fold) for e in walk(last.expr)):
        return None
    loaded = [made[e.buffer] for e in walk(last.expr) if isinstance(e, Load) and e.buffer in made]
    found = packed_product(loaded[0]) if len({id(s) for s in loaded}) == 1 else None
    if found is None or found.c.a.buffer not in made or len(loaded[0].axes) != 6:
        return None
    products, patches = loaded[0], made[found.c.a.buffer]
    patch, form = patch_of(patches), outputs_of(last, products.buffer)
    if patch is None or form is None:
        return None
    before = tuple(s for s in kernel.body[:-1] if s is not patches and s is not products)
    return _Parts(before, patches, products, last, found.packed, found.c.tail, patch, form)


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """A block of `count` tiles: what it holds of V and of P, one tile of outputs and of x, and
    bytes on their way."""

    size: int
    blocks: int
    filters: int
    count: int
    axis: Axis
    v: Buffer
    p: Buffer
    one: Buffer
    held: Buffer
    line: Buffer

    @property
    def apart(self) -> bool:
        """Whether threads share out the blocks, and not the tiles of each."""
        return isinstance(self.axis.extent, int) and self.axis.extent >= APART


@dataclass(frozen=True, slots=True, eq=False)
class _Tile:
    """The tile at hand: where it stands in its block, its number in all, in the batch, down and
    across."""

    r: Axis
    number: Local
    n: Local
    row: Local
    column: Local


def _tile(block: _Block) -> _Tile:
    found = (Local(name, t.int64) for name in ("tile", "n", "row", "column"))
    return _Tile(Axis("r", block.count), *found)


def _block(parts: _Parts) -> _Block | None:
    shape, filters = parts.patches.buffer.shape, parts.products.axes[-1].extent
    size, blocks, total = shape[0], shape[-2], product(parts.tiles)
    if not (isinstance(size, int) and isinstance(blocks, int) and isinstance(filters, int)):
        return None
    kinds = parts.patches.buffer.dtype, parts.products.buffer.dtype
    each = LANES * blocks * kinds[0].bits + filters * kinds[1].bits
    count = _count(total, size * size * each // 8)
    whole = filters % LANES == 0
    sums = (count, filters // LANES, size, size, LANES) if whole else (size, size, count, filters)
    return _Block(
        size, blocks, filters, count,
        Axis("b", (total + (count - 1)) // count),
        Buffer("v", kinds[0], (count, blocks, size, size, LANES)),
        Buffer("p", kinds[1], sums),
        Buffer("one", kinds[1], (size, size, LANES)),
        Buffer("held", parts.patch.source.dtype, (size, size, LANES)),
        Buffer("line", parts.outputs.buffer.dtype, (LANES,)),
    )  # fmt: skip


def _count(tiles: Dim, each: int) -> int:
    """The tiles of a block, in sixes as the registers take them; `each` is how many bytes one
    takes."""
    most = max(ROOM // each, FEWEST) // ROWS * ROWS
    if not isinstance(tiles, int):
        return most
    return min(range(ROWS, most + 1, ROWS), key=lambda n: (-(-tiles // n) * (n + EXTRA), -n))


def _blocked(parts: _Parts, kernel: Kernel) -> Kernel | None:
    """The kernel with the three in a loop over blocks of tiles."""
    block = _block(parts)
    if block is None:
        return None
    first, second = _tile(block), _tile(block)
    body = (
        _each(parts, block, first, _inputs(parts, block, first)),
        _products(parts, block),
        _each(parts, block, second, _outputs(parts, block, second), once=True),
    )
    gone = parts.patches.buffer, parts.products.buffer
    kept = (b for b in kernel.temporaries if b not in gone)
    more = [block.held] if parts.patch.open else []
    more += [block.line] if block.line.dtype.bits == 8 else []
    loop = For(block.axis, body, apart=block.apart)
    temporaries = (*kept, block.v, block.p, block.one, *more)
    return replace(kernel, temporaries=temporaries, body=(*parts.before, loop))


def _each(
    parts: _Parts, block: _Block, tile: _Tile, body: Sequence[Stmt], once: bool = False
) -> For:
    """body for each tile of a block; once: not for those that the last block counts again."""
    _, down, across = parts.tiles
    total = product(parts.tiles)
    number = block.axis * block.count + tile.r
    found: tuple[Stmt, ...] = (
        Set(tile.number, minimum(number, total - 1)),
        Set(tile.n, tile.number // (down * across)),
        Set(tile.row, tile.number // across % down),
        Set(tile.column, tile.number % across),
        *body,
    )
    if once and not (isinstance(total, int) and total % block.count == 0):
        found = (If(number < total, found),)
    return For(tile.r, found, apart=not block.apart)


def _strips(extent: int) -> Iterator[tuple[Sequence[Axis], Axis, Expr]]:
    """An axis sixteen points at a time, then the rest: a loop or none, lanes, what the axis is."""
    whole, rest = divmod(extent, LANES)
    if whole:
        strip, lane = Axis("s", whole), Axis("l", LANES)
        yield ((), lane, lane) if extent == LANES else ((strip,), lane, strip * LANES + lane)
    if rest:
        lane = Axis("l", rest)
        yield (), lane, lane + whole * LANES


def _inputs(parts: _Parts, block: _Block, tile: _Tile) -> list[Stmt]:
    """What transforms the patch of one tile, sixteen channels at a time. A patch that lies partly
    outside x is gathered first, with its zeros."""
    patch, size = parts.patch, block.size
    _, _, n, row, column, channel, lane = parts.patches.axes
    here: dict[Axis, Expr] = {n: tile.n, row: tile.row, column: tile.column}
    corner = Local("top", t.int64), Local("left", t.int64)
    pairs = list(zip(corner, patch.dims, strict=True))
    made: list[Stmt] = [Set(local, rewrite(patch.low[d], here)) for local, d in pairs]
    whole = conjunction([c >= 0 for c in corner])
    whole = whole & conjunction([c <= patch.source.shape[d] - size for c, d in pairs])
    last = LANES if parts.tail is None else parts.tail
    for strip, lanes, c in _strips(LANES * (block.blocks - 1) + last):
        where: dict[Axis, Expr] = {**here, channel: canonical(c // LANES), lane: lanes}
        index = [rewrite(e, where) for e in patch.low]

        def element(i: Expr, j: Expr, index: Sequence[Expr] = index) -> Load:
            at = {d: local + k for (local, d), k in zip(pairs, (i, j), strict=True)}
            return Load(patch.source, tuple(at.get(d, e) for d, e in enumerate(index)))

        def held(i: Expr, j: Expr, lanes: Axis = lanes) -> Load:
            return Load(block.held, (i, j, lanes))

        target = tile.r, where[channel]
        direct = _transformed(parts, block, target, lanes, element)
        if not patch.open:
            made += nested(strip, [direct])
            continue
        padded = _transformed(parts, block, target, lanes, held)
        gathered = _gathered(block, lanes, patch, element)
        made += nested(strip, [If(whole, (direct,), (gathered, padded))])
    return made


Element: TypeAlias = Callable[[Expr, Expr], Load]


def _transformed(
    parts: _Parts, block: _Block, target: tuple[Expr, Expr], lanes: Axis, element: Element
) -> For:
    """All elements of V for one tile and sixteen channels; element(i, j) is that of the patch."""
    p, q, *_ = parts.patches.axes
    loads: dict[Expr, Expr] = {x: element(lift(i), lift(j)) for x, i, j in parts.patch.loads}
    e, pool, found = rewrite(parts.patches.expr, loads), Pool(), list[Target]()
    for i, j in cartesian(range(block.size), repeat=2):
        value = pool.settled(e, {p: lift(i), q: lift(j)})
        found.append((block.v, (*target, lift(i), lift(j), lanes), value))
    return For(lanes, tuple(assignments(found)))


def _gathered(block: _Block, lanes: Axis, patch: Patch, element: Element) -> For:
    """The patch, and what the border is where it lies outside x."""
    i, j = Axis("i", block.size), Axis("j", block.size)
    x = element(i, j)
    at, sizes = [x.index[d] for d in patch.dims], [patch.source.shape[d] for d in patch.dims]
    inside = within(at, [0, 0], sizes)
    border = next(load.default for load, *_ in patch.loads if load.default is not None)
    copy, fill = (For(lanes, (Store(block.held, (i, j, lanes), e),)) for e in (x, border))
    return For(i, (For(j, (If(inside, (copy,), (fill,)),)),))


def _products(parts: _Parts, block: _Block) -> Compute:
    """The products of a block. Where the filters fill blocks, their sums lie as V does."""
    s, r = parts.products, Axis("r", block.count)
    p, q, f = s.axes[0], s.axes[1], s.axes[-1]
    packed, given, loads = parts.packed, dict[Axis, Expr](), dict[Expr, Expr]()
    axes: tuple[Axis, ...] = (p, q, r, f)
    if block.filters % LANES == 0:
        outer, lane = Axis("f", block.filters // LANES), Axis("l", LANES)
        axes, given = (r, outer, p, q, lane), {f: outer * LANES + lane}
        b, end = packed.buffer, -1 if packed.dtype.is_float else -2
        view = Buffer(b.name, b.dtype, (*b.shape[:3], 1, *b.shape[3:]), base=b.root)
        inner = (*packed.index[3:end], lane, *packed.index[end:][1:])
        loads[packed] = Load(view, (p, q, outer, lift(0), *inner))

    def load(e: Load) -> Expr | None:
        if e.buffer is not parts.patches.buffer:
            return None
        i, j, *_, channels, lane = e.index
        return Load(block.v, (r, channels, i, j, lane))

    e = rewrite(s.expr, loads, load)
    return Compute(block.p, axes, rewrite(e, given))


def _outputs(parts: _Parts, block: _Block, tile: _Tile) -> list[Stmt]:
    """What transforms the sums of one tile, and stores its outputs."""
    s, form, made = parts.outputs, parts.form, list[Stmt]()
    edge = Axis("i", form.edge), Axis("j", form.edge)
    places = tile.row * form.edge + edge[0], tile.column * form.edge + edge[1]
    assert isinstance(form.lanes.extent, int)
    for strip, lanes, c in _strips(form.lanes.extent):
        where: dict[Axis, Expr] = {s.axes[0]: tile.n, form.lanes: c}
        found: dict[Expr, Expr] = {
            x: Load(block.p, _sum_at(block, tile.r, x.index[:2], rewrite(x.index[-1], where)))
            for x in loads_of(form.core, parts.products.buffer)
        }
        found |= {e: edge[d] for e, d in form.places}
        e, pool, targets = rewrite(form.core, found), Pool(), list[Target]()
        for i, j in cartesian(range(form.edge), repeat=2):
            value = pool.settled(e, {edge[0]: lift(i), edge[1]: lift(j)})
            targets.append((block.one, (lift(i), lift(j), lanes), value))
        where |= dict(zip(form.axes, places, strict=True))
        one: dict[Expr, Expr] = {form.core: Load(block.one, (*edge, lanes))}
        at = tuple(where.get(a, a) for a in s.axes)
        body = _stored(s.buffer, at, rewrite(s.expr, one | where), lanes, block)
        for d in (1, 0):
            extent = form.axes[d].extent
            if not isinstance(extent, int) or extent % form.edge:
                body = [If(places[d] < extent, tuple(body))]
            body = [For(edge[d], tuple(body))]
        nest = nested(strip, [For(lanes, tuple(assignments(targets))), *body])
        made += nested(form.channels[::-1], nest)
    return made


def _stored(b: Buffer, at: tuple[Expr, ...], e: Expr, lanes: Axis, block: _Block) -> list[Stmt]:
    """What stores the outputs of one place; bytes are computed in a strip of their own."""
    if b.dtype.bits != 8:
        return [For(lanes, (Store(b, at, e, proven=True),))]
    made = Compute(block.line, (lanes,), e)
    return [made, For(lanes, (Store(b, at, Load(block.line, (lanes,)), proven=True),))]


def _sum_at(block: _Block, r: Axis, at: Sequence[Expr], f: Expr) -> tuple[Expr, ...]:
    """Where the sum of tile r for filter f at a position lies."""
    if block.filters % LANES:
        return (*at, r, f)
    return (r, canonical(f // LANES), *at, canonical(f % LANES))
