"""Cases of com.microsoft's recurrent operators."""

from __future__ import annotations

from typing import Any

import numpy as np
from contrib_cases import Case, byte, f, make, normal

from sardonyx.types import Array


def recurrent_cases() -> list[Case]:
    """DynamicQuantizeLSTM: 5 steps of 2 sequences of 6, a state of 4."""
    n, both = {"hidden_size": 4}, {"hidden_size": 4, "direction": "bidirectional"}
    x, zero, columns = normal(5, 2, 6), byte(np.int8, 1) * 0, np.abs(normal(2, 1, 16)) * f(0.01)
    state = normal(2, 2, 4), normal(2, 2, 4)

    def weights(directions: int, dtype: Any = np.int8) -> tuple[Array, Array]:
        return byte(dtype, directions, 6, 16), byte(dtype, directions, 4, 16)

    def given(*scales: Array, **rest: Any) -> Case:
        w, r, *others = rest.pop("of")
        some: list[Array | None] = [*others, *[None] * 5][:5]
        return make("DynamicQuantizeLSTM", x, w, r, *some, *scales, outputs=3, **rest)

    one, two = np.array([0.01], np.float32), np.array([0.01, 0.02], np.float32)
    bytes_, zeros = np.array([120], np.uint8), np.zeros((1, 16), np.int8)
    pair = np.array([130, 120], np.uint8)
    lengths = np.array([5, 3], np.int32)
    first = tuple(s[:1] for s in state)
    return [
        given(one, zero, one, zero, of=weights(1), **n),
        given(one, bytes_, one, bytes_, of=weights(1, np.uint8), direction="reverse", **n),
        given(
            two, pair, two, pair, of=(*weights(2, np.uint8), normal(2, 32), None, *state), **both
        ),
        given(
            columns[0], zeros, columns[1], zeros, of=(*weights(1), normal(1, 32), None, *first), **n
        ),
        given(
            one,
            zero,
            one,
            zero,
            of=(*weights(1), normal(1, 32), lengths, *first, normal(1, 12)),
            input_forget=1,
            clip=9.0,
            tolerance=5e-3,  # what ended is zeros there, which other ranges show
            **n,
        ),
        given(
            one,
            zero,
            one,
            zero,
            of=weights(1),
            activations=["HardSigmoid", "Relu", "Tanh"],
            activation_alpha=[0.3],
            activation_beta=[0.4],
            **n,
        ),
    ]
