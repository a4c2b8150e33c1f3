"""What holds of Dims whatever their atoms are: extremes, comparisons, proofs; and substitution."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, Union

from sardonyx.dims.poly import (
    Dim,
    Extreme,
    Monomial,
    Quotient,
    Sym,
    atom,
    floordiv,
    order,
    polynomial,
    str_dim,
    symbols,
    terms_of,
    without,
)
from sardonyx.dims.supposed import supposed
from sardonyx.errors import Undetermined


def extreme(kind: str, a: Dim, b: Dim) -> Dim:
    """max(a, b) or min(a, b), decided where it can be (every symbolic dim is at least 1)."""
    pick = max if kind == "max" else min
    if isinstance(a, int) and isinstance(b, int):
        return pick(a, b)
    if at_least(a - b, 0):
        return a if kind == "max" else b
    if at_least(b - a, 0):
        return b if kind == "max" else a
    if isinstance(a, int):
        a, b = b, a
    kept = decided(a - b if kind == "max" else b - a) if isinstance(b, int) else None
    if kept is not None:
        return a if kept else b
    first, second = sorted((a, b), key=str_dim)
    return atom(Extreme(kind, first, second))


def at_least(d: Dim, bound: int) -> bool:
    """Whether d >= bound for all values >= 1 of its symbolic dims; False if unproven."""
    if isinstance(d, int):
        return d >= bound
    return nonnegative(d - bound)


def decided(d: Dim) -> bool | None:
    """Whether d >= 0, where that is proven or the sizes say so that decide here (supposed.py)."""
    if at_least(d, 0):
        return True
    if at_least(-d, 1):
        return False
    now = supposed()
    value = None if now.sizes is None else _put(d, now.sizes)
    if not isinstance(value, int):
        return None
    now.facts += (d if value >= 0 else -d - 1,)
    return value >= 0


STEPS = 600  # of one proof: what takes more counts as unproven
Case: TypeAlias = tuple[Dim, tuple[Dim, ...]]
Bounds: TypeAlias = Callable[[Hashable], tuple[Union[Dim, None], Union[Dim, None]]]
Cases: TypeAlias = Callable[[Hashable], tuple[Case, ...]]


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
    fact off, put a bound for an atom, split an extreme into its cases, relax a quotient. What is
    supposed of sizes (supposed.py) are facts too, where it does not follow without.
    """
    if _Proof(bounds, cases).holds(d, facts, effort):
        return True
    more = supposed().facts
    return bool(more) and _Proof(bounds, cases).holds(d, facts + more, effort)


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
        rest = sorted(_atoms(d), key=lambda a: (a in hidden, not isinstance(a, Quotient)))
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
    return [] if isinstance(d, int) else sorted(d.atoms, key=order)


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
    for mono, c in terms_of(d).items():
        if a not in mono:
            rest[mono] = c
            continue
        left = without(mono, (a,)) or ()
        if a in left:
            return None
        slope[left] = c
    return polynomial(slope), polynomial(rest)


def _without_fact(d: Dim, facts: tuple[Dim, ...]) -> Iterator[tuple[Dim, tuple[Dim, ...]]]:
    """(p * d - q * fact, the other facts) for p >= 1 and q >= 0 that cancel a term of d."""
    for i, fact in enumerate(facts):
        others = facts[:i] + facts[i + 1 :]
        if isinstance(fact, int):
            if fact < 0:
                yield 0, ()
            continue
        for mono, c in terms_of(d).items():
            for m, k in fact.terms:
                left = without(mono, m) if m and c * k > 0 else None
                if left is not None and all(isinstance(a, Sym) for a in left):
                    yield d * abs(k) - polynomial({left: abs(c)}) * fact, others


def evaluate(d: Dim, env: Mapping[str, int]) -> int:
    """The number that d is when each symbolic dim has its value in env."""
    value = _put(d, env)
    if not isinstance(value, int):
        missing = sorted(symbols(value) - set(env))
        raise Undetermined(f"the size {d} needs a value for {', '.join(missing)}")
    return value


def _put(d: Dim, env: Mapping[str, int]) -> Dim:
    return substitute(d, lambda a: env.get(a.name) if isinstance(a, Sym) else None)


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
