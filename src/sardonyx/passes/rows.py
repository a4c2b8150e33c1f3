"""Rows: statements over the same leading axes become one loop over them.

    Compute(top, (i, 1), max)          For(i):
    Compute(e, (i, j), exp)       =>     Compute(top, (1,), max); Compute(e, (j,), exp)
    Compute(y, (i, j), e / s)            For(j): Store(y, (i, j), e / s)

A softmax or a normalisation then takes a row through all its steps while the row is in the cache,
and what stands between the steps needs the memory of one row. Before that, cheap elementwise steps
take the places of the loads of what they wrote. No fold changes, so no bit does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from sardonyx.dims import Dim, at_least, product
from sardonyx.kernel.affine import affine, coefficient
from sardonyx.kernel.c99.contract import flat
from sardonyx.kernel.expr import Alu, Axis, Buffer, Cast, Expr, Fold, Iterate, Load
from sardonyx.kernel.folds import LANES
from sardonyx.kernel.ir import Compute, Kernel, Stmt, Store, expressions, nested, statements
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import is_move, walk
from sardonyx.passes.program import Launch, Program

CHEAP = 4  # floating-point operations that may be done again at each reader
LEAST = 16  # elements of a row that is worth a turn of a loop


def join_steps(program: Program) -> Program:
    """Operators whose steps compute number by number as one statement, which fuses like any other:
    DequantizeLinear, a function, QuantizeLinear."""
    return replace(program, launches=tuple(map(_in_one, program.launches)))


def _in_one(launch: Launch) -> Launch:
    kernel, body = launch.kernel, computes(launch.kernel)
    folds = (e for s in body for e in walk(s.expr) if isinstance(e, Fold | Iterate))
    if len(body) < 2 or any(folds):
        return launch
    made = inlined(body, kernel, math.inf)
    written = _written(made, kernel.outputs)
    return replace(launch, kernel=replace(kernel, body=made, temporaries=written))


def computes(kernel: Kernel) -> tuple[Compute, ...]:
    """The statements, if they are all of these, and nothing is seen under another shape."""
    found = tuple(s for s in kernel.body if isinstance(s, Compute))
    return found if len(found) == len(kernel.body) and not kernel.views else ()


def join_rows(program: Program) -> Program:
    """Each launch of several Computes, row by row."""
    return replace(program, launches=tuple(_joined(launch) for launch in program.launches))


def _joined(launch: Launch) -> Launch:
    kernel, given = launch.kernel, computes(launch.kernel)
    if len(given) < 2:
        return launch
    bits = any(op.op_type == "BitCast" for op in launch.operations)
    body = given if bits else inlined(given, kernel)
    made: list[Stmt] = []
    for run, depth in runs(body):
        made += in_rows(run, depth, kernel, body) if depth else run
    slim = replace(kernel, body=tuple(made), temporaries=_written(made, kernel.outputs))
    return replace(launch, kernel=slim)


def _written(body: Sequence[Stmt], outputs: Sequence[Buffer]) -> tuple[Buffer, ...]:
    roots = (s.buffer.root for s in statements(tuple(body)) if isinstance(s, Compute | Store))
    return tuple(b for b in dict.fromkeys(roots) if b not in outputs)


def inlined(body: Sequence[Compute], kernel: Kernel, single: float = CHEAP) -> tuple[Compute, ...]:
    """The statements without the temporaries that are as cheap to compute again as to load; single:
    the floating-point operations of what has one reader."""
    left = {s.buffer: s for s in body}
    for b in kernel.temporaries:
        s = left.get(b)
        once = sum(_reads(x, b) for x in left.values()) == 1
        if s is None or (_is_widened(s) and not once):
            continue
        if _is_cheap(s, single if once else CHEAP) and all(_takes(x, s) for x in left.values()):
            left = {x.buffer: _with(x, s) for x in left.values() if x is not s}
    return tuple(left.values())


def _reads(s: Compute, b: Buffer) -> bool:
    return any(isinstance(e, Load) and e.buffer.root is b for e in walk(s.expr))


def _is_cheap(s: Compute, most: float) -> bool:
    nodes = list(walk(s.expr))
    checked = any(isinstance(e, Load) and e.mode != "proven" for e in nodes)
    cost = sum(isinstance(e, Alu) and e.dtype.is_float for e in nodes)
    return not checked and cost <= most and not any(isinstance(e, Fold | Iterate) for e in nodes)


def _is_widened(s: Compute) -> bool:
    """Whether it converts what is narrower, as a byte: several lanes of it need several steps."""
    casts = (e.x for e in walk(s.expr) if isinstance(e, Cast))
    return any(isinstance(e, Load) and e.buffer.dtype.bits < 32 for e in casts)


def _takes(reader: Compute, s: Compute) -> bool:
    """Whether s may take the place of the reader's loads of it: each element is read once."""
    nodes = list(walk(reader.expr))
    loads = [e for e in nodes if isinstance(e, Load) and e.buffer.root is s.buffer]
    if not loads:
        return True
    axes = [a for a in reader.axes if a.extent != 1]
    axes += [a for e in nodes if isinstance(e, Fold) for a in e.axes if a.extent != 1]
    seen = [i for i in loads[0].index if isinstance(i, Axis) and i.extent != 1]
    return (
        (is_move(s.expr) or not is_move(reader.expr) or isinstance(reader.expr, Load))
        and all(e.mode == "proven" and e.buffer is s.buffer for e in loads)
        and len({tuple(affine(i) for i in e.index) for e in loads}) == 1
        and len(seen) == len(axes)
        and set(seen) == set(axes)
    )


