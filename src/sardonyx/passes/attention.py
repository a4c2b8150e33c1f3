"""Two products with a softmax between them, some rows at a time, so that scores stay in the cache.

    S[h, i, j] = products of Q and K, scaled, masked        For h: For block:  S of these rows
    P[h, i, :] = what becomes of row i of S            =>                      P, in place
    O[h, i, :] = products of P and V                                           O of these rows

The three may be launches of their own, as exported graphs have them, or statements of one. Between
the products each row is used alone, and whole: no fold changes, so no bit does. Q, K and V may
lie as they like; K and V are packed before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm, prod

from sardonyx.kernel.affine import affine
from sardonyx.kernel.c99.print_product import Product, packed_product
from sardonyx.kernel.expr import Axis, Buffer, Expr, Fold, Load, lift, walk
from sardonyx.kernel.ir import Compute, For, Kernel, Stmt, Store, mapped, nested, statements
from sardonyx.kernel.rewrite import rewrite
from sardonyx.passes.program import Launch, Program
from sardonyx.passes.rows import at_own, in_rows, inlined

LEAST = 1 << 17  # bytes of all scores that are worth it
ROOM = 1 << 18  # bytes of the scores of a block, where enough rows fit
HEIGHTS = (6, 14)  # rows of the tiles that fill the registers (kernel/c99/contract.h)
ROWS = lcm(*HEIGHTS)
FEWEST = 28  # rows of a block: with fewer, K and V would be read too often
ENOUGH = 8  # blocks of all heads, so that threads end at about the same time
MOST = 4  # launches between the products, at most


def join_attention(program: Program) -> Program:
    """Each attention as one launch, a block of rows at a time."""
    launches: list[Launch | None] = list(program.launches)
    makers = {name: i for i, launch in enumerate(program.launches) for name in launch.writes}
    readers = program.readers()

    def before(name: str | None, by: int) -> int | None:
        """The launch that makes what only the launch `by` reads."""
        at = None if name is None or name in program.outputs else makers.get(name)
        return at if at is not None and name is not None and readers[name] == [by] else None

    for at, launch in enumerate(program.launches):
        chain, joined = [at], launch
        while (kernel := blocked(joined.kernel)) is None:
            name = _source(joined)
            first = before(name, chain[-1])
            found = None if first is None else launches[first]
            if first is None or found is None or name is None or not _is_plain(found):
                break
            if len(found.writes) != 1 or len(chain) > MOST:
                break
            chain.append(first)
            joined = _merged(found, joined, name)
        if kernel is not None:
            for i in chain:
                launches[i] = None
            launches[at] = replace(joined, kernel=kernel)
    return replace(program, launches=tuple(x for x in launches if x is not None))


def _is_plain(launch: Launch) -> bool:
    """Whether the launch is elements of tensors alone."""
    kernel = launch.kernel
    whole = not kernel.views and launch.call is None
    return whole and all(isinstance(s, Compute) for s in kernel.body)


def _source(launch: Launch) -> str | None:
    """The tensor whose rows become A of a product, in this launch or in one before it."""
    kernel = launch.kernel
    if not kernel.body or not _is_plain(launch):
        return None
    given = dict(zip(kernel.inputs, launch.reads, strict=True))
    made = {s.buffer: s for s in kernel.body if isinstance(s, Compute)}
    last = kernel.body[-1]
    found = packed_product(last) if isinstance(last, Compute) else None
    at = None if found is None else found.c.a.buffer
    while at in made:
        loads = [e.buffer for e in walk(made[at].expr) if isinstance(e, Load)]
        large = [b for b in loads if b.base is None and b.shape == made[at].buffer.shape]
        at = large[0] if large else None
    return None if at is None else given.get(at)


def _merged(first: Launch, second: Launch, name: str) -> Launch:
    """One launch; what the second reads of the first is scratch."""
    (out,) = first.kernel.outputs
    inputs: dict[str, Buffer] = {}
    same: dict[Buffer, Buffer] = {}
    for launch in (first, second):
        for n, b in zip(launch.reads, launch.kernel.inputs, strict=True):
            if n is not None and b is not None:
                same[b] = out if n == name else inputs.setdefault(n, b)

    def load(e: Load) -> Expr | None:
        root = same.get(e.buffer.root, e.buffer.root)
        if root is e.buffer.root:
            return None
        plain = e.buffer.base is None
        b = root if plain else Buffer(e.buffer.name, e.buffer.dtype, e.buffer.shape, base=root)
        return Load(b, e.index, e.mode, e.default)

    body: list[Stmt] = []
    for s in (*first.kernel.body, *second.kernel.body):
        assert isinstance(s, Compute)
        body.append(replace(s, expr=rewrite(s.expr, {}, load)))
    kernel = Kernel(
        name=f"{first.kernel.name}_{second.kernel.name}",
        inputs=tuple(inputs.values()),
        outputs=second.kernel.outputs,
        temporaries=(*first.kernel.temporaries, out, *second.kernel.temporaries),
        constants=(*first.kernel.constants, *second.kernel.constants),
        body=tuple(body),
    )
    operations = (*first.operations, *second.operations)
    return Launch(kernel, tuple(inputs), second.writes, operations)


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """The statements of an attention. rows: what comes between the products, in order; depth: how
    many axes they share, the last of which counts the rows; axes: those of `mixed` for them."""

    before: tuple[Compute, ...]
    scores: Compute
    rows: tuple[Compute, ...]
    mixed: Compute
    after: tuple[Compute, ...]
    depth: int
    axes: tuple[Axis, ...]


def blocked(kernel: Kernel) -> Kernel | None:
    """The kernel with its attention in blocks of rows; None where there is none, or it is small."""
    if kernel.views or not all(isinstance(s, Compute) for s in kernel.body):
        return None
    computes = tuple(s for s in kernel.body if isinstance(s, Compute))
    parts = next(_attentions(computes, kernel), None)
    if parts is None:
        return None
    shape = parts.scores.buffer.shape
    rest = [d for d in shape[parts.depth - 1 :] if isinstance(d, int)]
    if len(rest) != len(shape) - parts.depth + 1:
        return None
    heads = prod(d for d in shape[: parts.depth - 1] if isinstance(d, int))  # of one of a batch
    count, each = rest[0], 4 * prod(rest[1:])
    if heads * count * each < LEAST:
        return None
    block = _Block(parts, _rows(count, each, heads))
    gone = {s.buffer.root for s in (parts.scores, *parts.rows)}
    nest = block.nest(kernel, count)
    kept = [b for b in kernel.temporaries if b not in gone]
    fresh = [b for b in _written(nest) if b not in kept]
    body = (*parts.before, *nest, *parts.after)
    return replace(kernel, temporaries=(*kept, *fresh), body=body)


def _written(body: Sequence[Stmt]) -> Iterator[Buffer]:
    """What is computed in the body, each once."""
    found = (s.buffer.root for s in statements(tuple(body)) if isinstance(s, Compute))
    return iter(dict.fromkeys(found))


def _rows(count: int, each: int, heads: int) -> int:
    """The rows of a block, of so many bytes each: all, or a number that leaves few threads and
    registers idle, and no rest, or one row (a class token), if it can."""
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


def _attentions(body: Sequence[Compute], kernel: Kernel) -> Iterator[_Parts]:
    """The products in the body whose A is made, row by row, of another product."""
    made = {s.buffer: s for s in body}
    for mixed in body:
        found = packed_product(mixed)
        if found is not None and found.c.a.buffer in made:
            parts = _parts(found, made, body, kernel)
            if parts is not None:
                yield parts


def _parts(
    found: Product, made: Mapping[Buffer, Compute], body: Sequence[Compute], kernel: Kernel
) -> _Parts | None:
    last, mixed = made[found.c.a.buffer], found.c.compute
    below = _below(last, made, body)
    scores = [s for s in below if _is_product(s)]
    if len(scores) != 1 or packed_product(scores[0]) is None:
        return None
    rows = tuple(s for s in below if s is not scores[0] and _reads(s, scores[0], made))
    group = (scores[0], *rows)
    depth = _depth(group, found)
    if depth is None or not rows or not _in_place(rows[-1], scores[0]):
        return None
    if not _is_inner(group, mixed, body, kernel):
        return None
    axes = _shared(found, depth)
    if axes is None:
        return None
    at = {s: i for i, s in enumerate(body)}
    rest = [s for s in body if s not in group and s is not mixed]
    before = tuple(s for s in rest if at[s] < at[mixed])
    after = tuple(s for s in rest if at[s] > at[mixed])
    return _Parts(before, scores[0], rows, mixed, after, depth, axes)


def _below(s: Compute, made: Mapping[Buffer, Compute], body: Sequence[Compute]) -> list[Compute]:
    """s and all that it is made of, in order."""
    found, todo = set[Compute](), [s]
    while todo:
        x = todo.pop()
        if x not in found:
            found.add(x)
            if x is s or not _is_product(x):
                loads = (e.buffer.root for e in walk(x.expr) if isinstance(e, Load))
                todo += [made[b] for b in loads if b in made]
    return [x for x in body if x in found]


def _is_product(s: Compute) -> bool:
    return any(isinstance(e, Fold) and e.kind == "dot" for e in walk(s.expr))


def _reads(s: Compute, scores: Compute, made: Mapping[Buffer, Compute]) -> bool:
    """Whether s depends on the scores."""
    return scores in _below(s, made, tuple(made.values()))


def _depth(group: Sequence[Compute], found: Product) -> int | None:
    """How many leading axes the statements share, each reading of the others its own row alone."""
    shape = group[0].buffer.shape
    depth, last = len(shape) - 1, group[-1].buffer
    if depth < 1 or last.shape != shape or found.c.a.buffer is not last:
        return None
    shapes = {s.buffer: s.buffer.shape for s in group}
    roots = {b.root for b in shapes}
    for s in group:
        if s.buffer.base is not None or s.buffer.shape[:depth] != shape[:depth]:
            return None
        for e in walk(s.expr):
            if isinstance(e, Load) and e.buffer.root in roots:
                own = e.buffer in shapes and at_own(e.index[:depth], s.axes[:depth])
                if not own or e.mode != "proven":
                    return None
    return depth


def _is_inner(
    group: Sequence[Compute], mixed: Compute, body: Sequence[Compute], kernel: Kernel
) -> bool:
    """Whether what the group writes is read by it alone, the last by `mixed`."""
    written = {s.buffer for s in group}
    if not written <= set(kernel.temporaries):
        return False
    for s in body:
        if s not in group:
            read = {e.buffer.root for e in walk(s.expr) if isinstance(e, Load)} & written
            if read and (s is not mixed or read != {group[-1].buffer}):
                return False
    return True


def _shared(found: Product, depth: int) -> tuple[Axis, ...] | None:
    """The axes of the second product for those that the rows share: the last of them, and none but
    it and those of one point, is M. What follows its sums reads of the rows their own alone."""
    index, c = found.c.a.index, found.c
    loads = [e for e in walk(c.compute.expr) if isinstance(e, Load) and e.buffer is c.a.buffer]
    if any(e.index[:depth] != index[:depth] for e in loads):
        return None
    shared = list[Axis]()
    for i, size in zip(index[:depth], c.a.buffer.shape, strict=False):
        if isinstance(i, Axis) and i in c.compute.axes:
            shared.append(i)
        elif size == 1 and affine(i) == 0:
            shared.append(Axis("one", 1))
        else:
            return None
    if len(set(shared)) != depth or c.m == () or shared[-1].extent == 1:
        return None
    own = {w.axes[0] for w in (*c.m, *c.batch) if w.extent != 1}
    alone = len(index) == depth + 1 and index[depth] in c.fold.axes
    return tuple(shared) if alone and own <= set(shared) else None


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Blocks of so many rows."""

    parts: _Parts
    rows: int

    def nest(self, kernel: Kernel, count: int) -> tuple[Stmt, ...]:
        """The loops over all blocks; those that are shorter, the last of each head, are loops of
        their own, since threads share out nests of loops."""
        parts = self.parts
        shape = parts.scores.buffer.shape[: parts.depth - 1]
        outer = [Axis(f"h{d}", n) for d, n in enumerate(shape)]
        here: list[Expr] = [lift(0) if a.extent == 1 else a for a in outer]
        whole, rest = divmod(count, self.rows)
        block = Axis("b", whole)
        inner = self.body(kernel, here, block * self.rows if whole > 1 else lift(0), self.rows)
        bodies = [[For(block, tuple(inner))] if whole > 1 else inner]
        if rest:
            bodies.append(self.body(kernel, here, lift(whole * self.rows), rest))
        over = [a for a in outer if a.extent != 1]
        return tuple(s for body in bodies for s in nested(over, body))

    def body(self, kernel: Kernel, here: Sequence[Expr], first: Expr, rows: int) -> list[Stmt]:
        """The statements of one block of rows from `first` on."""
        parts = self.parts
        depth = parts.depth
        group = (parts.scores, *parts.rows)
        held = {
            s.buffer: Buffer(s.buffer.name, s.buffer.dtype, (rows, *s.buffer.shape[depth:]))
            for s in group
        }
        made = [self._own(s, held, here, first, rows) for s in group]
        scores, last = made[0], made[-1]
        run = inlined(made[1:], replace(kernel, temporaries=tuple(held.values())[1:-1]))
        if not _in_place(run[-1], scores):
            run = tuple(made[1:])
        steps = in_rows(run, 1, replace(kernel, outputs=(last.buffer,)), run)
        moved = {last.buffer: scores.buffer}
        steps = [mapped(s, lambda e: e, lambda b: moved.get(b, b)) for s in steps]
        return [scores, *steps, *self._mixed(scores.buffer, here, first, rows)]

    def _own(
        self,
        s: Compute,
        held: Mapping[Buffer, Buffer],
        here: Sequence[Expr],
        first: Expr,
        rows: int,
    ) -> Compute:
        """s for the rows of one block."""
        depth, r = self.parts.depth, Axis("r", rows)
        given: dict[Axis, Expr] = dict(zip(s.axes, [*here, first + r], strict=False))

        def load(e: Load) -> Expr | None:
            b = held.get(e.buffer)
            return None if b is None else Load(b, (r, *e.index[depth:]))

        axes = (r, *s.axes[depth:])
        return Compute(held[s.buffer], axes, rewrite(s.expr, given, load))

    def _mixed(self, weights: Buffer, here: Sequence[Expr], first: Expr, rows: int) -> list[Stmt]:
        """The products of these rows, and their stores."""
        s, r, t = self.parts.mixed, Axis("r", rows), Axis("t", rows)
        given: dict[Axis, Expr] = {a: lift(0) for a in s.axes if a.extent == 1}
        there = dict(given)
        given |= dict(zip(self.parts.axes, [*here, first + r], strict=True))
        inner = [a for a in s.axes if a not in given]
        made = Buffer("mixed", s.buffer.dtype, (rows, *(a.extent for a in inner)))
        depth, source = self.parts.depth, self.parts.rows[-1].buffer

        def load(e: Load) -> Expr | None:
            return Load(weights, (r, *e.index[depth:])) if e.buffer is source else None

        products = Compute(made, (r, *inner), rewrite(s.expr, given, load))
        over = {a: Axis(f"{a.name}s", a.extent) for a in inner}
        there |= {**dict(zip(self.parts.axes, [*here, first + t], strict=True)), **over}
        index = tuple(there[a] for a in s.axes)
        store = Store(s.buffer, index, Load(made, (t, *over.values())))
        return [products, *nested((t, *over.values()), (store,))]


def _in_place(last: Compute, scores: Compute) -> bool:
    """Whether the last step may write each element where the scores have it."""
    loads = [e for e in walk(last.expr) if isinstance(e, Load) and e.buffer is scores.buffer]
    same = all(len(e.index) == len(last.axes) and at_own(e.index, last.axes) for e in loads)
    return same and scores.buffer.dtype is last.buffer.dtype
