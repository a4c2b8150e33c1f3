"""What a loop hands on unchanged is read from around it, and weights lie where they are read.

TensorFlow's and PaddlePaddle's exporters carry all that a loop reads, weights too, through its
iterations: copied in each, and no weights to the body. A state that the body gives as it got it is
what it was before the loop; a weight that one subgraph alone reads becomes its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import replace
from operator import ne

from sardonyx.graph import Graph, Operation, captures, reads
from sardonyx.passes.branches import IDENTITY, known_value, renamed_within
from sardonyx.types import Array, TensorType, by_numpy

SCAN = 9  # the version from which states come first and have no axis of batches


def lightened(graph: Graph) -> Graph:
    """The graph with the loops in it, and in its subgraphs, without the states that do not change,
    with subgraphs that have the weights which they alone read, and weights instead of Constants."""
    operations = list[Operation]()
    read = {n for op in graph.operations for n in reads(op)}.union(graph.outputs)
    for op in graph.operations:
        bodies = {name: lightened(body) for name, body in op.subgraphs.items()}
        same = all(bodies[name] is body for name, body in op.subgraphs.items())
        operations += _without_states(graph, op if same else replace(op, subgraphs=bodies), read)
    if len(operations) != len(graph.operations) or any(map(ne, operations, graph.operations)):
        graph = replace(graph, operations=tuple(operations))
    return _settled(_without_constants(graph))


def _without_constants(graph: Graph) -> Graph:
    """The graph whose Constants are initializers."""
    found = {
        op.outputs[0]: op.attributes["value"]
        for op in graph.operations
        if op.op_type == "Constant" and not op.domain and op.attributes.get("value") is not None
    }
    found = {n: v for n, v in found.items() if n in graph.types or _kind(v) is not None}
    if not found:
        return graph
    return replace(
        graph,
        operations=tuple(op for op in graph.operations if op.outputs[0] not in found),
        initializers={**graph.initializers, **found},
        types={**{n: kind for n, v in found.items() if (kind := _kind(v))}, **graph.types},
    )


def _kind(value: Array) -> TensorType | None:
    dtype = by_numpy(value.dtype)
    return None if dtype is None else TensorType(dtype, value.shape)


def _without_states(graph: Graph, op: Operation, read: Set[str]) -> list[Operation]:
    """A loop without the states that it hands on, if it gives more, then what they are, as far as
    that is read."""
    loops = op.op_type == "Loop" or (op.op_type == "Scan" and op.since >= SCAN)
    if op.domain or not loops:
        return [op]
    body = op.subgraphs["body"]
    first, given = (2, 1) if op.op_type == "Loop" else (0, 0)
    count = len(op.inputs) - (first or int(op.attributes["num_scan_inputs"]))
    outputs = (*op.outputs, *[""] * count)
    handed = [
        j
        for j in range(count)
        if _source(body, body.outputs[given + j]) == body.inputs[first + j]
        and (outputs[j] not in read or outputs[j] in graph.types)
    ]
    if not handed:
        return [op]
    names = {body.inputs[first + j]: _source(graph, op.inputs[first + j]) for j in handed}
    body = replace(
        body,
        inputs=_less(body.inputs, handed, first),
        outputs=_less(body.outputs, handed, given),
        types={n: k for n, k in body.types.items() if n not in names},
    )
    lighter = replace(
        op,
        inputs=_less(op.inputs, handed, first),
        outputs=_less(op.outputs, handed, 0),
        subgraphs={"body": renamed_within(body, names)},
    )
    same = [
        Operation("Identity", "", IDENTITY, (op.inputs[first + j],), (outputs[j],), {}, op.origin)
        for j in handed
        if outputs[j] in read
    ]
    return [lighter, *same] if any(lighter.outputs) else same


def _source(graph: Graph, name: str) -> str:
    """What a tensor is, past what only renames it."""
    producers = graph.producers()
    while name in producers and graph.operations[producers[name]].op_type == "Identity":
        name = graph.operations[producers[name]].inputs[0]
    return name


def _less(names: tuple[str, ...], handed: list[int], first: int) -> tuple[str, ...]:
    """The names without those of the states `handed`, the first of which has the place `first`."""
    return tuple(n for i, n in enumerate(names) if i - first not in handed)


def _settled(graph: Graph) -> Graph:
    """The graph whose subgraphs have the weights that they alone read; what is known anyway reads
    nothing."""
    if not any(op.subgraphs for op in graph.operations):
        return graph
    readers = Counter(n for op in _live(graph) for n in _each_reads(op))
    readers.update(graph.outputs)
    alone = {n for n in graph.initializers if readers[n] == 1} - {*graph.overridable}
    operations = tuple(_with_weights(graph, op, alone) for op in graph.operations)
    left = {n for op in operations for n in reads(op)}.union(graph.outputs, graph.overridable)
    kept = {n: v for n, v in graph.initializers.items() if n in left}
    return replace(graph, initializers=kept, operations=operations)


def _live(graph: Graph) -> Iterator[Operation]:
    """The operations whose values the outputs depend on."""
    needed = set(graph.outputs)
    for op in reversed(graph.operations):
        if any(n in needed and known_value(graph, n) is None for n in op.outputs):
            needed.update(reads(op))
            yield op


def _each_reads(op: Operation) -> Iterator[str]:
    """What an operation reads: once for its inputs, and once for each of its subgraphs."""
    yield from set(op.inputs)
    for body in op.subgraphs.values():
        yield from set(captures(body))


def _with_weights(graph: Graph, op: Operation, alone: Set[str]) -> Operation:
    """The operation whose subgraphs have the weights that nothing else reads."""
    if not op.subgraphs:
        return op
    bodies = {}
    for name, body in op.subgraphs.items():
        own = [n for n in captures(body) if n in alone and n not in op.inputs]
        values = {n: graph.initializers[n] for n in own}
        types = {n: graph.types[n] for n in own}
        bodies[name] = replace(
            body, initializers={**body.initializers, **values}, types={**body.types, **types}
        )
    return replace(op, subgraphs=bodies)
