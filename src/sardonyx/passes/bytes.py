"""Sums of products of bytes and of weights of int8 are taken of the bytes as they are, wherever
that is faster than copies of int16.

    sum of (x - z) * w  =  sum of x * w  -  z * (sum of w)

The second sum is known with the weights; a border stands for z. int32 wraps, so this is exact. An x
of int8 is x + 128 as uint8, and z + 128 its zero point: instructions take one factor unsigned. Of
weights within 64 a pair of products fits int16 (kernel/c99/contract_u8.h): they are what quantisers
make for processors without VNNI ("reduced range"). Others are taken so in windows, in tiles with
fewer products (passes/fewer.py), and everywhere where an instruction sums four products of bytes.
There weights of uint8 less a zero point of their own, which are beyond int8, are w + c with a w of
int8, and c times the sum of (x - z), which is the same for all filters, is added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from sardonyx import types as t
from sardonyx.kernel.c99.contract import LIMIT, WHOLE, terms_of, widened
from sardonyx.kernel.expr import Alu, Axis, Buffer, Cast, Const, Expr, Fold, Load, alu, cast, lift
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.rewrite import canonical, rewrite
from sardonyx.kernel.verify import unproven
from sardonyx.kernel.walk import free_axes, walk
from sardonyx.passes.fewer import window_of
from sardonyx.passes.padding import is_scalar
from sardonyx.passes.program import Launch, unused
from sardonyx.passes.taken import taken, walks
from sardonyx.types import Array, TensorType

AT_ONCE = 4  # terms
HALF = 128  # int8 + 128 is uint8
WINDOW = 32  # terms of a window of one channel


@dataclass(frozen=True, slots=True, eq=False)
class _Factor:
    """x: the load of bytes in the place of the factor in the fold; zero: what is subtracted from
    each, an int32 that depends on nothing, or None; statement: what wrote the differences; moved:
    what writes x instead, where it is not there as uint8."""

    x: Load
    zero: Expr | None
    statement: Compute
    moved: Compute | None


def of_bytes(
    launch: Launch,
    body: list[Compute],
    fold: Fold,
    tensors: dict[str, TensorType],
    weights: dict[str, Array],
    dots: bool,
    fewer: bool,
) -> Launch | None:
    """The launch with the sum taken of bytes; None where it is no such sum, or its weights are too
    large. dots: as for `optimise`; fewer: whether tiles with fewer products are made."""
    a, w = fold.terms
    if not isinstance(a, Load) or not isinstance(w, Load) or w.buffer.base is not None:
        return None
    names = dict(zip(launch.kernel.inputs, launch.reads, strict=True))
    known = {b: weights[n] for b, n in names.items() if b is not None and n in weights}
    if a.mode == "guard" and not unproven(launch.kernel).get(a):
        a = replace(a, mode="proven", default=None)
    value, (user,) = known.get(w.buffer), (s for s in body if fold in walk(s.expr))
    found, shift = _factor(a, body, known), 0
    if value is None or found is None:
        return None
    any_size = dots or not _has_own_axis(user, fold, w)
    if fewer and not isinstance(found.x.default, Load):
        any_size |= window_of(user, fold, a, w) is not None
    limit = WHOLE if any_size else LIMIT
    if dots and value.size and not is_within(value, limit):
        shift = int(value.min()) + HALF  # weights of uint8 less a zero point of their own
        value = value - shift
    chosen = _chosen(user, fold, w, value, limit)
    rows = _sums(fold, found) if shift else None
    if chosen is None or (shift and rows is None):
        return None
    walked, some, value, kept = chosen
    narrow, copy, filled = _filled(walked, found.x, some, value.astype(np.int8))
    if _has_own_axis(user, walked, some) and not _is_whole(narrow):
        return None
    stem = names[w.buffer]
    own = {_buffer(narrow.terms[1]): (unused(f"{stem}.int8", tensors), filled)}
    total = _wide(narrow, LIMIT if is_within(value, LIMIT) else limit)
    if found.zero is not None:
        sums, part, times = _of_zero(found.zero, fold, some, value, kept)
        own[sums] = (unused(f"{stem}.sums", tensors), times)
        total = alu("sub", total, part)
    if rows is not None:
        total = alu("add", total, alu("mul", Const(shift, t.int32), rows[1]))
    given: dict[Fold, Expr] = {fold: total}
    before = [s for s in (found.moved, *(rows[0] if rows else ()), copy) if s is not None]
    made: list[Compute] = []
    for s in body:
        if s is user:
            made += [*before, replace(s, expr=rewrite(s.expr, given))]
        elif s is not found.statement:
            made.append(s)
    return _with(launch, made, own, tensors, weights)


def _chosen(
    s: Compute, fold: Fold, w: Load, value: Array, limit: int
) -> tuple[Fold, Load, Array, list[int]] | None:
    """The sum with its weights, all or those that it takes: itself, their load, their values, and
    the dimensions that it does not run over (`_kept`); None where that cannot be said."""
    kept = _kept(s, fold, w, value, limit)
    if kept is not None:
        return fold, w, value, kept
    w, value = taken(fold, w, value)
    fold = Fold("dot", fold.axes, (fold.terms[0], w), fold.when)
    kept = _kept(s, fold, w, value, limit)
    return None if kept is None else (fold, w, value, kept)


def _of_zero(
    zero: Expr, fold: Fold, w: Load, value: Array, kept: Sequence[int]
) -> tuple[Buffer, Expr, Array]:
    """The zero point times the sums of the weights: the buffer that is read, what it is, and the
    buffer's values."""
    sums = value.sum(tuple(i for i in range(value.ndim) if i not in kept)).astype(np.int32)
    b = Buffer("sums", t.int32, sums.shape)
    only: dict[Axis, Expr] = {a: lift(0) for a in fold.axes if a.extent == 1}
    part: Expr = Load(b, tuple(rewrite(w.index[i], only) for i in kept))
    if isinstance(zero, Const):
        return b, part, sums * np.int32(zero.value)
    return b, alu("mul", zero, part), sums


