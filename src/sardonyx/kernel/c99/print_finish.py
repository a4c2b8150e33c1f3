"""The function that finishes the sums of a contraction: bias, activation, residual, the store."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sardonyx import types as t
from sardonyx.dims import Dim, product
from sardonyx.kernel.adjoin import adjoin, read_as_one
from sardonyx.kernel.affine import coefficient
from sardonyx.kernel.c99.contract import LANES, Contraction, flat
from sardonyx.kernel.c99.cuts import SOME, cuts_of
from sardonyx.kernel.c99.print_abreast import VECTOR, rows_of
from sardonyx.kernel.c99.print_calls import calls_of, has_calls
from sardonyx.kernel.c99.print_strip import has_bytes, print_strip
from sardonyx.kernel.c99.spelling import c_type
from sardonyx.kernel.c99.strips import hoisted, strip_of, used
from sardonyx.kernel.c99.write import Writer, bare, evaluate, stored
from sardonyx.kernel.expr import Axis, Expr, Fold, Load, Local
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import free_axes, walk

SHORTEST = 4  # lanes that are a vector
Field = tuple[str, str]  # type, name
Rows = tuple[Axis, ...]  # axes that are walked as one


def blocks_of(c: Contraction) -> Dim:
    return (c.lanes.extent + (LANES - 1)) // LANES


def finishing(c: Contraction, names: Writer, helpers: list[list[str]]) -> str:
    """Adds the function that finishes the sums of c; the declaration of what it is given."""
    number, given = len(helpers), dict(names.given)
    body = _finish(c, names)
    names.given = given  # what the function declares is known in it alone
    held = _held(body, c, names)
    helpers.append(_helper(body, held, number, c.fold.dtype.c))
    return f"const @_self{number} self = {{{', '.join(name for _, name in held)}}};"


def _finish(c: Contraction, names: Writer) -> list[str]:
    """The body of the function that finishes `count` rows of one block."""
    s = c.compute
    whole = isinstance(c.lanes.extent, int) and c.lanes.extent % LANES == 0
    names.given[c.fold] = "acc[16 * t + l]"
    names.given[c.lanes] = names.fresh("c")
    lines = _split_index(names, "block", [*((w.axes[0],) for w in c.n), blocks_of(c)])
    names.given.update({w.axes[0]: "0" for w in c.m if w.extent == 1})
    rows = _joined_rows(c)
    lines += _split_index(names, "row", rows)
    lines += hoisted(s.expr, names)
    given = dict(names.given)
    width = names.size(c.lanes.extent)
    inner, loop = _row(c, names, "t", "16"), "for (; {}t < count; t++) {{".format
    step = _next_row(names, given, rows)
    full, apart = "" if whole else f"{width} - 16 * b >= 16 && ", list[str]()
    if not whole:
        names.given = dict(given)
        rest = _row(c, names, "t", _rest(c, width))
        if isinstance(c.lanes.extent, int):
            inner = [f"if ({width} - 16 * b >= 16) {{", *inner, "} else {", *rest, "}"]
        else:  # most blocks are whole: what is the same for all rows then goes before their loop
            apart, inner = [loop(full), *inner, *step, "}"], rest
    return [
        *lines,
        "int64_t t = 0;",
        *(_turned(c, names, given, rows[0], full) if _is_turned(c, rows) else ()),
        *_abreast(c, names, given, rows, full),
        *apart,
        loop(""),
        *inner,
        *step,
        "}",
    ]


def _rest(c: Contraction, width: str) -> str:
    """The lanes of a block that is not full: a number wherever it is one."""
    extent = c.lanes.extent
    return str(extent % LANES) if isinstance(extent, int) else f"{width} - 16 * b"


def _row(c: Contraction, names: Writer, t: str, width: str, before: str = "") -> list[str]:
    """The loop over the first `width` lanes of row t; what stands before it."""
    s, lane = c.compute, _lane(c, names, t)
    if has_bytes(s, c.lanes) or has_calls(s.expr, c.lanes):
        return print_strip(strip_of(s, c.lanes, names), names, "l", lane, width)
    element, (value,) = evaluate(names, [s.expr])
    value = stored(names, value, s.expr, s.buffer)
    store = names.assign(s.buffer, [names.given[a] for a in s.axes], value)
    apart = "" if s.buffer.dtype.is_packed else "sx_apart() "  # lanes then share bytes
    vector = width.isdigit() and int(width) >= SHORTEST
    rolled = "sx_rolled() " if vector else ""  # compilers would unroll so short a loop first
    head = f"{before}{rolled}{apart}for (int64_t l = 0; l < {width}; l++) {{"
    return [head, lane, *element, store, "}"]


def _lane(c: Contraction, names: Writer, t: str) -> str:
    """The declaration of a lane's index, its sum being that of row t."""
    names.given[c.fold] = f"acc[16 * {t} + l]"
    return f"const int64_t {names.given[c.lanes]} = 16 * b + l;"


