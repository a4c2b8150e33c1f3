"""Convolutions of bytes by 3 x 3 weights with a quarter of the products: tiles of 4 x 4 outputs.

    sum of x * w   ->   A' [ (G w G') * (B' x B) ] A  *  9^-1  >>  6

The tiles of ops/winograd.py at the points 0, 1, -1, 2, -2 and infinity, in integers. All
denominators of G are in A instead, where they make 576 = 9 * 2^6, so that what A gives is 576
times the sum, modulo 2^32; 9 has an inverse there, and the last six bits are 0. This is exact
where 2^6 times a sum fits int32, which the weights show, whatever the bytes. B' x B of bytes
fits int16 (255 times 68 at most, the sum of the elements of one sign), and so do the weights
(128 times 7 * 7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sardonyx import types as t
from sardonyx.dims import atom
from sardonyx.kernel.affine import affine
from sardonyx.kernel.c99.contract import factors
from sardonyx.kernel.expr import Axis, Buffer, Const, Expr, Fold, Load, alu, cast, lift
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import walk
from sardonyx.ops.winograd import both_ways
from sardonyx.passes.layout import KINDS
from sardonyx.passes.program import Launch, Program, by_launch, unused
from sardonyx.types import Array, TensorType

EDGE = 4  # outputs along a tile
SIZE = EDGE + 2  # places of x
LANES = 16
INVERSE, SHIFT = pow(9, -1, 1 << 32), 6  # INVERSE * 576 = 2^6 modulo 2^32
LARGEST = (1 << 31 - SHIFT) - 1  # of a sum
WEIGHTS = np.array([[1, 0, 0], [1, 1, 1], [1, -1, 1], [1, 2, 4], [1, -2, 4], [0, 0, 1]])  # G
FEWEST = 16  # tiles that are worth reading eight times the bytes of weights from memory
LEAST = 48 * 48  # products at one position that are worth the transforms


def fewer_products(program: Program) -> Program:
    """The program with such convolutions by tiles, where there are enough of them."""
    return by_launch(program, _launch)


@dataclass(frozen=True, slots=True, eq=False)
class _Conv:
    """A convolution of 3 x 3, stride 1: its fold, x and w in it; low: where x begins for output 0;
    shape: of the output."""

    s: Compute
    fold: Fold
    x: Load
    w: Load
    low: tuple[int, int]
    shape: tuple[int, int, int, int]


def _launch(
    launch: Launch, tensors: dict[str, TensorType], weights: dict[str, Array]
) -> list[Launch]:
    conv = _conv(launch)
    if conv is None:
        return [launch]
    names = dict(zip(launch.kernel.inputs, launch.reads, strict=True))
    name = names[conv.w.buffer]
    if name is None or name not in weights or not _fits(weights[name]):
        return [launch]
    value = np.einsum("pr,qs,fcrs->pqcf", WEIGHTS, WEIGHTS, weights[name].astype(int))
    own = Buffer("w16", t.int16, value.shape)
    new = unused(f"{name}.tiles", tensors)
    weights[new], tensors[new] = value.astype(np.int16), TensorType(own.dtype, own.shape)
    patches = _patches(conv)
    products = _products(conv, patches.buffer, own)
    total = _total(conv, products.buffer)
    given: dict[Fold, Expr] = {conv.fold: total}
    kernel = replace(
        launch.kernel,
        inputs=(*launch.kernel.inputs, own),
        temporaries=(patches.buffer, products.buffer),
        body=(patches, products, replace(conv.s, expr=rewrite(conv.s.expr, given))),
    )
    return [replace(launch, kernel=kernel, reads=(*launch.reads, new))]


def _conv(launch: Launch) -> _Conv | None:
    """The launch's one statement as a convolution that tiles may take."""
    s = launch.kernel.body[0] if len(launch.kernel.body) == 1 else None
    if not isinstance(s, Compute) or s.buffer.dtype not in KINDS:
        return None  # it would have no layout
    folds = [e for e in walk(s.expr) if isinstance(e, Fold)]
    if len(folds) != 1 or folds[0].kind != "dot" or folds[0].when is not None:
        return None
    match factors(folds[0]):
        case (Load() as x, Load() as w) if (x.dtype, w.dtype) == (t.uint8, t.int8):
            return window_of(s, folds[0], x, w)
    return None


