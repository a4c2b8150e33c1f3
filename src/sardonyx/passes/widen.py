"""Sums of products of float16 and bfloat16 are taken of float32 copies of their factors.

    y[m] = float16(dot over k of float32(a[..]) * float32(b[..]) + ..)

    =>  a', b' = float32(a), float32(b);  s[m] = dot over k of a'[..] * b'[..] + ..;  y = float16(s)

Widening is exact, and the sum is of float32 anyhow: no bit changes. Weights are widened once; the
others in launches of their own, which vanish into what makes them, as the rounding does into the
sum. So these operators have the layouts, tiles and epilogues of float32.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from sardonyx import types as t
from sardonyx.dims import at_least, product
from sardonyx.kernel.expr import Axis, Buffer, Cast, Expr, Fold, Load, cast
from sardonyx.kernel.ir import Compute, Kernel, Stmt, expressions, mapped, statements
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import walk
from sardonyx.passes.program import Launch, Program, by_launch, unused
from sardonyx.types import Array, TensorType

HALVES = (t.float16, t.bfloat16)
READS = 4  # how often a factor is read, if its copy pays


def widen(program: Program) -> Program:
    """The program with sums of products of float32."""
    return by_launch(program, _widened)


def _widened(
    launch: Launch, tensors: dict[str, TensorType], weights: dict[str, Array]
) -> Iterator[Launch]:
    """The launch, between those that widen its factors and the one that rounds its result."""
    body = list(statements(launch.kernel.body))
    names = dict(zip(launch.kernel.inputs, launch.reads, strict=True))
    wide: dict[Buffer, tuple[str, Buffer]] = {}
    for b in _factors(body, set(weights), names) if launch.call is None else ():
        old = names[b]
        assert old is not None
        name = unused(f"{old}.float32", tensors)
        tensors[name] = TensorType(t.float32, b.shape)
        wide[b] = name, Buffer(b.name, t.float32, b.shape)
        if old in weights:
            weights[name] = np.asarray(weights[old]).astype(np.float32)
        else:
            yield _copy(old, b, name, t.float32)
    yield from _rounded(_with(launch, wide), tensors) if wide else (launch,)


def _rounded(launch: Launch, tensors: dict[str, TensorType]) -> Iterator[Launch]:
    """The launch; where its one result is rounded from float32, that is a launch of its own."""
    alone = all(isinstance(s, Compute) for s in launch.kernel.body)
    match launch.kernel.body[-1], launch.kernel.outputs:
        case Compute(b, axes, Cast(Expr(dtype=t.float32) as x)), (out,) if b is out and alone:
            total = Buffer(out.name, t.float32, out.shape)
            name = unused(f"{launch.writes[0]}.float32", tensors)
            tensors[name] = TensorType(t.float32, out.shape)
            body = (*launch.kernel.body[:-1], Compute(total, axes, x))
            kernel = replace(launch.kernel, outputs=(total,), body=body, views=())
            yield replace(launch, kernel=kernel, writes=(name,))
            yield _copy(name, total, launch.writes[0], out.dtype)
        case _:
            yield launch


def _factors(
    body: list[Stmt], weights: set[str], names: dict[Buffer | None, str | None]
) -> list[Buffer]:
    """The inputs that are factors of sums of products, and nothing else, if copies pay."""
    every = [e for s in body for e in walk(*expressions(s))]
    computes = [s for s in body if isinstance(s, Compute)]
    found: dict[Buffer, bool] = {}
    for s in computes:
        for fold in (e for e in walk(s.expr) if isinstance(e, Fold) and e.kind == "dot"):
            for x in fold.terms:
                load = _half(x)
                if load is not None and load.buffer.root in names:
                    b = load.buffer.root
                    pays = names[b] in weights or _is_read_often(s, fold, b)
                    found[b] = found.get(b, True) and pays
    terms = {
        id(x.x)
        for s in computes
        for e in walk(s.expr)
        if isinstance(e, Fold) and e.kind == "dot"
        for x in e.terms
        if isinstance(x, Cast)
    }
    other = {e.buffer.root for e in every if isinstance(e, Load) and id(e) not in terms}
    return [b for b, pays in found.items() if pays and b not in other]


def _half(x: Expr) -> Load | None:
    match x:
        case Cast(Load(b) as load, t.float32) if b.dtype in HALVES:
            return load
    return None


def _is_read_often(s: Compute, fold: Fold, b: Buffer) -> bool:
    """Whether the terms of all sums are a multiple of the elements of a factor."""
    terms = product(tuple(a.extent for a in (*s.axes, *fold.axes)))
    return at_least(terms - READS * product(b.shape), 0)


def _with(launch: Launch, wide: dict[Buffer, tuple[str, Buffer]]) -> Launch:
    """The launch reading the copies."""

    def widened(root: Expr) -> Expr:
        given: dict[Expr, Expr] = {}
        for e in walk(root):
            load = _half(e)
            if load is None or load.buffer.root not in wide:
                continue
            copy, b = wide[load.buffer.root][1], load.buffer
            own = copy if b is b.root else Buffer(b.name, t.float32, b.shape, base=copy)
            default = None if load.default is None else cast(load.default, t.float32)
            given[e] = Load(own, load.index, load.mode, default)
        return rewrite(root, given) if given else root

    inputs = tuple(wide[b][1] if b in wide else b for b in launch.kernel.inputs)
    reads = tuple(
        wide[b][0] if b in wide else n
        for b, n in zip(launch.kernel.inputs, launch.reads, strict=True)
    )
    body = tuple(mapped(s, widened, lambda b: b) for s in launch.kernel.body)
    kernel = replace(launch.kernel, inputs=inputs, body=body, views=())
    return replace(launch, kernel=kernel, reads=reads)


def _copy(old: str, b: Buffer, new: str, dtype: t.DType) -> Launch:
    """What converts a tensor."""
    source, target = Buffer("x", b.dtype, b.shape), Buffer("y", dtype, b.shape)
    axes = tuple(Axis(f"i{n}", d) for n, d in enumerate(b.shape))
    body = (Compute(target, axes, cast(Load(source, axes), dtype)),)
    return Launch(Kernel("convert", (source,), (target,), (), (), body), (old,), (new,), ())
