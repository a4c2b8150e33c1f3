"""The kernel IR interpreted with NumPy: the meaning of every kernel, and the machine's step.

An expression is evaluated at all points of its axes at once: each axis is an array along a
dimension of its own, and NumPy's broadcasting does the rest. The axes of a fold become new leading
dimensions, over which the fold then runs in its order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product as cartesian
from math import prod
from typing import Any

import numpy as np

from sardonyx import types as t
from sardonyx.dims import Dim
from sardonyx.errors import InternalError, RunError
from sardonyx.kernel import arith
from sardonyx.kernel.expr import (
    Alu,
    Axis,
    Buffer,
    Cast,
    Const,
    Expr,
    Fold,
    Iterate,
    Load,
    Local,
    Size,
    Where,
)
from sardonyx.kernel.folds import BUDGET, blocks, fused_dot, identity, lanes, select
from sardonyx.kernel.ir import (
    Compute,
    For,
    If,
    Kernel,
    Set,
    Stmt,
    Store,
    expressions,
    lasting,
    statements,
)
from sardonyx.kernel.walk import children, free_axes, is_move, walk
from sardonyx.types import Array


@dataclass(slots=True, eq=False)
class _Scope:
    """Where expressions are evaluated: what axes and locals stand for, and what is known.

    `needs` are the axes that a node depends on, `traps` the nodes with a trap load below them.
    `rank` is the number of dimensions of the arrays here; `bound` are the axes that this scope
    adds to its parent, `mask` says at which points the evaluation counts (None: at all). `orders`
    has the nodes of each expression in the order of their evaluation.
    """

    arrays: Mapping[Buffer, Array]
    axes: dict[Axis, Array]
    locals: dict[Local, Array]
    fused: bool
    needs: Mapping[int, frozenset[Axis]]
    traps: frozenset[int]
    rank: int = 0
    parent: _Scope | None = None
    bound: frozenset[Axis] = frozenset()
    mask: Array | None = None
    memo: dict[int, Array] = field(default_factory=dict)
    orders: dict[int, tuple[Expr, ...]] = field(default_factory=dict)


def interpret(kernel: Kernel, arrays: Mapping[Buffer, Array], fused: bool = True) -> None:
    """Runs a kernel of concrete extents: `arrays` has one array per root buffer (inputs, outputs,
    temporaries); outputs and temporaries are written in place. fused=False is numerics="unfused".

    Raises RunError where a trap load or a store is out of bounds.
    """
    constants = {b: b.data for b in kernel.constants if b.data is not None}
    roots = [e for s in statements(kernel.body) for e in expressions(s)]
    scope = _Scope({**arrays, **constants}, {}, {}, fused, free_axes(*roots), _trapping(roots))
    with np.errstate(all="ignore"):
        for s in kernel.body:
            _execute(s, scope)


def evaluate(kernel: Kernel, inputs: Sequence[Array | None], fused: bool = True) -> list[Array]:
    """The outputs of a kernel of concrete extents, freshly allocated."""
    arrays = {
        b: np.ascontiguousarray(x, b.dtype.numpy).reshape(extents(b))
        for b, x in zip(kernel.inputs, inputs, strict=True)
        if b is not None and x is not None
    }
    made = {b: np.zeros(extents(b), b.dtype.numpy) for b in (*kernel.outputs, *kernel.temporaries)}
    interpret(kernel, {**arrays, **made}, fused)
    return [made[b] for b in kernel.outputs]


def extents(b: Buffer) -> tuple[int, ...]:
    """The shape of a buffer whose dims are all numbers."""
    return tuple(_extent(d) for d in b.shape)


def _extent(d: Dim) -> int:
    if not isinstance(d, int):
        raise InternalError(f"the size {d} is not bound to a number")
    return d


def _trapping(roots: Sequence[Expr]) -> frozenset[int]:
    found: set[int] = set()
    for e in walk(*roots):
        if (isinstance(e, Load) and e.mode == "trap") or any(id(c) in found for c in children(e)):
            found.add(id(e))
    return frozenset(found)


def _within(scope: _Scope, **changes: Any) -> _Scope:
    """A fresh scope like this one, with other axes, mask, rank or parent."""
    return replace(scope, memo={}, **changes)


def _execute(s: Stmt, scope: _Scope) -> None:
    scope.memo.clear()
    match s:
        case Compute():
            _compute(s, scope)
        case For(axis, body):
            only = lasting(s)
            for i in range(_extent(axis.extent)):
                scope.axes[axis] = np.array(i, np.int64)
                if only is not None:
                    scope.memo.clear()
                    if not bool(_eval(only.cond, scope)):
                        break
                for inner in body if only is None else only.then:
                    _execute(inner, scope)
        case If(cond, then, otherwise):
            for inner in then if bool(_eval(cond, scope)) else otherwise:
                _execute(inner, scope)
        case Set(local, expr):
            scope.locals[local] = _eval(expr, scope)
        case Store(buffer, index, expr):
            at = tuple(int(_eval(i, scope)) for i in index)
            if not all(0 <= i < n for i, n in zip(at, extents(buffer), strict=True)):
                raise RunError(
                    f"a store at {list(at)} is outside {buffer.name}{list(buffer.shape)}"
                )
            _array(buffer, scope)[at] = _stored(expr, scope)


def _compute(s: Compute, scope: _Scope) -> None:
    out = _array(s.buffer, scope)
    if s.buffer.start:
        out = out[tuple(slice(_extent(a.extent)) for a in s.axes)]
    if out.size == 0:
        return
    for block in blocks(out.shape, _heaviest_sum(s.expr)):
        axes = dict(scope.axes)
        for position, (axis, part) in enumerate(zip(s.axes, block, strict=True)):
            axes[axis] = _along(part, out.ndim - position - 1)
        value = _stored(s.expr, _within(scope, axes=axes, rank=out.ndim))
        out[tuple(slice(part.start, part.stop) for part in block)] = value


def _heaviest_sum(e: Expr) -> int:
    """How many terms the largest fold that is evaluated whole has."""
    folds = [f for f in walk(e) if isinstance(f, Fold) and f.kind != "dot"]
    return max((prod(_extent(a.extent) for a in f.axes) for f in folds), default=1)


def _along(values: range, trailing: int) -> Array:
    return np.arange(values.start, values.stop).reshape((-1,) + (1,) * trailing)


def _array(buffer: Buffer, scope: _Scope) -> Array:
    root = buffer.root
    found = scope.arrays[root] if root is buffer else scope.arrays[root].reshape(extents(buffer))
    return found[tuple(slice(_extent(i), None) for i in buffer.start)] if buffer.start else found


def _stored(e: Expr, scope: _Scope) -> Array:
    value = _eval(e, scope)
    return arith.canonical_nan(value, e.dtype) if e.dtype.is_float and not is_move(e) else value


def _eval(root: Expr, scope: _Scope) -> Array:
    """The value of an expression at every point of the scope; a node is evaluated in the
    outermost scope that binds all its axes, once."""
    if id(root) not in scope.orders:
        scope.orders[id(root)] = tuple(_order(root, scope.traps))
    for e in scope.orders[id(root)]:
        home = scope
        if id(e) not in scope.traps:
            while home.parent is not None and not (scope.needs[id(e)] & home.bound):
                home = home.parent
        if id(e) not in home.memo:
            home.memo[id(e)] = _node(e, home)
    return _known(root, scope)


def _order(root: Expr, traps: frozenset[int]) -> Iterator[Expr]:
    """Nodes, operands first, without entering folds nor selections that guard a trap."""
    done: set[int] = set()
    stack = [(root, False)]
    while stack:
        e, ready = stack.pop()
        if id(e) in done:
            continue
        if ready or isinstance(e, Fold | Iterate) or (isinstance(e, Where) and id(e) in traps):
            done.add(id(e))
            yield e
        else:
            stack.append((e, True))
            stack.extend((c, False) for c in children(e))


def _known(e: Expr, scope: _Scope | None) -> Array:
    while scope is not None:
        if (found := scope.memo.get(id(e))) is not None:
            return found
        scope = scope.parent
    raise InternalError("an operand was not evaluated")


def _node(e: Expr, scope: _Scope) -> Array:
    match e:
        case Const(value, dtype):
            return np.array(value, dtype.numpy)
        case Size(dim):
            return np.array(_extent(dim), np.int64)
        case Axis():
            return scope.axes[e]
        case Local():
            return scope.locals[e]
        case Load():
            return _load(e, scope)
        case Alu(op, args, _):
            values = [_known(a, scope) for a in args]
            if op == "fma" and not scope.fused:
                return np.asarray(values[0] * values[1] + values[2])
            if op == "bits":
                return arith.reinterpret(values[0], e.dtype)
            return np.asarray(arith.MEANING[op](*values))
        case Cast(x, dtype, saturate, toward):
            return arith.cast(_known(x, scope), x.dtype, dtype, saturate, toward)
        case Where():
            return _where(e, scope)
        case Fold():
            return _fold(e, scope)
        case Iterate():
            return _iterate(e, scope)
    raise InternalError(f"{e} is not in the grammar")


def _where(e: Where, scope: _Scope) -> Array:
    if id(e) not in scope.traps:
        return np.where(_known(e.cond, scope), _known(e.a, scope), _known(e.b, scope))
    cond = _eval(e.cond, scope)
    return np.where(cond, _masked(e.a, scope, cond), _masked(e.b, scope, ~cond))


def _masked(e: Expr, scope: _Scope, mask: Array) -> Array:
    """e where the mask holds: elsewhere its traps do not count."""
    if id(e) not in scope.traps:
        return _eval(e, scope)
    mask = mask if scope.mask is None else mask & scope.mask
    return _eval(e, _within(scope, mask=mask, parent=None))


def _load(e: Load, scope: _Scope) -> Array:
    source = _array(e.buffer, scope)
    index = [_known(i, scope) for i in e.index]
    inside: Any = np.True_
    for i, n in zip(index, source.shape, strict=True):
        inside = inside & ((i >= 0) & (i < n))
    if inside.all():
        return np.asarray(source[tuple(index)])
    counts = True if scope.mask is None else scope.mask
    if e.mode == "trap" and np.any(~inside & counts):
        raise RunError(_outside(e, index, source.shape))
    if source.size == 0:
        value = np.zeros(np.broadcast_shapes(*(np.shape(i) for i in index)), source.dtype)
    else:
        last = [n - 1 for n in source.shape]
        value = source[tuple(np.clip(i, 0, n) for i, n in zip(index, last, strict=True))]
    if e.default is None:
        return np.asarray(value)
    return np.where(inside, value, _known(e.default, scope))


def _outside(e: Load, index: Sequence[Array], shape: tuple[int, ...]) -> str:
    for position, (i, n) in enumerate(zip(index, shape, strict=True)):
        bad = np.asarray(i)[(i < 0) | (i >= n)]
        if bad.size:
            return (
                f"the index {int(bad.flat[0])} is out of bounds for axis {position} of "
                f"{e.buffer.name} with size {n}"
            )
    raise InternalError("no index is out of bounds")


def _fold(e: Fold, scope: _Scope) -> Array:
    if prod(_extent(a.extent) for a in e.axes) == 0:
        return np.array(identity(e), e.dtype.numpy)
    if e.kind == "dot":
        return _dot(e, scope)
    (terms,) = _terms(e, scope, (), e.axes)
    if e.kind in ("sum", "prod"):
        return lanes(e, terms)
    return select(e, terms)


def _iterate(e: Iterate, scope: _Scope) -> Array:
    """All points at once, until no value changes any more."""
    value = _eval(e.start, scope)
    for _ in range(e.count):
        axes = {**scope.axes, e.axis: value}
        found = _eval(e.step, _within(scope, axes=axes, parent=scope, bound=frozenset((e.axis,))))
        if np.array_equal(found, value):
            break
        value = found
    return value


def _terms(e: Fold, scope: _Scope, fixed: tuple[int, ...], spread: tuple[Axis, ...]) -> list[Array]:
    """The terms with the first fold axes fixed and the others as one leading dimension."""
    axes = dict(scope.axes)
    counts = [_extent(a.extent) for a in spread]
    for axis, i in zip(e.axes, fixed, strict=False):
        axes[axis] = np.array(i, np.int64)
    for position, axis in enumerate(spread):
        axes[axis] = _along(range(counts[position]), len(spread) - position - 1 + scope.rank)
    rank = scope.rank + len(spread)
    inner = _within(scope, axes=axes, rank=rank, parent=scope, bound=frozenset(e.axes))
    when = None if e.when is None else _eval(e.when, inner)
    found = []
    for term in e.terms:
        value = _eval(term, inner) if when is None else _masked(term, inner, when)
        if when is not None and e.kind != "dot":
            value = np.where(when, value, np.array(identity(e), e.dtype.numpy))
        found.append(_leading(value, rank, counts))
    if when is not None and e.kind == "dot":
        found.append(_leading(when, rank, counts))
    return found


def _leading(x: Array, rank: int, counts: Sequence[int]) -> Array:
    """x with the fold's dimensions, spread out, merged into the first."""
    x = np.asarray(x).reshape((1,) * (rank - np.ndim(x)) + np.shape(x))
    rest = x.shape[len(counts) :]
    return np.broadcast_to(x, (*counts, *rest)).reshape((prod(counts), *rest))


