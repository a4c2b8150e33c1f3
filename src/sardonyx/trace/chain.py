"""The lines of a trace as they are made: each has the chain of all before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sardonyx.trace.digest import chained, root
from sardonyx.trace.form import START

Keep = Callable[[str, bytes], None]  # digest, elements


@dataclass(slots=True)
class Chain:
    """The lines of a trace as they are made."""

    bodies: list[str] = field(default_factory=list)
    last: str = START

    def line(self, body: str) -> str:
        """The line with this body."""
        self.bodies.append(body)
        self.last = chained(self.last, body)
        return f'{body},"chain":"{self.last}"}}\n'

    def footer(self, body: str) -> str:
        """The last line, whose body ends before the root."""
        return self.line(f'{body}{root(self.bodies)}"')
