"""What each thread but the first needs for itself while a program runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sardonyx.dims import Dim, extreme
from sardonyx.kernel.c99.share import worker_bytes as of_kernel
from sardonyx.passes.program import Launch, Program
from sardonyx.plan import padded
from sardonyx.plan.plans import Workers


def workers_of(program: Program) -> Workers:
    """All of it."""
    return Workers(most(worker_bytes(program)), tuple(_elements(program)))


def worker_bytes(program: Program) -> tuple[Dim, ...]:
    """The bytes that kernels need, for each launch; multiples of the alignment."""
    return tuple(_of(launch) for launch in program.launches)


def most(needed: Sequence[Dim]) -> Dim:
    """The largest of the sizes."""
    found: Dim = 0
    for size in needed:
        found = extreme("max", found, size)
    return found


def _of(launch: Launch) -> Dim:
    bodies = () if launch.call is None else launch.call.bodies
    return most([of_kernel(launch.kernel), *(most(worker_bytes(b.program)) for b in bodies)])


def _elements(program: Program) -> Iterator[tuple[int, Dim]]:
    """The bytes of an element of each batch whose elements are done one by one, and how many."""
    for call in (x.call for x in program.launches if x.call is not None):
        for body in call.bodies:
            if call.kind == "Each":
                yield padded(body.plan.size), call.count
            yield from _elements(body.program)
