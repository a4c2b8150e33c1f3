"""Random trees and ensembles of them, as the attributes of ai.onnx.ml have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from ml_cases import Case

from sardonyx.types import Array

Rng = np.random.Generator
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
FEATURES = 5


def grow(
    rng: Rng, trees: int, depth: int, modes: Sequence[str] = MODES[:1]
) -> dict[str, list[Any]]:
    """Random trees in lists, of at most this depth; features and thresholds are small integers."""
    nodes: dict[str, list[Any]] = {
        f"nodes_{n}": []
        for n in (
            "treeids",
            "nodeids",
            "featureids",
            "modes",
            "values",
            "truenodeids",
            "falsenodeids",
        )
    }
    for tree in range(trees):
        todo, made = [(0, 0)], 1
        while todo:
            n, level = todo.pop()
            leaf = level == depth or made > 300 or (level > 1 and rng.random() < 0.3)
            yes, no = (0, 0) if leaf else (made, made + 1)
            row = [tree, n, int(rng.integers(FEATURES)), "LEAF" if leaf else rng.choice(modes)]
            row += [float(rng.integers(-3, 4)), yes, no]
            for name, v in zip(nodes, row, strict=True):
                nodes[name].append(v)
            if not leaf:
                todo += [(made + 1, level + 1), (made, level + 1)]
                made += 2
    return nodes


def votes(
    rng: Rng, nodes: dict[str, list[Any]], targets: int, kind: str, signed: bool = True
) -> Any:
    """Weights of the leaves: `all` targets, `one` by tree, or `some`."""
    rows = []
    for tree, n, mode in zip(
        *(nodes[f"nodes_{k}"] for k in ("treeids", "nodeids", "modes")), strict=True
    ):
        if mode != "LEAF":
            continue
        chosen = {"all": range(targets), "one": [tree % targets]}.get(kind)
        if chosen is None:
            chosen = [c for c in range(targets) if rng.random() < 0.6] or [0]
        for c in chosen:
            w = float(np.float32(rng.normal() if signed else rng.random()))
            rows.append((tree, n, c, w))
    return [list(column) for column in zip(*rows, strict=True)]


def x_of(rng: Rng, rows: int, dtype: Any = np.float32) -> Array:
    return rng.integers(-4, 5, (rows, FEATURES)).astype(dtype)


def regressor(seed: int, name: str, **given: Any) -> Case:
    rng = np.random.default_rng(seed)
    targets, kind = given.pop("targets", 1), given.pop("kind", "all")
    nodes = grow(rng, given.pop("trees", 7), given.pop("depth", 5), given.pop("modes", MODES[:1]))
    trees, ids, to, weights = votes(rng, nodes, targets, kind)
    x = given.pop("x", None)
    tolerance = given.pop("tolerance", 1e-5)
    if given.pop("missing", False):
        nodes["nodes_missing_value_tracks_true"] = rng.integers(
            0, 2, len(trees := trees) and len(nodes["nodes_modes"])
        ).tolist()
    listed = {
        "target_treeids": trees,
        "target_nodeids": ids,
        "target_ids": to,
        "target_weights": weights,
    }
    rows = given.pop("rows", 37)
    feeds = (x_of(rng, rows) if x is None else x,)
    return Case(
        name,
        "TreeEnsembleRegressor",
        feeds,
        {**nodes, **listed, "n_targets": targets, **given},
        tolerance,
    )


def classifier(seed: int, name: str, **given: Any) -> Case:
    rng = np.random.default_rng(seed)
    labels, kind = given.pop("labels", [10, 20, 30]), given.pop("kind", "all")
    nodes = grow(rng, given.pop("trees", 7), given.pop("depth", 5))
    targets = given.pop("used", len(labels))
    trees, ids, to, weights = votes(rng, nodes, targets, kind, given.pop("signed", True))
    to = [c + given.get("first", 0) for c in to]
    given.pop("first", 0)
    listed = {
        "class_treeids": trees,
        "class_nodeids": ids,
        "class_ids": to,
        "class_weights": weights,
    }
    attributes = {**nodes, **listed, "classlabels_int64s": labels}
    tolerance = given.pop("tolerance", 1e-5)
    feeds = (x_of(rng, given.pop("rows", 37), given.pop("dtype", np.float32)),)
    return Case(
        name, "TreeEnsembleClassifier", feeds, {**attributes, **given}, tolerance, outputs=2
    )
