"""Results that have nothing to do with one another become launches of their own.

    y, z = Split(x)         =>   y = x[:, :n];  z = x[:, n:]
    y = ConvTranspose(x)    =>   a, b, ... = a convolution for each phase;  y = a and b in turn
    y = QLinearConcat(x)    =>   a, b, ... = each part, quantised anew;  y = a behind b

Each part may then vanish into what reads it, has the layout that suits it, and is not copied where
nothing needs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sardonyx.kernel.expr import Fold, Iterate, Where
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.walk import is_move, walk
from sardonyx.passes.constants import drop_unused
from sardonyx.passes.program import Launch, Program, by_launch, by_statement
from sardonyx.types import Array, TensorType


def part_results(program: Program) -> Program:
    """The program with a launch for each result of what only moves elements, for each convolution
    of what has several, and for each part of what is computed before it is joined."""
    return drop_unused(by_launch(program, _parts))


def _parts(launch: Launch, tensors: dict[str, TensorType], _: dict[str, Array]) -> Iterator[Launch]:
    kernel = launch.kernel
    body = [s for s in kernel.body if isinstance(s, Compute)]
    if len(body) < 2 or len(body) < len(kernel.body) or kernel.views:
        yield launch
    elif all(is_move(s.expr) for s in body) and {s.buffer for s in body} == set(kernel.outputs):
        made = {s.buffer: s for s in body}
        for name, out in zip(launch.writes, kernel.outputs, strict=True):
            own = replace(kernel, outputs=(out,), body=(made[out],))
            yield replace(launch, kernel=own, writes=(name,))
    elif len(launch.writes) == 1 and (
        any(map(_is_convolution, body)) or _joins(body) or _turns(body)
    ):
        yield from by_statement(launch, tensors)
    else:
        yield launch


def _joins(body: Sequence[Compute]) -> bool:
    """Whether the last statement only chooses among what the others make, element by element."""
    choice = body[-1].expr
    if not isinstance(choice, Where) or not is_move(choice):
        return False
    return not any(isinstance(e, Fold | Iterate) for s in body for e in walk(s.expr))


def _turns(body: Sequence[Compute]) -> bool:
    """Whether its operand or its result is moved only, as where pools have their channels last."""
    ends = (body[0], body[-1])
    return any(is_move(s.expr) for s in ends) and any(map(_is_pool, body))


def _is_pool(s: Compute) -> bool:
    return any(isinstance(e, Fold) and len(e.axes) > 1 for e in walk(s.expr))


def _is_convolution(s: Compute) -> bool:
    folds = (e for e in walk(s.expr) if isinstance(e, Fold))
    return any(e.kind == "dot" and len(e.axes) > 2 for e in folds)
