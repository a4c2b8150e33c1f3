"""Timelines and plans of programs whose symbolic dims get their numbers when they run.

timeline = outline.at({"N": 4})
offsets_of(slots, plan(timeline))       the table that the program takes
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sardonyx.dims import Dim, greatest, product
from sardonyx.errors import Undetermined, UnsupportedModel
from sardonyx.plan.timeline import Plan, Step, Timeline
from sardonyx.types import Array, TensorType


@dataclass(frozen=True, slots=True, eq=False)
class Outline:
    """A timeline before the symbolic dims have numbers: the steps without their scratch, whose
    types are in `scratch`, the types of the tensors, the pairs of sizes that must be equal, and
    the sizes that might be negative."""

    steps: tuple[Step, ...]
    scratch: tuple[tuple[TensorType, ...], ...]
    tensors: Mapping[str, TensorType]
    initial: tuple[str, ...]
    final: tuple[str, ...]
    outside: frozenset[str]
    equal: tuple[tuple[Dim, Dim], ...] = ()
    sizes: tuple[Dim, ...] = ()

    def at(self, dims: Mapping[str, int]) -> Timeline:
        """The timeline for these numbers of the dims."""
        return self._with(lambda n, x: byte_size(n, x.at(dims)))

    def within(self, most: Mapping[str, int]) -> Timeline:
        """The timeline for all numbers of the dims from 1 to these."""
        return self._with(lambda _, x: capacity(x, most))

    def _with(self, size: Callable[[str, TensorType], int]) -> Timeline:
        sizes = {n: size(n, x) for n, x in self.tensors.items()}
        steps = (
            replace(step, scratch=tuple(size("scratch", x) for x in scratch))
            for step, scratch in zip(self.steps, self.scratch, strict=True)
        )
        return Timeline(tuple(steps), sizes, self.initial, self.final, self.outside)


@dataclass(frozen=True, slots=True)
class Slot:
    """An offset that the caller fills in: of a tensor, or of a temporary of a launch."""

    tensor: str | None = None
    launch: int = -1
    temporary: int = -1


def offsets_of(slots: Sequence[Slot], made: Plan) -> Array:
    """The table of offsets that a program with symbolic dims takes."""
    found = []
    for slot in slots:
        if slot.tensor is not None:
            found.append(made.offsets[slot.tensor])
        else:
            found.append(made.scratch[slot.launch][slot.temporary])
    return np.array(found or [0], np.int64)


def capacity(tensor: TensorType, most: Mapping[str, int]) -> int:
    """The bytes that a tensor may have while no symbolic dim exceeds its number."""
    return tensor.dtype.bytes(max(0, greatest(product(tensor.shape or ()), most)))


def byte_size(name: str, tensor: TensorType | None) -> int:
    """The bytes of a tensor. Raises Undetermined if its shape is not concrete, UnsupportedModel
    if it has no type."""
    if tensor is None:
        raise UnsupportedModel(f"the tensor '{name}' has a type that Sardonyx does not have")
    count = None if tensor.shape is None else product(tensor.shape)
    if not isinstance(count, int):
        text = f"the tensor '{name}' has the type {tensor}; its size is not known yet"
        raise Undetermined(text, equal=None if count is None else (count, None))
    return tensor.dtype.bytes(count)