def _with(reader: Compute, s: Compute) -> Compute:
    def load(e: Load) -> Expr | None:
        if e.buffer is not s.buffer:
            return None
        return rewrite(s.expr, dict(zip(s.axes, e.index, strict=True)))

    return replace(reader, expr=rewrite(reader.expr, {}, load))


def runs(body: Sequence[Compute]) -> Iterator[tuple[tuple[Compute, ...], int]]:
    """The statements in order, as runs with the number of the axes that they share (0: none)."""
    run: tuple[Compute, ...] = ()
    depth = 0
    for s in body:
        found = _depth((*run, s)) if run else 0
        if run and (found == 0 or found < depth):
            yield run, depth
            run, depth = (s,), 0
        else:
            run, depth = (*run, s), found
    yield run, depth


def _depth(run: Sequence[Compute]) -> int:
    """How many leading axes the statements share, where each reads its own row of the others."""
    if any(isinstance(e, Fold) and e.kind == "dot" for s in run for e in walk(s.expr)):
        return 0
    shapes = [s.buffer.shape for s in run]
    alike = takewhile(lambda column: len(set(column)) == 1, zip(*shapes, strict=False))
    depth = max(0, min(len(list(alike)), max(map(len, shapes)) - 1))
    while depth and shapes[0][depth - 1] == 1:
        depth -= 1
    while depth and not (_is_worth(run, depth) and _is_apart(run, depth)):
        depth -= 1
    return depth


def _is_worth(run: Sequence[Compute], depth: int) -> bool:
    """Whether there are several rows, and they are long."""
    if product(run[0].buffer.shape[:depth]) == 1:
        return False
    longest = [product((*s.buffer.shape[depth:], *_folded(s))) for s in run]
    long = any(not isinstance(n, int) or n >= LEAST for n in longest)
    return long and not any(_lies_across(s, s.axes[depth - 1]) for s in run)


