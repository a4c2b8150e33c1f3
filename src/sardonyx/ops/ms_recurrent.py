"""Recurrent operators of com.microsoft."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sardonyx.dims import Dim
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.ops.ms_common import contrib, needed
from sardonyx.ops.ms_matmul import dynamic_quantize_matmul
from sardonyx.ops.recurrent import long_short_term
from sardonyx.ops.recurrent_activation import functions
from sardonyx.ops.recurrent_cell import Cell


@dataclass(frozen=True, slots=True, eq=False)
class Quantised:
    """Weights of 8 bits, columns of gates side by side: w (directions, input, gates * hidden), r
    (directions, hidden, gates * hidden). Scales and zero points: (directions,), or (directions,
    gates * hidden) with one for each column."""

    w: Tensor
    w_scale: Tensor
    w_zero_point: Tensor
    r: Tensor
    r_scale: Tensor
    r_zero_point: Tensor

    @property
    def sizes(self) -> tuple[tuple[Dim, Dim, Dim], tuple[Dim, Dim, Dim]]:
        w, r = self.w.shape, self.r.shape
        return (w[0], w[2], w[1]), (r[0], r[2], r[1])

    def of_input(self, cell: Cell, d: int) -> Tensor:
        return _product(cell.k, cell.x, d, (self.w, self.w_scale, self.w_zero_point))

    def of_state(self, cell: Cell, d: int, h: Tensor, first: int, count: int) -> Tensor:
        """All gates, as an LSTM asks for."""
        return _product(cell.k, h, d, (self.r, self.r_scale, self.r_zero_point))


def _product(k: Builder, x: Tensor, d: int, weights: Sequence[Tensor]) -> Tensor:
    """x times a direction's weights of (weights, scale, zero point)."""
    own = [k.compute(a.shape[1:], lambda *i, a=a: a[(d, *i)], a.dtype) for a in weights]
    return dynamic_quantize_matmul(k, x, *own)


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
    """LSTM whose products are DynamicQuantizeMatMul: x is quantised by the range of all of it, the
    state of a step by the range of all its rows."""
    for name, given in (("W", w), ("R", r)):
        if given.rank != 3:
            raise InvalidModel(f"{name} is (directions, terms, gates), found rank {given.rank}")
    weights = Quantised(
        w,
        needed(w_scale, "W_scale"),
        needed(w_zero_point, "W_zero_point"),
        r,
        needed(r_scale, "R_scale"),
        needed(r_zero_point, "R_zero_point"),
    )
    cell = Cell(k, x, weights, b, sequence_lens, 0, direction, clip, hidden_size, gates=4)
    names = activations or ("Sigmoid", "Tanh", "Tanh") * len(cell.directions)
    fs = functions(names, activation_alpha, activation_beta, 3, len(cell.directions))
    return long_short_term(cell, fs, p, (initial_h, initial_c), bool(input_forget))
