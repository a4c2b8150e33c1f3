"""Attention of com.microsoft: Attention, QAttention, MultiHeadAttention.

All are softmax(scale * Q @ K' + added) @ V for each head: scores, their softmax over the whole row,
and the mixture, each rounding in the compute type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import TypeAlias

from sardonyx import types as t
from sardonyx.dims import Dim
from sardonyx.errors import InvalidModel, Undetermined, UnsupportedModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, Operand, cast, lift, where
from sardonyx.ops.common import compute_type
from sardonyx.ops.ms_common import contrib, refuse
from sardonyx.ops.ms_matmul import matmul_integer_to_float
from sardonyx.ops.sizes import agree, numbers, quotient
from sardonyx.ops.softmax import softmax
from sardonyx.types import DType

LOWEST = -3.4028234663852886e38
Loader: TypeAlias = Callable[[Operand, Operand, Operand, Operand], Expr]
Added: TypeAlias = Callable[[Axis, Axis, Axis, Axis], Expr]


@dataclass(frozen=True, slots=True)
class Heads:
    """Vectors by (batch, head, place in the sequence, element)."""

    shape: tuple[Dim, Dim, Dim, Dim]
    at: Loader


def heads_of(x: Tensor, count: int, first: Dim = 0, size: Dim | None = None) -> Heads:
    """Heads that stand side by side on the last axis of x (batch, sequence, ...), from element
    `first` on, each of `size` elements (by default what `count` of them share)."""
    each = size
    if each is None:
        each = quotient(x.shape[2], count, f"{x.shape[2]} elements do not make {count} heads")
    shape = (x.shape[0], count, x.shape[1], each)
    return Heads(shape, lambda b, n, s, h: x[b, s, lift(n) * each + h + first])


def with_past(k: Builder, past: Tensor | None, new: Heads, dtype: DType) -> Heads:
    """The past vectors (batch, head, place, element), then the new ones."""
    if past is None:
        return new
    batch, count, more, size = new.shape
    k.need_shape(past, (batch, count, *past.shape[2:3], size), "the past keys or values")
    length = past.shape[2]

    def element(b: Axis, n: Axis, s: Axis, h: Axis) -> Expr:
        return where(s < length, past.guard((b, n, s, h)), fresh.guard((b, n, s - length, h)))

    fresh = k.compute(new.shape, new.at, dtype)
    return of_tensor(k.compute((batch, count, length + more, size), element, dtype))


def check_heads(k: Builder, query: Heads, key: Heads, value: Heads) -> None:
    """Requires one batch, one size of queries and keys, and as many keys as values."""
    k.need_equal(query.shape[3], key.shape[3], "the sizes of a head of Q and of K")
    for what, each in (("K", key), ("V", value)):
        k.need_equal(query.shape[0], each.shape[0], f"the batches of Q and of {what}")
    k.need_equal(key.shape[1], value.shape[1], "the numbers of heads of K and of V")
    k.need_equal(key.shape[2], value.shape[2], "the numbers of keys and of values")


def of_tensor(x: Tensor) -> Heads:
    if x.rank != 4:
        raise InvalidModel(f"a tensor of heads has rank 4, found {x.rank}")
    batch, count, length, size = x.shape
    return Heads((batch, count, length, size), lambda b, n, s, h: x[b, n, s, h])


def attend(
    k: Builder,
    query: Heads,
    key: Heads,
    value: Heads,
    scale: float | None,
    added: Sequence[Added],
    dtype: DType,
) -> Tensor:
    """The mixture, (batch, sequence, heads * elements of a value)."""
    batch, count, length, size = query.shape
    total, wide = key.shape[2], compute_type(dtype)
    check_heads(k, query, key, value)
    k.need_equal(count, key.shape[1], "the numbers of heads of Q and of K")
    factor = scale or default_scale(size)

    def score(b: Axis, n: Axis, s: Axis, r: Axis) -> Expr:
        e = k.dot((size,), lambda h: (query.at(b, n, s, h), key.at(b, n, r, h))) * factor
        for term in added:
            e = e + term(b, n, s, r)
        return e

    scores = k.compute((batch, count, length, total), score, wide)
    return mixture(k, softmax(k, scores, [3]), value, dtype)


def mixture(k: Builder, weights: Tensor, value: Heads, dtype: DType) -> Tensor:
    """The sum of the values with these weights (batch, head, place, place of the value)."""
    batch, count, length, total = weights.shape
    size = value.shape[3]
    out = k.tensor((batch, length, count * size), dtype)
    k.compute(
        (batch, length, count, size),
        lambda b, s, n, h: k.dot(
            (total,), lambda r: (weights[b, n, s, r], cast(value.at(b, n, r, h), weights.dtype))
        ),
        into=out.reshaped((batch, length, count, size)),
    )
    return out


def default_scale(size: Dim) -> float:
    """1 / sqrt(elements of a head)."""
    (known,) = numbers([size], "the size of a head")
    return 1 / sqrt(known)


@contrib("Attention", "approximate")
def attention(
    k: Builder,
    input: Tensor,
    weights: Tensor,
    bias: Tensor | None = None,
    mask_index: Tensor | None = None,
    past: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_sequence_length: Tensor | None = None,
    *,
    do_rotary: int | None = None,
    mask_filter_value: float | None = None,
    num_heads: int,
    past_present_share_buffer: int | None = None,
    qkv_hidden_sizes: Sequence[int] | None = None,
    rotary_embedding_dim: int | None = None,
    scale: float | None = None,
    unidirectional: int = 0,
) -> tuple[Tensor, Tensor]:
    """Q, K and V are parts of input @ weights + bias, side by side."""
    refuse(
        do_rotary=do_rotary,
        past_present_share_buffer=past_present_share_buffer,
        past_sequence_length=past_sequence_length,
    )
    depth = agree(input.shape[2], weights.shape[0], "Attention's inner sizes")
    k.need_shape(bias, weights.shape[1:], "bias")

    def project(b: Axis, s: Axis, j: Axis) -> Expr:
        y = k.dot((depth,), lambda q: (input[b, s, q], weights[q, j]))
        return y if bias is None else y + bias[j]

    wide = compute_type(input.dtype)
    qkv = k.compute((*input.shape[:2], weights.shape[1]), project, wide)
    rest = attention_bias, unidirectional, mask_filter_value, scale
    return _attended(k, qkv, past, mask_index, num_heads, qkv_hidden_sizes, *rest, input.dtype)


@contrib("QAttention", "approximate")
def q_attention(
    k: Builder,
    input: Tensor,
    weight: Tensor,
    bias: Tensor,
    input_scale: Tensor,
    weight_scale: Tensor,
    mask_index: Tensor | None = None,
    input_zero_point: Tensor | None = None,
    weight_zero_point: Tensor | None = None,
    past: Tensor | None = None,
    *,
    do_rotary: int | None = None,
    mask_filter_value: float | None = None,
    num_heads: int,
    past_present_share_buffer: int | None = None,
    scale: float | None = None,
    unidirectional: int = 0,
) -> tuple[Tensor, Tensor]:
    """Attention whose projection is MatMulIntegerToFloat."""
    refuse(do_rotary=do_rotary, past_present_share_buffer=past_present_share_buffer)
    scales = input_scale, weight_scale, input_zero_point, weight_zero_point
    qkv = matmul_integer_to_float(k, input, weight, *scales, bias)
    rest = None, unidirectional, mask_filter_value, scale
    return _attended(k, qkv, past, mask_index, num_heads, None, *rest, bias.dtype)


def _attended(
    k: Builder,
    qkv: Tensor,
    past: Tensor | None,
    mask_index: Tensor | None,
    num_heads: int,
    sizes: Sequence[int] | None,
    attention_bias: Tensor | None,
    unidirectional: int,
    mask_filter_value: float | None,
    scale: float | None,
    dtype: DType,
) -> tuple[Tensor, Tensor]:
    """(the mixture, present) of Q, K and V side by side on the last axis of qkv."""
    (width,) = numbers(qkv.shape[2:], "the sizes of Q, K and V")
    q, key_size, v = sizes or (width // 3,) * 3
    if q != key_size or q + key_size + v != width or q % num_heads or v % num_heads:
        raise InvalidModel(f"Q, K, V of {q}, {key_size}, {v} do not make {num_heads} heads")
    query = heads_of(qkv, num_heads, 0, q // num_heads)
    key = heads_of(qkv, num_heads, q, q // num_heads)
    value = heads_of(qkv, num_heads, 2 * q, v // num_heads)
    before: Dim = 0
    if past is not None:
        if past.rank != 5 or past.shape[0] != 2:
            raise InvalidModel(f"past is (2, batch, heads, places, elements), found {past.shape}")
        before, (old_key, old_value) = past.shape[3], _halves(k, past)
        key = with_past(k, old_key, key, qkv.dtype)
        value = with_past(k, old_value, value, qkv.dtype)
    total = key.shape[2]
    added = masks(k, mask_index, total, query, before, bool(unidirectional), mask_filter_value)
    y = attend(k, query, key, value, scale, [*added, *biases(attention_bias)], dtype)
    if k.outputs < 2:
        return y, y
    present = k.compute(
        (2, *key.shape),
        lambda c, b, n, s, h: where(lift(c).eq(0), key.at(b, n, s, h), value.at(b, n, s, h)),
        dtype,
    )
    return y, present


def _halves(k: Builder, past: Tensor) -> tuple[Tensor, Tensor]:
    """The keys and values of past (2, batch, heads, past length, elements)."""
    key, value = (
        k.compute(past.shape[1:], lambda *i, c=c: past[(lift(c), *i)], past.dtype) for c in (0, 1)
    )
    return key, value


def biases(bias: Tensor | None) -> list[Added]:
    """What attention_bias (batch or 1, heads or 1, sequence, total) adds to the scores."""
    return [] if bias is None else [lambda b, n, s, r: bias.broadcast((b, n, s, r))]


def masks(
    k: Builder,
    mask: Tensor | None,
    total: Dim,
    query: Heads,
    before: Dim,
    causal: bool,
    filter_value: float | None,
) -> list[Added]:
    """What a mask and causality add to the scores: filter_value (by default -10000) where the
    mask is 0, and the lowest float32 for what is later than the query."""
    if mask is None and not causal:
        return []
    present = None if mask is None else _present(k, mask, total, query, before)
    filtered = -10000.0 if filter_value is None else filter_value

    def added(b: Axis, n: Axis, s: Axis, r: Axis) -> Expr:
        e = lift(0.0, t.float32) if present is None else where(present(b, s, r), 0.0, filtered)
        e = e if e.dtype is t.float32 else cast(e, t.float32)
        return where(r > s + before, lift(LOWEST, t.float32), e) if causal else e

    return [added]


def _present(
    k: Builder, mask: Tensor, total: Dim, query: Heads, before: Dim
) -> Callable[[Axis, Axis, Axis], Expr]:
    """Whether the mask lets the query at place s of batch b see place r: a mask of 0 and 1 (batch,
    total), (batch, length, total) or (batch, 1, maximum, maximum), or places: (batch) ends, or
    (2 * batch) ends and then beginnings."""
    batch = query.shape[0]
    match mask.rank:
        case 1 if mask.shape[0] == batch:
            return lambda b, s, r: r < cast(mask[b], t.int64)
        case 1 if mask.shape[0] == batch * 2:
            return lambda b, s, r: (
                (r < cast(mask[b], t.int64)) & (r >= cast(mask[b + batch], t.int64))
            )
        case 2:
            agree(mask.shape[1], total, "the mask's length")
            return lambda b, s, r: mask.broadcast((b, r)) > 0
        case 3:
            return lambda b, s, r: mask.broadcast((b, s, r)) > 0
        case 4:
            k.need_equal(mask.shape[0], batch, "the batches of the mask and of Q")
            return lambda b, s, r: mask.trap((b, lift(0), s + before, r)) > 0
    if mask.rank == 1 and not isinstance(mask.shape[0] - batch, int):
        raise Undetermined(f"whether {mask.shape[0]} is {batch} depends on symbolic dims")
    raise UnsupportedModel(f"a mask of shape {mask.shape} is not supported")


@contrib("MultiHeadAttention", "approximate")
def multi_head_attention(
    k: Builder,
    query: Tensor,
    key: Tensor | None = None,
    value: Tensor | None = None,
    bias: Tensor | None = None,
    key_padding_mask: Tensor | None = None,
    attention_bias: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    past_sequence_length: Tensor | None = None,
    cache_indirection: Tensor | None = None,
    *,
    mask_filter_value: float | None = None,
    num_heads: int,
    scale: float | None = None,
    unidirectional: int = 0,
) -> tuple[Tensor, ...]:
    """query, key and value as they are or packed together; bias is that of their projections."""
    refuse(past_sequence_length=past_sequence_length, cache_indirection=cache_indirection)
    if k.outputs > 3:
        raise UnsupportedModel("the output qk of MultiHeadAttention is not supported")
    q, keys, values = (
        biased(k, x, bias, start)
        for x, start in _parts(query, key, value, num_heads, None if bias is None else bias.shape)
    )
    k.need_shape(bias, (q.shape[1] * (2 * q.shape[3] + values.shape[3]),), "bias")
    if (past_key is None) != (past_value is None):
        raise InvalidModel("past_key and past_value go together")
    keys = with_past(k, past_key, keys, query.dtype)
    values = with_past(k, past_value, values, query.dtype)
    before: Dim = 0 if past_key is None else past_key.shape[2]
    added = masks(
        k, key_padding_mask, keys.shape[2], q, before, bool(unidirectional), mask_filter_value
    )
    y = attend(k, q, keys, values, scale, [*added, *biases(attention_bias)], query.dtype)
    if k.outputs == 1:
        return (y,)
    return y, *(k.compute(x.shape, x.at, query.dtype) for x in (keys, values))


def _parts(
    query: Tensor, key: Tensor | None, value: Tensor | None, count: int, bias: object
) -> list[tuple[Heads, Dim | None]]:
    """The heads of Q, K and V with where their biases begin; None for what takes none."""
    if query.rank == 5:
        whole = query.shape[3:] if key is None else None
        if whole is None:
            raise InvalidModel("a packed query stands without key and value")
        return [(_packed(query, c), c * count * query.shape[4]) for c in range(3)]
    if key is None:
        raise InvalidModel("the key is required unless the query is packed")
    q = heads_of(query, count)
    if key.rank == 5:
        width = query.shape[2]
        return [(q, 0), (_packed(key, 0), width), (_packed(key, 1), width * 2)]
    if value is None:
        raise InvalidModel("the value is required unless the key is packed")
    if key.rank == 4:  # they were projected, and their biases added, before
        return [(q, 0), (of_tensor(key), None), (of_tensor(value), None)]
    width, more = query.shape[2], key.shape[2]
    return [(q, 0), (heads_of(key, count), width), (heads_of(value, count), width + more)]


def _packed(x: Tensor, part: int) -> Heads:
    """One of the parts of (batch, sequence, heads, parts, elements)."""
    batch, length, count, _, size = x.shape
    return Heads((batch, count, length, size), lambda b, n, s, h: x[b, s, n, part, h])


def biased(k: Builder, x: Heads, bias: Tensor | None, start: Dim | None) -> Heads:
    """The heads with their bias, a vector from element `start` of bias on."""
    if bias is None or start is None:
        return x
    size = x.shape[3]
    y = k.compute(
        x.shape, lambda b, n, s, h: x.at(b, n, s, h) + bias[lift(n) * size + h + start], bias.dtype
    )
    return of_tensor(y)
