"""Depthwise convolutions with several filters for each channel, from a copy that has it so often.

    y[n, g * M + m, o] = sum over r of x[n, g, o + r] * w[g * M + m, r]

    =>  x'[n, g * M + m, i] = x[n, g, i];  y[n, c, o] = sum over r of x'[n, c, o + r] * w[c, r]

Both factors have all channels as lanes then; each group by itself would fill M of 16. The terms and
their order are what they were. The copy takes memory, so this is for where that is no concern, and
for float32 alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from sardonyx import types as t
from sardonyx.dims import at_least, atom, product
from sardonyx.kernel.affine import affine, coefficient, expression
from sardonyx.kernel.c99.contract import LANES, factors
from sardonyx.kernel.expr import Axis, Buffer, Expr, Load
from sardonyx.kernel.ir import Compute, Kernel
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import free_axes, walk
from sardonyx.passes.groups import is_split
from sardonyx.passes.program import Launch, Program, by_launch, unused
from sardonyx.passes.sources import convolution, name_of
from sardonyx.types import Array, TensorType

MOST = LANES // 2  # filters of a group: more fill the lanes by themselves
LEAST = 4  # terms of a sum, that a copy pays


def repeat_channels(program: Program) -> Program:
    """The program with such convolutions as those of one filter for each channel."""
    return by_launch(program, partial(_repeated, {}))


def _repeated(
    copies: dict[tuple[str, int], str],
    launch: Launch,
    tensors: dict[str, TensorType],
    weights: dict[str, Array],
) -> Iterator[Launch]:
    """The launch, behind what repeats the channels that it reads if nothing has done so."""
    found = _multiplied(launch, weights)
    if found is None:
        yield launch
        return
    s, x, old = found
    many = s.buffer.shape[2]
    assert isinstance(many, int)
    n, channels, *space = x.buffer.shape
    shape = (n, channels * many, *space)
    name = copies.get((old, many)) or unused(f"{old}.repeated", tensors)
    single = _single(launch, s, x, Buffer(x.buffer.name, x.dtype, shape), name)
    if single is not None and (old, many) not in copies:
        copies[old, many] = name
        tensors[name] = TensorType(x.dtype, shape)
        yield _copy(old, x.buffer, name, many)
    yield single or launch


def _multiplied(launch: Launch, weights: dict[str, Array]) -> tuple[Compute, Load, str] | None:
    """The launch's statement, what it reads of one channel for each group, and that tensor."""
    fold = convolution(launch)
    if fold is None or len(launch.kernel.body) != 1 or fold.when is not None:
        return None
    (s,), (x, w) = launch.kernel.body, factors(fold) or fold.terms
    if not (isinstance(s, Compute) and is_split(s.buffer) and isinstance(x, Load)):
        return None
    _, groups, filters, *_ = s.axes
    many, name = filters.extent, name_of(launch, x)
    suits = isinstance(many, int) and 1 < many < MOST and at_least(groups.extent * many, LANES)
    terms = product(tuple(a.extent for a in fold.axes))
    if not suits or not at_least(terms, LEAST) or x.dtype is not t.float32 or name is None:
        return None
    if name in weights or name_of(launch, w) not in weights or _is_read_elsewhere(x, s):
        return None
    return (s, x, name) if _is_of_its_group(x, groups, filters) else None


def _is_read_elsewhere(x: Load, s: Compute) -> bool:
    """Whether s reads the tensor in another place too."""
    loads = (e for e in walk(s.expr) if isinstance(e, Load) and e.buffer.root is x.buffer.root)
    return any(e is not x for e in loads)


def _is_of_its_group(x: Load, groups: Axis, filters: Axis) -> bool:
    """Whether x is read along the groups, one channel for each."""
    free, form = free_axes(*x.index), affine(x.index[1])
    inside = {a for a in free[id(x.index[1])] if a.extent != 1}
    others = (i for i in x.index if i is not x.index[1])
    elsewhere = any({groups, filters} & free[id(i)] for i in others)
    return (
        form is not None and inside == {groups} and coefficient(form, groups) == 1 and not elsewhere
    )


def _copy(old: str, b: Buffer, new: str, many: int) -> Launch:
    """What repeats each channel."""
    n, channels, *space = b.shape
    x, y = Buffer("x", b.dtype, b.shape), Buffer("y", b.dtype, (n, channels * many, *space))
    split = Buffer("y", b.dtype, (n, channels, many, *space), base=y)
    i, c, m, *at = (Axis(f"i{d}", extent) for d, extent in enumerate(split.shape))
    body = (Compute(split, (i, c, m, *at), Load(x, (i, c, *at))),)
    return Launch(Kernel("repeat", (x,), (y,), (), (), body), (old,), (new,), ())


def _single(launch: Launch, s: Compute, x: Load, new: Buffer, name: str) -> Launch | None:
    """The launch reading the copy, of one filter for each channel; None where an index is of groups
    or filters in another way."""
    n, groups, filters, *at = s.axes
    many, c = filters.extent, Axis("c", groups.extent * filters.extent)

    def load(e: Load) -> Load:
        if e.buffer is x.buffer:
            return Load(new, (e.index[0], c, *e.index[2:]), e.mode, e.default)
        index, b = list(e.index), e.buffer
        if b.base is not None and is_split(b) and b.shape[2] == many:
            b, index[1:3] = b.root, [index[1] * many + index[2]]
        return Load(b, tuple(map(joined, index)), e.mode, e.default)

    def joined(i: Expr) -> Expr:
        """An index of groups times filters plus filters as one of the channels."""
        form = affine(i)
        each = None if form is None else coefficient(form, filters)
        if form is None or each is None or each * many != coefficient(form, groups):
            return i
        return expression(form + (atom(c) - atom(groups) * many - atom(filters)) * each)

    expr = rewrite(s.expr, {}, load)
    if {groups, filters} & free_axes(expr)[id(expr)]:
        return None
    inputs = tuple(new if b is x.buffer else b for b in launch.kernel.inputs)
    pairs = zip(launch.kernel.inputs, launch.reads, strict=True)
    reads = tuple(name if b is x.buffer else r for b, r in pairs)
    body = (Compute(s.buffer.root, (n, c, *at), expr),)
    kernel = replace(launch.kernel, inputs=inputs, body=body, views=())
    return replace(launch, kernel=kernel, reads=reads)
