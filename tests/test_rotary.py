"""Rotary position embeddings: the bits of the function body that onnx's schema carries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bodies import as_function, one, ran
from test_passes import values

HEADS, SIZE, LENGTH, ROOM = 3, 8, 5, 16
POSITIONS = np.array([[4, 0, 15, -1, 2], [1, 1, 3, 8, 0]], np.int64)


def model(kind: type, whole: int, placed: bool, how: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """A RotaryEmbedding and its feeds; whole: the elements of a head that are turned. placed: there
    are positions."""
    shape = (2, LENGTH, HEADS * SIZE) if "num_heads" in how else (2, HEADS, LENGTH, SIZE)
    rows = (ROOM, whole // 2) if placed else (2, LENGTH, whole // 2)
    feeds = {"x": values(1, *shape).astype(kind)}
    feeds |= {name: values(i, *rows).astype(kind) for i, name in ((2, "cos"), (3, "sin"))}
    feeds |= {"at": POSITIONS} if placed else {}
    return one("RotaryEmbedding", 23, feeds, **how), feeds


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("whole", "placed", "how"),
    [
        (8, True, {}),
        (8, False, {}),
        (4, True, {"rotary_embedding_dim": 4}),
        (8, True, {"num_heads": HEADS}),
        (4, False, {"num_heads": HEADS, "rotary_embedding_dim": 4}),
    ],
)
def test_rotary_embedding_has_the_bits_of_its_body(
    kind: type, whole: int, placed: bool, how: dict[str, Any], interleaved: int
) -> None:
    made, feeds = model(kind, whole, placed, how | {"interleaved": interleaved})
    expected = ran(as_function(made), feeds, "machine")
    assert ran(made, feeds, "machine") == expected
    assert ran(made, feeds, "native") == expected


def test_positions_beyond_the_caches_are_an_error_of_the_run() -> None:
    made, feeds = model(np.float32, 8, True, {})
    feeds["at"] = POSITIONS + 1
    for engine in ("machine", "native"):
        with pytest.raises(Exception, match="RotaryEmbedding"):
            ran(made, feeds, engine)
