"""The operators of users: what they mean may be another thing tomorrow."""

from __future__ import annotations

_USERS: set[tuple[str, str]] = set()


def add(domain: str, name: str) -> None:
    """Says that an operator is a user's."""
    _USERS.add((domain, name))


def discard(domain: str, name: str) -> None:
    """Says that it is none any more."""
    _USERS.discard((domain, name))


def users() -> frozenset[tuple[str, str]]:
    """The operators of users, by domain and name."""
    return frozenset(_USERS)
