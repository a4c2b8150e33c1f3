"""What of a kernel can be shared out among threads: the points of its outermost loops.

    Compute(y, (a, b, c), e)      any of its points: each element is written once
    For(a, body)                  where each turn writes elements of its own, and reads no others,
                                  which is seen or said (`apart`)

Shared are the points of the first axis, or of as many of the first ones as give enough. Nothing is
shared out within a fold, where a run-time error may end the run (which of two is the first must be
sure), or where neighbours share a byte. What each turn of a For writes anew is private: every
thread has its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from sardonyx.dims import Dim, at_least, atom, extreme, floordiv, product
from sardonyx.kernel.affine import affine, bounds, coefficient
from sardonyx.kernel.c99.place import checked
from sardonyx.kernel.c99.work import UNIT, point, work
from sardonyx.kernel.expr import Axis, Buffer, Expr, Fold, Iterate, Load, Local
from sardonyx.kernel.ir import (
    Compute,
    For,
    If,
    Kernel,
    Set,
    Stmt,
    Store,
    expressions,
    lasting,
    statements,
)
from sardonyx.kernel.ranges import inside
from sardonyx.kernel.walk import free_axes, walk

ENOUGH = 64  # points; with so many there is no need for another axis
LINE = 64  # neighbours along the last axis that stay together, so that threads share no line


@dataclass(frozen=True, slots=True, eq=False)
class Share:
    """How a statement is shared out. axes: whose points, the outermost first. each: the work of a
    point. multiple: ranges begin at multiples of it. private: what each thread has for itself."""

    axes: tuple[Axis, ...]
    each: Dim
    multiple: int = 1
    private: tuple[Buffer, ...] = ()

    @property
    def count(self) -> Dim:
        """How many points there are."""
        return product(tuple(a.extent for a in self.axes))


def share_of(
    s: Compute, order: Sequence[Axis], whole: Axis | None = None, multiple: int = LINE
) -> Share | None:
    """How the points of s are shared out, its loops being in this order; None where that does not
    pay or cannot be. whole: the axis that is shared out by itself or not at all, so many points
    together (None: the last axis)."""
    if not order or _may_trap((s,)) or s.buffer.dtype.is_packed:
        return None
    whole = whole or s.axes[-1]
    free = free_axes(s.expr)
    needed = [
        free[id(e)] & frozenset(s.axes) for e in walk(s.expr) if isinstance(e, Fold | Iterate)
    ]
    place = {a: i for i, a in enumerate(order)}
    innermost = [max((place.get(a, len(order)) for a in axes), default=-1) for axes in needed]
    best: Share | None = None
    for axes in _prefixes(order):
        last = axes[-1] is whole
        if (last and len(axes) > 1) or min(innermost, default=len(order)) < place[axes[-1]]:
            break
        rest = tuple(a.extent for a in s.axes if a not in axes)
        best = Share(axes, product(rest) * point(s), multiple if last else 1)
        if _is_enough(axes):
            break
    return None if best is None or not _pays(best) else best


def can_share(s: Compute, whole: Dim) -> bool:
    """Whether s is shared out in a form of its own; whole: its work."""
    few = isinstance(whole, int) and whole < 2 * UNIT
    return not few and not _may_trap((s,)) and not s.buffer.dtype.is_packed


def share_of_pairs(s: Compute) -> Share | None:
    """How the points of the last two axes of s, which are walked as one, are shared out."""
    if any(a.extent != 1 for a in s.axes[:-2]) or s.buffer.dtype.is_packed:
        return None
    share = Share(s.axes[-2:], point(s), LINE)
    return share if _pays(share) else None


def share_of_loop(s: For, kernel: Kernel) -> Share | None:
    """How the turns of s are shared out; None where that does not pay or cannot be."""
    chain, body = [s.axis], s.body
    while len(body) == 1 and isinstance(body[0], For):
        chain.append(body[0].axis)
        body = body[0].body
    if not is_sure(s, kernel):
        return None
    turn, best = work(For(Axis("once", 1), body)), None
    run = not any(isinstance(x, For | Compute) for x in statements(body))  # over neighbours
    for axes in _prefixes(chain):
        private = _private(axes, s, kernel)
        if private is None or (run and len(axes) > 1 and axes[-1] is chain[-1]):
            break
        rest = tuple(a.extent for a in chain if a not in axes)
        best = Share(axes, product(rest) * turn, 1, private)
        if _is_enough(axes):
            break
    return None if best is None or not _pays(best) else best


def is_sure(s: For, kernel: Kernel) -> bool:
    """Whether no run-time error may end s, and its local variables are its own."""
    return not _may_trap((s,)) and _is_local((s,), kernel)


def private(kernel: Kernel) -> Iterator[tuple[Buffer, ...]]:
    """What each thread needs for itself, for every loop of the kernel that is shared out: the
    outermost of those that can be."""
    waiting = list[Stmt](kernel.body)
    while waiting:
        match waiting.pop():
            case If(_, then, otherwise):
                waiting += (*then, *otherwise)
            case For() as s if lasting(s) is None:
                share = share_of_loop(s, kernel)
                if share is None:
                    waiting += s.body
                elif share.private:
                    yield share.private


def worker_bytes(kernel: Kernel) -> Dim:
    """The bytes that each thread but the first needs for itself."""
    most: Dim = 0
    for buffers in private(kernel):
        whole: Dim = 0
        for b in buffers:
            whole = whole + floordiv(product(b.shape) * b.dtype.size + 63, 64) * 64
        most = extreme("max", most, whole)
    return most


def _prefixes(order: Sequence[Axis]) -> Iterator[tuple[Axis, ...]]:
    """The first axes, more and more of them; those of extent 1 stand apart."""
    long = [a for a in order if a.extent != 1]
    for n in range(1, len(long) + 1):
        yield tuple(long[:n])


def _is_enough(axes: Sequence[Axis]) -> bool:
    """Whether there are points enough; a symbolic dim may be 1."""
    return prod(a.extent for a in axes if isinstance(a.extent, int)) >= ENOUGH


def _pays(share: Share) -> bool:
    """Whether it is not known that there is too little to do, or nothing to share out."""
    whole = share.count * share.each
    few = isinstance(whole, int) and whole < 2 * UNIT
    count = share.count
    one = isinstance(count, int) and count <= share.multiple
    return not few and not one


def _may_trap(body: tuple[Stmt, ...]) -> bool:
    for s in statements(body):
        match s:
            case Store(b, index, proven=False) if not all(map(inside, index, b.shape)):
                return True
        loads = (e for e in walk(*expressions(s)) if isinstance(e, Load))
        if any(e.mode == "trap" and any(checked(e)) for e in loads):
            return True
    return False


def _is_local(body: tuple[Stmt, ...], kernel: Kernel) -> bool:
    """Whether the local variables that the body sets are set nowhere else."""
    inner = {s.local for s in statements(body) if isinstance(s, Set)}
    own = set(statements(body))
    return not any(
        isinstance(s, Set) and s.local in inner for s in statements(kernel.body) if s not in own
    )


def locals_set(s: Stmt) -> frozenset[Local]:
    """The local variables that s sets."""
    return frozenset(x.local for x in statements((s,)) if isinstance(x, Set))


def _private(axes: Sequence[Axis], s: For, kernel: Kernel) -> tuple[Buffer, ...] | None:
    """The buffers that each thread needs for itself; None where turns depend on one another."""
    inner = list(statements((s,)))
    if s.apart:
        return _own(axes, inner, kernel) if axes == (s.axis,) else None
    written = {x.buffer.root for x in inner if isinstance(x, Compute)}
    if any(b.dtype.is_packed for b in written) or not _is_alone(written, inner, kernel):
        return None
    stores = [x for x in inner if isinstance(x, Store)]
    for root in {x.buffer.root for x in stores} - written:
        if root.dtype.is_packed or not _is_apart(root, axes, inner):
            return None
    return _ordered(written, kernel)


def _own(axes: Sequence[Axis], inner: Sequence[Stmt], kernel: Kernel) -> tuple[Buffer, ...] | None:
    """The temporaries that only a loop over the axes uses; None where one that it writes is of
    use outside of it, and turns do not write parts of their own."""
    written = {x.buffer.root for x in inner if isinstance(x, Compute | Store)}
    found = written & set(kernel.temporaries)
    own = {b for b in found if _is_alone({b}, inner, kernel)}
    packed = any(b.dtype.is_packed for b in written)
    if packed or not all(_is_apart(b, axes, inner) for b in found - own):
        return None
    return _ordered(own, kernel)


def _ordered(buffers: set[Buffer], kernel: Kernel) -> tuple[Buffer, ...]:
    return tuple(b for b in kernel.temporaries if b in buffers)


def _is_alone(written: set[Buffer], inner: Sequence[Stmt], kernel: Kernel) -> bool:
    """Whether what is written by Computes is of no use outside of the loop."""
    if not written <= set(kernel.temporaries):
        return False
    outer = (x for x in statements(kernel.body) if x not in inner)
    loads = (e for x in outer for e in walk(*expressions(x)) if isinstance(e, Load))
    return not any(e.buffer.root in written for e in loads)


def _is_apart(root: Buffer, axes: Sequence[Axis], inner: Sequence[Stmt]) -> bool:
    """Whether all that touches a buffer does so at the indices `axes`, in the same dimensions."""
    touched = [(x.buffer, x.index) for x in inner if isinstance(x, Store)]
    for x in inner:
        touched += [(e.buffer, e.index) for e in walk(*expressions(x)) if isinstance(e, Load)]
    used = [(b, index) for b, index in touched if b.root is root]
    places = {tuple(_at(a, index) for a in axes) for _, index in used}
    shapes = {b.shape for b, _ in used}
    return len(places) == len(shapes) == 1 and None not in next(iter(places))


def _at(axis: Axis, index: Sequence[Expr]) -> tuple[int, Dim] | None:
    """In which dimension the index steps over a range of its own for each point of the axis, and
    how long the range is; None: in none."""
    steps = ((i, _step(axis, e)) for i, e in enumerate(index))
    return next(((i, n) for i, n in steps if n is not None), None)


def _step(axis: Axis, index: Expr) -> Dim | None:
    """n where the index is axis * n + rest, 0 <= rest < n."""
    form = affine(index)
    step = None if form is None else coefficient(form, axis)
    if form is None or step is None or not at_least(step, 1):
        return None
    low, high = bounds(form - step * atom(axis))
    if low is None or high is None:
        return None
    return step if at_least(low, 0) and at_least(step - 1 - high, 0) else None
