"""What several operator families share: axes, broadcasting, and small expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sardonyx import types as t
from sardonyx.dims import Dim, at_least
from sardonyx.errors import InvalidModel, Undetermined, UnsupportedModel
from sardonyx.kernel.build import Builder, Tensor, is_cut
from sardonyx.kernel.expr import Expr, Operand, alu, lift
from sardonyx.types import DType


def normalize_axis(axis: int, rank: int) -> int:
    """An axis of a tensor of that rank, counted from its end if negative; checked."""
    if not -rank <= axis < rank:
        raise InvalidModel(
            f"axis {axis} is not in [{-rank}, {rank - 1}] for a tensor of rank {rank}"
        )
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
    rest = [d for d in rest if not any(is_cut(d, other) for other in rest)]
    if len(rest) <= 1:
        return rest[0] if rest else 1
    a, b = rest[0], rest[1]
    difference = b - a
    if isinstance(difference, int) or any(at_least(d, 1) for d in (difference, -1 * difference)):
        smaller, larger = (a, b) if at_least(difference, 1) else (b, a)
        if (isinstance(smaller, int) or at_least(smaller, 2)) and at_least(larger, 2):
            text = " and ".join(f"({', '.join(map(str, s))})" for s in shapes)
            raise InvalidModel(f"the shapes {text} do not broadcast")
    text = f"whether {a} and {b} broadcast depends on symbolic dims"
    raise Undetermined(text, equal=(a, b))


def elementwise(
    k: Builder, fn: Callable[..., Operand], *xs: Tensor, dtype: DType | None = None
) -> Tensor:
    """The tensor of fn(x, ...) over broadcast operands, of the first operand's type or `dtype`."""
    shape = broadcast_shapes(*(x.shape for x in xs))
    return k.compute(shape, lambda *i: fn(*(x.broadcast(i) for x in xs)), dtype or xs[0].dtype)


def compute_type(dtype: DType) -> DType:
    """The type that arithmetic on `dtype` is done in; intermediates of one operator keep it."""
    return t.by_name(dtype.compute)


def need_dtype(code: int) -> DType:
    """The dtype of a TensorProto.DataType code; UnsupportedModel if Sardonyx has none."""
    dtype = t.by_onnx(code)
    if dtype is None or dtype is t.string:
        raise UnsupportedModel(f"no kernel has the element type with code {code}")
    return dtype


def maximum(a: Operand, b: Operand) -> Expr:
    """IEEE 754-2019 maximum: a NaN wins, -0 < +0."""
    return alu("max", a, b)


def minimum(a: Operand, b: Operand) -> Expr:
    """IEEE 754-2019 minimum: a NaN wins, -0 < +0."""
    return alu("min", a, b)


def one_of(value: str, allowed: Sequence[str], what: str) -> None:
    """Refuses a word that is not one of those the operator knows."""
    if value not in allowed:
        raise InvalidModel(f"{what} {value!r} is not one of {', '.join(allowed)}")


def reduced_shape(x: Tensor, axes: Sequence[int], keepdims: bool = True) -> tuple[Dim, ...]:
    """The shape of x with `axes` of extent 1, or without them."""
    kept = [1 if d in axes else extent for d, extent in enumerate(x.shape)]
    return tuple(e for d, e in enumerate(kept) if keepdims or d not in axes)


def kept_index(index: Sequence[Operand], axes: Sequence[int], rank: int) -> tuple[Operand, ...]:
    """The index with 0 at `axes`, from an index of all `rank` dims or of the others alone."""
    if len(index) == rank:
        return tuple(0 if d in axes else i for d, i in enumerate(index))
    others = iter(index)
    return tuple(0 if d in axes else next(others) for d in range(rank))


def fold_along(
    k: Builder,
    kind: str,
    x: Tensor,
    axes: Sequence[int],
    index: Sequence[Operand],
    term: Callable[[Expr], Operand] = lambda e: e,
) -> Expr:
    """The fold of term(element) over `axes` of x, in ascending order; the index as `kept_index`
    takes it. Over no axes it is the term itself."""
    axes = sorted(axes)
    at = kept_index(index, axes, x.rank)
    if not axes:
        return lift(term(x[at]), x.dtype)
    extents = [x.shape[a] for a in axes]
    return k.fold(kind, extents, lambda *r: term(x[tuple(replaced(at, axes, r))]))


def replaced(index: Sequence[Operand], axes: Sequence[int], by: Sequence[Operand]) -> list[Operand]:
    """The index with its positions `axes` replaced, pairwise."""
    out = list(index)
    for axis, e in zip(axes, by, strict=True):
        out[axis] = e
    return out
