"""Choices along an axis (Concat, and what is fused with it) become loops of their own.

    y[c, i] = f(c < 64 ? a[c, i] : b[c - 64, i])   =>   c < 64: y[c, i] = f(a[c, i])
                                                        c < 32: y[c + 64, i] = f(b[c, i])

Nothing is decided, and no default loaded, per element then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, takewhile
from math import inf
from typing import TypeAlias

from sardonyx.dims import Dim, atom, product
from sardonyx.kernel.affine import affine, bounds, coefficient
from sardonyx.kernel.c99.print_tiles import across
from sardonyx.kernel.expr import Alu, Axis, Const, Expr, Fold, Iterate, Load, Where, lift
from sardonyx.kernel.ir import Compute, Stmt, Store, nested
from sardonyx.kernel.ranges import inside
from sardonyx.kernel.rewrite import rewrite
from sardonyx.kernel.walk import is_move, walk
from sardonyx.passes.program import Launch, Program

MOST = 256  # sides that one loop becomes
MANY = 64  # stores in one loop: compilers take long for more
FEWEST = 8  # narrow sides that are worth one
WIDE = 8  # elements side by side that are worth a loop of their own
SHORT = 16  # terms of a fold that is no reason to keep its loops together

Side: TypeAlias = tuple[Store, tuple[Axis, ...]]


def split_choices(program: Program) -> Program:
    """Each launch with a loop for each side of its choices."""
    return replace(program, launches=tuple(_split(launch) for launch in program.launches))


def _split(launch: Launch) -> Launch:
    body: list[Stmt] = []
    for s in launch.kernel.body:
        body += _parts(s) if isinstance(s, Compute) else (s,)
    return replace(launch, kernel=replace(launch.kernel, body=tuple(body)))


def _parts(s: Compute) -> list[Stmt]:
    """The loops that s becomes, or s where there is no choice."""
    found = parts(s, phases=True)
    return loops(found) if len(found) > 1 else [s]


def parts(s: Compute, most: int = MOST, phases: bool = False) -> list[Side]:
    """A store for each side of the choices of s, and the axes that it is for; one where there are
    more than `most`, or tiles serve s better. phases: also of those by phases."""
    if across(s) is None and is_short(s.expr):
        found = sides(s, most, phases)
        if all(is_move(part.expr) == is_move(s.expr) for part, _ in found):  # as to NaN
            return found
    return [(Store(s.buffer, s.axes, s.expr), s.axes)]


def is_short(e: Expr) -> bool:
    """Whether no sum of products, and no long fold, is in e."""
    loops = [x for x in walk(e) if isinstance(x, Fold | Iterate)]
    return all(isinstance(x, Fold) and x.kind != "dot" and _terms(x) <= SHORT for x in loops)


def _terms(fold: Fold) -> float:
    count = product(tuple(a.extent for a in fold.axes))
    return count if isinstance(count, int) else inf


def sides(s: Compute, most: int = MOST, phases: bool = False) -> list[Side]:
    """A store for each side of the choices of s, and the axes that it is for; no more than `most`:
    s as it is where there are more. phases: also of those by phases."""
    whole = Store(s.buffer, s.axes, s.expr), s.axes
    found = _by_phases(*whole) if phases else [whole]
    at = 0
    while at < len(found):
        store, axes = found[at]
        choice = _choice(store, axes)
        if choice is None:
            at += 1
            continue
        axis, first = choice
        found[at : at + 1] = [_part(store, axes, axis, *ends) for ends in _halves(axis, first)]
        if len(found) > most:
            return [(Store(s.buffer, s.axes, s.expr), s.axes)]
    return found


def _by_phases(s: Store, axes: tuple[Axis, ...]) -> list[Side]:
    """s with whole steps of an axis apart from what is left, where choices ask for its phase and
    it is no whole number of steps (which passes/phases.py splits), the steps and phases as axes.

        y[i] = i % 4 < 1 ? a[i // 4] : b[i // 4], i < 255
     -> y[4 * q + p] = p < 1 ? a[q] : b[q], q < 63;   y[252 + i] = i < 1 ? a[63] : b[63], i < 3
    """
    found = _phases(s, axes)
    if found is None:
        return [(s, axes)]
    axis, extent, size = found
    steps = extent // size
    q, p = Axis(f"{axis.name}q", steps), Axis(f"{axis.name}p", size)
    at = axes.index(axis)
    whole = _rewritten(s, {axis: q * size + p})
    rest = _part(s, axes, axis, steps * size, extent) if steps * size < extent else None
    made = _by_phases(whole, (*axes[:at], q, p, *axes[at + 1 :]))
    return made if rest is None else made + _by_phases(*rest)


def _phases(s: Store, axes: tuple[Axis, ...]) -> tuple[Axis, int, int] | None:
    """An axis whose phase a choice asks for, its extent, and how many phases there are."""
    for e in walk(s.expr):
        match e:
            case Where(Alu("lt", (Alu("imod", (Axis() as axis, Const(size, _)), _), _), _)):
                n = axis.extent
                if axis in axes and isinstance(n, int) and n >= int(size):
                    return axis, n, int(size)
    return None


def _halves(axis: Axis, first: int) -> tuple[tuple[int, int], tuple[int, int]]:
    assert isinstance(axis.extent, int)
    return (0, first), (first, axis.extent)


def _choice(s: Store, axes: tuple[Axis, ...]) -> tuple[Axis, int] | None:
    """An axis, and an index along it where a condition of s ceases to hold: of several, the one in
    the middle, so that the sides of many choices halve."""
    ends: dict[Axis, set[int]] = {}
    for e in walk(s.expr):
        if not isinstance(e, Where):
            continue
        for axis in axes:
            ends.setdefault(axis, set()).update(_ends(e.cond, axis))
    for axis, found in ends.items():
        if found:
            return axis, sorted(found)[len(found) // 2]
    return None


def _ends(cond: Expr, axis: Axis) -> Iterator[int]:
    """Where `cond` begins to be false along the axis, whatever the other axes are; where these
    matter at one index (a block of channels that has both), that index and the next."""
    form, limit = _less(cond)
    along = None if form is None else coefficient(form, axis)
    if form is None or limit is None or not isinstance(along, int) or along <= 0:
        return
    low, high = bounds(form - along * atom(axis))
    if not (isinstance(low, int) and isinstance(high, int) and isinstance(axis.extent, int)):
        return
    mixed, never = (-((x - limit) // along) for x in (high, low))
    if never - mixed <= 1:
        yield from (i for i in {mixed, never} if 0 < i < axis.extent)


def _less(cond: Expr) -> tuple[Dim | None, int | None]:
    """form, limit of form < limit."""
    if not (isinstance(cond, Alu) and cond.op == "lt"):
        return None, None
    limit = affine(cond.args[1])
    return affine(cond.args[0]), limit if isinstance(limit, int) else None


def _part(s: Store, axes: tuple[Axis, ...], axis: Axis, begin: int, end: int) -> Side:
    """s with the axis from begin to end - 1 alone."""
    new = Axis(axis.name, end - begin)
    part = _rewritten(s, {axis: new + begin if begin else new})
    return part, tuple(new if a is axis else a for a in axes)


def _rewritten(s: Store, given: Mapping[Axis, Expr]) -> Store:
    index = tuple(rewrite(i, given) for i in s.index)
    return Store(s.buffer, index, _decided(rewrite(s.expr, given)))


def _decided(root: Expr) -> Expr:
    """root without the choices and checks whose outcome is known."""
    while True:
        known: dict[Expr, Expr] = {}
        for e in walk(root):
            if isinstance(e, Where):
                side = _side(e)
                if side is not None:
                    known[e] = known.get(side, side)
        if not known:
            return rewrite(root, {}, _checked)
        root = rewrite(root, known)


def _side(e: Where) -> Expr | None:
    """What e always chooses."""
    form, limit = _less(e.cond)
    if form is None or limit is None:
        return None
    low, high = bounds(form)
    if isinstance(high, int) and high < limit:
        return e.a
    return e.b if isinstance(low, int) and low >= limit else None


def _checked(x: Load) -> Expr | None:
    """The load without a check that always holds."""
    if x.mode != "guard" or not all(map(inside, x.index, x.buffer.shape)):
        return None
    return Load(x.buffer, x.index)


def loops(found: Sequence[Side]) -> list[Stmt]:
    """The loops of all sides: of many neighbours that are narrow (a Concat of columns) row by row,
    so that they are written together."""
    aligned = zip(*(axes for _, axes in found), strict=True)
    together = takewhile(lambda same: len(set(same)) == 1, aligned)
    outer = [same[0] for same in together if same[0].extent != 1]

    def inner(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
        return tuple(a for a in axes if a not in outer)

    def width(side: Side) -> Dim:
        return product(tuple(a.extent for a in inner(side[1])))

    def is_narrow(side: Side) -> bool:
        found = width(side)
        return isinstance(found, int) and found < WIDE

    body: list[Stmt] = []
    for narrow, group in groupby(found, is_narrow):
        run = list(group)
        single = len(run) > 1 and all(width(side) == 1 for side in run)
        if not narrow or (len(run) < FEWEST and not single):
            body += (nest(s, axes) for s, axes in run)
            continue
        stores = [nest(s, inner(axes)) for s, axes in run]
        for i in range(0, len(stores), MANY):
            body += nested(outer, stores[i : i + MANY])
    return body


def nest(s: Store, axes: tuple[Axis, ...]) -> Stmt:
    """The loops over the axes around s; those of one turn are none."""
    gone: dict[Axis, Expr] = {a: lift(0) for a in axes if a.extent == 1}
    index = tuple(rewrite(i, gone) for i in s.index)
    store = Store(s.buffer, index, rewrite(s.expr, gone))
    (whole,) = nested([a for a in axes if a.extent != 1], (store,))
    return whole