def _lies_across(s: Compute, rows: Axis) -> bool:
    """Whether s folds what lies apart in memory, and rows are neighbours there: lanes of rows."""
    if not at_least(rows.extent, LANES):
        return False
    for e in (e for e in walk(s.expr) if isinstance(e, Fold) and e.axes):
        addresses = (flat(x) for x in walk(*e.terms) if isinstance(x, Load))
        steps = ((coefficient(a, rows), coefficient(a, e.axes[-1])) for a in addresses if a)
        if any(beside == 1 and apart not in (0, 1) for beside, apart in steps):
            return True
    return False


def _folded(s: Compute) -> tuple[Dim, ...]:
    return tuple(a.extent for e in walk(s.expr) if isinstance(e, Fold) for a in e.axes)


def _is_apart(run: Sequence[Compute], depth: int) -> bool:
    """Whether each statement reads what the run writes at the indices that it writes itself."""
    shapes = {s.buffer.root: s.buffer.shape[:depth] for s in run}
    return all(
        e.buffer.shape[:depth] == shapes[e.buffer.root] and at_own(e.index[:depth], s.axes[:depth])
        for s in run
        for e in walk(s.expr)
        if isinstance(e, Load) and e.buffer.root in shapes
    )


def at_own(index: Sequence[Expr], axes: Sequence[Axis]) -> bool:
    """Whether the index is the axes themselves."""
    return all(
        i is a or (a.extent == 1 and affine(i) == 0) for i, a in zip(index, axes, strict=True)
    )


def in_rows(
    run: Sequence[Compute], depth: int, kernel: Kernel, body: Sequence[Compute]
) -> list[Stmt]:
    """The run as one loop over its shared axes. What only the run reads has the size of a row."""
    outer = run[0].axes[:depth]
    kept = {*kernel.outputs, *_read_elsewhere(run, body), *_seen_otherwise(run)}
    rows = {
        s.buffer: Buffer(s.buffer.name, s.buffer.dtype, s.buffer.shape[depth:])
        for s in run
        if s.buffer.root not in kept
    }
    inner: list[Stmt] = []
    for s in run:
        e = _in_row(s, outer, rows)
        if s.buffer in rows:
            inner.append(Compute(rows[s.buffer], s.axes[depth:], e))
        else:
            inner += _stored(s, outer, e)
    return list(nested(outer, inner))


def _read_elsewhere(run: Sequence[Compute], body: Sequence[Compute]) -> Iterator[Buffer]:
    for s in body:
        if s not in run:
            yield from (e.buffer.root for e in walk(*expressions(s)) if isinstance(e, Load))


def _seen_otherwise(run: Sequence[Compute]) -> Iterator[Buffer]:
    """What is written or read under another shape than its own."""
    yield from (s.buffer.root for s in run if s.buffer.base is not None)
    for s in run:
        loads = (e for e in walk(s.expr) if isinstance(e, Load))
        yield from (e.buffer.root for e in loads if e.buffer.base is not None)


def _in_row(s: Compute, outer: Sequence[Axis], rows: Mapping[Buffer, Buffer]) -> Expr:
    """The expression of s, its leading axes those of the loop."""
    depth = len(outer)

    def load(e: Load) -> Expr | None:
        row = rows.get(e.buffer)
        return None if row is None else Load(row, e.index[depth:], e.mode, e.default)

    return rewrite(s.expr, dict(zip(s.axes[:depth], outer, strict=True)), load)


def _stored(s: Compute, outer: Sequence[Axis], e: Expr) -> list[Stmt]:
    """Stores of a row of what is read elsewhere; a fold is computed apart, in its own form."""
    depth, made = len(outer), list[Stmt]()
    inner = s.axes[depth:]
    if any(isinstance(x, Fold) for x in walk(e)):
        row = Buffer(f"{s.buffer.name}.row", s.buffer.dtype, s.buffer.shape[depth:])
        made.append(Compute(row, inner, e))
        inner = tuple(Axis(f"{a.name}s", a.extent) for a in inner)
        e = Load(row, inner)
    return [*made, *nested(inner, (Store(s.buffer, (*outer, *inner), e),))]