def _is_turned(c: Contraction, rows: Sequence[Rows]) -> bool:
    """Whether rows are neighbours where the sums are stored, which lanes are not, and nothing else
    is read of a row."""
    s, own = c.compute, {w.axes[0] for w in c.m}
    if s.buffer.dtype is not t.float32 or has_calls(s.expr, c.lanes) or len(rows) != 1:
        return False
    sums: dict[Fold, Expr] = {c.fold: Local("sum", c.fold.dtype)}
    loads = [e for e in walk(rewrite(s.expr, sums)) if isinstance(e, Load)]
    address, found = flat(Load(s.buffer, s.axes)), [flat(e) for e in loads]
    if address is None or rows_of(s, c.fold, c.lanes) or own & {a for e in loads for a in walk(e)}:
        return False
    steps = coefficient(address, rows[0][-1]), coefficient(address, c.lanes)
    beside = all(a is not None and coefficient(a, c.lanes) in (0, 1) for a in found)
    return beside and steps[0] == 1 and steps[1] not in (None, 0, 1)


def _turned(
    c: Contraction, names: Writer, given: Mapping[Expr, str], rows: Rows, full: str
) -> list[str]:
    """Eight rows at a time, stored as columns; the last eight may begin among those before."""
    s, kept, i = c.compute, names.fresh("k"), given[rows[-1]]
    address = flat(Load(s.buffer, s.axes))
    apart = None if address is None else coefficient(address, c.lanes)
    assert apart is not None
    step = names.size(apart * s.buffer.dtype.bytes(1))
    lane = _lane(c, names, "(t + r)")
    element, (value,) = evaluate(names, [s.expr])
    value = bare(stored(names, value, s.expr, s.buffer))
    lines = [
        f"if ({full}count >= 8) {{",
        "for (; t < count; t += 8) {",
        f"if (t + 8 > count) {{ {i} -= t + 8 - count; t = count - 8; }}",
        f"{c_type(s.buffer.dtype)} {kept}[8 * {LANES}];",
        "for (int64_t r = 0; r < 8; r++) {",
        f"sx_rolled() for (int64_t l = 0; l < {LANES}; l++) {{",
        *(*used(lane, [*element, value]), *element, f"{kept}[16 * r + l] = {value};", "}", "}"),
    ]
    for half in (0, 8):
        names.given[c.lanes] = f"(16 * b + {half})"
        at = names.element(s.buffer, [names.given[a] for a in s.axes])
        source = f"(const uint8_t *)(const void *)({kept} + {half})"
        lines.append(f"sx_across_32((uint8_t *)(void *)&{at}, {step}, {source}, {4 * LANES});")
    names.given = dict(given)
    return [*lines, f"{i} += 8;", "}", "}"]


def _abreast(
    c: Contraction, names: Writer, given: Mapping[Expr, str], rows: Sequence[Rows], full: str
) -> list[str]:
    """The rows of a long chain, some at a time: a loop for each part of what is cut, or straight
    code that the compiler interleaves; of float16 that is no quicker than one after the other."""
    count = rows_of(c.compute, c.fold, c.lanes)
    if not count:
        return []
    cuts = cuts_of(c.compute.expr, c.lanes, (c.fold,))
    if cuts:
        return _in_parts(c, cuts, names, given, rows, full)
    if has_calls(c.compute.expr, c.lanes):
        return []
    lines = [f"for (; {full}t + {count} <= count; t += {count}) {{"]
    inner = []
    for j in range(count):
        names.given = dict(given)
        for part in rows:
            own = names.given[part[-1]] = names.fresh("i")
            lines.append(f"const int64_t {own} = {given[part[-1]]};")
        lines += _next_row(names, given, rows)
        row = _row(c, names, f"(t + {j})", "16", f"sx_abreast({LANES // VECTOR}) ")
        inner += ["{", *row, "}"]
    names.given = dict(given)
    return [*lines, *inner, "}"]


def _in_parts(
    c: Contraction,
    cuts: Sequence[Sequence[Expr]],
    names: Writer,
    given: Mapping[Expr, str],
    rows: Sequence[Rows],
    full: str,
) -> list[str]:
    """Some rows at a time: each part of the chain for all of them, then the next part."""
    some, r = names.fresh("m"), names.fresh("r")
    lines = [f"for (; {full}t < count; t += {SOME}) {{"]
    lines.append(f"const int64_t {some} = count - t < {SOME} ? count - t : {SOME};")
    made: dict[Expr, str] = {}
    for cut in (*cuts, ()):
        own: dict[Expr, str] = {part[-1]: names.fresh("i") for part in rows}
        names.given = {**given, **own, **made}
        step = _next_row(names, own, rows)
        body = [] if cut else _row(c, names, f"(t + {r})", "16")
        if cut:
            names.given[c.fold] = f"acc[16 * (t + {r}) + l]"
            lane = f"const int64_t {given[c.lanes]} = 16 * b + l;"
            before = calls_of(c.compute.expr, tuple(cut), c.lanes, names, "l", lane)
            body, texts = evaluate(names, cut)
            made |= {e: f"{names.fresh('q')}[16 * {r} + l]" for e in cut}
            lines += [f"{c_type(e.dtype)} {made[e].split('[')[0]}[{LANES * SOME}];" for e in cut]
            values = zip(cut, texts, strict=True)
            body += [f"{made[e]} = {bare(x)};" for e, x in values]
            lanes = [lane] if _names(body, given[c.lanes]) else []
            head = f"sx_rolled() for (int64_t l = 0; l < {LANES}; l++) {{"
            body = [*before, head, *lanes, *body, "}"]
            if not _names(body, *own.values()):
                own, step = {}, []
        lines += [f"int64_t {i} = {given[a]};" for a, i in own.items()]
        lines += [f"for (int64_t {r} = 0; {r} < {some}; {r}++) {{", *body, *step, "}"]
        lines += [f"{given[a]} = {i};" for a, i in own.items() if not cut]
    names.given = dict(given)
    return [*lines, "}"]


