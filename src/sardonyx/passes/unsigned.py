"""Bytes with a sign are held as bytes without, where they are made by rounding.

    y = int8(rint(v) + z);  u = float(int32(y) - z) * s

    =>  y' = uint8(rint(v) + z');  u = float(int32(y') - z') * s        y' = y + 128, z' = z + 128

Instructions that sum products take one factor unsigned, and what rounds to bytes ends at 0 and 255
by itself: models with int8 between their layers (TensorFlow Lite, TensorRT) have the kernels of
those with uint8. A NaN would be 0 as int8 and as uint8, which are not the same: v must be none.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sardonyx import types as t
from sardonyx.kernel.expr import (
    Alu,
    Buffer,
    Cast,
    Const,
    Expr,
    Fold,
    Load,
    Where,
    alu,
    cast,
)
from sardonyx.passes.holding import Holder, Scope, Way, hold
from sardonyx.passes.program import Program, unused
from sardonyx.types import Array, TensorType

HALF = 128
LARGEST = 2.0**120  # of a float whose sums and products are looked after


def hold_unsigned(program: Program) -> Program:
    """The program with tensors of uint8 in the place of those of int8 that it makes."""
    fixed = {*program.inputs, *program.outputs, *program.joined}
    made = {n for launch in program.launches for n in launch.writes} - fixed
    return hold(program, {n for n in made if program.tensors[n].dtype is t.int8}, AS_UINT8)


def _is_plain(e: Expr, scope: Scope) -> bool:
    """Whether e is rounded to a byte from a number, or chosen among such bytes."""
    match e:
        case Cast(x, saturate=True):
            return _rounded(x, scope) is not None
        case Const():
            return True
        case Load(b, _, _, default):
            known = scope.weight(b)
            there = scope.holds(b) or (known is not None and known.size == 1)
            return there and (default is None or _is_plain(default, scope))
        case Where(_, a, b) | Alu("min" | "max", (a, b)):
            return _is_plain(a, scope) and _is_plain(b, scope)
        case Fold("min" | "max", _, (term,)):
            return _is_plain(term, scope)
    return False


def _rounded(x: Expr, scope: Scope) -> tuple[Expr, Load | None] | None:
    """The rounded number and its zero point, which is known, of a float that becomes a byte."""
    match x:
        case Alu("add", (Alu("rint", (v,)) as number, Cast(Load(b) as zero))) if b.dtype is t.int8:
            known = scope.weight(b)
            good = known is not None and known.size == 1
            return (number, zero) if good and _most(v, scope) is not None else None
        case Alu("rint", (v,)):
            return None if _most(v, scope) is None else (x, None)
    return None


def _most(e: Expr, scope: Scope) -> float | None:
    """What a float is at most, with either sign; None where it may be a NaN, or is not known."""
    match e:
        case Const(value):
            return abs(float(value))
        case Cast(x) if x.dtype.kind in "iub":
            return 2.0**x.dtype.bits
        case Cast(x) if e.dtype in (t.float32, t.float64):  # others may round to infinity
            return _most(x, scope)
        case Load(b, _, "proven") if b in scope.made:
            return _most(scope.made[b], scope)
        case Load(b, _, "proven"):
            return _extreme(scope.weight(b), np.max)
        case Where(_, a, b) | Alu("min" | "max", (a, b)):
            return _both(a, b, scope, max)
        case Alu("add" | "sub", (a, b)):
            return _both(a, b, scope, lambda x, y: x + y)
        case Alu("mul", (a, b)):
            return _both(a, b, scope, lambda x, y: x * y)
        case Alu("div", (a, Load(b, _, "proven"))):
            most, least = _most(a, scope), _extreme(scope.weight(b), np.min)
            return _below(most / least) if most is not None and least else None
    return None


def _both(a: Expr, b: Expr, scope: Scope, join: Callable[[float, float], float]) -> float | None:
    x, y = _most(a, scope), _most(b, scope)
    return None if x is None or y is None else _below(join(x, y))


def _extreme(known: Array | None, of: Callable[[Array], Array]) -> float | None:
    if known is None or not known.size:
        return None
    sizes = np.abs(known.astype(np.float64))
    return _below(float(of(sizes))) if bool(np.isfinite(sizes).all()) else None


def _below(x: float) -> float | None:
    return x if x < LARGEST else None


def _node(holder: Holder, e: Expr) -> Expr | None:
    """What is stored, chosen or read of bytes that are held."""
    match e:
        case Load(b) if e.dtype is t.int8 and (known := holder.scope.weight(b)) is not None:
            if known.size == 1:  # what a border is filled with, a bound
                holder.values[id(e)] = Const(int(known.reshape(-1)[0]) + HALF, t.uint8)
        case Alu("min" | "max" as op, (a, b)) if e.dtype is t.int8:
            holder.values[id(e)] = alu(op, holder.value(a), holder.value(b))
        case Fold("min" | "max" as kind, axes, (term,), when) if e.dtype is t.int8:
            given = None if when is None else holder.done[id(when)]
            holder.values[id(e)] = Fold(kind, axes, (holder.value(term),), given)
        case Cast(x, t.int8, True):
            found = _rounded(x, holder.scope)
            if found is not None:
                zero = cast(_zero(holder, found[1]), t.float32)
                number = holder.done[id(found[0])]
                holder.values[id(e)] = cast(alu("add", number, zero), t.uint8)
        case Alu("sub", (Cast(x), Cast(Load() as zero))) if _is_held(holder, x, zero):
            byte, other = holder.value(x), _zero(holder, zero)
            return cast(byte, e.dtype) - cast(other, e.dtype)
        case Cast(x, dtype) if dtype in (t.int32, t.float32) and _is_held(holder, x, None):
            byte = cast(holder.value(x), t.int32)
            return cast(byte - cast(_zero(holder, None), t.int32), dtype)
    return None


def _is_held(holder: Holder, x: Expr, zero: Load | None) -> bool:
    """Whether x is a load of a byte that is held, and its zero point, if it has one, known."""
    if not isinstance(x, Load) or not holder.scope.holds(x.buffer):
        return False
    if zero is None:
        return x.dtype is t.int8
    known = holder.scope.weight(zero.buffer)
    return zero.dtype is t.int8 and known is not None and known.size == 1


def _zero(holder: Holder, zero: Load | None) -> Expr:
    """The zero point of uint8 that stands for one of int8, or for none: a weight."""
    known = None if zero is None else holder.scope.weight(zero.buffer)
    number = HALF + (0 if known is None else int(known.reshape(-1)[0]))
    name = next((n for n in holder.own if holder.weights[n] == number), None)
    if name is None:
        name = unused(f"{number}.uint8", holder.tensors)
        holder.own[name] = Buffer(f"zero{number}", t.uint8, ())
        holder.tensors[name] = TensorType(t.uint8, ())
        holder.weights[name] = np.array(number, np.uint8)
    return Load(holder.own[name], ())


def _other(e: Expr) -> Expr:
    if isinstance(e, Const):
        return Const(int(e.value) + HALF, t.uint8)
    return cast(cast(e, t.int32) + HALF, t.uint8)


AS_UINT8 = Way(
    (t.int8,),
    t.uint8,
    other=_other,
    back=lambda e, dtype: cast(cast(e, t.int32) - HALF, dtype),
    is_plain=_is_plain,
    node=_node,
)
