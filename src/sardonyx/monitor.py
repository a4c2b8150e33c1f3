"""The run-time monitor: what the profile leaves to be seen as a model runs.

    monitor = Monitor(Policy({"nan": "stop", "wrap": "record"}))
    Machine(graph, monitor=monitor).run(feeds)
    monitor.findings

    nan       an output holds a NaN and no input does
    infinity  an output holds an infinity and no input does
    underflow a float result is 0 and exactly is not
    wrap      an integer wraps (kernel/obligations.py says which arithmetic counts, here and above)
    division  an integer is divided by zero
    domain    an operand is outside of its operator's domain (`domain` says which)
    index     an index is out of range: always an error of the run too
    empty     an output has no elements and every input has some

Each is seen per operation, from the values that it reads and writes; what passes through the
temporaries of a kernel is not looked at, nor are floats of at most 8 bits. Of control flow the
operations of the subgraphs are watched, each time that they are executed; what the host performs
with strings and sequences is not.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeAlias, get_args

import numpy as np

from sardonyx.errors import FeedError, RunError
from sardonyx.graph import Operation
from sardonyx.kernel.expr import Axis, Buffer, Expr, Fold, Load, alu, cast, const
from sardonyx.kernel.interpret import evaluate
from sardonyx.kernel.ir import Kernel
from sardonyx.kernel.obligations import obligations
from sardonyx.types import Array, by_numpy, float32, int64

Kind: TypeAlias = Literal[
    "nan", "infinity", "underflow", "wrap", "division", "domain", "index", "empty"
]
Mode: TypeAlias = Literal["ignore", "record", "stop"]
KINDS: tuple[Kind, ...] = get_args(Kind)
CHECKED = KINDS[2:6]  # by the kernel of the obligations


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
        empty = left != kind and not node
        if empty or kind not in KINDS or mode not in get_args(Mode):
            raise FeedError(
                f"{option}: expected [NODE:]KIND=MODE, a kind of {', '.join(KINDS)} "
                f"and a mode of {', '.join(get_args(Mode))}"
            )
        chosen = operations.setdefault(node, {}) if node else kinds
        if kind in chosen:
            raise FeedError(f"{option}: {left} is given twice, before as {chosen[kind]}; give one")
        chosen[kind] = typing.cast(Mode, mode)
    return Policy(kinds, operations)


@dataclass(slots=True)
class Monitor:
    """Watches the steps of a run and does what its policy says; `findings` grows. steps: those of
    this run that are done, with those in subgraphs."""

    policy: Policy = field(default_factory=Policy)
    findings: list[Finding] = field(default_factory=list)
    steps: int = 0

    def begin(self) -> None:
        """A run begins."""
        self.steps = 0

    def done(self, *_: object) -> None:
        """A step is done that raises no flags."""
        self.steps += 1

    def note(self, op: Operation, kinds: Iterable[Kind]) -> list[Kind]:
        """Notes flags that the next step raised; those at which the policy says stop."""
        found = [k for k in KINDS if k in set(kinds) and self.policy.mode(op, k) != "ignore"]
        self.findings += [Finding(self.steps, op, k) for k in found]
        self.done()
        return [k for k in found if self.policy.mode(op, k) == "stop"]

    def see(self, op: Operation, kinds: Iterable[Kind]) -> None:
        """Notes flags that the next step raised. Raises RunError where the policy says stop."""
        step, stops = self.steps, self.note(op, kinds)
        if stops:
            raise RunError(f"{op}, step {step}: the monitor stopped at {', '.join(stops)}")


def special(arrays: Iterable[Array]) -> frozenset[Kind]:
    """Whether an array is empty, and floats of 16 bits and more hold a NaN or an infinity."""
    found: set[Kind] = set()
    for x in arrays:
        dtype = by_numpy(x.dtype)
        if not x.size:
            found.add("empty")
        if dtype is not None and dtype.is_float and dtype.bits >= 16:
            if np.isnan(x).any():
                found.add("nan")
            if np.isinf(x).any():
                found.add("infinity")
    return frozenset(found)


@lru_cache(maxsize=4096)
def checks(kernel: Kernel, op_type: str) -> Kernel | None:
    """The obligations of an operator's kernel, kept."""
    return obligations(kernel, domain(kernel, op_type))


def broken(kernel: Kernel, op: Operation, inputs: Sequence[Array | None]) -> frozenset[Kind]:
    """The flags that an operation raises on the inputs of its kernel (as many as that has)."""
    check = checks(kernel, op.op_type)
    if check is None:
        return frozenset()
    (flags,) = evaluate(check, inputs)
    return frozenset(k for k, flag in zip(CHECKED, flags.tolist(), strict=True) if flag)


def made(inputs: Iterable[Array], outputs: Iterable[Array]) -> frozenset[Kind]:
    """What outputs are that no input is: with a NaN, with an infinity, empty."""
    return special(outputs) - special(inputs)


def domain(kernel: Kernel, op_type: str) -> Expr | None:
    """Whether an operand of a kernel is outside of the domain that SONNX's documents give its
    operator: bounds of Clip that are not ordered, a negative exponent of an integer Pow, Log of
    what is not above 0, Sqrt of what is below 0. None where the operator has no such operand."""
    given = (*kernel.inputs, None, None, None)
    match op_type, given[:3]:
        case "Clip", (_, Buffer() as low, Buffer() as high):
            return _unordered(_element(low), _element(high))
        case "Pow", (Buffer() as x, Buffer() as y, _) if {x.dtype.kind, y.dtype.kind} <= {"i", "u"}:
            return _anywhere(y, lambda e: alu("lt", e, 0)) if y.dtype.kind == "i" else None
        case "Log", (Buffer() as x, *_):
            return _anywhere(x, lambda e: alu("le", e, 0))
        case "Sqrt", (Buffer() as x, *_):
            return _anywhere(x, lambda e: alu("lt", e, 0))
    return None


def _anywhere(buffer: Buffer, holds: Callable[[Expr], Expr]) -> Expr:
    """Whether something holds of any element."""
    axes = tuple(Axis(f"d{i}", n) for i, n in enumerate(buffer.shape))
    found = holds(_element(buffer, axes))
    return Fold("or", axes, (found,)) if axes else found


def _element(buffer: Buffer, axes: tuple[Axis, ...] = ()) -> Expr:
    """An element, in a type that can be compared."""
    zeros = (const(0, int64),) * (len(buffer.shape) - len(axes))
    found = Load(buffer, (*axes, *zeros))
    return cast(found, float32) if found.dtype.is_storage else found


def _unordered(low: Expr, high: Expr) -> Expr:
    """Not low <= high, or +0 and -0."""
    wrong = alu("not", alu("le", low, high))
    if not low.dtype.is_float:
        return wrong
    signs = alu("and", alu("signbit", high), alu("not", alu("signbit", low)))
    return alu("or", wrong, alu("and", signs, alu("and", alu("eq", low, 0), alu("eq", high, 0))))
