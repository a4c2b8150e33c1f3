"""Factors of int32 sums of products that fit int16 are stored as such, or are taken as the bytes
that they are (passes/bytes.py).

    t[i] = int32(x[i]) - int32(z); y[m] = dot over k of t[..] * w[..]; q[m] = .. y[m] ..

Such a launch becomes one for each of its Computes, so that fusion and layouts see them: the factors
as tensors of int16, the product, what is made of it. Sums of int32 wrap, and are the same in any
order and in any way that is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from sardonyx import types as t
from sardonyx.kernel.c99.contract import LIMIT, WHOLE, contraction, widened
from sardonyx.kernel.expr import Alu, Axis, Buffer, Cast, Const, Expr, Fold, Load, cast
from sardonyx.kernel.ir import Compute, For, Stmt
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import walk
from sardonyx.passes.bytes import is_within, of_bytes
from sardonyx.passes.known import known_to
from sardonyx.passes.program import Launch, Program, by_group, by_launch, by_statement, unused
from sardonyx.types import Array, TensorType

Range = tuple[int, int]


def narrow(program: Program, roomy: bool = False, dots: bool = False) -> Program:
    """The program with products of int16 or of bytes where factors fit; roomy, dots: as for
    `optimise`."""
    return by_launch(program, partial(_narrowed, dots=dots, fewer=roomy and not dots))


def _narrowed(
    launch: Launch,
    tensors: dict[str, TensorType],
    weights: dict[str, Array],
    dots: bool,
    fewer: bool,
) -> Iterable[Launch]:
    if launch.call is not None:
        return [launch]
    body = [s for s in launch.kernel.body if isinstance(s, Compute)]
    if len(body) != len(launch.kernel.body):
        return [_in_loops(launch, known_to(launch, weights), (LIMIT, WHOLE)[: 1 + dots])]
    if launch.kernel.views:
        return [launch]
    written = [s.buffer.root for s in body]
    if len(set(written)) != len(written) or launch.kernel.outputs != (written[-1],):
        return [launch]
    folds = {e: None for s in body for e in _products(s)}
    if all(e.dtype is not t.int32 for e in folds):
        return [launch]
    if any(len(_products(s)) > 1 for s in body):
        return [launch]
    if len(folds) > 1:
        parts = list(by_group(launch, _by_product(body), tensors))
        return [y for x in parts for y in _narrowed(x, tensors, weights, dots, fewer)]
    (fold,) = folds
    found = of_bytes(launch, body, fold, tensors, weights, dots, fewer)
    if found is not None:
        return by_statement(found, tensors)
    factors = {x.buffer.root for x in fold.terms if isinstance(x, Load)}
    if not all(isinstance(x, Load) and _has_small_default(x) for x in fold.terms):
        return [launch]
    known = {n: weights[n] for n in launch.reads if n is not None and n in weights}
    if not all(_fits(b, launch, body, fold, known) for b in factors):
        return [launch]
    return by_statement(_stored(launch, body, factors, tensors, weights), tensors)


def _in_loops(launch: Launch, known: Mapping[Buffer, Array], limits: Sequence[int]) -> Launch:
    """The launch with its products of uint8 and of weights of int8 (of the steps of a recurrent
    network) taken as such, where the weights are within a limit, else as products of int16."""
    made: list[Buffer] = []

    def statement(s: Stmt) -> Iterable[Stmt]:
        match s:
            case For(body=body):
                yield replace(s, body=tuple(x for y in body for x in statement(y)))
            case Compute() if (found := _of_steps(s, known, limits)) is not None:
                made.extend(x.buffer for x in found[:-1])
                yield from found
            case _:
                yield s

    body = tuple(x for s in launch.kernel.body for x in statement(s))
    temporaries = (*launch.kernel.temporaries, *made)
    return replace(launch, kernel=replace(launch.kernel, temporaries=temporaries, body=body))


def _of_steps(
    s: Compute, known: Mapping[Buffer, Array], limits: Sequence[int]
) -> Sequence[Compute] | None:
    """s with its product taken so, behind what copies a factor, if anything does."""
    match _products(s):
        case [Fold(_, _, (Cast(Load(a, index, "proven")), Cast(Load(b) as w))) as fold]:
            if fold.dtype is not t.int32 or a.dtype is not t.uint8 or b.dtype is not t.int8:
                return None
        case _:
            return None
    if b not in known or not known[b].size:
        return None
    limit = next((n for n in limits if is_within(known[b], n)), None)
    if limit is not None:
        copies, terms = [], (fold.terms[0], widened(w, t.int32, limit))
    else:
        short = Buffer(f"{a.name}.int16", t.int16, a.shape)
        axes = tuple(Axis(f"i{i}", n) for i, n in enumerate(a.shape))
        copies = [Compute(short, axes, cast(Load(a, axes), t.int16))]
        terms = cast(Load(short, index), t.int32), cast(cast(w, t.int16), t.int32)
    found = replace(s, expr=rewrite(s.expr, {fold: replace(fold, terms=terms)}))
    return [*copies, found] if any(contraction(found, axis) for axis in s.axes) else None


def _products(s: Compute) -> list[Fold]:
    return [e for e in walk(s.expr) if isinstance(e, Fold) and e.kind == "dot"]


def _by_product(body: Sequence[Compute]) -> list[list[Compute]]:
    """The statements in groups: each sum of products, as those of a transposed convolution's
    phases, with what makes its factors; every other one that is still read."""
    made, plain = dict[Buffer, list[Compute]](), {body[-1].buffer.root}
    for s in body:
        loaded = dict.fromkeys(e.buffer.root for e in walk(s.expr) if isinstance(e, Load))
        before = [x for b in loaded for x in made.get(b, ()) if not _products(x)]
        made[s.buffer.root] = [*dict.fromkeys(before), s]
        if not _products(s):
            plain |= loaded.keys()
    return [
        made[s.buffer.root] if _products(s) else [s]
        for s in body
        if _products(s) or s.buffer.root in plain
    ]


def _has_small_default(x: Load) -> bool:
    return x.default is None or _within(range_of(x.default))


def _within(found: Range | None) -> bool:
    return found is not None and t.int16.min <= found[0] and found[1] <= t.int16.max


def _fits(
    b: Buffer, launch: Launch, body: list[Compute], fold: Fold, known: Mapping[str, Array]
) -> bool:
    """Whether all elements of a factor fit int16, and the fold alone reads it."""
    every = [e for s in body for e in walk(s.expr) if isinstance(e, Load) and e.buffer.root is b]
    if any(e not in fold.terms for e in every):
        return False
    for s in body:
        if s.buffer.root is b:
            return _within(range_of(s.expr))
    names = [n for n, x in zip(launch.reads, launch.kernel.inputs, strict=True) if x is b]
    value = known.get(names[0] or "") if names else None
    return value is not None and (value.size == 0 or _within((int(value.min()), int(value.max()))))


def range_of(e: Expr) -> Range | None:
    """The least and the greatest value of an int32 expression of small integers."""
    match e:
        case Const(value, _) if e.dtype.is_integer:
            return int(value), int(value)
        case Cast(x, t.int32) if x.dtype.is_integer and x.dtype.bits <= 16:
            return x.dtype.min, x.dtype.max
        case Alu("sub", (a, b), t.int32):
            left, right = range_of(a), range_of(b)
            if left is not None and right is not None and _within(left) and _within(right):
                return left[0] - right[1], left[1] - right[0]
    return None


def _stored(
    launch: Launch,
    body: list[Compute],
    factors: set[Buffer],
    tensors: dict[str, TensorType],
    weights: dict[str, Array],
) -> Launch:
    """The launch with factors of int16, in the weights and between its statements."""
    short = {b: Buffer(b.name, t.int16, b.shape) for b in factors}
    reads = list(launch.reads)
    for i, b in enumerate(launch.kernel.inputs):
        whole = reads[i]
        if b in short and whole is not None:
            name = reads[i] = unused(f"{whole}.int16", tensors)
            weights[name] = np.asarray(weights[whole]).astype(np.int16)
            tensors[name] = TensorType(t.int16, b.shape)

    def load(e: Load) -> Expr | None:
        root = short.get(e.buffer.root)
        if root is None:
            return None
        own = root if e.buffer.base is None else replace(e.buffer, dtype=t.int16, base=root)
        default = None if e.default is None else cast(e.default, t.int16)
        if isinstance(e.default, Const):
            default = Const(e.default.value, t.int16)
        return cast(Load(own, e.index, e.mode, default), t.int32)

    made: list[Compute] = []
    for s in body:
        expr, target = rewrite(s.expr, {}, load), short.get(s.buffer, s.buffer)
        made.append(Compute(target, s.axes, cast(expr, target.dtype)))
    inputs = tuple(b and short.get(b, b) for b in launch.kernel.inputs)
    kernel = replace(launch.kernel, inputs=inputs, body=tuple(made))
    return replace(launch, kernel=kernel, reads=tuple(reads))
