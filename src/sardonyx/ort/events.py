"""Timings as Chrome-trace JSON, with the fields that onnxruntime's profiles have."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from sardonyx.ort.profile import event
from sardonyx.types import TensorType

if TYPE_CHECKING:  # a session without a profile does without the compiler
    from sardonyx.timed import Timing, Work


def events(runs: Sequence[Sequence[Timing]]) -> list[dict[str, object]]:
    """The events of runs that have a timing each: a "model_run" of the session, and in it one
    "Node" for each launch or step; microseconds, with three decimals."""
    start, found = min((r[0].begin for r in runs if r), default=0), list[dict[str, object]]()
    for run in filter(None, runs):
        begin, end = run[0].begin, max(t.begin + t.duration for t in run)
        found.append(event("Session", "model_run", (begin - start) / 1e3, (end - begin) / 1e3, {}))
        found += nodes(run, start)
    return found


def nodes(run: Sequence[Timing], start: int) -> list[dict[str, object]]:
    """The "Node" events of a run; their times count from start, in nanoseconds."""
    found = list[dict[str, object]]()
    for number, timing in enumerate(run):
        times = (timing.begin - start) / 1e3, timing.duration / 1e3
        name = f"{named(timing.work)}_kernel_time"
        found.append(event("Node", name, *times, _args(number, timing.work)))
    return found


def named(work: Work) -> str:
    """The names of the operations of a launch."""
    return "+".join(str(op.origin) for op in work.operations) or "copy"


def _args(number: int, work: Work) -> dict[str, object]:
    return {
        "op_name": "+".join(op.op_type for op in work.operations) or "copy",
        "provider": "CPUExecutionProvider",
        "node_index": str(number),
        "input_type_shape": [*map(_typed, (*work.reads, *work.weights))],
        "output_type_shape": [*map(_typed, work.writes)],
        "activation_size": str(_bytes(work.reads)),
        "parameter_size": str(_bytes(work.weights)),
        "output_size": str(_bytes(work.writes)),
        "sardonyx_kind": work.kind,
    }


def _typed(tensor: TensorType) -> dict[str, list[int]]:
    """{"float": [1, 3]}, the types named as onnxruntime does."""
    name = {"float32": "float", "float64": "double"}.get(tensor.dtype.name, tensor.dtype.name)
    return {name: _sizes(tensor)}


def _bytes(tensors: Sequence[TensorType]) -> int:
    return sum(t.dtype.bytes(prod(_sizes(t))) for t in tensors)


def _sizes(tensor: TensorType) -> list[int]:
    return [d for d in tensor.shape or () if isinstance(d, int)]
