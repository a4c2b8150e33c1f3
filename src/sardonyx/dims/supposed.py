"""What is supposed of sizes: facts, each a Dim that is at least 0, beside that symbols are.

    with supposing(facts):                  proofs go on from these
    with supposing(facts, sizes) as found:  and what they leave open is decided as these sizes have
                                            it, which is a fact more for those to come

Whoever uses what was made so asks first whether the facts hold of the sizes it is for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from sardonyx.dims.poly import Dim


@dataclass(slots=True, eq=False)
class Supposed:
    """facts: so far. sizes: what decides; None where nothing more is supposed."""

    facts: tuple[Dim, ...] = ()
    sizes: Mapping[str, int] | None = None


_CURRENT: ContextVar[Supposed | None] = ContextVar("supposed", default=None)


@contextmanager
def supposing(
    facts: tuple[Dim, ...] = (), sizes: Mapping[str, int] | None = None
) -> Iterator[Supposed]:
    """Within it these facts hold, and `sizes` decide."""
    current = Supposed(facts, sizes)
    token = _CURRENT.set(current)
    try:
        yield current
    finally:
        _CURRENT.reset(token)


def supposed() -> Supposed:
    """What is supposed here."""
    return _CURRENT.get() or Supposed()
