"""Convolutions of 3 x 3 with fewer products: Winograd's F(2 x 2, 3 x 3) and F(4 x 4, 3 x 3).

    y = A' [ (G w G') * (B' x B) ] A        * sums over channels at each of the t x t positions

A tile of m x m outputs takes t x t products a channel, t = m + 2, instead of 9 m x m. It is another
rounding than Conv's, so it is another definition: resolve puts WinogradConv in the place of Conv
where numerics="winograd" asks for it (docs/numerics.md, section 13).

The three transforms evaluate polynomials at 0, 1, -1 and infinity, or at 0, 5/8, -5/8, 3/2, -3/2
and infinity: of the points with few bits these give the least error, and pairs of opposite points
share work. The weights are transformed in float64 and rounded once; the rest is float32, each
operation as it is written here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import prod

import numpy as np

from sardonyx import types as t
from sardonyx.dims import Dim
from sardonyx.errors import InvalidModel, Undetermined
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, alu, cast, where
from sardonyx.ops.conv import BLOCK, check_weights, conv
from sardonyx.ops.registry import INTERNAL, operator
from sardonyx.ops.sizes import ceil_div, numbers
from sardonyx.ops.window import Window, window
from sardonyx.types import Array

NAME = "WinogradConv"
NEAR, FAR = 0.625, 1.5  # the points of F(4 x 4), with their opposites
STREAMED = 16
LEAST = 16  # fewer channels are not worth the transforms
TILES = (1, 2, 4)  # outputs along an edge of a tile; 1 is the direct definition


def suits(kernel: Sequence[Dim], group: int, strides: Sequence[int], steps: Sequence[int]) -> bool:
    """Whether a Conv is one that WinogradConv stands for: the weights' shape, the attributes."""
    if len(kernel) != 4 or group != 1 or {*strides, *steps} - {1}:
        return False
    filters, channels, *window_ = kernel
    large = all(isinstance(n, int) and n >= LEAST for n in (filters, channels))
    return large and window_ == [3, 3]


