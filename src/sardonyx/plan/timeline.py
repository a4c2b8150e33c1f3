"""What is planned, and what a plan is (docs/machine.md, Definitions 12 and 13).

    timeline = steps, sizes, initial, final, outside
    step    = reads, writes, scratch sizes, views, in_place
    plan    = offsets, scratch offsets, size (N), hosts, aliases, in_place

All sizes and offsets are bytes. A timeline says nothing of graphs or kernels: G in one order and
the scheduled graph are planned alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

ALIGNMENT = 64


def padded(size: int) -> int:
    """size rounded up to the alignment."""
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True, slots=True)
class Step:
    """One step: the tensors it reads and writes, each once, and the sizes of its temporaries.

    views: (output, input) whose bytes are equal. in_place: (output, input) where the step gives
    the same bytes when the output lies exactly where the input lies.
    """

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    scratch: tuple[int, ...] = ()
    views: tuple[tuple[str, str], ...] = ()
    in_place: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """Steps in one order. initial: the tensors that have values before the first step; final:
    those that are needed after the last; outside: those whose bytes are not in M."""

    steps: tuple[Step, ...]
    sizes: Mapping[str, int]
    initial: tuple[str, ...]
    final: tuple[str, ...]
    outside: frozenset[str] = frozenset()

    def lifetimes(self) -> dict[str, tuple[int, int]]:
        """tensor -> (first, last), the instants between which it is live; -1 is before the first
        step, len(steps) after the last."""
        first = dict.fromkeys(self.initial, -1)
        for k, step in enumerate(self.steps):
            first.update(dict.fromkeys(step.writes, k))
        last = dict(first)
        for k, step in enumerate(self.steps):
            last.update(dict.fromkeys(step.reads, k))
        last.update(dict.fromkeys(self.final, len(self.steps)))
        return {name: (first[name], last[name]) for name in first}


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """Where everything lies.

    offsets: of each tensor in M. scratch: per step, the offsets of its temporaries. size: N.
    lower_bound: no valid plan of the timeline is smaller. aliases: view -> the input whose place it
    shares, so that its bytes need not be written. in_place: output -> the dying input whose place
    it takes. hosts: tensor -> the outside tensor in whose memory it lies instead of M.
    """

    offsets: Mapping[str, int]
    scratch: tuple[tuple[int, ...], ...]
    size: int
    lower_bound: int
    aliases: Mapping[str, str] = field(default_factory=dict)
    in_place: Mapping[str, str] = field(default_factory=dict)
    hosts: Mapping[str, str] = field(default_factory=dict)

    def size_for(self, threads: int, worker: int) -> int:
        """The bytes of M for so many threads: after M for one, `worker` bytes of scratch for each
        of the others. The tensors lie where they lie for one thread."""
        return self.size + (threads - 1) * worker
