"""Steps of recurrent networks that no sequence has are left out.

    For step:                                    For step:
      P, H, C                                      If any of the rows has the step:
      For n: For j: If step < lengths[n]: ..  =>     P, H, C, For n: ..

A step that a row has not stores nothing of it, and what it computes is of no use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sardonyx.kernel.expr import Axis, Expr, Fold, Load
from sardonyx.kernel.ir import Compute, For, If, Kernel, Stmt, expressions, statements
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import free_axes, walk
from sardonyx.passes.program import Launch, Program


def end_early(program: Program) -> Program:
    """The program whose recurrent networks of sequences with lengths end with the longest."""
    return replace(program, launches=tuple(map(_launch, program.launches)))


def _launch(launch: Launch) -> Launch:
    kernel = launch.kernel
    body = tuple(_stmt(s, kernel) for s in kernel.body)
    return launch if body == kernel.body else replace(launch, kernel=replace(kernel, body=body))


def _stmt(s: Stmt, kernel: Kernel) -> Stmt:
    """A loop over steps, or over blocks of rows around one."""
    if not isinstance(s, For):
        return s
    active = _active(s)
    if active is not None and _is_own(s, kernel):
        return replace(s, body=(If(active, s.body),))
    inner = tuple(_stmt(x, kernel) for x in s.body)
    return s if inner == s.body else replace(s, body=inner)


def _active(loop: For) -> Expr | None:
    """Whether any row has the step, where all that a step stores is stored of rows that have it."""
    conditions = [_condition(s) for s in loop.body if not isinstance(s, Compute)]
    if len(conditions) != 1 or conditions[0] is None:
        return None
    cond, rows = conditions[0]
    if loop.axis not in free_axes(cond)[id(cond)] or not rows:
        return None
    own = {a: Axis(f"{a.name}_any", a.extent) for a in rows}
    return Fold("or", tuple(own.values()), (rewrite(cond, own),), None)


def _condition(s: Stmt) -> tuple[Expr, Sequence[Axis]] | None:
    """The condition of all that loops store, and those of their axes that it depends on."""
    axes = []
    while isinstance(s, For) and len(s.body) == 1:
        axes.append(s.axis)
        (s,) = s.body
    if not isinstance(s, If) or s.otherwise or any(isinstance(x, Compute) for x in s.then):
        return None
    free = free_axes(s.cond)[id(s.cond)]
    return s.cond, [a for a in axes if a in free]


def _is_own(loop: For, kernel: Kernel) -> bool:
    """Whether what a step computes has no effect but by what the step stores."""
    computed = [s for s in loop.body if isinstance(s, Compute)]
    inner = set(statements((loop,)))
    outer = [e for s in statements(kernel.body) if s not in inner for e in expressions(s)]
    read = {e.buffer.root for e in _loads(outer)}
    traps = any(e.mode == "trap" for e in _loads([s.expr for s in computed]))
    return not traps and {s.buffer for s in computed} <= set(kernel.temporaries) - read


def _loads(found: Sequence[Expr]) -> list[Load]:
    return [e for e in walk(*found) if isinstance(e, Load)]
