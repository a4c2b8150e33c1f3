"""RotaryEmbedding and GroupQueryAttention of com.microsoft."""

from __future__ import annotations

from collections.abc import Callable

from sardonyx import types as t
from sardonyx.dims import Dim, extreme, product
from sardonyx.errors import InvalidModel
from sardonyx.kernel import elementary as fn
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, Operand, cast, lift, where
from sardonyx.ops.common import compute_type, maximum
from sardonyx.ops.ms_attention import (
    Heads,
    check_heads,
    default_scale,
    heads_of,
    mixture,
    of_tensor,
)
from sardonyx.ops.ms_common import contrib, needed, refuse
from sardonyx.ops.rotary import Turn, embedded, gathered, places_of, rotate
from sardonyx.ops.sizes import is_one, numbers, quotient
from sardonyx.types import DType


@contrib("RotaryEmbedding", "rounding")
def rotary_embedding(
    k: Builder,
    input: Tensor,
    position_ids: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    *,
    interleaved: int | None = None,
    is_packed_batching: int | None = None,
    num_heads: int | None = None,
    rotary_embedding_dim: int | None = None,
    scale: float | None = None,
) -> Tensor:
    """input (batch, heads, sequence, elements) or (batch, sequence, heads * elements); each pair
    of elements is turned by the angle of its position. position_ids: (batch, sequence), or the
    first position alone."""

    def position(b: Operand, s: Operand) -> Expr:
        if position_ids.rank == 1:
            return cast(position_ids[0], t.int64) + s
        return cast(position_ids[b, s], t.int64)

    places = places_of(input)
    k.need_shape(position_ids, (1,) if position_ids.rank == 1 else places, "position_ids")
    if rotary_embedding_dim and input.rank == 3 and not num_heads:
        raise InvalidModel("num_heads is needed")
    cos, sin = gathered(k, cos_cache, sin_cache, places, position)
    part = rotary_embedding_dim or cos.shape[2] * 2
    count = num_heads
    if count is None and input.rank == 3:
        width, size = numbers((input.shape[2], part), "the elements of all heads and of one")
        count = width // size
    return embedded(k, input, count, Turn(cos, sin, part, bool(interleaved)))


