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

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, reduce
from math import gcd
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
        for m1, c1 in _terms(self).items():
            for m2, c2 in _terms(other).items():
                mono = tuple(sorted(m1 + m2, key=_order)) if m1 and m2 else m1 + m2
                out[mono] = out.get(mono, 0) + c1 * c2
        return _poly(out)

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floordiv(self, other) if isinstance(other, int | Poly) else NotImplemented

    def __rfloordiv__(self, other: int) -> Dim:
        return floordiv(other, self) if isinstance(other, int) else NotImplemented

    def __str__(self) -> str:
        return str_dim(self)

    __repr__ = __str__


def _order(atom: Hashable) -> tuple[str, str, int]:
    """A total order of atoms; the hash tells apart different atoms that print alike."""
    return type(atom).__name__, str(atom), hash(atom)


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
    whole = _poly({m: c // b for m, c in _terms(a).items()})
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
        return floordiv(_poly({m: c // common for m, c in num.terms}), den // common)
    return atom(Quotient(num, den))


def divide(a: Dim, b: Dim) -> Dim | None:
    """a / b where it is a polynomial again, else None (exact division of polynomials)."""
    if b == 0:
        return None
    lead, coefficient = min(_terms(b).items(), key=_rank)
    quotient: Dim = 0
    while a != 0:
        mono, c = min(_terms(a).items(), key=_rank)
        factor = _without(mono, lead)
        if factor is None or c % coefficient:
            return None
        term = _poly({factor: c // coefficient})
        quotient, a = quotient + term, a - term * b
    return quotient


def _rank(term: tuple[Monomial, int]) -> tuple[int, list[tuple[str, str, int]]]:
    """Sorts the leading term first: by degree, then by atoms (a monomial order)."""
    return -len(term[0]), [_order(a) for a in term[0]]


def _without(mono: Monomial, factors: Monomial) -> Monomial | None:
    """mono / factors, or None where it does not divide."""
    rest = list(mono)
    for factor in factors:
        if factor not in rest:
            return None
        rest.remove(factor)
    return tuple(rest)


def extreme(kind: str, a: Dim, b: Dim) -> Dim:
    """max(a, b) or min(a, b), decided where it can be (every symbolic dim is at least 1)."""
    pick = max if kind == "max" else min
    if isinstance(a, int) and isinstance(b, int):
        return pick(a, b)
    if at_least(a - b, 0):
        return a if kind == "max" else b
    if at_least(b - a, 0):
        return b if kind == "max" else a
    first, second = sorted((a, b), key=str_dim)
    return atom(Extreme(kind, first, second))


def at_least(d: Dim, bound: int) -> bool:
    """Whether d >= bound for all values >= 1 of its symbolic dims; False if unproven."""
    if isinstance(d, int):
        return d >= bound
    return nonnegative(d - bound)


STEPS = 600  # of one proof: what takes more counts as unproven
Bounds: TypeAlias = Callable[[Hashable], tuple["Dim | None", "Dim | None"]]
Cases: TypeAlias = Callable[[Hashable], "tuple[Case, ...]"]
Case: TypeAlias = tuple["Dim", tuple["Dim", ...]]


def _no_bounds(a: Hashable) -> tuple[Dim | None, Dim | None]:
    return (None, None)


def _no_cases(a: Hashable) -> tuple[Case, ...]:
    return ()


def nonnegative(
    d: Dim,
    facts: tuple[Dim, ...] = (),
    bounds: Bounds = _no_bounds,
    cases: Cases = _no_cases,
    effort: int = 8,
) -> bool:
    """Whether d >= 0 follows, where each of `facts` is >= 0; False if unproven.

    `bounds` gives [lo, hi] of an atom that dims do not know (a kernel's axis); `cases` gives the
    values that an atom may have, each with the facts that hold then. The steps, in order: take a
    fact off, put a bound for an atom, split an extreme into its cases, relax a quotient.
    """
    return _Proof(bounds, cases).holds(d, facts, effort)


@dataclass(frozen=True, slots=True)
class _Proof:
    bounds: Bounds
    cases: Cases
    steps: Iterator[int] = field(default_factory=lambda: iter(range(STEPS)))

    def holds(self, d: Dim, facts: tuple[Dim, ...], effort: int) -> bool:
        if self.evident(d):
            return True
        if effort <= 0 or next(self.steps, None) is None:
            return False
        if any(self.holds(x, f, effort - 3) for x, f in _without_fact(d, facts)):
            return True
        hidden = _hidden(d)
        plain = [a for a in _atoms(d) if a not in hidden and not isinstance(a, Quotient)]
        if any(self.holds(x, facts, effort - 1) for x in self._relaxed(d, plain, facts, effort)):
            return True
        for a in _atoms(d):
            cases = _extreme_cases(a) or self.cases(a)
            if cases:
                return all(self._case(d, facts, effort, a, c) for c in cases)
        rest = sorted(_atoms(d), key=lambda a: not isinstance(a, Quotient))
        return any(self.holds(x, facts, effort - 1) for x in self._relaxed(d, rest, facts, effort))

    def evident(self, d: Dim) -> bool:
        """Whether every term is >= 0 once each atom is counted from its least number."""
        if isinstance(d, int):
            return d >= 0
        least = {a: self._least(a) for a in d.atoms}
        if not any(least.values()):
            return None not in least.values() and all(c > 0 for _, c in d.terms)
        moved = substitute(d, lambda a: atom(a) + (least[a] or 0))
        if isinstance(moved, int):
            return moved >= 0
        known = all(least.get(a) is not None for a in moved.atoms)
        return known and all(c > 0 for _, c in moved.terms)

    def _least(self, a: Hashable) -> int | None:
        """A number that atom a is never below, or None."""
        match a:
            case Sym():
                return 1
            case Quotient(num, int(den)) if den >= 1:
                low = self._lowest(num)
                return None if low is None else low // den
            case Quotient(num, den):
                return 0 if self.evident(num) and self.evident(den - 1) else None
            case Extreme(kind, x, y):
                lows = [v for v in (self._lowest(x), self._lowest(y)) if v is not None]
                if kind == "max":
                    return max(lows, default=None)
                return min(lows) if len(lows) == 2 else None
        known = self.bounds(a)[0]
        return known if isinstance(known, int) else None

    def _lowest(self, d: Dim) -> int | None:
        """A number that d is never below where its terms grow with their atoms, or None."""
        if isinstance(d, int):
            return d
        total = 0
        for mono, c in d.terms:
            for a in mono:
                least = self._least(a)
                if least is None or least < 0 or c < 0:
                    return None
                c *= least
            total += c
        return total

    def _case(self, d: Dim, facts: tuple[Dim, ...], effort: int, a: Hashable, case: Case) -> bool:
        def put(x: Hashable) -> Dim | None:
            return case[0] if x == a else None

        kept = tuple(substitute(f, put) for f in facts) + case[1]
        return self.holds(substitute(d, put), kept, effort - 1)

    def _relaxed(
        self, d: Dim, atoms: list[Hashable], facts: tuple[Dim, ...], effort: int
    ) -> Iterator[Dim]:
        """A dim that is >= 0 only if d is, without the first of the atoms that allows it."""
        for a in atoms:
            parts = None if isinstance(a, Sym) else _linear(d, a)
            if parts is None:
                continue
            slope, rest = parts
            sign = self._sign(slope, facts, effort)
            if sign == 0:
                continue
            if isinstance(a, Quotient):
                if self.evident(a.den - 1):
                    top = a.num if sign < 0 else a.num - a.den + 1
                    yield slope * top + (rest + 1) * a.den - 1
                    return
                continue
            end = self.bounds(a)[0 if sign > 0 else 1]
            if end is not None:
                yield slope * end + rest
                return

    def _sign(self, d: Dim, facts: tuple[Dim, ...], effort: int) -> int:
        if isinstance(d, int):
            return 1 if d > 0 else -1
        if self.evident(d) or self.holds(d, facts, effort // 2 - 1):
            return 1
        return -1 if self.evident(-d) or self.holds(-d, facts, effort // 2 - 1) else 0


def _atoms(d: Dim) -> list[Hashable]:
    return [] if isinstance(d, int) else sorted(d.atoms, key=_order)


def _hidden(d: Dim) -> frozenset[Hashable]:
    """The atoms that stand inside a quotient or extreme of d."""
    found: set[Hashable] = set()
    for a in _atoms(d):
        match a:
            case Quotient(x, y) | Extreme(_, x, y):
                found.update(*map(_atoms, (x, y)), _hidden(x), _hidden(y))
    return frozenset(found)


def _extreme_cases(a: Hashable) -> tuple[Case, ...]:
    if not isinstance(a, Extreme):
        return ()
    gap = a.a - a.b if a.kind == "max" else a.b - a.a
    return (a.a, (gap,)), (a.b, (-gap,))


def _linear(d: Dim, a: Hashable) -> tuple[Dim, Dim] | None:
    """(slope, rest) with d == slope * a + rest; None where a occurs squared or inside an atom."""
    slope: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for mono, c in _terms(d).items():
        if a not in mono:
            rest[mono] = c
            continue
        left = _without(mono, (a,)) or ()
        if a in left:
            return None
        slope[left] = c
    return _poly(slope), _poly(rest)


def _without_fact(d: Dim, facts: tuple[Dim, ...]) -> Iterator[tuple[Dim, tuple[Dim, ...]]]:
    """(p * d - q * fact, the other facts) for p >= 1 and q >= 0 that cancel a term of d."""
    for i, fact in enumerate(facts):
        others = facts[:i] + facts[i + 1 :]
        if isinstance(fact, int):
            if fact < 0:
                yield 0, ()
            continue
        for mono, c in _terms(d).items():
            for m, k in fact.terms:
                left = _without(mono, m) if m and c * k > 0 else None
                if left is not None and all(isinstance(a, Sym) for a in left):
                    yield d * abs(k) - _poly({left: abs(c)}) * fact, others


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
