"""Output axes as steps and phases: what depends on i // s and i % s becomes two axes.

    y[.., i] = sum over c of X[c, i // s] * W[c, i % s]
 -> y[.., q, p] = sum over c of X[c, q] * W[c, p]

A transposed convolution whose windows do not overlap is then a product of matrices like any other:
p belongs to W alone, q to X alone. A choice by the phase becomes loops (choices.py). The output is
the same bytes under another shape.
"""

from __future__ import annotations

from dataclasses import replace

from sardonyx.dims import Dim, divide
from sardonyx.kernel.expr import Alu, Axis, Buffer, Const, Expr, Fold, Where, walk
from sardonyx.kernel.ir import Compute, Stmt
from sardonyx.kernel.rewrite import rewrite
from sardonyx.passes.patches import transform_in
from sardonyx.passes.program import Launch, Program


def split_phases(program: Program) -> Program:
    """Sums of products over steps and phases, and choices by phases."""
    return replace(program, launches=tuple(map(_launch, program.launches)))


def _launch(launch: Launch) -> Launch:
    if transform_in(launch.kernel) is not None:
        return launch  # passes/tiles.py takes these phases
    body = tuple(map(_statement, launch.kernel.body))
    if all(a is b for a, b in zip(body, launch.kernel.body, strict=True)):
        return launch
    return replace(launch, kernel=replace(launch.kernel, body=body))


def _statement(s: Stmt) -> Stmt:
    if not isinstance(s, Compute):
        return s
    phases = _phases(s)
    if not phases:
        return s
    axes: list[Axis] = []
    given: dict[Axis, Expr] = {}
    for axis in s.axes:
        if axis not in phases:
            axes.append(axis)
            continue
        size, count = phases[axis]
        pair = (Axis(f"{axis.name}q", count), Axis(f"{axis.name}p", size))
        axes += pair
        given[axis] = pair[0] * size + pair[1]
    shape = tuple(a.extent for a in axes)
    target = Buffer(s.buffer.name, s.buffer.dtype, shape, base=s.buffer.root)
    return Compute(target, tuple(axes), rewrite(s.expr, given))


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
