"""Sorting in the kernel IR, and the total order of elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sardonyx import types as t
from sardonyx.dims import Dim, floordiv
from sardonyx.kernel.build import Builder, Tensor
from sardonyx.kernel.expr import Expr, Operand, alu, lift, where
from sardonyx.ops.common import minimum

PASSES = 48  # of a merge sort; no tensor has more than 2**48 elements
At = Callable[[Expr], Expr]
Heap = tuple[Tensor, ...]  # the parts of its elements, each [n]: what they are compared by
Element = tuple[Expr, ...]
After = Callable[[Element, Element], Expr]


def less(x: Expr, y: Expr) -> Expr:
    """x < y, where a NaN is larger than any number."""
    if not x.dtype.is_float:
        return x < y
    return ~(y <= x) & ~alu("isnan", x)


def differs(x: Expr, y: Expr) -> Expr:
    """x != y, where all NaN are equal."""
    if not x.dtype.is_float:
        return x.ne(y)
    return x.ne(y) & ~(alu("isnan", x) & alu("isnan", y))


def stable_order(
    k: Builder,
    n: Dim,
    before: Callable[[Expr, Expr], Expr],
) -> At:
    """The indices below n in the order of before(i, j), equal ones as they stand: a merge sort.

    The result gives the index at a position; it holds for statements that follow, here.
    """
    end = lift(n)
    order = k.compute((2, n), lambda _, i: i, t.int64)  # two sides, merged to and fro
    side, width = k.local(lift(0)), k.local(lift(1))
    with (
        k.loop((n - 1).bit_length() if isinstance(n, int) and n else PASSES),
        k.when(width < end),
    ):
        a, a_end, b, b_end = (k.local(lift(0)) for _ in range(4))
        with k.loop(n) as position, k.when(position < end):
            with k.when((position % (width * 2)).eq(0)):
                k.set(a, position)
                k.set(a_end, minimum(position + width, end))
                k.set(b, a_end)
                k.set(b_end, minimum(position + width * 2, end))
            left, right = order.guard((side, a)), order.guard((side, b))
            second = k.local(where(a < a_end, (b < b_end) & before(right, left), True))
            k.store(order, (1 - side, position), where(second, right, left))
            k.set(a, where(second, a, a + 1))
            k.set(b, where(second, b + 1, b))
        k.set(side, 1 - side)
        k.set(width, width * 2)
    return lambda position: order.guard((side, position))


def ordering(largest: bool) -> After:
    """Whether one element (index, value) of a heap comes after the other: it is smaller (or larger,
    where not the largest is first), or equal and of the higher index."""

    def after(one: Element, other: Element) -> Expr:
        (i, x), (j, y) = one, other
        low, high = (x, y) if largest else (y, x)
        return less(low, high) | (~less(high, low) & (i > j))

    return after


def sift(k: Builder, heap: Heap, root: Expr, end: Expr, after: After) -> None:
    """The element at the root moves down, below each that is after it, among the first `end`."""
    (count,) = heap[0].shape
    element, hole = element_at(k, heap, root), k.local(root)
    moving = k.local(hole * 2 + 1 < end)
    with k.loop(count.bit_length() if isinstance(count, int) else PASSES), k.when(moving):
        left = k.local(hole * 2 + 1)
        right = minimum(left + 1, end - 1)
        second = after(element_at(k, heap, right), element_at(k, heap, left))
        below = k.local(where(second, right, left))
        child = element_at(k, heap, below)
        k.set(moving, after(child, element))
        with k.when(moving):
            put(k, heap, hole, child)
            k.set(hole, below)
            k.set(moving, hole * 2 + 1 < end)
    put(k, heap, hole, element)


def heapify(k: Builder, heap: Heap, end: Expr, after: After) -> None:
    """The first `end` elements become a heap: none is after that at half its place."""
    (count,) = heap[0].shape
    parents = k.local(end // 2)
    with k.loop(floordiv(count, 2)) as back, k.when(back < parents):
        sift(k, heap, parents - 1 - back, end, after)


def put(k: Builder, heap: Heap, at: Expr, element: Sequence[Operand]) -> None:
    """The element stands at that place of the heap."""
    for part, value in zip(heap, element, strict=True):
        k.store(part, (at,), value)


def element_at(k: Builder, heap: Heap, at: Expr) -> Element:
    return tuple(k.local(part.guard((at,))) for part in heap)
