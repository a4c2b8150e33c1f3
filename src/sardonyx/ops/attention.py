"""Attention of ai.onnx: scores, their softmax over the whole row, and the mixture of the values.

The operations are those of the function body in onnx's schema, in its order, in the compute type:
float32 and float64 get the bits of the body, the 16-bit types round once, where they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from sardonyx import types as t
from sardonyx.dims import Dim
from sardonyx.errors import InvalidModel
from sardonyx.kernel import elementary as fn
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, Operand, cast, lift, where, widen
from sardonyx.ops.common import compute_type, need_dtype
from sardonyx.ops.ms_attention import Heads, check_heads, heads_of, of_tensor, with_past
from sardonyx.ops.registry import operator, version_of
from sardonyx.ops.sizes import agree, is_negative, numbers
from sardonyx.types import DType

INFINITY = float("inf")
Bias = Callable[..., Expr]  # of (batch, head of keys, head that shares it, query, key)
RAW, CAPPED, BIASED, WEIGHTS = range(4)  # what qk_matmul_output_mode asks for


@operator("Attention", 25, accuracy="approximate")
def attention(
    k: Builder,
    q: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    past_key: Tensor | None = None,
    past_value: Tensor | None = None,
    nonpad_kv_seqlen: Tensor | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
) -> tuple[Tensor | None, ...]:
    """Y, present_key, present_value and what qk_matmul_output_mode asks for."""
    if nonpad_kv_seqlen is not None and past_key is not None:
        raise InvalidModel("nonpad_kv_seqlen does not go with past_key")
    parts = _parts(k, q, key, value, past_key, past_value, q_num_heads, kv_num_heads)
    k.need_shape(nonpad_kv_seqlen, parts.query.shape[:1], "nonpad_kv_seqlen")
    before = _before(parts, past_key, nonpad_kv_seqlen)
    mask = _Mask(
        attn_mask, nonpad_kv_seqlen, before, bool(is_causal), left_window_size, right_window_size
    )
    how = _How(scale, softcap, softmax_precision, qk_matmul_output_mode)
    return _attention(k, q, parts, mask, how)


_attention_24 = version_of(attention, "left_window_size", "right_window_size")
operator("Attention", 24, accuracy="approximate")(_attention_24)
operator("Attention", 23, accuracy="approximate")(version_of(_attention_24, "nonpad_kv_seqlen"))


@dataclass(frozen=True, slots=True)
class _Parts:
    """The operands by heads, the present caches included."""

    query: Heads
    key: Heads
    value: Heads
    present: tuple[Tensor, Tensor]


@dataclass(frozen=True, slots=True)
class _Mask:
    """Which keys a query sees. before: how many keys come before the first query, by batch."""

    given: Tensor | None
    sizes: Tensor | None
    before: Callable[[Operand], Operand]
    causal: bool
    left: int
    right: int

    def bias(self, rows: Sequence[Dim], total: Dim, group: int, dtype: DType) -> Bias | None:
        """What is added to the scores of the rows (batch, head, query): -inf where a key is not
        seen."""
        if self.given is None and self.sizes is None and not self._is_band():
            return None

        def element(b: Axis, n: Axis, g: Axis, i: Axis, j: Axis) -> Expr:
            added = self._added((b, n * group + g, i), j, rows, total, dtype)
            return where(self._seen(b, i, j), added, lift(-INFINITY, added.dtype))

        return element

    def may_hide_all(self) -> bool:
        """Whether a query may see no key at all: causality alone leaves it the first one."""
        return self.given is not None or self.sizes is not None or self.left >= 0

    def _is_band(self) -> bool:
        return self.causal or self.left >= 0 or self.right >= 0

    def _seen(self, b: Expr, i: Expr, j: Expr) -> Expr:
        seen = lift(True, t.bool_)
        place = i + self.before(b) if self._is_band() else i
        if self.causal:
            seen = seen & (j <= place)
        if self.left >= 0:
            seen = seen & (place - j <= self.left)
        if self.right >= 0:
            seen = seen & (j - place <= self.right)
        return seen if self.sizes is None else seen & (j < self.sizes[b])

    def _added(
        self, i: Sequence[Expr], j: Expr, rows: Sequence[Dim], total: Dim, dtype: DType
    ) -> Expr:
        """The mask's element for a row (batch, head, query) and a key, in the type of q; a shorter
        mask hides what is beyond it."""
        mask, wide = self.given, compute_type(dtype)
        if mask is None:
            return lift(0.0, wide)
        *outer, last = mask.shape
        kept = zip(outer, rows[3 - len(outer) :], i[3 - len(outer) :], strict=True)
        index = [0 if _is_one(d, extent) else x for d, extent, x in kept]
        if last != total and is_negative(total - last):
            raise InvalidModel(f"attn_mask has {last} keys, there are {total}")
        e = mask[(*index, j)] if last == total else mask.guard((*index, j), 0)
        hidden = lift(-INFINITY, wide)
        e = where(e, lift(0.0, wide), hidden) if e.dtype is t.bool_ else widen(cast(e, dtype))
        return e if last == total else where(j < last, e, hidden)


def _is_one(d: Dim, extent: Dim) -> bool:
    """Whether a dim of a mask is 1 and not the extent; Undetermined where it may be both."""
    if d == 1:
        return True
    agree(d, extent, "the shapes of attn_mask and of the scores")
    return False


@dataclass(frozen=True, slots=True)
class _How:
    scale: float | None
    softcap: float
    precision: int | None
    mode: int


def _parts(
    k: Builder,
    q: Tensor,
    key: Tensor,
    value: Tensor,
    past_key: Tensor | None,
    past_value: Tensor | None,
    q_heads: int | None,
    kv_heads: int | None,
) -> _Parts:
    """The operands by heads; of rank 3 they hold the heads side by side on the last axis."""
    if (past_key is None) != (past_value is None):
        raise InvalidModel("past_key and past_value go together")
    if q.rank == 3 and not (q_heads and kv_heads):
        raise InvalidModel("operands of rank 3 need q_num_heads and kv_num_heads")
    if not q.rank == key.rank == value.rank or q.rank not in (3, 4):
        ranks = ", ".join(str(x.rank) for x in (q, key, value))
        raise InvalidModel(f"Q, K and V have the ranks {ranks}; all must be 3, or 4")
    heads = [
        heads_of(x, int(n or 0)) if x.rank == 3 else of_tensor(x)
        for x, n in ((q, q_heads), (key, kv_heads), (value, kv_heads))
    ]
    query, *new = heads
    found, present = [], []
    for x, past, one in zip((key, value), (past_key, past_value), new, strict=True):
        every = with_past(k, past, one, x.dtype)
        found.append(every)
        present.append(k.compute(every.shape, every.at, x.dtype))
    check_heads(k, query, *found)
    return _Parts(query, found[0], found[1], (present[0], present[1]))


def _before(
    parts: _Parts, past: Tensor | None, sizes: Tensor | None
) -> Callable[[Operand], Operand]:
    if past is not None:
        return lambda _: past.shape[2]
    if sizes is None:
        return lambda _: 0
    return lambda b: sizes[lift(b)] - parts.query.shape[2]


def _attention(
    k: Builder, q: Tensor, parts: _Parts, mask: _Mask, how: _How
) -> tuple[Tensor | None, ...]:
    """softmax(softcap(q * s @ (key * s)') + bias) @ value with s = sqrt(scale); 0 for a query that
    sees no key."""
    if how.mode not in range(WEIGHTS + 1):
        raise InvalidModel(f"qk_matmul_output_mode {how.mode} is not one of 0, 1, 2, 3")
    group = _group(parts.query.shape[1], parts.key.shape[1])
    total, dtype = parts.key.shape[2], compute_type(q.dtype)
    bias = mask.bias(parts.query.shape[:3], total, group, dtype)
    score = _score(k, parts, group, _root(how.scale, parts.query.shape[3], dtype), dtype)
    rows = _rows(parts, group)

    def scores(stage: int) -> Tensor:
        def element(*i: Axis) -> Expr:
            e = score(*i)
            if how.softcap and stage >= CAPPED:
                cap = float(np.float32(how.softcap))
                e = fn.tanh(e / cap) * cap
            return e + bias(*i) if bias and stage >= BIASED else e

        return k.compute((*rows, total), element, dtype)

    soft = dtype if how.precision is None else compute_type(need_dtype(how.precision))
    hiding = bias if mask.may_hide_all() else None
    weights = _weights(k, scores(BIASED), hiding, soft, dtype)
    mixed = _mixed(k, q, parts.value, weights)
    if k.outputs < 4:
        return mixed, *parts.present
    shown = weights if how.mode == WEIGHTS else scores(how.mode)
    batch, heads, length, _ = parts.query.shape
    seen = k.tensor((batch, heads, length, total), q.dtype)
    k.compute(shown.shape, lambda *i: shown[i], into=seen.reshaped(shown.shape))
    return mixed, *parts.present, seen


def _root(scale: float | None, size: Dim, dtype: DType) -> float:
    """sqrt(scale), rounded to the type; scale is 1 / sqrt(size) by default."""
    if scale is None:
        (known,) = numbers([size], "the size of a head")
        scale = 1 / sqrt(known)
    return float(np.asarray(sqrt(scale)).astype(dtype.numpy))


def _group(heads: Dim, kv_heads: Dim) -> int:
    q_count, kv_count = numbers([heads, kv_heads], "the number of heads")
    if not kv_count or q_count % kv_count:
        raise InvalidModel(f"{q_count} heads of queries share {kv_count} heads of keys")
    return q_count // kv_count


def _rows(parts: _Parts, group: int) -> tuple[Dim, ...]:
    """(batch, head of keys, head of queries that shares it, query)."""
    return (*parts.key.shape[:2], group, parts.query.shape[2])


def _score(k: Builder, parts: _Parts, group: int, root: float, dtype: DType) -> Bias:
    """The products of queries and keys, both scaled by root."""
    batch, heads, length, size = parts.key.shape

    def scaled(b: Axis, n: Axis, g: Axis, i: Axis, d: Axis) -> Expr:
        return widen(parts.query.at(b, n * group + g, i, d)) * root

    query = k.compute((*_rows(parts, group), size), scaled, dtype)
    key = k.compute((batch, heads, length, size), lambda *i: widen(parts.key.at(*i)) * root, dtype)

    return lambda b, n, g, i, j: k.dot((size,), lambda d: (query[b, n, g, i, d], key[b, n, j, d]))


def _weights(k: Builder, scores: Tensor, bias: Bias | None, soft: DType, dtype: DType) -> Tensor:
    """The softmax of each row in the type `soft`; 0 where the bias hides all keys."""
    *rows, total = scores.shape

    def at(*i: Axis) -> Expr:
        return cast(scores[i], soft)

    top = k.compute(rows, lambda *i: k.fold("max", (total,), lambda j: at(*i, j)), soft)
    e = k.compute(scores.shape, lambda *i: fn.exp_nonpositive(at(*i) - top[i[:-1]]), soft)
    sums = k.compute(rows, lambda *i: k.sum((total,), lambda j: e[(*i, j)]), soft)
    if bias is None:
        return k.compute(scores.shape, lambda *i: e[i] / sums[i[:-1]], dtype)
    most = k.compute(rows, lambda *i: k.fold("max", (total,), lambda j: bias(*i, j)), dtype)

    def weight(*i: Axis) -> Expr:
        return where(most[i[:-1]].eq(-INFINITY), lift(0.0, soft), e[i] / sums[i[:-1]])

    return k.compute(scores.shape, weight, dtype)


def _mixed(k: Builder, q: Tensor, value: Heads, weights: Tensor) -> Tensor:
    """The values mixed by their weights, shaped as the queries are."""
    batch, heads, group, length, total = weights.shape
    size = value.shape[3]

    def mixture(b: Axis, n: Axis, g: Axis, i: Axis, d: Axis) -> Expr:
        wide = compute_type(weights.dtype)
        return k.dot((total,), lambda j: (weights[b, n, g, i, j], cast(value.at(b, n, j, d), wide)))

    if q.rank == 4:
        out = k.tensor((batch, heads * group, length, size), q.dtype)
        shape = batch, heads, group, length, size
        k.compute(shape, mixture, into=out.reshaped(shape))
        return out
    out = k.tensor((batch, length, heads * group * size), q.dtype)
    shape = batch, length, heads, group, size
    k.compute(shape, lambda b, i, n, g, d: mixture(b, n, g, i, d), into=out.reshaped(shape))
    return out
