"""Operators that read where an index tensor says. An index counts from the end where it is
negative; one that is out of range is a run-time error."""

from __future__ import annotations

from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, lift, where
from sardonyx.ops.common import normalize_axis
from sardonyx.ops.index import replaced, wrapped
from sardonyx.ops.registry import operator
from sardonyx.ops.sizes import agree, numbers


@operator("Gather", 1, 11, 13)
def gather(k: Builder, data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    a = normalize_axis(axis, data.rank)
    b = a + indices.rank

    def element(*i: Axis) -> Expr:
        return data.trap((*i[:a], wrapped(indices[i[a:b]], data.shape[a]), *i[b:]))

    return k.compute((*data.shape[:a], *indices.shape, *data.shape[a + 1 :]), element)


@operator("GatherElements", 11, 13)
def gather_elements(k: Builder, data: Tensor, indices: Tensor, *, axis: int = 0) -> Tensor:
    agree(data.rank, indices.rank, "the ranks of data and indices")
    a = normalize_axis(axis, data.rank)
    return k.compute(
        indices.shape,
        lambda *i: data.trap(replaced(i, a, wrapped(indices[i], data.shape[a]))),
    )


@operator("GatherND", 11, 12, 13)
def gather_nd(k: Builder, data: Tensor, indices: Tensor, *, batch_dims: int = 0) -> Tensor:
    """The slice of data at each index tuple, which the last axis of indices holds."""
    (length,) = numbers(indices.shape[-1:], "the length of the index tuples")
    outer, fixed = indices.rank - 1, batch_dims + length
    if not 0 <= batch_dims <= min(outer, data.rank - 1) or not 1 <= length <= data.rank:
        raise InvalidModel(f"batch_dims {batch_dims} does not fit {indices.shape} and {data.shape}")
    if fixed > data.rank:
        raise InvalidModel(f"index tuples of length {length} are too long for {data.shape}")
    for a in range(batch_dims):
        agree(data.shape[a], indices.shape[a], "a batch dim of data and indices")

    def element(*i: Axis) -> Expr:
        place = [
            wrapped(indices[(*i[:outer], lift(n))], data.shape[batch_dims + n])
            for n in range(length)
        ]
        return data.trap((*i[:batch_dims], *place, *i[outer:]))

    return k.compute((*indices.shape[:outer], *data.shape[fixed:]), element)


@operator("OneHot", 9, 11, 28)
def one_hot(
    k: Builder, indices: Tensor, depth: Tensor, values: Tensor, *, axis: int = -1
) -> Tensor:
    """values[1] where the index on the new axis is the one in indices, else values[0]."""
    if depth.dtype.is_float:
        size = int(depth.floats()[0])
    else:
        (size,) = depth.ints()
    a = normalize_axis(axis, indices.rank + 1)
    k.need_shape(values, (2,), "values")

    def element(*i: Axis) -> Expr:
        hot = wrapped(indices[(*i[:a], *i[a + 1 :])], size).eq(i[a])
        return where(hot, values[1], values[0])

    return k.compute((*indices.shape[:a], size, *indices.shape[a:]), element)
