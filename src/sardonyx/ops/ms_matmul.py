"""Products of com.microsoft: with transposition, with weights of few bits, quantised on the way."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import types as t
from sardonyx.errors import InvalidModel, UnsupportedModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, Operand, cast, lift, where
from sardonyx.ops.common import (
    broadcast_shapes,
    compute_type,
    fold_along,
    maximum,
    minimum,
)
from sardonyx.ops.matmul import matmul, scaled
from sardonyx.ops.ms_common import contrib, refuse
from sardonyx.ops.qlinear import at_axis, matmul_integer
from sardonyx.ops.quantize import quantized
from sardonyx.ops.registry import version_of
from sardonyx.ops.sizes import agree, ceil_div


@contrib("FusedMatMul", "rounding")
def fused_matmul(
    k: Builder,
    a: Tensor,
    b: Tensor,
    *,
    alpha: float = 1.0,
    transA: int = 0,
    transB: int = 0,
    transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:
    """alpha * (A' @ B'): transBatch moves the first axis behind the batch axes, trans swaps the
    last two; a vector stays as it is."""
    if a.rank < 2 or b.rank < 2:
        y = matmul(k, a, b)
        return y if alpha == 1 else k.compute(y.shape, lambda *i: scaled(y[i], alpha), y.dtype)
    order_a, order_b = _order(a.rank, transA, transBatchA), _order(b.rank, transB, transBatchB)
    *batch_a, rows, depth = (a.shape[d] for d in order_a)
    *batch_b, depth_b, columns = (b.shape[d] for d in order_b)
    depth = agree(depth, depth_b, "FusedMatMul's inner sizes")
    batch = broadcast_shapes(batch_a, batch_b)

    def element(*i: Axis) -> Expr:
        *outer, m, n = i
        product = k.dot(
            (depth,), lambda q: (_at(a, order_a, (*outer, m, q)), _at(b, order_b, (*outer, q, n)))
        )
        return scaled(product, alpha)

    return k.compute((*batch, rows, columns), element, a.dtype)


contrib("TransposeMatMul", "rounding")(version_of(fused_matmul, "transBatchA", "transBatchB"))


def _order(rank: int, swap: int, move: int) -> list[int]:
    """Which axis of the operand each axis of the factor is."""
    order = [*range(1, rank - 1), 0, rank - 1] if move else list(range(rank))
    return [*order[:-2], order[-1], order[-2]] if swap else order


def _at(x: Tensor, order: Sequence[int], index: Sequence[Operand]) -> Expr:
    kept = index[len(index) - x.rank :]
    return x.broadcast([kept[order.index(d)] for d in range(x.rank)])


@contrib("MatMulNBits", "rounding")
def matmul_nbits(
    k: Builder,
    a: Tensor,
    b: Tensor,
    scales: Tensor,
    zero_points: Tensor | None = None,
    g_idx: Tensor | None = None,
    bias: Tensor | None = None,
    *,
    K: int,
    N: int,
    bits: int = 4,
    block_size: int,
    accuracy_level: int = 0,
    weight_prepacked: int = 0,
) -> Tensor:
    """A @ W' + bias, W of shape (N, K) in blocks of block_size weights of a row.

    W = (q - zero point) * scale, rounded to the compute type; q are unsigned numbers of 2, 4 or 8
    bits, the lowest first in each byte, and the zero point is half of their range unless given
    (packed as q are, or as floats). g_idx says which block's scale each of the K has; with packed
    zero points and with 2 bits, where onnxruntime does not read it so, it is refused.
    accuracy_level allows less; nothing is made of it.
    """
    refuse(weight_prepacked=weight_prepacked)
    if bits == 2 or (zero_points is not None and zero_points.dtype is t.uint8):
        refuse(g_idx=g_idx)
    if bits not in (2, 4, 8):
        raise UnsupportedModel(f"MatMulNBits of {bits} bits is not supported")
    blocks, each = -(-K // block_size), 8 // bits
    k.need_equal(a.shape[-1], K, "K and the last axis of A")
    size = ceil_div(block_size * bits, 8)
    k.need_shape(b, (N, blocks, size), "B")
    k.need_shape(bias, (N,), "bias")
    if g_idx is not None and g_idx.shape != (K,):
        k.need_shape(g_idx, (blocks * block_size,), "g_idx")
    packed, steps = b, scales.reshaped((N, blocks))
    wide = compute_type(a.dtype)

    def weight(n: Axis, q: Axis) -> Expr:
        block, place = q // block_size, q % block_size
        value = unpacked(packed[n, block, place // each], place % each, bits)
        group = block if g_idx is None else cast(g_idx[q], t.int64)
        zero = _zero_point(k, zero_points, (n, group), (N, blocks), bits)
        scale = cast(steps[n, block] if g_idx is None else steps.trap((n, group)), wide)
        if zero.dtype is t.int32:
            return cast(value - zero, wide) * scale
        return (cast(value, wide) - cast(zero, wide)) * scale

    w = k.compute((N, K), weight, wide)

    def element(*i: Axis) -> Expr:
        y = k.dot((K,), lambda q: (a[(*i[:-1], q)], w[i[-1], q]))
        return y if bias is None else y + bias[i[-1]]

    return k.compute((*a.shape[:-1], N), element, a.dtype)


def unpacked(byte: Expr, place: Expr, bits: int) -> Expr:
    """The number of that place in a byte, as int32."""
    wide = cast(byte, t.int32)
    return wide if bits == 8 else (wide >> cast(place * bits, t.int32)) & ((1 << bits) - 1)


def _zero_point(
    k: Builder, z: Tensor | None, at: tuple[Expr, Expr], shape: tuple[int, int], bits: int
) -> Expr:
    if z is None:
        return lift(1 << (bits - 1), t.int32)
    n, block = at
    if z.dtype.is_float:
        return z.reshaped(shape).trap((n, block))
    if z.dtype is not t.uint8:
        raise InvalidModel(f"zero points of {z.dtype}; expected uint8 or the type of A")
    rows, each = shape[0], 8 // bits
    row = z.reshaped((rows, ceil_div(shape[1] * bits, 8)))
    return unpacked(row[n, block // each], block % each, bits)


@contrib("MatMulInteger16")
def matmul_integer_16(k: Builder, a: Tensor, b: Tensor) -> Tensor:
    """The int32 product of int16 matrices; it wraps."""
    wide = [k.compute(x.shape, lambda *i, x=x: x[i], t.int32) for x in (a, b)]
    return matmul(k, *wide)


@contrib("MatMulIntegerToFloat", "exact")
def matmul_integer_to_float(
    k: Builder,
    a: Tensor,
    b: Tensor,
    a_scale: Tensor,
    b_scale: Tensor,
    a_zero_point: Tensor | None = None,
    b_zero_point: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """float32((a - a_zero_point) @ (b - b_zero_point)) * (a_scale * b_scale) + bias."""
    total = matmul_integer(k, a, b, a_zero_point, b_zero_point)
    by_a, by_b = at_axis(a_scale, -2), at_axis(b_scale, -1)

    def element(*i: Axis) -> Expr:
        y = cast(total[i], t.float32) * (cast(by_a(i), t.float32) * cast(by_b(i), t.float32))
        return y if bias is None else y + bias.broadcast(i)

    return k.compute(total.shape, element, a_scale.dtype)


@contrib("DynamicQuantizeMatMul", "rounding")
def dynamic_quantize_matmul(
    k: Builder,
    a: Tensor,
    b: Tensor,
    b_scale: Tensor,
    b_zero_point: Tensor | None = None,
    bias: Tensor | None = None,
) -> Tensor:
    """MatMulIntegerToFloat of DynamicQuantizeLinear(a)."""
    q, scale, zero = dynamically_quantized(k, a)
    return matmul_integer_to_float(k, q, b, scale, b_scale, zero, b_zero_point, bias)


def dynamically_quantized(k: Builder, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(uint8, scale, zero point), by the range of x extended to 0, as DynamicQuantizeLinear."""
    axes = range(x.rank)
    low = k.compute((), lambda: minimum(fold_along(k, "min", x, axes, ()), 0.0), t.float32)
    high = k.compute((), lambda: maximum(fold_along(k, "max", x, axes, ()), 0.0), t.float32)

    def step() -> Expr:
        found = (high[()] - low[()]) / 255.0
        return where(found.eq(0.0), 1.0, found)

    scale = k.compute((), step, t.float32)
    zero = k.compute((), lambda: quantized((0.0 - low[()]) / scale[()], None, t.uint8), t.uint8)
    q = k.compute(x.shape, lambda *i: quantized(x[i] / scale[()], zero[()], t.uint8), t.uint8)
    return q, scale, zero
