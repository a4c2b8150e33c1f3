"""Sums of products that fit the register-tile microkernel, read off their index expressions.

    Compute(y, axes, epilogue(Fold("dot", fold axes, (A, B))))

The innermost output axis, along which y is contiguous, gives the lanes. The operand that depends
on it is B, the other is A. Of the other output axes, those in B only are further N axes, those in
A only (or in neither) M axes, those in both batch axes. B is packed [batch][N/16][K][16], K being
the fold's axes in their order; A is read through affine addresses, one number per pixel and term.
MatMul, Gemm, Conv, attention and recurrent cells are all this one case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sardonyx import types as t
from sardonyx.dims import Dim, atom, product
from sardonyx.kernel.affine import affine, coefficient
from sardonyx.kernel.expr import Axis, Expr, Fold, Load, free_axes, walk
from sardonyx.kernel.ir import Compute

LANES = 16


@dataclass(frozen=True, slots=True)
class Walk:
    """An axis with the steps that A and y take along it, in elements."""

    axes: tuple[Axis, ...]
    extent: Dim
    a: Dim
    y: Dim


@dataclass(frozen=True, slots=True, eq=False)
class Contraction:
    """A Compute as a matrix product: y[batch, m, n] = sum over k of A[batch, m, k] B[batch, k, n].

    origin: the address in A where all axes are 0. k: the fold's axes with A's steps. lanes: the
    innermost output axis; n: the other axes of B alone, outermost first.
    """

    compute: Compute
    fold: Fold
    a: Load
    b: Expr
    origin: Dim
    batch: tuple[Walk, ...]
    m: tuple[Walk, ...]
    n: tuple[Walk, ...]
    lanes: Axis
    k: tuple[Walk, ...]

    @property
    def rows(self) -> Dim:
        """M: how many output pixels or rows each block of lanes has."""
        return product(tuple(w.extent for w in self.m))

    @property
    def terms(self) -> Dim:
        """K: the number of terms of each sum."""
        return product(tuple(w.extent for w in self.k))


def contraction(s: Compute) -> Contraction | None:
    """s as a Contraction, or None where it is not one."""
    folds = [e for e in walk(s.expr) if isinstance(e, Fold)]
    if len(folds) != 1 or not s.axes:
        return None
    (fold,) = folds
    if fold.kind != "dot" or fold.dtype is not t.float32 or fold.when is not None:
        return None
    free = free_axes(*fold.terms)
    lanes = s.axes[-1]
    for a, b in (fold.terms, fold.terms[::-1]):
        if lanes in free[id(b)] and lanes not in free[id(a)] and isinstance(a, Load):
            return _split(s, fold, a, b, free[id(a)], free[id(b)])
    return None


def _split(
    s: Compute, fold: Fold, a: Load, b: Expr, in_a: frozenset[Axis], in_b: frozenset[Axis]
) -> Contraction | None:
    address = flat(a)
    if a.mode != "proven" or a.dtype is not t.float32 or address is None:
        return None
    steps = _steps(s)
    groups: dict[str, list[Walk]] = {"batch": [], "m": [], "n": []}
    for axis in s.axes[:-1]:
        along = coefficient(address, axis)
        if along is None:
            return None
        kind = "m" if axis not in in_b else "batch" if axis in in_a else "n"
        groups[kind].append(Walk((axis,), axis.extent, along, steps[axis]))
    k = []
    for axis in fold.axes:
        along = coefficient(address, axis)
        if along is None:
            return None
        k.append(Walk((axis,), axis.extent, along, 0))
    origin = _origin(address, (*s.axes, *fold.axes))
    return Contraction(
        s, fold, a, b, origin, tuple(groups["batch"]), tuple(_merged(groups["m"])),
        tuple(groups["n"]), s.axes[-1], tuple(k),
    )  # fmt: skip


def flat(load: Load) -> Dim | None:
    """The row-major address of a load, in elements, as an affine form."""
    total: Dim = 0
    for index, size in zip(load.index, load.buffer.shape, strict=True):
        form = affine(index)
        if form is None:
            return None
        total = total * size + form
    return total


def _steps(s: Compute) -> Mapping[Axis, Dim]:
    """How far apart in y neighbours along each axis lie."""
    steps: dict[Axis, Dim] = {}
    step: Dim = 1
    for axis in reversed(s.axes):
        steps[axis] = step
        step = step * axis.extent
    return steps


def _origin(address: Dim, axes: Sequence[Axis]) -> Dim:
    rest = address
    for axis in axes:
        along = coefficient(address, axis)
        if along is not None:
            rest = rest - along * atom(axis)
    return rest


def _merged(walks: Sequence[Walk]) -> list[Walk]:
    """Neighbouring axes as one, where A and y step through both evenly."""
    out: list[Walk] = []
    for walk_ in walks:
        if walk_.extent == 1:
            continue
        if out:
            last = out[-1]
            if last.a == walk_.a * walk_.extent and last.y == walk_.y * walk_.extent:
                out[-1] = Walk(
                    (*last.axes, *walk_.axes), last.extent * walk_.extent, walk_.a, walk_.y
                )
                continue
        out.append(walk_)
    return out
