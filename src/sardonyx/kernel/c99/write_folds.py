"""The loops of folds whose terms are taken sixteen at a time: sums, products, extremes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from sardonyx.dims import product
from sardonyx.kernel.c99.spelling import bare, c_type, literal, suffix
from sardonyx.kernel.c99.writer import Writer
from sardonyx.kernel.expr import Alu, Axis, Expr, Fold, Load, Local
from sardonyx.kernel.folds import LANES, identity
from sardonyx.kernel.walk import walk

KEPT = 1024  # terms that are copied before they are added
SHORT = 20  # terms below which an extreme is taken one by one

Innermost: TypeAlias = tuple[str, list[str], str]  # the predicate, what it guards, the term


def sums(
    names: Writer,
    e: Fold,
    name: str,
    heads: list[str],
    bodies: list[list[str]],
    innermost: Innermost,
) -> list[str]:
    """The 16-way sum or product: partial results in an array."""
    when, guarded, term = innermost
    parts, T, sign = names.fresh("p"), c_type(e.dtype), "+" if e.kind == "sum" else "*"
    one = literal(identity(e), e.dtype)
    start = "0" if e.kind == "sum" else ", ".join([one] * LANES)
    extent = e.axes[-1].extent
    narrowed = any(a in names.spans for a in e.axes)
    aligned = len(e.axes) == 1 or (isinstance(extent, int) and extent % LANES == 0)
    used = product(tuple(a.extent for a in e.axes))

    def step(lane: str, term: str = term) -> list[str]:
        return under(when, [*guarded, f"{parts}[{lane}] {sign}= {bare(term)};"])

    if narrowed:
        lines = nest(heads, bodies, step(f"({position(names, e)}) & {LANES - 1}"))
    elif aligned:
        inner = _in_sixteens(names, e.axes[-1], bodies[-1], step)
        lines = nest(heads[:-1], bodies[:-1], inner)
    elif names.wide and not when and isinstance(used, int) and LANES < used <= KEPT:
        kept, whole = names.fresh("w"), Axis("kept", used)
        names.given[whole] = names.fresh("r")
        lines = [f"{T} {kept}[{used}];", *_kept(names, e, kept, heads, bodies, term)]
        lines += _in_sixteens(
            names, whole, [], lambda lane: step(lane, f"{kept}[{names.given[whole]}]")
        )
    else:
        count = names.fresh("q")
        counted = [*step(f"{count} & {LANES - 1}"), f"{count}++;"]
        lines = [f"int64_t {count} = 0;", *nest(heads, bodies, counted)]
    if isinstance(used, int) and 0 < used < LANES and names.wide:
        start = "0" if e.kind == "sum" else ", ".join([one] * used)
        for n in (8, 4, 2, 1):  # the partial results that no term reached change no other
            pairs = range(min(n, used - n))
            lines += [f"{parts}[{j}] {sign}= {parts}[{j + n}];" for j in pairs]
        return [f"{T} {parts}[{used}] = {{{start}}};", *lines, f"const {T} {name} = {parts}[0];"]
    result = f"sx_{e.kind}16_{suffix(e.dtype)}({parts})"
    return [f"{T} {parts}[{LANES}] = {{{start}}};", *lines, f"const {T} {name} = {result};"]


def _kept(
    names: Writer, e: Fold, kept: str, heads: list[str], bodies: list[list[str]], term: str
) -> list[str]:
    """The terms one behind the other, so that sixteen of them are neighbours wherever rows end."""
    count, last = names.fresh("q"), e.axes[-1]
    row = [heads[-1], *bodies[-1], f"{kept}[{count} + {names.given[last]}] = {bare(term)};", "}"]
    rows = nest(heads[:-1], bodies[:-1], [*row, f"{count} += {names.size(last.extent)};"])
    return [f"int64_t {count} = 0;", *rows]


def extremes(
    names: Writer,
    e: Fold,
    name: str,
    heads: list[str],
    bodies: list[list[str]],
    innermost: Innermost,
) -> list[str]:
    """The minimum or maximum of floats as that of integers in the same order, which are compared at
    once; it has no order of its own."""
    when, guarded, term = innermost
    s, bits = suffix(e.dtype), e.dtype.bits
    parts, rank = names.fresh("p"), f"sx_{e.kind}rank_{s}"
    start = f"{rank}({bare(literal(identity(e), e.dtype))})"

    def step(part: str) -> list[str]:
        found = f"sx_{e.kind}_i{bits}({part}, {rank}({bare(term)}))"
        return under(when, [*guarded, f"{part} = {found};"])

    last = e.axes[-1].extent
    narrowed = any(a in names.spans for a in e.axes)
    if narrowed or (isinstance(last, int) and last < SHORT):
        result = f"sx_{e.kind}ranked_{s}({parts})"
        lines = [f"int{bits}_t {parts} = {start};", *nest(heads, bodies, step(parts))]
        return [*lines, f"const {e.dtype.c} {name} = {result};"]
    inner = _in_sixteens(names, e.axes[-1], bodies[-1], lambda at: step(f"{parts}[{at}]"), True)
    return [
        f"sx_lined() int{bits}_t {parts}[{LANES}];",
        f"for (int l = 0; l < {LANES}; l++) {parts}[l] = {start};",
        *nest(heads[:-1], bodies[:-1], inner),
        f"const {e.dtype.c} {name} = sx_{e.kind}16_{s}({parts});",
    ]


def _in_sixteens(
    names: Writer,
    axis: Axis,
    body: list[str],
    step: Callable[[str], list[str]],
    again: bool = False,
) -> list[str]:
    """A loop over axis whose element i goes to lane i mod 16, in a form that vectorises. again: an
    element may come twice, to any lane: the last sixteen do."""
    i, n = names.given[axis], names.size(axis.extent)
    if isinstance(axis.extent, int) and axis.extent <= LANES:
        return [f"for (int64_t {i} = 0; {i} < {n}; {i}++) {{", *body, *step(i), "}"]
    base, lane = names.fresh("b"), names.fresh("l")
    sixteen = [
        f"sx_rolled() for (int64_t {lane} = 0; {lane} < {LANES}; {lane}++) {{",
        f"const int64_t {i} = {base} + {lane};",
        *body,
        *step(lane),
        "}",
    ]
    head = f"for (; {base} + {LANES} <= {n}; {base} += {LANES}) {{"
    whole = [head, *(["sx_turn();"] if again else []), *sixteen, "}"]
    rest = [f"for (int64_t {i} = {base}; {i} < {n}; {i}++) {{", *body, *step(f"{i} - {base}"), "}"]
    if isinstance(axis.extent, int) and axis.extent % LANES == 0:
        rest = []
    elif isinstance(axis.extent, int) and again:
        rest = ["{", f"const int64_t {base} = {n} - {LANES};", *sixteen, "}"]
    return [f"int64_t {base} = 0;", *whole, *rest]


Limits: TypeAlias = dict[Axis, tuple[Expr | None, Expr | None]]


def limits(e: Fold) -> Limits:
    """For axes of e outside of whose limits all terms are absent, where data decides these: the
    least index and the one after the last, either perhaps unknown."""
    return bounded(e)[0]


def bounded(e: Fold) -> tuple[Limits, Fold]:
    """These limits, and e with what its `when` says besides."""
    found: Limits = {}
    rest: Expr | None = None
    todo = [] if e.when is None else [e.when]
    while todo:
        match todo.pop():
            case Alu("and", (a, b), _):
                todo += [a, b]
            case Alu("le", (low, Axis() as axis), _) if _limits(e, axis, low, found, 0):
                found[axis] = low, found.get(axis, (None, None))[1]
            case Alu("lt", (Axis() as axis, high), _) if _limits(e, axis, high, found, 1):
                found[axis] = found.get(axis, (None, None))[0], high
            case other:
                rest = other if rest is None else rest & other
    return found, replace(e, when=rest) if found else e


def _limits(e: Fold, axis: Axis, x: Expr, found: Limits, side: int) -> bool:
    """Whether data x decides where an axis of e begins or ends, and nothing else does yet."""
    return axis in e.axes and _is_data(x, e) and found.get(axis, (None, None))[side] is None


def narrow(names: Writer, found: dict[Axis, tuple[str | None, str | None]]) -> list[str]:
    """Declares from where to where loops go, given the texts of the limits of their axes."""
    lines: list[str] = []
    for axis, (low, high) in found.items():
        ends = "0", names.size(axis.extent)
        start, end = (names.fresh("b") for _ in range(2))
        first = f"sx_max_i64({ends[0]}, {low})" if low else ends[0]
        last = f"sx_min_i64({ends[1]}, {high})" if high else ends[1]
        lines += [f"const int64_t {start} = {first};", f"const int64_t {end} = {last};"]
        names.spans[axis] = start, end
    return lines


def position(names: Writer, e: Fold) -> str:
    """The number of a term."""
    place = names.given[e.axes[0]]
    for axis in e.axes[1:]:
        place = f"({place}) * {names.size(axis.extent)} + {names.given[axis]}"
    return place


def _is_data(x: Expr, e: Fold) -> bool:
    """Whether data decides x, and no index of e."""
    below = list(walk(x))
    return any(isinstance(n, Load | Local) for n in below) and not any(n in e.axes for n in below)


def under(when: str, lines: list[str]) -> list[str]:
    return [f"if ({when}) {{", *lines, "}"] if when else lines


def rolled(head: str) -> str:
    """The head of a loop that is not to be unrolled before gcc looks for vectors."""
    return f"sx_rolled() {head}" if head.startswith("for") else head


def nest(heads: Sequence[str], bodies: Sequence[list[str]], inner: list[str]) -> list[str]:
    """Loops inside one another: each head, then what its body starts with."""
    opened = [line for head, body in zip(heads, bodies, strict=True) for line in (head, *body)]
    return [*opened, *inner, *["}"] * len(heads)]
