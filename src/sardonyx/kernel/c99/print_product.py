"""Printing a packed sum of products: a call of sx_contract (contract.h), which finishes sums
as it is told (print_plain.py), or passes them on to a function that does (print_finish.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from sardonyx import types as t
from sardonyx.dims import Dim, product
from sardonyx.kernel.affine import affine
from sardonyx.kernel.c99.contract import (
    LANES,
    MOST_ROWS,
    WHOLE,
    Contraction,
    Walk,
    contraction,
    factors,
    is_multiple,
    limit_of,
    merged,
)
from sardonyx.kernel.c99.held import Held, declared, held_of, parts_of
from sardonyx.kernel.c99.print_finish import blocks_of
from sardonyx.kernel.c99.print_plain import Plain, address_text, asked_of, finished, plain_of
from sardonyx.kernel.c99.print_plain_u8 import plain_of_bytes
from sardonyx.kernel.c99.print_share import Scope, shared_batch
from sardonyx.kernel.c99.share import can_share
from sardonyx.kernel.c99.write import Writer
from sardonyx.kernel.expr import Alu, Axis, Const, Expr, Fold, Load, Where
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.walk import free_axes, walk

MOST_LOOPS = 3  # loops around a run
LONGEST = 256  # terms of a run that is not cut
EQUAL = (*range(256, 127, -4), *range(260, 385, 4))  # terms of equal runs, the best first
FEW = 4  # rows; with fewer, so many blocks are taken together
WEIGHTS = 4  # rows that take as long as reading B: name##_work of product.h
LEAST = 512  # terms of all rows with which a half block saves more than it costs
PAIR = 2  # blocks that go together where there are registers for them
# The type of A: the function.
CALLS = {
    t.float32: "sx_contract",
    t.float64: "sx_contract_f64",
    t.int16: "sx_contract_i16",
    t.uint8: "sx_contract_u8",
}
HALF = "sx_contract_half"
NARROW = "sx_contract_narrow"
OF_WHOLE = "sx_contract_u8_whole"


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """A Contraction whose B is packed: rows and terms as sx_contract walks them. pairs: of each few
    terms of B that are taken at once, whether they are taken with the next, if that is known.
    held: how B is held in fewer bits."""

    c: Contraction
    packed: Load
    rows: tuple[Walk, ...]
    runs: tuple[Walk, ...]
    pairs: Load | None
    plain: Plain | None
    held: Held | None = None


def packed_product(s: Compute) -> Product | None:
    """s as a Product; None where B is not packed, or there are more axes than are walked."""
    lanes = _lanes_of(s)
    c = None if lanes is None else contraction(s, lanes)
    packed, pairs = (None, None) if c is None else _operand(c.b)
    held = None if c is None or packed is None else held_of(c)
    if c is None or packed is None or not (held or _is_packed(c, packed)):
        return None
    if not is_walked(c):
        return None
    plain = plain_of(c) or plain_of_bytes(c) or asked_of(c)
    plain = None if plain is not None and len(plain.rows) > MOST_ROWS else plain
    rows = rows_of(c) if plain is None else [w for w, _ in plain.rows]
    return Product(c, packed, tuple(rows), tuple(runs_of(c)), pairs, plain, held)


def is_walked(c: Contraction) -> bool:
    """Whether sx_contract walks its rows and its terms."""
    return len(rows_of(c)) <= MOST_ROWS and len(runs_of(c)) - 1 <= MOST_LOOPS


def _operand(b: Expr) -> tuple[Load | None, Load | None]:
    """The packed operand, and what passes/fours.py says of it: a choice between it and itself."""
    match b:
        case Load():
            return b, None
        case Where(Load() as pairs, Load() as x, y) if x is y:
            return x, pairs
    parts = parts_of(b)
    return (None if parts is None else parts[0]), None


def _lanes_of(s: Compute) -> Axis | None:
    """The axis whose index mod 16 is the last index of the second factor, or the last but one."""
    for e in walk(s.expr):
        found = factors(e) if isinstance(e, Fold) and e.kind == "dot" else None
        parts = parts_of(found[1]) if found else None
        if parts is not None and len(parts[0].index) > 2:
            return _axis_of(parts[0].index[2])
        match _operand(found[1])[0] if found else None:
            case Load(_, (*_, lane, _)) as w if w.dtype.is_integer:
                return _axis_of(lane)
            case Load(_, (*_, lane)) as w if w.dtype.is_float:
                return _axis_of(lane)
    return None


def _axis_of(lane: Expr) -> Axis | None:
    """The axis of which this is the index in a block."""
    match lane:
        case Axis():
            return lane
        case Alu("imod", (Axis() as axis, _), _):
            return axis
    return None


def _is_packed(c: Contraction, b: Load) -> bool:
    """Whether B is [loops around s, batch and n axes, lanes / 16, fold axes, lanes mod 16]."""
    outer, some = [w.axes[0] for w in (*c.batch, *c.n)], c.at_once
    last = len(b.index) - (1 if c.pair is None else 2)
    at = last - len(c.fold.axes)
    first = at - 1 - len(outer)
    if first < 0 or _around(c, b, first) is None:
        return False
    before, block = b.index[first : at - 1], b.index[at - 1]
    terms, lane = b.index[at:last], b.index[last]
    return (
        b.mode == "proven"
        and b.buffer.shape[last:] == ((LANES,) if c.pair is None else (LANES, some))
        and list(before) == outer
        and all(
            _is_part(e, "idiv", a, some if i == c.pair else 1)
            for i, (e, a) in enumerate(zip(terms, c.fold.axes, strict=True))
        )
        and _is_part(block, "idiv", c.lanes, LANES)
        and _is_part(lane, "imod", c.lanes, LANES)
        and (c.pair is None or _is_part(b.index[-1], "imod", c.fold.axes[c.pair], some))
    )


def _around(c: Contraction, b: Load, first: int) -> list[Walk] | None:
    """What the first indices of B are, if they are loops around s, or 0."""
    found, own = list[Walk](), {*c.compute.axes, *c.fold.axes}
    for i, e in enumerate(b.index[:first]):
        if isinstance(e, Axis) and e not in own:
            found.append(Walk((e,), e.extent, product(b.buffer.shape[i + 1 :])))
        elif affine(e) != 0:
            return None
    return found


def _is_part(e: Expr, op: str, axis: Axis, n: int) -> bool:
    """Whether e is axis / n or axis mod n."""
    if n == 1:
        return e is axis or (axis.extent == 1 and affine(e) == 0)
    if isinstance(axis.extent, int) and axis.extent <= n:
        return affine(e) == 0 if op == "idiv" else e is axis
    match e:
        case Alu(found, (x, Const(value, _)), _):
            return found == op and x is axis and value == n
    return False


def rows_of(c: Contraction) -> list[Walk]:
    """The rows: axes, the outermost first."""
    return merged(c.m, [e.axis for e in c.edges])


def runs_of(c: Contraction) -> list[Walk]:
    """The terms: loops, the outermost first, then the run."""
    if c.tail is not None:
        return [c.k[0], *(w for w in c.k[1:-1] if w.extent != 1), c.k[-1]]
    apart = [e.terms for e in c.edges]
    if c.pair is not None and not is_multiple(c.k[c.pair].extent, c.at_once):
        return [*merged(c.k[: c.pair], apart), c.k[c.pair]]
    found = merged(c.k, apart) or [Walk((), 1, 1)]
    match found:  # the ends of a run may be left out
        case [*loops, Walk((axis,), n, step), last] if axis in apart and len(last.axes) == 1:
            whole = n * last.extent
            short = isinstance(whole, int) and whole <= LONGEST
            if short and step == last.a * last.extent and last.axes[0] not in apart:
                return [*loops, Walk((axis, *last.axes), whole, last.a)]
    return found


def is_half(p: Product) -> bool:
    """Whether the last block of lanes is at most half in use, and there are tiles for that, which
    take longer to compile than all others."""
    c = p.c
    n, each = c.lanes.extent, c.rows * c.terms
    large = p.held is None and (not isinstance(each, int) or each >= LEAST)
    return c.a.dtype is t.float32 and isinstance(n, int) and 0 < n % LANES <= LANES // 2 and large


def call_of(p: Product) -> str:
    """The function that computes p."""
    if p.held is not None:
        return NARROW
    if p.c.a.dtype is t.uint8 and limit_of(p.c.fold) == WHOLE:
        return OF_WHOLE
    return HALF if is_half(p) else CALLS[p.c.a.dtype]


def print_product(p: Product, names: Writer, helpers: list[list[str]], scope: Scope) -> list[str]:
    """The statements that compute p; the function that they pass on is added to helpers."""
    c = p.c
    work = product((_units(p), c.rows + WEIGHTS, c.terms, LANES))
    if names.threads and can_share(c.compute, work):
        return _shared_product(p, names, helpers, scope)
    heads = [names.loop(w.axes[0]) for w in c.batch]
    body = [*_product(p, names, helpers, scope), f"{call_of(p)}(&product);"]
    return [*heads, "{", *body, "}", *["}"] * len(heads)]


def _product(p: Product, names: Writer, helpers: list[list[str]], scope: Scope) -> list[str]:
    """The declarations of `self`, `runs` and `product`, for one point of the batch."""
    c = p.c
    lines, finish = finished(p.plain, c, names, helpers)
    rows: list[tuple[Dim, Dim]] = [(1, 0)] * (MOST_ROWS - len(p.rows))
    rows += [(w.extent, w.a) for w in p.rows]
    blocks = product((*(w.extent for w in c.n), blocks_of(c)))
    fields = [
        address_text(names, names.pointers[c.a.buffer.root], c.origin, (*c.around, *c.batch)),
        _operand_address(p, p.packed, names) if p.held is None else "&narrow",
        *(names.size(d) for d, _ in rows),
        *(names.size(d) for _, d in rows),
        names.size(blocks),
        names.size(_terms(c) * LANES),
        names.size(blocks_of(c)) if is_half(p) else "0",
        "0" if p.pairs is None else _operand_address(p, p.pairs, names),
        "runs",
        str(len(segments(p))),
        "edges" if c.edges else "0",
        *finish,
        f"{{{', '.join(map(names.size, _choice(p, names)))}}}",
        _back(p, names, scope),
    ]
    listed = ", ".join("{" + ", ".join(map(names.size, s)) + "}" for s in segments(p))
    return [
        *lines,
        f"const sx_run runs[] = {{{listed}}};",
        *_edges(p),
        *([] if p.held is None else [declared(p.held, names)]),
        f"const sx_product product = {{{', '.join(fields)}}};",
    ]


def _edges(p: Product) -> list[str]:
    """The declaration of what each axis of the rows leaves out."""
    if not p.c.edges:
        return []
    listed = ", ".join("{" + ", ".join(map(str, x)) + "}" for x in edges_of(p))
    return [f"const sx_edge edges[] = {{{listed}}};"]


def edges_of(p: Product) -> list[list[Dim]]:
    """The fields of the sx_edge of each axis of the rows."""
    found: list[list[Dim]] = [[0] * 5] * (MOST_ROWS - len(p.rows))
    loops, run = p.runs[:-1], p.runs[-1]
    for w in p.rows:
        e = next((e for e in p.c.edges if (e.axis,) == w.axes), None)
        if e is None:
            found.append([0] * 5)
            continue
        loop = next((i for i, x in enumerate(loops) if x.axes == (e.terms,)), MOST_LOOPS)
        each = product(tuple(a.extent for a in run.axes[1:])) if loop == MOST_LOOPS else 1
        found.append([e.lead, e.trail, loop, each * e.first, each * e.last])
    return found


def _back(p: Product, names: Writer, scope: Scope) -> str:
    """Each turn of the loop around p that reads the same B goes through it the other way: what does
    not fit a cache is then read from it in part."""
    if not scope.loops or is_half(p):
        return "0"
    inner = scope.loops[-1]
    return "0" if inner in free_axes(p.packed)[id(p.packed)] else names.given[inner]


def _choice(p: Product, names: Writer) -> tuple[Dim, Dim, Dim, Dim]:
    """The fields of p's sx_choice; 0 leaves one to the model."""
    shape = shape_of(p)
    return (0, 0, 0, 0) if shape is None or names.choices is None else names.choices(shape)


