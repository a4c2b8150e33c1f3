"""Sizes that depend on data, in one program: a symbol for each, with a bound.

The plan gives every tensor the place that it needs at the bounds (its capacity); the program finds
the true size (its extent) as it runs, in a tensor that becomes an output too. A count may be 0:
its symbol stands for one more. Other values that decide sizes (a shape that is computed) are taken
to be at least 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from sardonyx.dims import Dim, greatest, product, symbol
from sardonyx.dims.given import check_given
from sardonyx.divide import divided
from sardonyx.errors import FeedError, Undetermined
from sardonyx.graph import Graph, Operation
from sardonyx.infer import infer, undetermined
from sardonyx.ops.registry import INTERNAL

SYMBOLS = 16  # elements of a tensor whose value is symbols


@dataclass(frozen=True, slots=True)
class Extent:
    """A symbolic dim that the program finds: element `element` of `tensor`, plus `more`, from 1 to
    `most`."""

    symbol: str
    tensor: str
    element: int
    more: int
    most: int


def with_extents(graph: Graph, most: Mapping[str, int]) -> tuple[Graph, tuple[Extent, ...]]:
    """The graph with a symbol for each size that depends on data, and what they are.

    most: bounds by name, TENSOR or TENSOR[i]; a count has one of its own. Raises Undetermined where
    an operation's sizes are not known even so, FeedError where a bound is missing, is of no
    such size, or is below 1 or beyond int64.
    """
    for name, bound in most.items():
        check_given(f"the bound {name}", bound)
    graph = infer(replace(graph, operations=divided(graph.operations)))
    extents: list[Extent] = []
    while True:
        asked = [n for n in _asked(graph) if n not in graph.extents]
        if not asked:
            break
        made = list(_extents(graph, asked[0], most, {e.symbol: e.most for e in extents}))
        extents += made
        value = np.array([symbol(e.symbol) - e.more for e in made], object)
        shape = [d for d in graph.types[asked[0]].shape or () if isinstance(d, int)]
        values = {**graph.values, asked[0]: value.reshape(shape)}
        graph = infer(replace(graph, values=values, extents=(*graph.extents, asked[0])))
    _check_names(most, [e.symbol for e in extents])
    outputs = dict.fromkeys((*graph.outputs, *graph.extents))
    return replace(graph, outputs=tuple(outputs)), tuple(extents)


def _check_names(most: Mapping[str, int], there: Sequence[str]) -> None:
    """FeedError for a bound of what is no size that depends on data."""
    unknown = [name for name in most if name not in there]
    if unknown:
        known = f"there are {', '.join(there)}" if there else "none does, leave out --max-dim"
        raise FeedError(f"no size '{unknown[0]}' depends on data: {known}")


def _asked(graph: Graph) -> Iterator[str]:
    """The computed tensors whose values operations ask for in vain."""
    producers = graph.producers()
    for op, error in undetermined(graph).items():
        wanted = error.tensor if isinstance(error, Undetermined) else None
        if wanted is None or op.subgraphs:
            continue
        name = op.inputs[int(wanted[1:])]
        kind = graph.types.get(name)
        sizes = kind.shape if kind is not None else None
        known = sizes is not None and all(isinstance(d, int) for d in sizes)
        if known and name in producers and kind is not None and kind.dtype.is_integer:
            yield name


def _extents(
    graph: Graph, name: str, most: Mapping[str, int], bounds: Mapping[str, int]
) -> Iterator[Extent]:
    """The symbols of one tensor."""
    op = graph.operations[graph.producers()[name]]
    counted = op.domain == INTERNAL and name == op.outputs[0]
    size = prod(d for d in graph.types[name].shape or () if isinstance(d, int))
    if size > SYMBOLS:
        raise Undetermined(f"{op} decides {size} sizes, more than {SYMBOLS}")
    own = greatest(_capacity(graph, op), bounds) if counted else None
    for i in range(size):
        key = name if size == 1 else f"{name}[{i}]"
        bound = most.get(key, own)
        if bound is None:
            raise FeedError(f"the size {key} depends on data and needs a bound: --max-dim {key}=N")
        more = 1 if counted else 0
        yield Extent(key, name, i, more, bound + more)


def _capacity(graph: Graph, op: Operation) -> Dim:
    """What a count cannot exceed: the rows of its work, or else the elements that it looks at."""
    if len(op.outputs) > 1:
        return (graph.types[op.outputs[1]].shape or (1,))[0]
    return product(graph.types[[n for n in op.inputs if n][-1]].shape or ())
