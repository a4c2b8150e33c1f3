"""Programs made from operations and their kernels, and when a kernel may work in place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from sardonyx.dims import Dim, atom, product
from sardonyx.errors import InternalError, Undetermined
from sardonyx.graph import Graph, Operation, reads
from sardonyx.kernel.expr import Alu, Axis, Buffer, Const, Expr, Load, Size, walk
from sardonyx.kernel.ir import Compute, Kernel
from sardonyx.plan.program import Program, Step
from sardonyx.types import TensorType


def program(
    graph: Graph,
    operations: Sequence[Operation],
    kernels: Sequence[Kernel],
    outside: Iterable[str] = (),
) -> Program:
    """The program of a graph of concrete shapes whose operations are executed in this order.

    `outside` names the tensors whose bytes are not in M. Raises Undetermined where a shape is
    not concrete.
    """
    done = steps(operations, kernels)
    initial = tuple(dict.fromkeys((*graph.inputs, *graph.overridable, *graph.initializers)))
    written = chain.from_iterable(s.writes for s in done)
    sizes = {name: byte_size(name, graph.types[name]) for name in (*initial, *written)}
    final = tuple(dict.fromkeys(name for name in graph.outputs if name in sizes))
    return Program(done, sizes, initial, final, frozenset(outside))


def steps(operations: Sequence[Operation], kernels: Sequence[Kernel]) -> tuple[Step, ...]:
    """One step per operation; kernels[i] is the kernel of operations[i]."""
    return tuple(_step(op, kernel) for op, kernel in zip(operations, kernels, strict=True))


def byte_size(name: str, tensor: TensorType) -> int:
    """The bytes of a tensor; Undetermined if its shape is not concrete."""
    count = None if tensor.shape is None else product(tensor.shape)
    if not isinstance(count, int):
        raise Undetermined(f"the tensor '{name}' has the type {tensor}; its size is not known yet")
    return count * tensor.dtype.size


def _step(op: Operation, kernel: Kernel) -> Step:
    read = tuple(dict.fromkeys(reads(op)))
    written = tuple(filter(None, op.outputs))
    if len(written) != len(kernel.outputs) or len(op.inputs) < len(kernel.inputs):
        raise InternalError(f"{op}: the kernel has other inputs or outputs than the operation")
    positions = {x: [i for i, name in enumerate(op.inputs) if name == x] for x in read}
    legal = in_place(kernel)
    return Step(
        read,
        written,
        tuple(_bytes(b) for b in kernel.temporaries),
        tuple((written[o], op.inputs[i]) for o, i in kernel.views),
        tuple(
            (y, x)
            for o, y in enumerate(written)
            for x, at in positions.items()
            if at and all((o, i) in legal for i in at)
        ),
    )


def _bytes(buffer: Buffer) -> int:
    return byte_size(buffer.name, TensorType(buffer.dtype, buffer.shape))


def in_place(kernel: Kernel) -> frozenset[tuple[int, int]]:
    """The (output, input) positions where the output may lie exactly where the input lies
    (docs/machine.md, section 7): one Compute, whose every load of that input is at the element
    being written."""
    compute = kernel.body[0] if len(kernel.body) == 1 else None
    if not isinstance(compute, Compute):
        return frozenset()
    y = compute.buffer.root
    own = linear(compute.axes, compute.buffer.shape)
    loads = [e for e in walk(compute.expr) if isinstance(e, Load)]
    legal = {
        x
        for x in kernel.inputs
        if x is not None
        and x.dtype.size == y.dtype.size
        and product(x.shape) == product(y.shape)
        and all(linear(e.index, e.buffer.shape) == own for e in loads if e.buffer.root is x.root)
    }
    return frozenset(
        (o, i)
        for o, out in enumerate(kernel.outputs)
        for i, x in enumerate(kernel.inputs)
        if out is y and x in legal
    )


def linear(index: Sequence[Expr], shape: Sequence[Dim]) -> Dim | None:
    """The row-major position of an element as a polynomial in axes and dims; None if it is not
    one. An axis of extent 1 is 0."""
    position: Dim = 0
    for i, extent in zip(index, shape, strict=True):
        value = _polynomial(i)
        if value is None:
            return None
        position = position * extent + value
    return position


def _polynomial(e: Expr) -> Dim | None:
    match e:
        case Axis():
            return 0 if e.extent == 1 else atom(e)
        case Const():
            return int(e.value)
        case Size():
            return e.dim
        case Alu("add" | "sub" | "mul", (x, y), _):
            a, b = _polynomial(x), _polynomial(y)
            if a is None or b is None:
                return None
            return a + b if e.op == "add" else a - b if e.op == "sub" else a * b
    return None
