"""Weights of products stay as narrow as they were: in 16 bits, in bytes or half bytes with scales.

    y = dot over k of a[m, k] * packed[n / 16, k, n % 16];  packed[..] = float32(q[..]) * scale[..]

    =>  y = dot over k of a[m, k] * (float32(q'[..]) * scale'[..]);  q', scale' packed

A row then reads fewer bytes (kernel/c99/contract_narrow.h). Which weights are float16 or bfloat16
is seen in their values; what scale an element of the others has, Program.origins tells. Whatever is
found is widened again and compared, bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeAlias

import numpy as np

from sardonyx import types as t
from sardonyx.kernel.c99.held import EIGHT, Held
from sardonyx.kernel.c99.print_product import Product, packed_product
from sardonyx.kernel.expr import Alu, Axis, Buffer, Cast, Const, Expr, Load, Where, cast, where
from sardonyx.kernel.interpret import evaluate
from sardonyx.kernel.ir import Compute, Kernel
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import free_axes, walk
from sardonyx.passes.known import with_known
from sardonyx.passes.program import Origin, Program
from sardonyx.types import Array, DType

LEAST = 1 << 16  # elements: fewer stay in the caches as float32
ROWS = 32  # of more, tiles take halves that are float32 in less time, a twentieth of it
SOME = 4096  # elements that are looked at first
# Of q, the narrowest first; what is added to q besides its zero point, None where it has none.
WAYS = ((t.int4, None), (t.uint4, 0), (t.uint4, 8), (t.int8, None), (t.uint8, 0), (t.uint8, 128))

Make: TypeAlias = Callable[[DType, Array], Buffer]


def hold_narrow(program: Program, roomy: bool = False) -> Program:
    """The program whose products read weights as narrow as they were. roomy: small ones, and those
    of 16 bits of many rows, are left as float32, which takes less time."""
    found = with_known(program, partial(_statement, origins=program.origins, roomy=roomy))
    return replace(found, origins={})


def _statement(
    s: Compute,
    known: Mapping[Buffer, Array],
    made: dict[Buffer, Array],
    origins: Mapping[int, Origin],
    roomy: bool,
) -> Compute:
    p = packed_product(s)
    value = None if p is None or not _is_simple(p) else known.get(p.packed.buffer)
    if p is None or value is None or value.size < (LEAST if roomy else 1):
        return s
    many = roomy and isinstance(p.c.rows, int) and p.c.rows > ROWS

    own: dict[Buffer, Array] = {}

    def make(dtype: DType, data: Array) -> Buffer:
        b = Buffer(f"held{len(made) + len(own)}", dtype, data.shape)
        own[b] = data
        return b

    found = _scaled(value, origins.get(id(value)), make)
    if found is None and not many:
        found = _halved(value, make)
    if found is None:
        return s
    given: dict[Expr, Expr] = {p.packed: found.factor(p.c.lanes, p.c.fold.axes[0])}
    narrow = replace(s, expr=rewrite(s.expr, given))
    again = packed_product(narrow)
    if again is None or again.held is None:
        return s
    made.update(own)
    return narrow


def _is_simple(p: Product) -> bool:
    """Whether p is one run of float32, whose B is packed as [blocks, terms, 16]."""
    c, b = p.c, p.packed.buffer
    plain = not (c.batch or c.n or c.edges or c.around or c.fold.when is not None)
    whole = b.dtype is t.float32 and b.base is None and len(b.shape) == 3
    return plain and whole and len(c.fold.axes) == 1


def _halved(value: Array, make: Make) -> Held | None:
    """float32 values that float16 or bfloat16 has."""
    for dtype in (t.float16, t.bfloat16):
        if all(_is_exact(x, dtype) for x in (value.reshape(-1)[:SOME], value)):
            return Held(make(dtype, _filled(value).astype(dtype.numpy)), None, None, EIGHT)
    return None


def _is_exact(value: Array, dtype: DType) -> bool:
    with np.errstate(all="ignore"):
        return _same(value.astype(dtype.numpy).astype(np.float32), value)


def _same(a: Array, b: Array) -> bool:
    """Whether two arrays of float32 have the same bits."""
    return np.array_equal(a.view(np.int32), b.view(np.int32))


def _filled(q: Array) -> Array:
    """q with terms of 0 up to a multiple of 8."""
    return np.pad(q, ((0, 0), (0, -q.shape[1] % EIGHT), (0, 0)))


def _scaled(value: Array, origin: Origin | None, make: Make) -> Held | None:
    """Values that are integers times scales."""
    parts = None if origin is None else _parts(origin.expr)
    each = None if origin is None or parts is None else _each(parts, origin.axes[1])
    if origin is None or parts is None or each is None:
        return None
    scale, *zeros = (_groups(e, origin, each) for e in parts)
    wide = _spread(scale, each, value)
    with np.errstate(all="ignore"):
        ratio = np.where(wide == 0, np.float32(0), value / wide)
        for dtype, offset in WAYS if zeros else WAYS[::3]:
            shift = None if offset is None else -zeros[0] - np.float32(offset)
            moved = np.float32(0) if shift is None else _spread(shift, each, value)
            q = np.rint(ratio - moved)
            fits = dtype.min <= q.min() and q.max() <= dtype.max
            if fits and _same((q + moved) * wide, value):
                held = make(dtype, _by_lanes(q, dtype)), make(t.float32, scale)
                return Held(*held, None if shift is None else make(t.float32, shift), each)
    return None


def _parts(e: Expr) -> list[Expr] | None:
    """The scale, and the zero point if there is one, of a weight that is (q - zero) * scale."""
    match e:
        case Where(_, x, Const()):
            return _parts(x)
        case Alu("mul", (Cast(Alu("sub", (_, zero))), scale), t.float32):
            return [scale, cast(zero, t.float32)]
        case Alu("mul", (Alu("sub", (Cast(), zero)), scale), t.float32):
            return [scale, zero]
        case Alu("mul", (Cast(), scale), t.float32):
            return [scale]
    return None


def _each(parts: list[Expr], term: Axis) -> int | None:
    """The terms of a group, as far as that is seen: the least number that terms are divided by."""
    free = free_axes(*parts)
    if not any(term in free[id(e)] for e in parts):
        assert isinstance(term.extent, int)
        return -(-term.extent // EIGHT) * EIGHT
    found = [
        int(n.value)
        for e in walk(*parts)
        if isinstance(e, Alu) and e.op == "idiv" and term in free[id(e)]
        for n in e.args[1:]
        if isinstance(n, Const)
    ]
    return min((n for n in found if n % EIGHT == 0), default=None)


def _groups(e: Expr, origin: Origin, each: int) -> Array:
    """The values of e, a part of the weights, for each group."""
    block, term, lane = origin.axes
    assert isinstance(term.extent, int)
    axes = Axis("b", block.extent), Axis("g", -(-term.extent // each)), Axis("l", lane.extent)
    if isinstance(origin.expr, Where):
        e = where(origin.expr.cond, e, Const(0.0, t.float32))
    there: dict[Axis, Expr] = {block: axes[0], term: axes[1] * each, lane: axes[2]}
    target = Buffer("groups", t.float32, tuple(a.extent for a in axes))
    s = Compute(target, axes, rewrite(e, there))
    read = tuple(dict.fromkeys(x.buffer.root for x in walk(s.expr) if isinstance(x, Load)))
    kernel = Kernel("groups", read, (target,), (), (), (s,))
    (found,) = evaluate(kernel, [origin.known[b] for b in read])
    return found


def _spread(groups: Array, each: int, value: Array) -> Array:
    """What each term of a group has."""
    return np.repeat(groups, each, axis=1)[:, : value.shape[1]]


def _by_lanes(q: Array, dtype: DType) -> Array:
    """Integers [blocks, terms, 16] as they are held."""
    whole = _filled(q).astype(np.int16).astype(dtype.numpy)
    if not dtype.is_packed:
        return whole
    blocks, terms, lanes = whole.shape
    eights = whole.reshape(blocks, terms // EIGHT, EIGHT, lanes)
    return np.ascontiguousarray(eights.transpose(0, 1, 3, 2))
