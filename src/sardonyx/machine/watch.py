"""What the monitor needs of one step: the flags that its operation raises."""

from __future__ import annotations

from collections.abc import Iterable

from sardonyx.kernel.ir import Kernel
from sardonyx.machine.state import Access, State, StepRecord, window
from sardonyx.monitor import Kind, broken, special
from sardonyx.types import Array


class Watch:
    """Looks at what a step reads; made before the step, asked for its flags after it."""

    def __init__(self, kernel: Kernel, record: StepRecord, state: State) -> None:
        inputs = dict(
            zip((a.name for a in record.reads), _values(record.reads, state), strict=True)
        )
        given = [inputs.get(n) for n in record.operation.inputs][: len(kernel.inputs)]
        self._broken = broken(kernel, record.operation, given)
        self._special = special(inputs.values())
        self._writes = record.writes

    def flags(self, state: State) -> frozenset[Kind]:
        """The flags, once the step is done."""
        return self._broken | (special(_values(self._writes, state)) - self._special)


def _values(accesses: Iterable[Access], state: State) -> list[Array]:
    return [window(state.memory, state.table[a.name]) for a in accesses]
