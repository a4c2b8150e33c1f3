"""A kernel of intervals in which floats may decide integers, as far as their enclosures decide.

    followed(kernel)   Followed: the kernel of intervals, with its integers and conditions too

A comparison, or a conversion to an integer, is taken as the enclosures of its operands decide it;
where they do not, a doubt is kept: the integers and the branches of this run of the kernel may be
others than those of exact arithmetic. `intervals` refuses such a kernel, and where it does not, it
encloses a choice between floats that is open by both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from sardonyx import types as t
from sardonyx.errors import UnsupportedModel
from sardonyx.kernel.enclose import compared, number
from sardonyx.kernel.expr import (
    Alu,
    Buffer,
    Cast,
    Const,
    Expr,
    Fold,
    Iterate,
    Load,
    Where,
    alu,
    cast,
    const,
    where,
    widen,
)
from sardonyx.kernel.intervals import COMPARED, Intervals, Maker, assembled, maker_of
from sardonyx.kernel.ir import Compute, For, If, Kernel, Set, Stmt, Store
from sardonyx.kernel.rewrite import rebuilt
from sardonyx.kernel.walk import children

Decided = tuple[Expr, Expr | None]  # the value, and whether it is in doubt (None: never)


@dataclass(frozen=True, slots=True, eq=False)
class Followed:
    """made: the kernel of intervals, which has a place for every output; after these, from
    `doubts` on, outputs of bool: where one is true, nothing is known of any output."""

    made: Intervals
    doubts: int


def followed(kernel: Kernel, make: type[Maker] | None = None, ranked: bool = False) -> Followed:
    """The kernel of intervals of a kernel of concrete extents, make: as for `intervals`. ranked:
    who calls answers for it that the order of floats whose bits are taken is sure, and matters
    alone: it is that of their low ends.

    UnsupportedModel, which says why, where an operation has no enclosure."""
    follower = _Follower(maker_of(kernel, make), ranked)
    body = tuple(x for s in kernel.body for x in follower.statement(s))
    made = assembled(kernel, follower.maker, body, kernel.outputs, follower.doubts)
    return Followed(made, len(made.kernel.outputs) - len(follower.doubts))


@dataclass(slots=True, eq=False)
class _Follower:
    """Turns statements; an expression is decided once."""

    maker: Maker
    ranked: bool
    doubts: list[Buffer] = field(default_factory=list)
    made: dict[Expr, Decided] = field(default_factory=dict)
    flag: Buffer = field(default_factory=lambda: Buffer("doubt", t.bool_, (1,)))

    def statement(self, s: Stmt) -> list[Stmt]:
        match s:
            case Compute(buffer, axes, expr) if not buffer.dtype.is_float:
                value, doubt = self.decided(expr)
                kept: list[Stmt] = [replace(s, expr=value)]
                if doubt is not None:
                    own = Buffer(f"doubt{len(self.doubts)}", t.bool_, buffer.shape)
                    self.doubts.append(own)
                    kept.insert(0, Compute(own, axes, alu("or", Load(own, axes), doubt)))
                return kept
            case For(axis, body):
                return [For(axis, tuple(x for y in body for x in self.statement(y)))]
            case If(cond, then, otherwise):
                value, doubt = self.decided(cond)
                branches = [
                    tuple(x for y in b for x in self.statement(y)) for b in (then, otherwise)
                ]
                return [*self._noted(doubt), If(value, branches[0], branches[1])]
            case Set(local, expr) if not local.dtype.is_float:
                value, doubt = self.decided(expr)
                return [*self._noted(doubt), Set(local, value)]
            case Store(buffer, index, expr):
                return self._store(buffer, index, expr)
        return self.maker.statement(s)

    def _store(self, buffer: Buffer, index: Sequence[Expr], expr: Expr) -> list[Stmt]:
        at = [self.decided(i) for i in index]
        where_, doubts = tuple(v for v, _ in at), [d for _, d in at]
        if buffer.dtype.is_float:
            return [*self._noted(_any(doubts)), *self.maker.stores(buffer, where_, expr)]
        value, doubt = self.decided(expr)
        return [*self._noted(_any([*doubts, doubt])), Store(buffer, where_, value)]

    def _noted(self, doubt: Expr | None) -> list[Stmt]:
        """Keeps a doubt of one place in the course of the kernel."""
        if doubt is None:
            return []
        if self.flag not in self.doubts:
            self.doubts.append(self.flag)
        at = (const(0, t.int64),)
        return [Store(self.flag, at, alu("or", Load(self.flag, at), doubt))]

    def decided(self, e: Expr) -> Decided:
        """An integer or a condition as the enclosures below it decide it."""
        if e not in self.made:
            self.made[e] = self._decided(e)
        return self.made[e]

    def _decided(self, e: Expr) -> Decided:
        match e:
            case Alu("bits", (x,)) if x.dtype.is_float and self.ranked:
                return replace(e, args=(cast(self.maker.reach(x)[0], x.dtype),)), None
            case _ if e.dtype.is_float:
                raise UnsupportedModel("the bits of a float are taken")
            case Alu(op, args, t.bool_) if op in COMPARED and args[0].dtype.is_float:
                ends = [self.maker.reach(a) for a in args]
                sure, maybe = compared(op, ends[0], ends[-1])
                doubt, strange = alu("ne", sure, maybe), self.maker.strange(args)
                same = self._same(args)
                if same is None:
                    return sure, alu("or", doubt, strange)
                itself = const(op in ("le", "eq"), t.bool_)
                apart = alu("and", alu("not", same), doubt)
                return where(same, itself, sure), alu("or", apart, strange)
            case Cast(x, t.bool_) if x.dtype.is_float:
                sure, maybe = compared("ne", self.maker.reach(x), (number(0), number(0)))
                return sure, alu("ne", sure, maybe)
            case Cast(x, _) if x.dtype.is_float:
                low, high = (replace(e, x=end) for end in self.maker.reach(x))
                return low, alu("ne", widen(low), widen(high))
        below = [self.decided(x) for x in children(e)]
        if all(v is x and d is None for x, (v, d) in zip(children(e), below, strict=True)):
            return e, None
        if isinstance(e, Iterate):
            raise UnsupportedModel("a search depends on a float")
        values, doubts = [v for v, _ in below], [d for _, d in below]
        again = rebuilt(e, {id(x): v for x, v in zip(children(e), values, strict=True)})
        return again, self._doubt(e, values, doubts)

    def _same(self, args: Sequence[Expr]) -> Expr | None:
        """Where a comparison is of an element with itself; None where that is not told."""
        match [_stored(x) for x in args]:
            case [Load(x, at, _, a), Load(y, to, _, b)] if x is y and _is_same_default(a, b):
                found: Expr = const(True, t.bool_)
                for i, j in zip(at, to, strict=True):
                    (left, open_), (right, other) = self.decided(i), self.decided(j)
                    if open_ is not None or other is not None:
                        return None
                    found = alu("and", found, alu("eq", left, right))
                return found
        return None

    def _doubt(self, e: Expr, values: list[Expr], doubts: list[Expr | None]) -> Expr | None:
        match e:
            case Where():
                no = const(False, t.bool_)
                then, other = (no if d is None else d for d in doubts[1:])
                return _any([doubts[0], where(values[0], then, other)])
            case Fold(_, axes, terms, when):
                within = _any(doubts[: len(terms)])
                held = None if when is None else values[-1]
                inside = None if within is None else Fold("or", axes, (within,), held)
                last = None if when is None else doubts[-1]
                return _any([inside, None if last is None else Fold("or", axes, (last,))])
        return _any(doubts)


def _stored(e: Expr) -> Expr:
    """The node below a conversion to a wider float."""
    while isinstance(e, Cast) and e.x.dtype.is_float and e.x.dtype.bits < e.dtype.bits:
        e = e.x
    return e


def _is_same_default(a: Expr | None, b: Expr | None) -> bool:
    """Whether loads that are out of bounds give the same."""
    match a, b:
        case Const(x), Const(y):
            return x == y
    return a is None and b is None


def _any(doubts: Sequence[Expr | None]) -> Expr | None:
    found: Expr | None = None
    for d in doubts:
        if d is not None:
            found = d if found is None else alu("or", found, d)
    return found
