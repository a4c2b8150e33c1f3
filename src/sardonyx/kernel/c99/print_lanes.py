"""Folds under a contiguous output axis: sixteen neighbours at a time, each in a lane of its own.

    for strip of 16: acc[16] = start; for fold axes: for lane: acc[lane] += term; for lane: store

Depthwise convolutions, pools and reductions over outer axes take this form: the loads of a strip
lie together, and each lane keeps the order of its own fold. A 16-way sum has sixteen partial sums
a lane, or as many as it has terms: the others stay +0, which changes no sum that began at +0.
"""

from __future__ import annotations

from dataclasses import dataclass

from sardonyx import types as t
from sardonyx.dims import Dim, at_least, product
from sardonyx.kernel.affine import affine, coefficient
from sardonyx.kernel.c99.contract import flat, is_multiple
from sardonyx.kernel.c99.place import checked
from sardonyx.kernel.c99.print_calls import has_calls
from sardonyx.kernel.c99.print_strip import has_bytes, print_strip
from sardonyx.kernel.c99.print_taps import Few, added, few_of, in_turns, is_short, unrolled
from sardonyx.kernel.c99.print_terms import (
    Folding,
    is_least,
    is_ranked,
    print_steps,
    print_widened,
)
from sardonyx.kernel.c99.share import LINE
from sardonyx.kernel.c99.spelling import c_type, literal, suffix
from sardonyx.kernel.c99.strips import Last, hoisted, strip_of, used
from sardonyx.kernel.c99.write import Writer, bare, evaluate, fold_step, stored
from sardonyx.kernel.c99.write_folds import bounded, narrow, position
from sardonyx.kernel.expr import Axis, Expr, Fold, Load
from sardonyx.kernel.folds import LANES, identity
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.walk import free_axes, walk

LEAST = 8  # a shorter innermost axis is not worth a strip, but of chains, which wait for themselves
FAR = 512  # elements between terms, from which on more lanes are taken together
MANY, FEWER = 256, 64  # so many: of one accumulator each, and of sixteen
TERMS = 4  # that a lane of a wide strip takes at a time
BLOCK = 8  # terms that are turned at a time


def suits_lanes(s: Compute) -> bool:
    """Whether s has one fold along its lanes (lanes_of), whose terms are neighbours there, or
    which is a sum of products of floats: up to sixteen chains go on where one waits for itself."""
    return _fold_of(s) is not None


def _fold_of(s: Compute) -> Fold | None:
    """The fold to take in lanes. Other folds must not depend on their axis."""
    if not s.axes:
        return None
    axis = lanes_of(s)
    short = isinstance(axis.extent, int) and axis.extent < LEAST
    if any(isinstance(e, Load) and e.mode == "trap" for e in walk(s.expr)):
        return None
    found = [e for e in walk(s.expr) if isinstance(e, Fold)]
    inner = {id(e) for f in found for e in walk(*f.terms)}
    free = free_axes(s.expr)
    found = [e for e in found if axis in free[id(e)]]
    if len(found) != 1 or id(found[0]) in inner:
        return None
    (fold,) = found
    if fold.kind == "prod" and fold.dtype.is_float:
        return None
    chain = fold.kind == "dot" and fold.dtype.is_float
    if short and (not chain or axis.extent == 1):
        return None
    near = chain or any(_along(e, axis) for term in fold.terms for e in walk(term))
    return fold if near else None


def lanes_of(s: Compute) -> Axis:
    """The last axis, or the last but those of one point."""
    return next((a for a in reversed(s.axes) if a.extent != 1), s.axes[-1])


def _along(e: Expr, axis: Axis) -> bool:
    """Whether e is a load whose neighbours along the axis are neighbours in memory."""
    if not isinstance(e, Load) or not e.index:
        return False
    last = affine(e.index[-1])
    return last is not None and coefficient(last, axis) == 1


