"""What the printers of strips of sixteen lanes (print_strip.py, print_calls.py) have in common."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sardonyx import types as t
from sardonyx.dims import Dim
from sardonyx.kernel.affine import affine, coefficient, position
from sardonyx.kernel.c99.picks import table_of
from sardonyx.kernel.c99.spelling import c_type
from sardonyx.kernel.c99.write import Writer, bare, evaluate
from sardonyx.kernel.expr import Alu, Axis, Buffer, Cast, Expr, Fold, Iterate, Load, Local, Where
from sardonyx.kernel.folds import LANES
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.walk import children, free_axes, walk
from sardonyx.types import DType

WHOLE = str(LANES)  # the width of a strip that is not cut


@dataclass(frozen=True, slots=True, eq=False)
class Strip:
    """Elements of a buffer along an axis, sixteen of which are computed at once. target: the text
    of one; along: whether neighbours are neighbours in memory."""

    axis: Axis
    buffer: Buffer
    expr: Expr
    target: str
    along: bool


def strip_of(s: Compute, axis: Axis, names: Writer) -> Strip:
    target = names.element(s.buffer, [names.given[a] for a in s.axes])
    return Strip(axis, s.buffer, s.expr, target, is_along(s.axes, s.buffer.shape, axis))


def used(here: str, lines: Sequence[str]) -> list[str]:
    """The declaration, if the lines use what it declares."""
    name = here.split(" = ")[0].split()[-1]
    return [here] if any(re.search(rf"\b{name}\b", line) for line in lines) else []


@dataclass(frozen=True, slots=True)
class Last:
    """A whole strip that ends with its axis. here: the declaration of an element's index, of lane
    `lane`; element: the statements before its value; kept: a name that is free; first: the first
    lane that is not stored yet."""

    lane: str
    width: int
    here: str
    element: Sequence[str]
    value: str
    kept: str
    first: str

    def lines(self, dtype: DType, head: str, store: Callable[[str], str]) -> list[str]:
        """All lanes, of which only those that are not stored yet are stored: an operand may lie
        where the result lies. head: stands before the loop over all lanes."""
        one = f"{self.kept}[{self.lane}]"
        declared = used(self.here, [*self.element, self.value])
        loop = f"for (int64_t {self.lane} = {{}}; {self.lane} < {self.width}; {self.lane}++) {{{{"
        return [
            f"{c_type(dtype)} {self.kept}[{self.width}];",
            f"{head} {loop.format(0)}",
            *(*declared, *self.element, f"{one} = {bare(self.value)};", "}"),
            *(loop.format(self.first), self.here, store(one), "}"),
        ]


def is_along(index: Sequence[Expr], shape: Sequence[Dim], axis: Axis) -> bool:
    """Whether neighbours along the axis are neighbours in memory."""
    place = position(index, tuple(shape))
    return place is not None and coefficient(place, axis) == 1


def hoisted(root: Expr, names: Writer) -> list[str]:
    """Declares what no axis decides, before all loops."""
    free = free_axes(root)
    lines: list[str] = []
    for e in always(root, names.given):
        if free[id(e)] or not _stands_alone(e):
            continue
        before, (text,) = evaluate(names, [e])
        name = names.fresh("k")
        lines += [*before, f"const {c_type(e.dtype)} {name} = {bare(text)};"]
        names.given[e] = name
    return lines


def _stands_alone(e: Expr) -> bool:
    """Whether e holds loads, all of them of elements that are there."""
    below = list(walk(e))
    loads = [x for x in below if isinstance(x, Load)]
    return bool(loads) and all(map(_is_there, loads)) and not any(map(_is_bound, below))


def _is_bound(e: Expr) -> bool:
    return isinstance(e, Fold | Iterate | Local | Where)


def _is_there(x: Load) -> bool:
    index: Sequence[object] = [affine(i) for i in x.index]
    return x.mode == "proven" and all(
        isinstance(i, int) and isinstance(n, int) and 0 <= i < n
        for i, n in zip(index, x.buffer.shape, strict=True)
    )


def is_small(dtype: DType) -> bool:
    """Whether it is an integer of 8 or 16 bits."""
    return dtype.is_integer and not dtype.is_storage and dtype.bits < 32


def rounded(e: Expr) -> tuple[Expr, Expr | None] | None:
    """v and z of an e that is rint(v) + z as a small integer: z is one that no axis decides, or
    None."""
    if not is_small(e.dtype):
        return None
    match e:
        case Cast(Alu("add", (Alu("rint", (v,)), Cast(z) as zero), t.float32), dtype, True):
            alone = isinstance(z, Load) and not free_axes(z)[id(z)]
            return (v, zero) if alone and z.dtype is dtype else None
        case Cast(Alu("rint", (v,), t.float32), _, True):
            return v, None
    return None


def array_of(
    value: Expr, names: Writer, lane: str, here: str, width: str = WHOLE
) -> tuple[str, list[str]]:
    """The name of an array of sixteen values, and the statements that compute the first `width`;
    the others are 0."""
    f, each = names.fresh("f"), f"for (int64_t {lane} = 0; {lane} < {width}; {lane}++) {{"
    element, (text,) = evaluate(names, [value])
    text, others = bare(text), "" if width == WHOLE else " = {0}"
    head = [f"sx_lined() float {f}[{LANES}]{others};", f"sx_rolled() {each}"]
    lines = [*used(here, [*element, text]), *element, f"{f}[{lane}] = {text};", "}"]
    return f, [*head, *lines]


def varying(roots: tuple[Expr, ...], axis: Axis, names: Writer) -> Iterator[Expr]:
    """What every lane evaluates for itself, operands before their users."""
    free = free_axes(*roots)
    needed = {id(e) for root in roots for e in always(root, names.given)}
    for e in walk(*roots):
        if id(e) in needed and (axis in free[id(e)] or any(isinstance(x, Fold) for x in walk(e))):
            yield e


def always(root: Expr, given: Mapping[Expr, str]) -> Iterator[Expr]:
    """The nodes that are evaluated whatever the data are, users before their operands: none that
    has a text already, none inside of folds, none that a selection may skip but picked numbers."""
    todo, seen = [root], set[int]()
    while todo:
        e = todo.pop()
        if id(e) in seen or e in given:
            continue
        seen.add(id(e))
        yield e
        if e in given or isinstance(e, Fold | Iterate):
            continue
        if isinstance(e, Where):
            todo += [e.cond, *filter(table_of, (e.a, e.b))]
        else:
            todo += children(e)
