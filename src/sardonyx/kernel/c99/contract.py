"""Sums of products that fit the register-tile microkernel, read off their index expressions.

    Compute(y, axes, epilogue(Fold("dot", fold axes, (A, B))))

One output axis gives the lanes. The operand that depends on it is B, the other is A. Of the other
output axes, those in B only are further N axes, those in A only (or in neither) M axes, those in
both batch axes. B is packed [batch][N/16][K][16], K being
the fold's axes in their order; A is read through affine addresses, one number per pixel and term.
MatMul, Gemm, Conv, attention and recurrent cells are all this one case.

Factors are float32 or float64, or integers widened to int32: int16 both, or A of uint8 and B of
int8, mostly within LIMIT, so that a pair of products fits int16. Of these two or four terms are
taken at a time, neighbours in A along the innermost of the fold's axes; B is packed
[batch][N/16][K/2][16][2] or [batch][N/16][K/4][16][4].
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from math import prod

from sardonyx import types as t
from sardonyx.dims import Dim, atom, product
from sardonyx.kernel.affine import affine, coefficient, position
from sardonyx.kernel.c99.edges import Edge, without_edges
from sardonyx.kernel.expr import Alu, Axis, Cast, Const, Expr, Fold, Load, alu, cast
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.walk import children, free_axes, walk
from sardonyx.types import DType

LANES = 16
MOST_ROWS = 3  # axes of rows that sx_contract walks
LIMIT = 64  # 2 * 255 * LIMIT fits int16
WHOLE = 128  # all of int8


# Of A and B, and how many terms are taken at a time.
KINDS = {
    (t.float32, t.float32): 1,
    (t.float64, t.float64): 1,
    (t.int16, t.int16): 2,
    (t.uint8, t.int8): 4,
}


@dataclass(frozen=True, slots=True)
class Walk:
    """An axis, or neighbours as one, with the step that A takes along it, in elements."""

    axes: tuple[Axis, ...]
    extent: Dim
    a: Dim


@dataclass(frozen=True, slots=True, eq=False)
class Contraction:
    """A Compute as a matrix product: y[batch, m, n] = sum over k of A[batch, m, k] B[batch, k, n].

    origin: the address in A where all axes are 0. k: the fold's axes with A's steps. n: the other
    axes of B alone, outermost first. tail: how many terms the innermost of the fold's axes has
    under the last index of the outermost, where the fold's predicate cuts it (channels that do not
    fill their last block). around: the loops around the Compute that A's address depends on.
    edges: of axes of rows, which leave out terms at their ends.
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
    tail: int | None = None
    around: tuple[Walk, ...] = ()
    edges: tuple[Edge, ...] = ()

    @property
    def rows(self) -> Dim:
        """M: how many output pixels or rows each block of lanes has."""
        return product(tuple(w.extent for w in self.m))

    @property
    def pair(self) -> int | None:
        """Which of the fold's axes is taken several at a time, if the factors are integers."""
        return pair_of(self.fold)

    @property
    def at_once(self) -> int:
        """How many terms are taken at a time."""
        return KINDS[self.a.dtype, self.b.dtype]

    @property
    def terms(self) -> Dim:
        """K: the number of terms of each sum."""
        return product(tuple(w.extent for w in self.k))


def contraction(s: Compute, lanes: Axis) -> Contraction | None:
    """s as a Contraction with these lanes, or None where it is not one."""
    folds = [e for e in walk(s.expr) if isinstance(e, Fold)]
    if len(folds) != 1 or folds[0].kind != "dot":
        return None
    (fold,) = folds
    terms = factors(fold)
    if terms is None:
        return None
    when, edges = without_edges(fold.when)
    tail = None if when is None else tail_of(fold, when)
    if when is not None and tail is None:
        return None
    free = free_axes(*terms)
    for a, b in (terms, terms[::-1]):
        if lanes in free[id(b)] and lanes not in free[id(a)] and isinstance(a, Load):
            c = _split(s, lanes, fold, (a, b), (free[id(a)], free[id(b)]), tail)
            return c if c is None or not edges else _with_edges(c, edges)
    return None


def factors(fold: Fold) -> tuple[Expr, ...] | None:
    """The factors of a sum of products in the type that they are stored in: float32, float64,
    int16, or uint8 and int8."""
    if fold.dtype in (t.float32, t.float64):
        return fold.terms
    if fold.dtype is not t.int32:
        return None
    found = [_narrow(x) for x in fold.terms]
    return None if None in found else tuple(x for x in found if x is not None)


def _narrow(x: Expr) -> Expr | None:
    match x:
        case Cast(y) if y.dtype in (t.int16, t.uint8):
            return y
        case Alu("max", (Alu("min", (Cast(y), Const(high, _)), _), Const(low, _)), _):
            within = low == -high and high in (LIMIT, WHOLE)
            return y if y.dtype is t.int8 and within else None
    return None


def widened(x: Expr, dtype: DType, limit: int = LIMIT) -> Expr:
    """A factor as it stands in a fold; int8 says its limit."""
    if x.dtype is not t.int8:
        return cast(x, dtype)
    return alu("max", alu("min", cast(x, dtype), limit), -limit)


def limit_of(fold: Fold) -> int:
    """The limit that a fold's factor of int8 says."""
    ends = [x.value for e in fold.terms for x in children(e) if isinstance(x, Const)]
    return WHOLE if -WHOLE in ends else LIMIT


