"""Recurrent networks of many rows: a block of rows at a time goes through all steps.

    P(s, n, g) of the input               For block:
    For s:                           =>     For s:
      Q(n, g) of the state                    P(n, g), Q(n, g) of these rows
      H, C of P and Q                         H, C of P and Q

What a step makes of a row depends on that row alone, so threads share out the blocks, and need not
wait for one another after each step. The products of the input are those of one step, which are
read before they leave the cache. No sum changes, so no bit does.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from sardonyx.dims import Dim, product
from sardonyx.kernel.affine import affine
from sardonyx.kernel.c99.print_product import packed_product
from sardonyx.kernel.c99.share import is_sure
from sardonyx.kernel.expr import Axis, Buffer, Expr, Load, Local
from sardonyx.kernel.ir import (
    Compute,
    For,
    Kernel,
    Set,
    Stmt,
    Store,
    expressions,
    mapped,
    statements,
)
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import free_axes, walk
from sardonyx.passes.program import Launch, Program

LEAST = 12  # rows: with fewer, one thread takes longer for what the blocks read again
FEWEST, FAIR, MOST = 6, 8, 32  # rows of a block; with FAIR, rather four blocks than two
ROOM = 1 << 21  # bytes of weights, which each block reads in each step


def split_batches(program: Program) -> Program:
    """Each recurrent network of many rows, a block of rows at a time."""
    return replace(program, launches=tuple(_launch(launch) for launch in program.launches))


def _launch(launch: Launch) -> Launch:
    kernel = launch.kernel
    for s in kernel.body:
        parts = _parts(s, kernel) if isinstance(s, For) else None
        if parts is not None:
            kernel = _split(parts, kernel)
    return launch if kernel is launch.kernel else replace(launch, kernel=kernel)


Unit: TypeAlias = tuple[Stmt, Axis]  # a statement, and its axis of rows


@dataclass(frozen=True, slots=True, eq=False)
class _Given:
    """The products of the input for all steps, and the step that a turn reads of them."""

    products: Compute
    step: Expr


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """A loop over steps, and the statements of a step. given: of the products of the input, if each
    step can make its own."""

    loop: For
    units: tuple[Unit, ...]
    rows: int
    given: _Given | None


def _parts(loop: For, kernel: Kernel) -> _Parts | None:
    """The parts of a loop that carries the state of each row, and its alone, from step to step."""
    units = tuple((s, r) for s in loop.body if (r := _counted(s)) is not None)
    sizes = {r.extent for _, r in units}
    rows = sizes.pop() if len(sizes) == 1 and len(units) == len(loop.body) else None
    if not isinstance(rows, int) or rows < LEAST or not is_sure(loop, kernel):
        return None
    if not _is_carried(units) or not _is_by_rows(units) or not _is_alone(loop, kernel):
        return None
    found = (_given(s, loop, units, kernel) for s in kernel.body)
    near = (x for x in found if x and _weights((x.products, *loop.body)) <= ROOM)
    return _Parts(loop, units, rows, next(near, None)) if 0 < _weights(loop.body) <= ROOM else None


def _counted(s: Stmt) -> Axis | None:
    """The outermost axis of a Compute, or of loops around stores."""
    match s:
        case Compute(_, (first, _, *_)):
            return first
        case For(axis) if not any(isinstance(x, Compute | Set) for x in statements((s,))):
            return axis
    return None


def _written(s: Stmt) -> Iterator[tuple[Buffer, Sequence[Expr]]]:
    """What s writes, and where."""
    for x in statements((s,)):
        match x:
            case Compute(b, axes):
                yield b, axes
            case Store(b, index):
                yield b, index


def _loads(s: Stmt) -> Iterator[Load]:
    for x in statements((s,)):
        yield from (e for e in walk(*expressions(x)) if isinstance(e, Load))


def _is_carried(units: Sequence[Unit]) -> bool:
    """Whether something is stored that a turn reads."""
    stored = {b for s, _ in units if isinstance(s, For) for b, _ in _written(s)}
    return any(e.buffer in stored for s, _ in units for e in _loads(s))


def _is_by_rows(units: Sequence[Unit]) -> bool:
    """Whether each statement touches, of what all write, its own row alone."""
    written = {b.root for s, _ in units for b, _ in _written(s)}
    where = dict[Buffer, set[int]]()
    for s, r in units:
        loads = [(e.buffer, e.index) for e in _loads(s)]
        for b, index in (*_written(s), *(x for x in loads if x[0].root in written)):
            here = {d for d, i in enumerate(index) if i is r and b.base is None}
            where[b.root] = where.get(b.root, here) & here
    return all(where.values())


def _is_alone(loop: For, kernel: Kernel) -> bool:
    """Whether what the loop computes anew is of no use outside of it."""
    inner = set(statements((loop,)))
    made = {s.buffer for s in inner if isinstance(s, Compute)}
    outer = [e for s in statements(kernel.body) if s not in inner for e in expressions(s)]
    read = {e.buffer.root for e in walk(*outer) if isinstance(e, Load)}
    return made <= set(kernel.temporaries) - read


def _given(s: Stmt, loop: For, units: Sequence[Unit], kernel: Kernel) -> _Given | None:
    """s, if it makes the products for all steps, of what stays as it is, and nothing but the turns
    of the loop, each those of one step, reads them."""
    if not isinstance(s, Compute) or s.buffer not in kernel.temporaries or len(s.axes) != 3:
        return None
    found = [(e, r) for x, r in units for e in _loads(x) if e.buffer.root is s.buffer]
    read = {e for x in kernel.body for e in _loads(x) if e.buffer.root is s.buffer}
    if not found or read != {e for e, _ in found} or packed_product(s) is None:
        return None
    if not all(e.buffer is s.buffer and e.mode == "proven" and e.index[1] is r for e, r in found):
        return None
    later = kernel.body[kernel.body.index(s) :]
    changed = {b.root for x in later for b, _ in _written(x)}
    step, forms = found[0][0].index[0], {affine(e.index[0]) for e, _ in found}
    same = len(forms) == 1 and None not in forms and free_axes(step)[id(step)] <= {loop.axis}
    free = not any(isinstance(e, Load | Local) for e in walk(step))
    return _Given(s, step) if same and free and _stays(s, changed) else None


def _stays(s: Compute, changed: Container[Buffer]) -> bool:
    return not any(e.buffer.root in changed for e in _loads(s))


def _weights(body: Sequence[Stmt]) -> int:
    """The bytes of what the products read packed; more than ROOM where a size is not known."""
    products = [packed_product(s) for s in body if isinstance(s, Compute)]
    packed = {p.packed.buffer.root for p in products if p is not None}
    sizes = [(product(b.shape), b.dtype) for b in packed]
    return sum(n * d.bits // 8 if isinstance(n, int) else ROOM + 1 for n, d in sizes)


def rows_of(rows: int) -> int:
    """The rows of a block: an even number of blocks, of which four threads get as many each if that
    leaves FAIR rows, so that none waits for long; all rows where there is no such number."""
    sizes = [n for n in range(FEWEST, min(MOST, rows // 2) + 1) if rows % (2 * n) == 0]
    return max(sizes, key=lambda n: (n >= FAIR and rows % (4 * n) == 0, n), default=rows)


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """A block of rows, and what it holds, for one step, of what was made for all rows."""

    axis: Axis
    rows: int
    held: Mapping[Buffer, Buffer]

    def turn(self, parts: _Parts) -> tuple[Stmt, ...]:
        """The statements of a step for these rows."""
        found = [self.unit(s, r) for s, r in parts.units]
        if parts.given is None:
            return tuple(found)
        s = parts.given.products
        steps, r, g = s.axes
        e = rewrite(s.expr, {steps: parts.given.step})
        return self.unit(Compute(s.buffer, (r, g), e), r), *found

    def unit(self, s: Stmt, r: Axis) -> Stmt:
        """s, which has the rows r, for these rows."""
        own = Axis(r.name, self.rows)
        given = {r: self.axis * self.rows + own}

        def load(e: Load) -> Expr | None:
            b = self.held.get(e.buffer)
            return None if b is None else Load(b, (own, *e.index[1 - len(b.shape) :]))

        def value(e: Expr) -> Expr:
            return rewrite(e, given, load)

        if isinstance(s, Compute):
            return Compute(self.held[s.buffer], (own, *s.axes[1:]), value(s.expr))
        assert isinstance(s, For)
        return For(own, tuple(mapped(x, value, lambda b: b) for x in s.body))


def _split(parts: _Parts, kernel: Kernel) -> Kernel:
    """The kernel with the loop over steps inside one over blocks of rows."""
    rows = rows_of(parts.rows)
    gone = [s for s, _ in parts.units if isinstance(s, Compute)]
    held = {s.buffer: _held(s.buffer, rows, s.buffer.shape[1:]) for s in gone}
    if parts.given is not None:
        s = parts.given.products
        gone.append(s)
        held[s.buffer] = _held(s.buffer, rows, s.buffer.shape[2:])
    block = _Block(Axis("b", parts.rows // rows), rows, held)
    loop = For(block.axis, (replace(parts.loop, body=block.turn(parts)),))
    body = (loop if s is parts.loop else s for s in kernel.body if s not in gone)
    kept = (b for b in kernel.temporaries if b not in held)
    return replace(kernel, temporaries=(*kept, *held.values()), body=tuple(body))


def _held(b: Buffer, rows: int, shape: Sequence[Dim]) -> Buffer:
    return Buffer(b.name, b.dtype, (rows, *shape))
