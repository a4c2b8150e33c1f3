"""Runs of packed elements, 64 at a time: what lies side by side is unpacked to bytes first, what is
written is packed last, so that compilers vectorise what is between.

    for s in 64s: sx_unpack(u, x + s); for l: v[l] = f(u[l]); sx_pack(y + s, v)
"""

from __future__ import annotations

from collections.abc import Iterator

from sardonyx.dims import product
from sardonyx.kernel.affine import affine, coefficient
from sardonyx.kernel.c99.place import checked
from sardonyx.kernel.c99.write import Writer, bare, evaluate, stored
from sardonyx.kernel.expr import Axis, Expr, Fold, Iterate, Load, Where
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.walk import children, free_axes, walk

STRIP = 64
ROOM = 2 * STRIP  # gcc 12 at -O3 counts with, and warns of, one vector more than there is
LEAST = 16  # a shorter innermost axis is not worth a strip


def suits_strips(s: Compute) -> bool:
    """Whether s has a long last axis, no fold, and packed elements side by side."""
    if not s.axes or product(s.buffer.shape) == 0:
        return False
    extent = s.axes[-1].extent
    nodes = list(walk(s.expr))
    if any(isinstance(e, Fold | Iterate) for e in nodes):
        return False
    if any(isinstance(e, Load) and e.mode == "trap" for e in nodes):
        return False
    if isinstance(extent, int) and extent < LEAST:
        return False
    return s.buffer.dtype.is_packed or any(True for _ in _runs(s))


def _runs(s: Compute) -> Iterator[Load]:
    """The loads of packed elements that lie side by side along the last axis, and are there at
    every point."""
    todo, seen = [s.expr], set[Expr]()
    while todo:
        e = todo.pop()
        if e in seen:
            continue
        seen.add(e)
        if isinstance(e, Load):
            if e.buffer.dtype.is_packed and not any(checked(e)) and _along(e, s.axes[-1]):
                yield e
            todo += e.index
        else:
            todo += (e.cond,) if isinstance(e, Where) else children(e)


def _along(e: Load, axis: Axis) -> bool:
    """Whether neighbours along the axis are neighbours in memory."""
    last = affine(e.index[-1]) if e.index else None
    if last is None or coefficient(last, axis) != 1:
        return False
    free = free_axes(*e.index)
    return all(axis not in free[id(i)] for i in e.index[:-1])


def print_strips(s: Compute, names: Writer) -> list[str]:
    """The loop nest of s in strips along its last axis."""
    axis = s.axes[-1]
    begin, end = names.span(axis)
    heads = [names.loop(a) for a in s.axes[:-1]]
    strip, lane, count = names.fresh("s"), names.fresh("l"), names.fresh("m")
    names.given[axis] = strip
    before: list[str] = []
    loads = list(_runs(s))
    runs = [names.fresh("u") for _ in loads]
    for load, run in zip(loads, runs, strict=True):
        lines, index = evaluate(names, list(load.index))
        source = f"{names.pointers[load.buffer.root]}, {names.offset(load.buffer, index)}"
        call = f"sx_unpack({source}, {load.buffer.dtype.bits}, {run}, {count});"
        before += [*lines, f"uint8_t {run}[{ROOM}];", call]
    first = names.offset(s.buffer, [names.given[a] for a in s.axes])
    names.given.update((load, f"{run}[{lane}]") for load, run in zip(loads, runs, strict=True))
    names.given[axis] = names.fresh("i")
    lines, (value,) = evaluate(names, [s.expr])
    store, after = _result(
        s, names, first, bare(stored(names, value, s.expr, s.buffer)), lane, count
    )
    here = f"const int64_t {names.given[axis]} = {strip} + {lane};"
    used = any(names.given[axis] in line for line in (*lines, store))
    return [
        *heads,
        f"for (int64_t {strip} = {begin}; {strip} < {end}; {strip} += {STRIP}) {{",
        f"const int64_t {count} = {end} - {strip} < {STRIP} ? {end} - {strip} : {STRIP};",
        *before,
        *after[:-1],
        f"for (int64_t {lane} = 0; {lane} < {count}; {lane}++) {{",
        *([here] if used else []),
        *lines,
        store,
        "}",
        *after[-1:],
        "}",
        *["}"] * len(heads),
    ]


def _result(
    s: Compute, names: Writer, first: str, value: str, lane: str, count: str
) -> tuple[str, list[str]]:
    """The statement that stores an element; for packed ones, the bytes it goes to, and what packs
    these from the offset `first` on."""
    root, bits = s.buffer.root, s.buffer.dtype.bits
    if not s.buffer.dtype.is_packed:
        return names.assign(s.buffer, [names.given[a] for a in s.axes], value), []
    run, word = names.fresh("v"), "sx_merge" if root in names.kept else "sx_pack"
    names.filled.add(root)
    call = f"{word}({names.pointers[root]}, {first}, {bits}, {run}, {count});"
    return f"{run}[{lane}] = {value};", [f"uint8_t {run}[{ROOM}];", call]
