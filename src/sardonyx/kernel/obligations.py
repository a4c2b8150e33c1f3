"""What a kernel's arithmetic must not do, itself as a kernel.

    obligations(kernel)   a kernel of the same inputs with one output, uint8[4]: whether a float
                          result underflows to zero, whether an integer wraps, whether one is
                          divided by zero, and what the caller asks besides (`domain`); None where
                          none of them can be

It is run before the kernel, on the same inputs, by the interpreter and as C alike, so both engines
raise the same flags. What counts as arithmetic of the model: operations, folds and conversions
between integers in the type of an input or output, outside of indices, of "bits" and of what
"bits" is made from (elementary functions and random numbers wrap on purpose). Shifts do not count.

A result underflows where an element of an output is 0, and a product, quotient, power, exponential
or conversion of floats that it is made of is 0 and exactly is not. What a fold adds up and what
passes through temporaries is not looked at.

A fold wraps where its float64 value is further than a quarter of the type's range from its result.
That is exact while the absolute terms add up to less than 2^80 over the number of terms; products
of 64-bit operands are looked at one by one, and a partial sum that comes back into range is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from sardonyx import types as t
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
    where,
)
from sardonyx.kernel.ir import Compute, For, If, Kernel, Set, Stmt, Store, expressions, statements
from sardonyx.kernel.ranges import is_plain
from sardonyx.kernel.recognise import call
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import walk
from sardonyx.types import DType

UNDERFLOW, WRAP, DIVISION, DOMAIN = range(4)
FALSE = const(False, t.bool_)
_DIVIDING = ("tdiv", "idiv", "imod", "fmod")
_QUARTER = {bits: float(1 << (bits - 2)) for bits in (8, 16, 32, 64)}

Flags = tuple[Expr, Expr, Expr]  # underflows, wraps, divides by zero
NONE: Flags = (FALSE, FALSE, FALSE)


def obligations(kernel: Kernel, domain: Expr | None = None) -> Kernel | None:
    """The kernel of the flags; None where no flag can be raised. domain: a condition on the inputs
    that is a flag of its own."""
    given = tuple(map(_without_traps, kernel.body))
    counted = frozenset(
        b.dtype for b in (*kernel.inputs, *kernel.outputs) if b is not None and b.dtype.is_integer
    )
    roots = [e for s in statements(given) for e in expressions(s)]
    made = _Maker(counted, _floats(kernel), frozenset(kernel.outputs), _reinterpreted(roots))
    body = made.body(given)
    if not made.found and domain is None:
        return None
    out, axis = Buffer("flags", t.uint8, (4,)), Axis("i", 4)
    chosen: Expr = FALSE if domain is None else domain
    for number, total in enumerate(made.totals):
        chosen = where(alu("eq", axis, number), total, chosen)
    last = Compute(out, (axis,), cast(chosen, t.uint8))
    kept = _needed((*made.start(), *body, last))
    written = {s.buffer.root for s in statements(kept) if isinstance(s, Compute | Store)}
    own = (*kernel.outputs, *kernel.temporaries, *made.buffers)
    return Kernel(
        f"{kernel.name}_obligations",
        kernel.inputs,
        (out,),
        tuple(b for b in own if b in written),
        kernel.constants,
        kept,
    )


def _floats(kernel: Kernel) -> frozenset[DType]:
    """The types whose underflow counts: those of inputs and outputs, of 16 bits and more."""
    given = (b.dtype for b in (*kernel.inputs, *kernel.outputs) if b is not None)
    return frozenset(d for d in given if d.is_float and d.bits >= 16)


def _reinterpreted(roots: Sequence[Expr]) -> frozenset[Expr]:
    """The nodes below and above an operation "bits"."""
    order = list(walk(*roots))
    above = set()
    for e in order:
        if _is_bits(e) or any(c in above for c in _values(e)):
            above.add(e)
    below: set[Expr] = set()
    for e in reversed(order):
        if _is_bits(e) or e in below:
            below.update(c for c in _values(e))
    return frozenset(above | below)


def _is_bits(e: Expr) -> bool:
    return isinstance(e, Alu) and e.op == "bits"


def _values(e: Expr) -> tuple[Expr, ...]:
    """The operands whose values make up e's: no indices, no conditions."""
    match e:
        case Alu():
            return e.args
        case Cast(x):
            return (x,)
        case Where(_, a, b):
            return (a, b)
        case Fold():
            return e.terms
        case Load(_, _, _, default) if default is not None:
            return (default,)
    return ()


