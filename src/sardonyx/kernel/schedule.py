"""The scheduled printer: the same kernels as kernel/print_c.py, in forms that are fast.

    packed sum of products          register tiles: kernel/print_product.py
    window in lanes                 neighbours at a time, borders inside: print_windows
    fold under a contiguous axis    sixteen elements at a time, the fold outside them: print_lanes
    iterated value                  eight points at a time: print_walk
    read along another axis         square tiles: print_tiles
    all else                        plain loops

No form changes the order of a fold, so each gives the bits of the plain loops.
"""

from __future__ import annotations

from collections.abc import Mapping

from sardonyx.kernel.expr import Buffer, Fold, walk
from sardonyx.kernel.ir import Compute, For, Kernel, Stmt
from sardonyx.kernel.print_c import (
    TABLE,
    Function,
    buffers,
    compute,
    finish,
    indented,
    locals_of,
    name_pointers,
    statement,
    table,
)
from sardonyx.kernel.print_lanes import print_lanes, suits_lanes
from sardonyx.kernel.print_product import packed_product, print_product
from sardonyx.kernel.print_tiles import across, print_tiles
from sardonyx.kernel.print_walk import print_walk, walk_of
from sardonyx.kernel.print_windows import packed_window, print_windows
from sardonyx.kernel.write import Writer


def print_scheduled(kernel: Kernel, same: Mapping[Buffer, Buffer] | None = None) -> Function:
    """The kernel as one C99 function and its helpers; `same` as in print_c."""
    names, helpers = Writer(wide=True), list[list[str]]()
    touched = buffers(kernel)
    tables = [b for b in touched if b.data is not None and b.data.size <= TABLE]
    pointers = name_pointers(kernel, names, [b for b in touched if b not in tables], same or {})
    lines: list[str] = []
    for b in tables:
        names.pointers[b] = names.fresh("c")
        lines.append(table(b, names.pointers[b]))
    lines += locals_of(kernel, names)
    for s in kernel.body:
        lines += _statement(s, names, helpers)
    function = finish(kernel, names, pointers, lines)
    before = [line for helper in helpers for line in [*_laid_out(helper), ""]]
    text = "\n".join([*before, function.text])
    return Function(text, function.pointers, function.sizes, function.traps)


def _statement(s: Stmt, names: Writer, helpers: list[list[str]]) -> list[str]:
    match s:
        case Compute():
            return _compute(s, names, helpers)
        case For(axis, body):
            head = names.loop(axis)
            return [head, *(x for inner in body for x in _statement(inner, names, helpers)), "}"]
    return statement(s, names)


def _compute(s: Compute, names: Writer, helpers: list[list[str]]) -> list[str]:
    found = packed_product(s)
    if found is not None:
        return print_product(found, names, helpers)
    window = packed_window(s)
    if window is not None:
        return print_windows(window, names, helpers)
    if any(isinstance(e, Fold) for e in walk(s.expr)) and suits_lanes(s):
        return print_lanes(s, names)
    walked = walk_of(s)
    if walked is not None:
        return print_walk(s, walked, names)
    axis = across(s)
    return compute(s, names) if axis is None else print_tiles(s, axis, names)


def _laid_out(helper: list[str]) -> list[str]:
    """A helper's lines: declarations as they are, bodies indented."""
    at = next(i for i, line in enumerate(helper) if line.endswith("{") and "@" not in line)
    return [*helper[: at + 1], *indented(helper[at + 1 : -1]), "}"]
