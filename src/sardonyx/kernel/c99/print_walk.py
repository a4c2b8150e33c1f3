"""Iterated values (walks through tables) of several points at a time.

    for ten points q of the two innermost axes together, then four, then one:
        s0 = start .. s9 = start; until none of them changes: s0 = step(s0) .. s9 = step(s9)

A step waits for memory, and where a walk ends cannot be foretold: ten walks that wait together
take little longer than one. Where no walk is long, all of its steps cost less than to ask after
each whether one is left. The points are those of both axes, flattened, so that it does not
matter which of them is long.
"""

from __future__ import annotations

from sardonyx.kernel.c99.write import Writer, bare, evaluate, is_chosen, stored
from sardonyx.kernel.expr import Expr, Fold, Iterate, Load
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.walk import walk

AT_ONCE = (10, 4)
LONG = 16  # steps, from which on it is asked whether walks have ended


def walk_of(s: Compute) -> Iterate | None:
    """The one iterated value of s, where s has two axes or more, no fold and no run-time error."""
    nodes = list(walk(s.expr))
    found = [e for e in nodes if isinstance(e, Iterate)]
    if len(found) != 1 or len(s.axes) < 2:
        return None
    if any(isinstance(e, Fold) or (isinstance(e, Load) and e.mode != "proven") for e in nodes):
        return None
    return found[0]


def print_walk(s: Compute, found: Iterate, names: Writer) -> list[str]:
    """The loop nest of s with ten points of its last two axes at once."""
    heads = [names.loop(a) for a in s.axes[:-2]]
    outer, inner = s.axes[-2:]
    rows, columns = names.size(outer.extent), names.size(inner.extent)
    at: dict[Expr, str] = {a: names.fresh(a.name[0]) for a in (outer, inner)}
    q = names.fresh("q")
    first, end = names.spans.get(inner) or ("0", f"{rows} * {columns}")
    begin = [f"{first} / {columns}", f"{first} % {columns}"] if first != "0" else ["0", "0"]
    advance = [f"if (++{at[inner]} == {columns}) {{", f"{at[inner]} = 0;", f"{at[outer]}++;", "}"]
    lines = [
        *heads,
        "{",
        f"int64_t {q} = {first}, {at[outer]} = {begin[0]}, {at[inner]} = {begin[1]};",
        *(line for n in AT_ONCE for line in _together(n, s, found, names, at, (q, end, advance))),
        f"for (; {q} < {end}; {q}++) {{",
        *_element(s, names, at, {}),
        *advance,
        "}",
        "}",
    ]
    return [*lines, *["}"] * len(heads)]


def _together(
    n: int,
    s: Compute,
    found: Iterate,
    names: Writer,
    at: dict[Expr, str],
    loop: tuple[str, str, list[str]],
) -> list[str]:
    """n walks in step with one another, then what they give, while there are so many points."""
    q, end, advance = loop
    lines = [f"for (; {q} + {n} <= {end}; {q} += {n}) {{"]
    states, places = [], []
    for _ in range(n):
        place: dict[Expr, str] = {a: names.fresh(text[0]) for a, text in at.items()}
        lines += [f"const int64_t {new} = {at[a]};" for a, new in place.items()]
        before, (start,) = _given(names, [found.start], place, {})
        states.append(names.fresh("v"))
        places.append(place)
        lines += [*before, f"int64_t {states[-1]} = {bare(start)};", *advance]
    count, changed = names.fresh("q"), names.fresh("v") if found.count > LONG else None
    lines += [f"for (int64_t {count} = 0; {count} < {names.size(found.count)}; {count}++) {{"]
    lines += [f"int64_t {changed} = 0;"] if changed else []
    for place, state in zip(places, states, strict=True):
        before, (after,) = _given(names, [found.step], place, {found.axis: state})
        then = names.fresh("v")
        text = f"sx_hidden({bare(after)})" if is_chosen(found.step) else bare(after)
        lines += [*before, f"const int64_t {then} = {text};"]
        lines += [f"{changed} |= {then} ^ {state};"] if changed else []
        lines += [f"{state} = {then};"]
    lines += [f"if ({changed} == 0) break;"] if changed else []
    lines += ["}"]
    for place, state in zip(places, states, strict=True):
        lines += ["{", *_element(s, names, place, {found: state}), "}"]
    return [*lines, "}"]


def _given(
    names: Writer, values: list[Expr], place: dict[Expr, str], known: dict[Expr, str]
) -> tuple[list[str], list[str]]:
    """Statements and texts of values at a point."""
    return evaluate(names, values, {**known, **place})


def _element(
    s: Compute, names: Writer, place: dict[Expr, str], known: dict[Expr, str]
) -> list[str]:
    """The statements that store the element at a point."""
    lines, (value,) = _given(names, [s.expr], place, known)
    for e in known:
        names.given.pop(e, None)
    value = stored(names, value, s.expr, s.buffer)
    index = [names.given[a] for a in s.axes]
    return [*lines, names.assign(s.buffer, index, value, ascending=True)]
