"""Pools that take the p-norm of a window, or of all places of a channel."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sardonyx.dims import Dim
from sardonyx.errors import InvalidModel
from sardonyx.kernel import elementary as fn
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, alu, const
from sardonyx.ops.pool import global_shape
from sardonyx.ops.registry import operator
from sardonyx.ops.window import window


@operator("LpPool", 1, accuracy="approximate")
def lp_pool_1(
    k: Builder,
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    kernel_shape: Sequence[int] | None = None,
    p: float = 2.0,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    if kernel_shape is None:
        raise InvalidModel("LpPool needs a kernel_shape")
    return _lp_pool(k, x, p, kernel_shape, strides, None, auto_pad, pads, 0)


@operator("LpPool", 2, 11, 18, 22, accuracy="approximate")
def lp_pool(
    k: Builder,
    x: Tensor,
    *,
    kernel_shape: Sequence[int],
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: Sequence[int] | None = None,
    p: int = 2,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    return _lp_pool(k, x, p, kernel_shape, strides, dilations, auto_pad, pads, ceil_mode)


def _lp_pool(
    k: Builder,
    x: Tensor,
    p: float,
    kernel_shape: Sequence[int],
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    auto_pad: str,
    pads: Sequence[int] | None,
    ceil_mode: int,
) -> Tensor:
    """The norm of the elements of each window; padding is present, as zeros."""
    win = window(x.shape[2:], kernel_shape, strides, dilations, auto_pad, pads, ceil_mode)

    def element(n: Axis, c: Axis, *o: Axis) -> Expr:
        return norm(k, win.kernel, lambda *r: x.guard((n, c, *win.at(o, r))), p)

    return k.compute((*x.shape[:2], *win.output), element, x.dtype)


@operator("GlobalLpPool", 1, accuracy="approximate")
def global_lp_pool_1(k: Builder, x: Tensor, *, p: float = 2.0) -> Tensor:
    return _global_lp_pool(k, x, p)


@operator("GlobalLpPool", 2, 22, accuracy="approximate")
def global_lp_pool(k: Builder, x: Tensor, *, p: int = 2) -> Tensor:
    return _global_lp_pool(k, x, p)


def _global_lp_pool(k: Builder, x: Tensor, p: float) -> Tensor:
    def element(n: Axis, c: Axis, *_: Axis) -> Expr:
        return norm(k, x.shape[2:], lambda *r: x[(n, c, *r)], p)

    return k.compute(global_shape(x), element, x.dtype)


def norm(k: Builder, extents: Sequence[Dim], term: Callable[..., Expr], p: float) -> Expr:
    """The p-norm of the terms."""
    if not p > 0:
        raise InvalidModel(f"p is {p}, expected more than 0")
    if p == 1:
        return k.sum(extents, lambda *r: alu("abs", term(*r)))
    if p == 2:
        return alu("sqrt", k.sum(extents, lambda *r: square(term(*r))))

    def power(x: Expr, y: float) -> Expr:
        return fn.pow(x, const(y, x.dtype))

    total = k.sum(extents, lambda *r: power(alu("abs", term(*r)), p))
    return power(total, 1.0 / p)


def square(x: Expr) -> Expr:
    return x * x
