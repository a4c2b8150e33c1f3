"""What RNN, GRU and LSTM share: the sequence, the state and the products with the weights.

The products of the input with its weights are made for all steps at once (of many rows, by
passes/sequences.py, step by step), those of the state for all gates of a step at once. Each step
then adds, to the product of input and weights, the product of state and weights, Wb and Rb, in this
order; the state stays in the compute type. Steps past a sequence's length leave its state and write
zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from sardonyx import types as t
from sardonyx.dims import Dim
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, cast, lift, where
from sardonyx.ops.common import compute_type, maximum, minimum
from sardonyx.ops.scatter import loops
from sardonyx.ops.sizes import agree, numbers

Given: TypeAlias = Callable[[int, Axis, Axis], Expr]  # of a gate, n and j


class Weights(Protocol):
    """The weights W of the input and R of the state, one matrix for each direction, and the
    products with them."""

    @property
    def sizes(self) -> tuple[tuple[Dim, Dim, Dim], tuple[Dim, Dim, Dim]]:
        """(directions, gates * hidden, input) of W, (directions, gates * hidden, hidden) of R."""
        ...

    def of_input(self, cell: Cell, d: int) -> Tensor:
        """x @ w' for every step, (steps, batch, gates * hidden)."""
        ...

    def of_state(self, cell: Cell, d: int, h: Tensor, first: int, count: int) -> Tensor:
        """h @ r' of `count` gates from `first` on, (batch, count * hidden)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Matrices:
    """W (directions, gates * hidden, input) and R (directions, gates * hidden, hidden)."""

    w: Tensor
    r: Tensor

    @property
    def sizes(self) -> tuple[tuple[Dim, Dim, Dim], tuple[Dim, Dim, Dim]]:
        w, r = self.w.shape, self.r.shape
        return (w[0], w[1], w[2]), (r[0], r[1], r[2])

    def of_input(self, cell: Cell, d: int) -> Tensor:
        k, x = cell.k, cell.x

        def element(s: Axis, n: Axis, g: Axis) -> Expr:
            place = (n, s) if cell.layout else (s, n)
            return k.dot((x.shape[2],), lambda q: (x[(*place, q)], self.w[d, g, q]))

        return k.compute((cell.steps, cell.batch, cell.gates * cell.hidden), element, cell.wide)

    def of_state(self, cell: Cell, d: int, h: Tensor, first: int, count: int) -> Tensor:
        k = cell.k

        def element(n: Axis, g: Axis) -> Expr:
            row = g + first * cell.hidden
            return k.dot((cell.hidden,), lambda q: (h[n, q], self.r[d, row, q]))

        return k.compute((cell.batch, count * cell.hidden), element, cell.wide)


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """What the operators share. x is (steps, batch, input) or, in layout 1, (batch, steps,
    input); weights and b have one entry for each direction; `hidden` is the size of the state."""

    k: Builder
    x: Tensor
    weights: Weights
    b: Tensor | None
    lengths: Tensor | None
    layout: int
    direction: str
    clip: float | None
    hidden_size: int | None
    gates: int

    @property
    def hidden(self) -> int:
        return numbers(self.weights.sizes[1][2:], "the size of the state")[0]

    @property
    def directions(self) -> tuple[bool, ...]:
        """Of each direction, whether it runs from the end."""
        match self.direction:
            case "forward" | "foward":  # the latter is the default of GRU 1
                return (False,)
            case "reverse":
                return (True,)
            case "bidirectional":
                return (False, True)
        raise InvalidModel(f"direction {self.direction!r} is not forward, reverse or bidirectional")

    @property
    def steps(self) -> Dim:
        return self.x.shape[self.layout]

    @property
    def batch(self) -> Dim:
        return self.x.shape[1 - self.layout]

    @property
    def wide(self) -> t.DType:
        return compute_type(self.x.dtype)

    def check(self) -> None:
        rows, (w, r) = self.gates * self.hidden, self.weights.sizes
        if self.hidden_size not in (None, self.hidden):
            raise InvalidModel(f"hidden_size is {self.hidden_size}, R has {self.hidden} columns")
        if self.layout not in (0, 1):
            raise InvalidModel(f"layout is 0 or 1, found {self.layout}")
        agree(w[2], self.x.shape[2], "the sizes of the input")
        for what, size, wanted in (
            ("directions of W", w[0], len(self.directions)),
            ("directions of R", r[0], len(self.directions)),
            ("rows of W", w[1], rows),
            ("rows of R", r[1], rows),
        ):
            agree(size, wanted, f"the {what}")
        self.k.need_shape(self.b, (len(self.directions), 2 * rows), "B")
        self.k.need_shape(self.lengths, (self.batch,), "sequence_lens")

    def state(self, initial: Tensor | None, d: int) -> Tensor:
        """The state before the first step, (batch, hidden): zeros where none is given."""
        outer = (len(self.directions), self.batch)
        shape = (*reversed(outer), self.hidden) if self.layout else (*outer, self.hidden)
        self.k.need_shape(initial, shape, "an initial state")

        def element(n: Axis, j: Axis) -> Expr:
            if initial is None:
                return lift(0.0, self.wide)
            return cast(initial[(n, d, j) if self.layout else (d, n, j)], self.wide)

        return self.k.compute((self.batch, self.hidden), element, self.wide)

    def products(self, d: int, h: Tensor, first: int, count: int) -> Given:
        """The products of a state with the weights of `count` gates, `first` and those after it:
        a function of gate, n and j, as for the input. They are one matrix product."""

        made = self.weights.of_state(self, d, h, first, count)
        return lambda gate, n, j: made[n, j + (gate - first) * self.hidden]

    def bias(self, e: Expr, d: int, part: int, j: Axis) -> Expr:
        """e + entry j of a part of the bias: Wb of each gate, then Rb of each gate."""
        if self.b is None:
            return e
        return e + cast(self.b[d, j + part * self.hidden], self.wide)

    def biased(self, e: Expr, d: int, gate: int, j: Axis) -> Expr:
        return self.bias(self.bias(e, d, gate, j), d, gate + self.gates, j)

    def clipped(self, e: Expr) -> Expr:
        """What an activation takes: e within -clip and clip."""
        return e if self.clip is None else maximum(minimum(e, self.clip), -self.clip)

    def active(self, step: Expr, n: Expr) -> Expr | None:
        """Whether a sequence has this step."""
        return None if self.lengths is None else step < self.length(n)

    def place(self, step: Expr, n: Expr, reverse: bool) -> Expr:
        """Where in the sequence a step is; somewhere in it, of one past the length."""
        if not reverse:
            return step
        if self.lengths is None or self.steps == 0:
            return self.steps - 1 - step
        return minimum(maximum(self.length(n) - 1 - step, 0), self.steps - 1)

    def length(self, n: Expr) -> Expr:
        """The length of a sequence."""
        assert self.lengths is not None
        return cast(self.lengths[n], t.int64)

    def sequence(self) -> Tensor:
        """The output of all steps, zeros at first."""
        shape: tuple[Dim, ...] = self.steps, len(self.directions), self.batch, self.hidden
        if self.layout:
            shape = self.batch, self.steps, len(self.directions), self.hidden
        return self.k.compute(shape, lambda *_: lift(0.0, t.float32), self.x.dtype)

    def check_lengths(self, y: Tensor, d: int) -> None:
        """Stores the zero that is there at the last step, which ends the run if none is."""
        with loops(self.k, (self.batch, self.hidden)) as (n, j):
            s = maximum(self.length(n) - 1, 0)
            self.k.store(y, (n, s, d, j) if self.layout else (s, d, n, j), 0.0)

    def last(self, states: Sequence[Tensor]) -> Tensor:
        """The last states of all directions as an output."""

        def element(*i: Axis) -> Expr:
            d, n = (i[1], i[0]) if self.layout else (i[0], i[1])
            if len(states) == 1:
                return states[0][n, i[2]]
            return where(d.eq(0), states[0][n, i[2]], states[1][n, i[2]])

        shape = (self.batch, len(states)) if self.layout else (len(states), self.batch)
        return self.k.compute((*shape, self.hidden), element, self.x.dtype)

    def advance(
        self, y: Tensor, d: int, reverse: bool, step: Axis, new: Sequence[tuple[Tensor, Tensor]]
    ) -> None:
        """Stores the new states over the old ones, pairwise, and the first as the output."""
        k = self.k
        with loops(k, (self.batch, self.hidden)) as (n, j):
            active = self.active(step, n)
            with nullcontext() if active is None else k.when(active):
                for old, value in new:
                    k.store(old, (n, j), value[n, j])
                s = self.place(step, n, reverse)
                k.store(y, (n, s, d, j) if self.layout else (s, d, n, j), new[0][1][n, j])


def run(
    cell: Cell,
    initial: Sequence[Tensor | None],
    step: Callable[[int, Sequence[Tensor], Given], Sequence[Tensor]],
) -> tuple[Tensor, ...]:
    """Y and the last states. step(d, states, x) computes the states after one step, where
    x(gate, n, j) is the product of the step's input with the weights of a gate."""
    cell.check()
    y, directions = cell.sequence(), range(len(cell.directions))
    products = [cell.weights.of_input(cell, d) for d in directions]
    states = [[cell.state(x, d) for x in initial] for d in directions]
    for d, reverse in enumerate(cell.directions):
        if reverse and cell.lengths is not None:
            cell.check_lengths(y, d)
        with cell.k.loop(cell.steps) as i:
            new = step(d, states[d], _given(cell, products[d], i, reverse))
            cell.advance(y, d, reverse, i, list(zip(states[d], new, strict=True)))
    return y, *(cell.last([s[n] for s in states]) for n in range(len(initial)))


def _given(cell: Cell, products: Tensor, step: Axis, reverse: bool) -> Given:
    """How a step reads the products of its input."""
    return lambda gate, n, j: products[cell.place(step, n, reverse), n, j + gate * cell.hidden]
