"""The operators of the domain com.microsoft that exported models contain.

ms_activation.py  Gelu and its kin, FusedConv, FusedGemm     ms_matmul.py   products
ms_attention.py   Attention, MultiHeadAttention, QAttention  ms_norm.py     normalizations
ms_rotary.py      RotaryEmbedding, GroupQueryAttention       ms_qlinear.py  quantised ones
ms_misc.py        Inverse, Trilu, ...                        ms_qlinear_pool.py  pools
ms_text.py        Tokenizer                              ms_recurrent.py  DynamicQuantizeLSTM
"""

from sardonyx.ops import (
    ms_activation,
    ms_attention,
    ms_embed,
    ms_matmul,
    ms_misc,
    ms_norm,
    ms_qlinear,
    ms_qlinear_pool,
    ms_recurrent,
    ms_rotary,
    ms_text,
)

__all__ = [
    "ms_activation",
    "ms_attention",
    "ms_embed",
    "ms_matmul",
    "ms_misc",
    "ms_norm",
    "ms_qlinear",
    "ms_qlinear_pool",
    "ms_recurrent",
    "ms_rotary",
    "ms_text",
]
