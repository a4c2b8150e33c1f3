"""Operators that write where an index tensor says.

An index counts from the end where it is negative; one that is out of range is a run-time error.
Updates are made in row-major order, so that of several to one element the last one stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from sardonyx.dims import Dim
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, lift
from sardonyx.ops.common import maximum, minimum, normalize_axis, one_of
from sardonyx.ops.index import replaced, wrapped
from sardonyx.ops.registry import operator
from sardonyx.ops.sizes import agree, numbers

REDUCTIONS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "none": lambda old, new: new,
    "add": lambda old, new: old + new,
    "mul": lambda old, new: old * new,
    "max": maximum,
    "min": minimum,
}


@operator("Scatter", 9, 11)
@operator("ScatterElements", 11, 13, 16, 18)
def scatter_elements(
    k: Builder,
    data: Tensor,
    indices: Tensor,
    updates: Tensor,
    *,
    axis: int = 0,
    reduction: str = "none",
) -> Tensor:
    """data, with the element at i, but on the axis at indices[i], updated by updates[i]."""
    a = normalize_axis(axis, data.rank)
    for n, m in zip(indices.shape, updates.shape, strict=True):
        agree(n, m, "the shapes of indices and updates")
    out = k.compute(data.shape, lambda *i: data[i])
    with loops(k, updates.shape) as i:
        place = replaced(i, a, wrapped(indices[i], data.shape[a]))
        k.store(out, place, _reduced(reduction, out.trap(place), updates[i]))
    return out


@operator("ScatterND", 11, 13, 16, 18)
def scatter_nd(
    k: Builder, data: Tensor, indices: Tensor, updates: Tensor, *, reduction: str = "none"
) -> Tensor:
    """data, with the slice at each index tuple of indices updated by a slice of updates."""
    (length,) = numbers(indices.shape[-1:], "the length of the index tuples")
    outer = indices.rank - 1
    for n, m in zip((*indices.shape[:-1], *data.shape[length:]), updates.shape, strict=True):
        agree(n, m, "the shape of updates")
    out = k.compute(data.shape, lambda *i: data[i])
    with loops(k, updates.shape) as i:
        start = [wrapped(indices[(*i[:outer], lift(n))], data.shape[n]) for n in range(length)]
        place = (*start, *i[outer:])
        k.store(out, place, _reduced(reduction, out.trap(place), updates[i]))
    return out


@operator("TensorScatter", 24)
def tensor_scatter(
    k: Builder,
    past_cache: Tensor,
    update: Tensor,
    write_indices: Tensor | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
) -> Tensor:
    """past_cache, with update written along the axis from write_indices[batch] (0 if absent) on;
    mode "circular" goes on at the beginning."""
    one_of(mode, ("linear", "circular"), "mode")
    a = normalize_axis(axis, past_cache.rank)
    if a == 0:
        raise InvalidModel("axis 0 is the batch, the cache has another one")
    length = past_cache.shape[a]
    for d, (n, m) in enumerate(zip(past_cache.shape, update.shape, strict=True)):
        if d != a:
            agree(n, m, "the shapes of past_cache and update")
    out = k.compute(past_cache.shape, lambda *i: past_cache[i])
    with loops(k, update.shape) as i:
        start = lift(0) if write_indices is None else write_indices[i[0]]
        place = start + i[a]
        k.store(out, replaced(i, a, place % length if mode == "circular" else place), update[i])
    return out


def _reduced(reduction: str, old: Expr, new: Expr) -> Expr:
    one_of(reduction, tuple(REDUCTIONS), "reduction")
    return REDUCTIONS[reduction](old, new)


@contextmanager
def loops(k: Builder, extents: Sequence[Dim]) -> Iterator[tuple[Axis, ...]]:
    """Statements repeated for each index of a shape, in row-major order."""
    with ExitStack() as stack:
        yield tuple([stack.enter_context(k.loop(n)) for n in extents])
