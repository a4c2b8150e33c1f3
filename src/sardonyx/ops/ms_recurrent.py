"""Recurrent operators of com.microsoft."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sardonyx import types as t
from sardonyx.dims import Dim
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, cast
from sardonyx.ops.common import fold_along
from sardonyx.ops.ms_common import contrib, needed
from sardonyx.ops.ms_matmul import dynamically_quantized
from sardonyx.ops.recurrent import long_short_term
from sardonyx.ops.recurrent_activation import functions
from sardonyx.ops.recurrent_cell import Cell
from sardonyx.ops.sizes import agree


@dataclass(frozen=True, slots=True, eq=False)
class _Matrix:
    """Weights of 8 bits (directions, terms, columns), the columns of all gates side by side. scale
    and zero_point: (directions,), or (directions, columns). sums: int32 of each column."""

    k: Builder
    w: Tensor
    scale: Tensor
    zero_point: Tensor
    sums: Tensor

    @property
    def sizes(self) -> tuple[Dim, Dim, Dim]:
        return self.w.shape[0], self.w.shape[2], self.w.shape[1]

    def times(self, x: Tensor, d: int) -> Tensor:
        """x (..., terms) @ the matrix of a direction, x quantised by the range of all of it: the
        sum of (q - z) * (w - zw) as that of q * w less what the zero points add; int32 wraps."""
        k, w = self.k, self.w
        q, step, zero = dynamically_quantized(k, x)
        rows = k.compute(x.shape[:-1], lambda *i: fold_along(k, "sum", q, [q.rank - 1], i, _wide))

        def element(*i: Axis) -> Expr:
            n, z, zw = i[-1], _wide(zero[()]), _wide(_of(self.zero_point, d, i[-1]))
            total = k.dot((w.shape[1],), lambda c: (_wide(q[(*i[:-1], c)]), _wide(w[d, c, n])))
            total = total - z * self.sums[d, n] - zw * rows[i[:-1]] + z * zw * w.shape[1]
            return cast(total, t.float32) * (step[()] * _of(self.scale, d, n))

        return k.compute((*x.shape[:-1], w.shape[2]), element, t.float32)


def _wide(e: Expr) -> Expr:
    return cast(e, t.int32)


def _of(p: Tensor, d: int, column: Axis) -> Expr:
    """A scale or zero point of a direction's column."""
    return p[d] if p.rank == 1 else p[d, column]


def _matrix(k: Builder, name: str, w: Tensor, scale: Tensor, zero_point: Tensor) -> _Matrix:
    if w.rank != 3:
        raise InvalidModel(f"{name} is (directions, terms, gates), found rank {w.rank}")
    directions, terms, columns = w.shape
    if w.dtype not in (t.int8, t.uint8) or zero_point.dtype is not w.dtype:
        raise InvalidModel(
            f"{name} is {w.dtype}, its zero point {zero_point.dtype}; expected int8 or uint8 both"
        )
    for what, p in ((f"{name}_scale", scale), (f"{name}_zero_point", zero_point)):
        for size, wanted in zip(p.shape, (directions, columns), strict=False):
            agree(size, wanted, f"the sizes of {what}")
        if p.rank not in (1, 2):
            raise InvalidModel(f"{what} has the rank {p.rank}, expected 1 or 2")

    if w.dtype is t.uint8:  # w and zero point less 128: their differences are the same
        w, zero_point = _signed(k, w), _signed(k, zero_point)

    def total(d: Axis, n: Axis) -> Expr:
        return k.fold("sum", (terms,), lambda c: _wide(w[d, c, n]))

    return _Matrix(k, w, scale, zero_point, k.compute((directions, columns), total, t.int32))


def _signed(k: Builder, x: Tensor) -> Tensor:
    return k.compute(x.shape, lambda *i: cast(_wide(x[i]) - 128, t.int8), t.int8)


@dataclass(frozen=True, slots=True, eq=False)
class Quantised:
    """The weights of the input and of the state."""

    w: _Matrix
    r: _Matrix

    @property
    def sizes(self) -> tuple[tuple[Dim, Dim, Dim], tuple[Dim, Dim, Dim]]:
        return self.w.sizes, self.r.sizes

    def of_input(self, cell: Cell, d: int) -> Tensor:
        return self.w.times(cell.x, d)

    def of_state(self, cell: Cell, d: int, h: Tensor, first: int, count: int) -> Tensor:
        """All gates, as an LSTM asks for."""
        return self.r.times(h, d)


@contrib("DynamicQuantizeLSTM", "approximate")
def dynamic_quantize_lstm(
    k: Builder,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    p: Tensor | None = None,
    w_scale: Tensor | None = None,
    w_zero_point: Tensor | None = None,
    r_scale: Tensor | None = None,
    r_zero_point: Tensor | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
) -> tuple[Tensor, ...]:
    """LSTM whose products are those of DynamicQuantizeMatMul: x is quantised by the range of all of
    it, the state of a step by the range of all its rows."""
    weights = Quantised(
        _matrix(k, "W", w, needed(w_scale, "W_scale"), needed(w_zero_point, "W_zero_point")),
        _matrix(k, "R", r, needed(r_scale, "R_scale"), needed(r_zero_point, "R_zero_point")),
    )
    cell = Cell(k, x, weights, b, sequence_lens, 0, direction, clip, hidden_size, gates=4)
    names = activations or ("Sigmoid", "Tanh", "Tanh") * len(cell.directions)
    fs = functions(names, activation_alpha, activation_beta, 3, len(cell.directions))
    return long_short_term(cell, fs, p, (initial_h, initial_c), bool(input_forget))
