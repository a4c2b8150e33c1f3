"""Convolutions: sums of products over a window, in the order of the numerics contract:
input channels in blocks of 16, then kernel positions, then the channels of the block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sardonyx.dims import Dim, extreme
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, Operand, lift
from sardonyx.ops.registry import operator
from sardonyx.ops.sizes import agree, ceil_div, numbers
from sardonyx.ops.window import conjunction, per_axis, split_padding, window, within

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


@operator("ConvTranspose", 1, 11, 22, accuracy="rounding")
def conv_transpose(
    k: Builder,
    x: Tensor,
    w: Tensor,
    b: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """y[n, m, o] = sum of x[n, c, i] * w[c, m, r] where i * stride + r * dilation - pad = o.

    A term for which x has no such i (a hole or a border) is absent.
    """
    total, filters, *kernel = numbers(w.shape, "the shape of the weights")
    check_weights(x, total, total, group, kernel, kernel_shape)
    channels, rank = total // group, len(kernel)
    s = per_axis(strides, rank, 1, "strides")
    d = per_axis(dilations, rank, 1, "dilations")
    adjust = per_axis(output_padding, rank, 0, "output_padding")
    full = [
        (n - 1) * stride + a + (size - 1) * q + 1
        for n, stride, a, size, q in zip(x.shape[2:], s, adjust, kernel, d, strict=True)
    ]
    wanted: Sequence[Dim] = list(output_shape or ())[-rank:]
    if auto_pad.startswith("SAME") and not wanted:
        same = [n * stride for n, stride in zip(x.shape[2:], s, strict=True)]
        wanted = [extreme("min", a, b) for a, b in zip(same, full, strict=True)]
    begin, out = _transposed_output(full, wanted, auto_pad, pads)
    weight = weight_loader(w, channels)

    def apart(n: Axis, g: Expr, m: Expr, o: Sequence[Axis]) -> Expr:
        """Where windows touch but do not overlap: all terms but those of one place are absent."""
        at, r = (
            [i // q for i, q in zip(o, s, strict=True)],
            [i % q for i, q in zip(o, s, strict=True)],
        )
        return sum_of_products(
            k,
            channels,
            [1] * rank,
            lambda c, _: (
                x.guard((n, g * channels + c, *at)),
                weight((g * channels + c, m, *r)),
            ),
        )

    def element(n: Axis, g: Expr, m: Expr, o: Sequence[Axis]) -> Expr:
        def spread(r: Sequence[Expr]) -> list[Expr]:
            return [i + p - j * q for i, p, j, q in zip(o, begin, r, d, strict=True)]

        def source(r: Sequence[Expr]) -> list[Expr]:
            return [i if q == 1 else i // q for i, q in zip(spread(r), s, strict=True)]

        def present(r: Sequence[Expr]) -> Expr:
            whole = [(i % q).eq(0) for i, q in zip(spread(r), s, strict=True) if q > 1]
            return conjunction([*whole, within(source(r), [0] * rank, x.shape[2:])])

        return sum_of_products(
            k,
            channels,
            kernel,
            lambda c, r: (
                x.guard((n, g * channels + c, *source(r))),
                weight((g * channels + c, m, *r)),
            ),
            present,
        )

    touching = list(s) == kernel and not any(begin) and set(d) == {1}
    whole = all(n == i * q for n, i, q in zip(out, x.shape[2:], s, strict=True))
    return grouped(k, x, b, group, filters, out, apart if touching and whole else element)


def _transposed_output(
    full: Sequence[Dim],
    wanted: Sequence[Dim],
    auto_pad: str,
    pads: Sequence[int] | None,
) -> tuple[Sequence[Dim], Sequence[Dim]]:
    """The padding at the beginnings and the output's sizes; `full` is the output's size without
    padding, `wanted` the sizes asked for, if any, from which the padding then follows."""
    rank = len(full)
    if wanted:
        total = [extreme("max", a - b, 0) for a, b in zip(full, wanted, strict=True)]
        return split_padding(total, auto_pad == "SAME_UPPER")[0], wanted
    given = per_axis(pads if auto_pad == "NOTSET" else None, 2 * rank, 0, "pads")
    begin, end = given[:rank], given[rank:]
    return begin, [n - p - q for n, p, q in zip(full, begin, end, strict=True)]


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
