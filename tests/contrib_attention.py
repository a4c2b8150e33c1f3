"""Attention and its relatives of com.microsoft, for tests."""

from __future__ import annotations

import numpy as np
from contrib_cases import (
    BIAS,
    HID,
    INPUT,
    NH,
    PAST,
    RANDOM,
    B,
    Case,
    H,
    K,
    Q,
    S,
    V,
    W,
    byte,
    f,
    i8,
    make,
    normal,
    u8,
    weights,
)


def attention_cases() -> list[Case]:
    ends = np.array([3, 5], np.int32)
    raw = np.array([[1, 1, 1, 0, 0], [0, 1, 1, 1, 1]], np.int32)
    with_past = np.array([[1, 1, 1, 0, 0, 1, 1, 1], [1] * 8], np.int32)
    full = RANDOM.integers(0, 2, (B, S, S)).astype(np.int32)
    full[:, :, 0] = 1
    bias4 = normal(1, NH, S, S)
    n = {"num_heads": NH}
    qa = (byte(np.uint8, B, S, 6), weights(6, 3 * HID), BIAS, f(0.02), f(0.01))
    return [
        make("Attention", INPUT, W, BIAS, **n),
        make("Attention", INPUT, W, BIAS, ends, **n),
        make("Attention", INPUT, W, BIAS, np.array([3, 5, 1, 0], np.int32), **n),
        make("Attention", INPUT, W, BIAS, raw, unidirectional=1, **n),
        make("Attention", INPUT, W, BIAS, full, mask_filter_value=-500.0, **n),
        make("Attention", INPUT, W, BIAS, None, PAST, unidirectional=1, outputs=2, **n),
        make("Attention", INPUT, W, BIAS, with_past, PAST, outputs=2, **n),
        make("Attention", INPUT, W, BIAS, None, None, bias4, scale=0.3, **n),
        make("Attention", INPUT, W[:, :20], BIAS[:20], qkv_hidden_sizes=[8, 8, 4], **n),
        make("QAttention", *qa, None, u8(120), i8(3), **n),
        make("QAttention", *qa, ends, u8(120), i8(0), **n, unidirectional=1),
        make("MultiHeadAttention", Q, K, V, **n),
        make("MultiHeadAttention", Q, K, V, BIAS, **n),
        make("MultiHeadAttention", Q, K, V, BIAS, raw, **n),
        make("MultiHeadAttention", Q, K, V, None, ends, unidirectional=1, **n),
        make("MultiHeadAttention", Q, K, V, None, None, bias4, scale=0.2, **n),
        make("MultiHeadAttention", Q, K, V, None, None, None, PAST[0], PAST[1], outputs=3, **n),
        make("MultiHeadAttention", Q, normal(B, NH, 7, H), normal(B, NH, 7, H), **n),
    ]


def grouped_cases() -> list[Case]:
    n = {"num_heads": 4, "kv_num_heads": 2}
    q, k, v = normal(B, S, 64), normal(B, S, 32), normal(B, S, 32)
    ends, total = np.array([4, 4], np.int32), np.array([5], np.int32)
    one = normal(B, 1, 64), normal(B, 1, 32), normal(B, 1, 32)
    past = normal(B, 2, 6, 16), normal(B, 2, 6, 16)
    angles = np.cos(normal(16, 8)), np.sin(normal(16, 8))
    later, more = np.array([6, 4], np.int32), np.array([7], np.int32)
    rotary = {"do_rotary": 1}
    packed = normal(B, S, 128)
    return [
        make("GroupQueryAttention", q, k, v, None, None, ends, total, outputs=3, **n),
        make("GroupQueryAttention", packed, None, None, None, None, ends, total, outputs=3, **n),
        make(
            "GroupQueryAttention",
            q,
            k,
            v,
            None,
            None,
            ends,
            total,
            *angles,
            outputs=3,
            **n,
            **rotary,
        ),
        make("GroupQueryAttention", *one, *past, later, more, *angles, outputs=3, **n, **rotary),
        make(
            "GroupQueryAttention",
            *one,
            *past,
            later,
            more,
            *angles,
            outputs=3,
            rotary_interleaved=1,
            **n,
            **rotary,
        ),
        make(
            "GroupQueryAttention",
            q,
            k,
            v,
            None,
            None,
            ends,
            total,
            outputs=3,
            local_window_size=2,
            **n,
        ),
        make(
            "GroupQueryAttention",
            q,
            k,
            v,
            None,
            None,
            ends,
            total,
            outputs=3,
            softcap=2.0,
            scale=0.4,
            **n,
        ),
        make(
            "GroupQueryAttention",
            q,
            k,
            v,
            None,
            None,
            ends,
            total,
            outputs=3,
            smooth_softmax=1,
            **n,
        ),
        make(
            "GroupQueryAttention",
            q,
            k,
            v,
            None,
            None,
            ends,
            total,
            None,
            None,
            None,
            normal(1, 4, S, S),
            outputs=3,
            softcap=2.0,
            **n,
        ),
        make(
            "GroupQueryAttention",
            q,
            k,
            v,
            None,
            None,
            ends,
            total,
            None,
            None,
            None,
            None,
            normal(4),
            outputs=3,
            **n,
        ),
    ]
