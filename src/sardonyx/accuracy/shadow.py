"""A bound on the error of each tensor: a run of the machine beside intervals of real numbers.

    for row in shadow(graph, feeds): print(row.tensor, row.error, row.ulps)

Every operation is done twice: by the machine, and by kernel/intervals.py on enclosures of what
exact real arithmetic gives for the same inputs. The greatest distance from the machine's value to
the far end of the enclosure bounds the error. The inputs and the weights are exact as they are.
Integers and conditions that are tensors are taken as the machine computed them: after
QuantizeLinear or ArgMax the bound speaks of the error since, not of another decision. What cannot
be followed has no bound, and says why. A graph in stages is harder: what hangs on an integer or a
condition that exact arithmetic might decide otherwise has no bound (accuracy/follow.py).

The bound is sound as far as float64's rounding is IEEE's and the float64 elementary functions are
within 4 ulp (docs/accuracy.md: 2 on samples against mpmath).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import frexp, ldexp

import numpy as np

from sardonyx.accuracy.follow import Follower
from sardonyx.accuracy.held import Held, exactly, floats
from sardonyx.errors import UnsupportedModel
from sardonyx.feeds import checked
from sardonyx.graph import Graph, Operation
from sardonyx.infer import kernel_of
from sardonyx.kernel.bounds import FORMATS
from sardonyx.kernel.enclose import TINY
from sardonyx.kernel.interpret import evaluate
from sardonyx.kernel.intervals import Intervals, intervals
from sardonyx.machine import Access, Machine
from sardonyx.stages import is_staged
from sardonyx.types import Array, DType, Value, by_numpy

Ends = tuple[Array, Array]
_MANTISSA = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """The bound of one tensor. largest: the greatest magnitude of its elements; likely: how far
    the furthest is from the middle of its enclosure, which is no bound; error: no element is
    further from the exact one; ulps: the same in units in the last place of `largest`; why: what
    could not be followed."""

    operation: Operation
    tensor: str
    dtype: DType
    largest: float
    likely: float
    error: float
    ulps: float
    why: str = ""


def shadow(graph: Graph, feeds: Mapping[str, Value], *, fused: bool = True) -> Iterator[Row]:
    """A row for each float that an operation writes, in the machine's order; where data decide
    sizes or the host takes part, in the order of its stages, with the steps in subgraphs."""
    if is_staged(graph):
        yield from _staged(graph, checked(graph, feeds), fused)
        return
    machine = Machine(graph, fused=fused).start(feeds)
    found: dict[str, Ends] = {}
    for name in machine.state.valued:
        value = machine.value(name)
        if isinstance(value, np.ndarray) and machine.table[name].dtype.is_float:
            found[name] = point(value)
    while (record := machine.peek()) is not None:
        op = record.operation
        values = {a.name: machine.value(a.name) for a in record.reads}
        machine.step()
        why, made = enclosed(machine.state.graph, op, values, found)
        for access, ends in zip(record.writes, made, strict=True):
            if access.dtype.is_float:
                value = np.asarray(machine.value(access.name))
                kept = ends if ends is not None else whole(value)
                found[access.name] = kept
                yield _row(op, access, value, kept, why)


def _staged(graph: Graph, values: Mapping[str, Value], fused: bool) -> list[Row]:
    """The rows of a graph in stages (accuracy/follow.py)."""
    rows = list[Row]()

    def report(op: Operation, name: str, x: Held, why: str) -> None:
        if isinstance(x.value, np.ndarray) and floats(x.value):
            dtype = by_numpy(x.value.dtype)
            assert dtype is not None
            access = Access(name, -1, dtype, x.value.shape)
            rows.append(_row(op, access, x.value, (x.ends[0], x.ends[1]), why))

    held = {n: exactly(v, 2) for n, v in values.items()}
    Follower(2, None, report, fused).run(graph, held, frozenset(graph.symbols))
    return rows


def point(value: Array) -> Ends:
    """The enclosure of a tensor that is exact."""
    wide = value.astype(np.float64)
    return wide, wide


def whole(value: Array) -> Ends:
    """No bound at all."""
    return np.full(value.shape, -np.inf), np.full(value.shape, np.inf)


def enclosed(
    graph: Graph, op: Operation, values: Mapping[str, object], found: Mapping[str, Ends]
) -> tuple[str, list[Ends | None]]:
    """Enclosures of an operation's outputs, None for those that are no floats; and why not."""
    kernel = kernel_of(graph, op)
    if not any(b.dtype.is_float for b in kernel.outputs):
        return "", [None] * len(kernel.outputs)
    try:
        made = intervals(kernel)
        given = _given(made, op, values, found)
        results = evaluate(made.kernel, given)
    except UnsupportedModel as error:
        return str(error), [None] * len(kernel.outputs)
    return "", [None if at is None else (results[at[0]], results[at[1]]) for at in made.outputs]


def _given(
    made: Intervals, op: Operation, values: Mapping[str, object], found: Mapping[str, Ends]
) -> list[Array | None]:
    given: list[Array | None] = []
    for name, places in zip(op.inputs, made.inputs, strict=False):
        if len(places) == 2:
            given += found[name]
        elif places:
            given.append(np.asarray(values[name]))
    return given


def _row(op: Operation, access: Access, value: Array, ends: Ends, why: str) -> Row:
    wide = value.astype(np.float64)
    with np.errstate(all="ignore"):
        below, above = wide - ends[0], ends[1] - wide
        apart = np.nextafter(np.maximum(below, above), np.inf)
        apart = np.where(np.isnan(apart), np.inf, apart)
        middle = np.abs(above - below) / 2
    error = float(apart.max(initial=0.0))
    largest = float(np.abs(wide).max(initial=0.0))
    unit = _unit(largest, access.dtype)
    likely = float("nan") if np.isnan(middle).any() else float(middle.max(initial=0.0))
    return Row(op, access.name, access.dtype, largest, likely, error, error / unit, why)


def _unit(value: float, dtype: DType) -> float:
    """The unit in the last place of a magnitude, at least the least subnormal."""
    if not np.isfinite(value):
        return float("inf")
    digits = _MANTISSA.get(dtype.name, 3)
    least = FORMATS[dtype.name][2] if dtype.name in FORMATS else TINY
    return max(ldexp(1.0, frexp(value)[1] - 1 - digits), least) if value else least
