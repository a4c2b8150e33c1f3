"""The kernel IR: what one operation computes.

    kernel = Kernel(name, inputs, outputs, temporaries, constants, body: stmt*)
    buffer = Buffer(name, dtype, shape, data?, base?, start?)
    stmt   = Compute(buffer, axes, expr)              each element once, in no particular order
           | For(axis, stmt*, apart)                  in ascending order; apart: the pass that made
                                                      it answers for it that each turn writes
                                                      elements of its own, and of what it writes
                                                      reads what it wrote itself: any order gives
                                                      the same
           | If(cond, stmt*, stmt*)
           | Set(local, expr)
           | Store(buffer, index, expr, proven, raw)  traps when the index is out of bounds; proven:
                                                      the pass that made it answers for it, C does
                                                      not check again; raw: scratch for arithmetic,
                                                      where a NaN may be any
    expr   = Const(value, dtype)
           | Size(dim)                                a dim as an int64
           | Axis(name, extent)                       the index variable itself, int64
           | Local(name, dtype)
           | Load(buffer, index, mode, default?)      mode = proven | guard | trap
           | Alu(op, expr*, dtype)                    the table ALU of kernel/alu.py
           | Cast(expr, dtype, saturate, toward)      rounds once
           | Where(cond, expr, expr)
           | Fold(kind, axes, terms, when?)           kind = dot | sum | prod | min | max | and | or
           | Iterate(axis, start, step, count)        step applied count times, first to start

A kind that is not in this grammar does not exist. Expressions are DAGs compared by identity; a
shared node is evaluated once per point. Arithmetic takes place in compute types only: a storage
type (float16, bfloat16, what has fewer bits) occurs in Load, Const, Where, Cast, the operation
"bits", and as what a Compute writes.

`Fold("dot", axes, (a, b))` is the sum of products of section "Sums of products" of the numerics
contract, in the order of the axes, the last one fastest; `Fold("sum", axes, (x,))` is the 16-way
sum; a term whose `when` is false is absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, Union

from sardonyx.dims import Dim
from sardonyx.kernel.expr import Alu, Axis, Buffer, Const, Expr, Local, Size
from sardonyx.kernel.walk import walk


@dataclass(frozen=True, slots=True, eq=False)
class Compute:
    buffer: Buffer
    axes: tuple[Axis, ...]
    expr: Expr


@dataclass(frozen=True, slots=True, eq=False)
class For:
    axis: Axis
    body: tuple[Stmt, ...]
    apart: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class If:
    cond: Expr
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Set:
    local: Local
    expr: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    buffer: Buffer
    index: tuple[Expr, ...]
    expr: Expr
    proven: bool = False
    raw: bool = False


Stmt: TypeAlias = Union[Compute, For, If, Set, Store]


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """One operation, lowered. `inputs` has None where an optional input is absent.

    `views` maps an output position to the input position whose bytes it is (Reshape, Identity):
    the plan may then give both tensors one place, and the body still says how to copy.
    `equal`: symbolic dims that must be equal in each run.
    """

    name: str
    inputs: tuple[Buffer | None, ...]
    outputs: tuple[Buffer, ...]
    temporaries: tuple[Buffer, ...]
    constants: tuple[Buffer, ...]
    body: tuple[Stmt, ...]
    views: tuple[tuple[int, int], ...] = ()
    equal: tuple[tuple[Dim, Dim], ...] = ()


def statements(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement, outer ones first."""
    for s in body:
        yield s
        match s:
            case For():
                yield from statements(s.body)
            case If():
                yield from statements(s.then)
                yield from statements(s.otherwise)


def nested(axes: Sequence[Axis], body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """The loops over the axes, the first the outermost, around the body."""
    for a in reversed(axes):
        body = (For(a, tuple(body)),)
    return tuple(body)


def lasting(s: For) -> If | None:
    """All that a loop does, where it is under one condition of locals: when that has failed once,
    no later turn does anything."""
    match s.body:
        case (If(cond, _, ()) as only,) if all(
            isinstance(e, Local | Const | Size | Alu) for e in walk(cond)
        ):
            return only
    return None


def mapped(s: Stmt, value: Callable[[Expr], Expr], target: Callable[[Buffer], Buffer]) -> Stmt:
    """s with each expression that stands in it, and each buffer that it writes, replaced."""
    match s:
        case Compute():
            return replace(s, buffer=target(s.buffer), expr=value(s.expr))
        case Set():
            return replace(s, expr=value(s.expr))
        case Store():
            index = tuple(value(i) for i in s.index)
            return replace(s, buffer=target(s.buffer), index=index, expr=value(s.expr))
        case For():
            return replace(s, body=tuple(mapped(x, value, target) for x in s.body))
        case If():
            then = tuple(mapped(x, value, target) for x in s.then)
            otherwise = tuple(mapped(x, value, target) for x in s.otherwise)
            return If(value(s.cond), then, otherwise)


def expressions(s: Stmt) -> tuple[Expr, ...]:
    """The expressions that stand directly in s."""
    match s:
        case Compute() | Set():
            return (s.expr,)
        case Store():
            return (*s.index, s.expr)
        case If():
            return (s.cond,)
    return ()