def shape_of(p: Product) -> str | None:
    """What a schedule may be chosen by; None where a size is not known."""
    rows: list[list[Dim]] = [[w.extent, w.a] for w in p.rows]
    blocks: list[list[Dim]] = [[product((*(w.extent for w in p.c.n), blocks_of(p.c)))]]
    parts = [("rows", rows), ("blocks", blocks), ("runs", segments(p))]
    parts += [("edges", edges_of(p))] if p.c.edges else []
    numbers = [d for _, part in parts for group in part for d in group]
    if not all(isinstance(d, int) for d in numbers):
        return None
    texts = (f"{word} {' '.join(':'.join(map(str, x)) for x in part)}" for word, part in parts)
    return f"{call_of(p)} {', '.join(texts)}"


def _units(p: Product) -> Dim:
    """Blocks of lanes, of all products of the batch."""
    return product((*(w.extent for w in (*p.c.batch, *p.c.n)), blocks_of(p.c)))


def _shared_product(p: Product, names: Writer, helpers: list[list[str]], scope: Scope) -> list[str]:
    """p, shared out by chunks of rows and blocks of lanes."""
    c = p.c
    call = call_of(p)
    rows, terms = names.size(c.rows), names.size(c.terms)
    blocks = names.size(product((*(w.extent for w in c.n), blocks_of(c))))
    units = f"{blocks} * (({rows} + chunk - 1) / chunk)"

    def body(begin: str, end: str) -> list[str]:
        share = f"{call}_part(&product, chunk, {begin}, {end});"
        return [*_product(p, names, helpers, scope), share]

    each = f"{call}_work({rows}, chunk, {terms})"
    few = isinstance(c.rows, int) and c.rows < FEW
    counts = (units, each, str(FEW if few else PAIR))
    made = shared_batch(c.compute, c.batch, body, counts, names, scope, helpers, ["chunk"])
    chunk = f"{call}_chunk({rows}, {names.size(_units(p))}, {terms})"
    return ["{", f"const int64_t chunk = {chunk};", *made, "}"]


