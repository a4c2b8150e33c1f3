"""Where to load from, where weights decide it (Gather of what is fed at indices that are weights).

    x[i, at[j] < 0 ? at[j] + n : at[j]], or it traps   =>   x[i, table[j]]

An index along which weights say one number becomes that number, one that grows by the same at each
step an affine one, any other a table. Where all of them are inside then, the load traps no longer:
it may be fused, and its launch shared among threads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

import numpy as np

from sardonyx import types as t
from sardonyx.kernel.expr import (
    Alu,
    Axis,
    Buffer,
    Cast,
    Const,
    Expr,
    Load,
    Size,
    Where,
    alu,
    cast,
    constant_buffer,
    lift,
)
from sardonyx.kernel.interpret import evaluate
from sardonyx.kernel.ir import Compute, Kernel
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.verify import checks
from sardonyx.kernel.walk import walk
from sardonyx.ops.index import index_type
from sardonyx.passes.constants import drop_unused
from sardonyx.passes.known import Known, known_to
from sardonyx.passes.program import Launch, Program
from sardonyx.types import Array

MOST = 1 << 16  # elements of a table


def known_places(program: Program) -> Program:
    """The program whose loads at places that weights decide do not trap where all are inside."""
    launches = tuple(_launch(launch, program.weights) for launch in program.launches)
    return drop_unused(replace(program, launches=launches))


def _launch(launch: Launch, weights: Mapping[str, Array]) -> Launch:
    known = known_to(launch, weights)
    tables: dict[Buffer, None] = {}
    body = tuple(
        _statement(s, known, tables) if isinstance(s, Compute) else s for s in launch.kernel.body
    )
    if not known or all(a is b for a, b in zip(body, launch.kernel.body, strict=True)):
        return launch
    constants = (*launch.kernel.constants, *tables)
    return replace(launch, kernel=replace(launch.kernel, body=body, constants=constants))


def _statement(s: Compute, known: Known, tables: dict[Buffer, None]) -> Compute:
    found: dict[Expr, Expr] = {}
    for e in walk(s.expr):
        if isinstance(e, Load) and e.mode == "trap":
            made = dict(tables)
            load = Load(e.buffer, tuple(_decided(i, known, made) for i in e.index))
            if not checks(load):
                found[e] = load
                tables.update(made)
    return replace(s, expr=rewrite(s.expr, found)) if found else s


def _decided(i: Expr, known: Known, made: dict[Buffer, None]) -> Expr:
    """The index with what weights say in the place of their loads; made: its tables are added."""
    values = _values(i, known)
    if values is not None:
        return _placed(*values, made)
    match i:
        case Where(cond, a, b):
            truths = _values(cond, known)
            if truths is not None and (truths[0].all() or not truths[0].any()):
                return _decided(a if truths[0].all() else b, known, made)
        case Alu("add" | "sub" as op, args, t.int64):
            return alu(op, *(_decided(a, known, made) for a in args))
    return i


def _values(e: Expr, known: Known) -> tuple[Array, tuple[Axis, ...]] | None:
    """What e is over its axes, where it depends on integers among the weights, and on them alone.
    None too where that is too much, or nothing."""
    nodes = list(walk(e))
    read = tuple(dict.fromkeys(x.buffer.root for x in nodes if isinstance(x, Load)))
    axes = tuple(x for x in nodes if isinstance(x, Axis))
    if not read or not all(_is_fixed(x, known) for x in nodes):
        return None
    sizes = [a.extent for a in axes if isinstance(a.extent, int)]
    if len(sizes) < len(axes) or not 0 < prod(sizes) <= MOST:
        return None
    target = Buffer("values", e.dtype, tuple(sizes))
    kernel = Kernel("values", read, (target,), (), (), (Compute(target, axes, e),))
    (found,) = evaluate(kernel, [known[b] for b in read])
    return found, axes


def _is_fixed(e: Expr, known: Known) -> bool:
    match e:
        case Load(buffer, _, mode, _):
            return mode == "proven" and buffer.root in known and buffer.dtype.is_integer
        case Size(dim):
            return isinstance(dim, int)
    return isinstance(e, Alu | Axis | Cast | Const | Where)


def _placed(values: Array, axes: tuple[Axis, ...], made: dict[Buffer, None]) -> Expr:
    """An index that has these values over the axes."""
    first = int(values.flat[0])
    along, plain = lift(first), np.full_like(values, first)
    for d, (axis, n) in enumerate(zip(axes, values.shape, strict=True)):
        step = int(values.take(1, d).flat[0]) - first if n > 1 else 0
        along = along + axis * step
        plain += step * np.arange(n).reshape(-1, *(1,) * (values.ndim - d - 1))
    if np.array_equal(values, plain):
        return along
    kind = index_type(max(abs(int(x)) for x in (values.min(), values.max())) + 1)
    table = constant_buffer(f"places{len(made)}", values.astype(kind.numpy))
    made[table] = None
    return cast(Load(table, axes), t.int64)