def _dot(e: Fold, scope: _Scope) -> Array:
    """One fused multiply-add per term, in order, from +0."""
    acc: Array = np.array(0, e.dtype.numpy)
    extents = [_extent(a.extent) for a in e.axes]
    split = _first_spread(e, scope, extents)
    for fixed in cartesian(*(range(n) for n in extents[:split])):
        a, b, *when = _terms(e, scope, fixed, e.axes[split:])
        if e.dtype is t.float32 and scope.fused:
            acc = fused_dot(a, b, when, acc)
        elif e.dtype.is_float:
            for i in range(len(a)):
                step = acc + a[i] * b[i]
                acc = np.asarray(np.where(when[0][i], step, acc) if when else step)
        else:
            products = np.where(when[0], a * b, a.dtype.type(0)) if when else a * b
            acc = np.asarray(acc + products.sum(0, dtype=products.dtype))
    return acc


def _first_spread(e: Fold, scope: _Scope, counts: Sequence[int]) -> int:
    """The first fold axis from which on all terms can be evaluated at once within BUDGET."""
    sizes = []
    for term in e.terms:
        free = scope.needs[id(term)] - frozenset(e.axes)
        sizes.append(prod(np.size(scope.axes[a]) for a in free if a in scope.axes))
    split = 0
    while split < len(counts) and prod(counts[split:]) * max(sizes) > BUDGET:
        split += 1
    return split
