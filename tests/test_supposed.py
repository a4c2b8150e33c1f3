"""Sizes that symbols leave open are supposed to be as they are fed (supposed.py): one program
serves all that are so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx.parser
import pytest
from backend_suite import assert_equal_bytes

from sardonyx import InferenceSession
from sardonyx.dims import at_least, decided, extreme, supposing, symbol
from sardonyx.engines import StagedEngine, make_engine
from sardonyx.errors import SardonyxError
from sardonyx.feeds import fits
from sardonyx.graph import Graph
from sardonyx.kept import StagedImageEngine
from sardonyx.loading import load
from sardonyx.machine import Machine
from sardonyx.supposed import supposed_for

S, P = symbol("S"), symbol("P")
# a decoder's step: a cache that grows, a mask of its size, and 6 positions
STEP = """<ir_version: 10, opset_import: ["": 21]>
g (float[B, S, 4] x, float[B, P, 4] old, float[B, T] mask) => (float[B, S, 4] y, float[B, N, 4] new)
  <int64[1] one = {1}> {
  before = Shape<start = 1, end = 2>(old)
  some = Shape<start = 1, end = 2>(x)
  all = Add(before, some)
  here = Slice(positions, before, all)
  h = Add(x, here)
  new = Concat<axis = 1>(old, h)
  columns = Transpose<perm = [0, 2, 1]>(new)
  scores = MatMul(h, columns)
  spread = Unsqueeze(mask, one)
  masked = Add(scores, spread)
  weights = Softmax(masked)
  y = MatMul(weights, new)
}"""


def step() -> onnx.ModelProto:
    model = onnx.parser.parse_model(STEP)
    table = np.random.default_rng(1).standard_normal((6, 4)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(table, "positions"))
    return model


def fed(s: int, p: int, t: int | None = None, b: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(s + 8 * p)
    shapes = {"x": (b, s, 4), "old": (b, p, 4), "mask": (b, s + p if t is None else t)}
    return {n: rng.standard_normal(shape).astype(np.float32) for n, shape in shapes.items()}


def engine_of(graph: Graph) -> tuple[StagedEngine, list[Any]]:
    """The engine, and its programs for more than single sizes."""
    engine = make_engine(graph, "native")
    assert isinstance(engine, StagedEngine)
    return engine, engine._programs.wide


@pytest.mark.parametrize(
    ("s", "p"), [(3, 1), (1, 4), (1, 5), (2, 4), (2, 5), (6, 0), (1, 0), (1, 1)]
)
def test_a_supposed_program_gives_the_machine_s_bits(s: int, p: int) -> None:
    graph = load(step())
    engine, _ = engine_of(graph)
    engine.run(fed(3, 2))
    for b in (1, 2):
        found, expected = engine.run(fed(s, p, b=b)), Machine(graph).run(fed(s, p, b=b))
        assert_equal_bytes(list(found.values()), list(expected.values()))


def test_one_program_serves_all_sizes_of_which_it_holds() -> None:
    engine, wide = engine_of(load(step()))
    for p in (1, 2, 3, 4, 5):
        engine.run(fed(1, p))
    assert len(wide) == 1
    assert not engine._programs.made


def test_no_cache_yet_is_a_program_of_its_own() -> None:
    engine, wide = engine_of(load(step()))
    for s, p in ((3, 0), (1, 3), (2, 0), (1, 4)):
        engine.run(fed(s, p))
    assert len(wide) == 2


@pytest.mark.parametrize(("s", "p", "t"), [(1, 3, 7), (2, 2, 3), (3, 4, 7)])
def test_sizes_that_do_not_fit_are_refused_after_ones_that_do(s: int, p: int, t: int) -> None:
    graph = load(step())
    engine, _ = engine_of(graph)
    engine.run(fed(1, 2))
    with pytest.raises(SardonyxError):
        Machine(graph).run(fed(s, p, t))
    with pytest.raises(SardonyxError):
        engine.run(fed(s, p, t))


def test_a_mask_of_one_place_broadcasts_after_masks_that_do_not() -> None:
    graph = load(step())
    engine, _ = engine_of(graph)
    for t in (3, 1, None):
        found, expected = engine.run(fed(1, 2, t)), Machine(graph).run(fed(1, 2, t))
        assert_equal_bytes(list(found.values()), list(expected.values()))


def test_what_is_supposed() -> None:
    made = supposed_for(load(step()), fed(1, 3))
    assert made is not None
    assert str(made.types["mask"]) == "float32[B, P + S]"
    assert [fits(made, fed(*sizes)) for sizes in ((1, 4), (1, 5), (1, 6), (6, 0))] == [
        *(True, True, False, False)
    ]
    assert not fits(made, fed(1, 3, 5))


def test_nothing_is_supposed_of_what_data_decides() -> None:
    head = '<ir_version: 10, opset_import: ["": 21]> g (float[N] x, float[M] z) => (float[K] y)'
    body = "{ c = Cast<to = 9>(z) y = Compress<axis = 0>(x, c) }"
    graph = load(onnx.parser.parse_model(head + body))
    assert supposed_for(graph, {n: np.ones(3, np.float32) for n in "xz"}) is None


def test_a_later_session_finds_the_program_for_sizes_that_were_not_fed(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SARDONYX_ENGINE", raising=False)
    data = step().SerializeToString()
    first = InferenceSession(data)
    expected = [first.run(None, fed(1, p)) for p in (2, 4)]
    second = InferenceSession(data)
    assert isinstance(second._sess, StagedImageEngine)
    found = second.run(None, fed(1, 4))
    assert [y.tobytes() for y in found] == [y.tobytes() for y in expected[1]]
    assert second._sess._full is None


def test_what_is_supposed_is_a_fact_of_proofs() -> None:
    with supposing((512 - S,)):
        assert extreme("min", S, 512) == S
        assert at_least(513 - S, 1)
    assert not at_least(513 - S, 1)


def test_sizes_decide_what_is_open_and_that_is_a_fact() -> None:
    with supposing((), {"S": 3, "P": 7}) as found:
        assert decided(P - S) is True
        assert decided(S - 8) is False
    assert found.facts == (P - S, 7 - S)


def test_what_is_proven_is_no_fact() -> None:
    with supposing((), {"S": 3}) as found:
        assert decided(S - 1) is True
    assert found.facts == ()
