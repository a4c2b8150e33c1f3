"""Statements whose points are shared out among threads: each is a function of a range of points.

    static void @_range0(float *restrict out0, ..., int64_t begin, int64_t end) { the loop nest }
    static void @_work0(const void *given, int64_t begin, int64_t end, int64_t worker)
    in the kernel:   sx_parallel(threads, @_work0, &given, count, each, multiple);

emit/parallel.h has sx_parallel. What the function uses of its surroundings is its parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sardonyx.dims import product
from sardonyx.kernel.c99.contract import Walk
from sardonyx.kernel.c99.print_c import NAME, wrapped
from sardonyx.kernel.c99.share import Share, locals_set
from sardonyx.kernel.c99.spelling import c_type
from sardonyx.kernel.c99.work import work
from sardonyx.kernel.c99.write import Writer
from sardonyx.kernel.expr import Axis, Buffer, Local
from sardonyx.kernel.ir import Compute, For, Stmt


@dataclass(frozen=True, slots=True)
class Given:
    """What a function is given: a C type and a name. buffer: what a pointer points to."""

    kind: str
    name: str
    buffer: Buffer | None = None

    def __str__(self) -> str:
        return f"{self.kind}{self.name}"


@dataclass(frozen=True, slots=True)
class Scope:
    """What a statement may use: the loops that it is in, and what the kernel writes."""

    loops: tuple[Axis, ...]
    written: frozenset[Buffer]


def print_share(
    s: Stmt,
    share: Share,
    body: Callable[[], list[str]],
    names: Writer,
    scope: Scope,
    helpers: list[list[str]],
) -> list[str]:
    """The statements that share out s; body: its loop nest, given what is in `names`."""
    outer = _points(share, names)
    names.threads = False
    lines = body()
    names.threads = True
    names.spans.clear()
    names.fixed.clear()
    before, after = names.around
    names.around = [], []
    if outer:
        lines = [*before, *outer, *lines, "}", *after]
    counts = [names.size(share.count), names.size(share.each), str(share.multiple)]
    return shared(s, lines, counts, names, scope, helpers, share.private)


def print_beside(
    loops: Sequence[Stmt],
    body: Callable[[Stmt], list[str]],
    names: Writer,
    scope: Scope,
    helpers: list[list[str]],
) -> list[str]:
    """The loops, each of which a thread may have to itself (kernel/c99/beside.py)."""
    names.threads = False
    lines = [
        line
        for i, s in enumerate(loops)
        for line in (f"if (begin <= {i} && end > {i}) {{", *body(s), "}")
    ]
    names.threads = True
    turns = For(Axis("loop", len(loops)), tuple(loops))
    counts = [str(len(loops)), names.size(work(loops[0])), "1"]
    return shared(turns, lines, counts, names, scope, helpers)


def _points(share: Share, names: Writer) -> list[str]:
    """What goes around the loop nest; the axes that it finds fixed or spanned."""
    *before, last = share.axes
    if not before or share.multiple > 1:
        names.spans[last] = "begin", "end"
        return []
    p = names.fresh("p")
    lines, rest = [f"for (int64_t {p} = begin; {p} < end; {p}++) {{"], product(())
    for axis in reversed(share.axes):
        name = names.fixed[axis] = names.fresh(axis.name[:1] if axis.name[:1] in "irf" else "i")
        quotient = p if rest == 1 else f"{p} / {names.size(rest)}"
        whole = axis is share.axes[0]
        value = quotient if whole else f"{quotient} % {names.size(axis.extent)}"
        lines.append(f"const int64_t {name} = {value};")
        rest = rest * axis.extent
    return lines


def shared(
    s: Stmt,
    lines: Sequence[str],
    counts: Sequence[str],
    names: Writer,
    scope: Scope,
    helpers: list[list[str]],
    private: Sequence[Buffer] = (),
    more: Sequence[Given] = (),
) -> list[str]:
    """The call that shares out `lines`, which are over the points begin .. end - 1; counts: how
    many points there are, the work of each, and of what ranges begin at multiples. more: fields
    that are named here alone."""
    number = names.fresh("share").removeprefix("share")
    inside = locals_set(s)
    own = [f"{c_type(x.dtype)} {names.given[x]} = 0;" for x in inside if x in names.given]
    text = "\n".join(lines)
    fields = [f for f in (*_fields(names, scope, inside), *more) if _uses(text, f.name)]
    extra, made = _work(number, fields, names, private)
    helpers.append(_range(number, [*own, *lines], fields, names))
    helpers.append(made)
    names.shares = True
    given = ", ".join(f.name for f in (*extra, *fields))
    return [
        "{",
        f"const {NAME}_given{number} given = {{{given}}};",
        f"sx_parallel(threads, {NAME}_work{number}, &given, {', '.join(counts)});",
        "}",
    ]


def shared_batch(
    s: Compute,
    batch: Sequence[Walk],
    body: Callable[[str, str], list[str]],
    counts: tuple[str, str, str],
    names: Writer,
    scope: Scope,
    helpers: list[list[str]],
    more: Sequence[str] = (),
) -> list[str]:
    """Shares out the units of each point of the batch. body: from a unit to the one before another.
    counts: units of a point, the work of each, and of what ranges begin at multiples. u counts the
    units of all points. more: numbers that body uses."""
    units, each, multiple = counts
    index = []
    for i, w in enumerate(batch):
        name = names.given[w.axes[0]] = names.fresh("i")
        rest = product(tuple(x.extent for x in batch[i + 1 :]))
        whole = "u / units" if rest == 1 else f"u / units / {names.size(rest)}"
        part = whole if i == 0 else f"{whole} % {names.size(w.extent)}"
        index.append(f"const int64_t {name} = {part};")
    lines = body("from", "to") if batch else body("begin", "end")
    if batch:
        lines = [
            f"const int64_t units = {units};",
            "int64_t u = begin;",
            "while (u < end) {",
            *index,
            "const int64_t from = u % units, to = end - u < units - from ? from + end - u : units;",
            *lines,
            "u += to - from;",
            "}",
        ]
    times = product(tuple(w.extent for w in batch))
    count = units if times == 1 else f"{names.size(times)} * ({units})"
    fields = [Given("int64_t ", name) for name in more]
    return shared(s, lines, [count, each, multiple], names, scope, helpers, more=fields)


def _uses(text: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", text) is not None


def _fields(names: Writer, scope: Scope, inside: frozenset[Local]) -> Iterator[Given]:
    """What the kernel could give: each name once."""
    seen = set[str]()
    for b, name in names.pointers.items():
        if name not in seen:
            seen.add(name)
            const = "" if _is_written(name, names, scope) else "const "
            yield Given(f"{const}{b.dtype.c} *", name, b)
    for axis in scope.loops:
        yield Given("int64_t ", names.given[axis])
    for e, name in names.given.items():
        if isinstance(e, Local) and e not in inside:
            yield Given(f"{c_type(e.dtype)} ", name)
    for name in names.sizes.values():
        yield Given("int64_t ", name)


def _is_written(name: str, names: Writer, scope: Scope) -> bool:
    return any(b in scope.written for b, other in names.pointers.items() if other == name)


def _range(number: str, lines: Sequence[str], fields: Sequence[Given], names: Writer) -> list[str]:
    parameters = [
        f"{f.kind}{'' if f.buffer in names.overlapping else 'restrict '}{f.name}"
        if f.buffer is not None
        else str(f)
        for f in fields
    ]
    parameters += ["int64_t begin", "int64_t end"]
    head = wrapped(f"static SX_APART void {NAME}_range{number}(", parameters, ") {")
    return [*head, *lines, "}"]


def _work(
    number: str, fields: Sequence[Given], names: Writer, private: Sequence[Buffer]
) -> tuple[list[Given], list[str]]:
    """The function that a thread calls, and what it needs besides the fields. Each private buffer
    of a worker begins at a multiple of 64."""
    lines, extra, own = list[str](), list[Given](), dict[str, str]()
    if private:
        extra.append(Given("const sx_threads *", "threads"))
        lines.append("unsigned char *own = sx_own(g->threads, worker);")
    for b in private:
        name, size = names.pointers[b], names.size(product(b.shape) * b.dtype.size)
        if not size.isdecimal():
            if size not in {f.name for f in (*extra, *fields)}:
                extra.append(Given("int64_t ", size))
            size = f"g->{size}"
        own[name] = f"own{len(own)}"
        kind = f"{b.dtype.c} *"
        lines.append(f"{kind}const {own[name]} = own ? ({kind})own : g->{name};")
        lines.append(f"if (own) own += ({size} + 63) / 64 * 64;")
    given = [own.get(f.name, f"g->{f.name}") for f in fields]
    lines += ["(void)own;"] if private else ["(void)worker;"]
    every = " ".join(f"{f};" for f in (*extra, *fields))
    head = f"static void {NAME}_work{number}("
    return extra, [
        f"typedef struct {{ {every} }} {NAME}_given{number};",
        f"{head}const void *given, int64_t begin, int64_t end, int64_t worker) {{",
        f"const {NAME}_given{number} *const g = (const {NAME}_given{number} *)given;",
        *lines,
        *wrapped(f"{NAME}_range{number}(", [*given, "begin", "end"], ");"),
        "}",
    ]
