"""Index expressions."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import types as t
from sardonyx.dims import Dim
from sardonyx.kernel.expr import Expr, Operand, lift, where
from sardonyx.types import DType


def replaced(index: Sequence[Expr], axis: int, by: Operand) -> tuple[Expr, ...]:
    """The index with another expression at one position."""
    return (*index[:axis], lift(by), *index[axis + 1 :])


def index_type(size: Dim) -> DType:
    """The type in which indices below size, and -1, are kept."""
    return t.int32 if isinstance(size, int) and size <= t.int32.max else t.int64


def wrapped(i: Expr, size: Dim) -> Expr:
    """An index that counts from the end where it is negative, as int64."""
    at = i.cast(t.int64)
    return where(at < 0, at + size, at)


def flat_index(index: Sequence[Expr], shape: Sequence[Dim]) -> Expr:
    """The row-major position of an index."""
    flat = lift(0)
    for i, n in zip(index, shape, strict=True):
        flat = flat * n + i
    return flat


def unflatten(flat: Expr, shape: Sequence[Dim]) -> list[Expr]:
    """The index at a row-major position; the first entry is not reduced."""
    index: list[Expr] = []
    for n in reversed(shape[1:]):
        index.insert(0, flat % n)
        flat = flat // n
    return [flat, *index]
