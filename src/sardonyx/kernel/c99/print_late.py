"""Rows whose last step is done beside the long chain of the next row.

    For(i):                         for i:
      steps                           steps
      Compute(e, (j,), chain)    =>   for strip of j:  y[row before] = last(e);  e = chain;  p += e
      Compute(t, (1,), sum of e)      t = the sum of p
      For(j): Store(y, (i, j))      y[last row] = last(e)

Steps that give single elements (a maximum) are done for the next row before the chain of this one,
so that no chain waits for them:

    for i from -1:  m = what the steps gave;  steps(i + 1);  if i >= 0: the chain with m, ..

A chain of dependent operations leaves the processor idle half of the time, a division occupies its
unit: together they take little more than the chain alone. The sum is taken in the same strips. No
element is computed otherwise, and each sum takes its terms in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sardonyx import types as t
from sardonyx.kernel.affine import affine
from sardonyx.kernel.c99.print_abreast import VECTOR, Beside, abreast_of, print_abreast
from sardonyx.kernel.c99.print_calls import has_calls
from sardonyx.kernel.c99.print_strip import print_strip
from sardonyx.kernel.c99.spelling import c_type
from sardonyx.kernel.c99.strips import Strip
from sardonyx.kernel.c99.write import Writer, bare, evaluate, stored
from sardonyx.kernel.expr import Axis, Buffer, Expr, Fold, Iterate, Load, Local
from sardonyx.kernel.folds import LANES
from sardonyx.kernel.ir import Compute, For, Stmt, Store, expressions, statements
from sardonyx.kernel.ranges import inside
from sardonyx.kernel.walk import walk

NEAR = 4096  # elements of a row, two of which the first cache holds


@dataclass(frozen=True, slots=True, eq=False)
class Late:
    """The parts of such a loop. fold: the sum of what the chain gives, part of a later step."""

    before: tuple[Stmt, ...]
    chain: Compute
    width: int
    fold: Fold | None
    after: tuple[Stmt, ...]
    last: Store
    ahead: tuple[Load, ...]  # what the chain reads of steps that may be a row ahead of it

    @property
    def axis(self) -> Axis:
        axis = self.last.index[-1]
        assert isinstance(axis, Axis)
        return axis


def late_of(s: For, outer: Sequence[Axis]) -> Late | None:
    """The parts of s, where its last step may wait for the next turn; outer: the axes of the loops
    whose turns follow upon one another."""
    *steps, end = s.body
    if not isinstance(end, For) or len(end.body) != 1 or not all(_is_step(x) for x in steps):
        return None
    last, axis = end.body[0], end.axis
    if not isinstance(last, Store) or last.raw or last.buffer.dtype is not t.float32:
        return None
    if not last.index or last.index[-1] is not axis or not _is_own(last, axis, (*outer, s.axis)):
        return None
    for at, chain in enumerate(steps):
        assert isinstance(chain, Compute)
        width = abreast_of(chain) if len(chain.axes) == 1 else 0
        if width > VECTOR and chain.axes[0].extent == axis.extent:
            before, after = tuple(steps[:at]), tuple(steps[at + 1 :])
            if _may_wait(last, axis, chain, after) and _is_row(last, steps):
                ahead = _ahead(before, chain, (*after, last))
                return Late(before, chain, width, _sum_of(chain, after), after, last, ahead)
    return None


def _ahead(before: Sequence[Stmt], chain: Compute, others: Sequence[Stmt]) -> tuple[Load, ...]:
    """What the chain reads of the steps before it, if these give single elements that nothing else
    reads, of rows of which two are near."""
    n = chain.axes[0].extent
    single = {x.buffer for x in before if isinstance(x, Compute) and not _is_long(x)}
    if len(single) < len(before) or (isinstance(n, int) and n > NEAR):
        return ()
    if any(e.buffer in single for s in others for e in _loads(s)):
        return ()
    read = tuple(e for e in _loads(chain) if e.buffer in single)
    return read if all(_is_first(e, single) for e in read) else ()


def _loads(s: Stmt) -> list[Load]:
    return [e for e in walk(*expressions(s)) if isinstance(e, Load)]


def _is_step(s: Stmt) -> bool:
    return isinstance(s, Compute) and s.buffer.base is None and not s.buffer.dtype.is_packed


def _is_own(last: Store, axis: Axis, turns: Sequence[Axis]) -> bool:
    """Whether each turn writes a row of its own, all of which is there."""
    index = last.index[:-1]
    there = last.proven or all(map(inside, last.index, last.buffer.shape))
    own = all(a.extent == 1 or any(i is a for i in index) for a in turns)
    return there and own and all(e is not axis for e in walk(*index))


def _may_wait(last: Store, axis: Axis, chain: Compute, after: Sequence[Stmt]) -> bool:
    """Whether the last step needs what the chain gives, element by element, and single elements
    that the steps after the chain write: these are as they were when the next chain is done."""
    single = {x.buffer for x in after if isinstance(x, Compute) and not _is_long(x)}
    if any(isinstance(e, Fold | Iterate | Local) for e in walk(last.expr)):
        return False
    loads = [e for e in walk(last.expr) if isinstance(e, Load)]
    inner = {i for e in loads for i in e.index}
    if any(isinstance(e, Axis) and e not in inner for e in walk(last.expr)):
        return False
    return all(
        e.mode == "proven"
        and (e.index == (axis,) if e.buffer is chain.buffer else _is_first(e, single))
        for e in loads
    )


def _is_long(s: Compute) -> bool:
    return any(a.extent != 1 for a in s.axes)


def _is_first(e: Load, single: set[Buffer]) -> bool:
    return e.buffer in single and all(affine(i) == 0 for i in e.index)


def _is_row(last: Store, steps: Sequence[Stmt]) -> bool:
    """Whether the steps read of what the last one writes their own row alone."""
    root, row = last.buffer.root, last.index[:-1]
    return last.buffer.base is None and all(
        e.buffer is root and e.index[:-1] == row
        for s in statements(tuple(steps))
        for e in walk(*expressions(s))
        if isinstance(e, Load) and e.buffer.root is root
    )


def _sum_of(chain: Compute, after: Sequence[Stmt]) -> Fold | None:
    """The sum of all that the chain gives, in its order."""
    for s in after:
        for e in walk(*expressions(s)):
            if isinstance(e, Fold) and e.kind == "sum" and e.when is None and len(e.axes) == 1:
                (term,) = e.terms
                whole = e.axes[0].extent == chain.axes[0].extent and e.dtype is t.float32
                if whole and isinstance(term, Load) and term.buffer is chain.buffer:
                    return e if term.index == e.axes and term.mode == "proven" else None
    return None


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """The printed last step. was: the name of where its row begins, or -1."""

    late: Late
    names: Writer
    was: str

    def start(self) -> list[str]:
        return [f"int64_t {self.was} = -1;"]

    def row(self) -> list[str]:
        """Keeps where the row begins that waits from now on."""
        lines, index = evaluate(self.names, list(self.late.last.index[:-1]))
        place = self.names.offset(self.late.last.buffer, [*map(bare, index), "0"])
        return [*lines, f"{self.was} = {place};"]

    def elements(self, first: str, count: str, end: str) -> list[str]:
        """The row that waits: `count` elements from `first` on, or up to `end`."""
        last, names, axis = self.late.last, self.names, self.late.axis
        i = names.given[axis] = names.fresh("i")
        target = f"{names.pointers[last.buffer.root]}[{self.was} + {i}]"
        if count and has_calls(last.expr, axis):
            return [f"if ({self.was} >= 0) {{", *self._strips(target, first), "}"]
        lines, (value,) = evaluate(names, [last.expr])
        value = bare(stored(names, value, last.expr, last.buffer))
        if count:
            lane = names.fresh("l")
            head = f"sx_rolled() for (int64_t {lane} = 0; {lane} < {count}; {lane}++) {{"
            lines = [head, f"const int64_t {i} = {first} + {lane};", *lines]
        else:
            lines = [f"for (int64_t {i} = {first}; {i} < {end}; {i}++) {{", *lines]
        return [f"if ({self.was} >= 0) {{", *lines, f"{target} = {value};", "}", "}"]

    def _strips(self, target: str, first: str) -> list[str]:
        """As many elements as the chain has in a strip, sixteen at a time."""
        late, names, lines = self.late, self.names, list[str]()
        given, lane = dict(names.given), names.fresh("l")
        strip = Strip(late.axis, late.last.buffer, late.last.expr, target, True)
        for at in range(0, late.width, LANES):
            here = f"const int64_t {given[late.axis]} = {first} + {at} + {lane};"
            lines += ["{", *print_strip(strip, names, lane, here, str(LANES)), "}"]
            names.given = dict(given)
        return lines


def first_steps(
    late: Late, axis: Axis, names: Writer, steps: Callable[[], list[str]]
) -> tuple[str, list[str]]:
    """The head of a loop over rows that begins one before the first, and the steps for the row
    after each; what the chain reads of them is kept."""
    begin, end = names.span(axis)
    row, following = names.given[axis], names.fresh("i")
    kept, lines = dict[Expr, str](), list[str]()
    for e in late.ahead:
        kept[e], value = names.fresh("m"), names.element(e.buffer, ["0"] * len(e.index))
        lines.append(f"const {c_type(e.dtype)} {kept[e]} = {row} < {begin} ? 0 : {value};")
    names.given[axis] = following
    lines += [
        f"if ({row} + 1 < {end}) {{",
        f"const int64_t {following} = {row} + 1;",
        *steps(),
        "}",
        f"if ({row} < {begin}) continue;",
    ]
    names.given.update({axis: row, **kept})
    return f"for (int64_t {row} = {begin} - 1; {row} < {end}; {row}++) {{", lines


def print_chain(w: Waiting) -> list[str]:
    """The chain in strips: beside each the same strip of the row that waits, and its part of the
    sum, which has a text then."""
    late, names = w.late, w.names
    element = names.element(late.chain.buffer, ["@"])
    n = names.size(late.chain.axes[0].extent)
    parts = names.fresh("p")

    def sums(base: str, width: int) -> list[str]:
        lane = names.fresh("l")
        head = f"sx_rolled() for (int64_t {lane} = 0; {lane} < {LANES}; {lane}++)"
        places = (f"{base} + {o}" if o else base for o in range(0, width, LANES))
        terms = (element.replace("@", f"{place} + {lane}") for place in places)
        return [f"{head} {parts}[{lane}] += {term};" for term in terms]

    def rest(strip: str) -> list[str]:
        base, i = names.fresh("b"), names.fresh("i")
        whole = f"for (; {base} + {LANES} <= {n}; {base} += {LANES}) {{"
        one = element.replace("@", i)
        last = f"for (int64_t {i} = {base}; {i} < {n}; {i}++) {parts}[{i} - {base}] += {one};"
        return [f"int64_t {base} = sx_hidden({strip});", whole, *sums(base, LANES), "}", last]

    has_sum = late.fold is not None
    beside = Beside(
        lambda strip: w.elements(strip, str(late.width), n),
        lambda strip: sums(strip, late.width) if has_sum else [],
        lambda strip: w.elements(strip, "", n),
        lambda strip: rest(strip) if has_sum else [],
    )
    first = [f"float {parts}[{LANES}] = {{0}};"] if has_sum else []
    lines = [*first, *print_abreast(late.chain, late.width, names, beside)]
    if late.fold is not None:
        names.given[late.fold] = f"sx_sum16_f32({parts})"
    return lines
