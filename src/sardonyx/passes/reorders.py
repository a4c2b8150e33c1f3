"""The layouts of channels-first tensors, and what copies a tensor from one to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sardonyx.dims import divide
from sardonyx.kernel.affine import affine
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.c99.contract import is_multiple
from sardonyx.kernel.expr import Axis, Buffer, Expr, Fold, Load, lift
from sardonyx.kernel.folds import is_free
from sardonyx.kernel.ir import Kernel
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import free_axes, walk
from sardonyx.types import TensorType

LANES = 16
PLAIN = 0  # the number B of a tensor that is as the model has it


def placed(tensor: TensorType, block: int) -> TensorType:
    """The type of (N, C, ...) in the layout of a number."""
    if block == PLAIN:
        return tensor
    n, c, *space = tensor.shape or ()
    whole = divide(c, block)
    assert whole is not None
    return TensorType(tensor.dtype, (n, whole, *space, block))


def reorder(plain: TensorType, have: int, want: int) -> Kernel:
    """What copies a tensor (N, C, ...) from one layout to another."""
    k = Builder(0)
    source = Tensor(Buffer("x", plain.dtype, placed(plain, have).shape or ()))
    shape = placed(plain, want).shape or ()
    if all(d == 1 for d in (plain.shape or ())[2:]):
        out = k.view(source, shape)
    elif have == LANES and want == PLAIN and is_multiple(shape[1], LANES):
        n, c, *space = shape
        blocks, out = (n, c // LANES, LANES, *space), k.tensor(shape, plain.dtype)
        k.compute(blocks, lambda n, b, i, *at: source[(n, b, *at, i)], into=out.reshaped(blocks))
    else:
        out = k.compute(shape, lambda *i: source[_at(have, *_plain_index(want, i))])
    return k.kernel("reorder", (source,), (out,))


def _plain_index(block: int, index: Sequence[Expr]) -> tuple[Expr, ...]:
    """The index in the model's layout of the element at an index of this one."""
    if block == PLAIN:
        return tuple(index)
    n, whole, *space, lane = index
    return (n, whole * block + lane if block == LANES else lane, *space)


def _at(block: int, n: Expr, c: Expr, *space: Expr) -> tuple[Expr, ...]:
    """The index in this layout of the element at an index of the model's."""
    if block == PLAIN:
        return (n, c, *space)
    if block == LANES:
        return (n, c // LANES, *space, c % LANES)
    return (n, lift(0), *space, c)


def seen_as(have: TensorType, want: TensorType) -> Kernel:
    """What sees a tensor under another shape."""
    k, x = Builder(0), Tensor(Buffer("x", have.dtype, have.shape or ()))
    return k.kernel("view", (x,), (k.view(x, want.shape or ()),))


def in_order(e: Expr, changed: Mapping[Buffer, Buffer]) -> Expr:
    """e, folds without an order going over channels as they lie: over blocks and the channels of
    each, or all in a row."""
    given: dict[Fold, Expr] = {}
    for fold in (x for x in walk(e) if isinstance(x, Fold)):
        if fold.kind == "dot" and fold.dtype.is_integer and fold.when is None:
            given |= _in_a_row(fold, changed)
    folds = (x for x in walk(e) if isinstance(x, Fold) and is_free(x) and x.when is None)
    for fold in folds:
        loads = (x for x in walk(*fold.terms) if isinstance(x, Load) and x.buffer in changed)
        found = {x.index[1] for x in loads if changed[x.buffer].shape[-1] == LANES}
        for a in (a for a in fold.axes if a in found and is_multiple(a.extent, LANES)):
            two = Axis(f"{a.name}b", divide(a.extent, LANES) or 1), Axis(f"{a.name}l", LANES)
            axes = tuple(y for x in fold.axes for y in (two if x is a else (x,)))
            one: dict[Axis, Expr] = {a: two[0] * LANES + two[1]}
            given[fold] = replace(fold, axes=axes, terms=tuple(rewrite(x, one) for x in fold.terms))
    return rewrite(e, given) if given else e


def _in_a_row(fold: Fold, changed: Mapping[Buffer, Buffer]) -> dict[Fold, Expr]:
    """A sum of integers over blocks, places and the channels of a block, of channels that are last
    now: over places and all channels."""
    block, lane = fold.axes[0], fold.axes[-1]
    form = affine(block * LANES + lane)
    loads = [x for x in walk(*fold.terms) if isinstance(x, Load)]
    last = (x for x in loads if x.buffer in changed and changed[x.buffer].shape[1] == 1)
    if block is lane or lane.extent != LANES or not any(affine(x.index[1]) == form for x in last):
        return {}
    one = Axis(lane.name, block.extent * LANES)

    def load(x: Load) -> Expr | None:
        index = tuple(one if affine(i) == form else i for i in x.index)
        return replace(x, index=index) if one in index else None

    terms = tuple(rewrite(x, {}, load) for x in fold.terms)
    free = free_axes(*terms)
    if any(a in free[id(x)] for x in terms for a in (block, lane)):
        return {}
    return {fold: replace(fold, axes=(*fold.axes[1:-1], one), terms=terms)}
