"""LinearAttention: attention by a state that each token updates, one token after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sardonyx import types as t
from sardonyx.errors import InvalidModel
from sardonyx.kernel import elementary as fn
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, widen
from sardonyx.ops.cast import converted
from sardonyx.ops.common import one_of
from sardonyx.ops.registry import operator
from sardonyx.ops.scatter import loops
from sardonyx.ops.sizes import is_one, numbers

RULES = "linear", "gated", "delta", "gated_delta"


@dataclass(frozen=True, slots=True)
class _Heads:
    """The operands with their heads apart: q[b, t, h, d], k and v alike, decay[b, t, h, d or 0],
    beta[b, t, h or 0]; and the decay's exponentials."""

    q: Tensor
    k: Tensor
    v: Tensor
    decay: Tensor | None
    beta: Tensor | None


@operator("LinearAttention", 27, accuracy="approximate")
def linear_attention(
    k: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    past_state: Tensor | None = None,
    decay: Tensor | None = None,
    beta: Tensor | None = None,
    *,
    chunk_size: int = 64,
    kv_num_heads: int,
    q_num_heads: int,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
) -> tuple[Tensor, Tensor]:
    """The state S[b, h, d, m] is float32. For each token, in order: S = S * exp(decay); u = v, or
    beta * (v - S^T k) by a delta rule; S = S + k * u; output = scale * S^T q. `chunk_size` is a
    hint for other algorithms."""
    _check(update_rule, decay, beta, q_num_heads, kv_num_heads)
    parts = _parted(k, query, key, value, decay, beta, q_num_heads, kv_num_heads)
    batch, tokens, heads, dk = parts.k.shape
    dv = parts.v.shape[-1]
    for x, what in ((query, "query"), (value, "value"), (decay, "decay"), (beta, "beta")):
        if x is not None:
            k.need_shape(x, (batch, tokens, x.shape[2]), what)
    if beta is not None and not is_one(beta.shape[2]):
        k.need_equal(beta.shape[2], heads, "the last axis of beta and the heads of the key")
    if not scale:
        (size,) = numbers((dk,), "the size of a head")
        scale = float(np.float32(1) / np.sqrt(np.float32(size)))
    k.need_shape(past_state, (batch, heads, dk, dv), "past_state")
    state = k.compute(
        (batch, heads, dk, dv), lambda *i: past_state[i] if past_state else 0.0, t.float32
    )
    packed = k.tensor((batch, tokens, q_num_heads * dv), query.dtype)
    out = packed.reshaped((batch, tokens, q_num_heads, dv))
    group = q_num_heads // kv_num_heads
    with loops(k, (batch, tokens, heads)) as (b, i, h):
        _update(k, parts, state, b, i, h)
        with loops(k, (group, dv)) as (g, m):
            head = h * group + g
            read = k.dot((dk,), lambda d: (parts.q[b, i, head, d], state[b, h, d, m]))
            k.store(out, (b, i, head, m), read * scale)
    made = past_state.dtype if past_state else query.dtype
    return packed, converted(k, state, made)


def _update(k: Builder, parts: _Heads, state: Tensor, b: Axis, i: Axis, h: Axis) -> None:
    """What token i does to the state of head h."""
    dk, dv = state.shape[2:]
    decay, beta = parts.decay, parts.beta
    if decay is not None:
        with loops(k, (dk, dv)) as (d, m):
            gate = decay[b, i, h, 0 if decay.shape[-1] == 1 else d]
            k.store(state, (b, h, d, m), state[b, h, d, m] * gate)

    def written(m: Axis) -> Expr:
        v = widen(parts.v[b, i, h, m])
        if beta is None:
            return v
        found = k.dot((dk,), lambda d: (state[b, h, d, m], parts.k[b, i, h, d]))
        return (v - found) * beta[b, i, 0 if is_one(beta.shape[-1]) else h]

    u = k.compute((dv,), written, t.float32)
    with loops(k, (dk, dv)) as (d, m):
        k.store(state, (b, h, d, m), state[b, h, d, m] + parts.k[b, i, h, d] * u[m])


def _check(
    rule: str, decay: Tensor | None, beta: Tensor | None, q_heads: int, kv_heads: int
) -> None:
    one_of(rule, RULES, "update_rule")
    if (decay is not None) != rule.startswith("gated"):
        raise InvalidModel(f"decay goes with the rules gated and gated_delta, not with {rule}")
    if (beta is not None) != rule.endswith("delta"):
        raise InvalidModel(f"beta goes with the rules delta and gated_delta, not with {rule}")
    if q_heads <= 0 or kv_heads <= 0 or q_heads % kv_heads:
        raise InvalidModel(f"q_num_heads {q_heads} is no multiple of kv_num_heads {kv_heads}")


def _parted(
    k: Builder,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    decay: Tensor | None,
    beta: Tensor | None,
    q_heads: int,
    kv_heads: int,
) -> _Heads:
    def apart(x: Tensor, heads: int) -> Tensor:
        batch, tokens, packed = x.shape
        (width,) = numbers((packed,), "the last axis")
        if width % heads:
            raise InvalidModel(f"the last axis, {width}, is no multiple of {heads} heads")
        return x.reshaped((batch, tokens, heads, width // heads))

    gates = None
    if decay is not None:
        source = apart(decay, kv_heads)
        gates = k.compute(source.shape, lambda *i: fn.exp(source[i]), t.float32)
    return _Heads(apart(query, q_heads), apart(key, kv_heads), apart(value, kv_heads), gates, beta)
