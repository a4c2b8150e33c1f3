"""A session of a graph in stages, or whose end the host performs, is found again (kept.py)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser
import pytest
from test_images import X, told

from sardonyx import InferenceSession
from sardonyx.engines import StagedEngine, TailedEngine
from sardonyx.errors import FeedError, RunError
from sardonyx.images import ImageEngine
from sardonyx.kept import Chain, StagedImageEngine


@pytest.fixture(autouse=True)
def _native(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SARDONYX_ENGINE", raising=False)


def parsed(text: str) -> bytes:
    data: bytes = onnx.parser.parse_model(text).SerializeToString()
    return data


CHOICE = """
  c = Equal(k, two)
  y = If(c) <then_branch = t () => (float[N, 16] u) { h = Exp(x) u = Concat<axis = 1>(h, x) },
             else_branch = e () => (float[N, 9] v) { g = Gather<axis = 1>(x, i) v = Neg(g) }>
"""


def choice() -> bytes:
    """y = exp(x), x where k is 2; else the columns i of x, negated."""
    head = "(float[N, 8] x, int64 k, int64[9] i) => (float[N, M] y) <int64 two = {2}>"
    return parsed(f'<ir_version: 10, opset_import: ["": 21]> g {head} {{ {CHOICE} }}')


def chosen(k: int, x: np.ndarray = X, i: int = 0) -> dict[str, np.ndarray]:
    return {"x": x, "k": np.array(k), "i": np.full(9, i)}


def test_the_programs_of_a_graph_in_stages_are_found() -> None:
    first = InferenceSession(choice())
    assert isinstance(first._sess, StagedEngine)
    fed = [chosen(2), chosen(2, -X), chosen(2)]
    expected = [first.run(None, f)[0] for f in fed]
    second = InferenceSession(choice())
    assert isinstance(second._sess, StagedImageEngine)
    assert told(first) == told(second)
    found = [second.run(None, f)[0] for f in fed]
    assert [(y.shape, y.tobytes()) for y in found] == [(y.shape, y.tobytes()) for y in expected]
    assert second._sess.memory() == first._sess.memory()
    assert second._sess._full is None
    for f in (chosen(1), chosen(2), chosen(2, X[:1]), chosen(1)):  # what has no program
        assert second.run(None, f)[0].tobytes() == first.run(None, f)[0].tobytes()
    assert second._sess._full is not None


def test_programs_of_stages_refuse_what_stages_refuse() -> None:
    heard: list[list[str]] = []
    for _ in range(2):
        session, said = InferenceSession(choice()), list[str]()
        assert np.all(session.run(None, chosen(1))[0] == -X[:, :1])
        for wrong in (chosen(1, X[:, :7]), chosen(1, X.astype(np.float64)), chosen(1, X, 8)):
            with pytest.raises((FeedError, RunError)) as caught:
                session.run(None, wrong)
            said.append(str(caught.value))
        heard.append(said)
    assert isinstance(session._sess, StagedImageEngine)
    assert heard[0] == heard[1]
    assert "an index is out of bounds" in heard[1][2]


POSITIVE = """
  h = Exp(x)
  c = Greater(h, one)
  i = NonZero(c)
  t = Transpose(i)
  p = GatherND(h, t)
  y = Sqrt(p)
"""


def positive() -> bytes:
    """sqrt(exp(x)) of those x that are greater than 0, and where they are: sizes are of values."""
    head = "(float[N, 8] x) => (float[M] y, int64[M, 2] t) <float one = {1}>"
    return parsed(f'<ir_version: 10, opset_import: ["": 21]> g {head} {{ {POSITIVE} }}')


def test_parts_one_after_the_other_are_found() -> None:
    first = InferenceSession(positive())
    assert isinstance(first._sess, StagedEngine)
    fed = [X, -X, X[::-1].copy(), np.abs(X), -np.abs(X), X]  # the last but one leaves nothing
    expected = [first.run(None, {"x": x}) for x in fed]
    second = InferenceSession(positive())
    assert isinstance(second._sess, StagedImageEngine)
    for x, wanted in zip(fed, expected, strict=True):
        found = second.run(None, {"x": x})
        assert [y.shape for y in found] == [y.shape for y in wanted]
        assert [y.tobytes() for y in found] == [y.tobytes() for y in wanted]
    assert second._sess._full is None
    assert all(isinstance(x, Chain) for x in second._sess._programs.made.values())
    assert second._sess.memory() == first._sess.memory()
    assert second._sess.quick({"x": X.astype(np.float64)}) is None
    assert second._sess.quick({"x": X[:2]}) is None
    for x in (X[:2], X, X[:0]):  # shapes that were not fed before
        assert [y.tobytes() for y in second.run(None, {"x": x})] == [
            y.tobytes() for y in first.run(None, {"x": x})
        ]


CLASSIFIER = """
  names = Constant<value_strings = ["yes", "no", "?"]>()
  i = ArgMax<axis = 1, keepdims = 0>(x)
  label = Gather(names, i)
  p = Softmax(x)
  scores = ai.onnx.ml.ZipMap<classlabels_strings = ["yes", "no", "?"]>(p)
"""


def classifier() -> bytes:
    """The name of the greatest score of each row, and a map from names to their softmax."""
    sign = "(float[N, 3] x) => (string[N] label, seq(map(string, float)) scores)"
    sets = '["": 17, "ai.onnx.ml": 3]'
    return parsed(f"<ir_version: 8, opset_import: {sets}> g {sign} {{ {CLASSIFIER} }}")


def test_what_the_host_does_at_the_end_is_in_images() -> None:
    first, second = (InferenceSession(classifier()) for _ in range(2))
    assert isinstance(first._sess, TailedEngine)
    assert isinstance(second._sess, ImageEngine)
    assert told(first) == told(second)
    for n in (2, 3, 0, 2, 2):
        x = X[:n, :3]
        expected, found = (s.run(None, {"x": x}) for s in (first, second))
        assert [*found[0]] == [*expected[0]]
        assert found[1] == expected[1]
        assert len(found[1]) == n
        assert first.run(["label"], {"x": x})[0].tolist() == found[0].tolist()
    assert first._sess.memory() == second._sess.memory()
    assert second._sess._full is None
