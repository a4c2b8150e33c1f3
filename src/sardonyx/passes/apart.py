"""Results that have nothing to do with one another become launches of their own.

    y, z = Split(x)   =>   y = x[:, :n];  z = x[:, n:]

Each part may then vanish into what reads it, has the layout that suits it, and is not copied where
nothing needs it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sardonyx.kernel.expr import is_move
from sardonyx.kernel.ir import Compute
from sardonyx.passes.constants import drop_unused
from sardonyx.passes.program import Launch, Program


def part_results(program: Program) -> Program:
    """The program with a launch for each result of what only moves elements."""
    launches = tuple(part for launch in program.launches for part in _parts(launch))
    return drop_unused(replace(program, launches=launches))


def _parts(launch: Launch) -> Iterator[Launch]:
    kernel = launch.kernel
    made = {s.buffer: s for s in kernel.body if isinstance(s, Compute) and is_move(s.expr)}
    whole = len(made) == len(kernel.body) and set(made) == set(kernel.outputs)
    if len(made) < 2 or kernel.views or not whole:
        yield launch
        return
    for name, out in zip(launch.writes, kernel.outputs, strict=True):
        own = replace(kernel, outputs=(out,), body=(made[out],))
        yield replace(launch, kernel=own, writes=(name,))
