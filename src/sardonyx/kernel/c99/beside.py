"""Loops of a kernel that may run at the same time: both directions of a recurrent network.

    For(s, forward)        stores y[s, 0, ...]
    For(s, reverse)        stores y[steps - 1 - s, 1, ...]

Neither touches what the other writes, or never the same elements of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from sardonyx.dims import Dim, at_least
from sardonyx.kernel.affine import affine, remainder
from sardonyx.kernel.c99.share import is_sure, share_of_loop
from sardonyx.kernel.c99.work import UNIT, work
from sardonyx.kernel.expr import Buffer, Expr, Load
from sardonyx.kernel.ir import Compute, For, Kernel, Stmt, Store, expressions, statements
from sardonyx.kernel.walk import walk

Place = tuple[Buffer, Sequence[Expr] | None]  # what is touched, and where; None: anywhere


def beside(kernel: Kernel) -> Iterator[tuple[Stmt, ...]]:
    """The statements of the kernel in their order. Several stand together where they are loops that
    may run at the same time, each of which is worth a thread and cannot be shared out itself."""
    group: list[Stmt] = []
    for s in kernel.body:
        if group and not all(_may_join(x, s, kernel) for x in group):
            yield tuple(group)
            group = []
        group.append(s)
    if group:
        yield tuple(group)


def _may_join(a: Stmt, b: Stmt, kernel: Kernel) -> bool:
    """Whether both are loops that have a thread each, at the same time."""
    match a, b:
        case For(), For():
            return _is_whole(a, kernel) and _is_whole(b, kernel) and _apart(a, b)
    return False


def _is_whole(s: For, kernel: Kernel) -> bool:
    """Whether s is worth a thread, may have one of its own, and cannot be shared out."""
    whole = work(s)
    few = isinstance(whole, int) and whole < UNIT
    return not few and is_sure(s, kernel) and share_of_loop(s, kernel) is None


def _apart(a: Stmt, b: Stmt) -> bool:
    """Whether neither touches an element that the other writes."""
    pairs = [*product(_places(a), _places(b, True)), *product(_places(b), _places(a, True))]
    return all(x.root is not y.root or _differ(x, i, y, j) for (x, i), (y, j) in pairs)


def _places(s: Stmt, written: bool = False) -> Iterator[Place]:
    """What s touches, or writes."""
    for x in statements((s,)):
        match x:
            case Compute(b):
                yield b, None
            case Store(b, index):
                yield b, index
        if not written:
            for e in walk(*expressions(x)):
                if isinstance(e, Load):
                    yield e.buffer, e.index


def _differ(a: Buffer, i: Sequence[Expr] | None, b: Buffer, j: Sequence[Expr] | None) -> bool:
    """Whether the indices are never the same: in some dimension the rests of a division differ."""
    if i is None or j is None or a.shape != b.shape or a.start != b.start or a.dtype.is_packed:
        return False
    return any(
        x is not None and y is not None and any(_rests(x, y, n) for n in _steps(size, x, y))
        for x, y, size in zip(map(affine, i), map(affine, j), a.shape, strict=True)
    )


def _steps(size: Dim, *forms: Dim) -> Iterator[int]:
    """Divisors that may tell: the size of the dimension, and what axes are multiplied with."""
    factors = [abs(c) for x in forms if not isinstance(x, int) for _, c in x.terms]
    yield from {n for n in (size, *factors) if isinstance(n, int) and n > 1}


def _rests(x: Dim, y: Dim, n: int) -> bool:
    """Whether x % n and y % n are in ranges that do not meet."""
    a, b = remainder(x, n), remainder(y, n)
    if a is None or b is None:
        return False
    return at_least(b[0] - a[1], 1) or at_least(a[0] - b[1], 1)
