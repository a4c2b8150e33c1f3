"""The sliding window that convolutions and pools share: sizes, padding and indices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sardonyx.dims import Dim, extreme, floordiv
from sardonyx.errors import InvalidModel
from sardonyx.kernel.expr import Expr, alu
from sardonyx.ops.sizes import ceil_div

AUTO_PADS = "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"


@dataclass(frozen=True, slots=True)
class Window:
    """A window on the spatial axes of a tensor; every field has one entry per axis.

    `begin` and `end` are the padding on both sides, `output` the number of places of the window.
    """

    input: tuple[Dim, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begin: tuple[Dim, ...]
    end: tuple[Dim, ...]
    output: tuple[Dim, ...]

    def at(self, o: Sequence[Expr], r: Sequence[Expr]) -> list[Expr]:
        """Where position r of the window at place o lies in the input (outside it in padding)."""
        terms = zip(o, self.strides, r, self.dilations, self.begin, strict=True)
        return [i * s + q * d - pad for i, s, q, d, pad in terms]

    def inside(self, index: Sequence[Expr]) -> Expr:
        """Whether an index from `at` is in the input."""
        return within(index, [0] * len(index), self.input)


def within(index: Sequence[Expr], low: Sequence[Dim], high: Sequence[Dim]) -> Expr:
    """Whether low <= index < high on every axis."""
    bounds = zip(index, low, high, strict=True)
    return conjunction([alu("and", i >= lo, i < hi) for i, lo, hi in bounds])


def conjunction(conditions: Sequence[Expr]) -> Expr:
    """Whether all conditions hold."""
    found: Expr | None = None
    for c in conditions:
        found = c if found is None else found & c
    assert found is not None
    return found


def per_axis(values: Sequence[int] | None, rank: int, default: int, what: str) -> tuple[int, ...]:
    """An attribute with one entry per spatial axis; `default` each where it is absent."""
    found = tuple(values) if values else (default,) * rank
    if len(found) != rank:
        raise InvalidModel(f"{what} has {len(found)} entries for {rank} spatial axes")
    return found


def window(
    spatial: Sequence[Dim],
    kernel: Sequence[int],
    strides: Sequence[int] | None,
    dilations: Sequence[int] | None,
    auto_pad: str,
    pads: Sequence[int] | None,
    ceil_mode: int = 0,
) -> Window:
    """The window that the attributes describe, on spatial axes of those sizes."""
    rank = len(spatial)
    if len(kernel) != rank:
        raise InvalidModel(f"kernel_shape {list(kernel)} does not fit {rank} spatial axes")
    s = per_axis(strides, rank, 1, "strides")
    d = per_axis(dilations, rank, 1, "dilations")
    if min((*s, *d, *kernel), default=1) < 1:
        raise InvalidModel("kernel_shape, strides and dilations must be at least 1")
    reach = [(n - 1) * q + 1 for n, q in zip(kernel, d, strict=True)]
    begin, end = _padding(spatial, reach, s, auto_pad, pads)
    sides = zip(spatial, reach, s, begin, end, strict=True)
    output = tuple(_places(*side, bool(ceil_mode)) for side in sides)
    return Window(tuple(spatial), tuple(kernel), s, d, begin, end, output)


def _padding(
    spatial: Sequence[Dim],
    reach: Sequence[int],
    strides: Sequence[int],
    auto_pad: str,
    pads: Sequence[int] | None,
) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
    rank = len(spatial)
    match auto_pad:
        case "NOTSET":
            given = per_axis(pads, 2 * rank, 0, "pads")
            return given[:rank], given[rank:]
        case "VALID":
            return (0,) * rank, (0,) * rank
        case "SAME_UPPER" | "SAME_LOWER":
            total = [
                extreme("max", (ceil_div(n, s) - 1) * s + w - n, 0)
                for n, w, s in zip(spatial, reach, strides, strict=True)
            ]
            return split_padding(total, auto_pad == "SAME_UPPER")
    raise InvalidModel(f"auto_pad {auto_pad!r} is not one of {', '.join(AUTO_PADS)}")


def split_padding(total: Sequence[Dim], upper: bool) -> tuple[tuple[Dim, ...], tuple[Dim, ...]]:
    """Padding in two halves; an odd one has its larger half at the end if `upper`."""
    small = tuple(floordiv(p, 2) for p in total)
    large = tuple(p - h for p, h in zip(total, small, strict=True))
    return (small, large) if upper else (large, small)


def _places(n: Dim, reach: int, stride: int, begin: Dim, end: Dim, ceil: bool) -> Dim:
    """How many places the window has; with `ceil`, none starts in the padding at the end."""
    room = n + begin + end - reach
    if ceil:
        places = extreme("min", ceil_div(room, stride) + 1, ceil_div(n + begin, stride))
    else:
        places = floordiv(room, stride) + 1
    if isinstance(places, int) and places < 0:
        raise InvalidModel(f"a window of {reach} is larger than its input of {n} with its padding")
    return places
