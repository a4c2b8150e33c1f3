"""Expressions of the kernel IR, and the functions that build them (grammar: kernel/ir.py).

Expressions are DAGs compared by identity. The constructors at the end (`const`, `cast`, `alu`,
`where`) check types, widen storage types, and do arithmetic on sizes at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan
from typing import Literal, TypeAlias, Union

import numpy as np

from sardonyx import types as t
from sardonyx.dims import Dim, Poly
from sardonyx.errors import InternalError, UnsupportedModel
from sardonyx.kernel import arith
from sardonyx.kernel.alu import ALU
from sardonyx.types import Array, DType

Mode: TypeAlias = Literal["proven", "guard", "trap"]
Number: TypeAlias = int | float | bool
Operand: TypeAlias = Union["Expr", Number, Poly]
FOLD_KINDS = ("dot", "sum", "prod", "min", "max", "and", "or")


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """A tensor as the kernel sees it. `data` makes it a constant table; `base` makes it another
    shape of the bytes of `base` (row-major, the same number of elements and dtype). `start`: its
    element 0 lies there (() is at 0), so that a Compute over fewer elements writes a box of it."""

    name: str
    dtype: DType
    shape: tuple[Dim, ...]
    data: Array | None = None
    base: Buffer | None = None
    start: tuple[Dim, ...] = ()

    @property
    def root(self) -> Buffer:
        """The buffer that owns the bytes."""
        return self if self.base is None else self.base.root


class Expr:
    """The base of all expression nodes. Operators build Alu nodes; == compares identity."""

    __slots__ = ()
    dtype: DType

    def __add__(self, other: Operand) -> Expr:
        return alu("add", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return alu("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return alu("sub", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return alu("sub", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return alu("mul", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return alu("mul", other, self)

    def __floordiv__(self, other: Operand) -> Expr:
        return alu("idiv", self, other)

    def __rfloordiv__(self, other: Operand) -> Expr:
        return alu("idiv", other, self)

    def __mod__(self, other: Operand) -> Expr:
        return alu("imod", self, other)

    def __rmod__(self, other: Operand) -> Expr:
        return alu("imod", other, self)

    def __and__(self, other: Operand) -> Expr:
        return alu("and", self, other)

    def __or__(self, other: Operand) -> Expr:
        return alu("or", self, other)

    def __xor__(self, other: Operand) -> Expr:
        return alu("xor", self, other)

    def __lshift__(self, other: Operand) -> Expr:
        return alu("shl", self, other)

    def __rshift__(self, other: Operand) -> Expr:
        return alu("shr", self, other)

    def __truediv__(self, other: Operand) -> Expr:
        return divide(self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return divide(other, self)

    def __neg__(self) -> Expr:
        return alu("neg", self)

    def __invert__(self) -> Expr:
        return alu("not", self)

    def __lt__(self, other: Operand) -> Expr:
        return alu("lt", self, other)

    def __le__(self, other: Operand) -> Expr:
        return alu("le", self, other)

    def __gt__(self, other: Operand) -> Expr:
        return alu("lt", other, self)

    def __ge__(self, other: Operand) -> Expr:
        return alu("le", other, self)

    def eq(self, other: Operand) -> Expr:
        """Equality of values (== compares nodes)."""
        return alu("eq", self, other)

    def ne(self, other: Operand) -> Expr:
        return alu("ne", self, other)

    def cast(self, dtype: DType) -> Expr:
        return cast(self, dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Const(Expr):
    value: Number
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Size(Expr):
    dim: Dim
    dtype: DType = field(default=t.int64, init=False)


@dataclass(frozen=True, slots=True, eq=False)
class Axis(Expr):
    name: str
    extent: Dim
    dtype: DType = field(default=t.int64, init=False)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, eq=False)
class Local(Expr):
    name: str
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Load(Expr):
    buffer: Buffer
    index: tuple[Expr, ...]
    mode: Mode = "proven"
    default: Expr | None = None
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.buffer.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Alu(Expr):
    op: str
    args: tuple[Expr, ...]
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class Cast(Expr):
    """saturate: whether floats of at most 8 bits stop at their greatest finite value. toward:
    up | down | nearest, the rounding of float8e8m0."""

    x: Expr
    dtype: DType
    saturate: bool = True
    toward: str = "up"


@dataclass(frozen=True, slots=True, eq=False)
class Where(Expr):
    cond: Expr
    a: Expr
    b: Expr
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.a.dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Fold(Expr):
    kind: str
    axes: tuple[Axis, ...]
    terms: tuple[Expr, ...]
    when: Expr | None = None
    dtype: DType = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", self.terms[0].dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Iterate(Expr):
    """`step` applied `count` times, first to `start`: both are within the extent of `axis`, which
    stands for the value in `step`."""

    axis: Axis
    start: Expr
    step: Expr
    count: int
    dtype: DType = field(default=t.int64, init=False)


def constant_buffer(name: str, data: Array) -> Buffer:
    """A constant table of a kernel."""
    dtype = t.by_numpy(data.dtype)
    assert dtype is not None, data.dtype
    return Buffer(name, dtype, data.shape, np.ascontiguousarray(data).reshape(data.shape))


def const(value: Number, dtype: DType) -> Const:
    """A constant of `dtype`; a float is rounded to the type, a NaN the quiet one, an integer must
    fit."""
    if dtype.is_integer:
        value = int(value)
        if not dtype.min <= value <= dtype.max:
            raise InternalError(f"the constant {value} does not fit {dtype}")
    elif dtype.kind == "b":
        value = bool(value)
    elif dtype.kind == "f":
        with np.errstate(over="ignore"):
            value = float(arith.cast(np.asarray(value, np.float64), t.float64, dtype))
        value = value if value == value else nan
    return Const(value, dtype)


def lift(x: Operand, like: DType = t.int64) -> Expr:
    """An operand as an expression; bare numbers take the type `like`, dims are int64."""
    if isinstance(x, Expr):
        return x
    if isinstance(x, Poly):
        return Size(x)
    return const(x, like)


def widen(e: Expr) -> Expr:
    """e in its compute type."""
    compute = t.by_name(e.dtype.compute)
    return e if compute is e.dtype else cast(e, compute)


def cast(e: Expr, dtype: DType, saturate: bool = True, toward: str = "up") -> Expr:
    """e converted to dtype, rounding once; no node where nothing changes."""
    if e.dtype is dtype:
        return e
    _refuse_complex(e.dtype, dtype)
    holds = dtype.is_float and not dtype.is_storage and dtype.bits >= e.dtype.bits
    if isinstance(e, Const) and e.dtype.is_float and holds:
        return Const(e.value, dtype)
    return Cast(e, dtype, saturate, toward)


def reinterpret(e: Expr, dtype: DType) -> Expr:
    """The bits of e as an element of another type of its width."""
    _refuse_complex(e.dtype, dtype)
    return e if e.dtype is dtype else Alu("bits", (e,), dtype)


def _refuse_complex(*dtypes: DType) -> None:
    if any(d.kind == "c" for d in dtypes):
        raise UnsupportedModel("complex numbers are moved, but not computed with")


def alu(op: str, *operands: Operand) -> Expr:
    """One arithmetic operation; operands agree in type, numbers adapt to their neighbours."""
    arity, kinds, result = ALU[op]
    typed = next((x.dtype for x in operands if isinstance(x, Expr)), t.int64)
    compute = t.by_name(typed.compute)
    args = tuple(widen(lift(x, compute)) for x in operands)
    dtypes = {a.dtype for a in args}
    _refuse_complex(*dtypes)
    if len(args) != arity or len(dtypes) != 1 or args[0].dtype.kind not in kinds:
        raise InternalError(f"{op} does not take ({', '.join(a.dtype.name for a in args)})")
    dtype = args[0].dtype
    if result == "bool":
        dtype = t.bool_
    elif result == "bits":
        dtype = t.by_name(f"{'int' if dtype.is_float else 'float'}{dtype.bits}")
    return _fold_constant(op, args, dtype)


def _fold_constant(op: str, args: tuple[Expr, ...], dtype: DType) -> Expr:
    """Index arithmetic on constants and sizes is done here, so that shapes stay readable."""
    if dtype is t.int64 and op in ("add", "sub", "mul"):
        dims = [_dim(a) for a in args]
        a, b = dims[0], dims[1]
        if a is not None and b is not None:
            value = a + b if op == "add" else a - b if op == "sub" else a * b
            if not isinstance(value, int):
                return Size(value)
            if t.int64.min <= value <= t.int64.max:
                return Const(value, dtype)
        if b == 0 and op in ("add", "sub"):
            return args[0]
        if a == 0 and op == "add":
            return args[1]
        if b == 1 and op == "mul":
            return args[0]
        if a == 1 and op == "mul":
            return args[1]
    return Alu(op, args, dtype)


def _dim(e: Expr) -> Dim | None:
    match e:
        case Const(value, t.int64):
            return int(value)
        case Size(dim):
            return dim
    return None


def where(cond: Operand, a: Operand, b: Operand) -> Expr:
    """a where cond holds, else b."""
    typed = next((x.dtype for x in (a, b) if isinstance(x, Expr)), t.int64)
    x, y = lift(a, typed), lift(b, typed)
    if x.dtype is not y.dtype:
        x, y = widen(x), widen(y)
    if x.dtype is not y.dtype:
        raise InternalError(f"where cannot choose between {x.dtype} and {y.dtype}")
    c = lift(cond, t.bool_)
    if isinstance(c, Const):
        return x if c.value else y
    return Where(c, x, y)


def divide(a: Operand, b: Operand) -> Expr:
    """IEEE division of floats, division towards zero of integers."""
    typed = next(x.dtype for x in (a, b) if isinstance(x, Expr))
    return alu("div" if typed.is_float else "tdiv", a, b)
