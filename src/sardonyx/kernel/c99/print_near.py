"""Chains with a short way for most values (sin and cos of what is not large): where all lanes of a
strip may take it, they do.

    for strip of 32: near = all of c(in[strip + lane])
                     if near:  for lane: out[strip + lane] = short
                     else:     for lane: out[strip + lane] = c ? short : long

A selection computes both of its sides in vectors. Where its condition holds, the short side is what
it chooses, so no bit changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from sardonyx.kernel.c99.print_abreast import VECTOR, abreast_of
from sardonyx.kernel.c99.write import Writer, bare, evaluate, stored
from sardonyx.kernel.expr import Alu, Cast, Const, Expr, Where
from sardonyx.kernel.ir import Compute
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import walk

LEAST = 40  # operations that the short way leaves out
MOST = 30  # operations before it is known whether it may be taken
COMMON = 16.0  # what is below a lesser limit is not most of what there is


@dataclass(frozen=True, slots=True, eq=False)
class Near:
    """cond: whether an element may go the short way; short: what it is then; width: of strips."""

    cond: Expr
    short: Expr
    width: int


def near_of(s: Compute) -> Near | None:
    """The short way that suits s, where its elements are taken in vectors."""
    whole = _work(s.expr)
    for cond in _conditions(s.expr):
        given: dict[Expr, Expr] = {
            e: e.a for e in walk(s.expr) if isinstance(e, Where) and e.cond is cond
        }
        short = s.expr
        while any(e in given for e in walk(short)):
            short = rewrite(short, given)
        width = abreast_of(replace(s, expr=short))
        if width and whole - _work(short) >= LEAST and _work(cond) <= MOST:
            return Near(cond, short, max(width, 2 * VECTOR))
    return None


def _conditions(root: Expr) -> Iterator[Expr]:
    """Comparisons with a large constant that decide selections."""
    for cond in dict.fromkeys(e.cond for e in walk(root) if isinstance(e, Where)):
        match cond:
            case Alu("lt" | "le", (_, Const(limit, dtype))) if dtype.is_float and limit >= COMMON:
                yield cond


def _work(e: Expr) -> int:
    return sum(isinstance(x, Alu | Where | Cast) for x in walk(e))


def print_near(s: Compute, near: Near, names: Writer) -> list[str]:
    """The loop nest of s in strips along its last axis."""
    heads = [names.loop(a) for a in s.axes[:-1]]
    axis, strip, lane = s.axes[-1], names.fresh("s"), names.fresh("l")
    i = names.given[axis] = names.fresh("i")
    start, n = names.span(axis)
    each = f"for (int64_t {lane} = 0; {lane} < {near.width}; {lane}++) {{"
    here, all_near = f"const int64_t {i} = {strip} + {lane};", names.fresh("v")
    asked, (condition,) = evaluate(names, [near.cond])
    whole = [
        f"int32_t {all_near} = 1;",
        *(each, here, *asked, f"{all_near} &= {bare(condition)};", "}"),
        *(f"if ({all_near}) {{", f"sx_abreast({near.width // VECTOR}) {each}", here),
        *(*_element(replace(s, expr=near.short), names), "}", "} else {"),
        *(each, here, *_element(s, names), "}", "}"),
    ]
    lines = [
        f"int64_t {strip} = {start};",
        *(f"for (; {strip} + {near.width} <= {n}; {strip} += {near.width}) {{", *whole, "}"),
        f"for (int64_t {lane} = 0; {lane} < {n} - {strip}; {lane}++) {{",
        *(here, *_element(s, names), "}"),
    ]
    return [*heads, "{", *lines, "}", *["}"] * len(heads)]


def _element(s: Compute, names: Writer) -> list[str]:
    lines, (value,) = evaluate(names, [s.expr])
    value = bare(stored(names, value, s.expr, s.buffer))
    target = names.element(s.buffer, [names.given[a] for a in s.axes])
    return [*lines, f"{target} = {value};"]