def print_lanes(s: Compute, names: Writer) -> list[str]:
    """The loop nest of s in strips along the axis of its lanes."""
    axis, fold = lanes_of(s), _fold_of(s)
    assert fold is not None
    heads = [names.loop(a) for a in s.axes if a is not axis]
    others = [e for e in walk(s.expr) if isinstance(e, Fold) and e is not fold]
    before, texts = evaluate(names, others)
    names.given.update(zip(others, texts, strict=True))
    strip, lane = names.fresh("s"), names.fresh("l")
    names.given[axis] = names.fresh("i")
    here = f"const int64_t {names.given[axis]} = {strip} + {lane};"
    few, width = few_of(fold, axis), _width(s, fold)
    within, narrowing = _narrowed(fold, axis, names)
    before += narrowing
    result, folding = _folding(within, names, lane, axis, here, width)
    for a in fold.axes:
        names.spans.pop(a, None)
    if few is not None:
        asked, result, folding = _few(few, folding, names, lane, here, result)
        before += asked
    names.given[fold] = result
    alone = hoisted(s.expr, names)
    given = dict(names.given)
    element, (value,) = evaluate(names, [s.expr])
    value = stored(names, value, s.expr, s.buffer)
    store = names.assign(s.buffer, [names.given[a] for a in s.axes], value, ascending=True)

    def over(count: str) -> list[str]:
        each = f"for (int64_t {lane} = 0; {lane} < {count}; {lane}++) {{"
        rounds = count == str(LANES) and has_calls(s.expr, axis)
        if (has_bytes(s, axis) or rounds) and s.expr is not fold:
            names.given = dict(given)
            strip = strip_of(s, axis, names)
            return [*folding(each), *print_strip(strip, names, lane, here, count)]
        return [*folding(each), f"sx_rolled() {each}", here, *element, store, "}"]

    start, n = names.span(axis)
    cut = axis in names.spans and LINE % width != 0  # a thread's share may end within a strip
    whole = not cut and isinstance(axis.extent, int) and axis.extent % width == 0
    inner = [
        f"int64_t {strip} = {start};",
        f"for (; {strip} + {width} <= {n}; {strip} += {width}) {{",
    ]
    inner += [*over(str(width)), "}"]
    if not whole and axis not in names.spans and _goes_back(s, axis, width):
        first, kept = names.fresh("l"), names.fresh("k")
        each = f"for (int64_t {lane} = 0; {lane} < {width}; {lane}++) {{"
        index = [names.given[a] for a in s.axes]
        last = Last(lane, width, here, element, value, kept, first)
        inner += [
            f"if ({strip} < {n}) {{",
            f"const int64_t {first} = {strip} + {width} - {n};",
            f"{strip} = {n} - {width};",
            *folding(each),
            *last.lines(s.buffer.dtype, "sx_rolled()", lambda x: names.assign(s.buffer, index, x)),
            "}",
        ]
    elif not whole:
        inner += [f"if ({strip} < {n}) {{", *over(f"{n} - {strip}"), "}"]
    return ["{", *alone, *heads, "{", *before, *inner, "}", *["}"] * len(heads), "}"]


def _narrowed(fold: Fold, axis: Axis, names: Writer) -> tuple[Fold, list[str]]:
    """The fold over what data leaves of its axes, alike for all lanes, and the statements that
    tell what that is."""
    found, rest = bounded(fold) if fold.kind in ("sum", "min", "max") else ({}, fold)
    ends = [x for pair in found.values() for x in pair if x is not None]
    free = free_axes(*ends)
    if not ends or any(axis in free[id(x)] for x in ends):
        return fold, []
    lines, texts = evaluate(names, ends)
    known: dict[Expr | None, str] = dict(zip(ends, map(bare, texts), strict=True))
    limits = {a: (known.get(x), known.get(y)) for a, (x, y) in found.items()}
    return rest, [*lines, *narrow(names, limits)]


def _goes_back(s: Compute, axis: Axis, width: int) -> bool:
    """Whether the last lanes are those of a whole strip that ends with them (strips.Last)."""
    strips = has_bytes(s, axis) or has_calls(s.expr, axis)
    wide = isinstance(axis.extent, int) and axis.extent >= width
    return wide and not strips and s.buffer.dtype.bits >= t.float32.bits


def _width(s: Compute, fold: Fold) -> int:
    """How many lanes are taken together: more where each term lies far from the one before it, so
    that few of each line or page are not all that is read while it is near; and more of a chain
    through memory, which takes longer than to load and store some vectors."""
    axis = lanes_of(s)
    if has_bytes(s, axis) or is_short(fold, axis) or few_of(fold, axis) is not None:
        return LANES
    if fold.kind == "and":
        return LANES if isinstance(axis.extent, int) and axis.extent < FEWER else FEWER
    if _turned(fold, axis) is not None or not isinstance(axis.extent, int):
        return LANES
    addresses = (flat(e) for x in fold.terms for e in walk(x) if isinstance(e, Load))
    far = any(
        a is not None and coefficient(a, axis) == 1 and _is_far(coefficient(a, fold.axes[-1]))
        for a in addresses
    )
    width = FEWER if fold.kind == "sum" else MANY
    if far and axis.extent >= width:
        return width
    chain = fold.kind == "dot" and (axis.extent % FEWER == 0 or axis.extent >= MANY)
    return FEWER if chain else LANES


