"""Bounds for a whole range of inputs: where each tensor lies, and how far rounding may take it.

    for row in ranged(graph, {"x": (0, 1)}, {}): print(row.tensor, row.low, row.high, row.error)

Each operation is done by kernel/bounds.py on intervals: the exact value of every element, for
every input of the range, lies between `low` and `high`, and the machine's value for the same input
is within `error` of it. Weights are exact. Integers have to be fed, or to follow from weights and
sizes: one that depends on a float of the range is not followed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sardonyx.accuracy.shadow import of_one_plan
from sardonyx.errors import FeedError, UnsupportedModel
from sardonyx.graph import Graph, Operation
from sardonyx.infer import kernel_of
from sardonyx.kernel.bounds import bounds
from sardonyx.kernel.interpret import evaluate
from sardonyx.machine import Access, Machine
from sardonyx.types import Array, DType

Kept = tuple[Array, Array, Array]  # low, high, error


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """The bounds of one tensor, over all its elements; why: what could not be followed."""

    operation: Operation
    tensor: str
    dtype: DType
    low: float
    high: float
    error: float
    why: str = ""


def ranged(
    graph: Graph,
    ranges: Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]],
    feeds: Mapping[str, npt.ArrayLike],
) -> Iterator[Bound]:
    """A row for each float that an operation writes, in the machine's order.

    ranges: the ends of float inputs, numbers or arrays; feeds: values of all other inputs, and of
    ranged ones too where their shape is not fixed. Raises FeedError where an input has neither,
    UnsupportedModel where data decides sizes.
    """
    of_one_plan(graph)
    machine = Machine(graph).start(_midst(graph, ranges, feeds))
    found, known = dict[str, Kept](), set(graph.initializers) | (set(feeds) - set(ranges))
    for name in machine.state.valued:
        if machine.table[name].dtype.is_float:
            found[name] = _start(np.asarray(machine.value(name)), ranges.get(name))
    values = {n: machine.value(n) for n in known if n in machine.state.valued}
    while (record := machine.step()) is not None:
        op = record.operation
        if all(a.name in known for a in record.reads):
            known |= {a.name for a in record.writes}
            values |= {a.name: machine.value(a.name) for a in record.writes}
        made, why = _enclosed(machine.state.graph, op, values, found)
        for access, kept in zip(record.writes, made, strict=True):
            if access.dtype.is_float:
                found[access.name] = kept if kept is not None else _nothing(access)
                low, high, error = found[access.name]
                bottom, top = (float(low.min()), float(high.max())) if low.size else (0.0, 0.0)
                worst = float(error.max(initial=0.0))
                why = why if low.size else "it has no elements"
                yield Bound(op, access.name, access.dtype, bottom, top, worst, why)


def _midst(
    graph: Graph,
    ranges: Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]],
    feeds: Mapping[str, npt.ArrayLike],
) -> dict[str, npt.ArrayLike]:
    """Feeds for one run: what is fed, and the low ends of the ranges."""
    made = dict(feeds)
    for name in graph.inputs:
        tensor = graph.types[name]
        if name in made:
            continue
        if name not in ranges or not tensor.dtype.is_float:
            raise FeedError(f"'{name}' has no range of floats and is not fed")
        shape = [d for d in tensor.shape or () if isinstance(d, int)]
        if tensor.shape is None or len(shape) != len(tensor.shape):
            raise FeedError(f"'{name}' is {tensor}: choose its sizes with --dim")
        made[name] = np.broadcast_to(ranges[name][0], shape).astype(tensor.dtype.numpy)
    return made


def _start(value: Array, ends: tuple[npt.ArrayLike, npt.ArrayLike] | None) -> Kept:
    low, high = (value, value) if ends is None else ends
    wide = [np.broadcast_to(np.asarray(x, np.float64), value.shape).copy() for x in (low, high)]
    if ends is not None and not (wide[0] <= wide[1]).all():
        raise FeedError("a range has its low end above its high end")
    return wide[0], wide[1], np.zeros(value.shape)


def _nothing(access: Access) -> Kept:
    infinite = np.full(access.shape, np.inf)
    return -infinite, infinite, infinite


def _enclosed(
    graph: Graph, op: Operation, values: Mapping[str, object], found: Mapping[str, Kept]
) -> tuple[list[Kept | None], str]:
    kernel = kernel_of(graph, op)
    nothing: list[Kept | None] = [None] * len(kernel.outputs)
    if not any(b.dtype.is_float for b in kernel.outputs):
        return nothing, ""
    given: list[Array | None] = []
    try:
        made = bounds(kernel)
        for name, places in zip(op.inputs, made.inputs, strict=False):
            if len(places) == 3:
                given += found[name]
            elif places and name in values:
                given.append(np.asarray(values[name]))
            elif places:
                return nothing, f"the integers '{name}' depend on the range"
        results = evaluate(made.kernel, given)
    except UnsupportedModel as error:
        return nothing, str(error)
    rows = [None if at is None else (results[at[0]], results[at[1]], results[at[2]])
            for at in made.outputs]  # fmt: skip
    return list(rows), ""
