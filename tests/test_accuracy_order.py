"""Bounds on errors follow what takes elements in their order, where the order is sure."""

from __future__ import annotations

import numpy as np
import pytest
from test_accuracy_stages import TURN, bounds_of, graph_of

from sardonyx.accuracy.ranges import ranged

BEST = """a = %s(x) l = SequenceConstruct(a, x) o = Constant<value_int = 0>()
          e = SequenceAt(l, o) k = Constant<value_ints = [2]>() y, i = TopK<largest = %d>(e, k)
          z = Gather(x, i)"""
BOXES = """s = Exp(x) m = Constant<value_ints = [5]>() h = Constant<value_floats = [0.5]>()
           i = NonMaxSuppression(b, s, m, h, t) c = Constant<value_ints = [-1]>()
           f = Flatten(s) r = Reshape(f, c) p = Constant<value_int = 2>()
           q = Gather<axis = 1>(i, p) y = Gather(r, q)"""
THREE = np.array([[[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3]]], np.float32)


def best(x: list[float], largest: int = 1, op: str = "Exp") -> float:
    graph = graph_of("(float[N] x) => (float[2] y, float[2] z)", BEST % (op, largest))
    return bounds_of(graph, x=np.array(x, np.float32))["z"].error


@pytest.mark.parametrize("largest", [0, 1])
def test_the_first_elements_are_sure_where_their_errors_lie_apart(largest: int) -> None:
    assert best([0.1, 0.2, -0.3, 0.4, -0.5], largest) < 1e-300


@pytest.mark.parametrize("x", [[2, 2, 1], [3, 2, 2], [3, 2, 1, 2]])
def test_equal_elements_that_are_not_exact_are_open(x: list[float]) -> None:
    assert best(x) == np.inf


def test_the_order_of_what_is_not_taken_does_not_matter() -> None:
    assert best([1, 1, 1, 2, 3]) < 1e-300


def test_equal_elements_that_are_exact_are_in_the_order_of_their_indices() -> None:
    assert best([2, 1, 2, 2], op="Neg") < 1e-300


@pytest.mark.parametrize(("high", "bounded"), [(0.9, True), (1.1, False)])
def test_a_range_decides_an_order_only_where_all_of_it_does(high: float, bounded: bool) -> None:
    graph = graph_of("(float[3] x) => (float[2] y, float[2] z)", BEST % ("Exp", 1))
    ends = np.array([3, 0, 1], np.float32), np.array([3, high, 1], np.float32)
    rows = {r.tensor: r for r in ranged(graph, {"x": ends}, {})}
    assert (rows["y"].error < 1e-5) is bounded


def boxes(scores: list[float], least: float = 0.1, low: int = 0) -> dict[str, float]:
    graph = graph_of("(float[1,3,4] b, float[1,1,3] x, float[1] t) => (float[K] y)", BOXES)
    x = np.array(scores, np.float32).reshape(1, 1, 3)
    rows = bounds_of(graph, b=THREE, x=x, t=np.array([least], np.float32))
    return {n: r.error for n, r in rows.items()} | {"why": float(TURN in rows["y"].why)}


def test_selected_boxes_are_sure_where_their_scores_lie_apart() -> None:
    assert boxes([0.3, 0.2, 0.1])["y"] < 1e-6


@pytest.mark.parametrize(("scores", "least"), [([0.3, 0.3, 0.1], 0.1), ([0.3, 0.2, 0], 1)])
def test_boxes_of_equal_scores_and_of_one_at_the_threshold_are_open(
    scores: list[float], least: float
) -> None:
    assert boxes(scores, least)["y"] == np.inf
