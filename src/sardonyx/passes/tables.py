"""What is computed of one byte alone is looked up in a table of its 256 results.

    x (bytes) -> Sigmoid -> QuantizeLinear -> Mul by x -> QuantizeLinear   =>   table[x]

Between bytes quantised models compute in float32: SiLU, GELU, HardSwish, what one quantiser makes
of another's bytes. Its result is known for each byte before the first run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from sardonyx import types as t
from sardonyx.graph import Operation
from sardonyx.kernel.affine import affine
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.c99.print_look_up import BYTES
from sardonyx.kernel.expr import Alu, Axis, Buffer, Cast, Expr, Load, cast, lift
from sardonyx.kernel.interpret import evaluate
from sardonyx.kernel.ir import Compute, Kernel
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import free_axes, walk
from sardonyx.passes.constants import drop_unused
from sardonyx.passes.known import known_to
from sardonyx.passes.program import Launch, Program, unused
from sardonyx.types import Array, DType, TensorType

LEAST = 4  # arithmetic operations that a look-up is shorter than
LEAST_BEHIND = 10  # the same, of a byte that has just been rounded and that nothing else reads
KINDS = (t.uint8, t.int8)


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """What a tensor has for each byte of another; cost: how many numbers are computed for it."""

    source: str
    values: Array
    cost: int = 0
    operations: tuple[Operation, ...] = ()


def look_up_bytes(program: Program, fused: bool = True) -> Program:
    """The program with such tables in the place of launches."""
    tensors, weights = dict(program.tensors), dict(program.weights)
    known: dict[str, _Table] = {}
    reads = Counter(n for x in program.launches for n in x.reads) + Counter(program.outputs)
    near = {x.writes[0] for x in program.launches if _rounds(x) and reads[x.writes[0]] == 1}
    launches = []
    for launch in program.launches:
        found = _table(launch, known, weights, fused)
        if found is not None:
            known[launch.writes[0]] = found
            least = LEAST_BEHIND if found.source in near else LEAST
            if found.cost >= least and tensors[launch.writes[0]].dtype in KINDS:
                name = unused(f"{launch.writes[0]}.table", tensors)
                weights[name] = found.values
                tensors[name] = TensorType(tensors[launch.writes[0]].dtype, (BYTES,))
                launch = _looking_up(found, tensors, launch.writes[0], name)
        launches.append(launch)
    made = replace(program, tensors=tensors, weights=weights, launches=tuple(launches))
    return drop_unused(made)


def looks_up(e: Expr) -> bool:
    """Whether e is an element of a table that a byte chooses."""
    match e:
        case Load(b, (index,), "proven", None) if b.shape == (BYTES,):
            return any(isinstance(x, Load) for x in walk(index))
    return False


def _rounds(launch: Launch) -> bool:
    """Whether it makes bytes of floats, in registers which another launch can join."""
    last = launch.kernel.body[-1]
    made = last.expr if isinstance(last, Compute) else None
    return isinstance(made, Cast) and made.dtype in KINDS and made.x.dtype.is_float


def _table(
    launch: Launch, known: Mapping[str, _Table], given: Mapping[str, Array], fused: bool
) -> _Table | None:
    """What the launch writes, if one byte at the same place alone decides it."""
    kernel = launch.kernel
    if launch.call is not None or len(kernel.body) != 1 or kernel.views:
        return None
    (s,) = kernel.body
    if not isinstance(s, Compute) or s.buffer not in kernel.outputs:
        return None
    names = dict(zip(kernel.inputs, launch.reads, strict=True))
    weights, parts = known_to(launch, given), dict[Buffer, _Table]()
    for e in walk(s.expr):
        if isinstance(e, Load) and e.buffer.data is None and e.buffer not in weights:
            name, kind = names.get(e.buffer), e.buffer.dtype
            if name is None or not _is_at(e, s) or not (name in known or kind in KINDS):
                return None
            parts[e.buffer] = known.get(name) or _Table(name, _bytes(kind))
    sources = list({p.source for p in parts.values()})
    if len(sources) != 1 or any(isinstance(e, Load) and e.mode != "proven" for e in walk(s.expr)):
        return None
    values = _values(s, parts, weights, kernel, fused)
    if values is None:
        return None
    cost = sum(isinstance(e, Alu) and e.dtype.is_float for e in walk(s.expr))
    cost += LEAST * any(looks_up(e) for e in walk(s.expr))
    cost += sum(p.cost for p in parts.values())
    before = (op for p in parts.values() for op in p.operations)
    operations = tuple(dict.fromkeys((*before, *launch.operations)))
    return _Table(sources[0], values, cost, operations)


def _is_at(e: Load, s: Compute) -> bool:
    """Whether e loads what is at the place that s writes."""
    if e.buffer.shape != s.buffer.shape or e.mode != "proven":
        return False
    pairs = zip(e.index, s.axes, strict=True)
    return all(i is a or (a.extent == 1 and affine(i) == 0) for i, a in pairs)


def _bytes(dtype: DType) -> Array:
    """All numbers of the type, the least first."""
    return (np.arange(BYTES) + int(dtype.min)).astype(dtype.numpy)


def _values(
    s: Compute,
    parts: Mapping[Buffer, _Table],
    weights: Mapping[Buffer, Array],
    kernel: Kernel,
    fused: bool,
) -> Array | None:
    """What s computes for each byte."""
    byte = Axis("byte", BYTES)
    inputs = {b: Buffer(b.name, b.dtype, (BYTES,)) for b in parts}

    def load(e: Load) -> Expr | None:
        return Load(inputs[e.buffer], (byte,)) if e.buffer in inputs else None

    e = rewrite(s.expr, {}, load)
    if free_axes(e)[id(e)] - {byte}:
        return None
    read = {x.buffer for x in walk(e) if isinstance(x, Load) and x.buffer.data is None}
    read -= set(inputs.values())
    target = Buffer("table", s.buffer.dtype, (BYTES,))
    given = {**{inputs[b]: p.values for b, p in parts.items()}, **{b: weights[b] for b in read}}
    body = (Compute(target, (byte,), e),)
    made = Kernel("table", tuple(given), (target,), (), kernel.constants, body)
    (found,) = evaluate(made, list(given.values()), fused)
    return found


def _looking_up(found: _Table, tensors: Mapping[str, TensorType], write: str, table: str) -> Launch:
    k = Builder(0)
    have, kind = tensors[found.source], tensors[table].dtype
    x = Tensor(Buffer("x", have.dtype, have.shape or ()))
    if kind is have.dtype and np.array_equal(found.values, _bytes(kind)):
        same = k.kernel("same", (x,), (k.compute(x.shape, lambda *i: x[i], kind),))
        return Launch(same, (found.source,), (write,), found.operations)
    values, first = Tensor(Buffer("table", kind, (BYTES,))), lift(-int(have.dtype.min))
    out = k.compute(x.shape, lambda *i: values[(cast(x[i], t.int64) + first,)], kind)
    kernel = k.kernel("table", (x, values), (out,))
    return Launch(kernel, (found.source, table), (write,), found.operations)
