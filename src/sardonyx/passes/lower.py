"""A graph as a program: one launch per operation.

If, Loop and Scan become launches that call programs, where all that they carry and make has sizes
that are numbers: a carried value keeps its type, and what is scanned has as many elements as there
are iterations, which a symbolic dim may tell. Anything else about them is for the stages of the
host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from sardonyx import types as t
from sardonyx.dims import Dim, at_least, symbols
from sardonyx.errors import Undetermined, UnsupportedModel
from sardonyx.graph import Graph, Operation, captures
from sardonyx.infer import infer, kernel_of, on_host
from sardonyx.kernel.build import operand
from sardonyx.kernel.symbolic import LIMIT
from sardonyx.ops.control import each, each_direction
from sardonyx.ops.registry import CONTROL, find
from sardonyx.ops.registry import lower as lower_operator
from sardonyx.passes.branches import known_value, taken
from sardonyx.passes.calling import calling, given_by
from sardonyx.passes.carried import lightened
from sardonyx.passes.program import Body, Call, Launch, Program
from sardonyx.passes.timeline import timeline_of
from sardonyx.passes.trips import iterations
from sardonyx.plan import plan
from sardonyx.types import TensorType

Flags: TypeAlias = Callable[[Sequence[int], int, str], tuple[int, ...]]
Make: TypeAlias = Callable[[Operation, str, Graph], Body]


def lower(
    graph: Graph, overridable: bool = True, fused: bool = True, make: Make | None = None
) -> Program:
    """The program of a graph. Overridable initializers are inputs, or weights if not asked for.
    `fused` is as in the numerics contract, for the constants of subgraphs. make: what makes the
    program of a subgraph, by its operation and attribute; then every If is kept.

    Raises Undetermined where a shape or value is not known, UnsupportedModel where an operator is.
    """
    if make is None and any(op.subgraphs for op in graph.operations):
        lighter = lightened(graph)
        graph = taken(graph if lighter is graph else infer(lighter))
    made = make or partial(_optimised, fused)
    inputs = (*graph.inputs, *(graph.overridable if overridable else ()))
    weights = {n: v for n, v in graph.initializers.items() if n not in inputs}
    launches: list[Launch] = []
    tensors = dict(graph.types)
    for op in graph.operations:
        if op.subgraphs and op.op_type in CONTROL and not op.domain:
            launches += _control(graph, op, tensors, made)
            found = {n: tensors[n] for n in op.outputs if n and tensors[n] != graph.types.get(n)}
            if found:
                known = replace(graph, declared={**graph.declared, **found})
                return lower(infer(known), overridable, fused, make)
        elif on_host(graph.types, graph, op):
            raise UnsupportedModel(f"{op} is performed by the host: compiled C does not have it")
        else:
            writes = tuple(filter(None, op.outputs))
            reads = tuple(name or None for name in op.inputs)
            launches.append(Launch(kernel_of(graph, op), reads, writes, (op,)))
    for name in (*inputs, *graph.outputs):
        if graph.is_outside(name):
            raise UnsupportedModel(f"'{name}' is no tensor of numbers: compiled C does not have it")
    equal = tuple(dict.fromkeys(e for x in launches for e in x.kernel.equal))
    dims = dict.fromkeys(d for x in tensors.values() for d in x.shape or ())
    sizes = tuple(d for d in dims if not at_least(d, 0))
    return Program(
        inputs, graph.outputs, tensors, weights, tuple(launches), equal=equal, sizes=sizes
    )


def _control(
    graph: Graph, op: Operation, tensors: dict[str, TensorType], make: Make
) -> list[Launch]:
    match op.op_type, op.since:
        case "If", _:
            return [_if(graph, op, tensors, make)]
        case "Loop", _:
            return [_loop(graph, op, tensors, make)]
        case "Scan", since if since >= 9:
            return _scan(graph, op, tensors, make)
    raise Undetermined(f"{op}: Scan-{op.since} is for the host")


def _if(graph: Graph, op: Operation, tensors: dict[str, TensorType], make: Make) -> Launch:
    _one(op, *_known(op, op.inputs[:1], tensors))
    bodies = [
        _body(op, name, _inferred(graph, op, op.subgraphs[name], (), tensors), make)
        for name in ("then_branch", "else_branch")
    ]
    kinds = [given_by(b) for b in bodies]
    if kinds[0] != kinds[1]:
        raise Undetermined(f"{op}: its branches give {_text(kinds[0])} and {_text(kinds[1])}")
    results = _results(op, op.outputs, kinds[0], tensors)
    return calling(
        (op,), (op.inputs[0], *_captured(op)), results, tensors, Call("If", tuple(bodies))
    )


def _loop(graph: Graph, op: Operation, tensors: dict[str, TensorType], make: Make) -> Launch:
    trips, cond, *carried = (*op.inputs, *[""] * (2 - len(op.inputs)))
    _one(op, *_known(op, [*filter(None, (trips, cond))], tensors))
    own = [TensorType(t.int64, ()), TensorType(t.bool_, ()), *_known(op, carried, tensors)]
    body = _inferred(graph, op, op.subgraphs["body"], own, tensors)
    made, states = _body(op, "body", body, make), len(carried)
    goes_on, *kinds = given_by(made)
    _one(op, goes_on)
    if goes_on.dtype is not t.bool_:
        raise Undetermined(f"{op}: its condition is {goes_on}")
    if kinds[:states] != own[2:]:
        raise Undetermined(f"{op}: a carried value changes its type")
    if kinds[states:]:
        count = iterations(graph, op, body)
        kinds[states:] = _all_rows(op, states + 1, kinds[states:], count)
    results = _results(op, op.outputs, kinds, tensors)
    reads = (*([trips] if trips else []), *([cond] if cond else []), *carried, *_captured(op))
    call = Call("Loop", (made,), states, (), (bool(trips), bool(cond)))
    return calling((op,), reads, results, tensors, call)


def _one(op: Operation, *kinds: TensorType) -> None:
    """Undetermined where what decides how often something runs is not one element."""
    for kind in kinds:
        if any(d != 1 for d in kind.shape or ()):
            raise Undetermined(f"{op}: a condition or trip count is {kind}, not one element")


def _all_rows(
    op: Operation, first: int, kinds: Sequence[TensorType], count: Dim
) -> list[TensorType]:
    """The types of what a body gives in each of so many iterations, its outputs from the first on:
    of no iteration the sizes that the model states, which leaves others to the stages."""
    body = op.subgraphs["body"]
    for name, kind in zip(body.outputs[first:], kinds, strict=True):
        stated = body.types.get(name)
        if count == 0 and (stated is None or stated.shape != kind.shape):
            raise Undetermined(f"{op}: it gives '{name}' of no iteration")
    return [TensorType(k.dtype, (count, *(k.shape or ()))) for k in kinds]


def _scan(graph: Graph, op: Operation, tensors: dict[str, TensorType], make: Make) -> list[Launch]:
    count = int(op.attributes["num_scan_inputs"])
    states, names, before = len(op.inputs) - count, list(op.inputs), list[Launch]()
    kinds = [*_known(op, names[:states], tensors), *_typed(op, names[states:], tensors)]
    for j, axis in enumerate(_flags(op, "scan_input_axes", count), states):
        if axis % len(kinds[j].shape or (1,)):
            before.append(_moved(op, names[j], f"{names[j]}/{op.origin}/{j}", axis, 0, tensors))
            names[j] = before[-1].writes[0]
    moved = [tensors[n] for n in names]
    lengths = sorted({k.shape[0] for k in moved[states:] if k.shape}, key=str)
    if len(lengths) != 1:
        text = f"{op}: the scanned inputs have the lengths {[*map(str, lengths)]}"
        raise Undetermined(text, equal=(lengths[0], lengths[1]) if lengths else None)
    own = [*moved[:states], *(TensorType(k.dtype, (k.shape or ())[1:]) for k in moved[states:])]
    made = _body(op, "body", _inferred(graph, op, op.subgraphs["body"], own, tensors), make)
    given = given_by(made)
    if given[:states] != moved[:states]:
        raise Undetermined(f"{op}: a state changes its type")
    (length,) = lengths
    given[states:] = _all_rows(op, states, given[states:], length)
    axes = _flags(op, "scan_output_axes", len(given) - states)
    plain, after = [*op.outputs, *[""] * (len(given) - len(op.outputs))], list[Launch]()
    for j, axis in enumerate(axes, states):
        if plain[j] and axis % len(given[j].shape or (1,)):
            plain[j] = f"{plain[j]}/{op.origin}"
            tensors[plain[j]] = given[j]
            after.append(_moved(op, plain[j], op.outputs[j], 0, axis, tensors))
    outputs = len(given) - states
    flags = (("scan_input_directions", count), ("scan_output_directions", outputs))
    backward = tuple(bool(d) for name, n in flags for d in _flags(op, name, n, each_direction))
    results = _results(op, plain, given, tensors)
    call = Call("Scan", (made,), states, backward)
    return [*before, calling((op,), (*names, *_captured(op)), results, tensors, call), *after]


def _flags(op: Operation, name: str, count: int, read: Flags = each) -> Sequence[int]:
    return read(tuple(op.attributes.get(name) or ()), count, f"{op}: {name}")


def _moved(
    op: Operation, name: str, result: str, source: int, target: int, tensors: dict[str, TensorType]
) -> Launch:
    """A transposition that moves one axis."""
    kind = tensors[name]
    shape = kind.shape or ()
    axes = list(range(len(shape)))
    axes.insert(target % len(shape), axes.pop(source % len(shape)))
    operator = find("", "Transpose", 13)
    assert operator is not None
    x = operand("x0", kind.dtype, shape, None)
    kernel = lower_operator(operator, [x], {"perm": tuple(axes)}, [True])
    tensors[result] = TensorType(kind.dtype, kernel.outputs[0].shape)
    return Launch(kernel, (name,), (result,), (op,))


def _inferred(
    graph: Graph,
    op: Operation,
    body: Graph,
    own: Sequence[TensorType],
    tensors: Mapping[str, TensorType],
) -> Graph:
    """A subgraph whose inputs have these types, what it captures as further inputs, whose values
    are known where they are known outside."""
    outer = tuple(dict.fromkeys(captures(body)))
    types = {n: k for n, k in body.types.items() if n in body.initializers}
    types |= dict(zip(body.inputs, own, strict=True))
    types |= dict(zip(outer, _typed(op, outer, tensors), strict=True))
    found = {n: known_value(graph, n) for n in outer}
    values = {n: v for n, v in found.items() if v is not None and v.size <= LIMIT}
    inputs = (*body.inputs, *outer)
    return infer(replace(body, inputs=inputs, types=types, declared={}, values=values))


def _body(op: Operation, name: str, graph: Graph, make: Make) -> Body:
    """A subgraph as a program, what it gives being of known sizes."""
    body = make(op, name, graph)
    _known(op, body.program.outputs, body.program.tensors)
    return body


def _optimised(fused: bool, op: Operation, name: str, graph: Graph) -> Body:
    """A subgraph optimised and planned."""
    from sardonyx.passes.pipeline import optimise

    program = optimise(lower(graph, fused=fused), fused)
    return Body(program, plan(timeline_of(program)))


def _captured(op: Operation) -> tuple[str, ...]:
    return tuple(dict.fromkeys(n for body in op.subgraphs.values() for n in captures(body)))


def _known(
    op: Operation, names: Sequence[str], tensors: Mapping[str, TensorType]
) -> list[TensorType]:
    """The types of tensors; Undetermined where a size is not a number."""
    found = _typed(op, names, tensors)
    for name, kind in zip(names, found, strict=True):
        for size in filter(symbols, kind.shape or ()):
            raise Undetermined(f"{op}: the type of '{name}' is {kind}", equal=(size, None))
    return found


def _typed(
    op: Operation, names: Sequence[str], tensors: Mapping[str, TensorType]
) -> list[TensorType]:
    """The types of tensors; Undetermined where one is not known."""
    found = []
    for name in names:
        kind = tensors.get(name)
        if kind is None or kind.dtype is t.string or kind.shape is None:
            raise Undetermined(f"{op}: the type of '{name}' is {kind or 'not known'}")
        found.append(kind)
    return found


def _results(
    op: Operation,
    names: Sequence[str],
    kinds: Sequence[TensorType],
    tensors: dict[str, TensorType],
) -> list[str]:
    """A tensor of its type for each thing that is given."""
    found = []
    for j, kind in enumerate(kinds):
        name = names[j] if j < len(names) and names[j] else f"{op.origin}/unused{j}"
        tensors[name] = kind
        found.append(name)
    return found


def _text(kinds: Sequence[TensorType]) -> str:
    return ", ".join(map(str, kinds)) or "nothing"
