"""The short way to call a compiled program gives what the long way gives, or leaves it to it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest
from nets import Net
from onnx import TensorProto, helper
from onnx.parser import parse_model

from sardonyx import InferenceSession, calls
from sardonyx.errors import FeedError, RunError
from sardonyx.graph import Graph
from sardonyx.native import NativeEngine
from sardonyx.resolve import resolve
from sardonyx.types import Array

X = np.arange(-6, 6, dtype=np.float32).reshape(3, 4)


def relu() -> Graph:
    net = Net()
    net.give(net.op("Relu", net.feed("x", X)))
    return net.graph()


def symbolic() -> onnx.ModelProto:
    """y = x * w for any number of rows."""
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])
    made = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])
    weight = onnx.numpy_helper.from_array(np.float32([1, 2, 3, 4]), "w")
    node = helper.make_node("Mul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "mul", [given], [made], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def gather() -> Graph:
    net = Net()
    index = net.feed("i", np.array([1, 0]))
    net.give(net.op("Gather", net.feed("x", X), index, axis=0))
    return net.graph()


@pytest.fixture(params=["glue", "ctypes"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Calls by the C module, and without it."""
    if request.param == "ctypes":
        monkeypatch.setattr(calls, "glue", lambda: None)
    elif calls.glue() is None:
        pytest.skip("Python's headers are not here")
    return str(request.param)


def quick(engine: NativeEngine, feeds: dict[str, Array]) -> bytes | None:
    found = engine.quick(feeds)
    return None if found is None else b"".join(y.tobytes() for y in found)


def test_the_second_call_is_short_and_says_the_same(way: str) -> None:
    engine = NativeEngine(relu())
    assert engine.quick({"x": X}) is None
    (first,) = engine.run({"x": X}).values()
    (second,) = engine.run({"x": X}).values()
    assert quick(engine, {"x": X}) == first.tobytes() == second.tobytes()
    assert (second.shape, second.dtype) == (X.shape, X.dtype)
    assert quick(engine, {"x": -X}) == np.maximum(-X, 0).tobytes()


@pytest.mark.parametrize(
    "other",
    [np.asfortranarray(X), X[:, ::-1], X.astype(">f4"), X.astype(np.float64), X[:2], X.tolist()],
)
def test_what_is_not_as_expected_is_left_to_the_long_way(way: str, other: Array) -> None:
    engine = NativeEngine(relu())
    engine.run({"x": X})
    assert engine.quick({"x": other}) is None
    assert engine.quick({"z": X}) is None
    assert engine.quick({"x": X, "z": X}) is None
    assert engine.quick({}) is None
    if np.asarray(other).dtype == np.float64 or len(other) == 2:
        with pytest.raises(FeedError):
            engine.run({"x": other})
    else:
        (y,) = engine.run({"x": other}).values()
        assert y.tobytes() == np.maximum(np.asarray(other, np.float32), 0).tobytes()


def test_booleans_take_the_short_way_unless_they_are_other_bytes(way: str) -> None:
    """A byte that is neither 0 nor 1 is true; only the long way says so."""
    net, flags = Net(), np.array([True, False, True, True])
    net.give(net.op("Not", net.feed("x", flags)))
    engine = NativeEngine(net.graph())
    assert engine.run({"x": flags})
    assert quick(engine, {"x": ~flags}) == flags.tobytes()
    other = np.array([1, 0, 2, 255], np.uint8).view(bool)
    assert engine.quick({"x": other}) is None
    assert [y.tobytes() for y in engine.run({"x": other}).values()] == [bytes([0, 1, 0, 0])]


def test_unaligned_arrays_are_copied(way: str) -> None:
    raw = np.zeros(X.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(X.shape)
    raw[...] = X
    engine = NativeEngine(relu())
    engine.run({"x": X})
    assert engine.quick({"x": raw}) is None
    assert next(iter(engine.run({"x": raw}).values())).tobytes() == np.maximum(X, 0).tobytes()


def test_other_sizes_take_the_long_way_once(way: str) -> None:
    engine = NativeEngine(resolve(symbolic()))
    for rows in (1, 3, 1, 3):
        x = X[:rows].copy()
        expected = (x * np.float32([1, 2, 3, 4])).tobytes()
        assert engine.run({"x": x})["y"].tobytes() == expected
        assert quick(engine, {"x": x}) == expected
        assert engine.quick({"x": X[:2].copy()}) is None
    for rows in (1, 3, 1):  # and then have a short one each
        x = -X[:rows].copy()
        assert quick(engine, {"x": x}) == (x * np.float32([1, 2, 3, 4])).tobytes()


def test_values_that_decide_sizes_have_a_short_way_each(way: str) -> None:
    model = parse_model("""<ir_version: 9, opset_import: ["" : 18]>
        g (float[3, 4] x, int64[2] s) => (float[a, b] y) { y = Reshape(x, s) }""")
    engine = NativeEngine(resolve(model))
    sizes = [np.array(s) for s in ((2, 6), (12, 1), (1, 12))]
    for s in (*sizes, *sizes):
        y = engine.run({"x": X, "s": s})["y"]
        assert (y.shape, y.tobytes()) == (tuple(s), X.tobytes())
    for s in sizes:
        found = engine.quick({"x": -X, "s": s})
        assert found is not None
        assert (found[0].shape, found[0].tobytes()) == (tuple(s), (-X).tobytes())
    assert engine.quick({"x": X, "s": np.array([4, 3])}) is None
    assert engine.quick({"x": X, "s": [2, 6]}) is None
    assert engine.quick({"x": X}) is None
    with pytest.raises(FeedError):
        engine.run({"x": X})


def test_a_trap_is_told_in_full_each_time(way: str) -> None:
    engine = NativeEngine(gather())
    engine.run({"x": X, "i": np.array([1, 0])})
    for _ in range(2):
        with pytest.raises(RunError, match="out of bounds"):
            engine.run({"x": X, "i": np.array([7, 0])})
    engine.run({"x": X, "i": np.array([2, 1])})
    assert engine.quick({"x": X, "i": np.array([7, 0])}) is None
    assert engine.quick({"x": X, "i": np.array([2, 1])}) is not None


def test_threads_have_memories_of_their_own(way: str) -> None:
    net = Net()
    x = net.feed("x", np.zeros((40, 50), np.float32))
    net.give(net.op("MatMul", net.op("Softmax", x), net.op("Transpose", net.op("Exp", x))))
    engine = NativeEngine(net.graph())
    rng = np.random.default_rng(0)
    feeds = [{"x": rng.standard_normal((40, 50)).astype(np.float32)} for _ in range(8)]
    expected = [next(iter(engine.run(f).values())).tobytes() for f in feeds]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda i: quick(engine, feeds[i % 8]), range(200))) == expected * 25


