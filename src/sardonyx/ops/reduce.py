"""Reductions: Reduce*, ArgMax and ArgMin."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sardonyx import types as t
from sardonyx.dims import product
from sardonyx.errors import InvalidModel
from sardonyx.kernel import elementary as fn
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Expr, Operand, alu, cast, lift, where
from sardonyx.ops.common import (
    compute_type,
    fold_along,
    kept_index,
    normalize_axes,
    normalize_axis,
    reduced_shape,
    replaced,
)
from sardonyx.ops.index import flat_index
from sardonyx.ops.registry import Accuracy, operator

Reduction = Callable[[Builder, Tensor, tuple[int, ...], bool], Tensor]


def folded(
    kind: str,
    term: Callable[[Expr], Operand] = lambda e: e,
    finish: Callable[[Expr], Expr] = lambda e: e,
) -> Reduction:
    """The reduction finish(fold of term(x))."""

    def reduction(k: Builder, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
        return k.compute(
            reduced_shape(x, axes, keepdims),
            lambda *i: finish(fold_along(k, kind, x, axes, i, term)),
            x.dtype,
        )

    return reduction


def extremum(kind: str, of_bool: str) -> Reduction:
    def reduction(k: Builder, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
        return folded(of_bool if x.dtype is t.bool_ else kind)(k, x, axes, keepdims)

    return reduction


def mean(k: Builder, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    count = lift(product([x.shape[a] for a in axes]))
    return folded("sum", finish=lambda s: s / cast(count, s.dtype))(k, x, axes, keepdims)


def log_sum_exp(k: Builder, x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """log(sum(exp(x - m))) + m, with m the maximum, or 0 where that is infinite."""
    dtype = compute_type(x.dtype) if x.dtype.is_float else t.float64

    def finite_max(*i: Operand) -> Expr:
        top = cast(fold_along(k, "max", x, axes, i), dtype)
        return where(alu("abs", top).eq(float("inf")), 0, top)

    def element(*i: Operand) -> Expr:
        m = top[kept_index(i, axes, x.rank)]
        return fn.log(fold_along(k, "sum", x, axes, i, lambda e: fn.exp(cast(e, dtype) - m))) + m

    top = k.compute(reduced_shape(x, axes), finite_max, dtype)
    return k.compute(reduced_shape(x, axes, keepdims), element, x.dtype)


def in_float(f: Callable[[Expr], Expr]) -> Callable[[Expr], Expr]:
    """f of an integer: computed in float64, truncated."""
    return lambda e: cast(f(e if e.dtype.is_float else cast(e, t.float64)), e.dtype)


def square(e: Expr) -> Expr:
    return e * e


# name, versions with an attribute `axes`, versions with an input `axes`, reduction, accuracy
REDUCTIONS: tuple[tuple[str, tuple[int, ...], tuple[int, ...], Reduction, Accuracy], ...] = (
    ("ReduceL1", (1, 11, 13), (18,), folded("sum", lambda e: alu("abs", e)), "rounding"),
    ("ReduceL2", (1, 11, 13), (18,),
     folded("sum", square, in_float(lambda e: alu("sqrt", e))), "rounding"),
    ("ReduceLogSum", (1, 11, 13), (18, 28), folded("sum", finish=in_float(fn.log)), "approximate"),
    ("ReduceLogSumExp", (1, 11, 13), (18, 28), log_sum_exp, "approximate"),
    ("ReduceMax", (1, 11, 12, 13), (18, 20), extremum("max", "or"), "exact"),
    ("ReduceMean", (1, 11, 13), (18,), mean, "rounding"),
    ("ReduceMin", (1, 11, 12, 13), (18, 20), extremum("min", "and"), "exact"),
    ("ReduceProd", (1, 11, 13), (18,), folded("prod"), "rounding"),
    ("ReduceSum", (1, 11), (13,), folded("sum"), "rounding"),
    ("ReduceSumSquare", (1, 11, 13), (18,), folded("sum", square), "rounding"),
)  # fmt: skip


def _reduction(
    name: str,
    by_attribute: tuple[int, ...],
    by_input: tuple[int, ...],
    reduction: Reduction,
    accuracy: Accuracy,
) -> None:
    @operator(name, *by_attribute, accuracy=accuracy)
    def define_legacy(
        k: Builder, data: Tensor, *, axes: Sequence[int] | None = None, keepdims: int = 1
    ) -> Tensor:
        chosen = normalize_axes(axes or range(data.rank), data.rank)
        return reduction(k, data, chosen, bool(keepdims))

    @operator(name, *by_input, accuracy=accuracy)
    def define(
        k: Builder,
        data: Tensor,
        axes: Tensor | None = None,
        *,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> Tensor:
        given = [] if axes is None or axes.shape == (0,) else axes.ints()
        if not given and noop_with_empty_axes:
            return reduction(k, data, (), bool(keepdims))
        chosen = normalize_axes(given or range(data.rank), data.rank)
        return reduction(k, data, chosen, bool(keepdims))


for _row in REDUCTIONS:
    _reduction(*_row)


def position(
    k: Builder, kind: str, x: Tensor, axes: Sequence[int], keepdims: bool = True, last: bool = False
) -> Tensor:
    """Where along `axes` (flattened) the first or last extremum of x stands.

    A NaN is the extremum where there is one, as in NumPy.
    """
    axes = sorted(axes)
    best = k.compute(reduced_shape(x, axes), lambda *i: fold_along(k, kind, x, axes, i), x.dtype)
    extents = [x.shape[a] for a in axes]

    def element(*i: Operand) -> Expr:
        at = kept_index(i, axes, x.rank)

        def candidate(*r: Expr) -> Expr:
            e = x[tuple(replaced(at, axes, r))]
            return where(e.eq(best[at]) | is_nan(e), flat_index(r, extents), beyond)

        return k.fold("max" if last else "min", extents, candidate)

    beyond = -1 if last else product(extents)
    return k.compute(reduced_shape(x, axes, keepdims), element, t.int64)


def is_nan(e: Expr) -> Expr:
    return alu("isnan", e) if e.dtype.is_float else lift(False, t.bool_)


def _arg(name: str, kind: str) -> None:
    @operator(name, 1, 11)
    def define_legacy(k: Builder, data: Tensor, *, axis: int = 0, keepdims: int = 1) -> Tensor:
        return define(k, data, axis=axis, keepdims=keepdims)

    @operator(name, 12, 13)
    def define(
        k: Builder, data: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
    ) -> Tensor:
        a = normalize_axis(axis, data.rank)
        if data.shape[a] == 0:
            raise InvalidModel(f"{name} over the empty axis {a}")
        return position(k, kind, data, [a], bool(keepdims), bool(select_last_index))


_arg("ArgMax", "max")
_arg("ArgMin", "min")
