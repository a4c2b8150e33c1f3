"""Trees of ai.onnx.ml as tables that a kernel walks.

    child[s] + (the test of row s holds): the row that a step leads to

Every node mode becomes one of two tests, x <= threshold and x == threshold, and a NaN goes to the
true side where the node's flag says so: `x > t` is `x <= t` with the sides exchanged, `x < t` is
`x <= the number before t`, membership in a set is a search for x in a small tree of its own. The
two sides of a node are neighbouring rows, the false one first, so that what a test gives is added
to an address that does not wait for it; a node that several others lead to has a row for each. The
test of a leaf never holds, and its child is itself, so that a walk may go on past its end. A
tree's rows are in the order of a walk that goes to the true side first.
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
    """(rows,) each: feature, child; threshold, its rank; leaf, which leaf the row is, of all
    trees together (0 where it is none); tests, uint8, EQ for x == threshold, and MISSING where a
    NaN goes to the true side, None where all are 0.
    roots: (trees,). depth: of the longest walk. leaves: for each tree the payouts of its leaves.
    features: the least number of them."""

    feature: Array
    threshold: Array
    child: Array
    leaf: Array
    tests: Array | None
    roots: Array
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
    rows: list[Node] = []
    child: list[int] = []
    leaf: list[int] = []
    starts: list[int] = []
    payouts: list[tuple[Payout, ...]] = []
    depth = count = 0
    for root in roots:
        order, tree_depth = _ordered(nodes, root)
        sides: dict[int, int] = {}
        leaves = {n: count + i for i, n in enumerate(n for n in order if nodes[n].kind == LEAF)}
        tree = [root]
        for n in order:
            if n not in leaves:
                sides[n] = len(rows) + len(tree)
                tree += (nodes[n].no, nodes[n].yes)
        starts.append(len(rows))
        child += [sides.get(n, len(rows) + i) for i, n in enumerate(tree)]
        leaf += [leaves.get(n, 0) for n in tree]
        rows += [nodes[n] for n in tree]
        payouts.append(tuple(nodes[n].pays for n in leaves))
        count += len(leaves)
        depth = max(depth, tree_depth)
        if len(rows) > limit:
            raise LimitExceeded(f"the trees share nodes and have more than {limit} together")
    inner = np.array([n.kind != LEAF for n in rows])
    tests = np.array([EQ * (n.kind == EQ) + MISSING * n.missing for n in rows], np.uint8) * inner
    rank = ranks(np.array([n.threshold for n in rows], dtype.numpy))
    return Forest(
        feature=np.array([n.feature for n in rows], np.int64) * inner,
        threshold=rank * inner,
        child=np.array(child, np.int64),
        leaf=np.array(leaf, np.int64),
        tests=tests if tests.any() else None,
        roots=np.array(starts, np.int32),
        depth=depth,
        leaves=tuple(payouts),
        features=max((n.feature for n in rows if n.kind != LEAF), default=-1) + 1,
    )


def _ordered(nodes: Sequence[Node], root: int) -> tuple[list[int], int]:
    """The nodes of one tree, true sides first; the length of the longest walk."""
    need(0 <= root < len(nodes), f"the root {root} is not one of {len(nodes)} nodes")
    order: list[int] = []
    height: dict[int, int] = {}
    seen: set[int] = set()
    stack = [(root, False)]
    while stack:
        n, done = stack.pop()
        node = nodes[n]
        if done:
            height[n] = 1 + max(height[node.yes], height[node.no])
            continue
        if n in seen:
            if n not in height:
                raise InvalidModel(f"the tree of node {root} has a cycle through node {n}")
            continue
        seen.add(n)
        order.append(n)
        if node.kind == LEAF:
            height[n] = 0
            continue
        for side in (node.yes, node.no):
            if not 0 <= side < len(nodes):
                raise InvalidModel(f"node {n} leads to {side}, which is not there")
            if side in seen and side not in height:
                raise InvalidModel(f"the tree of node {root} has a cycle through node {side}")
        stack += [(n, True), (node.no, False), (node.yes, False)]
    return order, height[root]


def ranks(x: Array) -> Array:
    """Unsigned integers in the order of floats, one for both zeros; NaN, to which nothing is equal
    or less, is 0, below them all. Integers, since what a walk waits for is most of all its
    comparison."""
    word = np.iinfo(f"int{8 * x.itemsize}")
    bits = (x + x.dtype.type(0)).view(word.dtype)
    rank = np.where(np.isnan(x), 0, np.where(bits < 0, ~bits, bits ^ word.min))
    return rank.view(f"uint{word.bits}")


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
