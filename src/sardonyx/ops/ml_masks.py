"""Small trees without walks: all tests of a tree, for many rows at a time.

A tree's leaves are bits of one word or two, in the order of a walk that goes to the true side
first. A test that does not hold takes away the leaves of its true side; of those that all tests
leave, the first is where the walk would end: on the way to it each test that holds has only leaves
behind it on its other side, and each that does not has taken away those before it. Nothing is
looked up that depends on the row but the leaf itself, so the rows of a tree are the lanes of a
vector.

QuickScorer: Lucchese, Nardini, Orlando, Perego, Tonellotto, Venturini, SIGIR 2015.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sardonyx.ops.ml_forest import Forest
from sardonyx.types import Array

BITS = 32  # leaves of a word
WORDS = 2  # the most of them a tree has: with more, walks are as quick
ROWS = 16  # taken at a time; fewer are walks
FOLD = 0x077CB531  # times a power of two has in its first five bits another number for each
Tests = list[tuple[int, int]]  # rows of the forest, each with the bits of its true side


@dataclass(frozen=True, slots=True, eq=False)
class Masks:
    """row, mask: (trees, words, tests), rows of the forest, and the leaves that stay where the test
    does not hold; a word with fewer tests has the tree's root again, which takes nothing. leaf:
    (trees, words, BITS), which leaf has the bit b of a word, at FOLD * 2**b >> 27."""

    row: Array
    mask: Array
    leaf: Array


def masks(forest: Forest) -> Masks | None:
    """The masks of a forest of small trees, none of whose nodes is led to twice."""
    trees: list[tuple[Tests, list[int]]] = []
    for root in forest.roots.tolist():
        tree = _of_tree(forest, root)
        if tree is None:
            return None
        trees.append(tree)
    words = 1 + max((len(leaves) - 1 for _, leaves in trees), default=0) // BITS
    parts = [[_in_word(tests, w) for w in range(words)] for tests, _ in trees]
    most = max((len(part) for tree in parts for part in tree), default=0) or 1
    row = np.zeros((len(trees), words, most), np.int64) + forest.roots[:, None, None]
    mask = np.full(row.shape, 2**BITS - 1, np.uint32)
    leaf = np.zeros((len(trees), words, BITS), np.int64)
    for t, (_, leaves) in enumerate(trees):
        for w, part in enumerate(parts[t]):
            for j, (at, taken) in enumerate(part):
                row[t, w, j], mask[t, w, j] = at, 2**BITS - 1 - taken
        for b, place in enumerate(leaves):
            leaf[t, b // BITS, (FOLD << b % BITS) % 2**BITS >> 27] = place
    return Masks(row, mask, leaf)


def _in_word(tests: Tests, word: int) -> Tests:
    """The tests that take leaves of a word, with these."""
    cut = [(row, (taken >> word * BITS) % 2**BITS) for row, taken in tests]
    return [(row, taken) for row, taken in cut if taken]


def _of_tree(forest: Forest, root: int) -> tuple[Tests, list[int]] | None:
    """The tests of a tree and its leaves in their order, None where it has too many."""
    tests: Tests = []
    leaves: list[int] = []
    seen: set[int] = set()
    todo = [(root, -1)]  # a row, or a test at the end of its true side, which began at a leaf
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
        if len(leaves) > BITS * WORDS:
            return None
    return tests, leaves
