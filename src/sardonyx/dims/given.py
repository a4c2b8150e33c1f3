"""Sizes that a caller gives."""

from __future__ import annotations

from collections.abc import Iterable

from sardonyx.errors import FeedError

MOST = (1 << 63) - 1


def check_given(what: str, size: int, least: int = 1) -> None:
    """FeedError where a size is less than `least` or no int64; `what` has it."""
    if size < least:
        raise FeedError(f"{what} is given the size {size}, expected at least {least}")
    if size > MOST:
        raise FeedError(f"{what} is given the size {size}, expected at most {MOST}")


def check_named(model: str, given: Iterable[str], there: Iterable[str]) -> None:
    """FeedError where a size is given for a dim that is none of those that the model has."""
    names = list(dict.fromkeys(there))
    for name in given:
        if name not in names:
            known = f"it has {', '.join(names)}; give one of these"
            has = known if names else "all of its sizes are fixed; leave it out"
            raise FeedError(f"{model} has no symbolic dim '{name}': {has}")
