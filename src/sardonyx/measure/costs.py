"""What running a graph takes: multiply-adds, the bytes of M, the bytes that are read at least."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from sardonyx.dims import Dim, product
from sardonyx.errors import SardonyxError, Undetermined
from sardonyx.graph import Graph
from sardonyx.infer import bind, kernel_of
from sardonyx.kernel.c99.contract import terms_of
from sardonyx.kernel.expr import Fold
from sardonyx.kernel.ir import Compute, For, If, Kernel, Stmt, expressions
from sardonyx.kernel.walk import walk
from sardonyx.passes.lower import lower
from sardonyx.plan import plan
from sardonyx.plan.kernels import timeline_of
from sardonyx.types import TensorType, Value


@dataclass(frozen=True, slots=True)
class Costs:
    """macs: terms of sums of products, borders included. size: N of the machine, and no plan is
    below lower_bound."""

    macs: int
    size: int
    lower_bound: int


def costs(graph: Graph) -> Costs:
    """The costs of a graph whose sizes are numbers.

    Raises Undetermined where one is not, UnsupportedModel where an operator has no definition.
    """
    kernels = tuple(kernel_of(graph, op) for op in graph.operations)
    made = plan(timeline_of(graph, graph.operations, kernels))
    return Costs(sum(map(macs, kernels)), made.size, made.lower_bound)


def work(graph: Graph, feeds: Mapping[str, Value]) -> dict[str, int]:
    """For these feeds: the macs outside of control flow, and the bytes of the weights and inputs,
    which have to be read at least."""
    fed = {n: v for n, v in feeds.items() if isinstance(v, np.ndarray)}
    read = sum(x.nbytes for x in (*graph.initializers.values(), *fed.values()))
    types = {n: TensorType(graph.types[n].dtype, x.shape) for n, x in fed.items()}
    try:
        launches = lower(bind(graph, types, fed)).launches
        return {"macs": sum(macs(x.kernel) for x in launches), "bytes": read}
    except SardonyxError:  # in stages, or sizes that values decide
        return {"macs": 0, "bytes": read}


def macs(kernel: Kernel) -> int:
    """The multiply-adds in the sums of products of a kernel."""
    return sum(_number(count) for stmt in kernel.body for count in _counts(stmt, 1))


def _counts(stmt: Stmt, times: Dim) -> Iterator[Dim]:
    """The terms of each dot under a statement that is executed `times` times."""
    match stmt:
        case For():
            inner = product((times, stmt.axis.extent))
            for part in stmt.body:
                yield from _counts(part, inner)
            return
        case If():
            for part in (*stmt.then, *stmt.otherwise):
                yield from _counts(part, times)
        case Compute():
            times = product((times, *(axis.extent for axis in stmt.axes)))
    for e in walk(*expressions(stmt)):
        if isinstance(e, Fold) and e.kind == "dot":
            taken = terms_of(e)
            each = product(tuple(a.extent for a in e.axes)) if taken is None else taken
            yield product((times, each))


def _number(count: Dim) -> int:
    if not isinstance(count, int):
        raise Undetermined(f"a sum of products has {count} terms")
    return count
