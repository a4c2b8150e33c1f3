"""How often a Loop runs, where that is known before it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from sardonyx.dims import Dim, Poly, at_least
from sardonyx.errors import Undetermined
from sardonyx.graph import Graph, Operation, reads
from sardonyx.infer import infer
from sardonyx.passes.branches import known_value

COUNTED = 1024  # iterations that are tried


def iterations(graph: Graph, op: Operation, body: Graph) -> Dim:
    """The number of iterations of a Loop whose body is inferred, symbolic where the trip count is
    and it alone decides. Undetermined where it is not known."""
    trips, cond = (*op.inputs, "", "")[:2]
    if (not cond or _always(graph, cond)) and _goes_on(body, body.outputs[0]):
        for size in graph.values.get(trips, np.array([])).flat:
            if isinstance(size, Poly) and at_least(size, 0):
                return size
    most, first = (known_value(graph, n) if n else None for n in (trips, cond))
    if (trips and most is None) or (cond and first is None):
        raise Undetermined(f"{op}: how often it runs is not known")
    limit = None if most is None else max(0, int(most.reshape(())))
    if first is not None and not first.reshape(()):
        return 0
    if limit is not None and _goes_on(body, body.outputs[0]):
        return limit
    return _counted(graph, op, body, limit)


def _counted(graph: Graph, op: Operation, body: Graph, most: int | None) -> int:
    """The number of iterations by a trial of what the condition depends on, which is known."""
    own = body.inputs[: max(2, len(op.inputs))]
    carried = dict(zip(own[2:], body.outputs[1:], strict=False))
    part = _needed(body, body.outputs[0], carried)
    values = dict(body.values)
    for inner, outer in zip(own[2:], op.inputs[2:], strict=True):
        if (start := known_value(graph, outer)) is not None:
            values[inner] = start
    for i in range(COUNTED if most is None else min(most, COUNTED)):
        values |= {own[0]: np.array(i, np.int64), own[1]: np.array(True)}
        known = infer(replace(part, values={n: v for n, v in values.items() if n in part.inputs}))
        found = {n: v for n in part.outputs if (v := known_value(known, n)) is not None}
        if len(found) < len(part.outputs):
            raise Undetermined(f"{op}: when it ends is not known")
        if not found[body.outputs[0]]:
            return i + 1
        values |= {n: found[x] for n, x in carried.items() if x in found}
    if most is None or most > COUNTED:
        raise Undetermined(f"{op}: it runs more than {COUNTED} times")
    return most


def _needed(body: Graph, cond: str, carried: Mapping[str, str]) -> Graph:
    """The part of a body that its condition depends on, over any number of iterations."""
    producers, outputs = body.producers(), dict.fromkeys([cond])
    todo, indices = [cond], set[int]()
    while todo:
        name = todo.pop()
        if name in carried and carried[name] not in outputs:
            outputs[carried[name]] = None
            todo.append(carried[name])
        index = producers.get(name)
        if index is not None and index not in indices:
            indices.add(index)
            todo += reads(body.operations[index])
    operations = tuple(body.operations[i] for i in sorted(indices))
    return replace(body, operations=operations, outputs=tuple(outputs))


def _always(graph: Graph, cond: str) -> bool:
    value = known_value(graph, cond)
    return value is not None and bool(value.reshape(()))


def _goes_on(body: Graph, cond: str) -> bool:
    """Whether the condition that a body gives is the one it gets, or true."""
    producers = body.producers()
    while cond in producers and body.operations[producers[cond]].op_type == "Identity":
        cond = body.operations[producers[cond]].inputs[0]
    return cond == body.inputs[1] or _always(body, cond)
