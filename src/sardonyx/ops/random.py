"""The random operators: functions of a seed, the generator being Philox4x32-10.

`seed` is a float as the schema has it, and then its float32 bits are the key, or an int that is the
key (64 bits), which resolve states where the node states none. Section 10 of docs/numerics.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sardonyx import types as t
from sardonyx.dims import Dim
from sardonyx.errors import InvalidModel
from sardonyx.kernel import elementary as fn
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, cast, lift, where
from sardonyx.kernel.philox import block, normal, uniform
from sardonyx.ops.common import compute_type, minimum, need_dtype
from sardonyx.ops.index import flat_index
from sardonyx.ops.registry import operator
from sardonyx.ops.scatter import loops
from sardonyx.types import DType


@operator("RandomUniform", 1, 22)
def random_uniform(
    k: Builder,
    *,
    dtype: int = 1,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
    shape: Sequence[int],
) -> Tensor:
    return _uniform(k, shape, need_dtype(dtype), low, high, seed)


@operator("RandomUniformLike", 1, 22)
def random_uniform_like(
    k: Builder,
    x: Tensor,
    *,
    dtype: int | None = None,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
) -> Tensor:
    return _uniform(k, x.shape, _type_of(x, dtype), low, high, seed)


@operator("RandomNormal", 1, 22, accuracy="approximate")
def random_normal(
    k: Builder,
    *,
    dtype: int = 1,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
    shape: Sequence[int],
) -> Tensor:
    return _normal(k, shape, need_dtype(dtype), mean, scale, seed)


@operator("RandomNormalLike", 1, 22, accuracy="approximate")
def random_normal_like(
    k: Builder,
    x: Tensor,
    *,
    dtype: int | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Tensor:
    return _normal(k, x.shape, _type_of(x, dtype), mean, scale, seed)


@operator("Bernoulli", 15, 22)
def bernoulli(
    k: Builder, x: Tensor, *, dtype: int | None = None, seed: float | None = None
) -> Tensor:
    """1 where the uniform number of the element is below its probability."""
    wide = compute_type(x.dtype)

    def element(*i: Axis) -> Expr:
        return _drawn(i, x.shape, wide, seed) < x[i]

    return k.compute(x.shape, element, _type_of(x, dtype))


@operator("Multinomial", 7, 22, accuracy="approximate")
def multinomial(
    k: Builder, x: Tensor, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None
) -> Tensor:
    """[batch, sample_size] classes: how many running sums of exp(x - max(x)), in float64, are at
    most the uniform number of the sample times the last sum."""
    batch, classes = x.shape
    weights = k.tensor(x.shape, t.float64)
    with loops(k, (batch,)) as (b,):
        top = k.local(k.fold("max", (classes,), lambda c: cast(x[b, c], t.float64)))
        total = k.local(lift(0.0, t.float64))
        with k.loop(classes) as c:
            k.set(total, total + fn.exp(cast(x[b, c], t.float64) - top))
            k.store(weights, (b, c), total)

    def element(b: Axis, s: Axis) -> Expr:
        last = weights.guard((b, lift(classes) - 1))
        drawn = _drawn((b, s), (batch, sample_size), t.float64, seed) * last
        passed = k.sum((classes,), lambda c: lift(1), lambda c: weights[b, c] <= drawn)
        return minimum(passed, classes - 1)

    return k.compute((batch, sample_size), element, need_dtype(dtype))


@operator("Dropout", 1, 6)
def dropout_1(
    k: Builder, x: Tensor, *, is_test: int = 0, ratio: float = 0.5
) -> tuple[Tensor, Tensor]:
    """These versions have no seed: the key is 0."""
    if is_test or not ratio:
        return x, _ones(k, x, x.dtype)
    if not 0 <= ratio < 1:
        raise InvalidModel(f"the ratio {ratio} is not in [0, 1)")
    wide = compute_type(x.dtype)
    return _dropped(k, x, lift(ratio, wide), lift(True, t.bool_), 0, x.dtype)


@operator("Dropout", 7)
def dropout_7(k: Builder, x: Tensor, *, ratio: float = 0.5) -> tuple[Tensor, Tensor]:
    """Inference: training has become another operator's matter."""
    return x, _ones(k, x, x.dtype)