def _is_window(fold: Fold, axis: Axis) -> bool:
    return is_short(fold, axis) and _turned(fold, axis) is None


def _is_far(step: Dim | None) -> bool:
    return isinstance(step, int) and abs(step) >= FAR


def _folding(
    fold: Fold, names: Writer, lane: str, axis: Axis, here: str, width: int
) -> tuple[str, Folding]:
    """The text of a lane's result, and the statements that find it, given the loop over lanes."""
    loops = [names.loop(a) for a in fold.axes]
    acc, ends = names.fresh("acc"), ["}"] * len(loops)
    if fold.kind != "sum" or not fold.dtype.is_float:
        one = f"{acc}[{lane}]"
        kind, start = c_type(fold.dtype), bare(literal(identity(fold), fold.dtype))
        if is_ranked(fold):
            kind = f"int{fold.dtype.bits}_t"
            start = f"sx_{fold.kind}rank_{suffix(fold.dtype)}({start})"
        result = f"sx_{fold.kind}ranked_{suffix(fold.dtype)}({one})" if is_ranked(fold) else one
        if _is_window(fold, axis):
            return result, _window(fold, names, lane, here, acc, start)
        steps = print_steps(fold, names, one, axis)
        widened = print_widened(fold, names, one, axis, lane, here)
        rolled = "sx_rolled() " if is_least(fold) or is_ranked(fold) else ""
        wide = Wide(fold, names, axis, lane, here, width)
        many = width > LANES or fold.kind == "and" or _turned(fold, axis) is not None
        some = _some(wide, one) if many else None

        def simple(each: str) -> list[str]:
            first = [f"{kind} {acc}[{width}];", f"{each[:-2]} {one} = {start};"]
            if some is not None:
                return [*first, *loops[:-1], *some(each), *ends[:-1]]
            full = f" < {LANES};" in each
            inner = widened(each) if widened and full else steps(rolled + each, here)
            return [*first, *loops, *inner, *ends]

        return result, simple
    count, terms_in = names.fresh("q"), product(tuple(a.extent for a in fold.axes))
    used = max(1, min(terms_in, LANES)) if isinstance(terms_in, int) else LANES
    narrowed = any(a in names.spans for a in fold.axes)
    steps = print_steps(fold, names, f"{acc}[{count} & {LANES - 1}][{lane}]", axis)
    turns = None if narrowed else in_turns(fold, names, here, lane, acc)

    def sixteen(each: str) -> list[str]:
        lines = [f"{c_type(fold.dtype)} {acc}[{used}][{width}] = {{{{0}}}};"]
        if turns is not None:
            lines += [*loops[:-1], *turns(each), *ends[:-1]]
        elif narrowed:
            place = f"const int64_t {count} = {position(names, fold)};"
            lines += [*loops, place, *steps(each, here), *ends]
        else:
            lines += [f"int64_t {count} = 0;", *loops, *steps(each, here), f"{count}++;", *ends]
        for n in (8, 4, 2, 1):
            for j in range(min(n, used - n)):
                lines.append(f"{each[:-2]} {acc}[{j}][{lane}] += {acc}[{j + n}][{lane}];")
        return lines

    return f"{acc}[0][{lane}]", sixteen


@dataclass(frozen=True, slots=True, eq=False)
class Wide:
    """A sum of products along the axis in strips of `width` lanes."""

    fold: Fold
    names: Writer
    axis: Axis
    lane: str
    here: str
    width: int


