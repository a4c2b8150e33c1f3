"""Rows that data choose (Gather, ScatterND): whether a row is there is asked once, not of each
element.

    for row:  there = 0 <= index[row] < n, or it traps
              for column: out[row, column] = there ? in[index[row], column] : 0

    for row:  if (0 <= index[row] < n) for column: out[index[row], column] = ..;  else it traps

Compilers take a condition that stays the same out of a loop, which then has vectors; not a trap.
"""

from __future__ import annotations

from collections.abc import Iterator

from sardonyx import types as t
from sardonyx.dims import at_least
from sardonyx.kernel.c99.place import checked
from sardonyx.kernel.c99.print_c import is_pair, is_run, open_of
from sardonyx.kernel.c99.write import Writer, bare, evaluate, inside_text, is_chosen, rolled, stored
from sardonyx.kernel.expr import Const, Expr, Fold, Iterate, Load, Local, Where
from sardonyx.kernel.ir import Compute, For, Store
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import children, free_axes, walk


def rows_of(s: Compute) -> list[Load]:
    """The loads of s that may trap, where each is of a row that the last axis does not decide."""
    if not s.axes or not at_least(s.axes[-1].extent, 2):
        return []
    nodes, axis = list(walk(s.expr)), s.axes[-1]
    found = [e for e in nodes if isinstance(e, Load) and e.mode == "trap" and any(checked(e))]
    if any(isinstance(e, Fold | Iterate) for e in nodes):
        return []
    always, free = set(_always(s.expr)), free_axes(s.expr)
    rows = all(axis not in free[id(i)] for e in found for i in _asked(e))
    return found if rows and always.issuperset(found) else []


def row_written(loop: For) -> Store | None:
    """The one store of a loop, where it may trap by the row alone that it writes to, which is also
    the only one that it reads and that may not be there."""
    s = loop.body[0] if len(loop.body) == 1 else None
    if not isinstance(s, Store) or not at_least(loop.axis.extent, 2):
        return None
    nodes, free = list(walk(*s.index, s.expr)), free_axes(*s.index)
    own = [e for e in nodes if isinstance(e, Load) and e.mode == "trap" and any(checked(e))]
    alike = all(e.buffer is s.buffer and e.index == s.index for e in own)
    if not alike or any(isinstance(e, Fold | Iterate) for e in nodes):
        return None
    asked = [i for i, open_ in zip(s.index, open_of(s), strict=True) if open_]
    return s if asked and all(loop.axis not in free[id(i)] for i in asked) else None


def _asked(e: Load) -> list[Expr]:
    """The indices of e that may be out of bounds."""
    return [i for i, check in zip(e.index, checked(e), strict=True) if check]


def _always(root: Expr) -> Iterator[Expr]:
    """The nodes that are evaluated whatever the data are."""
    todo, seen = [root], set[Expr]()
    while todo:
        e = todo.pop()
        if e not in seen:
            seen.add(e)
            yield e
            match e:
                case Where(cond):
                    todo.append(cond)
                case Load(_, index):
                    todo += index
                case _:
                    todo += children(e)


def print_rows(s: Compute, rows: list[Load], names: Writer) -> list[str]:
    """The loop nest of s, which asks outside of its last loop whether each of `rows` is there."""
    heads, lines = [names.loop(a) for a in s.axes[:-1]] or ["{"], list[str]()
    quiet: dict[Expr, Expr] = {}
    for e in rows:
        before, there, element = _row(e, quiet, names)
        lines += before
        quiet[e] = Where(there, element, Const(0, e.dtype))
    value = rewrite(s.expr, quiet)
    head = names.loop(s.axes[-1])
    if is_run(s.axes[-1], (), value) or is_pair(s.axes[-1], (s,)):
        head = rolled(head)
    inner, (text,) = evaluate(names, [value])
    text = stored(names, text, value, s.buffer)
    store = names.assign(s.buffer, [names.given[a] for a in s.axes], text, ascending=True)
    return [*heads, *lines, head, *inner, store, "}", *["}"] * len(heads)]


def print_written(loop: For, s: Store, names: Writer) -> list[str]:
    """The loop, which asks before its first turn whether the row of s is there."""
    index, check = list(s.index), open_of(s)
    lines, texts = evaluate(names, [i for i, open_ in zip(index, check, strict=True) if open_])
    for d, text in zip((d for d, open_ in enumerate(check) if open_), texts, strict=True):
        lines.append(_found(index, d, text, names))
    condition = inside_text(names, s.buffer, [names.given.get(i, "") for i in index], check)
    here = {e: Load(s.buffer, tuple(index)) for e in walk(s.expr) if _is_own(e, s)}
    value = rewrite(s.expr, here)
    head = names.loop(loop.axis)
    inner, (*places, text) = evaluate(names, [*index, value])
    text = text if s.raw else stored(names, text, value, s.buffer)
    store = names.assign(s.buffer, places, text)
    trap = [f"{names.trap(1)};"] * bool(here) + [f"{names.trap(2)};"]
    return [*lines, f"if ({condition}) {{", head, *inner, store, "}", "} else {", *trap, "}"]


def _is_own(e: Expr, s: Store) -> bool:
    return isinstance(e, Load) and e.mode == "trap" and e.buffer is s.buffer


def _row(e: Load, quiet: dict[Expr, Expr], names: Writer) -> tuple[list[str], Local, Load]:
    """The statements that find the row of e, or trap; whether it is there; the element if it is."""
    index = [rewrite(i, quiet) for i in e.index]
    lines, check = list[str](), checked(e)
    for d in (d for d, open_ in enumerate(check) if open_):
        before, (text,) = evaluate(names, [index[d]])
        lines += [*before, _found(index, d, text, names)]
    texts = [names.given.get(i, "") for i in index]
    there = Local("there", t.bool_)
    name = names.given[there] = names.fresh("h")
    lines.append(f"const _Bool {name} = {inside_text(names, e.buffer, texts, check)};")
    lines.append(f"if (!{name}) {names.trap(1)};")
    return lines, there, Load(e.buffer, tuple(index))


def _found(index: list[Expr], d: int, text: str, names: Writer) -> str:
    """The declaration of one of the indices, which is that variable then."""
    hidden = f"sx_hidden({bare(text)})" if is_chosen(index[d]) else bare(text)
    found = index[d] = Local("at", t.int64)
    names.given[found] = names.fresh("h")
    return f"const int64_t {names.given[found]} = {hidden};"
