"""A kernel of real numbers as a kernel of intervals.

    intervals(kernel)   Intervals: a kernel that has, for each float input and output, two float64
                        ones (low, high), and gives enclosures of exact real arithmetic

The real meaning of a kernel is its expressions without any rounding: casts between floats change
nothing, constants are the numbers they are, elementary functions (kernel/recognise.py) are the
functions of mathematics. Integers and conditions on them stay what they are. The interpreter runs
the new kernel like any other.

Sums are enclosed by their float64 value and n + 2 times 2^-52 of the sum of their terms' sizes,
twice the classical bound of any order of summation. UnsupportedModel, which says why, where an
integer or an index depends on a float, or an operation has no enclosure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

import numpy as np

from sardonyx import types as t
from sardonyx.dims import Dim, product
from sardonyx.errors import UnsupportedModel
from sardonyx.kernel.enclose import (
    TINY,
    UNIT,
    Pair,
    arithmetic,
    chosen,
    compared,
    down,
    function,
    number,
    settled,
    up,
)
from sardonyx.kernel.expr import (
    Alu,
    Axis,
    Buffer,
    Cast,
    Const,
    Expr,
    Fold,
    Load,
    Local,
    Where,
    alu,
    cast,
    const,
)
from sardonyx.kernel.ir import Compute, For, If, Kernel, Set, Stmt, Store, expressions, statements
from sardonyx.kernel.recognise import Call, calls
from sardonyx.kernel.walk import children

Truth: TypeAlias = tuple[Expr, Expr]  # surely, perhaps
COMPARED = ("lt", "le", "eq", "ne", "isnan", "signbit")


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """The kernel of intervals. inputs: for each input of the original its place or places among
    the new ones; outputs: the same of the float outputs, None for others."""

    kernel: Kernel
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...] | None, ...]


def intervals(kernel: Kernel, make: type[Maker] | None = None) -> Intervals:
    """The kernel of intervals of a kernel of concrete extents. make: keeps more of each float."""
    maker = maker_of(kernel, make)
    body = tuple(x for s in kernel.body for x in maker.statement(s))
    return assembled(kernel, maker, body, [b for b in kernel.outputs if b.dtype.is_float])


def maker_of(kernel: Kernel, make: type[Maker] | None) -> Maker:
    """What makes the enclosures of a kernel."""
    return (make or Maker)(calls([e for s in statements(kernel.body) for e in expressions(s)]))


def assembled(
    kernel: Kernel,
    maker: Maker,
    body: tuple[Stmt, ...],
    kept: Sequence[Buffer],
    further: Sequence[Buffer] = (),
) -> Intervals:
    """The kernel of intervals with this body, that gives of the kernel's outputs those of `kept`,
    then what is further."""
    inputs, places = list[Buffer | None](), []
    for b in kernel.inputs:
        own = () if b is None else maker.buffers(b)
        places.append(tuple(range(len(inputs), len(inputs) + len(own))))
        inputs += own
    outputs, found = list[Buffer](), list[tuple[int, ...] | None]()
    for b in kernel.outputs:
        own = maker.buffers(b) if b in kept else ()
        found.append(tuple(range(len(outputs), len(outputs) + len(own))) if own else None)
        outputs += own
    written = {s.buffer.root for s in statements(body) if isinstance(s, Compute | Store)}
    rest = [x for b in (*kernel.outputs, *kernel.temporaries) for x in maker.buffers(b)]
    temporaries = tuple(b for b in rest if b in written and b not in outputs)
    constants = tuple(x for b in kernel.constants for x in maker.buffers(b))
    name = f"{kernel.name}_intervals"
    made = Kernel(name, tuple(inputs), (*outputs, *further), temporaries, constants, body)
    return Intervals(made, tuple(places), tuple(found))


@dataclass(slots=True, eq=False)
class Maker:
    """Turns expressions into enclosures; a node has one, whoever uses it."""

    calls: dict[Expr, Call]
    made: dict[Buffer, tuple[Buffer, ...]] = field(default_factory=dict)
    locals: dict[Local, tuple[Local, ...]] = field(default_factory=dict)
    pairs: dict[Expr, Pair] = field(default_factory=dict)
    exacts: dict[Expr, Expr] = field(default_factory=dict)
    truths: dict[Expr, Truth] = field(default_factory=dict)

    ENDS: ClassVar[tuple[str, ...]] = ("low", "high")

    def ends(self, e: Expr) -> tuple[Expr, ...]:
        """What is kept of a float."""
        return settled(self.pair(e))

    def reach(self, e: Expr) -> Pair:
        """Where a float lies that decides something."""
        return settled(self.pair(e))

    def strange(self, args: Sequence[Expr]) -> Expr:
        """Whether enclosures do not tell what a comparison of these gives."""
        return const(False, t.bool_)

    def buffers(self, b: Buffer) -> tuple[Buffer, ...]:
        """The buffer itself, or the two of a float's ends."""
        if not b.dtype.is_float:
            return (b,)
        if b not in self.made:
            bases = [None] * len(self.ENDS) if b.base is None else self.buffers(b.base)
            data = None if b.data is None else b.data.astype("f8")
            zeros = None if data is None else np.zeros(data.shape)
            kept = {"low": data, "high": data, "error": zeros}
            self.made[b] = tuple(
                Buffer(f"{b.name}_{end}", t.float64, b.shape, kept[end], base)
                for end, base in zip(self.ENDS, bases, strict=True)
            )
        return self.made[b]

    def statement(self, s: Stmt) -> list[Stmt]:
        match s:
            case Compute(buffer, axes, expr) if buffer.dtype.is_float:
                ends = self.ends(expr)
                return [
                    Compute(b, axes, e) for b, e in zip(self.buffers(buffer), ends, strict=True)
                ]
            case Compute(_, _, expr):
                return [replace(s, expr=self.exact(expr))]
            case For(axis, body):
                return [For(axis, tuple(x for y in body for x in self.statement(y)))]
            case If(cond, then, otherwise):
                branches = [
                    tuple(x for y in b for x in self.statement(y)) for b in (then, otherwise)
                ]
                return [If(self.exact(cond), branches[0], branches[1])]
            case Set(local, expr) if local.dtype.is_float:
                made, known = self._before(self.ends(expr))
                return [*made, *map(Set, self.local(local), known)]
            case Set(_, expr):
                return [replace(s, expr=self.exact(expr))]
            case Store(buffer, index, expr):
                at = tuple(self.exact(i) for i in index)
                if not buffer.dtype.is_float:
                    return [Store(buffer, at, self.exact(expr))]
                return self.stores(buffer, at, expr)

    def stores(self, buffer: Buffer, at: tuple[Expr, ...], expr: Expr) -> list[Stmt]:
        """An element of floats written."""
        made, known = self._before(self.ends(expr))
        return [*made, *(Store(b, at, x) for b, x in zip(self.buffers(buffer), known, strict=True))]

    def _before(self, ends: tuple[Expr, ...]) -> tuple[list[Stmt], list[Local]]:
        """All ends computed, before the first is written: one may read what another overwrites."""
        known = [Local(f"new_{end}", t.float64) for end in self.ENDS]
        return list(map(Set, known, ends)), known

    def local(self, e: Local) -> tuple[Local, ...]:
        made = tuple(Local(f"{e.name}_{end}", t.float64) for end in self.ENDS)
        return self.locals.setdefault(e, made)

    def exact(self, e: Expr) -> Expr:
        """A node that no float decides. Nodes without floats below them stay as they are."""
        if e not in self.exacts:
            self._refuse(e)
            self.exacts[e] = e
        return self.exacts[e]

    def _refuse(self, e: Expr) -> None:
        stack, seen = [e], set[Expr]()
        while stack:
            x = stack.pop()
            if x in seen:
                continue
            seen.add(x)
            if x.dtype.is_float:
                raise UnsupportedModel("an integer, an index or a condition depends on a float")
            stack.extend(children(x))

    def truth(self, e: Expr) -> Truth:
        """A condition: whether it surely holds, and whether it may."""
        if e not in self.truths:
            self.truths[e] = self._truth(e)
        return self.truths[e]

    def _truth(self, e: Expr) -> Truth:
        match e:
            case Alu(op, args, t.bool_) if op in COMPARED and args[0].dtype.is_float:
                ends = [self.pair(a) for a in args]
                return compared(op, ends[0], ends[-1])
            case Alu("not", (x,), _):
                sure, maybe = self.truth(x)
                return alu("not", maybe), alu("not", sure)
            case Alu("and" | "or" as op, (x, y), t.bool_):
                a, b = self.truth(x), self.truth(y)
                return alu(op, a[0], b[0]), alu(op, a[1], b[1])
            case Fold("and" | "or" as kind, axes, (x,), when):
                held = None if when is None else self.exact(when)
                sure, maybe = (Fold(kind, axes, (x,), held) for x in self.truth(x))
                return sure, maybe
        found = self.exact(e)
        return found, found

    def pair(self, e: Expr) -> Pair:
        """The enclosure of a float."""
        if e not in self.pairs:
            self.pairs[e] = self._pair(e)
        return self.pairs[e]

    def _pair(self, e: Expr) -> Pair:
        if e in self.calls:
            name, args = self.calls[e]
            return settled(function(name, tuple(self.pair(a) for a in args)))
        match e:
            case Const(value, _):
                return number(float(value)), number(float(value))
            case Local():
                return self.local(e)[0], self.local(e)[1]
            case Load(buffer, index, mode, default):
                at = tuple(self.exact(i) for i in index)
                ends = (None, None) if default is None else self.pair(default)
                low, high = (
                    Load(b, at, mode, d)
                    for b, d in zip(self.buffers(buffer)[:2], ends, strict=True)
                )
                return low, high
            case Where(cond, a, b):
                return chosen(*self.truth(cond), self.pair(a), self.pair(b))
            case Cast(x, _) if x.dtype.is_float:
                return self.pair(x)
            case Cast(x, _) if x.dtype is t.bool_:
                sure, maybe = self.truth(x)
                return cast(sure, t.float64), cast(maybe, t.float64)
            case Cast(x, _):
                whole = cast(self.exact(x), t.float64)
                return (down(whole), up(whole)) if x.dtype.bits == 64 else (whole, whole)
            case Alu("bits", _, _):
                raise UnsupportedModel("the bits of a float are taken")
            case Alu(op, args, _):
                return arithmetic(op, tuple(self.pair(a) for a in args))
            case Fold():
                return self._fold(e)
        raise UnsupportedModel(f"{type(e).__name__} of a float has no enclosure")

    def _fold(self, e: Fold) -> Pair:
        when = None if e.when is None else self.exact(e.when)
        ends = tuple(self.pair(x) for x in e.terms)
        if e.kind in ("min", "max"):
            low, high = (Fold(e.kind, e.axes, (x,), when) for x in ends[0])
            return low, high
        if e.kind == "prod":
            raise UnsupportedModel("a product over an axis has no enclosure")
        terms = arithmetic("mul", ends) if e.kind == "dot" else ends[0]
        count = product(tuple(a.extent for a in e.axes))
        return _sum(terms, e.axes, count, when)


def _sum(terms: Pair, axes: tuple[Axis, ...], count: Dim, when: Expr | None) -> Pair:
    """The sums of both ends, moved outwards by what any order of summation may lose."""
    assert isinstance(count, int)
    part = (count + 2) * UNIT
    lows, highs = (Fold("sum", axes, (x,), when) for x in terms)
    sizes = (Fold("sum", axes, (alu("abs", x),), when) for x in terms)
    lost = [size * part + count * TINY for size in sizes]
    return down(lows - lost[0]), up(highs + lost[1])