def tile_of(height: Dim, width: Dim) -> int:
    """Which of TILES a convolution with outputs of this height and width takes: the one with the
    least work, the smallest of equals. The batch has no part in it."""
    if not isinstance(height, int) or not isinstance(width, int):
        raise Undetermined(f"the sizes of the output ({height}, {width}) must be known")

    def work(m: int) -> int:
        tiles = -(-height // m) * -(-width // m)
        return (m + 2) ** 2 * max(tiles, STREAMED)

    return min(TILES, key=work)


@operator(NAME, 1, domain=INTERNAL, accuracy="rounding")
def winograd_conv(
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
    """Conv, with as many products as `tile_of` says."""
    filters, channels, *kernel = numbers(w.shape, "the shape of the weights")
    check_weights(x, channels, filters, group, kernel, kernel_shape)
    win = window(x.shape[2:], kernel, strides, dilations, auto_pad, pads)
    m = tile_of(*win.output) if x.dtype is t.float32 else 1
    if m == 1:
        return conv(
            k, x, w, b, auto_pad=auto_pad, dilations=dilations, group=group,
            kernel_shape=kernel_shape, pads=pads, strides=strides,
        )  # fmt: skip
    if not suits(w.shape, group, win.strides, win.dilations):
        raise InvalidModel(f"Winograd's convolution does not take weights of {w.shape}")
    return tiled(k, x, w, b, win, m)


def tiled(k: Builder, x: Tensor, w: Tensor, b: Tensor | None, win: Window, m: int) -> Tensor:
    """The convolution by tiles of m x m outputs."""
    filters, channels, *_ = numbers(w.shape, "the shape of the weights")
    sums = _products(k, _patches(k, x, win, m), _weights(k, w, m), channels)

    def element(n: Axis, f: Axis, i: Axis, j: Axis) -> Expr:
        tile = [[sums[r, c, n, i // m, j // m, f] for c in range(m + 2)] for r in range(m + 2)]
        total = both_ways(OUTPUT[m], tile, i % m, j % m)
        return total if b is None else total + b[f]

    return k.compute((x.shape[0], filters, *win.output), element, t.float32)


def _weights(k: Builder, w: Tensor, m: int) -> Tensor:
    """[t, t, channels, filters]: G w G', in float64, rounded once."""
    filters, channels, *_ = numbers(w.shape, "the shape of the weights")
    g = k.constant(matrix(m))
    one = k.compute(
        (m + 2, 3, channels, filters),
        lambda p, s, c, f: k.dot((3,), lambda r: (g[p, r], cast(w[f, c, r, s], t.float64))),
        t.float64,
    )
    return k.compute(
        (m + 2, m + 2, channels, filters),
        lambda p, q, c, f: k.dot((3,), lambda s: (one[p, s, c, f], g[q, s])),
        t.float32,
    )


def matrix(m: int) -> Array:
    """G: row p takes the weights' polynomial to point p, over the product of the differences from
    the other points; the last point is infinity."""
    points = [Fraction(p) for p in POINTS[m]]
    rows = []
    for p in points:
        scale = 1 / prod([p - q for q in points if q != p], start=Fraction(1))
        rows.append([float(scale), float(scale * p), float(scale * p * p)])
    return np.array([*rows, [0.0, 0.0, 1.0]])


def _patches(k: Builder, x: Tensor, win: Window, m: int) -> Tensor:
    """[t, t, n, rows, columns, channels / 16, 16]: B' x B of each tile."""
    n, channels, *_ = x.shape
    tiles = [ceil_div(size, m) for size in win.output]
    span = range(m + 2)

    def element(p: Axis, q: Axis, n: Axis, i: Axis, j: Axis, block: Axis, c: Axis) -> Expr:
        top, left = i * m - win.begin[0], j * m - win.begin[1]
        at = n, block * BLOCK + c
        patch = [[x.guard((*at, top + r, left + s)) for s in span] for r in span]
        return both_ways(INPUT[m], patch, p, q)

    shape = (m + 2, m + 2, n, *tiles, ceil_div(channels, BLOCK), BLOCK)
    return k.compute(shape, element, t.float32)


def _products(k: Builder, patches: Tensor, weights: Tensor, channels: int) -> Tensor:
    """[t, t, n, rows, columns, filters]: the sums over channels, ascending."""
    filters = weights.shape[-1]
    load = weights.guard if channels % BLOCK else weights.__getitem__

    def element(p: Axis, q: Axis, n: Axis, i: Axis, j: Axis, f: Axis) -> Expr:
        def term(block: Axis, c: Axis) -> tuple[Expr, Expr]:
            return patches[p, q, n, i, j, block, c], load((p, q, block * BLOCK + c, f))

        def present(block: Axis, c: Axis) -> Expr:
            return block * BLOCK + c < channels

        return k.dot(patches.shape[5:], term, present if channels % BLOCK else None)

    return k.compute((*patches.shape[:5], filters), element, t.float32)


Transform = Callable[[Sequence[Expr]], list[Expr]]


def both_ways(transform: Transform, tile: list[list[Expr]], row: Expr, column: Expr) -> Expr:
    """Element [row, column] of a tile transformed along its columns, then along its rows."""
    down = [transform([line[j] for line in tile]) for j in range(len(tile[0]))]
    return _chosen(column, transform([_chosen(row, found) for found in down]))


def _chosen(index: Expr, values: Sequence[Expr]) -> Expr:
    """values[index]."""
    found = values[-1]
    for i, value in reversed(list(enumerate(values[:-1]))):
        found = where(index.eq(i), value, found)
    return found


def _fma(factor: float, x: Expr, y: Expr) -> Expr:
    return alu("fma", x, factor, y)


def _input2(d: Sequence[Expr]) -> list[Expr]:
    return [d[2] - d[0], d[2] + d[1], d[2] - d[1], d[3] - d[1]]


def _output2(p: Sequence[Expr]) -> list[Expr]:
    return [p[0] + (p[1] + p[2]), p[3] + (p[1] - p[2])]


def _input4(d: Sequence[Expr]) -> list[Expr]:
    """Products of (x - q) over the other points q; of a pair of opposite points, the even and the
    odd part."""
    near, far = NEAR * NEAR, FAR * FAR
    found = []
    for begin in (0, 1):
        found.append(_fma(near * far, d[begin], _fma(-near - far, d[begin + 2], d[begin + 4])))
    for point, other in ((NEAR, far), (FAR, near)):
        even, odd = _fma(-other, d[2], d[4]), _fma(-other, d[1], d[3])
        found[-1:-1] = [_fma(point, odd, even), _fma(-point, odd, even)]
    return found


def _output4(p: Sequence[Expr]) -> list[Expr]:
    """Powers of the points times the sums there."""
    even, odd = p[1] + p[2], p[1] - p[2]
    even_far, odd_far = p[3] + p[4], p[3] - p[4]
    return [
        p[0] + (even + even_far),
        _fma(FAR, odd_far, odd * NEAR),
        _fma(FAR**2, even_far, even * NEAR**2),
        _fma(FAR**3, odd_far, _fma(NEAR**3, odd, p[5])),
    ]


POINTS = {2: (0, 1, -1), 4: (0, NEAR, -NEAR, FAR, -FAR)}
INPUT: dict[int, Transform] = {2: _input2, 4: _input4}
OUTPUT: dict[int, Transform] = {2: _output2, 4: _output4}
