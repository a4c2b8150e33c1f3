"""Small trees without walks: all tests of a tree, for many rows at a time.

A tree's leaves are bits, in the order of a walk that goes to the true side first. A test that does
not hold takes away the leaves of its true side; of those that all tests leave, the first is where
the walk would end: on the way to it each test that holds has only leaves behind it on its other
side, and each that does not has taken away those before it. Nothing is looked up that depends on
the row but the leaf itself, so the rows of a tree are the lanes of a vector.

QuickScorer: Lucchese, Nardini, Orlando, Perego, Tonellotto, Venturini, SIGIR 2015.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sardonyx.ops.ml_forest import Forest
from sardonyx.types import Array

BITS = 32  # the most leaves of a tree
ROWS = 16  # taken at a time; fewer are walks
FOLD = 0x077CB531  # times a power of two has in its first five bits another number for each


@dataclass(frozen=True, slots=True, eq=False)
class Masks:
    """row, mask: (trees, tests), rows of the forest, and the leaves that stay where the test does
    not hold; a tree with fewer tests has its root again, which takes nothing. leaf: (trees, BITS),
    which leaf has the bit b, at FOLD * 2**b >> 27."""

    row: Array
    mask: Array
    leaf: Array


def masks(forest: Forest) -> Masks | None:
    """The masks of a forest of small trees, none of whose nodes is led to twice."""
    trees = []
    for root in forest.roots.tolist():
        tree = _of_tree(forest, root)
        if tree is None:
            return None
        trees.append(tree)
    most = max((len(tests) for tests, _ in trees), default=0) or 1
    row = np.repeat(forest.roots.astype(np.int64)[:, None], most, axis=1)
    mask = np.full((len(trees), most), 2**BITS - 1, np.uint32)
    leaf = np.zeros((len(trees), BITS), np.int64)
    for t, (tests, leaves) in enumerate(trees):
        for j, (at, taken) in enumerate(tests):
            row[t, j], mask[t, j] = at, 2**BITS - 1 - taken
        for b, place in enumerate(leaves):
            leaf[t, (FOLD << b) % 2**BITS >> 27] = place
    return Masks(row, mask, leaf)


def _of_tree(forest: Forest, root: int) -> tuple[list[tuple[int, int]], list[int]] | None:
    """The tests of a tree, each with the bits of its true side, and the leaves in their order."""
    tests: list[tuple[int, int]] = []
    leaves: list[int] = []
    seen: set[int] = set()
    todo = [(root, -1)]  # a row, or a test (at most 0) at the end of its true side
    while todo:
        row, first = todo.pop()
        if first >= 0:
            tests.append((row, (1 << len(leaves)) - (1 << first)))
            continue
        child = int(forest.child[row])
        if child == row:
            leaves.append(int(forest.leaf[row]))
        elif child in seen:
            return None
        else:
            seen.add(child)
            todo += [(child, -1), (row, len(leaves)), (child + 1, -1)]
        if len(leaves) > BITS:
            return None
    return tests, leaves
