"""The end of a strip of sixteen lanes: its elements computed and stored, in forms that compilers
turn into vectors of 32-bit numbers.

    bytes are widened first       for (l..) q[l] = in[..];
    the expression                for (l..) r[l] = .. q[l] ..;
    and narrowed last             for (l..) out[..] = (uint8_t)r[l];

    what is rounded to bytes      for (l..) f[l] = ..; sx_near_u8(f, zero); for (l..) .. f[l] ..;
    where it is a quotient        for (l..) f[l] = ..; sx_quotients(f, scale);
    what is rounded to float16    for (l..) f[l] = ..; sx_nears_f16(f); for (l..) .. f[l] ..;

A loop of elements of two sizes makes gcc take vectors of the smaller one, and spill.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from sardonyx import types as t
from sardonyx.dims import Dim
from sardonyx.kernel.affine import affine, coefficient, position
from sardonyx.kernel.c99.spelling import c_type, canonical, suffix
from sardonyx.kernel.c99.write import Writer, bare, evaluate, stored
from sardonyx.kernel.expr import Alu, Axis, Cast, Const, Expr, Fold, Iterate, Load, Local, Where
from sardonyx.kernel.folds import LANES
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.payloads import is_arithmetic
from sardonyx.kernel.walk import children, free_axes, walk
from sardonyx.types import DType


def print_strip(
    s: Compute, axis: Axis, names: Writer, lane: str, here: str, width: str
) -> list[str]:
    """The statements for the elements of a strip of `width` lanes along `axis`; `here` declares the
    index of a lane."""
    each = f"for (int64_t {lane} = 0; {lane} < {width}; {lane}++) {{"
    first = ["{", f"const int64_t {lane} = 0;", here] if width == str(LANES) else []
    lines: list[str] = []
    known: dict[str, str] = {}
    if first:
        lines += _widened(s.expr, axis, names, lane, first)
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
    target = names.element(s.buffer, [names.given[a] for a in s.axes])
    if first:
        made, near = _inner(s, axis, names, lane, here)
        lines += made
        if is_along(s.axes, s.buffer.shape, axis):
            last = rounded(s.expr) if s.buffer.dtype is t.uint8 else None
            if last is not None:
                floats, zero, made = _floats(last, axis, names, lane, here)
                call = f"sx_round_u8(&{target}, {floats}, {zero});"
                return [*lines, *made, *first, call, "}"]
            byte = _unmoved(s.expr)
            if byte in near:
                call = f"sx_leave_{suffix(s.buffer.dtype)}(&{target}, {near[byte]});"
                return [*lines, *first, call, "}"]
        if _is_narrowed(s.expr):
            return [*lines, *_narrowed(s, axis, names, lane, here, first)]
    element, (value,) = evaluate(names, [s.expr])
    value = bare(stored(names, value, s.expr, s.buffer))
    if not _is_small(s.buffer.dtype):
        return [*lines, f"sx_rolled() {each}", here, *element, f"{target} = {value};", "}"]
    r, dtype = names.fresh("r"), s.buffer.dtype
    lines += [f"int32_t {r}[{LANES}];", f"sx_rolled() {each}"]
    lines += [*used(here, [*element, value]), *element, f"{r}[{lane}] = {value};", "}"]
    if first and dtype.bits == 8 and is_along(s.axes, s.buffer.shape, axis):
        return [*lines, *first, f"sx_narrow_{suffix(dtype)}(&{target}, {r});", "}"]
    return [*lines, each, here, f"{target} = ({dtype.c}){r}[{lane}];", "}"]


def is_strip(s: Compute) -> bool:
    """Whether s is one strip of bytes without a sum."""
    if [a.extent for a in s.axes] != [LANES] or s.buffer.dtype not in (t.uint8, t.int8):
        return False
    return not any(isinstance(e, Fold | Iterate) for e in walk(s.expr))


def rounds_in_strips(s: Compute) -> bool:
    """Whether s rounds to bytes, or reads or rounds to float16, along whole strips: of a short loop
    gcc makes no good vectors."""
    if not s.axes or (rounded(s.expr) is None and not has_halves(s, s.axes[-1])):
        return False
    axis, nodes = s.axes[-1], list(walk(s.expr))
    loads = [e for e in nodes if isinstance(e, Load)]
    return (
        isinstance(axis.extent, int)
        and axis.extent > 0
        and axis.extent % LANES == 0
        and not any(isinstance(e, Fold | Iterate) for e in nodes)
        and all(e.mode == "proven" for e in loads)
        and is_along(s.axes, s.buffer.shape, axis)
    )


def print_rounded(s: Compute, names: Writer) -> list[str]:
    """The loop nest of s in strips along its last axis."""
    given, (*outer, axis) = dict(names.given), s.axes
    alone = hoisted(s.expr, names)
    heads = [names.loop(a) for a in outer]
    strip, lane = names.fresh("s"), names.fresh("l")
    i = names.given[axis] = names.fresh("i")
    start, n = names.span(axis)
    here = f"const int64_t {i} = {strip} + {lane};"
    head = f"for (int64_t {strip} = {start}; {strip} < {n}; {strip} += {LANES}) {{"
    inner = print_strip(s, axis, names, lane, here, str(LANES))
    names.given = given
    return ["{", *alone, *heads, head, *inner, "}", *["}"] * len(heads), "}"]


def print_alone(s: Compute, names: Writer) -> list[str]:
    """The statements of a strip that is all of s."""
    given, lane = dict(names.given), names.fresh("l")
    i = names.given[s.axes[0]] = names.fresh("i")
    here = f"const int64_t {i} = {lane};"
    lines = [*hoisted(s.expr, names), *print_strip(s, s.axes[0], names, lane, here, str(LANES))]
    names.given = given
    return ["{", *lines, "}"]


def _inner(
    s: Compute, axis: Axis, names: Writer, lane: str, here: str
) -> tuple[list[str], dict[Expr, str]]:
    """The statements for what is rounded on the way (for uint8 at the end, print_strip has others),
    and the names of the floats that are bytes; its places in the rest have names."""
    lines = halves_of(s, (s.expr,), axis, names, lane, here)
    near: dict[Expr, str] = {}
    nodes = list(_varying((s.expr,), axis, names))
    for e in nodes:
        found = rounded(e)
        if found is None or (e is s.expr and e.dtype is t.uint8):
            continue
        floats, zero, made = _floats(found, axis, names, lane, here)
        lines += [*made, f"sx_near_{suffix(e.dtype)}({floats}, {zero});"]
        near[e] = floats
        names.given[e] = f"((int32_t){floats}[{lane}])"
        for user in nodes:
            other = _subtracted(user, e)
            if other is not None:
                before, (text,) = evaluate(names, [other])
                lines += before
                names.given[user] = f"({floats}[{lane}] - (float){text})"
    return lines, near


def halves_of(
    s: Compute, roots: tuple[Expr, ...], axis: Axis, names: Writer, lane: str, here: str
) -> list[str]:
    """The statements for what is rounded to float16 on the way to sixteen lanes of the roots, parts
    of s; its places have names. Its NaN are canonical where that can be seen."""
    lines: list[str] = []
    seen = {id(x) for e in walk(s.expr) if not _takes_any_nan(e) for x in children(e)}
    seen.add(id(s.expr))
    for e in _varying(roots, axis, names):
        value = _half(e)
        if value is not None:
            floats, made = _array(value, names, lane, here)
            lines += [*made, f"sx_nears_f16({floats});"]
            text = f"{floats}[{lane}]"
            names.given[e] = canonical(text, t.float32) if id(e) in seen else text
    return lines


def _takes_any_nan(e: Expr) -> bool:
    """Whether what e gives of a NaN does not depend on its payload and sign, or is a NaN again."""
    match e:
        case Alu("min" | "max"):
            return True
        case Cast(x, t.float16):
            return x.dtype is t.float32
    return is_arithmetic(e)


def _varying(roots: tuple[Expr, ...], axis: Axis, names: Writer) -> Iterator[Expr]:
    """What every lane evaluates for itself, operands before their users."""
    free = free_axes(*roots)
    always = {id(e) for root in roots for e in _always(root, names.given)}
    for e in walk(*roots):
        if id(e) in always and (axis in free[id(e)] or any(isinstance(x, Fold) for x in walk(e))):
            yield e


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
    f, made = _array(value, names, lane, here)
    if divisor is not None:
        lead, (scale,) = evaluate(names, [divisor])
        made += [*lead, f"sx_quotients({f}, {bare(scale)});"]
    return f, bare(texts[0]) if texts else "0.0f", [*before, *made]


def _array(value: Expr, names: Writer, lane: str, here: str) -> tuple[str, list[str]]:
    """The name of an array of the sixteen values, and the statements that compute it."""
    f, each = names.fresh("f"), f"for (int64_t {lane} = 0; {lane} < {LANES}; {lane}++) {{"
    element, (text,) = evaluate(names, [value])
    text = bare(text)
    head = [f"float {f}[{LANES}];", f"sx_rolled() {each}", *used(here, [*element, text])]
    return f, [*head, *element, f"{f}[{lane}] = {text};", "}"]


def _widened(root: Expr, axis: Axis, names: Writer, lane: str, first: Sequence[str]) -> list[str]:
    """The statements that widen the float16 that the lanes read side by side."""
    lines: list[str] = []
    for e, x in list(_wide_loads(root, axis, names.given)):
        before, index = evaluate(names, list(x.index))
        q, text = names.fresh("q"), names.element(x.buffer, [bare(i) for i in index])
        call = f"sx_widen_f16({q}, &{text});"
        lines += [f"float {q}[{LANES}];", *first, *before, call, "}"]
        names.given[e] = f"{q}[{lane}]"
    return lines


def _narrowed(
    s: Compute, axis: Axis, names: Writer, lane: str, here: str, first: Sequence[str]
) -> list[str]:
    """The statements that store sixteen float32 as float16."""
    assert isinstance(s.expr, Cast)
    floats, lines = _array(s.expr.x, names, lane, here)
    target = names.element(s.buffer, [names.given[a] for a in s.axes])
    if is_along(s.axes, s.buffer.shape, axis):
        return [*lines, *first, f"sx_narrow_f16(&{target}, {floats});", "}"]
    h, each = names.fresh("h"), f"for (int64_t {lane} = 0; {lane} < {LANES}; {lane}++) {{"
    lines += [f"uint16_t {h}[{LANES}];", f"sx_narrow_f16({h}, {floats});"]
    return [*lines, each, here, f"{target} = {h}[{lane}];", "}"]


def _half(e: Expr) -> Expr | None:
    """v of an e that is v rounded to float16, as a float32."""
    match e:
        case Cast(Cast(v, t.float16), t.float32) if v.dtype is t.float32:
            return v
    return None


def _is_narrowed(e: Expr) -> bool:
    """Whether e is a float32 rounded to float16."""
    return isinstance(e, Cast) and e.dtype is t.float16 and e.x.dtype is t.float32


def has_halves(s: Compute, axis: Axis) -> bool:
    """Whether float16 are read along the axis, written, or rounded to."""
    if _is_narrowed(s.expr) or any(True for _ in _wide_loads(s.expr, axis, {})):
        return True
    return any(_half(e) is not None for e in _always(s.expr, {}))


def rounded(e: Expr) -> tuple[Expr, Expr | None] | None:
    """v and z of an e that is rint(v) + z as a byte: z is one that no axis decides, or None."""
    if e.dtype is not t.uint8 and e.dtype is not t.int8:
        return None
    match e:
        case Cast(Alu("add", (Alu("rint", (v,)), Cast(z) as zero), t.float32), dtype, True):
            alone = isinstance(z, Load) and not free_axes(z)[id(z)]
            return (v, zero) if alone and z.dtype is dtype else None
        case Cast(Alu("rint", (v,), t.float32), _, True):
            return v, None
    return None


def _unmoved(e: Expr) -> Expr:
    """The int8 that e is, or is as uint8: e = int8 + 128 (passes/bytes.py)."""
    match e:
        case Cast(Alu("add", (Cast(x), Const(128))), t.uint8) if x.dtype is t.int8:
            return x
    return e


def _subtracted(user: Expr, e: Expr) -> Expr | None:
    """The byte z of a user that is the difference e - z as a float: that of floats is the same."""
    match user:
        case Cast(Alu("sub", (Cast(x), Cast(z) as zero), t.int32), t.float32) if x is e:
            byte = z.dtype.is_integer and z.dtype.bits == 8 and not free_axes(z)[id(z)]
            return zero if byte else None
    return None


def used(here: str, lines: Sequence[str]) -> list[str]:
    """The declaration, if the lines use what it declares."""
    name = here.split(" = ")[0].split()[-1]
    return [here] if any(re.search(rf"\b{name}\b", line) for line in lines) else []


def has_bytes(s: Compute, axis: Axis) -> bool:
    """Whether s reads or writes small integers along the axis."""
    return _is_small(s.buffer.dtype) or any(_small_loads(s.expr, axis, {}))


def is_along(index: Sequence[Expr], shape: Sequence[Dim], axis: Axis) -> bool:
    """Whether neighbours along the axis are neighbours in memory."""
    place = position(index, tuple(shape))
    return place is not None and coefficient(place, axis) == 1


def _is_small(dtype: DType) -> bool:
    return dtype.is_integer and not dtype.is_storage and dtype.bits < 32


def _small_loads(root: Expr, axis: Axis, given: Mapping[Expr, str]) -> Iterator[Load]:
    """The loads of small integers along the axis that every element does."""
    free = free_axes(root)
    for e in _always(root, given):
        match e:
            case Load(_, _, "proven") if _is_small(e.dtype) and axis in free[id(e)]:
                yield e


def _wide_loads(root: Expr, axis: Axis, given: Mapping[Expr, str]) -> Iterator[tuple[Expr, Load]]:
    """Each float16 that lies beside the next lane's, as a float32, in every element; its load."""
    for e in _always(root, given):
        match e:
            case Cast(Load(b, index, "proven") as x, t.float32) if b.dtype is t.float16:
                if is_along(index, b.shape, axis):
                    yield e, x


def hoisted(root: Expr, names: Writer) -> list[str]:
    """Declares what no axis decides, before all loops."""
    free = free_axes(root)
    lines: list[str] = []
    for e in _always(root, names.given):
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


def _always(root: Expr, given: Mapping[Expr, str]) -> Iterator[Expr]:
    """The nodes that are evaluated whatever the data are, users before their operands: none that
    has a text already, none inside of folds, none that a selection may skip."""
    todo, seen = [root], set[int]()
    while todo:
        e = todo.pop()
        if id(e) in seen or e in given:
            continue
        seen.add(id(e))
        yield e
        if e in given or isinstance(e, Fold | Iterate):
            continue
        todo += [e.cond] if isinstance(e, Where) else children(e)
