"""Views that only add or drop dimensions of one point are part of what is computed before them.

    t[h, d, j] = k[j, h, d];  y (1, h, d, j) is t seen so   =>   y[0, h, d, j] = k[j, h, d]

Exporters write Transpose between two Reshapes. A view is nothing to do, but it stands between what
fusion would make one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sardonyx.dims import Dim
from sardonyx.kernel.expr import Axis, Buffer, Expr, Fold, Iterate, lift
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import walk
from sardonyx.passes.constants import drop_unused
from sardonyx.passes.program import Launch, Program
from sardonyx.types import TensorType


def join_squeezes(program: Program) -> Program:
    """The program without such views of what elementwise operations make for them alone."""
    makers = {name: i for i, launch in enumerate(program.launches) for name in launch.writes}
    readers, launches = program.readers(), list[Launch | None](program.launches)
    for at, view in enumerate(program.launches):
        name = _squeezed(view, program)
        first = None if name is None or name in program.outputs else makers.get(name)
        maker = None if first is None else launches[first]
        if first is None or maker is None or name is None or readers[name] != [at]:
            continue
        joined = _joined(maker, view, program.tensors[view.writes[0]])
        if joined is not None:
            launches[at], launches[first] = joined, None
    left = tuple(launch for launch in launches if launch is not None)
    return drop_unused(replace(program, launches=left))


def _squeezed(view: Launch, program: Program) -> str | None:
    """The tensor of which the launch is another shape, the same but for dimensions of one point."""
    if view.kernel.views != ((0, 0),) or len(view.writes) != 1:
        return None
    name = view.reads[0]
    if name is None:
        return None
    old, new = program.tensors[name], program.tensors[view.writes[0]]
    if old.dtype is not new.dtype or old.shape is None or new.shape is None:
        return None
    return name if is_squeezed(old.shape, new.shape) else None


def is_squeezed(old: Sequence[Dim], new: Sequence[Dim]) -> bool:
    """Whether two shapes are the same but for dimensions of one point."""
    return [d for d in old if d != 1] == [d for d in new if d != 1]


def _joined(maker: Launch, view: Launch, kind: TensorType) -> Launch | None:
    """The maker, which writes what the view sees."""
    kernel = maker.kernel
    match kernel.body, kernel.outputs:
        case (Compute(b, axes, e),), (out,) if b is out and not kernel.views:
            pass
        case _:
            return None
    if maker.call is not None or any(isinstance(x, Fold | Iterate) for x in walk(e)):
        return None
    shape = kind.shape or ()
    large = iter([a for a in axes if a.extent != 1])
    fresh = tuple(Axis(f"o{i}", 1) if d == 1 else next(large) for i, d in enumerate(shape))
    one: dict[Expr, Expr] = {a: lift(0) for a in axes if a.extent == 1}
    target = Buffer(b.name, b.dtype, shape)
    body = (Compute(target, fresh, rewrite(e, one)),)
    return replace(
        maker,
        kernel=replace(kernel, outputs=(target,), body=body),
        writes=view.writes,
        operations=tuple(dict.fromkeys((*maker.operations, *view.operations))),
    )
