"""Packed weights that are held in fewer bits than float32 has (contract_narrow.h).

    float32(q)                                q of float16 or bfloat16
    float32(q) * scale[n, k / each]           q of int8 or int4
    (float32(q) + shift[..]) * scale[..]      q of uint8 or uint4

q is [N/16][K][16], K being filled up to a multiple of 8, and of 4 bits [N/16][K/8][16][8], where a
word has eight terms of a lane; scale and shift are [N/16][K/each][16]. passes/held.py makes
products that read them so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sardonyx import types as t
from sardonyx.dims import Dim, floordiv, product
from sardonyx.kernel.affine import affine
from sardonyx.kernel.c99.contract import LANES, Contraction
from sardonyx.kernel.c99.writer import Writer
from sardonyx.kernel.expr import Alu, Axis, Buffer, Cast, Const, Expr, Load, cast
from sardonyx.kernel.rewrite import canonical

EIGHT = 8  # terms that are widened together
# Of q: the kind of an sx_narrow. Those with a scale come after the others, odd ones have a shift.
KINDS = {t.float16: 0, t.bfloat16: 1, t.int8: 2, t.uint8: 3, t.int4: 4, t.uint4: 5}


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """Such weights. each: terms of a group, which have one scale and one shift."""

    q: Buffer
    scale: Buffer | None
    shift: Buffer | None
    each: int

    @property
    def kind(self) -> int:
        """The kind of its sx_narrow."""
        return KINDS[self.q.dtype]

    def factor(self, column: Axis, term: Axis) -> Expr:
        """The weight of a column and a term."""
        group = _places(column, term, self.each)
        value = cast(Load(self.q, _places(column, term, 1, self.q.dtype.is_packed)), t.float32)
        if self.shift is not None:
            value = value + Load(self.shift, group)
        return value if self.scale is None else value * Load(self.scale, group)


def _places(column: Axis, term: Axis, each: int, by_eights: bool = False) -> tuple[Expr, ...]:
    lane = column % LANES
    terms = [term // EIGHT, lane, term % EIGHT] if by_eights else [term // each, lane]
    return tuple(map(canonical, (column // LANES, *terms)))


def held_of(c: Contraction) -> Held | None:
    """The weights of a product of one run, where they are held so."""
    parts = parts_of(c.b)
    if parts is None or len(c.fold.axes) > 1 or any((c.batch, c.n, c.edges)):
        return None
    q, scale, shift = parts
    each = EIGHT if scale is None else _each(scale, q)
    if c.fold.when is not None or not isinstance(each, int) or each % EIGHT:
        return None
    at = _places(c.lanes, c.fold.axes[0], 1, q.dtype.is_packed)
    there = _places(c.lanes, c.fold.axes[0], each)
    group = [x for x in (scale, shift) if x is not None]
    same = _same(q.index, at) and all(_same(x.index, there) for x in group)
    spans = _spans(q, group, c, each)
    whole = spans and all(x.mode == "proven" and x.buffer.base is None for x in (q, *group))
    scales, shifts = (None if x is None else x.buffer for x in (scale, shift))
    return Held(q.buffer, scales, shifts, each) if same and whole else None


def _spans(q: Load, group: Sequence[Load], c: Contraction, each: int) -> bool:
    """Whether q and its scales have the extents of held weights."""
    blocks, terms = (floordiv(c.lanes.extent + LANES - 1, LANES), c.fold.axes[0].extent)
    eights = floordiv(terms + EIGHT - 1, EIGHT)
    packed = q.dtype.is_packed
    shape = (blocks, eights, LANES, EIGHT) if packed else (blocks, eights * EIGHT, LANES)
    groups = (blocks, floordiv(terms + each - 1, each), LANES)
    return q.buffer.shape == shape and all(x.buffer.shape == groups for x in group)


def declared(h: Held, names: Writer) -> str:
    """The declaration of the weights, `narrow`."""
    parts = [names.pointers[b] if b else "0" for b in (h.q, h.scale, h.shift)]
    return f"const sx_narrow narrow = {{{', '.join(parts)}, {names.size(h.each)}, {h.kind}}};"


def parts_of(b: Expr) -> tuple[Load, Load | None, Load | None] | None:
    """q, scale and shift of a factor; None where it has another form."""
    match b:
        case Cast(Load() as q, t.float32):
            scale, shift = None, None
        case Alu("mul", (Cast(Load() as q), Load() as scale), t.float32):
            shift = None
        case Alu("mul", (Alu("add", (Cast(Load() as q), Load() as shift)), Load() as scale)):
            pass
        case _:
            return None
    kind = KINDS.get(q.dtype)
    if kind is None or (scale is not None, shift is not None) != (kind > 1, kind in (3, 5)):
        return None
    return q, scale, shift


def _each(scale: Load, q: Load) -> Dim:
    """The terms of a group: all that q has, where each column has one scale."""
    match scale.index:
        case (_, Alu("idiv", (_, Const(int(each)))), _):
            return each
    return floordiv(product(q.buffer.shape[1:]), LANES)


def _same(index: Sequence[Expr], places: Sequence[Expr]) -> bool:
    return len(index) == len(places) and all(
        affine(i) == affine(p) for i, p in zip(index, places, strict=True)
    )
