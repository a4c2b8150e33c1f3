"""Bounds for a whole range of inputs: where each tensor lies, and how far rounding may take it.

    for row in ranged(graph, {"x": (0, 1)}, {}): print(row.tensor, row.low, row.high, row.error)

Each operation is done by kernel/bounds.py on intervals: the exact value of every element, for
every input of the range, lies between `low` and `high`, and the machine's value for the same input
is within `error` of it. Weights are exact. An integer, a condition or a size that depends on a
float of the range is followed where the whole range decides it, rounding included; what hangs on
one that it leaves open has no bound (accuracy/follow.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sardonyx.accuracy.follow import Follower
from sardonyx.accuracy.held import Held, exactly, floats
from sardonyx.errors import FeedError
from sardonyx.feeds import checked
from sardonyx.graph import Graph, Operation
from sardonyx.kernel.bounds import Bounder
from sardonyx.types import Array, DType, Value, by_numpy


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
    feeds: Mapping[str, Value],
) -> Iterator[Bound]:
    """A row for each float that an operation writes, in the order of the run.

    ranges: the ends of float inputs, numbers or arrays; feeds: values of all other inputs, and of
    ranged ones too where their shape is not fixed. Raises FeedError where an input has neither.
    """
    values = checked(graph, _midst(graph, ranges, feeds))
    held = {n: exactly(v, 3) for n, v in values.items()}
    held |= {n: _start(np.asarray(values[n]), e) for n, e in ranges.items() if n in values}
    rows = list[Bound]()

    def report(op: Operation, name: str, x: Held, why: str) -> None:
        if isinstance(x.value, np.ndarray) and floats(x.value):
            dtype, (low, high, error) = by_numpy(x.value.dtype), x.ends
            assert dtype is not None
            bottom, top = (float(low.min()), float(high.max())) if low.size else (0.0, 0.0)
            worst = float(error.max(initial=0.0))
            if x.lost:
                bottom, top, worst = -np.inf, np.inf, np.inf
            why = why if low.size or x.lost else "it has no elements"
            rows.append(Bound(op, name, dtype, bottom, top, worst, why))

    Follower(3, Bounder, report).run(graph, held, frozenset(graph.symbols))
    yield from rows


def _midst(
    graph: Graph,
    ranges: Mapping[str, tuple[npt.ArrayLike, npt.ArrayLike]],
    feeds: Mapping[str, Value],
) -> dict[str, Value]:
    """Feeds for one run: what is fed, and the low ends of the ranges."""
    made = dict(feeds)
    for name in graph.inputs:
        if name in made:
            continue
        tensor = graph.types.get(name)
        if name not in ranges or tensor is None or not tensor.dtype.is_float:
            raise FeedError(f"'{name}' has no range of floats and is not fed")
        shape = [d for d in tensor.shape or () if isinstance(d, int)]
        if tensor.shape is None or len(shape) != len(tensor.shape):
            raise FeedError(f"'{name}' is {tensor}: choose its sizes with --dim")
        with np.errstate(over="ignore"):
            made[name] = np.broadcast_to(ranges[name][0], shape).astype(tensor.dtype.numpy)
    return made


def _start(value: Array, ends: tuple[npt.ArrayLike, npt.ArrayLike]) -> Held:
    wide = [np.broadcast_to(np.asarray(x, np.float64), value.shape).copy() for x in ends]
    if not (wide[0] <= wide[1]).all():
        raise FeedError("a range has its low end above its high end")
    return Held(value, (*wide, np.zeros(value.shape)))
