"""Small programs that the tests of the emitter share, and a way to call what was compiled."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np

from sardonyx import types as t
from sardonyx.dims import Dim
from sardonyx.emit.source import Source
from sardonyx.graph import Operation, Origin
from sardonyx.kernel.build import Builder, operand
from sardonyx.kernel.expr import alu, where
from sardonyx.kernel.ir import Kernel
from sardonyx.plan import Plan, Timeline, plan
from sardonyx.plan.kernels import step_of
from sardonyx.plan.outline import Slot
from sardonyx.types import Array, TensorType


class Context(ctypes.Structure):
    _fields_ = (
        ("memory", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("dims", ctypes.c_void_p),
        ("offsets", ctypes.c_void_p),
        ("inputs", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p),
        ("operation", ctypes.c_int32),
    )


class Launched(SimpleNamespace):
    """A launch; no two are the same."""

    __hash__ = object.__hash__


@dataclass(slots=True)
class Made:
    """A program as the emitter takes it, built launch by launch."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: dict[str, TensorType]
    weights: dict[str, Array] = field(default_factory=dict)
    launches: list[Launched] = field(default_factory=list)

    def add(self, kernel: Kernel, reads: Sequence[str], writes: Sequence[str], name: str) -> None:
        op = Operation(kernel.name, "", 1, tuple(reads), tuple(writes), {}, Origin(name, (0,)))
        self.launches.append(
            Launched(
                kernel=kernel, reads=tuple(reads), writes=tuple(writes), operations=(op,), call=None
            )
        )
        for w, b in zip(writes, kernel.outputs, strict=True):
            self.tensors[w] = TensorType(b.dtype, b.shape)


def sample(n: Dim = 4) -> Made:
    """matmul with a weight, relu, relu again (one shape class, in place), a view, a gather by an
    input that may trap; a weight and an input are outputs too."""
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(30, 20)).astype(np.float32)
    tensors = {
        "x": TensorType(t.float32, (n, 30)),
        "at": TensorType(t.int64, (3,)),
        "w": TensorType(t.float32, (30, 20)),
    }
    made = Made(("x", "at"), ("y", "w", "x", "y"), tensors, {"w": weight})
    made.add(_matmul(n), ("x", "w"), ("a",), "a node */ with a name")
    made.add(_relu((n, 20)), ("a",), ("b",), "relu1")
    made.add(_relu((n, 20)), ("b",), ("c",), "relu2")
    made.add(_flat(n), ("c",), ("d",), "")
    made.add(_gather(n), ("d", "at"), ("y",), "pick")
    return made


def _matmul(n: Dim) -> Kernel:
    k = Builder(1)
    a, b = operand("a", t.float32, (n, 30)), operand("b", t.float32, (30, 20))
    y = k.compute((n, 20), lambda i, j: k.dot((30,), lambda q: (a[i, q], b[q, j])))
    return k.kernel("MatMul", [a, b], [y])


def _relu(shape: tuple[Dim, ...]) -> Kernel:
    k = Builder(1)
    x = operand("x", t.float32, shape)
    return k.kernel("Relu", [x], [k.compute(shape, lambda *i: alu("max", x[i], 0.0) + 1.0)])


def _flat(n: Dim) -> Kernel:
    k = Builder(1)
    x = operand("x", t.float32, (n, 20))
    return k.kernel("Reshape", [x], [k.view(x, (n * 20,))])


def _gather(n: Dim) -> Kernel:
    k = Builder(1)
    x, i = operand("x", t.float32, (n * 20,)), operand("i", t.int64, (3,))
    table = k.constant(np.arange(3 * 300, dtype=np.float32).reshape(3, 300))

    def element(a):
        index = where(i[a] < 0, i[a] + n * 20, i[a])
        return x.trap((index,)) + table[a, a]

    return k.kernel("Gather", [x, i], [k.compute((3,), element)])


def planned(
    made: Made, outside: Sequence[str] = (), bound: Mapping[str, int] | None = None
) -> Plan:
    """A plan of a program of concrete shapes; weights lie outside M."""
    sizes = {
        name: tensor.dtype.bytes(int(np.prod(tensor.shape)))
        for name, tensor in made.tensors.items()
    }
    steps = [step_of(launch.kernel, launch.reads, launch.writes) for launch in made.launches]
    final = tuple(dict.fromkeys(made.outputs))
    initial = (*made.inputs, *made.weights)
    lies_outside = frozenset((*outside, *made.weights))
    return plan(Timeline(tuple(steps), sizes, initial, final, lies_outside))


def call(
    library: ctypes.CDLL,
    source: Source,
    feeds: Sequence[Array],
    results: Sequence[Array],
    memory: int,
    dims: Sequence[int] = (),
    offsets: Mapping[Slot, int] | None = None,
) -> tuple[int, int]:
    """Runs the program; (error, operation)."""
    m = np.full(memory, 0xA5, np.uint8)
    w = np.frombuffer(b"".join(source.blob.pieces()), np.uint8)
    d = np.array(dims, np.int64)
    o = np.array([(offsets or {})[slot] for slot in source.slots], np.int64)
    pointers = [
        (ctypes.c_void_p * len(xs))(*(x.ctypes.data for x in xs)) for xs in (feeds, results)
    ]
    context = Context(
        m.ctypes.data,
        w.ctypes.data,
        d.ctypes.data,
        o.ctypes.data,
        ctypes.addressof(pointers[0]),
        ctypes.addressof(pointers[1]),
        77,
    )
    error = getattr(library, f"{source.prefix}_run")(ctypes.byref(context))
    return error, context.operation
