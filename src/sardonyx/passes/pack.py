"""Packing: sums of products read their second operand in the order the microkernel takes it.

    B[batch, n, k]  ->  packed[batch..., n axes..., N/16, k axes..., 16]

One Compute writes the packed copy and the sum reads that. Where B is a weight, constant folding
then does the copy once; otherwise it is scratch of the launch, packed on the fly. What a loop (over
the steps of a recurrent network) multiplies by is packed before the loop.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

from sardonyx import types as t
from sardonyx.dims import Dim, at_least
from sardonyx.kernel.affine import coefficient
from sardonyx.kernel.c99.along import Along, along_of, pays
from sardonyx.kernel.c99.contract import (
    LANES,
    Contraction,
    contraction,
    factors,
    flat,
    is_multiple,
    limit_of,
    widened,
)
from sardonyx.kernel.c99.edges import without_edges
from sardonyx.kernel.expr import Axis, Buffer, Const, Expr, Fold, Load, Local, lift, where
from sardonyx.kernel.ir import Compute, For, If, Kernel, Stmt, Store, statements
from sardonyx.kernel.rewrite import canonical, rewrite
from sardonyx.kernel.walk import free_axes, walk
from sardonyx.passes.program import Launch, Program

FEW_ROWS = 4  # with fewer rows, packing on the fly costs more than it gives
BESIDE = 7  # the same, where lanes lie side by side as they are


def pack(program: Program) -> Program:
    """Every sum of products that pays reads a packed operand."""
    launches = tuple(_packed(launch, set(program.weights)) for launch in program.launches)
    return replace(program, launches=launches)


def _packed(launch: Launch, weights: set[str]) -> Launch:
    kernel = launch.kernel
    constant = {
        b
        for n, b in zip(launch.reads, kernel.inputs, strict=True)
        if n in weights and b is not None
    }
    body: list[Stmt] = []
    made: list[Buffer] = []
    for s in kernel.body:
        pairs = _pairs(s, constant, 1, len(made))
        made += [copy.buffer for copy, _ in pairs.values()]
        steps = *(copy for copy, _ in pairs.values()), _with(s, pairs)
        few = None if isinstance(s, For) or not pairs else _may_be_few(s, constant)
        body += steps if few is None else [If(few, (s,), steps)]
    if not made:
        return launch
    temporaries = (*kernel.temporaries, *made)
    slim: Kernel = replace(kernel, temporaries=temporaries, body=tuple(body))
    return replace(launch, kernel=slim)


Pair = tuple[Compute, Compute]


def _pairs(s: Stmt, constant: set[Buffer], times: Dim, number: int) -> dict[Stmt, Pair]:
    """For each sum in s that pays: what packs an operand, and the sum with it packed. What a loop
    packs is packed before it, so it must depend on nothing that the loop changes."""
    match s:
        case Compute():
            pair = _pair(s, constant, times, f"packed{number}")
            return {} if pair is None else {s: pair}
        case For(axis, body):
            found: dict[Stmt, Pair] = {}
            for x in body:
                found |= _pairs(x, constant, times * axis.extent, number + len(found))
            stored = {x.buffer.root for x in statements(body) if isinstance(x, Compute | Store)}
            return {x: pair for x, pair in found.items() if _stays(*pair, stored)}
    return {}


def _stays(copy: Compute, product: Compute, stored: set[Buffer]) -> bool:
    """Whether a loop that stores these buffers packs the same each time, and the product is of
    its own axes alone."""
    read = {e.buffer.root for e in walk(copy.expr) if isinstance(e, Load)}
    free = free_axes(copy.expr)[id(copy.expr)] | free_axes(product.expr)[id(product.expr)]
    local = any(isinstance(e, Local) for e in walk(copy.expr, product.expr))
    return not read & stored and free <= {*copy.axes, *product.axes} and not local


def _with(s: Stmt, pairs: Mapping[Stmt, Pair]) -> Stmt:
    """s with its products reading what is packed."""
    if s in pairs:
        return pairs[s][1]
    return replace(s, body=tuple(_with(x, pairs) for x in s.body)) if isinstance(s, For) else s


def _pair(s: Compute, constant: set[Buffer], times: Dim, name: str) -> Pair | None:
    """The Compute that packs an operand of s, and s with it packed; None where nothing pays.
    times: how often s is computed."""
    along = along_of(s)
    if along is not None and is_constant(along.c.a, constant) and pays(along, 0):
        return _rows_last(along, name)
    found = _best(s, constant, times)
    return _lanes_last(s, constant, name) if found is None else _pack(found, name)


def _rows_last(a: Along, name: str) -> Pair:
    """Weights of few filters get these as their innermost axes, where the places are lanes."""
    target = Buffer(name, t.float32, tuple(axis.extent for axis in a.weights))
    axes = tuple(Axis(f"i{i}", d) for i, d in enumerate(target.shape))
    element = rewrite(a.c.a, dict(zip(a.weights, axes, strict=True)))
    s, fold, x = a.c.compute, a.c.fold, a.x
    single: dict[Axis, Expr] = {axis: lift(0) for axis in fold.axes if axis.extent == 1}
    index = tuple(canonical(rewrite(i, single)) for i in x.index)
    moved = {a.c.a: Load(target, a.weights), x: replace(x, index=index)}
    terms = tuple(moved[e] if isinstance(e, Load) else e for e in fold.terms)
    given: dict[Fold, Expr] = {fold: Fold("dot", fold.axes, terms, fold.when)}
    return Compute(target, axes, element), Compute(s.buffer, s.axes, rewrite(s.expr, given))


def _best(s: Compute, constant: set[Buffer], times: Dim) -> Contraction | None:
    """s with the lanes that suit it: along an axis of weights that fills them, the innermost of
    several; of two tensors along the innermost axis of one of them alone."""
    made = (contraction(s, axis) for axis in reversed(s.axes))
    found = [c for c in made if c is not None]
    known = [c for c in found if is_constant(c.b, constant)]
    if known:
        return max(known, key=_in_use)
    inner = [c for c in found if c.lanes is s.axes[-1] or not is_constant(c.a, constant)]
    c = inner[0] if inner else None
    rows: Dim = 0 if c is None else c.rows * times
    if c is None or c.terms == 1 or (isinstance(rows, int) and rows < _few(c)):
        return None
    if times != 1 and not at_least(rows, _few(c)):
        return None
    return None if any(isinstance(e, Load) and e.mode == "trap" for e in walk(c.b)) else c


def _may_be_few(s: Stmt, constant: set[Buffer]) -> Expr | None:
    """Whether s has too few rows to pack on the fly, where sizes that are not numbers say so."""
    c = _best(s, constant, 1) if isinstance(s, Compute) else None
    if c is None or is_constant(c.b, constant) or at_least(c.rows, _few(c)):
        return None
    return lift(c.rows) < _few(c)


def _few(c: Contraction) -> int:
    """The least number of rows for which B is packed on the fly."""
    address = flat(c.b) if isinstance(c.b, Load) else None
    return FEW_ROWS if address is None or coefficient(address, c.lanes) != 1 else BESIDE


def _in_use(c: Contraction) -> float:
    """The share of the lanes that is in use, from half on counted as all."""
    n = c.lanes.extent
    share = n / (-(-n // LANES) * LANES) if isinstance(n, int) and n else 1.0
    return share if share < 0.5 else 1.0


def is_constant(b: Expr, constant: Container[Buffer]) -> bool:
    return all(e.buffer.root in constant for e in walk(b) if isinstance(e, Load))


def _pack(c: Contraction, name: str) -> Pair:
    """The Compute that packs B, and the one that reads it packed."""
    free = free_axes(c.b)[id(c.b)]
    outer = [w.axes[0] for w in (*c.batch, *c.n) if w.axes[0] in free]
    terms = list(c.fold.axes)
    n: Dim = c.lanes.extent
    blocks: Dim = (n + (LANES - 1)) // LANES
    extents, pair, some = [a.extent for a in terms], c.pair, c.at_once
    if pair is not None:
        extents[pair] = (extents[pair] + (some - 1)) // some
    inner = (some,) if pair is not None else ()
    shape = (*(a.extent for a in outer), blocks, *extents, LANES, *inner)
    target = Buffer(name, c.b.dtype, shape)
    axes = tuple(Axis(f"i{i}", d) for i, d in enumerate(shape))
    end = len(outer) + 1 + len(terms)
    block, lane = axes[len(outer)], axes[end]
    there: dict[Axis, Expr] = dict(
        zip([*outer, *terms], [*axes[: len(outer)], *axes[len(outer) + 1 : end]], strict=True)
    )
    zero = Const(0 if c.b.dtype.is_integer else 0.0, c.b.dtype)
    if pair is not None:
        there[terms[pair]] = there[terms[pair]] * some + axes[-1]
    column = block * LANES + lane
    element = rewrite(c.b, {**there, c.lanes: column})
    when, _ = without_edges(c.fold.when)
    if when is not None:  # an absent term may lie past the end of B
        element = where(rewrite(when, there), element, zero)
    if not (isinstance(n, int) and n % LANES == 0):
        element = where(column < n, element, zero)
    if pair is not None and not is_multiple(terms[pair].extent, some):
        element = where(there[terms[pair]] < terms[pair].extent, element, zero)
    steps: list[Expr] = list(terms)
    part: list[Expr] = []
    if pair is not None:
        steps[pair], part = terms[pair] // some, [terms[pair] % some]
    index = (*outer, c.lanes // LANES, *steps, c.lanes % LANES, *part)
    return Compute(target, axes, element), _reading(c, Load(target, tuple(map(canonical, index))))


def _reading(c: Contraction, packed: Load) -> Compute:
    """The product with B read packed; A is the first factor from now on."""
    terms = (widened(c.a, c.fold.dtype), widened(packed, c.fold.dtype, limit_of(c.fold)))
    fold = Fold("dot", c.fold.axes, terms, c.fold.when)
    given: dict[Fold, Expr] = {c.fold: fold}
    return Compute(c.compute.buffer, c.compute.axes, rewrite(c.compute.expr, given))


def _lanes_last(s: Compute, constant: set[Buffer], name: str) -> Pair | None:
    """Weights that share the innermost axis with the other operand (depthwise convolutions) get it
    as their own innermost axis."""
    folds = [e for e in walk(s.expr) if isinstance(e, Fold)]
    if len(folds) != 1 or folds[0].kind != "dot" or not s.axes:
        return None
    (fold,), lanes = folds, s.axes[-1]
    for term, x in zip(fold.terms, factors(fold) or fold.terms, strict=True):
        if not isinstance(x, Load) or x.mode != "proven" or x.buffer.root not in constant:
            continue
        free, address = free_axes(x)[id(x)], flat(x)
        if lanes not in free or address is None or coefficient(address, lanes) == 1:
            continue
        axes = (*(a for a in (*s.axes[:-1], *fold.axes) if a in free), lanes)
        target = Buffer(name, x.dtype, tuple(a.extent for a in axes))
        inner = tuple(Axis(f"i{i}", a.extent) for i, a in enumerate(axes))
        copy = Compute(target, inner, rewrite(x, dict(zip(axes, inner, strict=True))))
        load = widened(Load(target, axes), fold.dtype, limit_of(fold))
        terms = tuple(load if y is term else y for y in fold.terms)
        given: dict[Fold, Expr] = {fold: Fold("dot", fold.axes, terms, fold.when)}
        return copy, Compute(s.buffer, s.axes, rewrite(s.expr, given))
    return None
