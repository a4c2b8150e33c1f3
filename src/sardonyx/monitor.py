"""The run-time monitor: what the profile leaves to be seen as a model runs.

    monitor = Monitor(Policy({"nan": "stop", "wrap": "record"}))
    Machine(graph, monitor=monitor).run(feeds)
    monitor.findings

    nan       an output holds a NaN and no input does
    infinity  an output holds an infinity and no input does
    wrap      an integer wraps (kernel/obligations.py says which arithmetic counts)
    division  an integer is divided by zero
    index     an index is out of range: always an error of the run too

Each is seen per operation, from the values that it reads and writes; what passes through the
temporaries of a kernel is not looked at, nor are floats of at most 8 bits, nor a result that
underflows to zero. What the host performs (control flow, strings, sequences) is not watched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeAlias, cast, get_args

import numpy as np

from sardonyx.errors import FeedError, RunError
from sardonyx.graph import Operation
from sardonyx.kernel.interpret import evaluate
from sardonyx.kernel.ir import Kernel
from sardonyx.kernel.obligations import obligations
from sardonyx.types import Array, by_numpy

Kind: TypeAlias = Literal["nan", "infinity", "wrap", "division", "index"]
Mode: TypeAlias = Literal["ignore", "record", "stop"]
KINDS: tuple[Kind, ...] = get_args(Kind)
FLOATS, INTEGERS = KINDS[:2], KINDS[2:4]


@dataclass(frozen=True, slots=True)
class Finding:
    """An obligation that an operation broke."""

    step: int
    operation: Operation
    kind: Kind

    def __str__(self) -> str:
        return f"step {self.step}, {self.operation}: {self.kind}"


@dataclass(frozen=True, slots=True)
class Policy:
    """What is done about each kind: `kinds` for all operations (what it leaves out is recorded),
    `operations` for those of one name or operator, which goes before."""

    kinds: Mapping[Kind, Mode] = field(default_factory=dict)
    operations: Mapping[str, Mapping[Kind, Mode]] = field(default_factory=dict)

    def mode(self, op: Operation, kind: Kind) -> Mode:
        """What is done about a kind at an operation."""
        for name in (str(op.origin), op.op_type):
            if kind in self.operations.get(name, {}):
                return self.operations[name][kind]
        return self.kinds.get(kind, "record")


def policy_of(options: Iterable[str]) -> Policy:
    """The policy that "nan=stop" and "conv1:wrap=ignore" describe. FeedError where one is not
    [NODE:]KIND=MODE."""
    kinds: dict[Kind, Mode] = {}
    operations: dict[str, dict[Kind, Mode]] = {}
    for option in options:
        left, _, mode = option.rpartition("=")
        node, _, kind = left.rpartition(":")
        if kind not in KINDS or mode not in get_args(Mode):
            raise FeedError(
                f"{option}: expected [NODE:]KIND=MODE, a kind of {', '.join(KINDS)} "
                f"and a mode of {', '.join(get_args(Mode))}"
            )
        chosen = operations.setdefault(node, {}) if node else kinds
        chosen[kind] = cast(Mode, mode)
    return Policy(kinds, operations)


@dataclass(slots=True)
class Monitor:
    """Watches the steps of a run and does what its policy says; `findings` grows."""

    policy: Policy = field(default_factory=Policy)
    findings: list[Finding] = field(default_factory=list)

    def note(self, step: int, op: Operation, kinds: Iterable[Kind]) -> list[Kind]:
        """Notes flags that were raised; those at which the policy says stop."""
        found = [k for k in KINDS if k in set(kinds) and self.policy.mode(op, k) != "ignore"]
        self.findings += [Finding(step, op, k) for k in found]
        return [k for k in found if self.policy.mode(op, k) == "stop"]

    def see(self, step: int, op: Operation, kinds: Iterable[Kind]) -> None:
        """Notes flags that were raised. Raises RunError where the policy says stop."""
        stops = self.note(step, op, kinds)
        if stops:
            raise RunError(f"{op}, step {step}: the monitor stopped at {', '.join(stops)}")


def special(arrays: Iterable[Array]) -> frozenset[Kind]:
    """Whether floats of 16 bits and more hold a NaN or an infinity."""
    found: set[Kind] = set()
    for x in arrays:
        dtype = by_numpy(x.dtype)
        if dtype is not None and dtype.is_float and dtype.bits >= 16:
            if np.isnan(x).any():
                found.add("nan")
            if np.isinf(x).any():
                found.add("infinity")
    return frozenset(found)


@lru_cache(maxsize=4096)
def checks(kernel: Kernel) -> Kernel | None:
    """The obligations of a kernel, kept."""
    return obligations(kernel)


def broken(kernel: Kernel, inputs: Sequence[Array | None]) -> frozenset[Kind]:
    """The integer flags that a kernel raises on its inputs (as many as the kernel has)."""
    check = checks(kernel)
    if check is None:
        return frozenset()
    (flags,) = evaluate(check, inputs)
    return frozenset(k for k, flag in zip(INTEGERS, flags.tolist(), strict=True) if flag)


def made(before: frozenset[Kind], outputs: Iterable[Array]) -> frozenset[Kind]:
    """The special values that outputs hold and inputs, of which `before` speaks, do not."""
    return special(outputs) - before
