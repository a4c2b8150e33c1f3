"""What weights alone decide is computed once: scales over scales, for each channel.

    acc * (x_scale * w_scale[c] / y_scale)  ->  acc * known[c]

Constant folding takes whole launches and Computes; this takes parts of an expression that depend
on weights and at most one axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from sardonyx import types as t
from sardonyx.kernel.expr import Alu, Axis, Buffer, Cast, Const, Expr, Fold, Load, Size, alu
from sardonyx.kernel.interpret import evaluate
from sardonyx.kernel.ir import Compute, Kernel, Stmt
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import children, free_axes, is_move, walk
from sardonyx.passes.constants import drop_unused
from sardonyx.passes.program import Launch, Program, by_launch, unused
from sardonyx.types import Array, TensorType

LONGEST = 1 << 16  # elements of a vector that is worth its memory


Known: TypeAlias = Mapping[Buffer, Array]
Rewriting: TypeAlias = Callable[[Compute, Known, dict[Buffer, Array]], Compute]


def compute_known(program: Program, fused: bool = True) -> Program:
    """The program with such parts as weights."""
    return with_known(program, partial(_statement, fused=fused))


def with_known(program: Program, rewriting: Rewriting) -> Program:
    """The program with what reads weights rewritten: from a statement, the weights that its launch
    reads, and those that were made for it so far, to which it adds."""

    def made(
        launch: Launch, tensors: dict[str, TensorType], weights: dict[str, Array]
    ) -> list[Launch]:
        known = known_to(launch, weights)
        return with_made(launch, tensors, weights, rewriting) if known else [launch]

    return drop_unused(by_launch(program, made))


def known_to(launch: Launch, weights: Mapping[str, Array]) -> dict[Buffer, Array]:
    """The weights that the launch reads, by the buffers of its kernel."""
    names = zip(launch.reads, launch.kernel.inputs, strict=True)
    return {b: weights[n] for n, b in names if n and n in weights and b is not None}


def with_made(
    launch: Launch,
    tensors: dict[str, TensorType],
    weights: dict[str, Array],
    rewriting: Rewriting,
) -> list[Launch]:
    """The launch rewritten so; the weights that it is given are added."""
    known = known_to(launch, weights)
    if launch.call is not None:
        return [launch]
    made: dict[Buffer, Array] = {}
    body: list[Stmt] = []
    for s in launch.kernel.body:
        body.append(rewriting(s, known, made) if isinstance(s, Compute) else s)
    if not made:
        return [launch]
    reads = list(launch.reads)
    for b, value in made.items():
        name = unused(f"{launch.writes[0]}.{b.name}", tensors)
        tensors[name], weights[name] = TensorType(b.dtype, b.shape), value
        reads.append(name)
    inputs = (*launch.kernel.inputs, *made)
    kernel = replace(launch.kernel, inputs=inputs, body=tuple(body))
    return [replace(launch, kernel=kernel, reads=tuple(reads))]


def _statement(s: Compute, known: Known, made: dict[Buffer, Array], fused: bool) -> Compute:
    s = _gathered(s, known)
    free = free_axes(s.expr)
    inside = {id(e) for f in walk(s.expr) if isinstance(f, Fold) for e in walk(*f.terms)}
    nodes = list(walk(s.expr))
    fixed: dict[int, bool] = {}
    for e in nodes:
        fixed[id(e)] = _is_fixed(e, known, fixed)
    found: dict[Expr, Expr] = {}
    for e in _largest(s.expr, fixed):
        axes = [a for a in s.axes if a in free[id(e)]]
        if id(e) in inside or len(axes) > 1 or free[id(e)] - set(axes):
            continue
        load = _load(e, axes, known, made, fused)
        if load is not None:
            found[e] = load
    expr = rewrite(s.expr, found)
    return replace(s, expr=expr) if is_move(expr) == is_move(s.expr) else s  # as to NaN


def _gathered(s: Compute, known: Known) -> Compute:
    """s with (x - a) + b of int32 as x + (b - a), and x - a as x + -a, where a and b are weights:
    what wraps is the same in any order."""
    found: dict[Expr, Expr] = {}

    def is_known(e: Load) -> bool:
        return e.mode == "proven" and e.buffer.root in known

    for e in walk(s.expr):
        match e:
            case Alu("add", (Alu("sub", (x, Load() as a)), Load() as b), t.int32):
                if is_known(a) and is_known(b):
                    found[e] = alu("add", x, alu("sub", b, a))
            case Alu("sub", (x, Load() as a), t.int32) if is_known(a):
                found[e] = alu("add", x, alu("neg", a))
    return replace(s, expr=rewrite(s.expr, found)) if found else s


def _is_fixed(e: Expr, known: Known, fixed: Mapping[int, bool]) -> bool:
    """Whether weights, constants and axes alone decide e."""
    match e:
        case Load(buffer, index, "proven", _):
            return buffer.root in known and all(fixed[id(i)] for i in index)
        case Alu(_, args, _):
            return all(fixed[id(a)] for a in args)
        case Cast(x):
            return fixed[id(x)]
        case Size(dim):
            return isinstance(dim, int)
    return isinstance(e, Axis | Const)


def _largest(root: Expr, fixed: Mapping[int, bool]) -> list[Expr]:
    """The largest parts that are fixed, each once, with a load and some arithmetic in them."""
    found: dict[int, Expr] = {}
    todo, seen = [root], set[int]()
    while todo:
        e = todo.pop()
        if id(e) in seen:
            continue
        seen.add(id(e))
        if not fixed[id(e)]:
            todo += () if isinstance(e, Load) else children(e)
        elif _is_worth(e):
            found[id(e)] = e
    return list(found.values())


def _is_worth(e: Expr) -> bool:
    below = list(walk(e))
    counted = any(isinstance(x, Alu) and (x.dtype.is_float or x.dtype is t.int32) for x in below)
    return counted and any(isinstance(x, Load) for x in below) and not isinstance(e, Load)


def _load(
    e: Expr,
    axes: list[Axis],
    known: Known,
    made: dict[Buffer, Array],
    fused: bool,
) -> Load | None:
    """A load of the values of e over its axis."""
    extents = tuple(a.extent for a in axes)
    if not all(isinstance(n, int) and n <= LONGEST for n in extents):
        return None
    read = tuple(dict.fromkeys(x.buffer.root for x in walk(e) if isinstance(x, Load)))
    if not all(isinstance(n, int) for b in read for n in b.shape):
        return None
    target = Buffer(f"known{len(made)}", e.dtype, extents)
    own = tuple(Axis(a.name, a.extent) for a in axes)
    s = Compute(target, own, rewrite(e, dict(zip(axes, own, strict=True))))
    kernel = Kernel("known", read, (target,), (), (), (s,))
    (made[target],) = evaluate(kernel, [known[b] for b in read], fused)
    return Load(target, tuple(axes))
