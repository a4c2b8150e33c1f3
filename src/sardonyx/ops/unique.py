"""Unique: the slices of a tensor without repetitions, counted first, then filled in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sardonyx import types as t
from sardonyx.dims import Dim, product
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Expr, lift, where
from sardonyx.ops.common import normalize_axis
from sardonyx.ops.order import differs, less, stable_order
from sardonyx.ops.registry import INTERNAL, operator, sized

sized("Unique", 11, 28, count="UniqueCount", fill="UniqueFill")


@dataclass(frozen=True, slots=True)
class _Slices:
    """x as (outer, n, inner): n slices along an axis, or n elements."""

    x: Tensor

    @staticmethod
    def of(x: Tensor, axis: int | None) -> _Slices:
        if axis is None:
            return _Slices(x.reshaped((1, product(x.shape), 1)))
        a = normalize_axis(axis, x.rank)
        return _Slices(x.reshaped((product(x.shape[:a]), x.shape[a], product(x.shape[a + 1 :]))))

    @property
    def count(self) -> Dim:
        return self.x.shape[1]

    def differ(self, k: Builder, i: Expr, j: Expr) -> Expr:
        """Whether slices i and j differ."""
        outer, _, inner = self.x.shape
        if outer == inner == 1:
            return self._elements(differs, i, j, lift(0), lift(0))
        return k.fold("or", (outer, inner), lambda *q: self._elements(differs, i, j, *q))

    def before(self, k: Builder, i: Expr, j: Expr) -> Expr:
        """Whether slice i is before slice j: the first elements that differ decide."""
        outer, _, inner = self.x.shape
        if outer == inner == 1:
            return self._elements(less, i, j, lift(0), lift(0))
        if 0 in (outer, inner):
            return lift(False, t.bool_)
        at = k.fold(
            "min",
            (outer, inner),
            lambda p, q: p * inner + q,
            lambda p, q: self._elements(differs, i, j, p, q),
        )
        return self._elements(less, i, j, at // inner, at % inner)

    def _elements(
        self, relation: Callable[[Expr, Expr], Expr], i: Expr, j: Expr, p: Expr, q: Expr
    ) -> Expr:
        return relation(self.x.guard((p, i, q)), self.x.guard((p, j, q)))


@operator("UniqueCount", 1, domain=INTERNAL)
def unique_count(
    k: Builder, x: Tensor, *, axis: int | None = None, sorted: int = 1
) -> tuple[Tensor, ...]:
    """The number of distinct slices, then three tensors as long as there are slices: where each
    distinct one occurs first, which one each slice is, and how often each occurs.

    -0 equals +0, and all NaN are equal and after all numbers.
    """
    slices = _Slices.of(x, axis)
    n = slices.count
    at = stable_order(k, n, lambda i, j: slices.before(k, i, j))
    firsts, which, counts = (k.compute((n,), lambda _: 0, t.int64) for _ in range(3))
    group = k.local(lift(-1))
    with k.loop(n) as position:
        here = k.local(at(position))
        with k.when(where(position > 0, slices.differ(k, at(position - 1), here), True)):
            k.set(group, group + 1)
            k.store(firsts, (group,), here)
        k.store(which, (here,), group)
        k.store(counts, (group,), counts.guard((group,)) + 1)
    size = k.compute((), lambda: group + 1, t.int64)
    return (size, firsts, which, counts) if sorted else (size, *_as_met(k, which))


def _as_met(k: Builder, which: Tensor) -> tuple[Tensor, ...]:
    """The three tensors for groups numbered as they occur first."""
    shape = which.shape
    number = k.compute(shape, lambda _: -1, t.int64)
    firsts, renumbered, counts = (k.compute(shape, lambda _: 0, t.int64) for _ in range(3))
    met = k.local(lift(0))
    with k.loop(shape[0]) as i:
        group = k.local(which[i])
        with k.when(number.guard((group,)) < 0):
            k.store(number, (group,), met)
            k.store(firsts, (met,), i)
            k.set(met, met + 1)
        new = k.local(number.guard((group,)))
        k.store(renumbered, (i,), new)
        k.store(counts, (new,), counts.guard((new,)) + 1)
    return firsts, renumbered, counts


@operator("UniqueFill", 1, domain=INTERNAL)
def unique_fill(
    k: Builder,
    x: Tensor,
    size: Tensor,
    firsts: Tensor,
    which: Tensor,
    counts: Tensor,
    *,
    axis: int | None = None,
    sorted: int = 1,
) -> tuple[Tensor, ...]:
    """Y, indices, inverse_indices and counts."""
    slices, (n,) = _Slices.of(x, axis), size.known()
    outer, _, inner = slices.x.shape
    a = None if axis is None else normalize_axis(axis, x.rank)
    shape = (n,) if a is None else (*x.shape[:a], n, *x.shape[a + 1 :])
    y = k.tensor(shape, x.dtype)
    k.compute(
        (outer, n, inner),
        lambda p, i, q: slices.x.trap((p, firsts[i], q)),
        into=y.reshaped((outer, n, inner)),
    )
    return (
        y,
        k.compute((n,), lambda i: firsts[i]),
        k.compute(which.shape, lambda i: which[i]),
        k.compute((n,), lambda i: counts[i]),
    )
