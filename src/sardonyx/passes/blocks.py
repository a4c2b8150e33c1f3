"""Attention in blocks of rows: how many rows a block has, and the loops over all blocks.

What lies between the products has the rows of one block; the last block of a head may be shorter.
Where the number of rows is a symbol, so is that of a block.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm

from sardonyx.dims import Dim, extreme, floordiv
from sardonyx.kernel.expr import Axis, Buffer, Expr, Load, lift
from sardonyx.kernel.ir import Compute, If, Kernel, Stmt, Store, mapped, nested
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.verify import checks
from sardonyx.kernel.walk import walk
from sardonyx.passes.rows import at_own, in_rows, inlined
from sardonyx.types import DType

ROOM = 1 << 18  # bytes of the scores of a block, where enough rows fit
HEIGHTS = (6, 14)  # rows of the tiles that fill the registers (kernel/c99/contract.h)
ROWS = lcm(*HEIGHTS)
FEWEST = 28  # rows of a block: with fewer, K and V would be read too often
ENOUGH = 8  # blocks of all heads, so that threads end at about the same time
ANY = 2 * ROWS  # rows of a block where sizes are symbols


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The statements of an attention. rows: what comes between the products, in order; depth: how
    many axes they share, the last of which counts the rows; axes: those of `mixed` for them."""

    scores: Compute
    rows: tuple[Compute, ...]
    mixed: Compute
    depth: int
    axes: tuple[Axis, ...]


