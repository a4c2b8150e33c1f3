"""Index expressions as polynomials over axes, dims and opaque values; conditions as facts.

    form = Dim whose atoms are those of dims.py and
           Axis                     in [0, extent - 1]
           Opaque(name, lo, hi)     a value that is data, or arithmetic that is not followed
           Choice(cond, a, b)       the value of a Where

Within one `Forms`, equal forms are equal values. int64 arithmetic is followed exactly where its
operands are bounded: by axes and dims (whose products are taken to stay within int64, as the
limits of the model make sure), constants, clamps, or types of at most 32 bits. A sum or product of
unbounded data may wrap, and is therefore opaque.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from sardonyx import types as t
from sardonyx.dims import (
    Case,
    Dim,
    Extreme,
    Poly,
    Quotient,
    at_least,
    atom,
    extreme,
    floordiv,
    nonnegative,
)
from sardonyx.kernel.expr import Alu, Axis, Buffer, Cast, Const, Expr, Iterate, Load, Size, Where
from sardonyx.types import DType

BUDGET = 200  # nodes behind one form, as a tree: more is opaque, so that no proof is long
Facts = tuple[Dim, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Opaque:
    """A value of which only its bounds are known; compared by identity."""

    name: str
    lo: int | None
    hi: int | None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """a where cond holds, else b."""

    name: str
    cond: Expr
    a: Dim
    b: Dim

    def __str__(self) -> str:
        return self.name


@dataclass(slots=True, eq=False)
class Forms:
    """The forms of expressions, memoised by node; a lasting one serves a whole kernel."""

    _forms: dict[Expr, Dim] = field(default_factory=dict)
    _weights: dict[Expr, int] = field(default_factory=dict)
    _interned: dict[Hashable, Poly] = field(default_factory=dict)

    def form(self, e: Expr) -> Dim:
        """The form of an integer or bool expression (others are opaque)."""
        stack = [e]
        while stack:
            top = stack[-1]
            inner = _parts(top)
            missing = [c for c in inner if c not in self._forms]
            if missing and top not in self._forms:
                stack.extend(missing)
                continue
            stack.pop()
            if top not in self._forms:
                weight = 1 + sum(self._weights[c] for c in inner)
                heavy = weight > BUDGET
                self._weights[top] = 1 if heavy or _is_atom(top) else weight
                self._forms[top] = self._opaque(top.dtype, top) if heavy else self._form(top)
        return self._forms[e]

    def holds(self, d: Dim, facts: Facts = ()) -> bool:
        """Whether d >= 0 is proven at every point where the facts are."""
        return nonnegative(d, facts, _bounds, self._cases)

    def facts(self, cond: Expr, truth: bool) -> Facts:
        """Forms that are >= 0 where cond is `truth`."""
        found: list[Dim] = []
        todo = [(cond, truth)]
        while todo:
            e, holds = todo.pop()
            match e:
                case Alu("and", (a, b), t.bool_) if holds:
                    todo += [(a, True), (b, True)]
                case Alu("or", (a, b), t.bool_) if not holds:
                    todo += [(a, False), (b, False)]
                case Alu("not", (a,), t.bool_):
                    todo.append((a, not holds))
                case Alu(op, (a, b), _) if a.dtype.is_integer:
                    found += _compared(op, self.form(b) - self.form(a), holds)
        return tuple(found)

    def _cases(self, a: Hashable) -> tuple[Case, ...]:
        if not isinstance(a, Choice):
            return ()
        return (a.a, self.facts(a.cond, True)), (a.b, self.facts(a.cond, False))

    def _form(self, e: Expr) -> Dim:
        match e:
            case Const(value, dtype) if not dtype.is_float:
                return int(value)
            case Size(dim):
                return dim
            case Axis(_, extent):
                return 0 if extent == 1 else atom(e)
            case Cast(x, dtype) if _holds_all(x.dtype, dtype) or self._is_small(x, dtype):
                return self._forms[x]
            case Where(cond, x, y) if e.dtype.is_integer:
                a, b = self._forms[x], self._forms[y]
                return a if a == b else self._intern(("where", cond, a, b), cond, a, b)
            case Alu(op, args, dtype) if dtype.is_integer and _integers(args):
                return self._alu(op, dtype, [self._forms[a] for a in args])
            case Load(buffer, index, _, None):
                return self._opaque(e.dtype, "load", buffer, *(self._forms[i] for i in index))
        return self._opaque(e.dtype, e)

    def _is_small(self, x: Expr, target: DType) -> bool:
        """Whether x is a uint64 that int64 holds."""
        of = x.dtype is t.uint64 and target is t.int64
        return of and self.holds(target.max - self._forms[x])

    def _alu(self, op: str, dtype: DType, args: list[Dim]) -> Dim:
        rule = ARITHMETIC.get(op) if dtype is t.int64 else None
        if rule is not None and all(_bounded(a) == (True, True) for a in args):
            return rule(*args)
        if op in ("min", "max"):
            return extreme(op, args[0], args[1])
        if op == "shr" and isinstance(args[1], int) and 0 <= args[1] < dtype.bits:
            return floordiv(args[0], 1 << args[1])
        if op in DIVISIONS and self.holds(args[1] - 1):
            whole = floordiv(args[0], args[1])
            if op in ("idiv", "imod") or self.holds(args[0]):
                return whole if op in ("idiv", "tdiv") else args[0] - args[1] * whole
        return self._opaque(dtype, op, *args)

    def _opaque(self, dtype: DType, *key: Hashable) -> Poly:
        narrow = not dtype.is_float and dtype.bits < 64
        lo: int | None = dtype.min if narrow or dtype.kind == "u" else None
        hi: int | None = dtype.max if narrow else None
        if dtype is t.bool_:
            lo, hi = 0, 1
        match key:
            case ("load", Buffer(data=np.ndarray()) as table, *index) if (
                dtype.is_integer and not dtype.is_storage
            ):
                chosen = tuple(i if isinstance(i, int) else None for i in index)
                lo, hi = _table_bounds(table, chosen) or (lo, hi)
            case (Iterate(axis=Axis(extent=int(n))),):
                lo, hi = 0, n - 1
            case ("and", _, int(mask)) | ("and", int(mask), _) if mask >= 0:
                lo, hi = 0, mask
        if key not in self._interned:
            self._interned[key] = atom(Opaque(f"v{len(self._interned)}", lo, hi))
        return self._interned[key]

    def _intern(self, key: Hashable, cond: Expr, a: Dim, b: Dim) -> Poly:
        if key not in self._interned:
            self._interned[key] = atom(Choice(f"w{len(self._interned)}", cond, a, b))
        return self._interned[key]


DIVISIONS = ("idiv", "imod", "tdiv", "fmod")
ARITHMETIC: dict[str, Callable[..., Dim]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "abs": lambda a: extreme("max", a, -a),
}


def _parts(e: Expr) -> tuple[Expr, ...]:
    """The subexpressions whose forms make e's form."""
    match e:
        case Where(_, a, b) if e.dtype.is_integer:
            return a, b
        case Load(_, index, _, None):
            return index
        case Cast(x, _) if not x.dtype.is_float:
            return (x,)
        case Alu(_, args, _) if _integers(args) and e.dtype.is_integer:
            return args
    return ()