def _buffer(x: Expr) -> Buffer:
    assert isinstance(x, Load)
    return x.buffer


def is_within(value: Array, limit: int) -> bool:
    """Whether weights are within -limit and limit, the end of int8."""
    return bool(value.min() >= -limit and value.max() <= min(limit, t.int8.max))


def _wide(fold: Fold, limit: int) -> Expr:
    terms = tuple(widened(x, t.int32, limit) for x in fold.terms)
    return Fold("dot", fold.axes, terms, fold.when)


def _with(
    launch: Launch,
    body: list[Compute],
    own: Mapping[Buffer, tuple[str, Array]],
    tensors: dict[str, TensorType],
    weights: dict[str, Array],
) -> Launch:
    """The launch with this body and these weights of its own."""
    for b, (name, value) in own.items():
        weights[name], tensors[name] = value, TensorType(b.dtype, b.shape)
    inputs = (*launch.kernel.inputs, *own)
    reads = (*launch.reads, *(name for name, _ in own.values()))
    return replace(
        launch, kernel=replace(launch.kernel, inputs=inputs, body=tuple(body)), reads=reads
    )


def _kept(s: Compute, fold: Fold, w: Load, value: Array, limit: int) -> list[int] | None:
    """Which dimensions of the weights the sum does not run over; None where it does not run over
    all of the others once, or the weights are not within the limit."""
    free, inner = free_axes(*w.index), {a for a in fold.axes if a.extent != 1}
    kept = [i for i, e in enumerate(w.index) if free[id(e)] and not free[id(e)] & inner]
    rest = [n for i, n in enumerate(value.shape) if i not in kept]
    extents = [a.extent for a in fold.axes]
    if not value.size or not all(isinstance(n, int) for n in extents) or not kept:
        return None
    terms = prod(n for n in extents if isinstance(n, int))
    tiles = _has_own_axis(s, fold, w)
    if not is_within(value, limit) or (not tiles and terms > WINDOW):
        return None
    return kept if terms_of(fold) == prod(rest) else None


def _is_whole(fold: Fold) -> bool:
    """Whether runs of terms are long, or multiples of what is taken at once."""
    large = [a.extent for a in fold.axes if a.extent != 1]
    n = large[-1] if large else 1
    return isinstance(n, int) and (n % AT_ONCE == 0 or n >= 2 * AT_ONCE)


def _has_own_axis(s: Compute, fold: Fold, w: Load) -> bool:
    """Whether the result has an axis for the weights alone: the lanes of register tiles. Without,
    it is a depthwise convolution, whose windows are taken in lanes."""
    free = free_axes(*fold.terms)
    x = fold.terms[0] if fold.terms[1] is w else fold.terms[1]
    return any(a in free[id(w)] and a not in free[id(x)] for a in s.axes)


def _factor(a: Load, body: list[Compute], known: Mapping[Buffer, Array]) -> _Factor | None:
    """The first factor as a load of bytes."""
    found = [s for s in body if s.buffer is a.buffer]
    zeros = a.default is None or (isinstance(a.default, Const) and a.default.value == 0)
    if len(found) != 1 or a.mode == "trap" or not zeros:
        return None
    (s,) = found
    x, zero = s.expr, None
    if isinstance(x, Alu) and x.op == "sub":
        x, zero = x.args
    if not isinstance(x, Cast) or not isinstance(x.x, Load):
        return None
    source, dtype = x.x, x.x.dtype
    if dtype is not t.uint8 and dtype is not t.int8:
        return None
    same = source.mode == "proven" and source.buffer.shape == s.buffer.shape
    if not same or any(i is not axis for i, axis in zip(source.index, s.axes, strict=True)):
        return None
    number = None if zero is None else _number(zero, known)
    if zero is not None and free_axes(zero)[id(zero)]:
        return None
    outside: Expr | None = None  # what stands for zero in a border
    if a.mode == "guard" and zero is not None and number is None:
        if not (dtype is t.uint8 and isinstance(zero, Cast) and is_scalar(zero.x)):
            return None
        outside = zero.x
    buffer, moved = source.buffer, None
    if dtype is t.int8:
        buffer = Buffer("moved", t.uint8, s.buffer.shape)
        moved = Compute(buffer, s.axes, cast(cast(source, t.int32) + HALF, t.uint8))
        zero = lift(HALF, t.int32) if zero is None else zero + HALF
        number = HALF if s.expr is x else None if number is None else number + HALF
    if number is not None:
        zero = Const(number, t.int32) if number else None
    default = outside or Const(number or 0, t.uint8) if a.mode == "guard" else None
    return _Factor(Load(buffer, a.index, a.mode, default), zero, s, moved)


