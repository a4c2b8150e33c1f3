"""Timelines made from operations and their kernels, and when a kernel may work in place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from sardonyx.dims import Dim, product, substitute
from sardonyx.errors import InternalError
from sardonyx.graph import Graph, Operation, reads
from sardonyx.kernel.affine import position
from sardonyx.kernel.expr import Axis, Buffer, Expr, Load
from sardonyx.kernel.ir import Compute, Kernel
from sardonyx.kernel.walk import walk
from sardonyx.plan.outline import byte_size
from sardonyx.plan.timeline import Step, Timeline
from sardonyx.types import TensorType


def timeline_of(
    graph: Graph,
    operations: Sequence[Operation],
    kernels: Sequence[Kernel],
    outside: Iterable[str] = (),
) -> Timeline:
    """The timeline of a graph of concrete shapes whose operations are executed in this order;
    kernels[i] is the kernel of operations[i].

    `outside` names the tensors whose bytes are not in M. Raises Undetermined where a shape is
    not concrete, UnsupportedModel where Sardonyx has no type for a tensor.
    """
    done = steps(operations, kernels)
    initial = tuple(dict.fromkeys((*graph.inputs, *graph.overridable, *graph.initializers)))
    written = chain.from_iterable(s.writes for s in done)
    sizes = {name: byte_size(name, graph.types.get(name)) for name in (*initial, *written)}
    final = tuple(dict.fromkeys(name for name in graph.outputs if name in sizes))
    return Timeline(done, sizes, initial, final, frozenset(outside))


def steps(operations: Sequence[Operation], kernels: Sequence[Kernel]) -> tuple[Step, ...]:
    """One step per operation; kernels[i] is the kernel of operations[i]."""
    return tuple(
        step_of(kernel, op.inputs, tuple(filter(None, op.outputs)), reads(op))
        for op, kernel in zip(operations, kernels, strict=True)
    )


def step_of(
    kernel: Kernel,
    inputs: Sequence[str | None],
    outputs: Sequence[str],
    captured: Iterable[str] = (),
) -> Step:
    """The step of one kernel applied to tensors: `inputs` and `outputs` as the kernel's own ("" or
    None where an optional input is absent); `captured` are further tensors that it reads."""
    if len(outputs) != len(kernel.outputs) or len(inputs) < len(kernel.inputs):
        raise InternalError(f"{kernel.name} does not take {list(inputs)} to {list(outputs)}")
    given = tuple(dict.fromkeys(filter(None, (*inputs, *captured))))
    positions = {x: [i for i, name in enumerate(inputs) if name == x] for x in given}
    legal = in_place(kernel)
    return Step(
        given,
        tuple(outputs),
        tuple(_bytes(b) for b in kernel.temporaries),
        tuple((outputs[o], inputs[i] or "") for o, i in kernel.views),
        tuple(
            (y, x)
            for o, y in enumerate(outputs)
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
    if not isinstance(compute, Compute) or compute.buffer.start:
        return frozenset()
    y = compute.buffer.root
    own = linear(compute.axes, compute.buffer.shape)
    loads = [e for e in walk(compute.expr) if isinstance(e, Load)]
    legal = {
        x
        for x in kernel.inputs
        if x is not None
        and x.dtype.bits == y.dtype.bits
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
    form = position(index, shape)
    if form is None:
        return None
    return substitute(form, lambda a: 0 if isinstance(a, Axis) and a.extent == 1 else None)
