"""Arithmetic on what lies along another axis: tiles of it are turned before they are computed.

    for p in 16s: for l in 16s: t = 16 x 16 of x, turned
                                for p in tile: for l in tile: out[p][l] = f(t[p][l], ..)

so that f is of vectors, as it is where nothing is turned. The last tile of an axis moves back over
its neighbour, whose elements are not computed again; where there is no whole one, elements are
computed one by one. An axis p that is shorter than a tile is read as it lies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sardonyx import types as t
from sardonyx.dims import Dim
from sardonyx.kernel.affine import affine, coefficient
from sardonyx.kernel.c99.contract import flat
from sardonyx.kernel.c99.print_calls import has_calls, looked_up
from sardonyx.kernel.c99.print_strip import print_strip
from sardonyx.kernel.c99.strips import hoisted, strip_of, used
from sardonyx.kernel.c99.write import Writer, bare, evaluate, stored
from sardonyx.kernel.expr import Alu, Axis, Cast, Const, Expr, Fold, Iterate, Load, Size, Where
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.walk import free_axes, walk

TILE, TURNED = 16, 8  # elements of a tile each way; rows that are turned at once


@dataclass(frozen=True, slots=True, eq=False)
class Turned:
    """What a statement computes of turned tiles. p: the axis along which `loads` read neighbours;
    value: that of an element, where `column` is below `count`; else it is a constant."""

    p: Axis
    loads: tuple[Load, ...]
    value: Expr
    column: Expr | None
    count: Dim


def turned_of(s: Compute, p: Axis) -> Turned | None:
    """s as arithmetic on floats that are neighbours along p, all else being neighbours along its
    last axis, or the same there. What only moves has tiles of its own (print_tiles.py)."""
    last, value = s.axes[-1], s.expr
    if isinstance(p.extent, int) and p.extent < TILE:
        return None
    column: Expr | None = None
    count: Dim = 0
    match s.expr:
        case Where(Alu("lt", (c, Const(int(n)) | Size(n))), x, Const()):
            form = affine(c)
            if form is None or [coefficient(form, a) for a in (last, p)] != [1, 0]:
                return None
            value, column, count = x, c, n
    nodes = list(walk(value))
    loads = [e for e in nodes if isinstance(e, Load)]
    plain = all(e.mode == "proven" for e in loads)
    if isinstance(value, Load) or not plain or any(isinstance(e, Fold | Iterate) for e in nodes):
        return None
    free, across = free_axes(value), list[Load]()
    tables = {id(e.x) for e in nodes if isinstance(e, Cast) and looked_up(e)}
    for e in (e for e in loads if last in free[id(e)] and id(e) not in tables):
        address = flat(e)
        steps = [None if address is None else coefficient(address, a) for a in (p, last)]
        if steps[0] == 1 and steps[1] not in (None, 0, 1) and e.dtype is t.float32:
            across.append(e)
        elif steps[1] != 1:
            return None
    return Turned(p, tuple(across), value, column, count) if across else None


def print_turned(s: Compute, found: Turned, names: Writer) -> list[str]:
    """The loop nest of s in turned tiles."""
    given = dict(names.given)
    alone, last = hoisted(s.expr, names), s.axes[-1]
    heads = [names.loop(a) for a in s.axes if a is not found.p and a is not last]
    (first, end), (_, width) = names.span(found.p), names.span(last)
    i, j, r, c = (names.fresh(x) for x in "bbrc")
    lines = [
        *heads,
        f"for (int64_t {i} = {first}; {i} < {end}; {i} += {TILE}) {{",
        f"const int64_t {r} = {end} - {i} < {TILE} ? {end} - {TILE} : {i};",
        f"for (int64_t {j} = 0; {j} < {width}; {j} += {TILE}) {{",
        f"const int64_t {c} = {width} - {j} < {TILE} ? {width} - {TILE} : {j};",
    ]
    inside = ""
    if found.column is not None:
        before, text = _at(found.column, (r, c), found, last, names, {})
        lines += before
        inside = f" && {text} + {TILE} <= {names.size(found.count)}"
    new = f"{i} - {r}", f"{j} - {c}"  # an operand may lie where the result lies
    lines += [
        f"if ({r} == {i} && {c} == {j}{inside}) {{",
        *_whole(s, found, names, (r, c), ("0", "0")),
        f"}} else if ({r} >= {first} && {c} >= 0{inside}) {{",
        *_whole(s, found, names, (r, c), new),
        *("} else {", *_one_by_one(s, found, names, (i, end), (j, width)), "}"),
        *("}", "}"),
    ]
    names.given = given
    return ["{", *alone, *lines, *["}"] * len(heads), "}"]


def _at(
    e: Expr,
    point: tuple[str, str],
    found: Turned,
    last: Axis,
    names: Writer,
    known: Mapping[Expr, str],
) -> tuple[list[str], str]:
    """The statements and the text of a value at a point of p and of the last axis."""
    given = dict(names.given)
    before, (text,) = evaluate(names, [e], {found.p: point[0], last: point[1], **known})
    names.given = given
    return before, bare(text)


def _whole(
    s: Compute, found: Turned, names: Writer, begin: tuple[str, str], new: tuple[str, str]
) -> list[str]:
    """The statements for the tile that begins at a point, whose elements from `new` on are left."""
    last, tiles, lines = s.axes[-1], dict[Expr, str](), list[str]()
    a, b, i, j = (names.fresh(x) for x in ("l", "l", "i", "i"))
    for e in found.loads:
        address = flat(e)
        step = None if address is None else coefficient(address, last)
        assert step is not None
        tile, source = names.fresh("t"), names.fresh("x")
        before, text = _at(e, begin, found, last, names, {})
        lines += [
            *before,
            f"float {tile}[{TILE}][{TILE}];",
            f"const float *const {source} = &{text};",
            *(
                f"sx_across_wide((uint8_t *)(void *){tile}[{n}], {4 * TILE}, "
                f"(const uint8_t *)(const void *)({source} + {n}), {names.size(step * 4)});"
                for n in range(0, TILE, TURNED)
            ),
        ]
        tiles[e] = f"{tile}[{a}][{b}]"
    points = [f"const int64_t {i} = {begin[0]} + {a};", f"const int64_t {j} = {begin[1]} + {b};"]
    lines.append(f"for (int64_t {a} = {new[0]}; {a} < {TILE}; {a}++) {{")
    if new[1] == "0" and has_calls(found.value, last):
        given, names.given = names.given, {**names.given, found.p: i, last: j, **tiles}
        row = replace(strip_of(s, last, names), expr=found.value)
        element = print_strip(row, names, b, points[1], str(TILE))
        names.given = given
        return [*lines, *used(points[0], element), *element, "}"]
    element = _element(s, found.value, found, names, (i, j), tiles)
    return [
        *lines,
        f"sx_apart() for (int64_t {b} = {new[1]}; {b} < {TILE}; {b}++) {{",
        *(line for x in points for line in used(x, element)),
        *(*element, "}", "}"),
    ]


def _one_by_one(
    s: Compute, found: Turned, names: Writer, rows: tuple[str, str], lanes: tuple[str, str]
) -> list[str]:
    """The statements for what is left of a tile that is not whole."""
    heads, point = list[str](), list[str]()
    for start, end in (rows, lanes):
        at = names.fresh("i")
        within = f"{at} < {end} && {at} < {start} + {TILE}"
        heads.append(f"for (int64_t {at} = {start}; {within}; {at}++) {{")
        point.append(at)
    element = _element(s, s.expr, found, names, (point[0], point[1]), {})
    return [*heads, *element, "}", "}"]


def _element(
    s: Compute,
    e: Expr,
    found: Turned,
    names: Writer,
    point: tuple[str, str],
    known: Mapping[Expr, str],
) -> list[str]:
    """The statements that store e as the element at a point."""
    last = s.axes[-1]
    before, text = _at(e, point, found, last, names, known)
    given = {**names.given, found.p: point[0], last: point[1]}
    value = stored(names, text, e, s.buffer)
    return [*before, names.assign(s.buffer, [given[a] for a in s.axes], value)]
