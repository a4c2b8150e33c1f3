"""What host functions make of their attributes is made once for each operation."""

from __future__ import annotations

import numpy as np

from sardonyx.ops.once import KEPT, once
from sardonyx.ops.registry import bound, find_host

WORDS = tuple(f"word{i}" for i in range(40))


def test_it_is_made_once_of_the_very_same_objects() -> None:
    calls: list[object] = []

    @once
    def size(words: tuple[str, ...]) -> int:
        calls.append(words)
        return len(words)

    assert [size(WORDS), size(WORDS)] == [40, 40]
    assert len(calls) == 1


def test_objects_that_are_gone_are_not_taken_for_later_ones() -> None:
    @once
    def total(numbers: list[int]) -> int:
        return sum(numbers)

    assert [total([i]) for i in range(3 * KEPT)] == list(range(3 * KEPT))


def test_a_label_encoder_does_not_read_its_table_again() -> None:
    host = find_host("ai.onnx.ml", "LabelEncoder", 2)
    assert host is not None

    class Words(tuple[str, ...]):
        read = 0

        def __iter__(self) -> object:  # type: ignore[override]
            Words.read += 1
            return super().__iter__()

    run = bound(host, {"keys_strings": Words(WORDS), "values_int64s": tuple(range(40))})
    x = np.array(["word7", "other"], object)
    for _ in range(3):
        run([x])
    assert Words.read == 1