def rows_of(count: Dim, each: Dim, heads: int) -> Dim:
    """The rows of a block, of so many bytes each: all, or a number that leaves few threads and
    registers idle, and no rest, or one row (a class token), if it can; of symbols, at most ANY,
    and 1 where there is none."""
    if not (isinstance(count, int) and isinstance(each, int)):
        return extreme("max", 1, extreme("min", count, ANY))
    few = -(-count * heads // (ENOUGH * ROWS)) * ROWS
    most = max(FEWEST, min(ROOM // each // ROWS * ROWS, few))
    if count <= most:
        return count
    even = -(-count // -(-count // most))
    whole = [n for n in range(most, max(FEWEST, most // 2) - 1, -1) if count % n <= 1]
    return min([*whole, even], key=lambda n: (_late(n, count, heads), _idle(n)))


def _late(rows: int, count: int, heads: int) -> int:
    """How much longer two and four threads take than if all ended at once, in twentieths: the
    blocks, then the rests, are each shared out."""
    blocks, rest = divmod(count, rows)
    ends = (t * (-(-blocks * heads // t) * rows + -(-heads // t) * rest) for t in (2, 4))
    return round(10 * sum(end / (count * heads) - 1 for end in ends))


def _idle(rows: int) -> float:
    """The registers that tiles of so many rows leave idle."""
    return sum(-rows % height / rows for height in HEIGHTS)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Blocks of so many rows."""

    parts: Parts
    rows: Dim

    def nest(self, kernel: Kernel, count: Dim) -> tuple[Stmt, ...]:
        """The loops over all blocks; those that are shorter, the last of each head, are loops of
        their own, since threads share out nests of loops."""
        parts = self.parts
        shape = parts.scores.buffer.shape[: parts.depth - 1]
        outer = [Axis(f"h{d}", n) for d, n in enumerate(shape)]
        here: list[Expr] = [lift(0) if a.extent == 1 else a for a in outer]
        whole = floordiv(count, self.rows)
        rest = count - whole * self.rows
        block = Axis("b", whole)
        first = lift(0) if whole == 1 else block * self.rows
        inner = self.body(kernel, here, first, self.rows)
        over = [a for a in (*outer, block) if a.extent != 1]
        loops = nested(over, inner)
        if rest == 0:
            return loops
        over = [a for a in outer if a.extent != 1]
        last = nested(over, self.body(kernel, here, lift(whole * self.rows), rest))
        return (*loops, *(last if isinstance(rest, int) else (If(lift(rest) > 0, last),)))

    def body(self, kernel: Kernel, here: Sequence[Expr], first: Expr, rows: Dim) -> list[Stmt]:
        """The statements of one block of rows from `first` on."""
        parts = self.parts
        depth = parts.depth
        group = (parts.scores, *parts.rows)
        held = {
            s.buffer: self._buffer(s.buffer.name, s.buffer.dtype, rows, s.buffer.shape[depth:])
            for s in group
        }
        made = [self._own(s, held, here, first, rows) for s in group]
        scores, last = made[0], made[-1]
        run = inlined(made[1:], replace(kernel, temporaries=tuple(held.values())[1:-1]))
        if not in_place(run[-1], scores):
            run = tuple(made[1:])
        steps = in_rows(run, 1, replace(kernel, outputs=(last.buffer,)), run)
        moved = {last.buffer: scores.buffer}
        steps = [mapped(s, lambda e: e, lambda b: moved.get(b, b)) for s in steps]
        return [scores, *steps, *self._mixed(scores.buffer, here, first, rows)]

    def _buffer(self, name: str, dtype: DType, rows: Dim, shape: tuple[Dim, ...]) -> Buffer:
        """What one block holds. A rest that is not known has the memory of a whole block: a plan
        for the largest sizes (passes/extents.py) is to hold for all, so none may shrink."""
        if isinstance(rows, int) or rows == self.rows:
            return Buffer(name, dtype, (rows, *shape))
        return Buffer(name, dtype, (self.rows, *shape), start=(0,) * (len(shape) + 1))

    def _own(
        self,
        s: Compute,
        held: Mapping[Buffer, Buffer],
        here: Sequence[Expr],
        first: Expr,
        rows: Dim,
    ) -> Compute:
        """s for the rows of one block."""
        depth, r = self.parts.depth, Axis("r", rows)
        given: dict[Axis, Expr] = dict(zip(s.axes, [*here, first + r], strict=False))

        def load(e: Load) -> Expr | None:
            b = held.get(e.buffer)
            return None if b is None else Load(b, (r, *e.index[depth:]))

        axes = (r, *s.axes[depth:])
        return Compute(held[s.buffer], axes, rewrite(s.expr, given, load))

    def _mixed(self, weights: Buffer, here: Sequence[Expr], first: Expr, rows: Dim) -> list[Stmt]:
        """The products of these rows, and their stores."""
        s, r, t = self.parts.mixed, Axis("r", rows), Axis("t", rows)
        given: dict[Axis, Expr] = {a: lift(0) for a in s.axes if a.extent == 1}
        there = dict(given)
        given |= dict(zip(self.parts.axes, [*here, first + r], strict=True))
        inner = [a for a in s.axes if a not in given]
        made = self._buffer("mixed", s.buffer.dtype, rows, tuple(a.extent for a in inner))
        depth, source = self.parts.depth, self.parts.rows[-1].buffer

        def load(e: Load) -> Expr | None:
            return Load(weights, (r, *e.index[depth:])) if e.buffer is source else None

        products = Compute(made, (r, *inner), rewrite(s.expr, given, load))
        over = {a: Axis(f"{a.name}s", a.extent) for a in inner}
        there |= {**dict(zip(self.parts.axes, [*here, first + t], strict=True)), **over}
        index = tuple(there[a] for a in s.axes)
        proven = not checks(Load(s.buffer, index))
        store = Store(s.buffer, index, Load(made, (t, *over.values())), proven)
        return [products, *nested((t, *over.values()), (store,))]


def in_place(last: Compute, scores: Compute) -> bool:
    """Whether the last step may write each element where the scores have it."""
    loads = [e for e in walk(last.expr) if isinstance(e, Load) and e.buffer is scores.buffer]
    same = all(len(e.index) == len(last.axes) and at_own(e.index, last.axes) for e in loads)
    return same and scores.buffer.dtype is last.buffer.dtype