def test_a_session_takes_the_short_way_for_all_outputs() -> None:
    session = InferenceSession(symbolic().SerializeToString())
    (first,) = session.run(None, {"x": X})
    assert session._quick is not None
    assert session._quick({"x": X}) is not None
    assert session.run(None, {"x": X})[0].tobytes() == first.tobytes()
    assert session.run(["y"], {"x": X})[0].tobytes() == first.tobytes()
    assert len(session.run(["y", "y"], {"x": X})) == 2
    with pytest.raises(FeedError, match="Invalid output name:z"):
        session.run(["z"], {"x": X})
    with pytest.raises(ValueError, match="Required inputs"):
        session.run(None, {})


def test_a_feed_that_is_dropped_meanwhile_is_still_read(way: str) -> None:
    net = Net()
    net.give(net.op("Add", net.feed("a", X), net.feed("b", X)))
    engine = NativeEngine(net.graph())
    engine.run({"a": X, "b": X})
    others: list[Array] = []

    class Key:
        """Equal to "b"; drops the array under "a" when it is compared."""

        def __hash__(self) -> int:
            return hash("b")

        def __eq__(self, other: object) -> bool:
            if other == "b" and "a" in feeds:
                feeds["c"] = feeds.pop("a") * 0
                others.extend(np.full_like(X, 7) for _ in range(50))
            return other == "b"

    feeds: dict[object, Array] = {"a": X.copy(), Key(): X}
    assert quick(engine, feeds) == (X + X).tobytes()


def large(way: str) -> tuple[NativeEngine, list[dict[str, Array]], list[bytes]]:
    """An engine whose output malloc would ask the system for, three feeds, and their results."""
    net = Net()
    feeds = [{"x": np.full((300, 400), i, np.float32)} for i in range(3)]
    net.give(net.op("Neg", net.feed("x", feeds[0]["x"])))
    engine = NativeEngine(net.graph())
    engine.run(feeds[0])
    return engine, feeds, [np.negative(f["x"]).tobytes() for f in feeds]


def test_large_outputs_that_somebody_has_are_not_written_again(way: str) -> None:
    engine, feeds, wanted = large(way)
    whole = [engine.quick(f) for f in feeds]
    views = [engine.quick(f)[0].reshape(-1)[1:] for f in feeds]
    fed = engine.quick({"x": whole[1][0]})
    assert [found[0].tobytes() for found in whole if found] == wanted
    assert [view.tobytes() for view in views] == [w[4:] for w in wanted]
    assert fed is not None
    assert fed[0].tobytes() == feeds[1]["x"].tobytes()


def test_large_outputs_that_nobody_has_are_written_again() -> None:
    if calls.glue() is None:
        pytest.skip("Python's headers are not here")
    engine, feeds, _ = large("glue")
    places = {engine.quick(f)[0].ctypes.data for f in (*feeds, *feeds)}
    assert len(places) == 1


@pytest.mark.parametrize("size", [64, 97, 300])
def test_large_outputs_begin_with_a_line_of_the_cache(size: int) -> None:
    if calls.glue() is None:
        pytest.skip("Python's headers are not here")
    net, x = Net(), np.ones((size, 64), np.float32)
    for _ in range(4):
        net.give(net.op("Neg", net.feed(f"x{len(net.feeds)}", x)))
    engine = NativeEngine(net.graph())
    engine.run(net.feeds)
    assert {y.ctypes.data % 64 for y in engine.quick(net.feeds) or ()} == {0}


def test_large_outputs_that_grow_run_by_run_lie_where_those_before_lay() -> None:
    if calls.glue() is None:
        pytest.skip("Python's headers are not here")
    net = Net()
    net.give(net.op("Neg", net.feed("x", np.ones((300, 400), np.float32))))
    engine = NativeEngine(net.graph(sizes={300: "N"}))
    places, held = set(), np.zeros(0)
    for n in range(352, 400):
        (held,) = engine.run({"x": np.full((n, 400), n, np.float32)}).values()
        assert held.shape == (n, 400)
        assert (held == -n).all()
        places.add(held.ctypes.data)
    assert len(places) <= 8  # two for each size that bytes are rounded up to


def test_what_became_of_a_large_output_does_not_show_in_the_next(way: str) -> None:
    engine, feeds, wanted = large(way)
    for i in range(3):
        (y,) = engine.quick(feeds[i]) or [np.zeros(0)]
        assert y.shape == (300, 400)
        assert y.flags.writeable
        assert y.tobytes() == wanted[i]
        y.shape = (400, 300)
        y.setflags(write=False)
