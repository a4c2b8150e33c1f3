"""What each thread but the first needs for itself while a program runs."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.dims import Dim, extreme
from sardonyx.kernel.c99.share import worker_bytes as of_kernel
from sardonyx.passes.program import Launch, Program
from sardonyx.plan import padded


def worker_bytes(program: Program) -> tuple[Dim, ...]:
    """The bytes, for each launch; multiples of the alignment."""
    return tuple(_of(launch) for launch in program.launches)


def most(needed: Sequence[Dim]) -> Dim:
    """The largest of the sizes."""
    found: Dim = 0
    for size in needed:
        found = extreme("max", found, size)
    return found


def _of(launch: Launch) -> Dim:
    bodies = () if launch.call is None else launch.call.bodies
    found = [of_kernel(launch.kernel), *(most(worker_bytes(b.program)) for b in bodies)]
    if launch.call is not None and launch.call.kind == "Each":
        found += [padded(b.plan.size) for b in bodies]  # an element for each thread
    return most(found)