def _joined_rows(c: Contraction) -> list[tuple[Axis, ...]]:
    """The axes of the rows, neighbours together where what finishes the sums steps through them as
    through one; without those of extent 1."""
    large = [w.axes[0] for w in c.m if w.extent != 1]
    sums: dict[Fold, Expr] = {c.fold: Local("sum", c.fold.dtype)}
    s, e = c.compute, rewrite(c.compute.expr, sums)
    joined: list[tuple[Axis, ...]] = []
    for axis in large:
        before = joined[-1][-1] if joined else axis
        if adjoin(before, axis, s.axes, s.buffer.shape) and read_as_one(before, axis, (e,)):
            joined[-1] = (*joined[-1], axis)
        else:
            joined.append((axis,))
    return joined


def _split_index(names: Writer, flat: str, parts: Sequence[tuple[Axis, ...] | Dim]) -> list[str]:
    """Declares the indices that a flat one stands for; a Dim stands for the block's number b. Of
    axes that are one, the last has the index of all."""
    lines = []
    for i, part in reversed(list(enumerate(parts))):
        extent = product(tuple(a.extent for a in part)) if isinstance(part, tuple) else part
        name = names.fresh("i") if isinstance(part, tuple) else "b"
        if isinstance(part, tuple):
            names.given.update(dict.fromkeys(part, "0"))
            names.given[part[-1]] = name
        whole = flat if i == 0 else f"{flat} % {names.size(extent)}"
        kind = "const int64_t" if flat == "block" else "int64_t"
        lines.append(f"{kind} {name} = {whole};")
        if i:
            lines.append(f"{flat} /= {names.size(extent)};")
    return lines


def _next_row(names: Writer, given: Mapping[Expr, str], rows: Sequence[Rows]) -> list[str]:
    """Steps the indices of the rows on by one."""
    lines: list[str] = []
    for i, part in enumerate(rows):
        name = given[part[-1]]
        if i == 0:
            lines = [f"{name}++;"]
        else:
            carry = [f"{name} = 0;", *lines]
            extent = product(tuple(a.extent for a in part))
            lines = [f"if (++{name} == {names.size(extent)}) {{", *carry, "}"]
    return lines


def _names(lines: Sequence[str], *names: str) -> bool:
    """Whether one of the names stands in lines of C."""
    return any(re.search(rf"\b{name}\b", line) for line in lines for name in names)


def _held(body: Sequence[str], c: Contraction, names: Writer) -> list[Field]:
    """What the body uses of its surroundings: pointers, sizes, the batch, the status."""
    loops = free_axes(c.compute.expr)[id(c.compute.expr)].difference(c.compute.axes)
    outer = [names.given[a] for a in (*(w.axes[0] for w in c.batch), *sorted(loops, key=str))]
    target = c.compute.buffer.root
    fields = [
        (f"{'' if b is target else 'const '}{b.dtype.c} *", name)
        for b, name in names.pointers.items()
    ]
    fields += [("int64_t ", name) for name in (*names.sizes.values(), *outer)]
    fields.append(("sx_status *", "status"))
    used = [f for f in dict.fromkeys(fields) if _names(body, f[1])]
    return list({name: (kind, name) for kind, name in used}.values())


def _helper(body: Sequence[str], held: Sequence[Field], number: int, sums: str) -> list[str]:
    """The definitions of the finishing function, of what it is given, and of its body, which is a
    function because only parameters are known not to overlap."""
    fields = " ".join(f"{kind}{name};" for kind, name in held)
    given = [f"{kind}{'restrict ' if kind.endswith('*') else ''}{name}, " for kind, name in held]
    place = [n for n in ("row", "count", "block") if _names(body, n)]
    return [
        f"typedef struct {{ {fields} }} @_self{number};",
        f"SX_FN void @_body{number}({''.join(given)}const {sums} *restrict acc,",
        f"    {', '.join(f'int64_t {n}' for n in place)}) {{",
        *body,
        "}",
        f"static void @_finish{number}(const void *given, const void *acc, int64_t row,",
        "    int64_t count, int64_t block) {",
        f"const @_self{number} *const self = given;",
        *(f"(void){n};" for n in ("row", "count", "block") if n not in place),
        f"@_body{number}({''.join(f'self->{name}, ' for _, name in held)}acc, {', '.join(place)});",
        "}",
    ]
