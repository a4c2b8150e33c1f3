"""Convolutions leave out the terms that lie in their padding, where that changes no bit.

    y[oh] = bias + sum over kh of x[oh + kh - 1] * w[kh], else 0 * w[kh]
        =>  y[0] = bias + sum over kh >= 1, y[last] = bias + sum over kh < 2

A fused step with 0 * w, w finite, leaves each sum but -0, which may become +0, as it is, and a sum
is -0 only where something is rounded to 0. From then on both sums are the same, or both zeros. So
nothing of it is left where what follows adds a number that is not -0, or takes the maximum with
+0. What is known of weights and of that number is looked at here, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import copysign, prod

import numpy as np

from sardonyx.dims import Dim, atom
from sardonyx.kernel.affine import affine, coefficient
from sardonyx.kernel.c99.contract import MOST_ROWS, Contraction, contraction, terms_of
from sardonyx.kernel.c99.edges import Edge, both, taken
from sardonyx.kernel.c99.print_product import MOST_LOOPS, rows_of, runs_of
from sardonyx.kernel.expr import Alu, Axis, Cast, Const, Expr, Fold, Load
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import children, walk
from sardonyx.passes.known import Known, known_to
from sardonyx.passes.pack import is_constant
from sardonyx.passes.program import Launch
from sardonyx.passes.slides import Slide, slide_of
from sardonyx.types import Array, float32

NARROW = 63  # places of the innermost axis: else few of its ends are in a chunk of rows
SHORTEST = 128  # terms of a sum: else what tiles begin and end with is more than is left out
FEWEST = 5  # places of the other axes: else an end is a tile of few rows, which waits for itself


def leave_out(launch: Launch, fold: Fold, x: Load, weights: Mapping[str, Array]) -> Launch | None:
    """The launch whose sum of products, over the guarded load x, leaves out what lies outside; None
    where there is nothing to leave out, or it might show."""
    s = launch.kernel.body[-1]
    if len(launch.kernel.body) != 1 or not isinstance(s, Compute) or not _is_zero(x.default):
        return None
    edges = [e for e in _edges(s, fold, x) if e.lead or e.trail]
    if not edges or not _may(s, fold, x, known_to(launch, weights)):
        return None
    parts = [c for e in edges for c in taken(e)]
    when = both(parts if fold.when is None else [fold.when, *parts])
    given: dict[Expr, Expr] = {fold: Fold(fold.kind, fold.axes, fold.terms, when)}
    made = Compute(s.buffer, s.axes, rewrite(s.expr, given))
    return replace(launch, kernel=replace(launch.kernel, body=(made,)))


def drop_absent(launch: Launch, fold: Fold, x: Load, weights: Mapping[str, Array]) -> Launch:
    """The launch without the terms of its sum of products that lie outside for all places, as those
    of a window that is spread wider than its picture."""
    s = launch.kernel.body[-1]
    if len(launch.kernel.body) != 1 or not isinstance(s, Compute) or not _is_zero(x.default):
        return launch
    found = [slide_of(s, x, d, fold) for d in range(len(x.index))]
    inside = {one.tap: _inside(one) for one in found if one is not None}
    fewer = {tap: n for tap, n in inside.items() if 0 < len(n) != tap.extent}
    if not fewer or fold.when is not None or not _may(s, fold, x, known_to(launch, weights)):
        return launch
    fresh = {tap: Axis(tap.name, len(n)) for tap, n in fewer.items()}
    given: dict[Axis, Expr] = {tap: fresh[tap] + n[0] for tap, n in fewer.items()}
    terms = tuple(rewrite(e, given) for e in fold.terms)
    less: dict[Fold, Expr] = {fold: Fold("dot", tuple(fresh.get(a, a) for a in fold.axes), terms)}
    made = Compute(s.buffer, s.axes, rewrite(s.expr, less))
    return replace(launch, kernel=replace(launch.kernel, body=(made,)))


def _inside(one: Slide) -> range:
    """The taps of a window from the first to the last that lie inside for some place; between them,
    in steps over a picture smaller than these, there may be some that do for none."""
    assert isinstance(one.place.extent, int)
    places = [one.start + one.by * i for i in range(one.place.extent)]
    taps = [
        tap for tap in range(one.taps) if any(0 <= at + one.apart * tap < one.size for at in places)
    ]
    return range(taps[0], taps[-1] + 1) if taps else range(0)


def is_taken(launch: Launch, weights: Mapping[str, Array]) -> bool:
    """Whether register tiles take the launch with its edges."""
    known = known_to(launch, weights)
    body = [s for s in launch.kernel.body if isinstance(s, Compute)]
    found = [contraction(s, a) for s in body for a in s.axes]
    return any(c is not None and is_constant(c.b, known) and _fits(c) for c in found)


def _fits(c: Contraction) -> bool:
    rows = len(rows_of(c)) <= MOST_ROWS
    return bool(c.edges) and rows and len(runs_of(c)) - 1 <= MOST_LOOPS


def _may(s: Compute, fold: Fold, x: Load, known: Known) -> bool:
    """Whether no bit depends on terms of 0: they are integers, or all that x is multiplied with is
    known and finite, and no -0 is left."""
    if fold.kind != "dot" or fold.dtype.is_integer:
        return fold.kind == "dot"
    factors = [e.buffer.root for e in walk(*fold.terms) if isinstance(e, Load) and e is not x]
    finite = all(b in known and np.isfinite(known[b]).all() for b in factors)
    return fold.dtype is float32 and finite and _is_mended(s.expr, fold, known)


def _is_mended(root: Expr, e: Expr, known: Known) -> bool:
    """Whether a zero e has the same effect on root whatever its sign."""
    users = [x for x in walk(root) if any(c is e for c in children(x))]
    if len(users) != 1:
        return False
    match users[0]:
        case Alu("fma", (_, _, c)):
            return c is not e and _is_no_minus(c, known)
        case Alu("add", (a, b)):
            return _is_no_minus(b if a is e else a, known)
        case Alu("max", (a, b)):
            other = b if a is e else a
            return isinstance(other, Const) and copysign(1.0, other.value) > 0
        case Alu("mul") | Cast():
            return _is_mended(root, users[0], known)
    return False


def _is_no_minus(e: Expr, known: Known) -> bool:
    """Whether e is known, and never -0."""
    match e:
        case Const(value):
            return value != 0 or copysign(1.0, value) > 0
        case Load(buffer, _, "proven") if buffer.root in known:
            values = known[buffer.root]
            return not bool((np.signbit(values) & (values == 0)).any())
    return False


def _is_zero(e: Expr | None) -> bool:
    return isinstance(e, Const) and e.value == 0


def _edges(s: Compute, fold: Fold, x: Load) -> list[Edge]:
    """The edges along those axes of s that x moves along together with an axis of the fold."""
    found = []
    for index, size in zip(x.index, x.buffer.shape, strict=True):
        form = affine(index)
        if form is None or isinstance(form, int) or not isinstance(size, int):
            continue
        axes = [a for a in s.axes if coefficient(form, a) != 0]
        terms = [a for a in fold.axes if coefficient(form, a) != 0]
        if len(axes) == 1 and len(terms) == 1:
            found.append(_edge(form, axes[0], terms[0], size))
    whole = [e.axis.extent for e in found if isinstance(e.axis.extent, int)]
    if len(whole) != len(found) or (terms_of(fold) or 0) < SHORTEST:
        return []
    pairs = zip(found, whole, strict=True)
    wide = [(e, n) for e, n in pairs if prod(whole) >= FEWEST * n]
    return [e for e, n in wide if e is not found[-1] or n <= NARROW]


def _edge(form: Dim, axis: Axis, terms: Axis, size: int) -> Edge:
    """How many indices of terms lie below 0 at the first places along axis, and not below size at
    the last: of so many places that the most is left out."""
    by, apart = coefficient(form, axis), coefficient(form, terms)
    n, k = axis.extent, terms.extent
    if not (isinstance(n, int) and isinstance(k, int) and isinstance(by, int)):
        return Edge(axis, terms)
    if not isinstance(apart, int):
        return Edge(axis, terms)
    start = form - by * atom(axis) - apart * atom(terms)
    if not isinstance(start, int) or by < 1 or apart < 1:
        return Edge(axis, terms)
    below = [sum(start + by * i + apart * tap < 0 for tap in range(k)) for i in range(n)]
    above = [sum(start + by * i + apart * tap >= size for tap in range(k)) for i in range(n)]
    for most in (n - 1, n // 2):  # ends that overlap, if a term is left between them
        near = range(1, min(most, k * apart) + 1)
        lead = max(near, key=lambda i: i * below[i - 1], default=0)
        trail = max(near, key=lambda i: i * above[n - i], default=0)
        first, last = (below[lead - 1], above[n - trail]) if near else (0, 0)
        if lead + trail <= n or first + last < k:
            break
    return Edge(axis, terms, lead if first else 0, first, trail if last else 0, last)
