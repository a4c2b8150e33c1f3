"""Rules about Flatten, Reshape, Unsqueeze, Shape and Range."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, prod

import numpy as np

from sardonyx.checker.context import Context
from sardonyx.checker.finding import Severity
from sardonyx.checker.registry import Found, at, rule


@rule("Flatten.1", "Flatten's axis is given", Severity.ERROR, "Flatten, constraints", "F1",
      good="g (float[2,3,4] x) => (float[2,12] y) { y = Flatten <axis=1> (x) }",
      bad="g (float[2,3,4] x) => (float[2,12] y) { y = Flatten (x) }")  # fmt: skip
def flatten(check: Context) -> Found:
    """axis is given; it lies in [-r, r].

    Why: no default values.
    Example: Flatten without axis.
    Limits: the range is A04's, the shape of Y T05's.
    """
    for node in check.of("Flatten"):
        if node.integer("axis") is None:
            yield at(node, "not given", "given", attribute="axis")


def _reshape(shape: str, y: str = "2,6", x: str = "3,4", zero: str = "<allowzero=0>") -> str:
    count = shape.count(",") + 1
    return f"""g (float[{x}] x) => (float[{y}] y) <int64[{count}] s = {{{shape}}}>
               {{ y = Reshape {zero} (x, s) }}"""


@rule("Reshape.1", "Reshape's shape is plain", Severity.ERROR, "Reshape, constraints", "F1",
      good=_reshape("2, 6"), bad=_reshape("2, 6", zero=""), blocks=True)  # fmt: skip
def reshape(check: Context) -> Found:
    """allowzero is given, as 0 or 1; shape has at most one -1, copies dims that are there, and
    gives as many elements as there are; no -1 for an empty tensor.

    Why: the constraints of the document.
    Example: Reshape without allowzero.
    Limits: asked where the shape is a constant; where it is not, A05 says so.
    """
    for node in check.of("Reshape"):
        zero = node.given.get("allowzero")
        if zero not in (0, 1):
            yield at(node, "not given" if zero is None else zero, "0 or 1", attribute="allowzero")
        data, shape = check.shape(node.input(0)), check.constant(node.input(1))
        if data is None or shape is None:
            continue
        wrong = _wrong_shape(data, [int(v) for v in shape.reshape(-1)], bool(zero))
        if wrong:
            yield at(node, wrong, f"a shape of {prod(data)} elements", tensor=node.input(1))


def _wrong_shape(data: tuple[int, ...], shape: list[int], zero: bool) -> str:
    """What is wrong with a Reshape, "" where nothing is."""
    if shape.count(-1) > 1 or min(shape, default=0) < -1:
        return f"{shape}: more than one -1, or a size below it"
    if not zero and any(d == 0 and i >= len(data) for i, d in enumerate(shape)):
        return f"{shape}: a 0 where X {list(data)} has no dim to copy"
    full = [data[i] if d == 0 and not zero else d for i, d in enumerate(shape)]
    known = prod(d for d in full if d != -1)
    if -1 in full:
        if known == 0 or prod(data) == 0:
            return f"{shape}: -1 with an empty tensor"
        return f"{shape} for {list(data)}" if prod(data) % known else ""
    return "" if known == prod(data) else f"{shape} for {list(data)}"


def _unsqueeze(axes: str, y: str) -> str:
    count = axes.count(",") + 1
    return f"""g (float[3] x) => (float[{y}] y) <int64[{count}] a = {{{axes}}}>
               {{ y = Unsqueeze (x, a) }}"""


@rule("Unsqueeze.1", "Unsqueeze's axes", Severity.ERROR, "Unsqueeze, constraints", blocks=True,
      good=_unsqueeze("0, 2", "1,3,1"), bad=_unsqueeze("0, 0", "1,1,3"))  # fmt: skip
def unsqueeze(check: Context) -> Found:
    """The axes lie within the rank of the output, and each is named once.

    Why: the constraints of the document.
    Example: the axes 0 and 0.
    Limits: asked where they are constants; where not, A05 says so.
    """
    for node in check.of("Unsqueeze"):
        axes, rank = check.constant(node.input(1)), check.rank(node.input(0))
        if axes is None or rank is None:
            continue
        total = rank + axes.size
        places = [int(a) % total if -total <= a < total else None for a in axes.reshape(-1)]
        if None in places or len(set(places)) != len(places):
            yield at(node, axes.reshape(-1).tolist(), f"different axes in {-total} to {total - 1}",
                     tensor=node.input(1))  # fmt: skip


@rule("Shape.1", "Shape's range is given", Severity.ERROR, "GR4", "F1",
      good="g (float[2,3] x) => (int64[2] y) { y = Shape <start=0, end=2> (x) }",
      bad="g (float[2,3] x) => (int64[2] y) { y = Shape <start=0> (x) }")  # fmt: skip
def shape_range(check: Context) -> Found:
    """start and end are given.

    Why: no default values.
    Example: Shape without end.
    Limits: the default of end is the rank.
    """
    for node in check.of("Shape"):
        for name in ("start", "end"):
            if node.integer(name) is None:
                yield at(node, "not given", "given", attribute=name)


def _range(delta: str) -> str:
    return f"""g (int64[3] x) => (int64[3] y)
               <int64 s, int64 l, int64 d, int64[3] r> {{
               s = Constant <value = int64 {{0}}> ()  l = Constant <value = int64 {{3}}> ()
               d = Constant <value = int64 {{{delta}}}> ()
               r = Range (s, l, d)  y = Add (x, r) }}"""


@rule("Range.1", "Range is of scalars, and ends", Severity.ERROR, "Range, constraints", blocks=True,
      implies=("G15",), good="g (float[2] x) => (float[2] y) { y = Relu (x) }",
      bad=_range("0"))  # fmt: skip
def range_(check: Context) -> Found:
    """start, limit and delta have rank 0, and delta is not 0.

    Why: with delta 0 there is no last element.
    Example: delta = 0.
    Limits: the number of elements is computed exactly; where rounding in the type of the operands
    gives another number it is a warning. A Range of constants is foldable (G15).
    """
    for node in check.of("Range"):
        values = [check.constant(name) for name in node.inputs]
        for name in node.inputs:
            if check.rank(name) not in (0, None):
                yield at(node, f"rank {check.rank(name)}", 0, tensor=name)
        if any(v is None or v.size != 1 or not np.isfinite(v).all() for v in values):
            continue
        start, limit, delta = (v.reshape(-1)[0] for v in values if v is not None)
        if delta == 0:
            yield at(node, 0, "a delta that is not 0", tensor=node.input(2))
            continue
        exact = ceil((Fraction(limit.item()) - Fraction(start.item())) / Fraction(delta.item()))
        with np.errstate(all="ignore"):
            rounded = float(np.ceil((limit - start) / delta))
        if max(0.0, rounded) != max(0, exact):
            yield at(node, f"{rounded:g} elements when rounded", f"{max(0, exact)}",
                     severity=Severity.WARNING)  # fmt: skip
