"""RNN, GRU and LSTM (recurrent_cell.py says what is computed when)."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, cast
from sardonyx.ops.recurrent_activation import Activation, functions
from sardonyx.ops.recurrent_cell import Cell, Given, Matrices, run
from sardonyx.ops.registry import operator, version_of


@operator("RNN", 7, 14, 22, accuracy="approximate")
def rnn(
    k: Builder,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] = ("Tanh", "Tanh"),
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
) -> tuple[Tensor, ...]:
    """H' = f(x W' + H R' + Wb + Rb)."""
    cell = Cell(
        k, x, Matrices(w, r), b, sequence_lens, layout, direction, clip, hidden_size, gates=1
    )
    fs = functions(activations, activation_alpha, activation_beta, 1, len(cell.directions))

    def step(d: int, states: Sequence[Tensor], given: Given) -> list[Tensor]:
        (h,), (f,) = states, fs[d]
        product = cell.products(d, h, 0, 1)

        def element(n: Axis, j: Axis) -> Expr:
            total = given(0, n, j) + product(0, n, j)
            return f(cell.clipped(cell.biased(total, d, 0, j)))

        return [k.compute(h.shape, element, cell.wide)]

    return run(cell, [initial_h], step)


@operator("GRU", 7, 14, 22, accuracy="approximate")
def gru(
    k: Builder,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    layout: int = 0,
    linear_before_reset: int = 0,
) -> tuple[Tensor, ...]:
    """z = f(x Wz' + H Rz' + Wbz + Rbz), r likewise; H' = (1 - z) * h + z * H, where h is
    g(x Wh' + (r * H) Rh' + Wbh + Rbh), or with linear_before_reset
    g(x Wh' + r * (H Rh' + Rbh) + Wbh)."""
    cell = Cell(
        k, x, Matrices(w, r), b, sequence_lens, layout, direction, clip, hidden_size, gates=3
    )
    names = activations or ("Sigmoid", "Tanh") * len(cell.directions)
    fs = functions(names, activation_alpha, activation_beta, 2, len(cell.directions))

    def step(d: int, states: Sequence[Tensor], given: Given) -> list[Tensor]:
        (h,), (f, g) = states, fs[d]
        product = cell.products(d, h, 0, 3 if linear_before_reset else 2)

        def gate(which: int, n: Axis, j: Axis) -> Expr:
            total = given(which, n, j) + product(which, n, j)
            return f(cell.clipped(cell.biased(total, d, which, j)))

        def reset(n: Axis, j: Axis) -> Expr:
            return gate(1, n, j)

        inner = product
        if not linear_before_reset:
            kept = k.compute(h.shape, lambda n, j: reset(n, j) * h[n, j], cell.wide)
            inner = cell.products(d, kept, 2, 1)

        def candidate(n: Axis, j: Axis) -> Expr:
            if not linear_before_reset:
                return cell.biased(given(2, n, j) + inner(2, n, j), d, 2, j)
            scaled = reset(n, j) * cell.bias(inner(2, n, j), d, 5, j)
            return cell.bias(given(2, n, j) + scaled, d, 2, j)

        def element(n: Axis, j: Axis) -> Expr:
            z, new = gate(0, n, j), g(cell.clipped(candidate(n, j)))
            return (1 - z) * new + z * h[n, j]

        return [k.compute(h.shape, element, cell.wide)]

    return run(cell, [initial_h], step)


@operator("LSTM", 7, 14, 22, accuracy="approximate")
def lstm(
    k: Builder,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    sequence_lens: Tensor | None = None,
    initial_h: Tensor | None = None,
    initial_c: Tensor | None = None,
    p: Tensor | None = None,
    *,
    activation_alpha: Sequence[float] | None = None,
    activation_beta: Sequence[float] | None = None,
    activations: Sequence[str] | None = None,
    clip: float | None = None,
    direction: str = "forward",
    hidden_size: int | None = None,
    input_forget: int = 0,
    layout: int = 0,
) -> tuple[Tensor, ...]:
    """i = f(x Wi' + H Ri' + Pi * C + Wbi + Rbi), the forget gate likewise (1 - i with
    input_forget), c = g(x Wc' + H Rc' + Wbc + Rbc); C' = forget * C + i * c;
    o = f(x Wo' + H Ro' + Po * C' + Wbo + Rbo); H' = o * h(C')."""
    weights = Matrices(w, r)
    cell = Cell(k, x, weights, b, sequence_lens, layout, direction, clip, hidden_size, gates=4)
    names = activations or ("Sigmoid", "Tanh", "Tanh") * len(cell.directions)
    fs = functions(names, activation_alpha, activation_beta, 3, len(cell.directions))
    return long_short_term(cell, fs, p, (initial_h, initial_c), bool(input_forget))


def long_short_term(
    cell: Cell,
    fs: Sequence[Sequence[Activation]],
    p: Tensor | None,
    initial: Sequence[Tensor | None],
    input_forget: bool,
) -> tuple[Tensor, ...]:
    """LSTM of a cell: fs are f, g and h of each direction, p the weights of peepholes, `initial`
    the states H and C before the first step."""
    k = cell.k
    k.need_shape(p, (len(cell.directions), 3 * cell.hidden), "P")

    def step(d: int, states: Sequence[Tensor], given: Given) -> list[Tensor]:
        (h, c), (f, g, last) = states, fs[d]
        product = cell.products(d, h, 0, 4)

        def gate(
            which: int, n: Axis, j: Axis, shape: Activation, peep: int | None, state: Tensor
        ) -> Expr:
            total = given(which, n, j) + product(which, n, j)
            if p is not None and peep is not None:
                total = total + cast(p[d, j + peep * cell.hidden], cell.wide) * state[n, j]
            return shape(cell.clipped(cell.biased(total, d, which, j)))

        def kept(n: Axis, j: Axis) -> Expr:
            i, new = gate(0, n, j, f, 0, c), gate(3, n, j, g, None, c)
            forget = 1 - i if input_forget else gate(2, n, j, f, 2, c)
            return forget * c[n, j] + i * new

        memory = k.compute(h.shape, kept, cell.wide)

        def shown(n: Axis, j: Axis) -> Expr:
            return gate(1, n, j, f, 1, memory) * last(cell.clipped(memory[n, j]))

        return [k.compute(h.shape, shown, cell.wide), memory]

    return run(cell, initial, step)


operator("RNN", 1, accuracy="approximate")(version_of(rnn, "layout", output_sequence=0))
_gru_3 = version_of(gru, "layout", output_sequence=0)
operator("GRU", 3, accuracy="approximate")(_gru_3)
operator("GRU", 1, accuracy="approximate")(
    version_of(_gru_3, "linear_before_reset", direction="foward")  # as the schema spells it
)
operator("LSTM", 1, accuracy="approximate")(version_of(lstm, "layout", output_sequence=0))
