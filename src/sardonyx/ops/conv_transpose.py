"""Transposed convolutions: each phase of the places, modulo the stride, is a convolution of x."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import gcd, prod
from typing import Any, TypeAlias

from sardonyx.dims import Dim, extreme, floordiv
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, Operand, lift, where
from sardonyx.ops.common import one_of
from sardonyx.ops.conv import BLOCK, check_weights, grouped, sum_of_products, weight_loader
from sardonyx.ops.registry import attributes_of, operator
from sardonyx.ops.sizes import ceil_div, numbers
from sardonyx.ops.window import AUTO_PADS, conjunction, per_axis, split_padding

MOST_PHASES = 64  # that are convolutions of their own
Finish: TypeAlias = Callable[[Tensor, int], Tensor]


def transposed(
    k: Builder,
    x: Tensor,
    w: Tensor,
    b: Tensor | None,
    finish: Finish,
    *,
    auto_pad: str = "NOTSET",
    dilations: Sequence[int] | None = None,
    group: int = 1,
    kernel_shape: Sequence[int] | None = None,
    output_padding: Sequence[int] | None = None,
    output_shape: Sequence[int] | None = None,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
) -> Tensor:
    """y[n, m, o] = b[m] + sum of x[n, c, i] * w[c, m, r], i * stride + r * dilation - pad = o.

    As a convolution with the kernel mirrored: i ascends, and around x are zeros. A term for which
    there is no whole i (a hole) is absent. finish(sums, n): what becomes of sums, element by
    element, where n channels, one after the other, are phases of one.
    """
    total, filters, *kernel = numbers(w.shape, "the shape of the weights")
    check_weights(x, total, total, group, kernel, kernel_shape)
    k.need_shape(b, (group * filters,), "B")
    channels, rank = total // group, len(kernel)
    s = per_axis(strides, rank, 1, "strides")
    d = per_axis(dilations, rank, 1, "dilations")
    adjust = per_axis(output_padding, rank, 0, "output_padding")
    full = [
        (n - 1) * stride + a + (size - 1) * q + 1
        for n, stride, a, size, q in zip(x.shape[2:], s, adjust, kernel, d, strict=True)
    ]
    wanted: Sequence[Dim] = list(output_shape or ())[-rank:]
    if auto_pad.startswith("SAME") and not wanted:
        same = [n * stride for n, stride in zip(x.shape[2:], s, strict=True)]
        wanted = [extreme("min", a, b) for a, b in zip(same, full, strict=True)]
    for most, stride, size in zip(full, s, wanted, strict=False):
        beyond = size - most
        if isinstance(beyond, int) and beyond >= stride:
            raise InvalidModel(f"output_shape {size}: x reaches {most} places, {stride} to a step")
    begin, out = _output(full, wanted, auto_pad, pads)
    weight = weight_loader(w, channels)

    def element(walks: Sequence[Walk], n: Axis, g: Expr, m: Expr, o: Sequence[Axis]) -> Expr:
        def term(c: Expr, t: Sequence[Axis]) -> tuple[Expr, Expr]:
            met = [walk.at(*each) for walk, *each in zip(walks, o, t, strict=True)]
            channel = g * channels + c
            weights = weight((channel, m, *(r for _, r in met)))
            return x.guard((n, channel, *(i for i, _ in met))), weights

        def present(t: Sequence[Axis]) -> Expr:
            met = zip(walks, o, t, strict=True)
            return conjunction([walk.there(*each) for walk, *each in met if walk.there])

        holes = any(walk.there for walk in walks)
        taps = [walk.taps for walk in walks]
        return sum_of_products(k, channels, taps, term, present if holes else None)

    def places(walks: Sequence[Walk], extents: Sequence[Dim]) -> Tensor:
        return finish(grouped(k, x, b, group, filters, extents, partial(element, walks)), 1)

    def together(alike: Sequence[range], extents: Sequence[Dim]) -> Tensor:
        """The places of phases that read the same of x, as filters of one sum."""
        sizes = list(map(len, alike))
        some = prod(sizes)

        def one(n: Axis, g: Expr, m: Expr, o: Sequence[Axis]) -> Expr:
            left, walks = m % some, []
            for axis, phases, rest in zip(axes, alike, _below(sizes), strict=True):
                walks.append(axis.phase(phases[0], left // rest % len(phases)))
            total = element(walks, n, g, m // some, o)
            return total if b is None else total + b[g * filters + m // some]

        if some == 1:
            return places([a.phase(p[0]) for a, p in zip(axes, alike, strict=True)], extents)
        return finish(grouped(k, x, None, group, filters * some, extents, one), some)

    axes = [Spread(*each) for each in zip(begin, kernel, s, d, strict=True)]
    if all(axis.is_joined for axis in axes):
        return places([axis.joined() for axis in axes], out)
    if prod(s) > MOST_PHASES or not all(isinstance(n, int) for n in begin):
        return places([axis.whole() for axis in axes], out)
    counts = [ceil_div(n, stride) for n, stride in zip(out, s, strict=True)]
    made: dict[tuple[int, ...], Phase] = {}
    for alike in itertools.product(*(axis.alike(filters < BLOCK) for axis in axes)):
        y = together(alike, counts)
        for i, phases in enumerate(itertools.product(*alike)):
            made[phases] = y, i, prod(map(len, alike))
    return next(iter(made.values()))[0] if len(made) == 1 else _interleaved(k, made, s, out)


@operator("ConvTranspose", 1, 11, 22, accuracy="rounding")
@attributes_of(transposed)
def conv_transpose(
    k: Builder, x: Tensor, w: Tensor, b: Tensor | None = None, **attributes: Any
) -> Tensor:
    """The sums of `transposed` as they are."""
    return transposed(k, x, w, b, lambda y, _: y, **attributes)


@dataclass(frozen=True, slots=True)
class Walk:
    """How places along an axis meet x: tap t of place o is at(o, t) in x, ascending, and in the
    kernel; there(o, t): whether it is no hole, where there are any."""

    taps: int
    at: Callable[[Expr, Expr], tuple[Expr, Expr]]
    there: Callable[[Expr, Expr], Expr] | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """An axis: its padding, the kernel's size, stride and dilation."""

    begin: Dim
    size: int
    stride: int
    dilation: int

    @property
    def is_joined(self) -> bool:
        """Whether the phase of a place decides of its weights alone, not of where it lies in x."""
        aligned = isinstance(self.begin, int) and self.begin % self.stride == 0
        return aligned and self.size % self.stride == 0 and self.dilation == 1

    def joined(self) -> Walk:
        """All places, as steps and phases."""
        taps, stride = self.size // self.stride, self.stride
        origin = self.begin // self.stride - (taps - 1)

        def at(o: Expr, t: Expr) -> tuple[Expr, Expr]:
            step, phase = (o, lift(0)) if stride == 1 else (o // stride, o % stride)
            return step + t + origin, phase + (taps - 1 - t) * stride

        return Walk(taps, at)

    def met(self, phase: int) -> tuple[int, int, int]:
        """How many positions of the kernel the places o * stride + phase meet, the last of them,
        and where it lies in x for the first place."""
        assert isinstance(self.begin, int)
        start = phase + self.begin
        met = [r for r in range(self.size) if (start - r * self.dilation) % self.stride == 0]
        last = met[-1] if met else 0
        return len(met), last, (start - last * self.dilation) // self.stride

    def alike(self, some: bool) -> list[range]:
        """The phases; if some, together that meet the same places of x, each one position of the
        kernel further on."""
        found: list[range] = []
        for phase in range(self.stride):
            taps, last, origin = self.met(phase)
            if some and found and self.met(phase - 1) == (taps, last - 1, origin):
                found[-1] = range(found[-1].start, phase + 1)
            else:
                found.append(range(phase, phase + 1))
        return found

    def phase(self, phase: int, further: Operand = 0) -> Walk:
        """The places o * stride + phase; of those alike, the one so much further on."""
        taps, last, origin = self.met(phase)
        common = gcd(self.stride, self.dilation)

        def at(o: Expr, t: Expr) -> tuple[Expr, Expr]:
            position = lift(last) + further - t * (self.stride // common)
            return o + origin + t * (self.dilation // common), position

        return Walk(taps, at)

    def whole(self) -> Walk:
        """All places, and of the taps those that meet no hole."""

        def spread(o: Expr, t: Expr) -> tuple[Expr, Expr]:
            r = self.size - 1 - t
            return o + self.begin - r * self.dilation, r

        def at(o: Expr, t: Expr) -> tuple[Expr, Expr]:
            i, r = spread(o, t)
            return i if self.stride == 1 else i // self.stride, r

        def there(o: Expr, t: Expr) -> Expr:
            return (spread(o, t)[0] % self.stride).eq(0)

        return Walk(self.size, at, None if self.stride == 1 else there)


Phase = tuple[Tensor, int, int]  # as which of so many filters for each a tensor has it


def _below(sizes: Sequence[int]) -> list[int]:
    """For each axis, the places that those after it have."""
    return [prod(sizes[i + 1 :]) for i in range(len(sizes))]


def _interleaved(
    k: Builder, made: Mapping[tuple[int, ...], Phase], s: Sequence[int], out: Sequence[Dim]
) -> Tensor:
    """The tensor of which each has a phase of the places, modulo s."""

    def element(n: Axis, m: Axis, *o: Axis) -> Expr:
        steps = [i if q == 1 else i // q for i, q in zip(o, s, strict=True)]

        def side(known: tuple[int, ...]) -> Expr:
            if len(known) == len(s):
                y, i, each = made[known]
                return y[(n, m if each == 1 else m * each + i, *steps)]
            axis, stride = o[len(known)], s[len(known)]
            found = side((*known, stride - 1))
            for p in reversed(range(stride - 1)):
                found = where(axis % stride < p + 1, side((*known, p)), found)
            return found

        return side(())

    first, _, each = next(iter(made.values()))
    n, m, *_ = first.shape
    return k.compute((n, floordiv(m, each), *out), element)


def _output(
    full: Sequence[Dim],
    wanted: Sequence[Dim],
    auto_pad: str,
    pads: Sequence[int] | None,
) -> tuple[Sequence[Dim], Sequence[Dim]]:
    """The padding at the beginnings and the output's sizes; `full` is the output's size without
    padding, `wanted` the sizes asked for, if any, from which the padding then follows."""
    rank = len(full)
    one_of(auto_pad, AUTO_PADS, "auto_pad")
    if wanted:
        total = [extreme("max", a - b, 0) for a, b in zip(full, wanted, strict=True)]
        return split_padding(total, auto_pad == "SAME_UPPER")[0], wanted
    given = per_axis(pads if auto_pad == "NOTSET" else None, 2 * rank, 0, "pads")
    begin, end = given[:rank], given[rank:]
    return begin, [n - p - q for n, p, q in zip(full, begin, end, strict=True)]
