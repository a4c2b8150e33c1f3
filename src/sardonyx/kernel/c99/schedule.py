"""The scheduled printer: the same kernels as kernel/c99/print_c.py, in forms that are fast.

    packed sum of products          register tiles: kernel/c99/print_product.py
    window in lanes                 neighbours at a time, borders inside: print_windows
    few filters over many places    the places in lanes: print_along
    fold under a contiguous axis    sixteen elements at a time, the fold outside them: print_lanes
    iterated value                  ten points at a time: print_walk
    runs of packed elements         64 bytes at a time: print_packed
    read along another axis         square tiles: print_tiles
    and computed with               tiles that are turned first: print_turned
    bytes of a table                a call for each row: print_look_up
    rounded to bytes                sixteen at a time: print_strip
    rows that data choose           a check of each outside of its loop: print_rows, print_written
    chain with a short way          where a whole strip may take it: print_near
    rows that one number divides    by its reciprocal: print_over
    long chain of arithmetic        several vectors at a time: print_abreast
    rows with such a chain          the last step of a row beside the next row's chain: print_late
    all else                        plain loops

Loops that may run at the same time are shared out together (kernel/c99/beside.py).
No form changes the order of a fold, so each gives the bits of the plain loops.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sardonyx.kernel.c99.beside import beside
from sardonyx.kernel.c99.print_abreast import abreast_of, print_abreast, together
from sardonyx.kernel.c99.print_along import packed_along, print_along
from sardonyx.kernel.c99.print_c import (
    Function,
    buffers,
    compute,
    finish,
    indented,
    is_pair,
    is_run,
    is_table,
    locals_of,
    name_pointers,
    statement,
    table,
)
from sardonyx.kernel.c99.print_lanes import lanes_of, print_lanes, suits_lanes
from sardonyx.kernel.c99.print_late import Late, Waiting, first_steps, late_of, print_chain
from sardonyx.kernel.c99.print_look_up import look_up_of, print_look_up
from sardonyx.kernel.c99.print_near import near_of, print_near
from sardonyx.kernel.c99.print_over import over_of, print_over
from sardonyx.kernel.c99.print_packed import print_strips, suits_strips
from sardonyx.kernel.c99.print_product import packed_product, print_product
from sardonyx.kernel.c99.print_rows import print_rows, print_written, row_written, rows_of
from sardonyx.kernel.c99.print_share import Scope, print_beside, print_share
from sardonyx.kernel.c99.print_strip import (
    is_strip,
    print_alone,
    print_rounded,
    rounding_stores,
    rounds_in_strips,
)
from sardonyx.kernel.c99.print_tiles import TILE, across, dealt, print_tiles
from sardonyx.kernel.c99.print_turned import print_turned, turned_of
from sardonyx.kernel.c99.print_walk import print_walk, walk_of
from sardonyx.kernel.c99.print_windows import packed_window, print_windows
from sardonyx.kernel.c99.share import Share, share_of, share_of_loop, share_of_pairs
from sardonyx.kernel.c99.write import Writer, bare, evaluate, rolled
from sardonyx.kernel.c99.writer import Choices
from sardonyx.kernel.expr import Axis, Buffer, Fold
from sardonyx.kernel.ir import Compute, For, If, Kernel, Stmt, Store, lasting, statements
from sardonyx.kernel.payloads import unseen
from sardonyx.kernel.walk import walk

SHORT = 64  # elements of a row whose strips compilers take apart, if they know how many there are

Form = tuple[Callable[[], list[str]], Share | None]  # what prints a statement; how it is shared out


def print_scheduled(
    kernel: Kernel,
    same: Mapping[Buffer, Buffer] | None = None,
    threads: bool = False,
    choices: Choices | None = None,
) -> Function:
    """The kernel as one C99 function and its helpers; `same` as in print_c. threads: what is worth
    it is shared out among threads (share.py). choices: how sums of products are taken."""
    names, helpers = Writer(wide=True, threads=threads, choices=choices), list[list[str]]()
    names.unseen = unseen(kernel)
    touched = buffers(kernel)
    tables = [b for b in touched if is_table(b)]
    pointers = name_pointers(kernel, names, [b for b in touched if b not in tables], same or {})
    before: list[str] = []
    for b in tables:
        names.pointers[b] = names.fresh("c")
        before.append(table(b, names.pointers[b]))
    variables = locals_of(kernel, names)
    scope = Scope((), frozenset(_written(kernel)))

    def one(s: Stmt) -> list[str]:
        return _statement(s, names, helpers, scope, kernel)

    lines: list[str] = []
    for group in beside(kernel) if threads else ((s,) for s in kernel.body):
        alone = len(group) == 1
        lines += one(group[0]) if alone else print_beside(group, one, names, scope, helpers)
    used = set(re.findall(r"\w+", "\n".join(lines)))
    before += [line for line in variables if line.split()[-3] in used]
    function = finish(kernel, names, pointers, [*before, *lines])
    laid_out = [line for helper in helpers for line in [*_laid_out(helper), ""]]
    return replace(function, text=together("\n".join([*laid_out, function.text])))


def _written(kernel: Kernel) -> set[Buffer]:
    return {s.buffer.root for s in statements(kernel.body) if isinstance(s, Compute | Store)}


def _statement(
    s: Stmt, names: Writer, helpers: list[list[str]], scope: Scope, kernel: Kernel
) -> list[str]:
    match s:
        case Compute():
            return _compute(s, names, helpers, scope)
        case For() if lasting(s) is None:
            share = share_of_loop(s, kernel) if names.threads else None

            def loop() -> list[str]:
                rounding = rounding_stores(s)
                if rounding:
                    return [x for one in rounding for x in print_rounded(one, (s.axis,), names)]
                written = row_written(s)
                if written is not None:
                    return print_written(s, written, names)
                only = s.body[0]
                fixed = s.axis in names.fixed
                turns = [a for a in names.fixed if isinstance(a, Axis)] if fixed else []
                late = late_of(s, turns)
                head = names.loop(s.axis)
                run = isinstance(only, Store) and is_run(s.axis, only.index[:-1], only.expr)
                if run or is_pair(s.axis, s.body):
                    head = rolled(head)
                inner = replace(scope, loops=(*scope.loops, s.axis))
                if late is not None:
                    return _late(late, head, fixed, names, helpers, inner, kernel)
                return [head, *_block(s.body, names, helpers, inner, kernel), "}"]

            return loop() if share is None else print_share(s, share, loop, names, scope, helpers)
        case If(cond, then, otherwise):
            lines, (text,) = evaluate(names, [cond])
            yes, no = (_block(x, names, helpers, scope, kernel) for x in (then, otherwise))
            return [*lines, f"if ({bare(text)}) {{", *yes, *(["} else {", *no] if no else []), "}"]
    return statement(s, names)


def _block(
    body: Sequence[Stmt], names: Writer, helpers: list[list[str]], scope: Scope, kernel: Kernel
) -> list[str]:
    """The statements in a pair of braces: what they name ends with it."""
    before = set(names.given)
    lines = [line for s in body for line in _statement(s, names, helpers, scope, kernel)]
    for e in [e for e in names.given if e not in before]:
        del names.given[e]
    return lines


def _late(
    late: Late,
    head: str,
    fixed: bool,
    names: Writer,
    helpers: list[list[str]],
    scope: Scope,
    kernel: Kernel,
) -> list[str]:
    """A loop over rows whose last step waits for the next row; fixed: the loop is print_share's."""
    waiting, axis = Waiting(late, names, names.fresh("was")), scope.loops[-1]
    n = late.axis.extent
    names.row = n if isinstance(n, int) and n <= SHORT else 0

    def steps(body: tuple[Stmt, ...]) -> list[str]:
        return [line for s in body for line in _statement(s, names, helpers, scope, kernel)]

    if late.ahead and not fixed:
        head, before = first_steps(late, axis, names, lambda: steps(late.before))
    else:
        before = steps(late.before)
    lines = [*before, *print_chain(waiting), *steps(late.after), *waiting.row()]
    start, end = waiting.start(), waiting.elements("0", "", names.size(n))
    names.row = 0
    if fixed:
        names.around = start, end
        return [head, *lines, "}"]
    return [*start, head, *lines, "}", *end]