def is_multiple(extent: Dim, n: int) -> bool:
    """Whether an extent is known to be a multiple of n."""
    return isinstance(extent, int) and extent % n == 0


def pair_of(fold: Fold) -> int | None:
    """The innermost of a fold's axes with more than one point, if its factors are integers."""
    if fold.dtype is not t.int32:
        return None
    large = [i for i, axis in enumerate(fold.axes) if axis.extent != 1]
    return large[-1] if large else len(fold.axes) - 1


def terms_of(fold: Fold) -> int | None:
    """How many terms are taken, less those `when` leaves out of the last run (edges are not
    counted); None where that is not known."""
    extents = [axis.extent for axis in fold.axes]
    sizes = [n for n in extents if isinstance(n, int)]
    if len(sizes) != len(extents):
        return None
    when, _ = without_edges(fold.when)
    if when is None:
        return prod(sizes)
    tail, run = tail_of(fold, when), sizes[-1]
    return None if tail is None else prod(sizes[1:-1]) * (run * (sizes[0] - 1) + tail)


def tail_of(fold: Fold, when: Expr) -> int | None:
    """The length of the last run, where `when` is outer * n + inner < limit over the fold's first
    and last axes, and cuts into the last run alone."""
    first, last = fold.axes[0], fold.axes[-1]
    if not (isinstance(when, Alu) and when.op == "lt" and first is not last):
        return None
    form, limit = affine(when.args[0]), affine(when.args[1])
    n, blocks = last.extent, first.extent
    if not (isinstance(limit, int) and isinstance(n, int) and isinstance(blocks, int)):
        return None
    if form != atom(first) * n + atom(last) or not n * (blocks - 1) < limit < n * blocks:
        return None
    return limit - n * (blocks - 1)


def _split(
    s: Compute,
    lanes: Axis,
    fold: Fold,
    terms: tuple[Load, Expr],
    free: tuple[frozenset[Axis], frozenset[Axis]],
    tail: int | None,
) -> Contraction | None:
    (a, b), (in_a, in_b) = terms, free
    address = flat(a)
    if a.mode != "proven" or (a.dtype, b.dtype) not in KINDS or address is None:
        return None
    groups: dict[str, list[Walk]] = {"batch": [], "m": [], "n": []}
    for axis in (x for x in s.axes if x is not lanes):
        along = coefficient(address, axis)
        if along is None:
            return None
        kind = "m" if axis not in in_b else "batch" if axis in in_a else "n"
        groups[kind].append(Walk((axis,), axis.extent, along))
    k = []
    for axis in fold.axes:
        along = coefficient(address, axis)
        if along is None:
            return None
        k.append(Walk((axis,), axis.extent, along))
    if next((w.a for w in reversed(k) if w.extent != 1), 1) == 0:
        return None  # tiles tell the end of a run by its place in A
    pair = pair_of(fold)
    if pair is not None and k[pair].extent != 1 and k[pair].a != 1:
        return None
    around = []
    for axis in in_a - {*s.axes, *fold.axes}:
        along = coefficient(address, axis)
        if along is None:
            return None
        around.append(Walk((axis,), axis.extent, along))
    origin = _origin(address, (*s.axes, *fold.axes, *(w.axes[0] for w in around)))
    return Contraction(
        s, fold, a, b, origin, tuple(groups["batch"]), tuple(groups["m"]),
        tuple(groups["n"]), lanes, tuple(k), tail, tuple(sorted(around, key=str)),
    )  # fmt: skip


def _with_edges(c: Contraction, edges: tuple[Edge, ...]) -> Contraction | None:
    rows = {w.axes[0] for w in c.m}
    apart = [a for i, a in enumerate(c.fold.axes) if i != c.pair]
    fits = all(e.axis in rows and e.terms in apart for e in edges)
    return replace(c, edges=edges) if fits else None


def flat(load: Load) -> Dim | None:
    """The row-major address of a load, in elements, as an affine form."""
    return position(load.index, load.buffer.shape)


def _origin(address: Dim, axes: Sequence[Axis]) -> Dim:
    rest = address
    for axis in axes:
        along = coefficient(address, axis)
        if along is not None:
            rest = rest - along * atom(axis)
    return rest


def merged(walks: Sequence[Walk], apart: Collection[Axis] = ()) -> list[Walk]:
    """Neighbouring axes as one, where A steps through both evenly; without those of extent 1.
    apart: axes that stay by themselves."""
    return [w for w, _ in merged_with([(w, ()) for w in walks], apart)]


def merged_with(
    walks: Sequence[tuple[Walk, tuple[Dim, ...]]], apart: Collection[Axis] = ()
) -> list[tuple[Walk, tuple[Dim, ...]]]:
    """The same of axes with their steps in other tensors, which are to be even there too."""
    out: list[tuple[Walk, tuple[Dim, ...]]] = []
    for w, others in walks:
        if w.extent == 1:
            continue
        if out and not any(a in apart for a in (*out[-1][0].axes, *w.axes)):
            last, before = out[-1]
            if [last.a, *before] == [step * w.extent for step in (w.a, *others)]:
                w = Walk((*last.axes, *w.axes), last.extent * w.extent, w.a)
                out.pop()
        out.append((w, others))
    return out
