"""IOBinding: inputs and outputs bound once, for run after run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sardonyx.graph import Graph
from sardonyx.ort.feeds import wanted
from sardonyx.ort.values import OrtDevice, OrtValue, ValueRefused, at_address, element_dtype
from sardonyx.types import Array


class Bound(Protocol):
    """What a binding asks of its session."""

    _graph: Graph


class IOBinding:
    """What a session reads from and writes to in run_with_iobinding."""

    def __init__(self, session: Bound) -> None:
        self._session = session
        self._inputs: dict[str, Array] = {}
        self._outputs: dict[str, OrtValue | None] = {}
        self._found: list[OrtValue] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: Array) -> None:
        """Reads an input from an array. RuntimeError for a wrong name."""
        self._inputs[self._input(name)] = arr_on_cpu

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: npt.DTypeLike | int,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Reads an input from memory at an address."""
        OrtDevice(device_type, device_id)
        dtype = element_dtype(element_type)
        self._inputs[self._input(name)] = at_address(buffer_ptr, shape, dtype)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Reads an input from an OrtValue."""
        self._inputs[self._input(name)] = ortvalue.numpy()

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: npt.DTypeLike | int | None = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Asks for an output: in new memory, or in memory at an address."""
        OrtDevice(device_type, device_id)
        if buffer_ptr is None:
            self._outputs[name] = None
            return
        if element_type is None or shape is None:
            raise ValueError(
                "`element_type` and `shape` are to be provided if pre-allocated memory is provided"
            )
        self._outputs[name] = OrtValue(at_address(buffer_ptr, shape, element_dtype(element_type)))

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Asks for an output in an OrtValue."""
        self._outputs[name] = ortvalue

    def synchronize_inputs(self) -> None:
        """Nothing to wait for on the CPU."""

    def synchronize_outputs(self) -> None:
        """Nothing to wait for on the CPU."""

    def get_outputs(self) -> list[OrtValue]:
        """The outputs of the last run, in the order in which they were bound."""
        return list(self._found)

    def copy_outputs_to_cpu(self) -> list[Array]:
        """Copies of the outputs of the last run."""
        return [value.numpy().copy() for value in self._found]

    def clear_binding_inputs(self) -> None:
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        self._outputs.clear()
        self._found = []

    def asked(self) -> tuple[list[str], Mapping[str, Array]]:
        """The names of the outputs, and the inputs. RuntimeError where no output is bound."""
        if not self._outputs:
            raise ValueRefused("Error in execution: At least one output should be requested.")
        return wanted(self._session._graph, list(self._outputs)), self._inputs

    def take(self, outputs: Mapping[str, Array]) -> None:
        """Puts outputs where they are bound to. RuntimeError where one does not fit."""
        self._found = []
        for name, value in outputs.items():
            place = self._outputs[name]
            if place is None:
                self._found.append(OrtValue(np.ascontiguousarray(value)))
                continue
            place.update_inplace(value)
            self._found.append(place)

    def _input(self, name: str) -> str:
        graph = self._session._graph
        if name not in (*graph.inputs, *graph.overridable):
            raise ValueRefused(f"Failed to find NodeArg with name: {name} in the def list")
        return name
