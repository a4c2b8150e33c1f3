"""Weights that a sum takes some of, as a phase of a transposed convolution does, as weights of
their own.

    sum over c, t of x[c, ..] * W[c, m, 3 - 2 * t]   ->   V[c, m, t] = W[c, m, 3 - 2 * t]
    sum over c, t of x[c, ..] * W[c, m // 2, m % 2]  ->   V[c, m] = W[c, m // 2, m % 2]
"""

from __future__ import annotations

from math import prod

import numpy as np

from sardonyx.dims import Dim, atom
from sardonyx.kernel.affine import affine, coefficient
from sardonyx.kernel.expr import Axis, Buffer, Expr, Fold, Load
from sardonyx.kernel.interpret import evaluate
from sardonyx.kernel.ir import Compute, Kernel
from sardonyx.kernel.walk import free_axes, walk
from sardonyx.types import Array


def taken(fold: Fold, w: Load, value: Array) -> tuple[Load, Array]:
    """How the sum loads the weights that it takes, and these; dimensions that it walks as a whole,
    or not at all, stay. The same load and weights where that would take more of them."""
    index, own, made = list[Expr](), list[Axis](), dict[int, Expr]()
    for axes, dims in _groups(w):
        if len(dims) == 1 and _stays(w.index[dims[0]], fold, value.shape[dims[0]]):
            (at,) = dims
            own.append(Axis(f"d{at}", value.shape[at]))
            index.append(w.index[at])
            made[at] = own[-1]
            continue
        own += axes
        index += axes
        made |= {i: w.index[i] for i in dims}
    sizes = [a.extent for a in own if isinstance(a.extent, int)]
    same = len(index) == value.ndim and all(x is y for x, y in zip(index, w.index, strict=True))
    if same or len(sizes) < len(own) or prod(sizes) > value.size:
        return w, value
    b = Buffer(w.buffer.name, w.buffer.dtype, tuple(sizes))
    s = Compute(b, tuple(own), Load(w.buffer, tuple(made[i] for i in range(value.ndim))))
    (found,) = evaluate(Kernel("taken", (w.buffer,), (b,), (), (), (s,)), [value])
    return Load(b, tuple(index), w.mode, w.default), found


def _groups(w: Load) -> list[tuple[list[Axis], list[int]]]:
    """The dimensions of the weights in groups that no axis moves two of, with the axes of each."""
    found: list[tuple[list[Axis], list[int]]] = []
    for i, e in enumerate(w.index):
        axes, dims = [a for a in walk(e) if isinstance(a, Axis)], [i]
        for group in [g for g in found if set(g[0]) & set(axes)]:
            found.remove(group)
            axes, dims = group[0] + axes, group[1] + dims
        found.append((list(dict.fromkeys(axes)), dims))
    return found


def _stays(index: Expr, fold: Fold, size: Dim) -> bool:
    """Whether a sum moves an index not at all, or over the whole dimension."""
    inner = {a for a in fold.axes if a.extent != 1}
    return not free_axes(index)[id(index)] & inner or walks(index, fold, size, beyond=True)


def walks(index: Expr, fold: Fold, size: Dim, beyond: bool = False) -> bool:
    """Whether an index takes each place of a dimension once as the fold goes on, and nothing else
    moves it; beyond: it may go on behind the end."""
    form, axes = affine(index), [a for a in walk(index) if isinstance(a, Axis)]
    if form is None or not axes or not set(axes) <= set(fold.axes):
        return False
    places = np.zeros(1, np.int64)
    for a in axes:
        step = coefficient(form, a)
        if not isinstance(step, int) or not isinstance(a.extent, int):
            return False
        places = np.add.outer(places, step * np.arange(a.extent)).ravel()
        form = form - step * atom(a)
    if form != 0 or not isinstance(size, int):
        return False
    places.sort()
    return np.array_equal(places[:size] if beyond else places, np.arange(size))