def _compute(s: Compute, names: Writer, helpers: list[list[str]], scope: Scope) -> list[str]:
    found = packed_product(s)
    if found is not None:
        return print_product(found, names, helpers, scope)
    window = packed_window(s)
    if window is not None:
        return print_windows(window, names, helpers, scope)
    along = packed_along(s)
    if along is not None:
        return print_along(along, names, helpers, scope)
    body, share = _form(s, names)
    if share is None or not names.threads:
        return body()
    return print_share(s, share, body, names, scope, helpers)


def _form(s: Compute, names: Writer) -> Form:
    """The form that suits s."""
    if is_strip(s):
        return lambda: print_alone(s, names), None
    look_up = look_up_of(s)
    if look_up is not None:
        return lambda: print_look_up(look_up, s, names), share_of(s, s.axes)
    if suits_strips(s):
        return lambda: print_strips(s, names), share_of(s, s.axes)
    if any(isinstance(e, Fold) for e in walk(s.expr)) and suits_lanes(s):
        return lambda: print_lanes(s, names), share_of(s, s.axes, lanes_of(s))
    walked = walk_of(s)
    if walked is not None:
        share = share_of(s, s.axes[:-2]) or share_of_pairs(s)
        return lambda: print_walk(s, walked, names), share
    rows = rows_of(s)
    if rows:
        return lambda: print_rows(s, rows, names), None
    p = across(s)
    if p is not None:
        share = share_of(s, [*(a for a in s.axes[:-1] if a is not p), p], p, TILE)
        turned = turned_of(s, p)
        if turned is not None:
            return lambda: print_turned(s, turned, names), share
        return lambda: print_tiles(s, p, names), share
    near = near_of(s)
    if near is not None:
        return lambda: print_near(s, near, names), share_of(s, s.axes)
    if s.axes and rounds_in_strips(s, s.axes[-1]):
        return lambda: print_rounded(s, s.axes, names), share_of(s, s.axes)
    over = over_of(s)
    if over is not None:
        return lambda: print_over(s, over, names), share_of(s, s.axes)
    width = abreast_of(s)
    if width:
        return lambda: print_abreast(s, width, names), share_of(s, s.axes)
    order = dealt(s)
    return lambda: compute(s, names, order), share_of(s, order)


def _laid_out(helper: list[str]) -> list[str]:
    """A helper's lines: declarations as they are, bodies indented."""
    at = next(i for i, line in enumerate(helper) if line.endswith("{"))
    return [*helper[: at + 1], *indented(helper[at + 1 : -1]), "}"]
