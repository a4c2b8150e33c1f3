"""Normalizations, one statistic after the other, each step rounding in the compute type."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import types as t
from sardonyx.dims import Dim, product
from sardonyx.errors import InvalidModel, UnsupportedModel
from sardonyx.kernel import elementary as fn
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, Operand, alu, cast, lift, where
from sardonyx.ops.common import (
    compute_type,
    fold_along,
    kept_index,
    need_dtype,
    normalize_axes,
    normalize_axis,
    reduced_shape,
)
from sardonyx.ops.elementwise import root, square
from sardonyx.ops.registry import operator, version_of
from sardonyx.ops.sizes import quotient


def mean_along(k: Builder, x: Tensor, axes: Sequence[int]) -> Tensor:
    """The mean over `axes`, their extents kept as 1."""
    wide = compute_type(x.dtype)
    count = cast(lift(product([x.shape[a] for a in axes])), wide)
    return k.compute(
        reduced_shape(x, axes), lambda *i: fold_along(k, "sum", x, axes, i) / count, wide
    )


def variance_along(k: Builder, x: Tensor, axes: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """(mean, x - mean, the mean of its square)."""
    mean, wide = mean_along(k, x, axes), compute_type(x.dtype)
    centred = k.compute(x.shape, lambda *i: x[i] - mean[kept_index(i, axes, x.rank)], wide)
    squares = k.compute(x.shape, lambda *i: centred[i] * centred[i], wide)
    return mean, centred, mean_along(k, squares, axes)


def inverse_deviation(k: Builder, variance: Tensor, epsilon: float) -> Tensor:
    """1 / sqrt(variance + epsilon)."""
    return k.compute(
        variance.shape, lambda *i: 1 / alu("sqrt", variance[i] + epsilon), variance.dtype
    )


def standardized(
    k: Builder, x: Tensor, axes: Sequence[int], epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(mean, 1 / deviation, (x - mean) * (1 / deviation))."""
    mean, centred, variance = variance_along(k, x, axes)
    inverse = inverse_deviation(k, variance, epsilon)
    normal = k.compute(
        x.shape, lambda *i: centred[i] * inverse[kept_index(i, axes, x.rank)], centred.dtype
    )
    return mean, inverse, normal


