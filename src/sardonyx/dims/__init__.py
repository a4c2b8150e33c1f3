"""Sizes: an int, or a polynomial over symbolic dims.

    Dim  = int | Poly
    Poly = sum of coefficient * product of atoms
    atom = Sym(name)                  a symbolic dim of the model, an integer >= 1
         | Quotient(num, den)         floor(num / den), den >= 1
         | Extreme(kind, a, b)        max or min of two Dims

Arithmetic is exact and keeps a canonical form, so equal polynomials are equal objects by ``==``.
Anything else that hashes by identity may serve as an atom (the verifier uses kernel axes).
"""

from sardonyx.dims.bounded import greatest
from sardonyx.dims.poly import (
    Dim,
    Extreme,
    Monomial,
    Poly,
    Quotient,
    Sym,
    atom,
    divide,
    floordiv,
    product,
    str_dim,
    symbol,
    symbols,
)
from sardonyx.dims.proof import (
    Bounds,
    Case,
    Cases,
    at_least,
    decided,
    evaluate,
    extreme,
    nonnegative,
    substitute,
)
from sardonyx.dims.supposed import supposing

__all__ = [
    "Bounds",
    "Case",
    "Cases",
    "Dim",
    "Extreme",
    "Monomial",
    "Poly",
    "Quotient",
    "Sym",
    "at_least",
    "atom",
    "decided",
    "divide",
    "evaluate",
    "extreme",
    "floordiv",
    "greatest",
    "nonnegative",
    "product",
    "str_dim",
    "substitute",
    "supposing",
    "symbol",
    "symbols",
]
