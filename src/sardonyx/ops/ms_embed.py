"""The embedding layers of com.microsoft: sums of embeddings, normalized."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from sardonyx import types as t
from sardonyx.dims import Dim
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, Operand, cast, lift
from sardonyx.ops.common import compute_type
from sardonyx.ops.ms_common import contrib, needed
from sardonyx.ops.ms_norm import stored
from sardonyx.ops.ms_qlinear import difference
from sardonyx.ops.norm import standardized
from sardonyx.ops.qlinear import at_axis

Table: TypeAlias = Callable[[Sequence[Operand]], Expr]


@contrib("EmbedLayerNormalization", "rounding")
def embed_layer_normalization(
    k: Builder,
    input_ids: Tensor,
    segment_ids: Tensor | None = None,
    word_embedding: Tensor | None = None,
    position_embedding: Tensor | None = None,
    segment_embedding: Tensor | None = None,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    mask: Tensor | None = None,
    position_ids: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """(LayerNormalization of e, mask_index, e), e the sum of the word's, the position's and the
    segment's embedding; mask_index counts the ones of the mask, 0 without one or by type 0."""
    word, place = needed(word_embedding, "word_embedding"), needed(position_embedding, "position")
    for table in (place, segment_embedding):
        if table is not None:
            k.need_equal(table.shape[-1], word.shape[1], "the lengths of the embeddings")
    third = None if segment_embedding is None else segment_embedding.trap
    scale, shift = needed(gamma, "gamma"), needed(beta, "beta")
    k.need_shape(scale, word.shape[1:], "gamma")
    k.need_shape(shift, word.shape[1:], "beta")
    total = k.compute(
        (*input_ids.shape, word.shape[1]),
        _sum(k, input_ids, position_ids, segment_ids, word.trap, place.trap, third),
        compute_type(word.dtype),
    )
    _, _, normal = standardized(k, total, [2], epsilon)
    y = k.compute(
        total.shape,
        lambda *i: normal[i] * scale.broadcast(i) + shift.broadcast(i),
        word.dtype,
    )
    counted = None if mask_index_type == 0 else mask
    return y, _mask_index(k, input_ids.shape, counted), stored(k, total, word.dtype)


@contrib("QEmbedLayerNormalization", "rounding")
def q_embed_layer_normalization(
    k: Builder,
    input_ids: Tensor,
    segment_ids: Tensor | None = None,
    word_embedding_quant: Tensor | None = None,
    position_embedding_quant: Tensor | None = None,
    segment_embedding: Tensor | None = None,
    gamma_quant: Tensor | None = None,
    beta_quant: Tensor | None = None,
    mask: Tensor | None = None,
    word_embedding_scale: Tensor | None = None,
    position_embedding_scale: Tensor | None = None,
    segment_embedding_scale: Tensor | None = None,
    gamma_scale: Tensor | None = None,
    beta_scale: Tensor | None = None,
    word_embedding_zero_point: Tensor | None = None,
    position_embedding_zero_point: Tensor | None = None,
    segment_embedding_zero_point: Tensor | None = None,
    gamma_zero_point: Tensor | None = None,
    beta_zero_point: Tensor | None = None,
    *,
    epsilon: float = 1e-12,
) -> tuple[Tensor, Tensor]:
    """EmbedLayerNormalization of dequantised embeddings, gamma and beta; a float32."""
    word = needed(word_embedding_quant, "word_embedding_quant")
    tables = [
        _dequantised(q, scale, zero)
        for q, scale, zero in (
            (word, word_embedding_scale, word_embedding_zero_point),
            (position_embedding_quant, position_embedding_scale, position_embedding_zero_point),
            (gamma_quant, gamma_scale, gamma_zero_point),
            (beta_quant, beta_scale, beta_zero_point),
        )
    ]
    for table in (position_embedding_quant, segment_embedding, gamma_quant, beta_quant):
        if table is not None:
            k.need_equal(table.shape[-1], word.shape[1], "the lengths of the embeddings")
    third = None
    if segment_embedding is not None:
        third = _dequantised(
            segment_embedding, segment_embedding_scale, segment_embedding_zero_point
        )
    total = k.compute(
        (*input_ids.shape, word.shape[1]),
        _sum(k, input_ids, None, segment_ids, tables[0], tables[1], third),
        t.float32,
    )
    _, _, normal = standardized(k, total, [2], epsilon)
    y = k.compute(
        total.shape,
        lambda b, s, h: normal[b, s, h] * tables[2]([h]) + tables[3]([h]),
        t.float32,
    )
    return y, _mask_index(k, input_ids.shape, mask)


def _dequantised(q: Tensor | None, scale: Tensor | None, zero: Tensor | None) -> Table:
    """The numbers that a quantised tensor stands for; an index out of range is an error."""
    integers, step = needed(q, "a quantised tensor"), needed(scale, "a scale")

    def at(i: Sequence[Operand]) -> Expr:
        value = difference(integers.trap(i), zero)
        return cast(value, t.float32) * cast(at_axis(step, 0)([lift(0)]), t.float32)

    return at


def _sum(
    k: Builder,
    ids: Tensor,
    places: Tensor | None,
    kinds: Tensor | None,
    word: Table,
    place: Table,
    kind: Table | None,
) -> Callable[[Axis, Axis, Axis], Expr]:
    """What each element of the sum of embeddings is, by (batch, position, element)."""
    if (kinds is None) != (kind is None):
        raise InvalidModel("segment_ids and segment_embedding stand together or not at all")

    k.need_shape(kinds, ids.shape, "segment_ids")
    if places is not None:
        k.need_shape(places, (places.shape[0], *ids.shape[1:]), "position_ids")

    def at(b: Axis, s: Axis) -> Operand:
        if places is None:
            return s
        return cast(places.broadcast((b, s)), t.int64)

    def element(b: Axis, s: Axis, h: Axis) -> Expr:
        e = word((cast(ids[b, s], t.int64), h)) + place((at(b, s), h))
        if kinds is None or kind is None:
            return e
        return e + kind((cast(kinds[b, s], t.int64), h))

    return element


def _mask_index(k: Builder, shape: Sequence[Dim], mask: Tensor | None) -> Tensor:
    """How many elements of each row of the mask, which has this shape, are 1."""
    k.need_shape(mask, shape, "mask")

    def element(b: Axis) -> Expr:
        if mask is None:
            return lift(0)
        return k.sum((mask.shape[1],), lambda s: cast(mask[b, s].eq(1), t.int32))

    return k.compute(shape[:1], element, t.int32)
