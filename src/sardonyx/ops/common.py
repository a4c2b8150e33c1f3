"""What several operator families share: axes, broadcasting, and small expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sardonyx import types as t
from sardonyx.dims import Dim, at_least
from sardonyx.errors import InvalidModel, Undetermined, UnsupportedModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, Operand, alu
from sardonyx.types import DType


def normalize_axis(axis: int, rank: int) -> int:
    """An axis of a tensor of that rank, counted from its end if negative; checked."""
    if not -rank <= axis < rank:
        raise InvalidModel(f"axis {axis} is not in [{-rank}, {rank - 1}] for a tensor of rank {rank}")
    return axis % rank


def normalize_axes(axes: Iterable[int], rank: int) -> tuple[int, ...]:
    """Distinct axes, each normalized, in the order given."""
    found = tuple(normalize_axis(a, rank) for a in axes)
    if len(set(found)) != len(found):
        raise InvalidModel(f"an axis occurs twice in {list(found)}")
    return found


def broadcast_shapes(*shapes: Sequence[Dim]) -> tuple[Dim, ...]:
    """The shape that NumPy broadcasting gives.

    Undetermined where it depends on the value of a symbolic dim, InvalidModel where no value fits.
    """
    rank = max((len(s) for s in shapes), default=0)
    padded = [(*[1] * (rank - len(s)), *s) for s in shapes]
    return tuple(_broadcast_dim(dims, shapes) for dims in zip(*padded, strict=True))


def _broadcast_dim(dims: Sequence[Dim], shapes: Sequence[Sequence[Dim]]) -> Dim:
    rest = list(dict.fromkeys(d for d in dims if d != 1))
    if len(rest) <= 1:
        return rest[0] if rest else 1
    a, b = rest[0], rest[1]
    difference = b - a
    if isinstance(difference, int) or any(at_least(d, 1) for d in (difference, -1 * difference)):
        smaller = a if at_least(difference, 1) else b
        if isinstance(smaller, int) or at_least(smaller, 2):
            text = " and ".join(f"({', '.join(map(str, s))})" for s in shapes)
            raise InvalidModel(f"the shapes {text} do not broadcast")
    raise Undetermined(f"whether {a} and {b} broadcast depends on symbolic dims")


def elementwise(
    k: Builder, fn: Callable[..., Operand], *xs: Tensor, dtype: DType | None = None
) -> Tensor:
    """The tensor of fn(x, ...) over broadcast operands, of the first operand's type or `dtype`."""
    shape = broadcast_shapes(*(x.shape for x in xs))
    return k.compute(
        shape, lambda *i: fn(*(x.broadcast(i) for x in xs)), dtype or xs[0].dtype
    )


def compute_type(dtype: DType) -> DType:
    """The type that arithmetic on `dtype` is done in; intermediates of one operator keep it."""
    return t.by_name(dtype.compute)


def need_dtype(code: int) -> DType:
    """The dtype of a TensorProto.DataType code; UnsupportedModel if Sardonyx has none."""
    dtype = t.by_onnx(code)
    if dtype is None:
        raise UnsupportedModel(f"the element type with code {code} is not supported")
    return dtype


def maximum(a: Operand, b: Operand) -> Expr:
    """IEEE 754-2019 maximum: a NaN wins, -0 < +0."""
    return alu("max", a, b)


def minimum(a: Operand, b: Operand) -> Expr:
    """IEEE 754-2019 minimum: a NaN wins, -0 < +0."""
    return alu("min", a, b)


def unary(op: str) -> Callable[[Operand], Expr]:
    """The alu operation of one operand called `op`, as a function."""
    return lambda x: alu(op, x)


def replaced(index: Sequence[Axis], axes: Sequence[int], by: Sequence[Operand]) -> list[Operand]:
    """The index with its positions `axes` replaced by other expressions, pairwise."""
    out: list[Operand] = list(index)
    for axis, e in zip(axes, by, strict=True):
        out[axis] = e
    return out
