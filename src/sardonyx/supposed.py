"""Graphs whose sizes follow from those of their inputs once something is supposed of these.

    made = supposed_for(graph, fed)    the graph for all sizes of which holds what holds of these
    fits(made, fed)                    whether it is for these feeds (feeds.py)

A decoder's mask has T places where its cache has P and there are S tokens: whether T and P + S
broadcast is open, and supposing that they are equal settles it. So it is with positions of which
there are 512, and with signals that are long enough for their windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from sardonyx import types as t
from sardonyx.dims import Dim, Sym, at_least, evaluate, supposing, symbol, symbols
from sardonyx.errors import ModelError, Undetermined
from sardonyx.feeds import types_of, unified
from sardonyx.graph import Graph
from sardonyx.infer import at_sizes, infer, undetermined, value_inputs
from sardonyx.types import Array, TensorType

Asked: TypeAlias = Callable[[Graph], "Undetermined | None"]


def open_size(graph: Graph) -> Undetermined | None:
    """What is open of the sizes of a graph; of several, what can be supposed."""
    errors = list(undetermined(graph).values())
    for error in errors:
        if isinstance(error, Undetermined) and error.equal:
            return error
    return Undetermined(str(errors[0])) if errors else None


def supposed_for(graph: Graph, fed: Mapping[str, Array], asked: Asked = open_size) -> Graph | None:
    """The graph for all sizes of which holds what holds of these feeds and settles all that their
    symbols leave open; None where there is none, or values of inputs decide sizes. asked: gives
    what is open of a graph."""
    if not graph.symbols or value_inputs(graph):
        return None
    dims = unified(graph, types_of(graph, fed))
    zeros = [name for name, n in dims.items() if n == 0]
    graph = with_zeros(graph, zeros) if zeros else graph
    for name in zeros:
        del dims[name]
    try:
        while dims:
            with supposing((), dims) as found:
                infer(graph, declared=False)
            made = infer(replace(graph, supposed=found.facts), declared=False)
            error = asked(made)
            if error is None:
                return made
            sizes = _solved(*error.equal, dims) if error.equal else {}
            if not sizes:
                return None
            graph = with_sizes(graph, sizes)
            dims = {n: size for n, size in dims.items() if n not in sizes}
    except ModelError:
        pass  # what is fed does not fit
    return None


def _solved(a: Dim, b: Dim | None, dims: Mapping[str, int]) -> dict[str, Dim]:
    """Symbolic dims, and what they are where a and b are equal, or one of them is 1, as they are
    for these sizes; of at least 1 in any case. No b: where a is a number."""
    known = symbols(a) | (frozenset() if b is None else symbols(b))
    if not known <= dims.keys():
        return {}
    if b is None:
        return {name: dims[name] for name in known}
    x, y = evaluate(a, dims), evaluate(b, dims)
    ones: list[tuple[Dim, Dim]] = [(d, 1) for d, n in ((a, x), (b, y)) if n == 1]
    for one, other in [(a, b)] if x == y else ones:
        gap = one - other
        for mono, c in () if isinstance(gap, int) else gap.terms:
            match mono:
                case (Sym(name),) if abs(c) == 1:
                    size = symbol(name) - gap * c
                    if name not in symbols(size) and at_least(size, 1):
                        return {name: size}
    return {}


def with_zeros(graph: Graph, symbols: Iterable[str]) -> Graph:
    """The graph where these symbolic dims are 0, and others any number from 1 on."""
    return with_sizes(graph, dict.fromkeys(symbols, 0))


def with_sizes(graph: Graph, env: Mapping[str, Dim]) -> Graph:
    """The graph with these sizes in the place of symbolic dims."""
    types = {n: at_sizes(tt, env) for n, tt in graph.types.items()}
    declared = {n: at_sizes(tt, env) for n, tt in graph.declared.items()}
    values = {n: _at(v, env) for n, v in graph.values.items() if n in graph.inputs}
    made = replace(graph, types=types, declared=declared, values=values)
    return infer(made, declared=False)


def _at(value: Array, sizes: Mapping[str, Dim]) -> Array:
    """An array of Dims with numbers in the place of symbols."""
    dims = TensorType(t.int64, tuple(value.flat)).at(sizes).shape or ()
    return np.array(dims, object).reshape(value.shape)
