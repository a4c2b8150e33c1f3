"""Pad and ReverseSequence: operators whose elements come from a place that depends on the index."""

from __future__ import annotations

from collections.abc import Sequence

from sardonyx import types as t
from sardonyx.dims import Dim, extreme
from sardonyx.errors import InvalidModel
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Axis, Expr, Operand, alu, lift, where
from sardonyx.ops.common import maximum, minimum, normalize_axes, normalize_axis
from sardonyx.ops.index import replaced
from sardonyx.ops.registry import operator, version_of


@operator("Pad", 1)
def pad_1(
    k: Builder,
    data: Tensor,
    *,
    paddings: Sequence[int],
    mode: str = "constant",
    value: float = 0.0,
) -> Tensor:
    return _pad(k, data, paddings, mode, value)


@operator("Pad", 2)
def pad_2(
    k: Builder, data: Tensor, *, pads: Sequence[int], mode: str = "constant", value: float = 0.0
) -> Tensor:
    return _pad(k, data, pads, mode, value)


@operator("Pad", 18, 19, 21, 23, 24, 25)
def pad(
    k: Builder,
    data: Tensor,
    pads: Tensor,
    constant_value: Tensor | None = None,
    axes: Tensor | None = None,
    *,
    mode: str = "constant",
) -> Tensor:
    given = pads.known()
    at = range(data.rank) if axes is None else normalize_axes(axes.ints(), data.rank)
    if len(given) != 2 * len(at):
        raise InvalidModel(f"pads has {len(given)} entries for {len(at)} axes")
    both: list[Dim] = [0] * (2 * data.rank)
    for n, a in enumerate(at):
        both[a], both[data.rank + a] = given[n], given[len(at) + n]
    value = 0 if constant_value is None else constant_value.reshaped(())[()]
    return _pad(k, data, both, mode, value)


operator("Pad", 11, 13)(version_of(pad, "axes"))


def _pad(k: Builder, x: Tensor, pads: Sequence[Dim], mode: str, value: Operand) -> Tensor:
    """x with pads[a] elements before and pads[rank + a] after it on axis a; negative ones cut."""
    if len(pads) != 2 * x.rank:
        raise InvalidModel(f"pads has {len(pads)} entries for {x.rank} axes")
    begin, end = pads[: x.rank], pads[x.rank :]
    if all(p == 0 for p in pads):
        return k.view(x, x.shape)
    shape = [b + d + e for d, b, e in zip(x.shape, begin, end, strict=True)]
    if any(isinstance(d, int) and d < 0 for d in shape):
        raise InvalidModel(f"pads {list(pads)} cut more than {tuple(x.shape)} has")
    if mode == "constant":
        fill = lift(value, x.dtype)
        return k.compute(
            shape, lambda *i: x.guard([j - b for j, b in zip(i, begin, strict=True)], fill)
        )
    sides = list(zip(x.shape, begin, end, strict=True))
    _need_source(k, mode, sides, shape)
    return k.compute(
        shape, lambda *i: x[tuple(_source(mode, j, *s) for j, s in zip(i, sides, strict=True))]
    )


def _need_source(
    k: Builder, mode: str, sides: Sequence[tuple[Dim, Dim, Dim]], shape: Sequence[Dim]
) -> None:
    """Requires each padded axis to have an element to repeat, where the output has any."""
    least: Dim = 1
    for size in shape:
        least = extreme("min", least, size)
    for a, (d, begin, end) in enumerate(sides):
        kept = d + extreme("min", begin, 0) + extreme("min", end, 0)
        if kept != shape[a]:
            what = f"mode '{mode}' repeats what is left of axis {a}: its size"
            k.need_least(extreme("max", kept, 0), least, what)


def _source(mode: str, i: Axis, d: Dim, begin: Dim, end: Dim) -> Expr:
    """Where the element at i of an axis comes from; what is cut is cut before padding."""
    if begin == end == 0:
        return i
    cut = extreme("max", -1 * begin, 0)
    kept = d - cut + extreme("min", end, 0)
    place = i - extreme("max", begin, 0)
    last = kept - 1
    once = _once(mode, place, kept, extreme("max", begin, 0), extreme("max", end, 0))
    if once is not None:
        return once + cut
    match mode:
        case "edge":
            return minimum(maximum(place, 0), last) + cut
        case "reflect":
            turn = place % extreme("max", 2 * last, 1)
            return maximum(last - alu("abs", last - turn), 0) + cut  # the 0 is for the proof
        case "wrap":
            return place % kept + cut
    raise InvalidModel(f"mode {mode!r} is not constant, edge, reflect or wrap")


def _once(mode: str, place: Expr, kept: Dim, before: Dim, after: Dim) -> Expr | None:
    """The same by choices, where what is kept is as long as the padding: a loop for each."""
    if not (isinstance(kept, int) and isinstance(before, int) and isinstance(after, int)):
        return None
    last = kept - 1
    outside = {
        "edge": (1, lift(0), lift(last)),
        "reflect": (2, 0 - place, 2 * last - place),
        "wrap": (1, place + kept, place - kept),
    }
    if mode not in outside:
        return None
    least, low, high = outside[mode]
    if (mode != "edge" and max(before, after) > kept + 1 - least) or kept < 1:
        return None
    inner = where(place < kept, place, high) if after else place
    return where(place < 0, low, inner) if before else inner


@operator("ReverseSequence", 10, 28)
def reverse_sequence(
    k: Builder,
    input: Tensor,
    sequence_lens: Tensor,
    *,
    batch_axis: int = 1,
    time_axis: int = 0,
) -> Tensor:
    """The first sequence_lens[b] elements of each batch b reversed in time, the others as is."""
    batch, time = normalize_axis(batch_axis, input.rank), normalize_axis(time_axis, input.rank)
    if batch == time:
        raise InvalidModel(f"batch_axis and time_axis are both {batch}")
    k.need_shape(sequence_lens, (input.shape[batch],), "sequence_lens")

    def element(*i: Axis) -> Expr:
        length = sequence_lens[i[batch]].cast(t.int64)
        source = where(i[time] < length, length - 1 - i[time], i[time])
        return input.trap(replaced(i, time, source))

    return k.compute(input.shape, element)