@operator("Dropout", 10)
def dropout_10(k: Builder, x: Tensor, *, ratio: float = 0.5) -> tuple[Tensor, Tensor]:
    return x, _ones(k, x, t.bool_)


@operator("Dropout", 12, 13, 22)
def dropout(
    k: Builder,
    x: Tensor,
    ratio: Tensor | None = None,
    training_mode: Tensor | None = None,
    *,
    seed: int | None = None,
) -> tuple[Tensor, Tensor]:
    """In training mode: 0 where the uniform number is below the ratio, else x / (1 - ratio)."""
    if training_mode is None or (training_mode.value is not None and not any(training_mode.ints())):
        return x, _ones(k, x, t.bool_)
    if ratio is not None and ratio.value is not None and not any(ratio.floats()):
        return x, _ones(k, x, t.bool_)
    wide = compute_type(x.dtype)
    rate = lift(0.5, wide) if ratio is None else cast(ratio[(0,) * ratio.rank], wide)
    training = training_mode[(0,) * training_mode.rank] & rate.ne(0.0)
    return _dropped(k, x, rate, training, seed, t.bool_)


def _dropped(
    k: Builder, x: Tensor, rate: Expr, training: Expr, seed: float | None, mask_type: DType
) -> tuple[Tensor, Tensor]:
    """x without the elements that are dropped, scaled, and the mask of those that stay."""
    wide = compute_type(x.dtype)

    def stays(*i: Axis) -> Expr:
        return where(training, _drawn(i, x.shape, wide, seed) >= rate, True)

    mask = k.compute(x.shape, stays, t.bool_)
    scale = where(training, 1 / (1 - rate), lift(1.0, wide))
    y = k.compute(x.shape, lambda *i: where(mask[i], cast(x[i], wide) * scale, 0.0), x.dtype)
    return y, mask if mask_type is t.bool_ else k.compute(x.shape, lambda *i: mask[i], mask_type)


def _ones(k: Builder, x: Tensor, dtype: DType) -> Tensor:
    return k.compute(x.shape, lambda *_: 1, dtype)


def _uniform(
    k: Builder, shape: Sequence[Dim], dtype: DType, low: float, high: float, seed: float | None
) -> Tensor:
    """low + u * (high - low)."""
    wide = _float(dtype)
    span = lift(high, wide) - lift(low, wide)
    return k.compute(shape, lambda *i: _drawn(i, shape, wide, seed) * span + low, dtype)


def _normal(
    k: Builder, shape: Sequence[Dim], dtype: DType, mean: float, scale: float, seed: float | None
) -> Tensor:
    """z * scale + mean."""
    wide = _float(dtype)

    def element(*i: Axis) -> Expr:
        return normal(block(flat_index(i, shape), _key(seed)), wide) * scale + mean

    return k.compute(shape, element, dtype)


def _drawn(i: Sequence[Expr], shape: Sequence[Dim], wide: DType, seed: float | None) -> Expr:
    """The uniform number of the element at i."""
    return uniform(block(flat_index(i, shape), _key(seed)), wide)


def _key(seed: float | None) -> int:
    """The 64 bits of the key."""
    if isinstance(seed, float):
        return int(np.float32(seed).view(np.uint32))
    return int(seed or 0) % (1 << 64)


def _type_of(x: Tensor, code: int | None) -> DType:
    return x.dtype if code is None else need_dtype(code)


def _float(dtype: DType) -> DType:
    """The type in which a random number of a float type is made."""
    if not dtype.is_float:
        raise InvalidModel(f"random numbers are floats, not {dtype}")
    return compute_type(dtype)
