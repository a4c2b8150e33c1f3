"""Cast, CastLike and Identity."""

from __future__ import annotations

from sardonyx.errors import InvalidModel, UnsupportedModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import cast
from sardonyx.ops.common import need_dtype
from sardonyx.ops.registry import operator, version_of
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


@operator("Cast", 24, 25, 28)
def cast_to(k: Builder, x: Tensor, *, to: int, saturate: int = 1, round_mode: str = "up") -> Tensor:
    """`round_mode` concerns float8e8m0 only."""
    return converted(k, x, need_dtype(to), saturate, round_mode)


_cast_19 = version_of(cast_to, "round_mode")
operator("Cast", 19, 21, 23)(_cast_19)
operator("Cast", 6, 9, 13)(version_of(_cast_19, "saturate"))


@operator("CastLike", 24, 25)
def cast_like(
    k: Builder, x: Tensor, target_type: Tensor, *, saturate: int = 1, round_mode: str = "up"
) -> Tensor:
    return converted(k, x, target_type.dtype, saturate, round_mode)


_cast_like_19 = version_of(cast_like, "round_mode")
operator("CastLike", 19, 21, 23)(_cast_like_19)
operator("CastLike", 15)(version_of(_cast_like_19, "saturate"))


def converted(
    k: Builder, x: Tensor, dtype: DType, saturate: int = 1, round_mode: str = "up"
) -> Tensor:
    """x in another type, rounded once; x itself where the type is the same."""
    if round_mode not in ("up", "down", "nearest"):
        raise InvalidModel(f"round_mode is up, down or nearest, found {round_mode!r}")
    if x.dtype is dtype:
        return x
    return k.compute(x.shape, lambda *i: cast(x[i], dtype, bool(saturate), round_mode), dtype)
