"""Operators that are small enough to be seen through, and graphs of them."""

from __future__ import annotations

import numpy as np

from sardonyx import types as t
from sardonyx.dims import Dim
from sardonyx.graph import Graph, Operation, Origin
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import const
from sardonyx.types import Array, DType, TensorType

DOMAIN = "test.machine"


def add(k: Builder, a: Tensor, b: Tensor) -> Tensor:
    return k.compute(a.shape, lambda *i: a[i] + b.broadcast(i))


def twist(k: Builder, a: Tensor, b: Tensor) -> Tensor:
    """a reversed along its first axis, times b, element by element: not to be done over a."""
    out = k.tensor(a.shape, a.dtype)
    (n, m) = a.shape
    with k.loop(n) as i, k.loop(m) as j:
        k.store(out, (i, j), a[n - 1 - i, j] * b[i, j])
    return out


def relabel(k: Builder, x: Tensor) -> Tensor:
    return k.view(x, x.shape)


def both(k: Builder, x: Tensor) -> tuple[Tensor, Tensor]:
    """A view of x, and x + 1."""
    return k.view(x, x.shape), k.compute(x.shape, lambda *i: x[i] + 1.0)


def pick(k: Builder, x: Tensor, at: Tensor) -> Tensor:
    return k.compute(at.shape, lambda *i: x.trap((at[i],)))


def fill(k: Builder, shape: Tensor) -> Tensor:
    return k.compute(shape.known(), lambda *_: const(1.0, t.float32))


DEFINITIONS = {
    "Fill": fill,
    "Add": add,
    "Twist": twist,
    "Relabel": relabel,
    "Both": both,
    "Pick": pick,
}

ROW = tuple[str, str, str]


def graph(
    rows: list[ROW],
    inputs: str,
    outputs: str,
    initializers: dict[str, Array] | None = None,
    shape: tuple[Dim, ...] = (2, 3),
    dtype: DType = t.float32,
    types: dict[str, TensorType] | None = None,
) -> Graph:
    """A graph from rows of (op_type, inputs, outputs), names separated by spaces; tensors are of
    one type unless `types` says otherwise; "-" is an absent tensor."""
    operations = tuple(
        Operation(
            kind,
            DOMAIN,
            1,
            tuple(n.replace("-", "") for n in reads.split()),
            tuple(n.replace("-", "") for n in writes.split()),
            {},
            Origin(f"n{i}", (i,)),
        )
        for i, (kind, reads, writes) in enumerate(rows)
    )
    weights = initializers or {}
    names = {*inputs.split(), *outputs.split(), *weights}
    names.update(n for op in operations for n in (*op.inputs, *op.outputs) if n)
    known = {name: TensorType(dtype, shape) for name in names}
    for name, value in weights.items():
        found = t.by_numpy(value.dtype)
        assert found is not None
        known[name] = TensorType(found, value.shape)
    known.update(types or {})
    return Graph(
        "g",
        tuple(inputs.split()),
        tuple(outputs.split()),
        (),
        weights,
        operations,
        known,
        {},
        {},
        {"": 20},
    )


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
