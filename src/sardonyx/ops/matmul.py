"""MatMul and Gemm."""

from __future__ import annotations

from sardonyx.errors import InvalidModel, UnsupportedModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr
from sardonyx.ops.common import broadcast_shapes
from sardonyx.ops.registry import operator
from sardonyx.ops.sizes import agree


@operator("MatMul", 1, 9, 13, accuracy="rounding")
def matmul(k: Builder, a: Tensor, b: Tensor) -> Tensor:
    """As numpy.matmul: leading axes broadcast; a vector is a row, on the right a column."""
    if not a.rank or not b.rank:
        raise InvalidModel("MatMul takes operands of rank 1 or more")
    depth = agree(a.shape[-1], b.shape[max(b.rank - 2, 0)], "MatMul's inner sizes")
    batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    row, column = a.shape[-2:-1], b.shape[1:][-1:]

    def element(*i: Axis) -> Expr:
        to_row, to_column = len(batch), len(batch) + len(row)
        outer, m, n = i[:to_row], i[to_row:to_column], i[to_column:]
        return k.dot(
            (depth,), lambda q: (a.broadcast((*outer, *m, q)), b.broadcast((*outer, q, *n)))
        )

    return k.compute((*batch, *row, *column), element, a.dtype)


@operator("Gemm", 1, 6, accuracy="rounding")
def gemm_1(
    k: Builder,
    a: Tensor,
    b: Tensor,
    c: Tensor,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    broadcast: int = 0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    return gemm(k, a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)


@operator("Gemm", 7, 9, 11, 13, accuracy="rounding")
def gemm(
    k: Builder,
    a: Tensor,
    b: Tensor,
    c: Tensor | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Tensor:
    """alpha * (A' @ B') + beta * C, each of the three steps after the fold rounding.

    With beta = 0, C is absent (as in BLAS), so that its infinities do not show.
    """
    if a.rank != 2 or b.rank != 2:
        raise InvalidModel(f"Gemm takes matrices, found ranks {a.rank} and {b.rank}")
    rows, depth = a.shape[::-1] if transA else a.shape
    depth_b, columns = b.shape[::-1] if transB else b.shape
    depth = agree(depth, depth_b, "Gemm's inner sizes")
    if c is not None and broadcast_shapes(c.shape, (rows, columns)) != (rows, columns):
        raise InvalidModel(f"Gemm's C of shape {c.shape} does not fit ({rows}, {columns})")

    def element(i: Axis, j: Axis) -> Expr:
        product = k.dot(
            (depth,), lambda q: (a[(q, i) if transA else (i, q)], b[(j, q) if transB else (q, j)])
        )
        y = scaled(product, alpha)
        return y if c is None or beta == 0 else y + scaled(c.broadcast((i, j)), beta)

    return k.compute((rows, columns), element, a.dtype)


def scaled(e: Expr, factor: float) -> Expr:
    """e * factor; an integer takes a whole factor only."""
    if factor == 1:
        return e
    if e.dtype.is_integer and factor != int(factor):
        raise UnsupportedModel(f"Gemm scales integers by whole numbers, found {factor}")
    return e * factor
