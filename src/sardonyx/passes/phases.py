"""Output axes as steps and phases: what depends on i // s and i % s becomes two axes.

    y[.., i] = sum over c of X[c, i // s] * W[c, i % s]
 -> y[.., q, p] = sum over c of X[c, q] * W[c, p]

A transposed convolution whose windows do not overlap is then a product of matrices like any other:
p belongs to W alone, q to X alone. A choice by the phase becomes loops (choices.py). The output is
the same bytes under another shape.

Of a single filter the phases of all axes are the lanes of one sum, and are put in their places by a
second statement:

    t[.., q, r, (p, o)] = sum over c of X[c, q, r] * W[c, p, o];
        y[.., q, p, r, o] = t[.., q, r, (p, o)]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

from sardonyx import types as t
from sardonyx.dims import Dim, divide, product
from sardonyx.kernel.c99.contract import LANES
from sardonyx.kernel.expr import Alu, Axis, Buffer, Const, Expr, Fold, Load, Where, lift
from sardonyx.kernel.ir import Compute, Stmt
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import free_axes, walk
from sardonyx.passes.patches import transform_in
from sardonyx.passes.program import Launch, Program

LEAST = 4  # phases that are worth lanes of their own


def split_phases(program: Program) -> Program:
    """Sums of products over steps and phases, and choices by phases."""
    return replace(program, launches=tuple(map(_launch, program.launches)))


def _launch(launch: Launch) -> Launch:
    if transform_in(launch.kernel) is not None:
        return launch  # passes/tiles.py takes these phases
    body, made = list[Stmt](), list[Buffer]()
    for s in launch.kernel.body:
        found = _statements(s)
        body += found
        made += [x.buffer for x in found[:-1] if isinstance(x, Compute)]
    if all(x in launch.kernel.body for x in body):
        return launch
    temporaries = (*launch.kernel.temporaries, *made)
    kernel = replace(launch.kernel, body=tuple(body), temporaries=temporaries)
    return replace(launch, kernel=kernel)


def _statements(s: Stmt) -> list[Stmt]:
    phases = _phases(s) if isinstance(s, Compute) else {}
    if not isinstance(s, Compute) or not phases:
        return [s]
    pairs = {
        axis: (Axis(f"{axis.name}q", count), Axis(f"{axis.name}p", size))
        for axis, (size, count) in phases.items()
    }
    axes = tuple(a for axis in s.axes for a in pairs.get(axis, (axis,)))
    shape = tuple(a.extent for a in axes)
    target = Buffer(s.buffer.name, s.buffer.dtype, shape, base=s.buffer.root)
    joined = _joined(s, pairs)
    if joined is not None:
        parts = [p for _, p in pairs.values()]
        lane = reduce(lambda e, p: e * p.extent + p, parts[1:], lift(0) + parts[0])
        index = tuple(pairs[a][0] if a in pairs else a for a in s.axes)
        return [joined, Compute(target, axes, Load(joined.buffer, (*index, lane)))]
    given: dict[Axis, Expr] = {a: q * p.extent + p for a, (q, p) in pairs.items()}
    return [Compute(target, axes, rewrite(s.expr, given))]


def _joined(s: Compute, pairs: Mapping[Axis, tuple[Axis, Axis]]) -> Compute | None:
    """The sums of a single filter with the phases of several axes as one last axis; None where the
    lanes of a filter, or of one axis, are as good."""
    sizes = [p.extent for _, p in pairs.values()]
    folds = [e for e in walk(s.expr) if isinstance(e, Fold)]
    lanes = product(tuple(sizes))
    few = isinstance(lanes, int) and LEAST <= lanes <= LANES
    if len(sizes) < 2 or not few or len(folds) != 1 or s.buffer.dtype is not t.float32:
        return None
    lane, given, rest = Axis("p", lanes), dict[Expr, Expr](), lanes
    for axis, (q, p) in pairs.items():
        rest = divide(rest, p.extent) or 1
        for e in walk(s.expr):
            if isinstance(e, Alu) and e.op in ("idiv", "imod") and e.args[0] is axis:
                given[e] = q if e.op == "idiv" else lane // rest % p.extent
    e = rewrite(s.expr, given)
    axes = (*(pairs[a][0] if a in pairs else a for a in s.axes), lane)
    free = free_axes(e)
    terms = [free[id(x)] for f in walk(e) if isinstance(f, Fold) for x in f.terms]
    own = frozenset(a for a in axes if a.extent != 1)
    weights = [axes_in & own for axes_in in terms if lane in axes_in]
    if free[id(e)] & set(pairs) or weights != [{lane}]:
        return None
    return Compute(Buffer("phases", s.buffer.dtype, tuple(a.extent for a in axes)), axes, e)


def _phases(s: Compute) -> dict[Axis, tuple[int, Dim]]:
    """The axes on whose quotients and remainders a sum of products or a choice depends: how many
    phases, how many steps."""
    found: dict[Axis, tuple[int, Dim]] = {}
    inner = [x for e in walk(s.expr) if isinstance(e, Fold) and e.kind == "dot" for x in e.terms]
    inner += [e.cond for e in walk(s.expr) if isinstance(e, Where)]
    for e in walk(*inner):
        match e:
            case Alu("idiv" | "imod", (Axis() as axis, Const(size, _)), _) if axis in s.axes:
                count = divide(axis.extent, int(size))
                if count is None or found.setdefault(axis, (int(size), count))[0] != size:
                    return {}
    return found
