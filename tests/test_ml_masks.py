"""Forests of small trees: many rows at once give the bits of each row alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ml_cases import Case
from onnx import TensorProto, helper
from test_ml_trees import NAN
from trees import FEATURES, MODES, classifier, regressor

from sardonyx import types as t
from sardonyx.engines import make_engine
from sardonyx.errors import SardonyxError
from sardonyx.loading import load
from sardonyx.ops.ml_forest import LEAF, Node, branch, plant
from sardonyx.ops.ml_masks import BITS, FOLD, masks
from sardonyx.types import Array


def one_by_one(case: Case) -> list[Array]:
    """The outputs for each row alone: walks."""
    (x,) = case.feeds
    rows = [replace(case, feeds=(x[i : i + 1],)).run() for i in range(len(x))]
    return [np.concatenate(parts) for parts in zip(*rows, strict=True)]


MANY = [
    regressor(40, "one target", depth=4, modes=MODES[:4], rows=50),
    regressor(41, "NaN to both sides", depth=4, modes=MODES[:4], missing=True, x=NAN),
    regressor(42, "some trees pay", depth=3, targets=3, kind="some", rows=48),
    regressor(43, "least", depth=4, targets=2, kind="some", aggregate_function="MIN", rows=40),
    regressor(44, "a test for equality", depth=4, modes=MODES, rows=40),
    regressor(45, "leaves alone", depth=0, rows=16),
    regressor(48, "two words", trees=4, depth=7, modes=MODES[:4], missing=True, rows=50),
    classifier(46, "classes", depth=4, rows=70),
]


@pytest.mark.parametrize("case", MANY, ids=lambda c: c.name)
def test_many_rows_at_once_are_each_row_alone(case: Case) -> None:
    """Small trees are walked for fewer than sixteen rows alone."""
    for found, expected in zip(case.run(), one_by_one(case), strict=True):
        assert found.tobytes() == expected.tobytes()


def spread(case: Case, by: int) -> Case:
    """The same with `by` - 1 features between each two, which no node tests."""
    (x,) = case.feeds
    wide = np.zeros((len(x), by * x.shape[1]), x.dtype)
    wide[:, ::by] = x
    ids = [by * f for f in case.attributes["nodes_featureids"]]
    return replace(case, feeds=(wide,), attributes={**case.attributes, "nodes_featureids": ids})


@pytest.mark.parametrize("missing", [False, True])
def test_features_that_no_node_tests_change_nothing(missing: bool) -> None:
    case = regressor(49, "spread", depth=4, modes=MODES[:4], missing=missing, x=NAN)
    assert spread(case, 100).run()[0].tobytes() == case.run()[0].tobytes()


def sized(case: Case, rows: int | str, features: int | str) -> bytes:
    """The model for inputs of these sizes."""
    x = helper.make_tensor_value_info("x0", TensorProto.FLOAT, [rows, features])
    kinds = [TensorProto.FLOAT] if case.outputs == 1 else [TensorProto.INT64, TensorProto.FLOAT]
    outputs = [helper.make_tensor_value_info(f"y{i}", kind, None) for i, kind in enumerate(kinds)]
    graph = helper.make_graph([case.node()], "g", [x], outputs)
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    return bytes(made.SerializeToString())


@pytest.mark.parametrize("engine", ["machine", "native"])
def test_a_feature_that_is_not_there_is_an_error_at_once(engine: str) -> None:
    """Its number alone takes no memory."""
    case = regressor(50, "far", depth=2)
    far = {**case.attributes, "nodes_featureids": [2**30] * len(case.attributes["nodes_modes"])}
    model = sized(replace(case, attributes=far), 37, "features")
    with pytest.raises(SardonyxError, match="TreeEnsembleRegressor"):
        make_engine(load(model), engine).run({"x0": case.feeds[0]})


@pytest.mark.parametrize(("leaves", "words"), [(32, 1), (33, 2), (64, 2), (65, 0)])
def test_trees_of_so_many_leaves_have_masks(leaves: int, words: int) -> None:
    """A chain: each node's true side is a leaf, the last node's false side too."""
    inner = leaves - 1
    nodes = [branch("BRANCH_LEQ", 0, float(i), False, inner + i, i + 1, t.float32)
             for i in range(inner)]  # fmt: skip
    nodes[-1].no = 2 * inner
    nodes += [Node(LEAF, pays=[(0, float(i))]) for i in range(leaves)]
    forest = plant(nodes, [0], t.float32)
    found = masks(forest)
    assert (0 if found is None else found.row.shape[1]) == words
    if found is not None:
        seen = found.leaf.reshape(-1).tolist()
        assert sorted(seen) == sorted([*range(leaves), *[0] * (32 * words - leaves)])


def test_the_number_that_folds_bits_tells_them_apart() -> None:
    assert sorted((FOLD << b) % 2**BITS >> 27 for b in range(BITS)) == [*range(BITS)]


@pytest.mark.parametrize("engine", ["machine", "native"])
def test_a_forest_for_any_number_of_rows(engine: str) -> None:
    """One program: sixteens of rows by their tests, the rest by walks."""
    case = classifier(47, "any", depth=4, rows=100)
    (x,), expected = case.feeds, case.run()
    made = make_engine(load(sized(case, "n", FEATURES)), engine)
    for rows in (0, 1, 15, 16, 37, 64, 100):
        found = made.run({"x0": x[:rows]})
        for name, whole in zip(("y0", "y1"), expected, strict=True):
            assert np.asarray(found[name]).tobytes() == whole[:rows].tobytes()
