"""If, Loop and Scan: what the host does with subgraphs. A subgraph is a function of values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np

from sardonyx.errors import InvalidModel, LimitExceeded, RunError
from sardonyx.ops.body import Body
from sardonyx.ops.registry import host
from sardonyx.types import Array, TensorType, Value

TRIPS = 10_000_000  # iterations of one Loop
VERSIONS = (11, 13, 16, 19, 21, 23, 24, 25)


@host("If", 1, *VERSIONS)
def if_(cond: Array, *, then_branch: Body, else_branch: Body) -> tuple[Value, ...]:
    """The outputs of then_branch where cond holds, else those of else_branch."""
    return then_branch() if _truth(cond) else else_branch()


@host("Loop", 1, *VERSIONS)
def loop(
    trip_count: Array | None = None, cond: Array | None = None, *carried: Value, body: Body
) -> tuple[Value, ...]:
    """Runs body(iteration, condition, carried...) while the condition holds, at most trip_count
    times: the carried values at the end, then what each iteration scanned, stacked.

    Raises LimitExceeded after TRIPS iterations.
    """
    going = cond is None or _truth(cond)
    if trip_count is not None and trip_count.size != 1:
        raise RunError(f"the trip count has {trip_count.size} elements, expected one")
    trips = None if trip_count is None else int(trip_count.reshape(()))
    state: tuple[Value, ...] = carried
    scanned: list[list[Value]] = [[] for _ in body.graph.outputs[1 + len(carried) :]]
    for i in count():
        if not going or (trips is not None and i >= trips):
            break
        if i == TRIPS:
            raise LimitExceeded(f"the loop goes on after {TRIPS} iterations")
        found = body(np.array(i, np.int64), np.array(going), *state)
        going, state = _truth(found[0]), found[1 : 1 + len(carried)]
        for row, value in zip(scanned, found[1 + len(carried) :], strict=True):
            row.append(value)
    stacked = [
        _stacked(rows, body.output(1 + len(carried) + j), 0) for j, rows in enumerate(scanned)
    ]
    return (*state, *stacked)


@host("Scan", 8)
def scan_8(
    sequence_lens: Array | None,
    *values: Array,
    body: Body,
    num_scan_inputs: int,
    directions: Sequence[int] = (),
) -> tuple[Value, ...]:
    """Scan for each item of a batch, over the first sequence_lens[item] elements of axis 1; what is
    scanned is filled up with zeros."""
    if len(batches := {v.shape[:1] for v in values}) != 1:
        raise RunError(f"the states and what is scanned have the batches {sorted(batches)}")
    batch, length = values[-1].shape[0], values[-1].shape[1]
    lens = [length] * batch if sequence_lens is None else [int(n) for n in sequence_lens]
    if len(lens) != batch or not all(0 <= n <= length for n in lens):
        raise RunError(f"sequence_lens is {lens}, expected {batch} numbers from 0 to {length}")
    states, items = len(values) - num_scan_inputs, []
    for b, n in enumerate(lens):
        given = [v[b] for v in values[:states]] + [v[b, :n] for v in values[states:]]
        flags = tuple(directions) or (0,) * num_scan_inputs
        found = scan(
            *given, body=body, num_scan_inputs=num_scan_inputs, scan_input_directions=flags
        )
        items.append([*found[:states], *(_filled(x, length) for x in found[states:])])
    return tuple(np.stack(column) for column in zip(*items, strict=True))


@host("Scan", 9, *VERSIONS)
def scan(
    *values: Array,
    body: Body,
    num_scan_inputs: int,
    scan_input_axes: Sequence[int] = (),
    scan_input_directions: Sequence[int] = (),
    scan_output_axes: Sequence[int] = (),
    scan_output_directions: Sequence[int] = (),
) -> tuple[Value, ...]:
    """Runs body(state..., one element of each scanned input...) along the scanned axes: the state
    at the end, then what each iteration gave, stacked."""
    states = len(values) - num_scan_inputs
    if states < 0 or num_scan_inputs < 1:
        raise InvalidModel(f"{num_scan_inputs} of {len(values)} inputs are said to be scanned")
    outputs = len(body.graph.outputs) - states
    axes = each(scan_input_axes, num_scan_inputs, "scan_input_axes")
    back = each_direction(scan_input_directions, num_scan_inputs, "scan_input_directions")
    inputs = [_sequence(v, a, d) for v, a, d in zip(values[states:], axes, back, strict=True)]
    lengths = {len(v) for v in inputs}
    if len(lengths) != 1:
        raise RunError(f"the scanned inputs have the lengths {sorted(lengths)}, expected one")
    state: tuple[Value, ...] = values[:states]
    rows: list[list[Value]] = [[] for _ in range(outputs)]
    for items in zip(*inputs, strict=True):
        found = body(*state, *(np.asarray(x) for x in items))
        state = found[:states]
        for row, value in zip(rows, found[states:], strict=True):
            row.append(value)
    out_axes = each(scan_output_axes, outputs, "scan_output_axes")
    out_back = each_direction(scan_output_directions, outputs, "scan_output_directions")
    stacked = [
        _stacked(row[::-1] if d else row, body.output(states + j), a)
        for j, (row, a, d) in enumerate(zip(rows, out_axes, out_back, strict=True))
    ]
    return (*state, *stacked)


def _truth(cond: Value) -> bool:
    if not isinstance(cond, np.ndarray) or cond.dtype != bool or cond.size != 1:
        raise RunError("a condition is not one boolean")
    return bool(cond.reshape(()))


def each(given: Sequence[int], n: int, what: str) -> tuple[int, ...]:
    """The numbers given, one for each of n; by default 0."""
    if given and len(given) != n:
        raise InvalidModel(f"{what} has {len(given)} numbers, expected {n}")
    return tuple(given) or (0,) * n


def each_direction(given: Sequence[int], n: int, what: str) -> tuple[int, ...]:
    """The directions given, one for each of n; by default forward, 0. Backward is 1."""
    for d in given:
        if d not in (0, 1):
            raise InvalidModel(f"{what} has {d}, expected 0 (forward) or 1 (backward)")
    return each(given, n, what)


def _sequence(value: Array, axis: int, backward: int) -> Array:
    moved = np.moveaxis(value, axis, 0)
    return moved[::-1] if backward else moved


def _stacked(rows: Sequence[Value], stated: TensorType | None, axis: int) -> Array:
    """The rows along a new axis; without any, an empty tensor of the type that is stated."""
    if rows:
        if len({np.shape(r) for r in rows}) != 1:
            raise RunError(f"what is scanned has the shapes {[np.shape(r) for r in rows][:4]}")
        return np.stack(rows, axis)
    if stated is None:
        raise RunError("nothing is scanned, and the body states no type for what it would scan")
    shape = [d if isinstance(d, int) else 0 for d in stated.shape or ()]
    at = axis + len(shape) + 1 if axis < 0 else axis
    return np.zeros((*shape[:at], 0, *shape[at:]), stated.dtype.numpy)


def _filled(value: Array, length: int) -> Array:
    return np.concatenate([value, np.zeros((length - len(value), *value.shape[1:]), value.dtype)])
