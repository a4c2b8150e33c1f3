"""Polynomials over atoms: the grammar of a Dim (see the package), its arithmetic and its text."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from math import gcd
from typing import TypeAlias, Union

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
        num, den = (f"({d})" if " " in str(d) else str(d) for d in (self.num, self.den))
        return f"floor({num}/{den})"


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
        if not isinstance(other, int | Poly):
            return NotImplemented
        return _combine(self, other, 1)

    __radd__ = __add__

    def __sub__(self, other: Dim) -> Dim:
        if not isinstance(other, int | Poly):
            return NotImplemented
        return _combine(self, other, -1)

    def __rsub__(self, other: int) -> Dim:
        if not isinstance(other, int | Poly):
            return NotImplemented
        return _combine(other, self, -1)

    def __neg__(self) -> Dim:
        return self * -1

    def __mul__(self, other: Dim) -> Dim:
        if not isinstance(other, int | Poly):
            return NotImplemented
        out: dict[Monomial, int] = {}
        for m1, c1 in terms_of(self).items():
            for m2, c2 in terms_of(other).items():
                mono = tuple(sorted(m1 + m2, key=order)) if m1 and m2 else m1 + m2
                out[mono] = out.get(mono, 0) + c1 * c2
        return polynomial(out)

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floordiv(self, other) if isinstance(other, int | Poly) else NotImplemented

    def __rfloordiv__(self, other: int) -> Dim:
        return floordiv(other, self) if isinstance(other, int) else NotImplemented

    @cached_property
    def text(self) -> str:
        """What str gives: atoms are put in order by it, so it is asked for again and again."""
        parts = []
        terms = sorted(self.terms, key=lambda t: (len(t[0]) == 0, [order(a) for a in t[0]]))
        for mono, c in terms:
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

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


def order(atom: Hashable) -> tuple[str, str, int]:
    """A total order of atoms; the hash tells apart different atoms that print alike."""
    return type(atom).__name__, str(atom), hash(atom)


def terms_of(d: Dim) -> Mapping[Monomial, int]:
    if isinstance(d, Poly):
        return d.coefficients
    return {(): d} if d else {}


def polynomial(terms: Mapping[Monomial, int]) -> Dim:
    kept = {m: c for m, c in terms.items() if c}
    if not kept:
        return 0
    if len(kept) == 1 and () in kept:
        return kept[()]
    return Poly(frozenset(kept.items()))


def _combine(a: Dim, b: Dim, sign: int) -> Dim:
    out = dict(terms_of(a))
    for mono, c in terms_of(b).items():
        out[mono] = out.get(mono, 0) + sign * c
    return polynomial(out)


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
    """floor(a / b): exact where the division has no remainder, an atom otherwise.

    The atom is canonical for a numeric b: its numerator has coefficients in [0, b), and a quotient
    of a quotient is one quotient. A zero b is a ZeroDivisionError.
    """
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    if b == 1 or (a == 0 and b != 0):
        return a
    exact = divide(a, b)
    if exact is not None:
        return exact
    if not isinstance(b, int):
        return atom(Quotient(a, b))
    if b < 0:
        return floordiv(-a, -b)
    if b == 0:
        raise ZeroDivisionError(f"floor(({a})/0)")
    whole = polynomial({m: c // b for m, c in terms_of(a).items()})
    return whole + _quotient(a - whole * b, b)


def _quotient(num: Dim, den: int) -> Dim:
    """floor(num / den) for a numerator whose coefficients lie in [0, den)."""
    if isinstance(num, int):
        return 0
    for mono, c in num.terms:
        if c == 1 and len(mono) == 1 and isinstance(mono[0], Quotient):
            inner, below = mono[0].num, mono[0].den
            if isinstance(below, int) and below >= 1:
                return floordiv((num - atom(mono[0])) * below + inner, below * den)
    common = gcd(den, *(c for m, c in num.terms if m))
    if common > 1:
        return floordiv(polynomial({m: c // common for m, c in num.terms}), den // common)
    return atom(Quotient(num, den))


def divide(a: Dim, b: Dim) -> Dim | None:
    """a / b where it is a polynomial again, else None (exact division of polynomials)."""
    if b == 0:
        return None
    lead, coefficient = min(terms_of(b).items(), key=_rank)
    quotient: Dim = 0
    while a != 0:
        mono, c = min(terms_of(a).items(), key=_rank)
        factor = without(mono, lead)
        if factor is None or c % coefficient:
            return None
        term = polynomial({factor: c // coefficient})
        quotient, a = quotient + term, a - term * b
    return quotient


def _rank(term: tuple[Monomial, int]) -> tuple[int, list[tuple[str, str, int]]]:
    """Sorts the leading term first: by degree, then by atoms (a monomial order)."""
    return -len(term[0]), [order(a) for a in term[0]]


def without(mono: Monomial, factors: Monomial) -> Monomial | None:
    """mono / factors, or None where it does not divide."""
    rest = list(mono)
    for factor in factors:
        if factor not in rest:
            return None
        rest.remove(factor)
    return tuple(rest)


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
    return str(d)
