"""Plain bounds of integer expressions, for the printer: where C's own signed arithmetic and
division will do, and which indices need no check. The proofs are kernel/verify.py's."""

from __future__ import annotations

from sardonyx import types as t
from sardonyx.dims import Dim, at_least
from sardonyx.kernel.expr import Alu, Axis, Cast, Const, Expr, Iterate, Load, Local, Size, Where

Range = tuple[int, int]
SYMBOLIC = 1 << 40  # no dim is as large: M would not fit an address space
_LIMIT = 1 << 62


def bounds(e: Expr, memo: dict[Expr, Range] | None = None) -> Range:
    """The least and the greatest value that an integer expression can have, roughly."""
    memo = {} if memo is None else memo
    if e not in memo:
        memo[e] = _bounds(e, memo)
    return memo[e]


def _bounds(e: Expr, memo: dict[Expr, Range]) -> Range:
    match e:
        case Const(value, _):
            return int(value), int(value)
        case Axis(_, extent) | Iterate(axis=Axis(_, extent)):
            return 0, max(0, extent - 1 if isinstance(extent, int) else SYMBOLIC)
        case Size(dim):
            return 0 if at_least(dim, 0) else -SYMBOLIC, SYMBOLIC
        case Where(_, a, b):
            (la, ha), (lb, hb) = bounds(a, memo), bounds(b, memo)
            return min(la, lb), max(ha, hb)
        case Cast(x, t.int64) if x.dtype.is_integer:
            return bounds(x, memo)
        case Alu(op, args, dtype) if dtype is t.int64 and args[0].dtype is t.int64:
            found = _arithmetic(op, [bounds(a, memo) for a in args])
            if found is not None and (op in ("min", "max") or _is_held(found)):
                return found
        case Load() | Local():
            pass
    if e.dtype.is_integer:
        return e.dtype.min, e.dtype.max
    return t.int64.min, t.int64.max


def _arithmetic(op: str, args: list[Range]) -> Range | None:
    (la, ha), (lb, hb) = args[0], args[-1]
    match op:
        case "add":
            return la + lb, ha + hb
        case "sub":
            return la - hb, ha - lb
        case "mul":
            corners = (la * lb, la * hb, ha * lb, ha * hb)
            return min(corners), max(corners)
        case "min":
            return min(la, lb), min(ha, hb)
        case "max":
            return max(la, lb), max(ha, hb)
        case "idiv" | "tdiv" if la >= 0 and lb > 0:
            return la // hb, ha // lb
        case "imod" | "fmod" if la >= 0 and lb > 0:
            return 0, min(ha, hb - 1)
        case "imod" if lb > 0:
            return 0, hb - 1
    return None


def is_plain(e: Alu, memo: dict[Expr, Range] | None = None) -> bool:
    """Whether C's signed int64 arithmetic computes e: no wrap, no division to be careful with."""
    if e.dtype is not t.int64 or e.args[0].dtype is not t.int64:
        return False
    ranges = [bounds(a, memo) for a in e.args]
    if any(r == (t.int64.min, t.int64.max) for r in ranges):
        return False
    found = _arithmetic(e.op, ranges)
    if found is None or not _is_held(found):
        return False
    return e.op in ("add", "sub", "mul") or (ranges[0][0] >= 0 and ranges[1][0] > 0)


def _is_held(found: Range) -> bool:
    """Whether int64 has all of these with room to spare."""
    return found[0] > -_LIMIT and found[1] < _LIMIT


def inside(index: Expr, dim: Dim) -> bool:
    """Whether 0 <= index < dim is plain to see."""
    if isinstance(index, Axis) and at_least(dim - index.extent, 0):
        return True
    low, high = bounds(index)
    return low >= 0 and isinstance(dim, int) and high < dim
