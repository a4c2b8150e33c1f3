"""Tensors of float16 and bfloat16 between launches are held as float32, where memory is no concern.

    y = float16(f(..));  z = float16(g(float32(y)))

    =>  y' = float32(float16(f(..)));  z = float16(g(y'))

Every value is rounded as before, and is widened once instead of by each reader; the layouts, tiles
and strips are those of float32, and what moved and widened elements for a product only moves them,
which is fused. What only moves elements of inputs keeps its type: a NaN that is moved keeps its
bits (numerics contract), and would be the canonical one as float32.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sardonyx import types as t
from sardonyx.kernel.expr import Cast, Const, Expr, Load, Where, cast
from sardonyx.passes.fuse import fuse
from sardonyx.passes.holding import Holder, Scope, Way, hold
from sardonyx.passes.program import Program
from sardonyx.passes.widen import HALVES

LARGEST = 1 << 16  # elements of a weight that is held twice as large


def hold_halves(program: Program) -> Program:
    """The program with tensors of float32 in the place of those of 16 bits that it computes."""
    fixed = {*program.inputs, *program.outputs, *program.joined}
    here = {*program.weights, *(n for launch in program.launches for n in launch.writes)} - fixed
    held = {n for n in here if program.tensors[n].dtype in HALVES}
    for name, w in program.weights.items():
        if w.size > LARGEST or (name in held and bool(np.isnan(w).any())):
            held.discard(name)
    made = hold(program, held, AS_FLOAT32)
    wide = {
        n: np.asarray(w).astype(np.float32)
        for n, w in program.weights.items()
        if made.tensors[n] is not program.tensors[n]
    }
    made = replace(made, weights={**made.weights, **wide})
    return fuse(made) if held else made


def _is_computed(e: Expr, scope: Scope) -> bool:
    """Whether a NaN that e is would be the canonical one."""
    match e:
        case Cast() | Const():
            return True
        case Where(_, a, b):
            return _is_computed(a, scope) and _is_computed(b, scope)
        case Load(b, _, _, default):
            return scope.holds(b) and (default is None or _is_computed(default, scope))
    return False


def _read(holder: Holder, e: Expr) -> Expr | None:
    """What reads one of 16 bits reads the float32 that holds it."""
    if not isinstance(e, Cast) or e.x.dtype not in HALVES:
        return None
    value = holder.value(e.x)
    return value if e.dtype is t.float32 else Cast(value, e.dtype, e.saturate, e.toward)


AS_FLOAT32 = Way(
    HALVES,
    t.float32,
    other=lambda e: cast(e, t.float32),
    back=cast,
    is_plain=_is_computed,
    node=_read,
)
