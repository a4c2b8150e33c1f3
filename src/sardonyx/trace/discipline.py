"""The memory discipline of a run, checked from its trace alone (docs/machine.md, section 8).

    check(trace)   what is wrong, in words; [] for a run that kept the rules

- single assignment: no tensor is written that has a value;
- a read sees the last write: same place, type and elements;
- no live tensor is clobbered: a write touches no bytes of another tensor that is still needed,
  unless both hold equal bytes (views), or the other is read by this very step for the last time
  and lies at the same place (in-place execution);
- every place is within M; the initial tensors lie apart;
- the outputs are what was written last.

What kernels keep in M during one step only does not show in a trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

from sardonyx.trace.read import Record, Touched, Trace


@dataclass(slots=True)
class _Memory:
    """What a reader of the trace knows of M: the tensors that have a value, and when they are read
    for the last time."""

    size: int
    last: dict[str, int]
    held: dict[str, Touched] = field(default_factory=dict)
    found: list[str] = field(default_factory=list)

    def place(self, who: str, x: Touched) -> None:
        """Whether the place is one."""
        size = x.dtype.bytes(prod(x.shape))
        if not 0 <= x.offset <= x.offset + x.size <= self.size or size != x.size:
            self.found.append(f"{who}: the place of '{x.name}' is not within M, or not its size")

    def read(self, who: str, x: Touched) -> None:
        known = self.held.get(x.name)
        if known is None:
            self.found.append(f"{who}: '{x.name}' is read and has no value")
        elif (x.offset, x.dtype, x.shape) != (known.offset, known.dtype, known.shape):
            self.found.append(f"{who}: '{x.name}' is read where it was not written")
        elif x.before != known.after:
            self.found.append(f"{who}: the read of '{x.name}' does not see the last write")

    def write(self, who: str, number: int, x: Touched) -> None:
        if x.name in self.held:
            self.found.append(f"{who}: '{x.name}' is assigned again")
        for other in self.held.values():
            if not _overlap(x, other) or self.last.get(other.name, -1) < number:
                continue
            same = (x.offset, x.size) == (other.offset, other.size)
            if same and x.before != other.after:
                self.found.append(f"{who}: '{other.name}' was not there before '{x.name}'")
            view = same and x.after == other.after
            if not view and not (same and self.last[other.name] == number):
                self.found.append(f"{who}: the write of '{x.name}' clobbers '{other.name}'")


def check(trace: Trace) -> list[str]:
    """Every rule that the run broke, with the step."""
    memory = _Memory(trace.header["memory"], _last_reads(trace.steps, trace.header["outputs"]))
    _run(memory, trace.initial, trace.steps, "the header")
    for x in trace.footer["outputs"]:
        known = memory.held.get(x["name"])
        if known is None or known.after != x["sha256"]:
            memory.found.append(f"the footer: '{x['name']}' is not what was written last")
    return memory.found


def check_memory(
    size: int,
    initial: tuple[Touched, ...],
    steps: Sequence[Record],
    outputs: Sequence[str],
    who: str,
) -> list[str]:
    """Every rule that steps in M broke, at whose end the outputs have to be there. who: what the
    initial tensors belong to."""
    memory = _Memory(size, _last_reads(steps, outputs))
    _run(memory, initial, steps, who)
    return memory.found


def _run(memory: _Memory, initial: tuple[Touched, ...], steps: Sequence[Record], who: str) -> None:
    for x in initial:
        memory.place(who, x)
        memory.held[x.name] = _written(x)
    memory.found += _together(initial, who)
    for step in steps:
        _step(memory, step)


def _step(memory: _Memory, step: Record) -> None:
    who = str(step)
    trapped = bool(step.flags["index"])
    for x in (*step.reads, *step.writes):
        memory.place(who, x)
    for x in step.reads:
        memory.read(who, x)
    if trapped:
        return
    for x in step.writes:
        memory.write(who, step.number, x)
    memory.found += _together(step.writes, who)
    memory.held.update({x.name: x for x in step.writes})


def _written(x: Touched) -> Touched:
    """An initial tensor as if it had been written."""
    return Touched(x.name, x.dtype, x.shape, x.offset, x.size, x.before, x.before)


def _last_reads(steps: Sequence[Record], outputs: Iterable[str]) -> dict[str, int]:
    """tensor -> the step that reads it last; outputs are read at the end."""
    last = {x.name: step.number for step in steps for x in step.reads}
    return last | dict.fromkeys(outputs, steps[-1].number + 1 if steps else 0)


def _together(written: tuple[Touched, ...], who: str) -> list[str]:
    """What overlaps among tensors that are written at once, other than equal views."""
    found = []
    order = sorted((x for x in written if x.size), key=lambda x: (x.offset, x.size))
    for a, b in pairwise(order):
        equal = (a.offset, a.size, a.after) == (b.offset, b.size, b.after) and a.after
        if _overlap(a, b) and not equal:
            found.append(f"{who}: '{a.name}' and '{b.name}' overlap")
    return found


def _overlap(a: Touched, b: Touched) -> bool:
    return a.offset < b.offset + b.size and b.offset < a.offset + a.size and a.size * b.size > 0
