"""The order in which a graph's operations are executed (docs/machine.md, section 2)."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from sardonyx.errors import InvalidModel
from sardonyx.graph import Graph, Operation, reads


def permutation(graph: Graph, order: Sequence[int] | None) -> Sequence[int]:
    """order, checked."""
    count = len(graph.operations)
    if order is not None and sorted(order) != list(range(count)):
        raise ValueError(f"order is not a permutation of 0 to {count - 1}")
    return range(count) if order is None else tuple(order)


def single_assignment(graph: Graph) -> None:
    """V2, C1: every tensor is assigned by one operation, graph inputs and initializers by none."""
    assigned = {*graph.inputs, *graph.initializers}
    for op in graph.operations:
        for name in filter(None, op.outputs):
            if name in assigned:
                raise InvalidModel(f"{op} assigns the tensor '{name}', which has a value already")
            assigned.add(name)


def executable(
    graph: Graph, priority: Sequence[int]
) -> tuple[tuple[Operation, ...], tuple[Operation, ...]]:
    """The operations in the order in which they are executed, always the first executable one of
    `priority`; and those that never become executable."""
    rank = {i: p for p, i in enumerate(priority)}
    valued = {*graph.inputs, *graph.initializers}
    lacking = [set(reads(op)) - valued for op in graph.operations]
    readers: dict[str, list[int]] = {}
    for i, names in enumerate(lacking):
        for name in names:
            readers.setdefault(name, []).append(i)
    ready = [(rank[i], i) for i, names in enumerate(lacking) if not names]
    heapify(ready)
    order: list[int] = []
    while ready:
        _, i = heappop(ready)
        order.append(i)
        for name in filter(None, graph.operations[i].outputs):
            for reader in readers.get(name, ()):
                lacking[reader].discard(name)
                if not lacking[reader]:
                    heappush(ready, (rank[reader], reader))
    done = set(order)
    blocked = tuple(op for i, op in enumerate(graph.operations) if i not in done)
    return tuple(graph.operations[i] for i in order), blocked
