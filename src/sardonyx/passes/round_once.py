"""Values of float16 and bfloat16 within a launch are rounded once.

    y = near(min(max(near(x), 0), 6))    =>  y = min(max(near(x), 0), 6)
    z = near(f(x)) * g(near(f(x)))       =>  z = r * g(r), r = near(f(x))

near: to 16 bits and back to float32. Minima, maxima, selections and signs of such values give such
values; and each reader of a fused result brings its own copy of what it reads: one is kept.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from sardonyx import types as t
from sardonyx.kernel.expr import Alu, Buffer, Cast, Const, Expr, Load, Where
from sardonyx.kernel.ir import Compute, Stmt, expressions, statements
from sardonyx.kernel.rewrite import rebuilt
from sardonyx.kernel.walk import children, kind, walk
from sardonyx.passes.program import Launch, Program
from sardonyx.passes.widen import HALVES
from sardonyx.types import DType


def round_once(program: Program) -> Program:
    """The program whose launches round to 16 bits only what may not be of 16 bits."""
    return replace(program, launches=tuple(map(_launch, program.launches)))


def _launch(launch: Launch) -> Launch:
    body = launch.kernel.body
    nodes = walk(*(e for s in statements(body) for e in expressions(s)))
    if launch.call is not None or not any(map(_near, nodes)):
        return launch
    return replace(launch, kernel=replace(launch.kernel, body=tuple(map(_statement, body))))


def _statement(s: Stmt) -> Stmt:
    return replace(s, expr=_merged(s.expr)) if isinstance(s, Compute) else s


def _near(e: Expr) -> tuple[Expr, DType] | None:
    """The float32 that e rounds to 16 bits and widens again, and the type of 16 bits."""
    match e:
        case Cast(Cast(x, target), t.float32) if target in HALVES and x.dtype is t.float32:
            return x, target
    return None


def _merged(root: Expr) -> Expr:
    """root with equal subexpressions as one, and no value rounded twice."""
    known: dict[tuple[object, ...], Expr] = {}
    done: dict[int, Expr] = {}
    for e in walk(root):
        key = kind(e), *(id(done[id(x)]) for x in children(e))
        made = known.get(key)
        if made is None:
            made = rebuilt(e, done)
            near = _near(made)
            if near is not None and is_of(*near):
                made = near[0]
            known[key] = made
        done[id(e)] = made
    return done[id(root)]


def is_of(e: Expr, target: DType, among: Collection[Buffer] = ()) -> bool:
    """Whether the float32 e is a value of the type of 16 bits, or a NaN; the buffers hold such."""
    match e:
        case Load(b, _, _, default):
            return b in among and (default is None or is_of(default, target, among))
        case Cast(x, t.float32):
            return x.dtype is target
        case Const(value, t.float32):
            return float(np.float32(value).astype(target.numpy)) == value
        case Alu("neg" | "abs", (a,)):
            return is_of(a, target, among)
        case Alu("min" | "max", (a, b)) | Where(_, a, b):
            return is_of(a, target, among) and is_of(b, target, among)
    return False
