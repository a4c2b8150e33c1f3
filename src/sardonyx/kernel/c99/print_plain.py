"""Sums of which little becomes: they are finished while they are in registers.

    out[row, lane] = min(max(sum * scale + bias[lane] + rest[row, lane], least), most)
    out[row, lane] = min(max(fma(sum, slope[lane], bias[lane]) + rest[row, lane], least), most)

Scale, bias, rest and bounds may be missing. This is data, an sx_plain (product.h). All else becomes
of sums in a function of its own (print_finish.py), and of the last block of lanes where it is not
full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from sardonyx import types as t
from sardonyx.dims import Dim, atom, product
from sardonyx.kernel.affine import coefficient, position
from sardonyx.kernel.c99.contract import (
    LANES,
    MOST_ROWS,
    Contraction,
    Walk,
    is_multiple,
    merged,
    merged_with,
    terms_of,
)
from sardonyx.kernel.c99.print_finish import blocks_of, finishing
from sardonyx.kernel.c99.spelling import literal
from sardonyx.kernel.c99.write import Writer, bare, evaluate, is_bound
from sardonyx.kernel.expr import Alu, Axis, Buffer, Const, Expr, Fold, Load
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import walk

LONG = 256  # terms: SX_LONG of contract.h
FAR = 1 << 17  # elements that push others out of the second cache


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Where a tensor has its rows of lanes: the first is at `origin` and what `around` adds to it;
    the steps of each axis of the rows, and to the next block of lanes."""

    buffer: Buffer
    origin: Dim
    around: tuple[Walk, ...]
    rows: tuple[Dim, ...]
    block: Dim

    @property
    def is_vector(self) -> bool:
        """Whether all rows are one."""
        return all(step == 0 for step in self.rows)


@dataclass(frozen=True, slots=True, eq=False)
class Plain:
    """rows: the axes of the rows as they are walked, with their steps in out and in rest."""

    rows: tuple[tuple[Walk, tuple[Dim, ...]], ...]
    out: Place
    bias: Place | None
    slope: Place | None
    rest: Place | None
    least: float
    most: float
    scale: Expr | None
    rounded: Bytes | None = None
    asked: bool = False  # only its lines are asked for: sums are finished elsewhere


@dataclass(frozen=True, slots=True, eq=False)
class Bytes:
    """What becomes of int32 sums in a Plain (print_plain_u8.py). zero: the zero point of the
    result; inner: where it is of a sum with `rest`, the zero point of the byte that is added to it,
    the factors of that byte and of rest, the zero point of rest."""

    zero: Expr
    inner: tuple[Expr, Expr, Expr, Expr] | None


def finished(
    p: Plain | None, c: Contraction, names: Writer, helpers: list[list[str]]
) -> tuple[list[str], list[str]]:
    """The declarations of what finishes the sums of c, and the fields of sx_product for it."""
    lines = [] if p is None else _declared(p, c, names)
    plain = "0" if p is None else "&plain"
    alone = p is not None and p.rounded is None and not p.asked
    if alone and is_multiple(c.lanes.extent, LANES):
        return lines, [plain, "0", "0"]
    number = len(helpers)
    return [*lines, finishing(c, names, helpers)], [plain, f"@_finish{number}", "&self"]


def plain_of(c: Contraction) -> Plain | None:
    """What becomes of the sums of c, where it has this form."""
    s = c.compute
    if c.fold.dtype is not t.float32 or s.buffer.dtype is not t.float32:
        return None
    e, most = _bounded(s.expr, "min", inf)
    e, least = _bounded(e, "max", -inf)
    if most == 0:  # -0, which the tiles would not tell from +0
        return None
    sums, scale, line = _scaled(e, c)
    added, out = _added(e, sums), place_of(s.buffer, s.axes, c)
    places = [place_of(x.buffer, x.index, c) for x in (*line, *(added or ()))]
    found = [x for x in places if x is not None]
    if added is None or out is None or len(found) != len(places):
        return None
    slope = found.pop(0) if line else None
    bias = found.pop(0) if found and found[0].is_vector else None
    rest = found.pop(0) if found else None
    if found or (slope and not (bias and slope.is_vector and slope.block == bias.block)):
        return None
    rows = rows_with(c, out, rest)
    if len(rows) > MOST_ROWS:
        return None
    return Plain(rows, out, bias, slope, rest, least, most, scale)


