"""The end of a strip of sixteen lanes: its elements computed and stored, in forms that compilers
turn into vectors of 32-bit numbers.

    bytes are widened first       for (l..) q[l] = in[..];
    the expression                for (l..) r[l] = .. q[l] ..;
    and narrowed last             for (l..) out[..] = (uint8_t)r[l];

    what is rounded to integers   for (l..) f[l] = ..; sx_near_unsigned(f, zero, most); .. f[l] ..;
    where it is a quotient        for (l..) f[l] = ..; sx_quotients(f, scale);
    what is rounded to float16    for (l..) f[l] = ..; sx_nears_f16(f); for (l..) .. f[l] ..;

A loop of elements of two sizes makes gcc take vectors of the smaller one, and spill.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from sardonyx import types as t
from sardonyx.dims import at_least
from sardonyx.kernel.affine import affine
from sardonyx.kernel.c99.print_calls import (
    calls_of,
    has_calls,
    is_narrowed,
    narrowed,
    widened,
)
from sardonyx.kernel.c99.spelling import suffix
from sardonyx.kernel.c99.strips import (
    Strip,
    always,
    array_of,
    hoisted,
    is_along,
    is_small,
    rounded,
    strip_of,
    used,
    varying,
)
from sardonyx.kernel.c99.write import Writer, bare, evaluate, stored
from sardonyx.kernel.expr import Alu, Axis, Cast, Const, Expr, Fold, Iterate, Load
from sardonyx.kernel.folds import LANES
from sardonyx.kernel.ir import Compute, For, Store
from sardonyx.kernel.ranges import inside
from sardonyx.kernel.walk import free_axes, number, walk


def print_strip(s: Strip, names: Writer, lane: str, here: str, width: str) -> list[str]:
    """The statements for `width` elements of a strip; `here` declares the index of a lane."""
    axis, target = s.axis, s.target
    each = f"for (int64_t {lane} = 0; {lane} < {width}; {lane}++) {{"
    first = ["{", f"const int64_t {lane} = 0;", here] if width == str(LANES) else []
    lines: list[str] = []
    known: dict[str, str] = {}
    if first:
        lines += widened(s.expr, axis, names, lane, first)
    for x in _small_loads(s.expr, axis, names.given):
        before, index = evaluate(names, list(x.index))
        text = names.element(x.buffer, [bare(i) for i in index])
        if text not in known:
            q = known[text] = names.fresh("q")
            lines.append(f"int32_t {q}[{LANES}];")
            if first and x.dtype.bits == 8 and is_along(x.index, x.buffer.shape, axis):
                widen = f"sx_widen_{suffix(x.dtype)}({q}, &{text});"
                lines += [*first, *before, widen, "}"]
            else:
                lines += [each, here, *before, f"{q}[{lane}] = {text};", "}"]
        names.given[x] = f"{known[text]}[{lane}]"
    if first:
        made, near = _inner(s, names, lane, here)
        lines += made
        if s.along:
            last = rounded(s.expr) if s.buffer.dtype.bits == 8 else None
            if last is not None:
                floats, zero, made = _floats(last, axis, names, lane, here)
                call = f"sx_round_{suffix(s.buffer.dtype)}(&{target}, {floats}, {zero});"
                return [*lines, *made, *first, call, "}"]
            byte = _unmoved(s.expr)
            if byte in near and s.buffer.dtype.bits == 8:
                call = f"sx_leave_{suffix(s.buffer.dtype)}(&{target}, {near[byte]});"
                return [*lines, *first, call, "}"]
        if is_narrowed(s.expr):
            return [*lines, *narrowed(s, names, lane, here, first)]
    else:
        lines += calls_of(s.expr, (s.expr,), axis, names, lane, here, width)
    root = _unwrapped(s.expr)
    element, (value,) = evaluate(names, [root])
    value = bare(value if root is not s.expr else stored(names, value, s.expr, s.buffer))
    if not is_small(s.buffer.dtype):
        return [*lines, f"sx_rolled() {each}", here, *element, f"{target} = {value};", "}"]
    r, dtype = names.fresh("r"), s.buffer.dtype
    lines += [f"int32_t {r}[{LANES}];", f"sx_rolled() {each}"]
    lines += [*used(here, [*element, value]), *element, f"{r}[{lane}] = {value};", "}"]
    if first and dtype.bits == 8 and s.along:
        return [*lines, *first, f"sx_narrow_{suffix(dtype)}(&{target}, {r});", "}"]
    rolled = "sx_rolled() " if first and s.along else ""
    return [*lines, rolled + each, here, f"{target} = ({dtype.c}){r}[{lane}];", "}"]


def _unwrapped(e: Expr) -> Expr:
    """The int32 that an integer of 16 bits is made of: it is cut off where it is stored."""
    match e:
        case Cast(x, t.int16 | t.uint16) if x.dtype is t.int32:
            return x
    return e


def is_strip(s: Compute) -> bool:
    """Whether s is one strip of bytes without a sum."""
    if [a.extent for a in s.axes] != [LANES] or s.buffer.dtype not in (t.uint8, t.int8):
        return False
    return not any(isinstance(e, Fold | Iterate) for e in walk(s.expr))


def rounds_in_strips(s: Compute | Store, axis: Axis) -> bool:
    """Whether s rounds to bytes, reads or rounds to float16, or picks numbers along whole strips of
    its last axis: of a short loop gcc makes no good vectors."""
    if not any(map(rounded, always(s.expr, {}))) and not has_calls(s.expr, axis):
        return False
    index, nodes = s.axes if isinstance(s, Compute) else s.index, list(walk(s.expr))
    loads = [e for e in nodes if isinstance(e, Load)]
    return (
        not (isinstance(axis.extent, int) and axis.extent < LANES)
        and not any(isinstance(e, Fold | Iterate) for e in nodes)
        and all(e.mode != "trap" for e in loads)
        and is_along(index, s.buffer.shape, axis)
        and (isinstance(s, Compute) or _is_safe(s, loads))
    )


def _is_safe(s: Store, loads: Sequence[Load]) -> bool:
    """Whether all that s writes is there, NaN are canonical in it, and no turn of its loop reads
    what another writes."""
    there = s.proven or all(map(inside, s.index, s.buffer.shape))
    place = [affine(i) for i in s.index]
    read = [[affine(i) for i in e.index] for e in loads if e.buffer.root is s.buffer.root]
    own = not read or (None not in place and all(index == place for index in read))
    return not s.raw and there and own


def rounding_stores(s: For) -> list[Store]:
    """The stores that are all of s, if each may be a loop of strips by itself: none of several
    reads what they write, nor computes what another does (a loop of all of them does so once)."""
    found = [x for x in s.body if isinstance(x, Store) and rounds_in_strips(x, s.axis)]
    if len(found) < len(s.body):
        return []
    known: dict[tuple[object, ...], int] = {}
    values = {number(x.expr, known) for x in found}
    read = {e.buffer.root for x in found for e in walk(x.expr) if isinstance(e, Load)}
    apart = len(values) == len(found) and not any(x.buffer.root in read for x in found)
    return found if apart or len(found) == 1 else []


def print_rounded(s: Compute | Store, axes: Sequence[Axis], names: Writer) -> list[str]:
    """The loop nest of s in strips along its last axis, and of what is left."""
    given, (*outer, axis) = dict(names.given), axes
    alone = hoisted(s.expr, names)
    heads = [names.loop(a) for a in outer]
    strip, lane = names.fresh("s"), names.fresh("l")
    i = names.given[axis] = names.fresh("i")
    start, n = names.span(axis)
    before, index = evaluate(names, [*(s.axes if isinstance(s, Compute) else s.index)])
    one = Strip(axis, s.buffer, s.expr, names.element(s.buffer, [*map(bare, index)]), True)
    here = f"const int64_t {i} = {strip} + {lane};"
    there = dict(names.given)
    inner = print_strip(one, names, lane, here, str(LANES))
    if isinstance(axis.extent, int) and axis.extent % LANES == 0:
        head = f"for (int64_t {strip} = {start}; {strip} < {n}; {strip} += {LANES}) {{"
        loops = [head, *inner, "}"]
    else:
        head = f"for (; {strip} + {LANES} <= {n}; {strip} += {LANES}) {{"
        loops = [f"int64_t {strip} = {start};", head, *inner, "}"]
        if at_least(axis.extent, LANES) and start == "0" and _lies_apart(s, axis):
            loops += [f"{strip} = {n} - {LANES}; /* some of these again */", *inner]
        else:
            names.given = there
            element, (value,) = evaluate(names, [s.expr])
            value = bare(stored(names, value, s.expr, s.buffer))
            each = f"for (int64_t {i} = {strip}; {i} < {n}; {i}++) {{"
            loops += [each, *element, f"{one.target} = {value};", "}"]
    names.given = given
    return ["{", *alone, *heads, *before, *loops, *["}"] * len(heads), "}"]


def _lies_apart(s: Compute | Store, axis: Axis) -> bool:
    """Whether what s reads along its axis is sure to lie elsewhere than what it writes: elements of
    the same size may be overwritten in place (plan/kernels.py)."""
    loads = [e for e in walk(s.expr) if isinstance(e, Load)]
    free, bits = free_axes(*loads), s.buffer.dtype.bits
    return all(e.dtype.bits != bits for e in loads if axis in free[id(e)])


def print_alone(s: Compute, names: Writer) -> list[str]:
    """The statements of a strip that is all of s."""
    given, lane = dict(names.given), names.fresh("l")
    i = names.given[s.axes[0]] = names.fresh("i")
    here = f"const int64_t {i} = {lane};"
    alone = hoisted(s.expr, names)
    lines = [*alone, *print_strip(strip_of(s, s.axes[0], names), names, lane, here, str(LANES))]
    names.given = given
    return ["{", *lines, "}"]


def _inner(s: Strip, names: Writer, lane: str, here: str) -> tuple[list[str], dict[Expr, str]]:
    """The statements for what is rounded on the way (for bytes at the end, print_strip has others),
    and the names of the floats that are integers; its places in the rest have names."""
    axis = s.axis
    lines = calls_of(s.expr, (s.expr,), axis, names, lane, here)
    near: dict[Expr, str] = {}
    nodes = list(varying((s.expr,), axis, names))
    for e in nodes:
        found = rounded(e)
        if found is None or (e is s.expr and e.dtype.bits == 8 and s.along):
            continue
        floats, zero, made = _floats(found, axis, names, lane, here)
        sign = "unsigned" if e.dtype.min == 0 else "signed"
        lines += [*made, f"sx_near_{sign}({floats}, {zero}, {int(e.dtype.max)});"]
        near[e] = floats
        names.given[e] = f"((int32_t){floats}[{lane}])"
        for user in nodes:
            other = _subtracted(user, e)
            if other is not None:
                before, (text,) = evaluate(names, [other])
                lines += before
                names.given[user] = f"({floats}[{lane}] - (float){text})"
    return lines, near


def _floats(
    found: tuple[Expr, Expr | None], axis: Axis, names: Writer, lane: str, here: str
) -> tuple[str, str, list[str]]:
    """The name of the sixteen values before they are rounded, the zero point's text, and the
    statements that compute both."""
    value, zero = found
    before, texts = evaluate(names, [] if zero is None else [zero])
    divisor = None
    match value:
        case Alu("div", (x, by), t.float32) if axis not in free_axes(by)[id(by)]:
            value, divisor = x, by
    f, made = array_of(value, names, lane, here)
    if divisor is not None:
        lead, (scale,) = evaluate(names, [divisor])
        made += [*lead, f"sx_quotients({f}, {bare(scale)});"]
    return f, bare(texts[0]) if texts else "0.0f", [*before, *made]


def _unmoved(e: Expr) -> Expr:
    """The int8 that e is, or is as uint8: e = int8 + 128 (passes/bytes.py)."""
    match e:
        case Cast(Alu("add", (Cast(x), Const(128))), t.uint8) if x.dtype is t.int8:
            return x
    return e


def _subtracted(user: Expr, e: Expr) -> Expr | None:
    """z of a user that is the difference e - z as a float: that of floats is the same."""
    match user:
        case Cast(Alu("sub", (Cast(x), Cast(z) as zero), t.int32), t.float32) if x is e:
            return zero if is_small(z.dtype) and not free_axes(z)[id(z)] else None
    return None


def has_bytes(s: Compute, axis: Axis) -> bool:
    """Whether s reads or writes small integers along the axis."""
    return is_small(s.buffer.dtype) or any(_small_loads(s.expr, axis, {}))


def _small_loads(root: Expr, axis: Axis, given: Mapping[Expr, str]) -> Iterator[Load]:
    """The loads of small integers along the axis that every element does."""
    free = free_axes(root)
    for e in always(root, given):
        match e:
            case Load(_, _, "proven") if is_small(e.dtype) and axis in free[id(e)]:
                yield e