@dataclass(slots=True, eq=False)
class _Maker:
    """Turns statements into the same with flags. `found`: whether any flag is not constant."""

    counted: frozenset[DType]
    floats: frozenset[DType]
    outputs: frozenset[Buffer]
    exempt: frozenset[Expr]
    found: bool = False
    totals: list[Local] = field(
        default_factory=lambda: [Local(n, t.bool_) for n in ("underflows", "wraps", "divides")]
    )
    buffers: list[Buffer] = field(default_factory=list)
    memo: dict[Expr, Flags] = field(default_factory=dict)

    def start(self) -> tuple[Stmt, ...]:
        return tuple(Set(local, FALSE) for local in self.totals)

    def body(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        return tuple(x for s in body for x in self._statement(s))

    def _statement(self, s: Stmt) -> list[Stmt]:
        self.memo.clear()
        match s:
            case Compute(buffer, axes, expr):
                return [*self._spread(buffer, axes, self._of(buffer, expr)), s]
            case For(axis, inside):
                return [For(axis, self.body(inside))]
            case If(cond, then, otherwise):
                raised = self._raise(_inside(self.flags(cond)))
                return [*raised, If(cond, self.body(then), self.body(otherwise))]
            case Store(buffer, _, expr):
                return [*self._raise(self._of(buffer, expr)), s]
            case Set(_, expr):
                return [*self._raise(_inside(self.flags(expr))), s]

    def _of(self, buffer: Buffer, expr: Expr) -> Flags:
        """The flags of what a buffer gets. It underflows where it is a result, and 0."""
        flags = self.flags(expr)
        if buffer.root not in self.outputs or flags[UNDERFLOW] is FALSE:
            return _inside(flags)
        zero = alu("eq", _comparable(expr), 0)
        return _all(zero, flags[UNDERFLOW]), flags[WRAP], flags[DIVISION]

    def _raise(self, flags: Flags) -> list[Stmt]:
        """total = total or flag."""
        made: list[Stmt] = []
        for total, flag in zip(self.totals, flags, strict=True):
            if not isinstance(flag, Const) or flag.value:
                self.found = True
                made.append(Set(total, alu("or", total, flag)))
        return made

    def _spread(self, like: Buffer, axes: tuple[Axis, ...], flags: Flags) -> list[Stmt]:
        """The flags of each element, then whether one of them is raised."""
        made: list[Stmt] = []
        for total, flag in zip(self.totals, flags, strict=True):
            if isinstance(flag, Const) and not flag.value:
                continue
            self.found = True
            each = Buffer(f"raised{len(self.buffers)}", t.bool_, like.shape)
            self.buffers.append(each)
            again = tuple(Axis(f"{a.name}r", a.extent) for a in axes)
            raised: Expr = Load(each, again)
            raised = Fold("or", again, (raised,)) if again else raised
            made += [Compute(each, axes, flag), Set(total, alu("or", total, raised))]
        return made

    def flags(self, root: Expr) -> Flags:
        """The flags of evaluating root, indices left out."""
        found = self.memo.get(root)
        if found is None:
            found = self.memo[root] = self._flags(root)
        return found

    def _flags(self, e: Expr) -> Flags:
        function = call(e) if e.dtype in self.floats else None
        if function is not None:
            own: Flags = _vanishes(e, *function), FALSE, FALSE
            return _joined(own, *(self.flags(x) for x in function[1]))
        match e:
            case Load(_, _, _, default):
                return NONE if default is None else self.flags(default)
            case Where(cond, a, b):
                chosen = [where(cond, x, y) if x is not y else x
                          for x, y in zip(self.flags(a), self.flags(b), strict=True)]  # fmt: skip
                return _joined(self.flags(cond), (chosen[0], chosen[1], chosen[2]))
            case Fold():
                return self._fold(e)
            case Cast(x) if self._counts(e) and x.dtype.is_integer:
                changed = alu("ne", cast(cast(x, e.dtype), x.dtype), x)
                signed = {x.dtype.kind, e.dtype.kind} == {"i", "u"}
                lost = alu("lt", cast(x, e.dtype) if e.dtype.kind == "i" else x, 0)
                wraps = _either(changed, lost) if signed else changed
                never = x.dtype.min >= e.dtype.min and x.dtype.max <= e.dtype.max
                return _joined(self.flags(x), NONE if never else (FALSE, wraps, FALSE))
            case Alu(op, args, _):
                own = self._operation(op, args) if self._counts(e) else NONE
                if e.dtype in self.floats:
                    own = _vanishes(e, op, args), FALSE, FALSE
                return _joined(own, *(self.flags(a) for a in args))
            case Cast(x):
                less = e.dtype in self.floats and x.dtype.is_float and x.dtype.bits > e.dtype.bits
                own = (_vanishes(e, "cast", (x,)), FALSE, FALSE) if less else NONE
                return _joined(own, self.flags(x))
        return NONE

    def _counts(self, e: Expr) -> bool:
        plain = isinstance(e, Alu) and is_plain(e)
        return e.dtype in self.counted and e not in self.exempt and not plain

    def _operation(self, op: str, args: tuple[Expr, ...]) -> Flags:
        a, b = args[0], args[-1]
        least = const(a.dtype.min, a.dtype)
        if op in _DIVIDING:
            zero = alu("eq", b, 0)
            if a.dtype.kind == "u" or op in ("imod", "fmod"):
                return FALSE, FALSE, zero
            return FALSE, alu("and", alu("eq", a, least), alu("eq", b, -1)), zero
        if op in ("neg", "abs"):
            if a.dtype.kind == "u":
                return FALSE, (alu("ne", a, 0) if op == "neg" else FALSE), FALSE
            return FALSE, alu("eq", a, least), FALSE
        if op in ("add", "sub", "mul"):
            return FALSE, _wraps(op, a, b), FALSE
        return NONE

    def _fold(self, e: Fold) -> Flags:
        inner = [self.flags(x) for x in e.terms]
        if e.when is not None:
            inner.append(self.flags(e.when))
        if self._counts(e) and e.kind == "dot" and e.dtype.bits == 64:
            inner.append((FALSE, _wraps("mul", *e.terms), FALSE))
        found = [
            flag if isinstance(flag, Const) else Fold("or", e.axes, (flag,), e.when)
            for flag in _joined(*inner)[WRAP:]
        ]
        wraps: Expr = found[0]
        divides: Expr = found[1]
        if self._counts(e) and e.kind in ("dot", "sum", "prod"):
            wide = tuple(cast(x, t.float64) for x in e.terms)
            exact = Fold(e.kind, e.axes, wide, e.when)
            off = alu("abs", exact - cast(e, t.float64))
            wraps = _either(wraps, alu("lt", _QUARTER[e.dtype.bits], off))
        return FALSE, wraps, divides


def _inside(flags: Flags) -> Flags:
    """The flags of what is no result, and may underflow."""
    return FALSE, flags[WRAP], flags[DIVISION]


def _vanishes(e: Expr, name: str, given: tuple[Expr, ...]) -> Expr:
    """Whether e = name(given), of floats, is 0 where the exact result is not."""
    x, y = (_comparable(given[i]) for i in (0, -1))
    match name:
        case "mul":
            exact = _all(alu("ne", x, 0), alu("ne", y, 0))
        case "div":
            exact = _all(alu("ne", x, 0), _is_finite(y))
        case "pow":
            exact = _all(alu("ne", x, 0), _is_finite(x), _is_finite(y))
        case "exp" | "exp2" | "sigmoid" | "softplus" | "tanh_softplus":
            exact = alu("lt", -math.inf, x)
        case "cast":
            exact = alu("ne", x, 0)
        case _:
            return FALSE
    return _all(alu("eq", _comparable(e), 0), exact)


def _comparable(e: Expr) -> Expr:
    return cast(e, t.float32) if e.dtype.is_storage else e


def _is_finite(e: Expr) -> Expr:
    return alu("lt", alu("abs", e), math.inf)


def _all(*conditions: Expr) -> Expr:
    return reduce(lambda a, b: alu("and", a, b), conditions)


def _wraps(op: str, a: Expr, b: Expr) -> Expr:
    """Whether a + b, a - b or a * b wraps."""
    r = alu(op, a, b)
    if op == "mul":
        return _product_wraps(a, b, r)
    if a.dtype.kind == "u":
        return alu("lt", r, a) if op == "add" else alu("lt", a, b)
    other = alu("xor", b, r) if op == "add" else alu("xor", a, b)
    return alu("lt", alu("and", alu("xor", a, r), other), 0)


def _product_wraps(a: Expr, b: Expr, r: Expr) -> Expr:
    dtype = a.dtype
    if dtype.bits < 64:
        wide = t.int64 if dtype.kind == "i" else t.uint64
        return alu("ne", cast(r, wide), alu("mul", cast(a, wide), cast(b, wide)))
    back = alu("and", alu("ne", a, 0), alu("ne", alu("tdiv", r, a), b))
    if dtype.kind == "u":
        return back
    edge = alu("and", alu("eq", a, -1), alu("eq", b, dtype.min))
    return alu("or", back, edge)


def _either(a: Expr, b: Expr) -> Expr:
    if isinstance(a, Const):
        return a if a.value else b
    if isinstance(b, Const):
        return b if b.value else a
    return alu("or", a, b)


def _joined(*flags: Flags) -> Flags:
    one, two, three = (reduce(_either, column) for column in zip(NONE, *flags, strict=True))
    return one, two, three


def _without_traps(s: Stmt) -> Stmt:
    """s with guards for traps: it is the operation itself that raises those."""
    match s:
        case Compute() | Set():
            return replace(s, expr=_guarded(s.expr))
        case For(axis, body):
            return For(axis, tuple(map(_without_traps, body)))
        case If(cond, then, otherwise):
            branches = (tuple(map(_without_traps, x)) for x in (then, otherwise))
            return If(_guarded(cond), *branches)
        case Store(buffer, index, expr):
            at = tuple(map(_guarded, index))
            inside: Expr = const(True, t.bool_)
            for i, d in zip(at, buffer.shape, strict=True):
                there = alu("and", alu("le", 0, i), alu("lt", i, d))
                inside = alu("and", inside, there)
            return If(inside, (Store(buffer, at, _guarded(expr)),))


def _guarded(e: Expr) -> Expr:
    return rewrite(e, {}, _guard)


def _guard(load: Load) -> Load | None:
    if load.mode != "trap":
        return None
    return Load(load.buffer, load.index, "guard", const(0, load.dtype))


def _needed(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Without the computes that nothing after them reads."""
    kept: list[Stmt] = []
    read: set[Buffer] = set()
    for s in reversed(body):
        stored = any(isinstance(x, Store) for x in statements((s,)))
        if isinstance(s, Compute) and s.buffer.root not in read and s is not body[-1]:
            continue
        if not stored or _writes(s) & read or any(isinstance(x, Set) for x in statements((s,))):
            kept.append(s)
            every = (e for x in statements((s,)) for e in walk(*expressions(x)))
            read |= {e.buffer.root for e in every if isinstance(e, Load)}
            if stored:
                read |= _writes(s)
    return tuple(reversed(kept))


def _writes(s: Stmt) -> set[Buffer]:
    return {x.buffer.root for x in statements((s,)) if isinstance(x, Compute | Store)}
