"""Cast, CastLike and Identity."""

from __future__ import annotations

from sardonyx.errors import InvalidModel, UnsupportedModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import cast
from sardonyx.ops.common import need_dtype
from sardonyx.ops.registry import operator
from sardonyx.types import DTYPES, DType


@operator("Identity", 1, 13, 14, 16, 19, 21, 23, 24, 25)
def identity(k: Builder, x: Tensor) -> Tensor:
    return x


@operator("Cast", 1)
def cast_1(k: Builder, x: Tensor, *, to: str) -> Tensor:
    """`to` is the name of a TensorProto.DataType: FLOAT, DOUBLE, INT64, ..."""
    dtype = next((d for d in DTYPES if d.ort == to.lower()), None)
    if dtype is None:
        raise UnsupportedModel(f"the element type {to} is not supported")
    return converted(k, x, dtype)


@operator("Cast", 6, 9, 13)
def cast_6(k: Builder, x: Tensor, *, to: int) -> Tensor:
    return converted(k, x, need_dtype(to))


@operator("Cast", 19, 21, 23)
def cast_19(k: Builder, x: Tensor, *, to: int, saturate: int = 1) -> Tensor:
    """`saturate` concerns the 8-bit float types only."""
    return converted(k, x, need_dtype(to), saturate)


@operator("Cast", 24, 25, 28)
def cast_24(k: Builder, x: Tensor, *, to: int, saturate: int = 1, round_mode: str = "up") -> Tensor:
    """`round_mode` concerns float8e8m0 only."""
    return converted(k, x, need_dtype(to), saturate, round_mode)


@operator("CastLike", 15)
def cast_like_15(k: Builder, x: Tensor, target_type: Tensor) -> Tensor:
    return converted(k, x, target_type.dtype)


@operator("CastLike", 19, 21, 23)
def cast_like_19(k: Builder, x: Tensor, target_type: Tensor, *, saturate: int = 1) -> Tensor:
    return converted(k, x, target_type.dtype, saturate)


@operator("CastLike", 24, 25)
def cast_like_24(
    k: Builder, x: Tensor, target_type: Tensor, *, saturate: int = 1, round_mode: str = "up"
) -> Tensor:
    return converted(k, x, target_type.dtype, saturate, round_mode)


def converted(
    k: Builder, x: Tensor, dtype: DType, saturate: int = 1, round_mode: str = "up"
) -> Tensor:
    """x in another type, rounded once; x itself where the type is the same."""
    if round_mode not in ("up", "down", "nearest"):
        raise InvalidModel(f"round_mode is up, down or nearest, found {round_mode!r}")
    if x.dtype is dtype:
        return x
    return k.compute(x.shape, lambda *i: cast(x[i], dtype, bool(saturate), round_mode), dtype)
