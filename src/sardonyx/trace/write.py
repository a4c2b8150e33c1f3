"""Traces of the machine: one line per step, written as it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy.typing as npt

from sardonyx.errors import FeedError, RunError, UnsupportedModel
from sardonyx.graph import Graph
from sardonyx.machine import Access, Machine
from sardonyx.machine.state import cut
from sardonyx.monitor import KINDS, Monitor
from sardonyx.stages import is_staged
from sardonyx.trace.digest import chained, elements, of_bytes, root
from sardonyx.trace.form import START, Form, Hole, Subject, Template, filled, footer_template, form
from sardonyx.types import Array

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

    def footer(self, template: Template, values: Mapping[Hole, str]) -> str:
        """The last line."""
        return self.line(f'{filled(template, values)}{root(self.bodies)}"')


def trace(
    graph: Graph,
    feeds: Mapping[str, npt.ArrayLike],
    subject: Subject | None = None,
    keep: Keep | None = None,
) -> Iterator[str]:
    """The lines of the trace of one run, each as soon as its step is done.

    keep: is given the elements of every tensor that is read or written, with their digest. A run
    that traps gives a trace too, and then raises its RunError. Raises UnsupportedModel where data
    decides sizes, or the host takes part: such a graph has no one plan.
    """
    subject = subject or Subject()
    monitor = Monitor()
    machine = started(graph, feeds, subject.fused, monitor)
    yield from _lines(machine, form(machine, subject), monitor, keep or (lambda d, b: None))


def started(
    graph: Graph, feeds: Mapping[str, npt.ArrayLike], fused: bool, monitor: Monitor | None = None
) -> Machine:
    """A machine at its initial state. Raises UnsupportedModel as `trace` does."""
    if is_staged(graph):
        raise UnsupportedModel(
            f"the graph '{graph.name}' has sizes that its data decide, or operations of the host: "
            "a trace is of one plan, so it has none"
        )
    return Machine(graph, fused=fused, monitor=monitor).start(feeds)


def _lines(machine: Machine, made: Form, monitor: Monitor, keep: Keep) -> Iterator[str]:
    chain = Chain()

    def digest(a: Access) -> str:
        data = elements(_value(machine, a))
        keep(found := of_bytes(data), data)
        return found

    def digests(kind: str, accesses: tuple[Access, ...]) -> dict[Hole, str]:
        return {Hole(kind, i): digest(a) for i, a in enumerate(accesses)}  # type: ignore[arg-type]

    yield chain.line(filled(made.header, digests("initial", made.initial)))
    for record, template in made.steps:
        values = digests("read", record.reads) | digests("before", record.writes)
        error: RunError | None = None
        seen = len(monitor.findings)
        try:
            machine.step()
            values |= digests("after", record.writes)
        except RunError as trapped:
            error = trapped
            values |= {Hole("after", i): "" for i in range(len(record.writes))}
        flags = {f.kind for f in monitor.findings[seen:]}
        values |= {Hole("flag", i): str(int(kind in flags)) for i, kind in enumerate(KINDS)}
        yield chain.line(filled(template, values))
        if error is not None:
            count = {Hole("count"): str(record.number + 1)}
            yield chain.footer(footer_template((), "trapped"), count)
            raise error
    machine.step()
    count = {Hole("count"): str(len(made.steps))}
    values = digests("output", made.outputs) | count
    yield chain.footer(footer_template(made.outputs, "complete"), values)


def _value(machine: Machine, a: Access) -> Array:
    return cut(machine.memory, a.offset, a.dtype, a.shape)


@dataclass(frozen=True, slots=True)
class Store:
    """A folder of tensors, each a file of its elements named by their digest."""

    folder: Path

    def keep(self, digest: str, data: bytes) -> None:
        """Stores elements, if they are not there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{digest}.bin"
        if not path.exists():
            path.write_bytes(data)

    def find(self, digest: str) -> bytes | None:
        """The elements with this digest; None where they are not there. FeedError where the file
        has other bytes."""
        try:
            data = (self.folder / f"{digest}.bin").read_bytes()
        except OSError:
            return None
        if of_bytes(data) != digest:
            raise FeedError(f"{self.folder / digest}.bin does not have the bytes of its name")
        return data
