"""Tree ensembles against onnxruntime, as C against the interpreter, and hostile ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ml_cases import Case, agree, same_bytes
from onnx import numpy_helper
from trees import FEATURES, MODES, classifier, regressor, x_of

from sardonyx.errors import InvalidModel, LimitExceeded, UnsupportedModel
from sardonyx.types import Array

NAN = np.where(
    np.random.default_rng(5).random((37, FEATURES)) < 0.3,
    np.nan,
    x_of(np.random.default_rng(6), 37),
).astype(np.float32)
WIDE = np.random.default_rng(8).normal(size=(9, FEATURES))
CASES = [
    *(
        regressor(1, f"sum of {n} rows", x=x_of(np.random.default_rng(2), n))
        for n in (1, 3, 4, 8, 10, 13, 14, 20)
    ),
    *(regressor(3, mode, modes=[mode], x=NAN) for mode in MODES),
    *(regressor(4, f"{mode} missing", modes=[mode], x=NAN, missing=True) for mode in MODES),
    regressor(9, "all modes", modes=MODES, x=NAN, missing=True),
    *(regressor(10, a, aggregate_function=a) for a in ("AVERAGE", "MIN", "MAX")),
    *(
        regressor(11, f"{a} of targets {k}", aggregate_function=a, targets=3, kind=k)
        for a in ("SUM", "AVERAGE", "MIN", "MAX")
        for k in ("all", "one", "some")
    ),
    regressor(12, "base values", targets=3, base_values=[0.5, -1.0, 2.0]),
    regressor(13, "base value of one", base_values=[0.25], aggregate_function="AVERAGE"),
    *(
        regressor(14, f"targets {p}", targets=3, post_transform=p)
        for p in ("SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")
    ),
    regressor(15, "PROBIT", post_transform="PROBIT", tolerance=None),
    regressor(15, "LOGISTIC of one target", post_transform="LOGISTIC", tolerance=None),
    regressor(16, "float64", x=WIDE),
    regressor(16, "float64, all modes", x=NAN.astype(np.float64), modes=MODES, missing=True),
    regressor(17, "int64", x=x_of(np.random.default_rng(2), 9, np.int64), tolerance=None),
    regressor(18, "a vector", x=x_of(np.random.default_rng(2), 1)[0], tolerance=None),
    regressor(19, "one leaf", depth=0, trees=1),
    regressor(20, "deep", depth=30, trees=3),
    *(classifier(21, f"classes {k}", kind=k) for k in ("all", "one", "some")),
    *(classifier(22, p, post_transform=p) for p in ("SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO")),
    classifier(23, "base values", base_values=[0.5, -1.0, 2.0]),
    classifier(24, "rare classes", kind="one", trees=2),
    *(classifier(25, f"inputs {d.__name__}", dtype=d) for d in (np.float64, np.int64, np.int32)),
    *(
        classifier(
            26, f"binary {p} signed={s}", labels=[5, 9], used=1, signed=s, post_transform=p, trees=1
        )
        for p in ("NONE", "LOGISTIC", "SOFTMAX")
        for s in (True, False)
    ),
    *(
        classifier(27, f"binary base {s}", labels=[5, 9], used=1, signed=s, base_values=[0.3])
        for s in (True, False)
    ),
    classifier(28, "binary, weights of the second", labels=[5, 9], used=1, first=1),
    classifier(29, "two classes", labels=[5, 9], tolerance=None),
    classifier(30, "one class", labels=[5], tolerance=None),
]


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.tolerance is not None], ids=lambda c: c.name
)
def test_ensembles_are_onnxruntime_s(case: Case) -> None:
    agree(case)


def test_c_gives_the_interpreter_s_bytes(tmp_path: Path) -> None:
    same_bytes([*CASES, *SETS], tmp_path)


def slowly(case: Case) -> Array:
    """What a TreeEnsembleRegressor of one target gives, node by node in float32."""
    a = case.attributes
    ids = list(zip(a["nodes_treeids"], a["nodes_nodeids"], strict=True))
    weights = dict(
        zip(
            zip(a["target_treeids"], a["target_nodeids"], strict=True),
            a["target_weights"],
            strict=True,
        )
    )
    tests = {
        "LEQ": np.less_equal,
        "LT": np.less,
        "GTE": np.greater_equal,
        "GT": np.greater,
        "EQ": np.equal,
        "NEQ": np.not_equal,
    }
    flags = a.get("nodes_missing_value_tracks_true") or [0] * len(ids)
    out = []
    for row in case.feeds[0]:
        total = np.float32(0)
        for tree in dict.fromkeys(a["nodes_treeids"]):
            n = a["nodes_treeids"].index(tree)
            while a["nodes_modes"][n] != "LEAF":
                x, at = row[a["nodes_featureids"][n]], np.float32(a["nodes_values"][n])
                yes = tests[a["nodes_modes"][n][7:]](x, at) or (flags[n] and np.isnan(x))
                n = ids.index((tree, a["nodes_truenodeids" if yes else "nodes_falsenodeids"][n]))
            total = total + np.float32(weights[ids[n]])
        out.append([total])
    return np.array(out, np.float32)


@pytest.mark.parametrize("at", [np.inf, -np.inf, np.nan, 0.0, -0.0])
def test_thresholds_at_the_ends_decide_as_the_comparison_does(at: float) -> None:
    case = regressor(31, "ends", modes=MODES, missing=True, trees=12, depth=3)
    values = np.array([0.0, -0.0, 1e-45, -1e-45, np.inf, -np.inf, np.nan, 3.0e38], np.float32)
    x = np.random.default_rng(1).choice(values, (40, FEATURES))
    changed = {**case.attributes, "nodes_values": [at] * len(case.attributes["nodes_values"])}
    case = replace(case, feeds=(x,), attributes=changed)
    np.testing.assert_array_equal(case.run()[0], slowly(case))


def test_sums_go_through_the_trees_in_order() -> None:
    case = regressor(32, "order", trees=30)
    np.testing.assert_array_equal(case.run()[0], slowly(case))


def indexed(seed: int, dtype: Any, **given: Any) -> Case:
    """A TreeEnsemble: two levels of inner nodes, leaves below; one node tests membership."""
    rng = np.random.default_rng(seed)
    members = given.pop("members", [1.0, 2.0, -3.0])
    count = 6
    modes = np.array([0, 6, 1, 2, 6, 5], np.uint8)
    attributes = {
        "tree_roots": [0, 3],
        "nodes_modes": numpy_helper.from_array(modes),
        "nodes_featureids": rng.integers(0, FEATURES, count).tolist(),
        "nodes_splits": numpy_helper.from_array(rng.integers(-2, 3, count).astype(dtype)),
        "nodes_truenodeids": [1, 0, 2, 4, 4, 6],
        "nodes_trueleafs": [0, 1, 1, 0, 1, 1],
        "nodes_falsenodeids": [2, 1, 3, 5, 5, 7],
        "nodes_falseleafs": [0, 1, 1, 0, 1, 1],
        "leaf_weights": numpy_helper.from_array(rng.normal(size=8).astype(dtype)),
        "leaf_targetids": [0, 1, 0, 1, 1, 0, 1, 0],
        "membership_values": numpy_helper.from_array(
            np.array([*members, np.nan, 2.0, np.nan], dtype)
        ),
        "n_targets": 2,
        **given,
    }
    x = x_of(rng, 40, dtype)
    return Case(f"sets {seed}", "TreeEnsemble", (x,), attributes, 1e-6, version=5)


SETS = [
    indexed(1, np.float32),
    indexed(2, np.float64, members=list(range(40))),
    indexed(3, np.float32, aggregate_function=0),
    replace(indexed(8, np.float32, post_transform=1), tolerance=None),
    indexed(9, np.float32, post_transform=3),
    indexed(
        4, np.float32, aggregate_function=3, nodes_missing_value_tracks_true=[1, 1, 0, 0, 1, 1]
    ),
    replace(indexed(5, np.float16), tolerance=None),
]


@pytest.mark.parametrize("case", [c for c in SETS if c.tolerance is not None], ids=lambda c: c.name)
def test_trees_by_index_are_onnxruntime_s(case: Case) -> None:
    agree(case)


def test_a_search_of_a_set_finds_its_members_alone() -> None:
    case = indexed(6, np.float32, members=[1.0, 4.0, -2.0], tree_roots=[1])
    feature = case.attributes["nodes_featureids"][1]
    case.attributes["membership_values"] = numpy_helper.from_array(
        np.array([1, 4, -2, np.nan, 9, np.nan], np.float32)
    )
    x = np.zeros((9, FEATURES), np.float32)
    x[:, feature] = range(-4, 5)
    weights = numpy_helper.to_array(case.attributes["leaf_weights"])
    found = replace(case, feeds=(x,)).run()[0]
    inside = np.isin(x[:, feature], [1, 4, -2])
    np.testing.assert_array_equal(found[:, 0], np.where(inside, weights[0], 0))
    np.testing.assert_array_equal(found[:, 1], np.where(inside, 0, weights[1]))


def broken(**changes: Any) -> dict[str, Any]:
    """A case with one list changed: (position, value), or a whole list."""
    case = regressor(33, "broken", trees=2, depth=3)
    attributes = dict(case.attributes)
    for name, change in changes.items():
        if isinstance(change, tuple):
            attributes[name] = [*attributes[name]]
            attributes[name][change[0]] = change[1]
        else:
            attributes[name] = change
    return attributes


HOSTILE = {
    "a node leads to itself": broken(nodes_truenodeids=(0, 0)),
    "a node leads to its parent": broken(nodes_truenodeids=(1, 0)),
    "a child that is not there": broken(nodes_falsenodeids=(0, 999)),
    "a negative child": broken(nodes_falsenodeids=(0, -1)),
    "a feature that the input has not": broken(nodes_featureids=(0, FEATURES)),
    "a negative feature": broken(nodes_featureids=(0, -1)),
    "an enormous feature": broken(nodes_featureids=(0, 1 << 40)),
    "an unknown mode": broken(nodes_modes=(0, "BRANCH_SIDEWAYS")),
    "lists of different lengths": broken(nodes_values=[0.0]),
    "weights of different lengths": broken(target_weights=[0.0]),
    "a weight of no node": broken(target_nodeids=(0, 999)),
    "a weight of no target": broken(target_ids=(0, 1)),
    "a negative target": broken(target_ids=(0, -1)),
    "no targets": broken(n_targets=0),
    "a node twice": broken(nodes_nodeids=(1, 0)),
    "no nodes": {"n_targets": 1},
    "base values of another number": broken(base_values=[1.0, 2.0]),
    "an unknown aggregate": broken(aggregate_function="MEDIAN"),
    "an unknown transform": broken(post_transform="SOFT"),
    "flags of another number": broken(nodes_missing_value_tracks_true=[1]),
}


@pytest.mark.parametrize("attributes", HOSTILE.values(), ids=HOSTILE)
def test_hostile_lists_are_refused(attributes: dict[str, Any]) -> None:
    case = Case(
        "hostile", "TreeEnsembleRegressor", (np.zeros((2, FEATURES), np.float32),), attributes
    )
    with pytest.raises(InvalidModel):
        case.run()


@pytest.mark.parametrize(
    "changes",
    [
        {"nodes_truenodeids": [0, 0, 2, 4, 4, 6]},
        {"nodes_truenodeids": [9, 0, 2, 4, 4, 6]},
        {"nodes_truenodeids": [1, 99, 2, 4, 4, 6]},
        {"tree_roots": [7]},
        {"nodes_featureids": [0]},
        {"membership_values": numpy_helper.from_array(np.array([1.0, np.nan], np.float32))},
        {"nodes_modes": numpy_helper.from_array(np.full(6, 7, np.uint8))},
        {"leaf_targetids": [0]},
        {"leaf_targetids": [0, 1, 0, 1, 1, 0, 1, 2]},
        {"aggregate_function": 4},
        {"post_transform": -1},
    ],
)
def test_hostile_indices_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidModel):
        indexed(7, np.float32, **changes).run()


def test_trees_that_share_their_nodes_too_often_are_refused() -> None:
    count = 4096
    attributes = {
        "tree_roots": [0] * count,
        "nodes_modes": numpy_helper.from_array(np.zeros(count, np.uint8)),
        "nodes_featureids": [0] * count,
        "nodes_splits": numpy_helper.from_array(np.zeros(count, np.float32)),
        "nodes_truenodeids": [*range(1, count), 0],
        "nodes_trueleafs": [*[0] * (count - 1), 1],
        "nodes_falsenodeids": [0] * count,
        "nodes_falseleafs": [1] * count,
        "leaf_weights": numpy_helper.from_array(np.ones(1, np.float32)),
        "leaf_targetids": [0],
        "n_targets": 1,
    }
    with pytest.raises(LimitExceeded):
        Case("shared", "TreeEnsemble", (np.zeros((1, 1), np.float32),), attributes, version=5).run()


def test_a_chain_of_many_nodes_is_walked() -> None:
    count = 5_000
    chain = range(count)
    attributes = {
        "tree_roots": [0],
        "nodes_modes": numpy_helper.from_array(np.zeros(count, np.uint8)),
        "nodes_featureids": [0] * count,
        "nodes_splits": numpy_helper.from_array(-np.arange(count, dtype=np.float32)),
        "nodes_truenodeids": [*(n + 1 for n in chain[:-1]), 0],
        "nodes_trueleafs": [*[0] * (count - 1), 1],
        "nodes_falsenodeids": [1] * count,
        "nodes_falseleafs": [1] * count,
        "leaf_weights": numpy_helper.from_array(np.array([3.0, 5.0], np.float32)),
        "leaf_targetids": [0, 0],
        "n_targets": 1,
    }
    x = np.array([[-1e6], [-20.5], [1.0]], np.float32)
    found = Case("chain", "TreeEnsemble", (x,), attributes, version=5).run()[0]
    np.testing.assert_array_equal(found, [[3], [5], [5]])


def test_labels_that_are_strings_are_not_the_kernel_s() -> None:
    case = classifier(34, "strings", classlabels_int64s=None, classlabels_strings=["a", "b", "c"])
    with pytest.raises(UnsupportedModel, match="strings"):
        case.kernel()


def test_two_classes_with_weights_of_their_own_are_decided_by_the_greater() -> None:
    case = classifier(29, "two classes", labels=[5, 9])
    label, scores = case.run()
    np.testing.assert_array_equal(label, np.where(scores[:, 1] > scores[:, 0], 9, 5))


def test_post_transforms_of_trees_by_index_are_numbered_as_the_text_says() -> None:
    raw = indexed(8, np.float32).run()[0]
    exponentials = np.exp(raw - raw.max(1, keepdims=True))
    softmax = indexed(8, np.float32, post_transform=1).run()[0]
    np.testing.assert_allclose(
        softmax, exponentials / exponentials.sum(1, keepdims=True), rtol=1e-6
    )
    logistic = indexed(8, np.float32, post_transform=2).run()[0]
    np.testing.assert_allclose(logistic, 1 / (1 + np.exp(-raw)), rtol=1e-6)
