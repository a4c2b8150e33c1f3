"""Graphs whose sizes follow from those of their inputs once something is supposed of these.

    made = supposed_for(graph, fed)    the graph for all sizes of which holds what holds of these
    fits(made, fed)                    whether it is for these feeds (feeds.py)

A decoder's mask has T places where its cache has P and there are S tokens: whether T and P + S
broadcast is open, and supposing that they are equal settles it. So it is with positions of which
there are 512, and with signals that are long enough for their windows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from sardonyx import types as t
from sardonyx.dims import Dim, Sym, at_least, evaluate, supposing, symbol, symbols
from sardonyx.errors import ModelError, Undetermined
from sardonyx.feeds import types_of, unified
from sardonyx.graph import Graph
from sardonyx.infer import at_sizes, infer, undetermined, value_inputs
from sardonyx.types import Array, TensorType


def supposed_for(graph: Graph, fed: Mapping[str, Array]) -> Graph | None:
    """The graph for all sizes of which holds what holds of these feeds and settles all that their
    symbols leave open; None where there is none, or values of inputs decide sizes."""
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
            errors = undetermined(made).values()
            if not errors:
                return made
            pairs = (e.equal for e in errors if isinstance(e, Undetermined) and e.equal)
            name, size = next(filter(None, (_solved(*pair, dims) for pair in pairs)), ("", 0))
            if not name:
                return None
            graph = with_sizes(graph, {name: size})
            del dims[name]
    except ModelError:
        pass
    return None


def _solved(a: Dim, b: Dim, dims: Mapping[str, int]) -> tuple[str, Dim] | None:
    """A symbolic dim, and what it is where a and b are equal, or one of them is 1, as they are for
    these sizes; of at least 1 in any case."""
    if not symbols(a) | symbols(b) <= dims.keys():
        return None
    known = [evaluate(d, dims) for d in (a, b)]
    ones: list[tuple[Dim, Dim]] = [(d, 1) for d, n in zip((a, b), known, strict=True) if n == 1]
    for x, y in [(a, b)] if known[0] == known[1] else ones:
        gap = x - y
        if isinstance(gap, int):
            continue
        for mono, c in gap.terms:
            match mono:
                case (Sym(name),) if abs(c) == 1:
                    size = symbol(name) - gap * c
                    if name not in symbols(size) and at_least(size, 1):
                        return name, size
    return None


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
