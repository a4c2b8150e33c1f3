"""Channels as groups times the channels of a group: grouped convolutions and channel shuffles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sardonyx.kernel.affine import affine, expression, quotient_of
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Buffer, Expr, Load
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.rewrite import rewrite
from sardonyx.passes.constants import drop_unused
from sardonyx.passes.program import Launch, Program


def is_split(b: Buffer) -> bool:
    """Whether the buffer is another, (N, G * F, ...), seen as (N, G, F, ...)."""
    if b.base is None or len(b.shape) != len(b.root.shape) + 1 or len(b.shape) < 4:
        return False
    n, g, m, *space = b.shape
    return (n, g * m, *space) == b.root.shape


def split_index(index: Sequence[Expr], b: Buffer) -> tuple[Expr, ...] | None:
    """An index of the root of a split buffer as one of the buffer itself, where that is affine."""
    form, size = affine(index[1]), b.shape[2]
    whole = None if form is None or not isinstance(size, int) else quotient_of(form, size)
    if form is None or whole is None:
        return None
    return (index[0], expression(whole), expression(form - whole * size), *index[2:])


def split_like(s: Compute, b: Buffer) -> Compute | None:
    """s, over the channels of b's root, over its groups and their channels instead."""
    if s.buffer.base is not None or s.buffer.shape != b.root.shape:
        return None
    n, c, *space = s.axes
    g, m = Axis(f"{c.name}g", b.shape[1]), Axis(f"{c.name}m", b.shape[2])
    target = Buffer(s.buffer.name, s.buffer.dtype, b.shape, base=s.buffer)
    return Compute(target, (n, g, m, *space), rewrite(s.expr, {c: g * b.shape[2] + m}))


def join_shuffles(program: Program) -> Program:
    """Channel shuffles, Reshape, Transpose, Reshape back, as one launch each."""
    readers, outputs = program.readers(), set(program.outputs)
    makers = {name: launch for launch in program.launches for name in launch.writes}

    def before(launch: Launch) -> Launch | None:
        """What alone makes the launch's first operand, for it alone."""
        name = launch.reads[0] if launch.reads else None
        if name is None or name in outputs or len(readers[name]) != 1:
            return None
        return makers.get(name)

    launches = []
    for last in program.launches:
        swap = before(last)
        first = None if swap is None else before(swap)
        joined = None
        if swap is not None and first is not None:
            joined = _joined(first, swap, last)
        launches.append(joined or last)
    return drop_unused(replace(program, launches=tuple(launches)))


def _joined(first: Launch, swap: Launch, last: Launch) -> Launch | None:
    if (0, 0) not in first.kernel.views or (0, 0) not in last.kernel.views:
        return None
    source, target = first.kernel.inputs[0], last.kernel.outputs[0]
    if source is None:
        return None
    grouped = first.kernel.outputs[0].shape
    if source.shape != target.shape:
        return None
    if not is_split(Buffer("x", source.dtype, grouped, base=source)):
        return None
    if not _swaps(swap) or last.kernel.inputs[0] is None:
        return None
    n, groups, size, *space = grouped
    k = Builder(0)
    x = Tensor(Buffer("x", source.dtype, source.shape))
    out = k.tensor(target.shape, source.dtype)
    split = out.reshaped((n, size, groups, *space))
    k.compute(split.shape, lambda i, f, g, *s: x[(i, g * size + f, *s)], into=split)
    kernel = k.kernel("shuffle", (x,), (out,))
    operations = (*first.operations, *swap.operations, *last.operations)
    return Launch(kernel, first.reads[:1], last.writes, operations)


def _swaps(launch: Launch) -> bool:
    """Whether the launch does nothing but exchange the axes 1 and 2."""
    if len(launch.kernel.body) != 1:
        return False
    (s,) = launch.kernel.body
    if not isinstance(s, Compute) or not isinstance(s.expr, Load) or len(s.axes) < 3:
        return False
    n, a, b, *rest = s.axes
    return s.expr.index == (n, b, a, *rest) and s.buffer is launch.kernel.outputs[0]
