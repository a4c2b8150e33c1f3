"""Sizes: an int, or a polynomial over symbolic dims.

    Dim  = int | Poly
    Poly = sum of coefficient * product of atoms
    atom = Sym(name)                  a symbolic dim of the model, an integer >= 1
         | Quotient(num, den)         floor(num / den), den >= 1
         | Extreme(kind, a, b)        max or min of two Dims

Arithmetic is exact and keeps a canonical form, so equal polynomials are equal objects by ``==``.
Anything else that hashes by identity may serve as an atom (the verifier uses kernel axes).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import TypeAlias, Union

from sardonyx.errors import Undetermined

Dim: TypeAlias = Union[int, "Poly"]


@dataclass(frozen=True, slots=True)
class Sym:
    """A symbolic dim, by name: an integer of at least 1."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Quotient:
    """floor(num / den)."""

    num: Dim
    den: Dim

    def __str__(self) -> str:
        return f"floor(({self.num})/({self.den}))"


@dataclass(frozen=True, slots=True)
class Extreme:
    """The larger ("max") or the smaller ("min") of two dims."""

    kind: str
    a: Dim
    b: Dim

    def __str__(self) -> str:
        return f"{self.kind}({self.a}, {self.b})"


Monomial: TypeAlias = tuple[Hashable, ...]


@dataclass(frozen=True)
class Poly:
    """A polynomial with integer coefficients; at least one term holds an atom."""

    terms: frozenset[tuple[Monomial, int]]

    @cached_property
    def coefficients(self) -> Mapping[Monomial, int]:
        return dict(self.terms)

    @cached_property
    def atoms(self) -> frozenset[Hashable]:
        return frozenset(a for mono, _ in self.terms for a in mono)

    def __add__(self, other: Dim) -> Dim:
        return _combine(self, other, 1)

    __radd__ = __add__

    def __sub__(self, other: Dim) -> Dim:
        return _combine(self, other, -1)

    def __rsub__(self, other: int) -> Dim:
        return _combine(other, self, -1)

    def __neg__(self) -> Dim:
        return self * -1

    def __mul__(self, other: Dim) -> Dim:
        out: dict[Monomial, int] = {}
        for m1, c1 in _terms(self).items():
            for m2, c2 in _terms(other).items():
                mono = tuple(sorted(m1 + m2, key=_order))
                out[mono] = out.get(mono, 0) + c1 * c2
        return _poly(out)

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floordiv(self, other)

    def __rfloordiv__(self, other: int) -> Dim:
        return floordiv(other, self)

    def __str__(self) -> str:
        return str_dim(self)

    __repr__ = __str__


def _order(atom: Hashable) -> tuple[str, str]:
    return type(atom).__name__, str(atom)


def _terms(d: Dim) -> Mapping[Monomial, int]:
    if isinstance(d, Poly):
        return d.coefficients
    return {(): d} if d else {}


def _poly(terms: Mapping[Monomial, int]) -> Dim:
    kept = {m: c for m, c in terms.items() if c}
    if not kept:
        return 0
    if len(kept) == 1 and () in kept:
        return kept[()]
    return Poly(frozenset(kept.items()))


def _combine(a: Dim, b: Dim, sign: int) -> Dim:
    out = dict(_terms(a))
    for mono, c in _terms(b).items():
        out[mono] = out.get(mono, 0) + sign * c
    return _poly(out)


def atom(a: Hashable) -> Poly:
    """The polynomial that is this one atom."""
    return Poly(frozenset({((a,), 1)}))


def symbol(name: str) -> Poly:
    """The symbolic dim called `name`."""
    return atom(Sym(name))


def product(dims: tuple[Dim, ...] | list[Dim]) -> Dim:
    """The number of elements of a shape."""
    return reduce(lambda a, b: a * b, dims, 1)


