"""Tensors that do not depend on values: Constant, ConstantOfShape, EyeLike, Range, and Trilu."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np

from sardonyx.dims import Dim, extreme
from sardonyx.errors import InvalidModel, UnsupportedModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import cast, where
from sardonyx.ops.common import compute_type, need_dtype
from sardonyx.ops.registry import operator, version_of
from sardonyx.ops.sizes import ceil_div
from sardonyx.types import Array


@operator("Constant", 1, 9)
def constant_1(k: Builder, *, value: Array) -> Tensor:
    return _table(k, value)


@operator("Constant", 12, 13, 19, 21, 23, 24, 25)
def constant(
    k: Builder,
    *,
    value: Array | None = None,
    sparse_value: Array | None = None,
    value_float: float | None = None,
    value_floats: Sequence[float] | None = None,
    value_int: int | None = None,
    value_ints: Sequence[int] | None = None,
    value_string: str | None = None,
    value_strings: Sequence[str] | None = None,
) -> Tensor:
    """Exactly one attribute is given; `sparse_value` arrives as a dense array."""
    if value_string is not None or value_strings is not None:
        raise UnsupportedModel("Constant of strings is not supported")
    given = [
        value,
        sparse_value,
        None if value_float is None else np.array(value_float, np.float32),
        None if value_floats is None else np.array(value_floats, np.float32),
        None if value_int is None else np.array(value_int, np.int64),
        None if value_ints is None else np.array(value_ints, np.int64),
    ]
    found = [v for v in given if v is not None]
    if len(found) != 1:
        raise InvalidModel(f"Constant needs exactly one value, found {len(found)}")
    return _table(k, found[0])


operator("Constant", 11)(
    version_of(
        constant, "value_float", "value_floats", "value_int", "value_ints", "value_string",
        "value_strings",
    )
)  # fmt: skip


def _table(k: Builder, value: Array) -> Tensor:
    table = k.constant(value)
    return k.compute(table.shape, lambda *i: table[i], table.dtype)


@operator("ConstantOfShape", 9, 20, 21, 23, 24, 25)
def constant_of_shape(k: Builder, shape: Tensor, *, value: Array | None = None) -> Tensor:
    element = np.zeros(1, np.float32) if value is None else value
    if element.size != 1:
        raise InvalidModel(f"value has one element, found {element.size}")
    table = k.constant(element.reshape(()))
    return k.compute(shape.known(), lambda *_: table[()], table.dtype)


@operator("EyeLike", 9, 22)
def eye_like(b: Builder, x: Tensor, *, dtype: int | None = None, k: int = 0) -> Tensor:
    result = x.dtype if dtype is None else need_dtype(dtype)
    return b.compute(x.shape, lambda i, j: (j - i).eq(k), result)


@operator("Range", 27)
def range_(
    k: Builder, start: Tensor, limit: Tensor, delta: Tensor, *, stash_type: int = 1
) -> Tensor:
    """start + i * delta; in float32 for the 16-bit floats."""
    if stash_type != 1 and start.dtype.bits == 16 and start.dtype.is_float:
        raise UnsupportedModel(f"Range with stash_type {stash_type} on {start.dtype}")
    dtype = compute_type(start.dtype)
    return k.compute(
        (_steps(start, limit, delta),),
        lambda i: start[()] + cast(i, dtype) * delta[()],
        start.dtype,
    )


operator("Range", 11)(version_of(range_, "stash_type"))


def _steps(start: Tensor, limit: Tensor, delta: Tensor) -> Dim:
    """max(ceil((limit - start) / delta), 0); the difference of floats rounds in their type."""
    if start.dtype.is_float:
        for x in (start, limit, delta):
            x.floats()
        first, last = (np.asarray(x.value, x.dtype.numpy).reshape(()) for x in (start, limit))
        (step,) = delta.floats()
        with np.errstate(all="ignore"):  # of infinities, which no size is made of
            apart = float(last - first)
        return 0 if not step else max(ceil(apart / step), 0)
    (first_int,), (last_int,), (step_int,) = start.known(), limit.known(), delta.ints()
    if step_int == 0:
        raise InvalidModel("Range needs a delta other than 0")
    span = (last_int - first_int) * (1 if step_int > 0 else -1)
    return extreme("max", ceil_div(span, abs(step_int)), 0)


@operator("Trilu", 14)
def trilu(k: Builder, x: Tensor, diagonal: Tensor | None = None, *, upper: int = 1) -> Tensor:
    offset = 0 if diagonal is None else diagonal.reshaped(())[()]
    return k.compute(
        x.shape,
        lambda *i: where(i[-1] - i[-2] >= offset if upper else i[-1] - i[-2] <= offset, x[i], 0),
        x.dtype,
    )