def window_of(s: Compute, fold: Fold, x: Load, w: Load) -> _Conv | None:
    """The statement as a convolution of x by w that tiles may take, whatever the types are."""
    shape = [n for n in (*s.buffer.shape, *x.buffer.shape) if isinstance(n, int)]
    ranks = {len(s.axes), len(x.index), len(w.index), len(fold.axes)}
    if ranks != {4} or len(shape) != 8 or s.buffer.base is not None or x.buffer.base is not None:
        return None
    if [a.extent for a in fold.axes[1:]] != [3, 3, LANES] or x.mode == "trap":
        return None
    (n, f, i, j), (block, r, q, c) = s.axes, fold.axes
    channel = atom(block) * LANES + atom(c)
    at, to = [affine(e) for e in x.index], [affine(e) for e in w.index]
    if to != [atom(f), channel, atom(r), atom(q)] or at[:2] != [atom(n), channel]:
        return None
    low = [
        form - atom(a) - atom(b)
        for form, a, b in zip(at[2:], (i, j), (r, q), strict=True)
        if form is not None
    ]
    down, across = low if len(low) == 2 else (None, None)
    tiles = shape[0] * -(-shape[2] // EDGE) * -(-shape[3] // EDGE)
    if not isinstance(down, int) or not isinstance(across, int):
        return None
    if shape[1] % LANES or shape[5] % LANES or shape[1] * shape[5] < LEAST or tiles < FEWEST:
        return None
    return _Conv(s, fold, x, w, (down, across), (shape[0], shape[1], shape[2], shape[3]))


def _fits(w: Array) -> bool:
    """Whether no sum of products of bytes and these weights is too large."""
    every = w.astype(int).reshape(len(w), -1)
    ends = np.maximum(every, 0).sum(1).max(), -np.minimum(every, 0).sum(1).min()
    return bool(255 * max(ends) <= LARGEST)


def _axes(shape: Sequence[int]) -> tuple[Axis, ...]:
    return tuple(Axis(f"i{k}", n) for k, n in enumerate(shape))


def _patches(conv: _Conv) -> Compute:
    """[6, 6, n, rows, columns, channels / 16, 16] of int16: B' x B of each tile."""
    n, _, height, width = conv.shape
    channels, default = conv.x.buffer.shape[1], conv.x.default or Const(0, t.uint8)
    assert isinstance(channels, int)
    tiles = -(-height // EDGE), -(-width // EDGE)
    axes = _axes((SIZE, SIZE, n, *tiles, channels // LANES, LANES))
    p, q, sample, i, j, block, c = axes
    at = sample, block * LANES + c
    top, left = i * EDGE + conv.low[0], j * EDGE + conv.low[1]
    span = range(SIZE)
    patch = [
        [
            cast(Load(conv.x.buffer, (*at, top + a, left + b), "guard", default), t.int32)
            for b in span
        ]
        for a in span
    ]
    target = Buffer("patches", t.int16, tuple(a.extent for a in axes))
    return Compute(target, axes, cast(both_ways(_input, patch, p, q), t.int16))


def _products(conv: _Conv, patches: Buffer, weights: Buffer) -> Compute:
    """[6, 6, n, rows, columns, filters] of int32: the sums over channels, modulo 2^32."""
    target = Buffer("products", t.int32, (*patches.shape[:5], conv.shape[1]))
    axes = tuple(Axis(f"i{k}", n) for k, n in enumerate(target.shape))
    block, c = Axis("r0", patches.shape[5]), Axis("r1", LANES)
    p, q, *_, f = axes
    x = Load(patches, (*axes[:5], block, c))
    w = Load(weights, (p, q, block * LANES + c, f))
    return Compute(target, axes, Fold("dot", (block, c), (cast(x, t.int32), cast(w, t.int32))))


def _total(conv: _Conv, products: Buffer) -> Expr:
    """The sum that an output stands for."""
    n, f, i, j = conv.s.axes
    span = range(SIZE)
    tile: list[list[Expr]] = [
        [Load(products, (lift(r), lift(c), n, i // EDGE, j // EDGE, f)) for c in span] for r in span
    ]
    made = both_ways(_output, tile, i % EDGE, j % EDGE)
    return alu("shr", made * (INVERSE - (1 << 32) if INVERSE >> 31 else INVERSE), SHIFT)


def _input(d: Sequence[Expr]) -> list[Expr]:
    """B': products of (x - q) over the other points q."""
    even, odd, far, further = d[4] - d[2] * 4, d[3] - d[1] * 4, d[4] - d[2], (d[3] - d[1]) * 2
    first, last = (d[0] - d[2]) * 4 + far, d[5] - d[3] - further * 2
    return [first, even + odd, even - odd, far + further, far - further, last]


def _output(p: Sequence[Expr]) -> list[Expr]:
    """A': 24 times powers of the points over the products of the differences from the others."""
    even, odd, even_far, odd_far = p[1] + p[2], p[1] - p[2], p[3] + p[4], p[3] - p[4]
    return [
        p[0] * 6 - even * 4 + even_far,
        (odd_far - odd * 2) * 2,
        (even_far - even) * 4,
        (odd_far * 2 - odd + p[5] * 6) * 4,
    ]