def floordiv(a: Dim, b: Dim) -> Dim:
    """floor(a / b): exact where the division has no remainder, an atom otherwise."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    if b == 1 or a == 0:
        return a
    exact = divide(a, b)
    if exact is not None:
        return exact
    if isinstance(b, int) and b > 1:
        whole, rest = _split(a, b)
        return whole + atom(Quotient(rest, b)) if whole != 0 else atom(Quotient(a, b))
    return atom(Quotient(a, b))


def _split(a: Dim, b: int) -> tuple[Dim, Dim]:
    """a == whole * b + rest, taking whole from the terms that b divides."""
    whole = _poly({m: c // b for m, c in _terms(a).items() if c % b == 0})
    return whole, a - whole * b


def divide(a: Dim, b: Dim) -> Dim | None:
    """a / b where it is a polynomial again, else None; b has one term."""
    divisor = list(_terms(b).items())
    if len(divisor) != 1:
        return 1 if a == b and divisor else None
    mono, coefficient = divisor[0]
    out: dict[Monomial, int] = {}
    for m, c in _terms(a).items():
        rest = list(m)
        for factor in mono:
            if factor not in rest:
                return None
            rest.remove(factor)
        if c % coefficient:
            return None
        out[tuple(rest)] = c // coefficient
    return _poly(out)


def extreme(kind: str, a: Dim, b: Dim) -> Dim:
    """max(a, b) or min(a, b), decided where it can be (every symbolic dim is at least 1)."""
    pick = max if kind == "max" else min
    if isinstance(a, int) and isinstance(b, int):
        return pick(a, b)
    if at_least(a - b, 0):
        return a if kind == "max" else b
    if at_least(b - a, 0):
        return b if kind == "max" else a
    return atom(Extreme(kind, a, b))


def at_least(d: Dim, bound: int) -> bool:
    """Whether d >= bound for all values of its atoms >= 1 (a Quotient: >= 0); False if unproven."""
    if isinstance(d, int):
        return d >= bound
    total = 0
    for mono, c in d.terms:
        if not mono:
            total += c
        elif c < 0:
            return False
        elif all(isinstance(a, Sym) for a in mono):
            total += c
        elif not all(isinstance(a, Sym) or _natural(a) for a in mono):
            return False
    return total >= bound


def _natural(a: Hashable) -> bool:
    match a:
        case Quotient(num, den):
            return at_least(num, 0) and at_least(den, 1)
        case Extreme("max", x, y):
            return at_least(x, 0) or at_least(y, 0)
        case Extreme("min", x, y):
            return at_least(x, 0) and at_least(y, 0)
    return False


def evaluate(d: Dim, env: Mapping[str, int]) -> int:
    """The number that d is when each symbolic dim has its value in env."""
    value = substitute(d, lambda a: env.get(a.name) if isinstance(a, Sym) else None)
    if not isinstance(value, int):
        missing = sorted(symbols(value) - set(env))
        raise Undetermined(f"the size {d} needs a value for {', '.join(missing)}")
    return value


def substitute(d: Dim, value: Callable[[Hashable], Dim | None]) -> Dim:
    """d with each atom replaced by value(atom); None keeps the atom (its parts are replaced)."""
    if isinstance(d, int):
        return d
    out: Dim = 0
    for mono, c in d.terms:
        term: Dim = c
        for a in mono:
            term = term * _substitute_atom(a, value)
        out = out + term
    return out


def _substitute_atom(a: Hashable, value: Callable[[Hashable], Dim | None]) -> Dim:
    given = value(a)
    if given is not None:
        return given
    match a:
        case Quotient(num, den):
            return floordiv(substitute(num, value), substitute(den, value))
        case Extreme(kind, x, y):
            return extreme(kind, substitute(x, value), substitute(y, value))
    return atom(a)


def symbols(d: Dim) -> frozenset[str]:
    """The names of all symbolic dims in d."""
    if isinstance(d, int):
        return frozenset()
    found: set[str] = set()
    for a in d.atoms:
        match a:
            case Sym(name):
                found.add(name)
            case Quotient(x, y) | Extreme(_, x, y):
                found |= symbols(x) | symbols(y)
    return frozenset(found)


def str_dim(d: Dim) -> str:
    """The size as text, for people and for NodeArg shapes."""
    if isinstance(d, int):
        return str(d)
    parts = []
    for mono, c in sorted(d.terms, key=lambda t: (len(t[0]) == 0, [_order(a) for a in t[0]])):
        word = "*".join(str(a) for a in mono)
        text = (
            word
            if c == 1 and word
            else f"-{word}"
            if c == -1 and word
            else "*".join(filter(None, [str(c), word]))
        )
        parts.append(text)
    return " + ".join(parts).replace("+ -", "- ")
