"""Col2Im: the sum of the blocks of an image, each at its place."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from sardonyx.dims import floordiv, product
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr
from sardonyx.ops.index import flat_index
from sardonyx.ops.registry import operator
from sardonyx.ops.sizes import agree
from sardonyx.ops.window import conjunction, window


@operator("Col2Im", 18, accuracy="rounding")
def col2im(
    k: Builder,
    x: Tensor,
    image_shape: Tensor,
    block_shape: Tensor,
    *,
    dilations: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """y[n, c, i] = sum of x[n, (c, r), o] over positions r of a block and places o of blocks
    where o * stride + r * dilation - pad = i. Blocks that do not cover i are absent; those that lie
    outside are +0, which changes no sum."""
    image, block = image_shape.known(), block_shape.ints()
    win = window(image, block, strides, dilations, "NOTSET", pads)
    agree(x.shape[2], product(win.output), "the last axis and the number of blocks")
    channels = floordiv(x.shape[1], prod(block))
    agree(x.shape[1], channels * prod(block), "the second axis and whole blocks")

    blocks = x.reshaped((*x.shape[:2], *win.output))

    def element(n: Axis, c: Axis, *i: Axis) -> Expr:
        def start(r: Sequence[Expr]) -> list[Expr]:
            parts = zip(i, win.begin, r, win.dilations, strict=True)
            return [p + pad - q * d for p, pad, q, d in parts]

        def covers(*r: Axis) -> Expr:
            pairs = zip(start(r), win.strides, strict=True)
            return conjunction([(p % s).eq(0) for p, s in pairs if s != 1])

        def term(*r: Axis) -> Expr:
            place = [p // s for p, s in zip(start(r), win.strides, strict=True)]
            return blocks.guard((n, flat_index((c, *r), (channels, *block)), *place))

        return k.sum(block, term, covers if max(win.strides) > 1 else None)

    return k.compute((x.shape[0], channels, *image), element, x.dtype)