@operator("LayerNormalization", 17, accuracy="rounding")
def layer_normalization(
    k: Builder,
    x: Tensor,
    scale: Tensor,
    b: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> tuple[Tensor, Tensor, Tensor]:
    """Y, Mean and InvStdDev; computed in the compute type of X, stored in stash_type."""
    k.need_broadcast(scale, x.shape, "Scale")
    k.need_broadcast(b, x.shape, "B")
    axes = range(normalize_axis(axis, x.rank), x.rank)
    mean, inverse, normal = standardized(k, x, axes, epsilon)

    def element(*i: Axis) -> Expr:
        y = normal[i] * scale.broadcast(i)
        return y if b is None else y + b.broadcast(i)

    stash = need_dtype(stash_type)
    return (
        k.compute(x.shape, element, x.dtype),
        k.compute(mean.shape, lambda *i: mean[i], stash),
        k.compute(inverse.shape, lambda *i: inverse[i], stash),
    )


@operator("RMSNormalization", 23, accuracy="rounding")
def rms_normalization(
    k: Builder,
    x: Tensor,
    scale: Tensor,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Tensor:
    """x / sqrt(mean(x * x) + epsilon) * scale."""
    k.need_broadcast(scale, x.shape, "scale")
    axes = range(normalize_axis(axis, x.rank), x.rank)
    wide = compute_type(x.dtype)
    squares = k.compute(x.shape, lambda *i: x[i] * x[i], wide)
    mean = mean_along(k, squares, axes)
    rms = k.compute(mean.shape, lambda *i: alu("sqrt", mean[i] + epsilon), wide)
    return k.compute(
        x.shape,
        lambda *i: x[i] / rms[kept_index(i, axes, x.rank)] * scale.broadcast(i),
        x.dtype,
    )


@operator("InstanceNormalization", 1, 6, 22, accuracy="rounding")
def instance_normalization(
    k: Builder, x: Tensor, scale: Tensor, b: Tensor, *, epsilon: float = 1e-5
) -> Tensor:
    """scale and B: one number for each channel."""
    k.need_shape(scale, x.shape[1:2], "scale")
    k.need_shape(b, x.shape[1:2], "B")
    _, _, normal = standardized(k, x, range(2, x.rank), epsilon)
    return k.compute(x.shape, lambda n, c, *i: normal[n, c, *i] * scale[c] + b[c], x.dtype)


@operator("GroupNormalization", 18, accuracy="rounding")
def group_normalization_18(
    k: Builder, x: Tensor, scale: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5
) -> Tensor:
    """scale and bias: one number for each group."""
    k.need_shape(scale, (num_groups,), "scale")
    k.need_shape(bias, (num_groups,), "bias")
    return _grouped(k, x, scale.reshaped((num_groups, 1)), bias.reshaped((num_groups, 1)), epsilon)


@operator("GroupNormalization", 21, accuracy="rounding")
def group_normalization(
    k: Builder,
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Tensor:
    """scale and bias: one number for each channel."""
    k.need_shape(scale, x.shape[1:2], "scale")
    k.need_shape(bias, x.shape[1:2], "bias")
    shape = num_groups, channels_per_group(x, num_groups)
    return _grouped(k, x, scale.reshaped(shape), bias.reshaped(shape), epsilon)


def channels_per_group(x: Tensor, groups: int) -> Dim:
    return quotient(x.shape[1], groups, f"{x.shape[1]} channels do not make {groups} equal groups")


def _grouped(k: Builder, x: Tensor, scale: Tensor, bias: Tensor, epsilon: float) -> Tensor:
    """x as (N, group, channel in the group, ...), each group standardized; scale and bias are
    (group, channel in the group or 1)."""
    groups = scale.shape[0]
    assert isinstance(groups, int)
    split = x.reshaped((x.shape[0], groups, channels_per_group(x, groups), *x.shape[2:]))
    _, _, normal = standardized(k, split, range(2, split.rank), epsilon)
    out = k.tensor(x.shape, x.dtype)

    def element(n: Axis, g: Axis, c: Axis, *i: Axis) -> Expr:
        return normal[n, g, c, *i] * scale.broadcast((g, c)) + bias.broadcast((g, c))

    k.compute(split.shape, element, into=out.reshaped(split.shape))
    return out


@operator("BatchNormalization", 7, accuracy="rounding")
def batch_normalization_7(
    k: Builder,
    x: Tensor,
    scale: Tensor,
    b: Tensor,
    mean: Tensor,
    var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    spatial: int = 1,
) -> Tensor:
    """spatial=0: the statistics are those of each feature (c, d1, ..., dn), not of a channel."""
    if k.outputs > 1:
        raise UnsupportedModel("BatchNormalization with statistics as outputs is training mode")
    return _batch(k, x, scale, b, mean, var, epsilon, channels=1 if spatial else x.rank - 1)


operator("BatchNormalization", 1, 6, accuracy="rounding")(
    version_of(batch_normalization_7, is_test=0)
)
operator("BatchNormalization", 9, accuracy="rounding")(version_of(batch_normalization_7, "spatial"))


@operator("BatchNormalization", 14, 15, accuracy="rounding")
def batch_normalization(
    k: Builder,
    x: Tensor,
    scale: Tensor,
    b: Tensor,
    input_mean: Tensor,
    input_var: Tensor,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> tuple[Tensor, ...]:
    """Y; in training mode also the running mean and variance."""
    if not training_mode:
        return (_batch(k, x, scale, b, input_mean, input_var, epsilon),)
    axes = [d for d in range(x.rank) if d != 1]
    current = variance_along(k, x, axes)
    mean, var = (s.reshaped(scale.shape) for s in (current[0], current[2]))

    def running(old: Tensor, new: Tensor) -> Tensor:
        wide = new.dtype
        rest = cast(lift(1.0, wide) - momentum, wide)
        return k.compute(
            old.shape, lambda c: cast(old[c], wide) * momentum + new[c] * rest, old.dtype
        )

    y = _batch(k, x, scale, b, mean, var, epsilon)
    return y, running(input_mean, mean), running(input_var, var)


def _batch(
    k: Builder,
    x: Tensor,
    scale: Tensor,
    b: Tensor,
    mean: Tensor,
    var: Tensor,
    epsilon: float,
    channels: int = 1,
) -> Tensor:
    """x * s + t, with one fused multiply-add; s = scale / sqrt(var + epsilon), t = b - mean * s.

    The statistics have the `channels` axes of x after the first.
    """
    wide = compute_type(x.dtype)
    statistics = {"scale": scale, "B": b, "the mean": mean, "the variance": var}
    for what, given in statistics.items():
        k.need_shape(given, x.shape[1 : 1 + channels] or (1,), what)

    def at(tensor: Tensor, c: Sequence[Operand]) -> Expr:
        return cast(tensor[tuple(c)], wide)

    def factor(*c: Axis) -> Expr:
        return at(scale, c) / alu("sqrt", at(var, c) + epsilon)

    s = k.compute(scale.shape, factor, wide)
    t = k.compute(scale.shape, lambda *c: at(b, c) - at(mean, c) * s[c], wide)

    def element(*i: Axis) -> Expr:
        c = i[1 : 1 + channels] if x.rank > 1 else (0,)
        return alu("fma", x[i], s[c], t[c])

    return k.compute(x.shape, element, x.dtype)


@operator("LpNormalization", 1, 22, accuracy="rounding")
def lp_normalization(k: Builder, x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    """x / norm along the axis; 0 where the norm is 0."""
    if p not in (1, 2):
        raise InvalidModel(f"p is 1 or 2, found {p}")
    axes = [normalize_axis(axis, x.rank)]

    def norm_at(*i: Axis) -> Expr:
        if p == 1:
            return fold_along(k, "sum", x, axes, i, lambda e: alu("abs", e))
        return alu("sqrt", fold_along(k, "sum", x, axes, i, square))

    def element(*i: Axis) -> Expr:
        length = norm[kept_index(i, axes, x.rank)]
        return where(length.eq(0), 0, x[i] / length)

    norm = k.compute(reduced_shape(x, axes), norm_at, compute_type(x.dtype))
    return k.compute(x.shape, element, x.dtype)


@operator("MeanVarianceNormalization", 9, 13, accuracy="rounding")
def mean_variance_normalization(
    k: Builder, x: Tensor, *, axes: Sequence[int] = (0, 2, 3)
) -> Tensor:
    """(x - mean) / (deviation + 1e-9)."""
    over = normalize_axes(axes, x.rank)
    _, centred, variance = variance_along(k, x, over)
    deviation = k.compute(
        variance.shape, lambda *i: alu("sqrt", variance[i]) + 1e-9, variance.dtype
    )
    return k.compute(
        x.shape, lambda *i: centred[i] / deviation[kept_index(i, over, x.rank)], x.dtype
    )


@operator("LRN", 1, 13, accuracy="approximate")
def lrn(
    k: Builder,
    x: Tensor,
    *,
    size: int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    bias: float = 1.0,
) -> Tensor:
    """x / (bias + alpha / size * square_sum) ** beta over `size` neighbouring channels.

    The power 0.75 of float32 is two square roots in float64, rounded once to float32."""
    before, wide = (size - 1) // 2, compute_type(x.dtype)

    shape = (*x.shape[:2], product(x.shape[2:]))
    rows, out = x.reshaped(shape), k.tensor(x.shape, x.dtype)

    def near(n: Axis, c: Axis, i: Axis) -> Expr:
        return k.sum((size,), lambda q: square(rows.guard((n, c + q - before, i))))

    sums = k.compute(shape, near, wide)

    def element(*i: Axis) -> Expr:
        scale = sums[i] * (alpha / size) + bias
        by_roots = beta == 0.75 and wide is t.float32
        return rows[i] / (three_quarters(scale) if by_roots else fn.pow(scale, lift(beta, wide)))

    k.compute(shape, element, into=out.reshaped(shape))
    return out


def three_quarters(x: Expr) -> Expr:
    """x ** 0.75 of a float32 by two roots in float64, rounded once more."""
    half = root(cast(x, t.float64))
    return cast(half * root(half), t.float32)
