"""Trees of ai.onnx.ml as tables that a kernel walks.

    nodes[s] = ((feature, rank of the threshold), (next if false, next if true))

Every node mode becomes one of two tests, x <= threshold and x == threshold, and a NaN goes to the
true side where the node's flag says so: `x > t` is `x <= t` with the sides exchanged, `x < t` is
`x <= the number before t`, membership in a set is a search for x in a small tree of its own. A
leaf leads to itself, so that a walk may go on past its end; in place of a threshold it has what
the forest pays out there. Inner nodes come first, a tree's nodes in the order of a walk that goes
to the true side first; so half of the steps go to the neighbouring row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from sardonyx.errors import InvalidModel, LimitExceeded
from sardonyx.ops.ml_common import need
from sardonyx.types import Array, DType

LEQ, EQ, LEAF = 0, 1, 2
MISSING = 2  # added to a test where a NaN goes to the true side
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
SHARED = 1 << 18  # rows that nodes which several trees share may add
Payout = list[tuple[int, float]]  # (target, weight) in the order of the model


@dataclass(slots=True)
class Node:
    """One test, or a leaf (kind LEAF). yes, no: places in the list of nodes."""

    kind: int
    feature: int = 0
    threshold: float = 0.0
    missing: bool = False
    yes: int = 0
    no: int = 0
    pays: Payout = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """nodes: (rows, 2, 2), integers as wide as the thresholds, whose ranks they hold. tests:
    (rows,) uint8, EQ for x == threshold, and MISSING where a NaN goes to the true side; None where
    all are 0.
    roots: (trees,). Rows from `inner` on are leaves. depth: of the longest walk. leaves: for each
    tree the payouts of its leaves, in the order of their rows. features: the least number."""

    nodes: Array
    tests: Array | None
    roots: Array
    inner: int
    depth: int
    leaves: tuple[tuple[Payout, ...], ...]
    features: int


def branch(
    mode: str, feature: int, at: float, missing: bool, yes: int, no: int, dtype: DType
) -> Node:
    """The node of an ordering or equality mode."""
    test = mode.removeprefix("BRANCH_")
    if np.isnan(at):  # nothing compares: NEQ holds always, the others never (but for missing)
        return Node(EQ, feature, at, missing, yes, yes if test == "NEQ" else no)
    if test in ("EQ", "NEQ"):
        kind, value = EQ, at
    else:
        kind = LEQ
        value = at if test in ("LEQ", "GT") else _before(at, dtype)
    if test in ("GT", "GTE"):  # the sides exchanged: a NaN still goes to the model's false side
        return Node(kind, feature, value, not missing, no, yes)
    if test == "NEQ":  # a NaN is not equal: to the model's true side
        return Node(kind, feature, value, False, no, yes)
    return Node(kind, feature, value, missing, yes, no)


def _before(x: float, dtype: DType) -> float:
    """The greatest number less than x; NaN, which nothing is equal to or less, below -inf."""
    if x == -np.inf:
        return float("nan")
    return float(np.nextafter(dtype.numpy.type(x), dtype.numpy.type(-np.inf)))


def member(
    nodes: list[Node],
    at: int,
    members: Sequence[float],
    feature: int,
    missing: bool,
    yes: int,
    no: int,
) -> None:
    """Puts at nodes[at] a search for x among the members, new nodes at the end."""
    values = np.unique(np.asarray(members, np.float64))
    todo = [(at, 0, len(values))]
    while todo:
        place, low, high = todo.pop()
        if high - low <= 1:
            threshold = float(values[low]) if high > low else float("nan")
            nodes[place] = Node(EQ, feature, threshold, missing, yes, no)
            continue
        middle = (low + high) // 2
        below, above = len(nodes), len(nodes) + 1
        nodes += [Node(LEAF), Node(LEAF)]
        nodes[place] = Node(LEQ, feature, float(values[middle - 1]), missing, below, above)
        todo += [(below, low, middle), (above, middle, high)]


def plant(nodes: Sequence[Node], roots: Sequence[int], dtype: DType) -> Forest:
    """The forest of the trees at `roots`, in their order. InvalidModel where a tree has a cycle."""
    limit = 4 * len(nodes) + SHARED
    inner: list[Node] = []
    leaves: list[Node] = []
    links: list[tuple[int, int]] = []  # of inner rows: >= 0 an inner row, < 0 the leaf row ~n
    starts: list[int] = []
    payouts: list[tuple[Payout, ...]] = []
    depth = 0
    for root in roots:
        first, firsts = len(leaves), len(inner)
        order, row, tree_depth = _ordered(nodes, root)
        for n in order:
            if nodes[n].kind == LEAF:
                row[n] = ~len(leaves)
                leaves.append(nodes[n])
            else:
                row[n] = len(inner)
                inner.append(nodes[n])
        links += [(row[n.no], row[n.yes]) for n in inner[firsts:]]
        starts.append(row[root])
        payouts.append(tuple(n.pays for n in leaves[first:]))
        depth = max(depth, tree_depth)
        if len(inner) + len(leaves) > limit:
            raise LimitExceeded(f"the trees share nodes and have more than {limit} together")
    return _tabled(inner, len(leaves), links, starts, tuple(payouts), depth, dtype)


def _ordered(nodes: Sequence[Node], root: int) -> tuple[list[int], dict[int, int], int]:
    """The nodes of one tree, true sides first; an empty row for each; the length of the longest
    walk."""
    need(0 <= root < len(nodes), f"the root {root} is not one of {len(nodes)} nodes")
    order: list[int] = []
    height: dict[int, int] = {}
    row: dict[int, int] = {}
    stack = [(root, False)]
    while stack:
        n, done = stack.pop()
        node = nodes[n]
        if done:
            height[n] = 1 + max(height[node.yes], height[node.no])
            continue
        if n in row:
            if n not in height:
                raise InvalidModel(f"the tree of node {root} has a cycle through node {n}")
            continue
        row[n] = 0
        order.append(n)
        if node.kind == LEAF:
            height[n] = 0
            continue
        for side in (node.yes, node.no):
            if not 0 <= side < len(nodes):
                raise InvalidModel(f"node {n} leads to {side}, which is not there")
            if side in row and side not in height:
                raise InvalidModel(f"the tree of node {root} has a cycle through node {side}")
        stack += [(n, True), (node.no, False), (node.yes, False)]
    return order, row, height[root]


def _tabled(
    inner: Sequence[Node],
    leaves: int,
    links: Sequence[tuple[int, int]],
    starts: Sequence[int],
    payouts: tuple[tuple[Payout, ...], ...],
    depth: int,
    dtype: DType,
) -> Forest:
    count, rows = len(inner), len(inner) + leaves
    word = np.dtype(f"int{dtype.bits}")
    table = np.zeros((rows, 2, 2), word)
    table[:count, 0, 0] = [n.feature for n in inner]
    table[:count, 0, 1] = ranks(np.array([n.threshold for n in inner], dtype.numpy))
    to = np.array(links, word).reshape(-1, 2)
    table[:count, 1] = np.where(to < 0, count + ~to, to)
    table[count:, 1] = np.arange(count, rows, dtype=word)[:, None]
    tests = np.zeros(rows, np.uint8)
    tests[:count] = [EQ * (n.kind == EQ) + MISSING * n.missing for n in inner]
    begin = np.array(starts, np.int32)
    features = max((n.feature for n in inner), default=-1) + 1
    return Forest(
        table,
        tests if tests.any() else None,
        np.where(begin < 0, count + ~begin, begin).astype(np.int32),
        count,
        depth,
        payouts,
        features,
    )


def ranks(x: Array) -> Array:
    """Integers in the order of floats, one for both zeros; NaN, to which nothing is equal or less,
    below them all. Integers, since what a walk waits for is most of all its comparison."""
    word = np.iinfo(f"int{8 * x.itemsize}")
    bits = (x + x.dtype.type(0)).view(word.dtype)
    return np.where(np.isnan(x), word.min, np.where(bits < 0, bits ^ word.max, bits))


def sets(members: Array) -> Iterator[list[float]]:
    """The sets of membership values, which a NaN ends."""
    found: list[float] = []
    for value in members.astype(np.float64).tolist():
        if value != value:
            yield found
            found = []
        else:
            found.append(value)
    if found:
        yield found