def _is_atom(e: Expr) -> bool:
    """Whether the form of e is one opaque value, however much lies behind it."""
    return isinstance(e, Load) or (isinstance(e, Alu) and e.op == "and")


@lru_cache(maxsize=256)
def _table_bounds(table: Buffer, chosen: tuple[int | None, ...]) -> tuple[int, int] | None:
    """The least and the greatest of a constant table's elements at the indices that are known."""
    assert table.data is not None
    within = all(i is None or 0 <= i < n for i, n in zip(chosen, table.data.shape, strict=True))
    at = tuple(slice(None) if i is None else i for i in chosen) if within else ()
    part = table.data[at]
    return (int(part.min()), int(part.max())) if part.size else None


def _integers(args: tuple[Expr, ...]) -> bool:
    return all(a.dtype.is_integer for a in args)


def _holds_all(source: DType, target: DType) -> bool:
    """Whether each value of source is one of target."""
    if source.is_float or not target.is_integer:
        return False
    return source is t.bool_ or (target.min <= source.min and source.max <= target.max)


def _compared(op: str, gap: Dim, truth: bool) -> list[Dim]:
    """What a comparison of integers a and b says of gap = b - a."""
    match op, truth:
        case "lt", True:
            return [gap - 1]
        case ("lt", False) | ("eq", True) | ("ne", False):
            return [-gap] if op == "lt" else [gap, -gap]
        case "le", True:
            return [gap]
        case "le", False:
            return [-gap - 1]
    return []


def _bounds(a: Hashable) -> tuple[Dim | None, Dim | None]:
    match a:
        case Axis(_, extent):
            return 0, extent - 1
        case Opaque(_, lo, hi):
            return lo, hi
    return None, None


def _bounded(d: Dim) -> tuple[bool, bool]:
    """Whether d is bounded (below, above) by dims and numbers, whatever the data."""
    below = above = True
    for mono, c in [] if isinstance(d, int) else d.terms:
        ends = [_atom_bounded(a) for a in mono]
        if len(ends) > 1:
            ends = [(all(map(all, ends)),) * 2]
        for lo, hi in ends:
            below &= lo if c > 0 else hi
            above &= hi if c > 0 else lo
    return below, above


def _atom_bounded(a: Hashable) -> tuple[bool, bool]:
    match a:
        case Opaque(_, lo, hi):
            return lo is not None, hi is not None
        case Quotient(num, _):
            return _bounded(num)
        case Extreme("max", x, y):
            (lo1, hi1), (lo2, hi2) = _bounded(x), _bounded(y)
            return lo1 or lo2, hi1 and hi2
        case Extreme(_, x, y):
            (lo1, hi1), (lo2, hi2) = _bounded(x), _bounded(y)
            return lo1 and lo2, hi1 or hi2
        case Choice(_, _, x, y):
            (lo1, hi1), (lo2, hi2) = _bounded(x), _bounded(y)
            return lo1 and lo2, hi1 and hi2
    return True, True


def with_fact(facts: Facts, new: Dim) -> Facts:
    """facts and new, without what the others imply at once."""
    if at_least(new, 0) or any(at_least(new - f, 0) for f in facts):
        return facts
    return (*(f for f in facts if not at_least(f - new, 0)), new)
