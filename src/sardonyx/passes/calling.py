"""Launches that call programs: control flow, a part of M, elements one after the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sardonyx import types as t
from sardonyx.graph import Operation
from sardonyx.kernel.expr import Buffer
from sardonyx.kernel.ir import Kernel
from sardonyx.passes.program import Body, Call, Launch
from sardonyx.plan.outline import byte_size
from sardonyx.types import TensorType


def part(operations: Sequence[Operation], body: Body, tensors: Mapping[str, TensorType]) -> Launch:
    """The launch of a program in a part of M of its own."""
    reads, writes = body.program.inputs, body.program.outputs
    return calling(operations, reads, writes, tensors, Call("Part", (body,)))


def calling(
    operations: Sequence[Operation],
    reads: Sequence[str],
    writes: Sequence[str],
    tensors: Mapping[str, TensorType],
    call: Call,
) -> Launch:
    """The launch of control flow: its scratch is M of its bodies, twice the carried values, and a
    row of what is scanned or given in rows that begin within a byte."""
    inputs = tuple(_buffer(f"x{i}", tensors[n]) for i, n in enumerate(reads))
    outputs = tuple(_buffer(f"y{i}", tensors[n]) for i, n in enumerate(writes))
    sizes = [max((b.plan.size for b in call.bodies), default=0)]
    for body in call.bodies if call.kind in ("Loop", "Scan") else ():
        sizes += [s for s in _carried(body, call) for _ in range(2)]
        sizes += [byte_size("a row", kind) for kind in _rows_of(body, call) if kind.is_ragged]
    scratch = tuple(
        Buffer(f"t{i}", t.uint8, (max(1, -(-s // 64) * 64),)) for i, s in enumerate(sizes)
    )
    kernel = Kernel(call.kind, inputs, outputs, scratch, (), ())
    return Launch(kernel, tuple(reads), tuple(writes), tuple(operations), call)


def _buffer(name: str, kind: TensorType) -> Buffer:
    return Buffer(name, kind.dtype, kind.shape or ())


def _carried(body: Body, call: Call) -> list[int]:
    """The bytes of each carried value."""
    first = 1 if call.kind == "Loop" else 0
    names = body.program.outputs[first : first + call.states]
    kinds = [body.program.tensors[n] for n in names]
    return [byte_size("a carried value", k) for k in kinds]


def _rows_of(body: Body, call: Call) -> list[TensorType]:
    """What is scanned and what is given, of one iteration."""
    first, given = (1 if call.kind == "Loop" else 0) + call.states, given_by(body)
    count = max(0, len(call.backward) - len(given[first:]))
    names = body.program.inputs[call.states : call.states + count]
    return [*(body.program.tensors[n] for n in names), *given[first:]]


def given_by(body: Body) -> list[TensorType]:
    """The types of what a body gives."""
    return [body.program.tensors[n] for n in body.program.outputs]