def _some(w: Wide, acc: str) -> Folding | None:
    """The loop over the innermost of a fold's axes, several terms at a time, for which a lane loads
    and stores its sum once."""
    fold, names = w.fold, w.names
    axis, loads = fold.axes[-1], [e for e in walk(*fold.terms) if isinstance(e, Load)]
    if (
        fold.kind not in ("dot", "and")
        or fold.when is not None
        or any(any(checked(e)) for e in loads)
    ):
        return None
    terms = axis.extent
    if isinstance(terms, int) and terms < TERMS:
        return None
    r, n = names.given[axis], names.size(terms)

    def taken(count: int, tile: tuple[Load, str] | None = None) -> list[str]:
        lines = list[str]()
        for place in range(count):
            names.given[axis] = f"({r} + {place})" if place else r
            if tile is not None:
                names.given[tile[0]] = f"{tile[1]}[{place}][{w.lane}]"
            before, texts = evaluate(names, list(fold.terms))
            lines += [*before, f"{acc} = {bare(fold_step(fold, acc, texts))};"]
        if tile is not None:
            del names.given[tile[0]]
        names.given[axis] = r
        return [*used(w.here, lines), *lines]

    whole, one = taken(TERMS), taken(1)
    found = _turned(fold, w.axis)
    tile, turning = ("", list[str]()) if found is None else _turning(found, w)
    eight = [] if found is None else taken(BLOCK, (found, tile))

    def folding(each: str) -> list[str]:
        full = found is not None and f" < {w.width};" in each
        count, steps = (BLOCK, eight) if full else (TERMS, whole)
        left = [] if is_multiple(terms, count) else [f"for (; {r} < {n}; {r}++) {{", "sx_turn();"]
        rest = [*left, each, *one, "}", "}"] if left else []
        head = f"for (; {r} + {count} <= {n}; {r} += {count}) {{"
        first = ["sx_turn();", *(turning if full else [])]
        return ["{", f"int64_t {r} = 0;", head, *first, each, *steps, "}", "}", *rest, "}"]

    return folding


def _turned(fold: Fold, axis: Axis) -> Load | None:
    """The load of a sum of products whose neighbours in memory are its terms, not its lanes."""
    last = fold.axes[-1]
    if fold.kind != "dot" or fold.dtype is not t.float32 or not at_least(last.extent, BLOCK):
        return None
    if isinstance(axis.extent, int) and axis.extent < LANES:
        return None
    for e in (e for x in fold.terms for e in walk(x) if isinstance(e, Load)):
        address = flat(e)
        if address is None or e.dtype is not t.float32 or e.mode != "proven":
            continue
        if coefficient(address, last) == 1 and coefficient(address, axis) not in (None, 0, 1):
            return e
    return None


def _turning(e: Load, w: Wide) -> tuple[str, list[str]]:
    """The name of a tile, terms by lanes, and the statements that fill it with what e reads."""
    tile, address = w.names.fresh("t"), flat(e)
    step = None if address is None else coefficient(address, w.axis)
    assert step is not None
    before, index = evaluate(w.names, list(e.index))
    source = f"(const uint8_t *)(const void *)&{w.names.element(e.buffer, index)}"
    target = f"(uint8_t *)(void *){tile}"
    call = f"sx_across_wide({target}, {w.width * 4}, {source}, {w.names.size(step * 4)});"
    room, first = f"float {tile}[{BLOCK}][{w.width}];", f"const int64_t {w.lane} = 0;"
    return tile, [room, "{", first, w.here, *before, call, "}"]


def _few(
    few: Few, otherwise: Folding, names: Writer, lane: str, here: str, result: str
) -> tuple[list[str], str, Folding]:
    """What stands before the strips, the text of a lane's result, and the statements that find it
    at once where all terms are there."""
    lines, total = added(few, names)
    sums = names.fresh("a")
    room, one = f"{c_type(few.terms[0].dtype)} {sums}[{LANES}];", f"{sums}[{lane}]"

    def whole(each: str) -> list[str]:
        return [f"sx_rolled() {each}", here, *lines, f"{one} = {bare(total)};", "}"]

    if few.whole is None:
        return [], one, lambda each: [room, *whole(each)]
    asked, (condition,) = evaluate(names, [few.whole])
    there = names.fresh("v")

    def folding(each: str) -> list[str]:
        slow = [*otherwise(each), f"{each[:-2]} {one} = {result};"]
        return [room, f"if ({there}) {{", *whole(each), "} else {", *slow, "}"]

    return [*asked, f"const int {there} = {bare(condition)};"], one, folding


def _window(fold: Fold, names: Writer, lane: str, here: str, acc: str, start: str) -> Folding:
    """The statements for a short sum of products."""
    taps = unrolled(fold, names, f"{acc}[{lane}]")

    def folding(each: str) -> list[str]:
        room = f"{c_type(fold.dtype)} {acc}[{LANES}];"
        return [room, f"sx_rolled() {each}", here, f"{acc}[{lane}] = {start};", *taps, "}"]

    return folding
