"""The two encodings of trees in attributes, checked: nodes that are listed with the ids of their
trees (TreeEnsembleRegressor, TreeEnsembleClassifier), nodes and leaves by index (TreeEnsemble).

A forest is kept for the next time that the same attributes are lowered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np

from sardonyx.ops.common import one_of
from sardonyx.ops.ml_common import need
from sardonyx.ops.ml_forest import LEAF, MODES, Forest, Node, branch, member, plant, sets
from sardonyx.types import Array, DType

Ints = Sequence[int] | None
MEMBER = len(MODES)  # the code of BRANCH_MEMBER in TreeEnsemble's nodes_modes
SPAN = 1 << 31  # ids are less than this


def listed(
    dtype: DType,
    nodes: Sequence[Ints],
    modes: Sequence[str] | None,
    values: Any,
    missing: Ints,
    votes: Sequence[Ints],
    weights: Any,
) -> Forest:
    """The trees of lists: nodes are (tree ids, node ids, features, true ids, false ids), votes
    (tree ids, node ids, targets). The first node of a tree is its root."""
    arrays = [_ints(a) for a in nodes]
    count = len(modes or ())
    need(count > 0, "there are no nodes")
    need(
        all(len(a) == count for a in (*arrays, values if values is not None else ())),
        "the lists nodes_* are not of one length",
    )
    flags = _flags(missing, count)
    cast = [_ints(a) for a in votes]
    paid = np.asarray([] if weights is None else weights, np.float64)
    need(len({len(paid), *map(len, cast)}) == 1, "the lists of weights are not of one length")
    thresholds = np.asarray(values, np.float64)

    def build() -> Forest:
        return _build_listed(dtype, arrays, list(modes or ()), thresholds, flags, cast, paid)

    words = "\0".join(modes or ()).encode()
    return _planted(_digest(dtype, build, *arrays, thresholds, flags, *cast, paid, words))


def _build_listed(
    dtype: DType,
    arrays: Sequence[Array],
    modes: Sequence[str],
    thresholds: Array,
    flags: Array,
    votes: Sequence[Array],
    paid: Array,
) -> Forest:
    trees, ids, features, yes, no = (a.tolist() for a in arrays)
    for mode in set(modes):
        one_of(mode, (*MODES, "LEAF"), "the node mode")
    place = {key: i for i, key in enumerate(zip(trees, ids, strict=True))}
    need(len(place) == len(modes), "a node id occurs twice in one tree")
    roots: dict[int, int] = {}
    nodes: list[Node] = []
    for i, (tree, mode, at, missing) in enumerate(
        zip(trees, modes, thresholds.tolist(), flags.tolist(), strict=True)
    ):
        roots.setdefault(tree, i)
        if mode == "LEAF":
            nodes.append(Node(LEAF))
            continue
        sides = place.get((tree, yes[i]), -1), place.get((tree, no[i]), -1)
        need(min(sides) >= 0, f"node {ids[i]} of tree {tree} leads to a node that is not there")
        need(0 <= features[i] < SPAN, f"node {ids[i]} of tree {tree} tests feature {features[i]}")
        nodes.append(branch(mode, features[i], at, bool(missing), *sides, dtype))
    for tree, node, target, weight in zip(*(v.tolist() for v in votes), paid.tolist(), strict=True):
        at = place.get((tree, node), -1)
        need(at >= 0, f"a weight is of node {node} of tree {tree}, which is not there")
        nodes[at].pays.append((target, weight))
    return plant(nodes, list(roots.values()), dtype)


def indexed(
    dtype: DType,
    nodes: Sequence[Sequence[int]],
    modes: Array,
    splits: Array,
    missing: Ints,
    members: Array | None,
    leaves: tuple[Sequence[int], Array],
    roots: Sequence[int],
) -> Forest:
    """The trees of indices: nodes are (features, true places, false places, whether the true side
    is a leaf, whether the false side is), leaves (targets, weights)."""
    arrays = [_ints(a) for a in nodes]
    count = modes.size
    need(count > 0, "there are no nodes")
    need(
        all(len(a) == count for a in (*arrays, splits.reshape(-1))),
        "the lists nodes_* are not of one length",
    )
    flags = _flags(missing, count)
    targets, weights = _ints(leaves[0]), np.asarray(leaves[1], np.float64).reshape(-1)
    need(len(targets) == len(weights), "leaf_targetids and leaf_weights are not of one length")
    known = np.zeros(0) if members is None else np.asarray(members, np.float64).reshape(-1)
    starts = _ints(roots)
    need(len(starts) > 0, "there are no trees")
    codes, at = modes.reshape(-1).astype(np.int64), np.asarray(splits, np.float64).reshape(-1)

    def build() -> Forest:
        return _build_indexed(dtype, arrays, codes, at, flags, known, (targets, weights), starts)

    return _planted(
        _digest(dtype, build, *arrays, codes, at, flags, known, targets, weights, starts)
    )


def _build_indexed(
    dtype: DType,
    arrays: Sequence[Array],
    codes: Array,
    splits: Array,
    flags: Array,
    members: Array,
    leaves: tuple[Array, Array],
    roots: Array,
) -> Forest:
    count, leaf_count = len(codes), len(leaves[0])
    features, yes, no, yes_leaf, no_leaf = (a.tolist() for a in arrays)
    nodes = [Node(LEAF)] * count
    nodes += [
        Node(LEAF, pays=[(c, w)])
        for c, w in zip(leaves[0].tolist(), leaves[1].tolist(), strict=True)
    ]
    groups = sets(members)
    for i, (code, split, missing) in enumerate(
        zip(codes.tolist(), splits.tolist(), flags.tolist(), strict=True)
    ):
        sides = []
        for to, leaf in ((yes[i], yes_leaf[i]), (no[i], no_leaf[i])):
            known = 0 <= to < (leaf_count if leaf else count)
            need(known, f"node {i} leads to {'leaf' if leaf else 'node'} {to}, which is not there")
            sides.append(to + count if leaf else to)
        need(0 <= features[i] < SPAN, f"node {i} tests feature {features[i]}")
        need(0 <= code <= MEMBER, f"node {i} has mode {code}, expected 0 to {MEMBER}")
        if code == MEMBER:
            found = next(groups, None)
            need(found is not None, "there are fewer sets of members than nodes that test one")
            member(nodes, i, found or (), features[i], bool(missing), sides[0], sides[1])
        else:
            nodes[i] = branch(
                MODES[code], features[i], split, bool(missing), sides[0], sides[1], dtype
            )
    need(all(0 <= r < count for r in roots.tolist()), "a root is not one of the nodes")
    return plant(nodes, roots.tolist(), dtype)


def _ints(values: Ints) -> Array:
    return np.asarray([] if values is None else values, np.int64).reshape(-1)


def _flags(missing: Ints, count: int) -> Array:
    """Whether a NaN goes to the true side of each node; an absent list says never."""
    flags = _ints(missing)
    need(
        len(flags) in (0, count),
        f"nodes_missing_value_tracks_true has {len(flags)} elements for {count} nodes",
    )
    return flags == 1 if len(flags) else np.zeros(count, np.bool_)


@dataclass(frozen=True, slots=True)
class _Encoded:
    """Trees to build, told apart by a digest of their attributes."""

    digest: bytes
    build: Callable[[], Forest] = field(compare=False)


def _digest(dtype: DType, build: Callable[[], Forest], *parts: Array | bytes) -> _Encoded:
    found = blake2b(dtype.name.encode())
    for part in parts:
        data = part if isinstance(part, bytes) else part.tobytes()
        found.update(len(data).to_bytes(8, "little") + data)
    return _Encoded(found.digest(), build)


@lru_cache(maxsize=8)
def _planted(encoded: _Encoded) -> Forest:
    return encoded.build()
