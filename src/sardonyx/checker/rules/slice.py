"""Rules about Slice."""

from __future__ import annotations

from dataclasses import dataclass

from sardonyx.checker.context import Context
from sardonyx.checker.finding import Severity
from sardonyx.checker.nodes import Node
from sardonyx.checker.registry import Found, at, rule


def _slice(starts: str = "0, 1", ends: str = "2, 3", steps: str = "1, 1", y: str = "2,2",
           names: str = "x, s, e, a, p", more: str = "") -> str:  # fmt: skip
    more = more or f", int64[2] p = {{{steps}}}"
    return f"""g (float[4,4] x) => (float[{y}] y) <int64[2] s = {{{starts}}},
               int64[2] e = {{{ends}}}, int64[2] a = {{0, 1}}{more}>
               {{ y = Slice ({names}) }}"""


@dataclass(frozen=True, slots=True)
class Cut:
    """A constant Slice along one axis, start and end counted from the beginning."""

    axis: int
    size: int
    start: int
    end: int
    step: int


def cuts(check: Context, node: Node) -> list[Cut] | None:
    """The cuts of a Slice all of whose operands are constants; None where one is not."""
    shape = check.shape(node.input(0))
    values = [check.constant(node.input(i)) for i in range(1, 5)]
    if shape is None or any(v is None for v in values):
        return None
    starts, ends, axes, steps = ([int(e) for e in v.reshape(-1)] for v in values if v is not None)
    made = []
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=False):
        if not -len(shape) <= axis < len(shape):
            return None
        size = shape[axis]
        low, high = (v + size if v < 0 else v for v in (start, end))
        made.append(Cut(axis % len(shape), size, low, high, step))
    return made


@rule("Slice.1", "every axis is sliced explicitly", Severity.ERROR, "Slice [R1], [R2], [R3]", "F7",
      good=_slice(), bad=_slice(names="x, s, e, a", more=" "), blocks=True)  # fmt: skip
def slice_given(check: Context) -> Found:
    """axes and steps are given, list all axes, each once, and are as long as starts and ends.

    Why: no default values.
    Example: Slice without steps.
    Limits: that they are constants is A05's.
    """
    for node in check.of("Slice"):
        for i, what in ((3, "axes"), (4, "steps")):
            if not node.input(i):
                yield at(node, f"no {what}", f"input {i}, {what}")
        rank = check.rank(node.input(0))
        for name in filter(None, node.inputs[1:]):
            shape = check.shape(name)
            if rank is not None and shape is not None and shape != (rank,):
                yield at(node, f"shape {list(shape)}", [rank], tensor=name)
        axes = check.constant(node.input(3))
        if axes is not None and rank is not None:
            places = {int(a) % rank for a in axes.reshape(-1)} if rank else set()
            if len(places) != axes.size:
                yield at(node, axes.reshape(-1).tolist(), "each axis once", tensor=node.input(3))


@rule("Slice.2", "slices are in order", Severity.TRANSIENT, "Slice [R6], [R7], [R8]",
      good=_slice(), bad=_slice(starts="3, 1", ends="1, 3", y="0,2"))  # fmt: skip
def slice_order(check: Context) -> Found:
    """Counted from the beginning: start <= end for a positive step, start >= end for a negative
    one; start is below the size, end within it.

    Why: a restriction to save the working group's effort.
    Example: from 3 to 1 with step 1.
    Limits: a step of 0 is an error. An end of -size - 1 with a negative step, which stands for "to
    the very beginning", is within.
    """
    for node in check.of("Slice"):
        for cut in cuts(check, node) or ():
            where = f"axis {cut.axis}: {cut.start} to {cut.end} by {cut.step}, size {cut.size}"
            if cut.step == 0:
                yield at(node, where, "a step that is not 0", severity=Severity.ERROR)
            elif (cut.start > cut.end) if cut.step > 0 else (cut.start < cut.end):
                yield at(node, where, "start and end in the order of the step")
            elif not 0 <= cut.start < max(1, cut.size) or not -1 <= cut.end <= cut.size:
                yield at(node, where, "start below the size, end within it")


def _mixed() -> str:
    return """g (float[4,4] x) => (float[2,2] y) <int64[2] s = {0, 1}, int64[2] e = {2, 3},
              int32[2] a = {0, 1}, int64[2] p = {1, 1}> { y = Slice (x, s, e, a, p) }"""


@rule("Slice.3", "Slice's numbers have one type", Severity.ERROR, "Slice [R9], [R10]", "F5",
      good=_slice(), bad=_mixed(), implies=("T06",), blocks=True)  # fmt: skip
def slice_types(check: Context) -> Found:
    """starts, ends, axes and steps have one element type, and Y has that of X.

    Why: GR3: no implicit conversion.
    Example: axes of int32 beside starts of int64.
    Limits: T06 says the same in general. Such a model is no ONNX model either.
    """
    for node in check.of("Slice"):
        found = {check.stated_element(n) or check.element(n) for n in node.inputs[1:]} - {""}
        if len(found) > 1:
            yield at(node, " and ".join(sorted(found)), "one element type")
