"""Sizes that a caller gives."""

from __future__ import annotations

from sardonyx.errors import FeedError

MOST = (1 << 63) - 1


def check_given(what: str, size: int, least: int = 1) -> None:
    """FeedError where a size is less than `least` or no int64; `what` has it."""
    if size < least:
        raise FeedError(f"{what} is given the size {size}, expected at least {least}")
    if size > MOST:
        raise FeedError(f"{what} is given the size {size}, expected at most {MOST}")
