"""Traces of the machine: one line per step, written as it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy.typing as npt

from sardonyx.errors import FeedError, RunError, UnsupportedModel
from sardonyx.graph import Graph
from sardonyx.machine import Access, Machine
from sardonyx.machine.state import cut
from sardonyx.monitor import KINDS, Monitor
from sardonyx.stages import is_staged
from sardonyx.trace.chain import Chain, Keep
from sardonyx.trace.digest import elements, of_bytes
from sardonyx.trace.form import Form, Hole, HoleKind, Subject, filled, footer_template, form
from sardonyx.trace.stages import staged
from sardonyx.types import Array, Value


def trace(
    graph: Graph,
    feeds: Mapping[str, Value],
    subject: Subject | None = None,
    keep: Keep | None = None,
) -> Iterator[str]:
    """The lines of the trace of one run, each as soon as its step is done.

    keep: is given the elements of every tensor that is read or written, with their digest. A run
    that traps gives a trace too, and then raises its RunError. A graph whose data decide sizes, or
    in which the host takes part, has the lines of trace/stages.py.
    """
    subject, keep = subject or Subject(), keep or (lambda d, b: None)
    if is_staged(graph):
        yield from staged(graph, feeds, subject, keep)
        return
    monitor = Monitor()
    machine = started(graph, feeds, subject.fused, monitor)
    yield from _lines(machine, form(machine, subject), monitor, keep)


def started(
    graph: Graph, feeds: Mapping[str, npt.ArrayLike], fused: bool, monitor: Monitor | None = None
) -> Machine:
    """A machine at its initial state. Raises UnsupportedModel where data decides sizes, or the host
    takes part: such a graph has no one plan."""
    if is_staged(graph):
        raise UnsupportedModel(
            f"the graph '{graph.name}' has sizes that its data decide, or operations of the host: "
            "it has no one plan, as the C of a trace needs"
        )
    return Machine(graph, fused=fused, monitor=monitor).start(feeds)


def _lines(machine: Machine, made: Form, monitor: Monitor, keep: Keep) -> Iterator[str]:
    chain = Chain()

    def digest(a: Access) -> str:
        data = elements(_value(machine, a))
        keep(found := of_bytes(data), data)
        return found

    def digests(kind: HoleKind, accesses: tuple[Access, ...]) -> dict[Hole, str]:
        return {Hole(kind, i): digest(a) for i, a in enumerate(accesses)}

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
            yield chain.footer(filled(footer_template((), "trapped"), count))
            raise error
    machine.step()
    count = {Hole("count"): str(len(made.steps))}
    values = digests("output", made.outputs) | count
    yield chain.footer(filled(footer_template(made.outputs, "complete"), values))


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