def _terms(c: Contraction) -> Dim:
    """The rows of 16 lanes in a block of B: the terms, filled up where some are taken at once."""
    extents, some = [a.extent for a in c.fold.axes], c.at_once
    if c.pair is not None:
        extents[c.pair] = (extents[c.pair] + (some - 1)) // some * some
    return product(tuple(extents))


def _operand_address(p: Product, x: Load, names: Writer) -> str:
    """Where x, the packed operand or what is known of it, begins at a point of the batch."""
    c, shape = p.c, x.buffer.shape
    inner = len(c.batch) + len(c.n) + len(c.fold.axes) + (2 if c.pair is None else 3)
    first = len(p.packed.index) - inner
    step = product(shape[first + len(c.batch) :])
    walks = []
    for w in reversed(c.batch):
        walks.append(Walk(w.axes, w.extent, step))
        step = step * w.extent
    walks += reversed(_around(c, x, first) or [])
    return address_text(names, names.pointers[x.buffer.root], 0, walks[::-1])


def segments(p: Product) -> list[list[Dim]]:
    """The fields of each sx_run: with a tail, all but the last index of the first loop, then it."""
    loops, run = p.runs[:-1], p.runs[-1]
    missing = MOST_LOOPS - len(loops)
    steps: list[Dim] = [*(w.a for w in loops), *[0] * missing]

    def segment(n: Dim, x: Dim, *extents: Dim) -> list[Dim]:
        return [n, run.a, run.extent, *extents, *[1] * missing, *steps, x]

    extents = [w.extent for w in loops]
    if not loops and p.held is None and isinstance(run.extent, int) and run.extent > LONGEST:
        return cut(run.extent, run.extent, run.a)
    if p.c.tail is None:
        return [segment(run.extent, 0, *extents)]
    full = extents[0] - 1
    if len(loops) == 1 and loops[0].a == run.a * run.extent:
        return cut(full * run.extent + p.c.tail, extents[0] * run.extent, run.a)
    return [
        segment(run.extent, 0, full, *extents[1:]),
        segment(p.c.tail, full * loops[0].a, 1, *extents[1:]),
    ]


def cut(terms: Dim, rows: Dim, step: Dim) -> list[list[Dim]]:
    """One run, for which W has so many rows; a long one as a loop of runs, so that they may be
    taken some at a time. Equal ones where some number of EQUAL divides it: what others leave is a
    pass of its own."""
    if not (isinstance(terms, int) and isinstance(rows, int)) or terms <= LONGEST:
        return [[terms, step, rows, 1, 1, 1, 0, 0, 0, 0]]
    if each := next((n for n in EQUAL if terms == rows and terms % n == 0), None):
        return [[each, step, each, terms // each, 1, 1, step * each, 0, 0, 0]]
    count = (terms - 1) // LONGEST
    done = count * LONGEST
    return [
        [LONGEST, step, LONGEST, count, 1, 1, step * LONGEST, 0, 0, 0],
        [terms - done, step, rows - done, 1, 1, 1, 0, 0, 0, step * done],
    ]