def asked_of(c: Contraction) -> Plain | None:
    """Where what becomes of long sums is written, far away, and what it reads of such a shape: both
    are asked for before the sums are there."""
    s, terms = c.compute, terms_of(c.fold)
    if c.fold.dtype is not t.float32 or s.buffer.dtype is not t.float32:
        return None
    size = product(s.buffer.shape)
    if (isinstance(terms, int) and terms < LONG) or (isinstance(size, int) and size < FAR):
        return None
    out = place_of(s.buffer, s.axes, c)
    if out is None:
        return None
    sums: dict[Fold, Expr] = {c.fold: Const(0.0, t.float32)}
    loads = [e for e in walk(rewrite(s.expr, sums)) if isinstance(e, Load) and is_read(e)]
    found = [place_of(e.buffer, e.index, c) for e in loads if e.dtype is t.float32]
    rest = next((x for x in found if x is not None and not x.is_vector), None)
    return Plain(rows_with(c, out, rest), out, None, None, rest, -inf, inf, None, asked=True)


def rows_with(
    c: Contraction, out: Place, rest: Place | None
) -> tuple[tuple[Walk, tuple[Dim, ...]], ...]:
    """The axes of the rows as out and rest allow to walk them."""
    away = (0,) * len(c.m) if rest is None else rest.rows
    walks = list(zip(c.m, zip(out.rows, away, strict=True), strict=True))
    return tuple(merged_with(walks, [e.axis for e in c.edges]))


def _bounded(e: Expr, op: str, none: float) -> tuple[Expr, float]:
    """What a bound is for, and the bound; `none` where there is no such bound."""
    match e:
        case Alu(found, (x, Const(value, _))) if found == op and is_bound(e):
            return x, float(value)
    return e, none


def _scaled(e: Expr, c: Contraction) -> tuple[Expr, Expr | None, tuple[Load, ...]]:
    """What e makes of the sums of c first, the number that all are multiplied with, and the factors
    and the addends of lanes where both are one step."""
    own = {c.lanes, *(a for w in (*c.m, *c.n) for a in w.axes)}
    for x in walk(e):
        match x:
            case Alu("fma", (y, Load() as slope, Load() as bias)) if y is c.fold:
                if is_read(slope) and is_read(bias):
                    return x, None, (slope, bias)
            case Alu("mul", args) if any(y is c.fold for y in args):
                scale = args[args[0] is c.fold]
                if isinstance(scale, Const) or (is_read(scale) and own.isdisjoint(walk(scale))):
                    return x, scale, ()
    return c.fold, None, ()


def is_read(e: Expr) -> bool:
    return isinstance(e, Load) and e.mode == "proven" and e.default is None


def _added(e: Expr, sums: Expr) -> list[Load] | None:
    """What is added to the sums, in order."""
    if e is sums:
        return []
    match e:
        case Alu("add", (x, Load() as y)) | Alu("add", (Load() as y, x)):
            before = _added(x, sums)
            return [*before, y] if before is not None and is_read(y) else None
    return None