def _sums(fold: Fold, found: _Factor) -> tuple[list[Compute], Expr] | None:
    """The sum of all that a sum of products takes of x less its zero point: what computes it, and
    itself. First along a dimension that is taken whole, as channels are, then of those sums."""
    x, free = found.x, free_axes(*found.x.index)
    whole = [i for i, n in enumerate(x.buffer.shape) if walks(x.index[i], fold, n)]
    if not whole or fold.when is not None:
        return None
    at = whole[0]
    inner = free[id(x.index[at])]
    if any(free[id(e)] & inner for i, e in enumerate(x.index) if i != at):
        return None
    own = tuple(Axis(f"s{i}", n) for i, n in enumerate(x.buffer.shape))
    term: Expr = cast(Load(x.buffer, own), t.int32)
    if found.zero is not None:
        term = alu("sub", term, found.zero)
    places = tuple(a for i, a in enumerate(own) if i != at)
    first = Buffer("columns", t.int32, tuple(a.extent for a in places))
    steps = [Compute(first, places, Fold("sum", (own[at],), (term,)))]
    index = tuple(e for i, e in enumerate(x.index) if i != at)
    default = Const(0, t.int32) if x.mode == "guard" else None
    part: Expr = Load(first, index, x.mode, default)
    rest = tuple(a for a in fold.axes if a not in inner)
    if not rest:
        return steps, part
    outer = {a: None for e in index for a in walk(e) if isinstance(a, Axis) and a not in rest}
    sums = Buffer("windows", t.int32, tuple(a.extent for a in outer))
    steps.append(Compute(sums, tuple(outer), Fold("sum", rest, (part,))))
    return steps, Load(sums, tuple(outer))


def _number(zero: Expr, known: Mapping[Buffer, Array]) -> int | None:
    """The zero point, if it is known."""
    match zero:
        case Const(value, _):
            return int(value)
        case Cast(Load(b, _, "proven")) if b.root in known and known[b.root].size == 1:
            return int(known[b.root].reshape(-1)[0])
    return None


def _filled(fold: Fold, x: Load, w: Load, value: Array) -> tuple[Fold, Compute | None, Array]:
    """The fold of bytes; few channels, as those of a picture, are filled up with zeros to as many
    as are taken at once: the Compute that does so, if any; the weights' value then."""
    last, default = fold.axes[-1], None if w.default is None else Const(0, t.int8)
    n, at_w, at_x = last.extent, _along(w, last), _along(x, last)
    full = isinstance(n, int) and n % AT_ONCE == 0
    if full or at_w != 1 or at_x != 1 or x.buffer.shape[1] != n or len(x.index) < 3:
        small = Load(Buffer("w8", t.int8, w.buffer.shape), w.index, w.mode, default)
        return Fold("dot", fold.axes, (x, small), fold.when), None, value
    assert isinstance(n, int)
    more = -n % AT_ONCE
    first, _, *rest = x.buffer.shape
    wide = Buffer("filled", t.uint8, (first, n + more, *rest))
    axes = tuple(Axis(f"i{i}", d) for i, d in enumerate(wide.shape))
    copy = Compute(wide, axes, Load(x.buffer, axes, "guard", Const(0, t.uint8)))
    axis = Axis(last.name, n + more)
    value = np.pad(value, [(0, more if i == 1 else 0) for i in range(value.ndim)])
    x = Load(wide, x.index, x.mode, x.default)
    small = Load(Buffer("w8", t.int8, value.shape), w.index, w.mode, default)
    swap: dict[Axis, Expr] = {last: axis}
    terms = (rewrite(x, swap), rewrite(small, swap))
    return Fold("dot", (*fold.axes[:-1], axis), terms, fold.when), copy, value


def _along(x: Load, axis: Axis) -> int | None:
    """The only dimension of a load along which an axis runs, by steps of one from 0."""
    free = free_axes(*x.index)
    found = [i for i, e in enumerate(x.index) if axis in free[id(e)]]
    if len(found) != 1:
        return None
    index = x.index[found[0]]
    alone: dict[Axis, Expr] = {a: lift(0) for a in free[id(index)] if a.extent == 1}
    return found[0] if canonical(rewrite(index, alone)) is axis else None
