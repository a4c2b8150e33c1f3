"""The machine's state, and the bytes of a tensor in M (docs/machine.md, Definitions 9 and 10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from sardonyx.errors import RunError
from sardonyx.graph import Graph, Operation
from sardonyx.memory import Bytes
from sardonyx.types import Array, DType, pack, unpack


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the tensor table: where a tensor lies in M, what it is, and the steps (-1: the
    start, the number of steps: the end) between which it is live."""

    offset: int
    dtype: DType
    shape: tuple[int, ...]
    first: int
    last: int

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.dtype.bytes(prod(self.shape))


@dataclass(frozen=True, slots=True)
class Access:
    """A tensor that a step reads or writes."""

    name: str
    offset: int
    dtype: DType
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.dtype.bytes(prod(self.shape))


@dataclass(frozen=True, slots=True, eq=False)
class StepRecord:
    """One step: its number, its operation, and what that reads and writes, each tensor once."""

    number: int
    operation: Operation
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]


@dataclass(slots=True, eq=False)
class State:
    """(G, M, T, c, H): the graph, the memory, the tensor table, the number of steps done, and the
    tensors that have a value."""

    graph: Graph
    memory: Bytes
    table: Mapping[str, Entry]
    counter: int
    valued: set[str]


def window(memory: Bytes, entry: Entry) -> Array:
    """A tensor in M as an array of its dtype and shape; see `cut`."""
    return cut(memory, entry.offset, entry.dtype, entry.shape)


def cut(memory: Bytes, offset: int, dtype: DType, shape: tuple[int, ...]) -> Array:
    """What lies in M from an offset on, as an array: a window into M, or of a packed type a copy,
    which `store` puts back."""
    data = memory[offset : offset + dtype.bytes(prod(shape))]
    return unpack(data, dtype, shape) if dtype.is_packed else data.view(dtype.numpy).reshape(shape)


def store(memory: Bytes, offset: int, dtype: DType, value: Array) -> None:
    """Writes an array to M from an offset on."""
    if dtype.is_packed:
        memory[offset : offset + dtype.bytes(value.size)] = pack(value)
    else:
        cut(memory, offset, dtype, value.shape)[...] = value


def load(state: State, name: str) -> Array:
    """The value of a live tensor; see `cut`."""
    entry = state.table.get(name)
    if entry is None:
        raise RunError(f"'{name}' is not a tensor of the graph")
    if name not in state.valued:
        raise RunError(f"'{name}' has no value before step {entry.first} is done")
    if not held(entry, state):
        raise RunError(f"'{name}' is dead since step {entry.last}; its place may be in use")
    return window(state.memory, entry)


def held(entry: Entry, state: State) -> bool:
    """Whether the bytes of a tensor with a value are there: it is live, or was written last."""
    return entry.last >= state.counter or entry.first == state.counter - 1


def spoil(state: State, byte: int) -> None:
    """Fills M with a byte wherever no tensor is held."""
    free = np.ones(len(state.memory), bool)
    for name, entry in state.table.items():
        if name in state.valued and held(entry, state):
            free[entry.offset : entry.offset + entry.size] = False
    state.memory[free] = byte
