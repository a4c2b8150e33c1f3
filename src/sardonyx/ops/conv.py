"""Convolutions: sums of products over a window, in the order of the numerics contract:
input channels in blocks of 16, then kernel positions, then the channels of the block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sardonyx.dims import Dim
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, Operand, lift
from sardonyx.ops.registry import operator
from sardonyx.ops.sizes import agree, ceil_div, numbers
from sardonyx.ops.window import conjunction, window

BLOCK = 16


@operator("Conv", 1, 11, 22, accuracy="rounding")
def conv(
    k: Builder,
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """y[n, m, o] = sum of x[n, c, o * stride + r * dilation - pad] * w[m, c, r], + b[m].

    Padding is present, as zeros.
    """
    total, channels, *kernel = numbers(w.shape, "the shape of the weights")
    check_weights(x, channels * group, total, group, kernel, kernel_shape)
    filters = total // group
    win = window(x.shape[2:], kernel, strides, dilations, auto_pad, pads)
    weight = weight_loader(w, channels)

    def element(n: Axis, g: Expr, m: Expr, o: Sequence[Axis]) -> Expr:
        return sum_of_products(
            k,
            channels,
            kernel,
            lambda c, r: (
                x.guard((n, g * channels + c, *win.at(o, r))),
                weight((g * filters + m, c, *r)),
            ),
        )

    return grouped(k, x, b, group, filters, win.output, element)


def grouped(
    k: Builder,
    x: Tensor,
    b: Tensor | None,
    group: int,
    filters: int,
    spatial: Sequence[Dim],
    element: Callable[[Axis, Expr, Expr, Sequence[Axis]], Expr],
) -> Tensor:
    """The output of `group` times `filters` channels; element(n, g, m, o) is the sum of products
    at sample n, group g, output channel m of the group and place o."""
    k.need_shape(b, (group * filters,), "B")

    def biased(n: Axis, g: Expr, m: Expr, o: Sequence[Axis]) -> Expr:
        total = element(n, g, m, o)
        return total if b is None else total + b[g * filters + m]

    shape = (x.shape[0], group * filters, *spatial)
    if group == 1:
        return k.compute(shape, lambda n, m, *o: biased(n, lift(0), m, o), x.dtype)
    if filters == 1:
        return k.compute(shape, lambda n, g, *o: biased(n, g, lift(0), o), x.dtype)
    out = k.tensor(shape, x.dtype)
    split = out.reshaped((x.shape[0], group, filters, *spatial))
    k.compute(split.shape, lambda n, g, m, *o: biased(n, g, m, o), into=split)
    return out


def sum_of_products(
    k: Builder,
    channels: int,
    kernel: Sequence[int],
    term: Callable[[Expr, Sequence[Axis]], tuple[Expr, Expr]],
    present: Callable[[Sequence[Axis]], Expr] | None = None,
) -> Expr:
    """The sum of term(c, r) over channels c and kernel positions r where present(r)."""
    partial = channels > BLOCK and channels % BLOCK != 0

    def when(block: Axis, *rest: Axis) -> Expr:
        conditions = [] if present is None else [present(rest[:-1])]
        if partial:
            conditions.append(block * BLOCK + rest[-1] < channels)
        return conjunction(conditions)

    return k.dot(
        (ceil_div(channels, BLOCK), *kernel, min(channels, BLOCK)),
        lambda block, *rest: term(block * BLOCK + rest[-1], rest[:-1]),
        when if partial or present else None,
    )


def weight_loader(w: Tensor, channels: int) -> Callable[[tuple[Operand, ...]], Expr]:
    """How weights are loaded: the last block of channels may be a partial one."""
    return w.guard if channels > BLOCK and channels % BLOCK else w.__getitem__


def check_weights(
    x: Tensor,
    channels: int,
    divided: int,
    group: int,
    kernel: Sequence[int],
    kernel_shape: Sequence[int] | None,
) -> None:
    if x.rank != len(kernel) + 2:
        raise InvalidModel(f"x has rank {x.rank}, the weights have rank {len(kernel) + 2}")
    agree(x.shape[1], channels, "the input's channels and those of the weights times group")
    if group < 1 or divided % group:
        raise InvalidModel(f"group {group} does not divide {divided} channels")
    if kernel_shape and tuple(kernel_shape) != tuple(kernel):
        raise InvalidModel(f"kernel_shape {list(kernel_shape)} is not the weights' {list(kernel)}")