def place_of(b: Buffer, index: Sequence[Expr], c: Contraction) -> Place | None:
    """Where b has the rows of c, if their lanes are neighbours and the steps are even."""
    starts = b.start or (0,) * len(index)
    address = position([i + k for i, k in zip(index, starts, strict=True)], b.shape)
    if address is None or coefficient(address, c.lanes) != 1:
        return None
    rows = [coefficient(address, w.axes[0]) for w in c.m]
    steps = tuple(step for step in rows if step is not None)
    block = _step(address, c.n) if c.n else LANES
    if len(steps) != len(rows) or block is None or (c.n and c.lanes.extent != LANES):
        return None
    own = {c.lanes, *(w.axes[0] for w in (*c.m, *c.n))}
    atoms = set() if isinstance(address, int) else {a for mono, _ in address.terms for a in mono}
    around, origin = list[Walk](), address
    for axis in sorted((a for a in atoms if isinstance(a, Axis)), key=str):
        along = coefficient(address, axis)
        if along is None:
            return None
        origin = origin - along * atom(axis)
        if axis not in own:
            around.append(Walk((axis,), axis.extent, along))
    return Place(b, origin, tuple(around), steps, block)


def _step(address: Dim, walks: Sequence[Walk]) -> Dim | None:
    """The step of the address along all of these axes as one; None where they are not one."""
    steps = [(w, coefficient(address, w.axes[0])) for w in walks]
    if any(step is None for _, step in steps):
        return None
    one = merged([Walk(w.axes, w.extent, step) for w, step in steps if step is not None])
    return None if len(one) > 1 else one[0].a if one else 0


def _declared(p: Plain, c: Contraction, names: Writer) -> list[str]:
    """The declaration of p."""
    lanes = blocks_of(c) * LANES if c.n else c.lanes.extent
    for w in c.n:
        lanes = lanes * w.extent
    lanes = 0 if p.asked else lanes
    places = [_pointer(x, p, names) for x in (p.out, p.bias, p.slope, p.rest)]
    missing: list[Dim] = [0] * (MOST_ROWS - len(p.rows))
    steps = [d for i in (0, 1) for d in (*missing, *(others[i] for _, others in p.rows))]
    blocks = next((x.block for x in (p.bias, p.slope) if x is not None and x.block != 0), 0)
    steps += [p.out.block, p.rest.block if p.rest else 0, blocks, lanes]
    lines, flags, numbers = _numbers(p, names)
    fields = [*places, *map(names.size, steps), flags, *numbers]
    return [*lines, f"const sx_plain plain = {{{', '.join(fields)}}};"]


def _pointer(x: Place | None, p: Plain, names: Writer) -> str:
    if x is None:
        return "0"
    text = address_text(names, names.pointers[x.buffer.root], x.origin, x.around)
    if x.buffer.dtype is t.float32:
        return text
    const = "" if x is p.out else "const "
    return f"({const}float *)({const}void *)({text})"


def _numbers(p: Plain, names: Writer) -> tuple[list[str], str, list[str]]:
    """What is declared before; `with`; least, most, zero, scale and less of an sx_plain."""
    if p.rounded is None:
        having = (p.least > -inf, p.most < inf, p.scale is not None, p.slope is not None)
        flags = sum(1 << i for i, has in enumerate(having) if has)
        bounds = [bare(literal(x, t.float32)) for x in (p.least, p.most)]
        zero = "0.0f" if p.least == 0 else "-0.0f"
        lines, (scale,) = evaluate(names, [Const(1.0, t.float32) if p.scale is None else p.scale])
        return lines, str(flags), [*bounds, zero, bare(scale), "0.0f"]
    none = Const(0.0, t.float32)
    own, factor, other, less = p.rounded.inner or (none,) * 4
    lines, texts = evaluate(names, [own, other, p.rounded.zero, factor, less])
    flags = 32 + (64 if p.rounded.inner else 0)
    flags += 8 if p.slope is not None and p.slope.block != 0 else 0
    return lines, str(flags), [*map(bare, texts)]


def address_text(names: Writer, pointer: str, origin: Dim, walks: Sequence[Walk]) -> str:
    """The text of an address: where axes that have names are at their indices."""
    parts = [pointer, *([names.size(origin)] if origin != 0 else [])]
    parts += [f"{names.given[w.axes[0]]} * {names.size(w.a)}" for w in walks if w.a != 0]
    return " + ".join(parts)
