"""Foreign code in a process of its own: what it does there harms nobody."""

from __future__ import annotations

import os

import pytest

from sardonyx.errors import InvalidModel, LimitExceeded
from sardonyx.resolve import contain
from sardonyx.resolve.contain import contained


def forever(data: bytes) -> bytes:
    while True:
        pass


def crash(data: bytes) -> bytes:
    os.abort()


def hungry(data: bytes) -> bytes:
    return bytes(1 << 36)


def repeat(data: bytes) -> bytes:
    return data * 3_000_000


def test_foreign_code_that_does_not_end_is_stopped() -> None:
    with pytest.raises(LimitExceeded, match="2 s"):
        contained(forever, b"", "work", 2, 1 << 30)


def test_foreign_code_that_crashes_is_an_error() -> None:
    with pytest.raises(InvalidModel, match="crashed"):
        contained(crash, b"", "work", 60, 1 << 30)


def test_foreign_code_that_takes_too_much_memory_is_an_error() -> None:
    with pytest.raises(InvalidModel, match="too much memory"):
        contained(hungry, b"", "work", 60, 1 << 30)


def test_foreign_code_works_after_another_crashed_or_its_process_was_killed() -> None:
    assert contained(repeat, b"x", "work", 60, 1 << 30) == b"x" * 3_000_000
    contain._helpers[os.getpid()].kill()
    assert contained(repeat, b"y", "work", 60, 1 << 30) == b"y" * 3_000_000
