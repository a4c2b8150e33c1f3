"""A kernel evaluated exactly on small tensors whose elements are sizes: numbers or Dims.

This is how the values of shape computations (Shape, Gather, Concat, Mul, ...) are known before the
model runs. Numbers are computed by the interpreter's own operations; a Dim is taken to fit every
integer type of at least 32 bits. What cannot be decided for all values of the symbolic dims, and
what would be a run-time error, raises Undetermined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product as cartesian
from math import prod
from typing import TypeAlias

import numpy as np

from sardonyx import types as t
from sardonyx.dims import Dim, Poly, at_least, decided, extreme, floordiv
from sardonyx.errors import Undetermined
from sardonyx.kernel.arith import MEANING
from sardonyx.kernel.expr import (
    Alu,
    Axis,
    Buffer,
    Cast,
    Const,
    Expr,
    Fold,
    Load,
    Local,
    Size,
    Where,
)
from sardonyx.kernel.folds import identity
from sardonyx.kernel.ir import Compute, For, If, Kernel, Set, Stmt, Store
from sardonyx.types import Array, DType

LIMIT = 1024  # elements of a tensor whose value is followed
STEPS = 200_000  # nodes evaluated for one kernel
Env: TypeAlias = Mapping[Expr, Dim]


def evaluate(kernel: Kernel, inputs: Sequence[Array | None]) -> list[Array]:
    """The kernel's outputs: arrays of their type where all elements are numbers, else of Dims.

    An input is None where its value is not known; that is no harm as long as it is not read.
    """
    if any(b.dtype.is_float for b in kernel.outputs):
        raise Undetermined("floats are not followed symbolically")
    run = _Run()
    for b, given in zip(kernel.inputs, inputs, strict=True):
        if b is not None and given is not None:
            run.memory[b] = list(given.reshape(-1).tolist())
    for b in kernel.constants:
        if b.data is not None:
            run.memory[b] = list(b.data.reshape(-1).tolist())
    for b in (*kernel.outputs, *kernel.temporaries):
        run.memory[b] = [None] * prod(_numbers(b.shape))
        if len(run.memory[b]) > LIMIT:
            raise Undetermined(f"{b.name} has more than {LIMIT} elements")
    run.execute(kernel.body, {})
    return [_array(b, run.memory[b]) for b in kernel.outputs]


def _array(b: Buffer, elements: list[Dim | None]) -> Array:
    if any(v is None for v in elements):
        raise Undetermined(f"{b.name} is not written everywhere")
    numbers = all(isinstance(v, int) for v in elements)
    if numbers:
        return np.array(elements, b.dtype.numpy).reshape(_numbers(b.shape))
    out = np.empty(len(elements), object)
    out[:] = elements
    return out.reshape(_numbers(b.shape))


def _numbers(dims: Sequence[Dim]) -> tuple[int, ...]:
    found = tuple(d for d in dims if isinstance(d, int))
    if len(found) != len(dims):
        raise Undetermined(f"the sizes {tuple(dims)} are not numbers")
    return found


@dataclass(slots=True, eq=False)
class _Run:
    memory: dict[Buffer, list[Dim | None]] = field(default_factory=dict)
    locals: dict[Expr, Dim] = field(default_factory=dict)
    left: int = STEPS

    def execute(self, body: tuple[Stmt, ...], env: Env) -> None:
        for s in body:
            match s:
                case Compute(buffer, axes, expr):
                    for at, inner in self.points(axes, env):
                        self.write(buffer, at, self.value(expr, inner))
                case Store(buffer, index, expr):
                    at = _numbers([self.value(i, env) for i in index])
                    self.write(buffer, at, self.value(expr, env))
                case Set(local, expr):
                    self.locals[local] = self.value(expr, env)
                case If(cond, then, otherwise):
                    self.execute(then if self.value(cond, env) else otherwise, env)
                case For(axis, inside):
                    for _, inner in self.points((axis,), env):
                        self.execute(inside, inner)

    def points(self, axes: tuple[Axis, ...], env: Env) -> Iterator[tuple[tuple[int, ...], Env]]:
        """Every point of the axes, the last one fastest."""
        for at in cartesian(*(range(n) for n in _numbers([a.extent for a in axes]))):
            self.tick()
            yield at, {**env, **dict(zip(axes, at, strict=True))}

    def tick(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Undetermined("it takes too many steps to know the value")

    def write(self, buffer: Buffer, at: tuple[int, ...], value: Dim) -> None:
        place = _place(buffer, at)
        if place is None:
            raise Undetermined(f"the store to {buffer.name} is out of bounds")
        self.memory[buffer.root][place] = value

    def value(self, root: Expr, env: Env) -> Dim:
        """root at one point; a Where evaluates only the branch it takes."""
        known: dict[Expr, Dim] = {}
        stack = [root]
        while stack:
            e = stack[-1]
            if e in known:
                stack.pop()
                continue
            self.tick()
            needed = [x for x in self.needs(e, known) if x not in known]
            if needed:
                stack += needed
            else:
                known[e] = self.node(e, known, env)
        return known[root]

    def needs(self, e: Expr, known: Mapping[Expr, Dim]) -> tuple[Expr, ...]:
        """What must be known to know e, as far as it can be told now."""
        match e:
            case Where(cond, a, b):
                return (cond, a if known[cond] else b) if cond in known else (cond,)
            case Load(buffer, index, _, default):
                if default is None or any(i not in known for i in index):
                    return index
                inside = _place(buffer, _numbers([known[i] for i in index])) is not None
                return index if inside else (*index, default)
            case Alu():
                return e.args
            case Cast():
                return (e.x,)
        return ()

    def node(self, e: Expr, known: Mapping[Expr, Dim], env: Env) -> Dim:
        match e:
            case Const(value, dtype) if not dtype.is_float:
                return value if isinstance(value, bool) else int(value)
            case Size(dim):
                return dim
            case Axis():
                return env[e]
            case Local():
                return self.locals[e]
            case Where(cond, a, b):
                return known[a if known[cond] else b]
            case Load():
                return self.load(e, known)
            case Alu(op, args, _):
                return _alu(op, args[0].dtype, [known[a] for a in args])
            case Cast(x, dtype) if not (x.dtype.is_float or dtype.is_float):
                return _cast(known[x], dtype)
            case Fold() if not e.dtype.is_float:
                return self.fold(e, env)
        raise Undetermined("floats are not followed symbolically")

    def load(self, e: Load, known: Mapping[Expr, Dim]) -> Dim:
        place = _place(e.buffer, _numbers([known[i] for i in e.index]))
        if place is None:
            if e.default is None:
                raise Undetermined(f"the load of {e.buffer.name} is out of bounds")
            return known[e.default]
        cells = self.memory.get(e.buffer.root)
        value = None if cells is None else cells[place]
        if value is None:
            raise Undetermined(f"the value of {e.buffer.name} is not known", e.buffer.root.name)
        return value

    def fold(self, e: Fold, env: Env) -> Dim:
        op = FOLDS[e.kind]
        total: Dim | None = None
        for _, inner in self.points(e.axes, env):
            if e.when is not None and not self.value(e.when, inner):
                continue
            term = self.value(e.terms[0], inner)
            if e.kind == "dot":
                term = _alu("mul", e.dtype, [term, self.value(e.terms[1], inner)])
            total = term if total is None else _alu(op, e.dtype, [total, term])
        return int(identity(e)) if total is None else total


FOLDS = {
    "dot": "add", "sum": "add", "prod": "mul", "min": "min", "max": "max", "and": "and", "or": "or",
}  # fmt: skip


def _place(buffer: Buffer, at: tuple[int, ...]) -> int | None:
    """The row-major position of an element, None out of bounds."""
    place = 0
    for i, n in zip(at, _numbers(buffer.shape), strict=True):
        if not 0 <= i < n:
            return None
        place = place * n + i
    return place


def _alu(op: str, dtype: DType, args: list[Dim]) -> Dim:
    if all(isinstance(a, int) for a in args) and not dtype.is_float and op != "bits":
        with np.errstate(all="ignore"):
            found = MEANING[op](*(np.asarray([a], dtype.numpy) for a in args))
        number: bool | int | float = found.reshape(()).item()
        if isinstance(number, int):
            return number
    rule = SYMBOLIC.get(op)
    if rule is None or dtype.bits < 32:
        raise Undetermined(f"{op} of {', '.join(map(str, args))} is not decided")
    result = rule(*args)
    if dtype.kind == "u" and not at_least(result, 0):
        raise Undetermined(f"whether {op} of {', '.join(map(str, args))} wraps is not decided")
    return result


def _cast(value: Dim, dtype: DType) -> Dim:
    if dtype is t.bool_:
        return not _equal(value, 0)
    if isinstance(value, Poly):
        if dtype.bits < 32 or (dtype.kind == "u" and not at_least(value, 0)):
            raise Undetermined(f"the cast of {value} to {dtype} is not decided")
        return value
    wrapped = int(value) & ((1 << dtype.bits) - 1)
    return wrapped - (1 << dtype.bits) if wrapped > dtype.max else wrapped


def _less(a: Dim, b: Dim) -> bool:
    less = decided(b - a - 1)
    if less is None:
        raise Undetermined(f"whether {a} < {b} depends on symbolic dims")
    return less


def _equal(a: Dim, b: Dim) -> bool:
    if a == b:
        return True
    if at_least(b - a, 1) or at_least(a - b, 1):
        return False
    raise Undetermined(f"whether {a} == {b} depends on symbolic dims")


def _whole(a: Dim, b: Dim) -> Dim:
    """floor(a / b) where b is known not to be 0."""
    if isinstance(b, int) and b == 0:
        return 0
    if at_least(b, 1) or at_least(-b, 1):
        return floordiv(a, b)
    raise Undetermined(f"whether {b} is 0 depends on symbolic dims")


def _toward_zero(a: Dim, b: Dim) -> Dim:
    if not at_least(b, 1):
        raise Undetermined(f"the sign of {b} depends on symbolic dims")
    if at_least(a, 0):
        return floordiv(a, b)
    if at_least(-a, 0):
        return -floordiv(-a, b)
    raise Undetermined(f"the sign of {a} depends on symbolic dims")


SYMBOLIC: dict[str, Callable[..., Dim]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "abs": lambda a: extreme("max", a, -a),
    "min": lambda a, b: extreme("min", a, b),
    "max": lambda a, b: extreme("max", a, b),
    "idiv": _whole,
    "imod": lambda a, b: a - b * _whole(a, b),
    "tdiv": _toward_zero,
    "fmod": lambda a, b: a - b * _toward_zero(a, b),
    "lt": _less,
    "le": lambda a, b: not _less(b, a),
    "eq": _equal,
    "ne": lambda a, b: not _equal(a, b),
}
