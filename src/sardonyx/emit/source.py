"""What is emitted, and what it is emitted from.

Program   what to emit: the shape of passes.program.Program, so that emit need not know it
Source    the C text, the weights, and how to call it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from sardonyx.dims import Dim
from sardonyx.emit.weights import Blob
from sardonyx.graph import Operation
from sardonyx.kernel.ir import Kernel
from sardonyx.plan import Plan
from sardonyx.plan.outline import Slot
from sardonyx.types import Array, TensorType

WRITTEN = "/* Written by Sardonyx"  # heads model.c, by which an exported folder is known again


class Body(Protocol):
    """A subgraph as a program, and the plan of its memory."""

    @property
    def program(self) -> Program: ...
    @property
    def plan(self) -> Plan: ...


class Call(Protocol):
    """Control flow, as passes.program has it."""

    @property
    def kind(self) -> str: ...
    @property
    def bodies(self) -> Sequence[Body]: ...
    @property
    def states(self) -> int: ...
    @property
    def backward(self) -> Sequence[bool]: ...
    @property
    def given(self) -> tuple[bool, bool]: ...
    @property
    def elements(self) -> int: ...
    @property
    def count(self) -> Dim: ...


class Launch(Protocol):
    """One kernel, or control flow, applied to tensors; reads and writes are as its inputs and
    outputs."""

    @property
    def call(self) -> Call | None: ...

    @property
    def kernel(self) -> Kernel: ...
    @property
    def reads(self) -> Sequence[str | None]: ...
    @property
    def writes(self) -> Sequence[str]: ...
    @property
    def operations(self) -> Sequence[Operation]: ...


class Program(Protocol):
    """Launches in order, the tensors they are applied to, and the values known now."""

    @property
    def inputs(self) -> Sequence[str]: ...
    @property
    def outputs(self) -> Sequence[str]: ...
    @property
    def tensors(self) -> Mapping[str, TensorType]: ...
    @property
    def weights(self) -> Mapping[str, Array]: ...
    @property
    def launches(self) -> Sequence[Launch]: ...
    @property
    def equal(self) -> Sequence[tuple[Dim, Dim]]: ...
    @property
    def sizes(self) -> Sequence[Dim]: ...


class Extent(Protocol):
    """A symbolic dim that the program finds as it runs, as passes.extents has it."""

    @property
    def symbol(self) -> str: ...
    @property
    def tensor(self) -> str: ...
    @property
    def element(self) -> int: ...
    @property
    def more(self) -> int: ...
    @property
    def most(self) -> int: ...


def bounds_of(extents: Sequence[Extent]) -> dict[str, int]:
    """The bound of each symbolic dim."""
    return {e.symbol: e.most for e in extents}


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A program as C.

    header, main: model.h and model.c. units: more C files, when the kernels were split off for
    parallel compilation. tiles: name -> text of the C files that many programs have. memory: N,
    the bytes of M; None where it depends on the dims. slots: what the offsets table holds, in
    order (empty where offsets are constants). symbols: what the dims table holds. functions:
    launch, of control flow's bodies too -> its function's name. kernels: how many functions they
    share. unfused: whether numerics="unfused". threads: whether a caller may supply a parallel_for.
    """

    prefix: str
    header: str
    main: str
    units: tuple[str, ...]
    tiles: Mapping[str, str]
    blob: Blob
    memory: int | None
    slots: tuple[Slot, ...]
    symbols: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    functions: Mapping[Launch, str]
    kernels: int
    unfused: bool
    threads: bool = False

    def files(self) -> dict[str, str]:
        """File name -> text, all that a compiler needs."""
        units = {f"kernels{i}.c": text for i, text in enumerate(self.units)}
        return {"model.h": self.header, "model.c": self.main, **units, **self.tiles}
