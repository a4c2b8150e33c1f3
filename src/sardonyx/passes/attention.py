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
from dataclasses import replace
from math import prod
from typing import TypeGuard

from sardonyx.dims import extreme, product
from sardonyx.kernel.affine import affine
from sardonyx.kernel.c99.print_product import Product, packed_product
from sardonyx.kernel.expr import Axis, Buffer, Fold, Load, lift
from sardonyx.kernel.ir import Compute, If, Kernel, Stmt, statements
from sardonyx.kernel.walk import walk
from sardonyx.passes.blocks import Block, Parts, in_place, rows_of
from sardonyx.passes.pack import FEW_ROWS
from sardonyx.passes.program import Launch, Program, merged
from sardonyx.passes.rows import at_own

LEAST = 1 << 17  # bytes of all scores that are worth it, where these are a number
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
            joined = merged(found, joined)
        if kernel is not None:
            for i in chain:
                launches[i] = None
            launches[at] = replace(joined, kernel=kernel)
    return replace(program, launches=tuple(x for x in launches if x is not None))


def _is_plain(launch: Launch) -> bool:
    """Whether the launch is elements of tensors alone."""
    kernel = launch.kernel
    return not kernel.views and launch.call is None and bool(_many(kernel.body))


def _many(body: Sequence[Stmt]) -> tuple[Compute, ...]:
    """The Computes of a body, of a choice those for many rows; none where there are others."""
    found = [s for x in body for s in (x.otherwise if _is_choice(x) else (x,))]
    computes = tuple(s for s in found if isinstance(s, Compute))
    return computes if len(computes) == len(found) else ()


def _is_choice(s: Stmt) -> TypeGuard[If]:
    """Whether s chooses between a product and the same with an operand packed (passes/pack.py)."""
    match s:
        case If(_, (Compute() as plain,), (*_, Compute() as packed)):
            return plain.buffer is packed.buffer and packed_product(packed) is not None
    return False


def _source(launch: Launch) -> str | None:
    """The tensor whose rows become A of a product, in this launch or in one before it."""
    kernel = launch.kernel
    if not _is_plain(launch):
        return None
    body = _many(kernel.body)
    given = dict(zip(kernel.inputs, launch.reads, strict=True))
    made = {s.buffer: s for s in body}
    found = packed_product(body[-1])
    at = None if found is None else found.c.a.buffer
    while at in made:
        loads = [e.buffer for e in walk(made[at].expr) if isinstance(e, Load)]
        large = [b for b in loads if b.base is None and b.shape == made[at].buffer.shape]
        at = large[0] if large else None
    return None if at is None else given.get(at)


def blocked(kernel: Kernel) -> Kernel | None:
    """The kernel with its attention in blocks of rows; None where there is none, or it is small."""
    computes = () if kernel.views else _many(kernel.body)
    parts = next(_attentions(computes, kernel), None)
    if parts is None:
        return None
    shape = parts.scores.buffer.shape
    heads = prod(d for d in shape[: parts.depth - 1] if isinstance(d, int))  # of one of a batch
    count, each = shape[parts.depth - 1], product((4, *shape[parts.depth :]))
    whole = heads * count * each
    if isinstance(whole, int) and whole < LEAST:
        return None
    nest = Block(parts, rows_of(count, each, heads)).nest(kernel, count)
    group = {parts.scores, *parts.rows, parts.mixed}
    chosen = [s for s in kernel.body if isinstance(s, If) and s.otherwise[-1] in group]
    if chosen:
        packs = (x for s in chosen for x in s.otherwise[:-1])
        nest = (If(lift(count) < FEW_ROWS, _few(parts, chosen, kernel), (*packs, *nest)),)
    at = [_many((s,))[-1] for s in kernel.body].index(parts.mixed)
    before, after = (
        [s for s in side if s not in group and s not in chosen]
        for side in (kernel.body[:at], kernel.body[at:])
    )
    gone = {s.buffer.root for s in (parts.scores, *parts.rows)}
    kept = [b for b in kernel.temporaries if b not in gone]
    fresh = [b for b in _written(nest) if b not in (*kept, *kernel.outputs)]
    return replace(kernel, temporaries=(*kept, *fresh), body=(*before, *nest, *after))


def _few(parts: Parts, chosen: Sequence[If], kernel: Kernel) -> tuple[Stmt, ...]:
    """The attention of rows that are too few to pack K and V for: one block of plain products."""
    plain = {s.otherwise[-1]: s.then[-1] for s in chosen}
    given = (plain.get(s, s) for s in (parts.scores, parts.mixed))
    scores, mixed = (s for s in given if isinstance(s, Compute))
    rows = extreme("min", parts.scores.buffer.shape[parts.depth - 1], FEW_ROWS - 1)
    return Block(replace(parts, scores=scores, mixed=mixed), rows).nest(kernel, rows)


def _written(body: Sequence[Stmt]) -> Iterator[Buffer]:
    """What is computed in the body, each once."""
    found = (s.buffer.root for s in statements(tuple(body)) if isinstance(s, Compute))
    return iter(dict.fromkeys(found))


def _attentions(body: Sequence[Compute], kernel: Kernel) -> Iterator[Parts]:
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
) -> Parts | None:
    last, mixed = made[found.c.a.buffer], found.c.compute
    below = _below(last, made, body)
    scores = [s for s in below if _is_product(s)]
    first = packed_product(scores[0]) if len(scores) == 1 else None
    if first is None:
        return None
    rows = tuple(s for s in below if s is not scores[0] and _reads(s, scores[0], made))
    group = (scores[0], *rows)
    depth = _depth(group, found)
    folded = any(isinstance(e, Fold) for s in rows for e in walk(s.expr))
    if depth is None or not folded or not in_place(rows[-1], scores[0]):
        return None
    if first.c.lanes is scores[0].axes[depth - 1]:  # of known Q: a block would be some lanes
        return None
    if not _is_inner(group, mixed, body, kernel):
        return None
    axes = _shared(found, depth)
    if axes is None:
        return None
    return Parts(scores[0], rows, mixed, depth, axes)


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
    """The axes of the second product for those that the rows share, each as long as there: the last
    of them, and none but it and those of one point, is M. What follows its sums reads of the rows
    their own alone."""
    index, c = found.c.a.index, found.c
    loads = [e for e in walk(c.compute.expr) if isinstance(e, Load) and e.buffer is c.a.buffer]
    if any(e.index[:depth] != index[:depth] for e in loads):
        return None
    shared = list[Axis]()
    for i, size in zip(index[:depth], c.a.buffer.shape, strict=False):
        if isinstance(i, Axis) and i in c.compute.axes and i.extent == size:
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