@contrib("GroupQueryAttention", "approximate")
def group_query_attention(
    k: Builder,
    query: Tensor,
    key: Tensor | None = None,
    value: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    seqlens_k: Tensor | None = None,
    total_sequence_length: Tensor | None = None,
    cos_cache: Tensor | None = None,
    sin_cache: Tensor | None = None,
    position_ids: Tensor | None = None,
    attention_bias: Tensor | None = None,
    head_sink: Tensor | None = None,
    k_scale: Tensor | None = None,
    v_scale: Tensor | None = None,
    q_norm_weight: Tensor | None = None,
    k_norm_weight: Tensor | None = None,
    *,
    causal: int = 1,
    do_rotary: int | None = None,
    k_quant_type: str = "NONE",
    kv_cache_bit_width: int | None = None,
    kv_num_heads: int,
    local_window_size: int = -1,
    num_heads: int,
    qk_norm_epsilon: float = 1e-6,
    qk_output: int = 0,
    rotary_interleaved: int | None = None,
    scale: float | None = None,
    sliding_window_cache: int = 0,
    smooth_softmax: int = -1,
    softcap: float | None = None,
    v_quant_type: str = "NONE",
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention in which num_heads / kv_num_heads queries share a key, with a cache.

    seqlens_k[b] + 1 places of the cache hold something when the operation is done; the query's are
    the last of them, or the first where total_sequence_length is the query's length (a prompt).
    What is past them in present_key and present_value is 0.
    """
    refuse(k_scale=k_scale, v_scale=v_scale, q_norm_weight=q_norm_weight, qk_output=qk_output)
    refuse(sliding_window_cache=sliding_window_cache, not_causal=not causal)
    refuse(k_norm_weight=k_norm_weight, quantised_cache=k_quant_type != "NONE")
    (total,) = needed(total_sequence_length, "total_sequence_length").known()
    q, keys, values = _grouped_parts(query, key, value, num_heads, kv_num_heads)
    before = _before(k, needed(seqlens_k, "seqlens_k"), query.shape[1], total)

    def position(b: Operand, s: Operand) -> Expr:
        return before[b] + s if position_ids is None else cast(position_ids[b, s], t.int64)

    if do_rotary:
        cos, sin = needed(cos_cache, "cos_cache"), needed(sin_cache, "sin_cache")
        cos, sin = gathered(k, cos, sin, (q.shape[0], q.shape[2]), position)
        turn = Turn(cos, sin, cos.shape[2] * 2, bool(rotary_interleaved))
        q, keys = (_turned(k, x, turn, query.dtype) for x in (q, keys))
    _check_grouped(k, q, keys, values, (seqlens_k, position_ids, head_sink))
    capacity = total if past_key is None else extreme("max", past_key.shape[2], total)
    present_key = _present(k, past_key, keys, before, capacity, query.dtype)
    present_value = _present(k, past_value, values, before, capacity, query.dtype)
    if attention_bias is not None:
        for d, n in zip(attention_bias.shape[:2], (q.shape[0], num_heads), strict=True):
            if d != n and not is_one(d):
                k.need_equal(d, n, "attention_bias: the batches or heads")
    wide, group = compute_type(query.dtype), num_heads // kv_num_heads
    factor = scale or default_scale(q.shape[3])

    def score(b: Axis, n: Axis, s: Axis, r: Axis) -> Expr:
        e = k.dot((q.shape[3],), lambda h: (q.at(b, n, s, h), present_key[b, n // group, r, h]))
        e = e * factor
        e = fn.tanh(e / softcap) * softcap if softcap else e
        if attention_bias is None:
            return e
        kinds = zip(attention_bias.shape[:2], (b, n), (q.shape[0], num_heads), strict=True)
        batch, heads = (i if d == all_of or not is_one(d) else 0 for d, i, all_of in kinds)
        return e + attention_bias.guard((batch, heads, s, r))

    def seen(b: Axis, s: Axis, r: Axis) -> Expr:
        last = before[b] + s
        found = r <= last
        return found & (r > last - local_window_size) if local_window_size > 0 else found

    scores = k.compute((*q.shape[:3], capacity), score, wide)
    weights = _masked_softmax(k, scores, seen, smooth_softmax == 1, head_sink)
    shared = Heads(
        (q.shape[0], num_heads, capacity, present_value.shape[3]),
        lambda b, n, r, h: present_value[b, lift(n) // group, r, h],
    )
    return mixture(k, weights, shared, query.dtype), present_key, present_value


def _turned(k: Builder, x: Heads, turn: Turn, dtype: DType) -> Heads:
    out = k.tensor(x.shape, dtype)
    rotate(k, x, turn, lambda b, n, s: (b, s), out)
    return of_tensor(out)


def _grouped_parts(
    query: Tensor, key: Tensor | None, value: Tensor | None, count: int, shared: int
) -> tuple[Heads, Heads, Heads]:
    """The heads of Q, K and V, which are side by side on the query's last axis without a key."""
    if key is not None and value is not None:
        return heads_of(query, count), heads_of(key, shared), heads_of(value, shared)
    width = query.shape[2]
    size = quotient(width, count + 2 * shared, f"{width} elements do not make Q, K and V")
    starts: tuple[Dim, ...] = (0, size * count, size * (count + shared))
    q, keys, values = (
        heads_of(query, n, start, size)
        for n, start in zip((count, shared, shared), starts, strict=True)
    )
    return q, keys, values


def _check_grouped(
    k: Builder, q: Heads, keys: Heads, values: Heads, others: tuple[Tensor | None, ...]
) -> None:
    """Requires what the operands of GroupQueryAttention share; others: seqlens_k, position_ids and
    head_sink."""
    check_heads(k, q, keys, values)
    k.need_equal(q.shape[2], keys.shape[2], "the lengths of Q and of K")
    seqlens, positions, sink = others
    if seqlens is not None:
        k.need_equal(product(seqlens.shape), q.shape[0], "the elements of seqlens_k and the batch")
    k.need_shape(positions, (q.shape[0], q.shape[2]), "position_ids")
    k.need_shape(sink, q.shape[1:2], "head_sink")


def _before(k: Builder, seqlens: Tensor, length: Dim, total: Dim) -> Tensor:
    """How many places of the cache are held before the query's, for each batch."""
    flat = seqlens.reshaped((product(seqlens.shape),))
    if total == length:
        return k.compute(flat.shape, lambda b: lift(0), t.int64)

    def held(b: Axis) -> Expr:
        found = maximum(cast(flat[b], t.int64) + 1 - length, 0)
        return found if isinstance(total - length, int) else where(lift(total).eq(length), 0, found)

    return k.compute(flat.shape, held)


def _present(
    k: Builder, past: Tensor | None, new: Heads, before: Tensor, capacity: Dim, dtype: DType
) -> Tensor:
    """The cache: what was held, what is new, and 0."""

    def element(b: Axis, n: Axis, r: Axis, h: Axis) -> Expr:
        later = fresh.guard((b, n, r - before[b], h))
        if past is None:
            return later
        return where(r < before[b], past.guard((b, n, r, h)), later)

    fresh = k.compute(new.shape, new.at, dtype)
    batch, heads, _, size = new.shape
    if past is not None:
        k.need_shape(past, (batch, heads, *past.shape[2:3], size), "the past keys or values")
    return k.compute((batch, heads, capacity, size), element, dtype)


def _masked_softmax(
    k: Builder,
    scores: Tensor,
    seen: Callable[[Axis, Axis, Axis], Expr],
    smooth: bool,
    sink: Tensor | None,
) -> Tensor:
    """Softmax over the last axis of what is seen, 0 elsewhere; a smooth one has one more score,
    of 0 or the head's sink, whose share is dropped."""
    *rows, total = scores.shape
    wide = scores.dtype

    def extra(n: Axis) -> Expr:
        return lift(0.0, wide) if sink is None else cast(sink[n], wide)

    def highest(b: Axis, n: Axis, s: Axis) -> Expr:
        top = k.fold("max", (total,), lambda r: scores[b, n, s, r], lambda r: seen(b, s, r))
        return maximum(top, extra(n)) if smooth or sink is not None else top

    def whole(b: Axis, n: Axis, s: Axis) -> Expr:
        found = k.sum((total,), lambda r: e[b, n, s, r], lambda r: seen(b, s, r))
        if smooth or sink is not None:
            found = found + fn.exp(extra(n) - top[b, n, s])
        return found

    top = k.compute(rows, highest, wide)
    e = k.compute(scores.shape, lambda b, n, s, r: fn.exp(scores[b, n, s, r] - top[b, n, s]), wide)
    sums = k.compute(rows, whole, wide)
    return k.compute(
        scores.shape,
        lambda b, n, s, r: where(seen(b, s, r), e[b, n, s, r] / sums[b, n, s], 0.0),
        wide,
    )
