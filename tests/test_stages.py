"""Graphs whose sizes depend on data, and what the host performs: the machine and native alike."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
import pytest
from backend_suite import assert_equal_bytes

from sardonyx.engines import make_engine
from sardonyx.errors import (
    FeedError,
    InvalidModel,
    LimitExceeded,
    RunError,
    UnsupportedModel,
)
from sardonyx.loading import load
from sardonyx.machine import Machine
from sardonyx.ops import control
from sardonyx.passes.lower import lower


def model(sign: str, body: str, opset: int = 21, more: str = "") -> onnx.ModelProto:
    imports = f'"": {opset}{more}'
    text = f"<ir_version: 10, opset_import: [{imports}]> g {sign} {{ {body} }}"
    return onnx.parser.parse_model(text)


def both(proto: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    """The outputs; the native engine's bytes are the machine's."""
    graph = load(proto)
    found = [list(make_engine(graph, kind).run(feeds).values()) for kind in ("machine", "native")]
    assert_equal_bytes(found[1], found[0])
    return found[0]


def theirs(proto: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(proto.SerializeToString(), options).run(None, feeds)


LOOP = """
  m = Constant<value = int64 {5}>()
  on = Constant<value = bool {1}>()
  y, s = Loop(m, on, x) <body = b (int64 i, bool c, float[n] v)
                              => (bool d, float[n] w, float[n] t) {
    w = Add(v, x)
    t = Mul(w, w)
    k = ReduceMax<keepdims = 0>(w)
    d = Less(k, top)
  }>
"""
CARRIED = """
  m = Constant<value = int64 {4}>()
  on = Constant<value = bool {1}>()
  y = Loop(m, on, x) <body = b (int64 i, bool c, float[k] v) => (bool d, float[l] w) {
    w = Concat<axis = 0>(v, x)
    d = Identity(c)
  }>
"""
SCAN = """
  y, t = Scan<num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
              scan_input_directions = [1], scan_output_directions = [1],
              body = b (float[2] s, float[2] r) => (float[2] u, float[2] v) {
    u = Add(s, r)
    v = Sub(s, r)
  }>(z, x)
"""
NESTED = """
  y = If(c) <then_branch = t () => (float[n] p) {
      p = If(e) <then_branch = tt () => (float[n] q) { q = Add(x, x) },
                 else_branch = te () => (float[n] r) { r = Neg(x) }>
    }, else_branch = f () => (float[n] o) { o = Sqrt(x) }>
"""
DATA = """
  i = NonZero(x)
  t = Transpose(i)
  g = GatherND(x, t)
  y = Mul(g, g)
"""
RESHAPED = """
  h = Shape(x)
  n = ReduceProd<keepdims = 1>(h)
  f = Reshape(x, n)
  k = TopK<largest = 1>(f, q)
  y = Identity(k)
"""
X = np.array([0.5, -2, 0, 3], np.float32)
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "a loop that ends early": (
        "(float[n] x, float top) => (float[n] y, float[m, n] s)",
        LOOP,
        {"x": X, "top": np.array(9, np.float32)},
    ),
    "a carried value that grows": ("(float[n] x) => (float[m] y)", CARRIED, {"x": X}),
    "a scan backwards along axis 1": (
        "(float[2] z, float[2, n] x) => (float[2] y, float[2, n] t)",
        SCAN,
        {"z": X[:2], "x": np.arange(6, dtype=np.float32).reshape(2, 3)},
    ),
    "nested branches": (
        "(bool c, bool e, float[n] x) => (float[n] y)",
        NESTED,
        {"c": np.array(True), "e": np.array(False), "x": X},
    ),
    "a size that depends on data": (
        "(float[a, b] x) => (float[m] y)",
        DATA,
        {"x": X.reshape(2, 2)},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_runs_as_in_onnxruntime(name: str) -> None:
    sign, body, feeds = CASES[name]
    proto = model(sign, body)
    for found, expected in zip(both(proto, feeds), theirs(proto, feeds), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("size", [0, 1, 3, 4])
def test_one_compilation_serves_every_count(size: int) -> None:
    sign, body, _ = CASES["a size that depends on data"]
    x = np.zeros((2, 2), np.float32)
    x.flat[:size] = np.arange(1, size + 1)
    (found,) = both(model(sign, body), {"x": x})
    assert found.tolist() == [float(i * i) for i in range(1, size + 1)]


def test_many_threads_run_one_staged_engine() -> None:
    sign, body, _ = CASES["a size that depends on data"]
    engine = make_engine(load(model(sign, body)), "native")

    def run(n: int) -> list[float]:
        x = np.zeros((2, 2), np.float32)
        x.flat[: n % 4 + 1] = 2
        return list(engine.run({"x": x})["y"])

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(run, range(64)))
    assert found == [[4.0] * (n % 4 + 1) for n in range(64)]


def test_the_steps_of_a_staged_graph_are_numbered_and_their_values_seen() -> None:
    sign, body, feeds = CASES["a size that depends on data"]
    machine = Machine(load(model(sign, body))).start(feeds)
    records = list(machine)
    assert [r.number for r in records] == list(range(len(records)))
    assert [r.operation.op_type for r in records] == [
        "NonZeroCount", "NonZeroFill", "Transpose", "GatherND", "Mul",
    ]  # fmt: skip
    assert machine.outputs["y"].tolist() == [0.25, 4.0, 9.0]


def test_a_loop_without_an_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "TRIPS", 100)
    body = """y = Loop(, , x) <body = b (int64 i, bool c, float v) => (bool d, float w) {
      w = Add(v, v) d = Constant<value = bool {1}>() }>"""
    graph = load(model("(float x) => (float y)", body))
    with pytest.raises(LimitExceeded, match=r"Loop.*100 iterations"):
        Machine(graph).run({"x": np.array(1, np.float32)})


def test_branches_of_unequal_types_are_refused() -> None:
    body = """y = If(c) <then_branch = t () => (float[2] p) { p = Identity(x) },
      else_branch = f () => (int64[2] q) { q = Cast<to = 7>(x) }>"""
    with pytest.raises(InvalidModel, match=r"If|then_branch"):
        load(model("(bool c, float[2] x) => (float[2] y)", body))


def test_a_branch_that_breaks_a_rule_is_no_error_where_it_is_not_taken() -> None:
    body = """
      y = If(c) <then_branch = t () => (float[1] a) { a = Slice(x, zero, one) },
                 else_branch = e () => (float[1] b) { b, d = Split(x, parts) }>
    """
    weights = "<int64[1] zero = {0}, int64[1] one = {1}, int64[2] parts = {4, -1}>"
    proto = model(f"(bool c, float[3] x) => (float[1] y) {weights}", body)
    x = np.arange(3, dtype=np.float32)
    assert both(proto, {"c": np.array(True), "x": x})[0].tolist() == [0]
    for kind in ("machine", "native"):
        with pytest.raises(InvalidModel, match="negative"):
            make_engine(load(proto), kind).run({"c": np.array(False), "x": x})


def test_an_operator_that_is_missing_in_a_branch_is_said_before_the_run() -> None:
    body = """y = If(c) <then_branch = t () => (float[2] p) { p = m.Nothing(x) },
      else_branch = f () => (float[2] q) { q = Identity(x) }>"""
    with pytest.raises(UnsupportedModel, match="Nothing"):
        make_engine(load(model("(bool c, float[2] x) => (float[2] y)", body, more=', "m": 1')))


def test_a_position_beyond_a_sequence_is_an_error() -> None:
    body = "s = SequenceConstruct(x, x) y = SequenceAt(s, i)"
    graph = load(model("(float[2] x, int64 i) => (float[2] y)", body))
    with pytest.raises(RunError, match=r"SequenceAt.*position is 2"):
        Machine(graph).run({"x": X[:2], "i": np.array(2, np.int64)})


def test_strings_are_moved_by_every_operator_that_only_moves() -> None:
    x = np.array([["b", "a"], ["", "ü"]], object)
    body = """t = Transpose(x) u = Concat<axis = 1>(t, x) i = Constant<value_ints = [1]>()
      g = Gather<axis = 1>(u, i) y = Flatten(g) e = Equal(t, x) n = Shape(u)"""
    sign = "(string[2, 2] x) => (string[2, 1] y, bool[2, 2] e, int64[2] n)"
    y, e, n = both(model(sign, body), {"x": x})
    assert y.tolist() == [[""], ["ü"]]
    assert e.tolist() == [[True, False], [False, True]]
    assert n.tolist() == [2, 4]


@pytest.mark.parametrize(
    ("fill", "wanted"),
    [("y = Pad(x, p)", ["", "b", "a"]), ("y = Pad(x, p, z)", ["z", "b", "a"])],
)
def test_strings_are_filled_up_with_the_empty_one(fill: str, wanted: list[str]) -> None:
    body = f"""p = Constant<value_ints = [1, 0]>() z = Constant<value_string = "z">() {fill}"""
    (y,) = both(model("(string[2] x) => (string[n] y)", body), {"x": np.array(["b", "a"], object)})
    assert y.tolist() == wanted


@pytest.mark.parametrize(
    "constant", ['value_string = "b"', 'value_strings = ["b"]', 'value = string[1] {"b"}']
)
def test_constants_of_strings(constant: str) -> None:
    body = f"c = Constant<{constant}>() y = StringConcat(x, c)"
    (y,) = both(model("(string[1] x) => (string[1] y)", body), {"x": np.array(["a"], object)})
    assert y.tolist() == ["ab"]


def test_a_pattern_that_makes_others_backtrack_takes_no_time() -> None:
    graph = load(model("(string[1] x) => (bool[1] y)", 'y = RegexFullMatch<pattern = "(a*)*b">(x)'))
    x = np.array(["a" * 100_000], object)
    assert not Machine(graph).run({"x": x})["y"].any()


@pytest.mark.parametrize(
    ("kind", "texts", "numbers"),
    [
        ("float", ["3.14", "1e-5", "-inf", "NaN"], [3.14, 1e-5, -np.inf, np.nan]),
        ("int64", ["42", "-7", "1e3", "0"], [42, -7, 1000, 0]),
    ],
)
def test_texts_become_the_numbers_they_say(
    kind: str, texts: list[str], numbers: list[float]
) -> None:
    code = {"float": 1, "int64": 7}[kind]
    graph = load(model(f"(string[4] x) => ({kind}[4] y)", f"y = Cast<to = {code}>(x)"))
    found = Machine(graph).run({"x": np.array(texts, object)})["y"]
    np.testing.assert_array_equal(found, np.array(numbers, found.dtype))


def test_a_text_that_is_no_number_is_an_error() -> None:
    graph = load(model("(string[1] x) => (float[1] y)", "y = Cast<to = 1>(x)"))
    with pytest.raises(RunError, match=r"Cast.*no number"):
        Machine(graph).run({"x": np.array(["one"], object)})


def fed(*numbers: float) -> dict[str, Any]:
    return {"x": np.array(numbers, np.float32)}


def test_sizes_that_change_between_runs_of_one_engine() -> None:
    """What is remembered of a run is what the kinds of its values decided."""
    graph = load(model("(float[4] x) => (int64[1, n] y)", "i = NonZero(x) y = Neg(i)"))
    engine, machine = make_engine(graph, "native"), Machine(graph)
    for numbers in ((1, 0, 1, 0), (0, 0, 0, 0), (1, 1, 1, 1), (1, 0, 1, 0), (0, 0, 0, 0)):
        wanted = machine.run(fed(*numbers))
        assert_equal_bytes(list(engine.run(fed(*numbers)).values()), list(wanted.values()))


def test_values_that_decide_sizes_between_runs_of_one_engine() -> None:
    body = """
      w = Unique(x) n = Cast<to = 7>(w) k = ReduceMax<keepdims = 1>(n)
      s = Concat<axis = 0>(k, k) one = Constant<value_ints = [1]>()
      column = Unsqueeze(w, one) y = Expand(column, s) z = SequenceConstruct(y)
    """
    graph = load(model("(float[3] x) => (float[a, b] y, seq(float[c, d]) z)", body))
    engine = make_engine(graph, "native")
    for numbers, wide in (((1, 0, -1), 1), ((1, 2, 3), 3), ((1, -1, 0), 1), ((3, 0, 1), 3)):
        y = engine.run(fed(*numbers))["y"]
        assert np.array_equal(y, np.repeat(sorted(numbers), wide).reshape(3, wide))


def test_feeds_like_the_last_ones_are_answered_at_once() -> None:
    body = "w = Neg(x) y = ZipMap<classlabels_int64s = [3, 5]>(w)"
    sign = "(float[n, 2] x) => (seq(map(int64, float)) y)"
    graph = load(model(sign, body.replace("ZipMap", "ai.onnx.ml.ZipMap"), more=', "ai.onnx.ml": 3'))
    engine: Any = make_engine(graph, "native")
    rows = np.array([[1, 2], [3, 4]], np.float32)
    assert engine.quick({"x": rows}) is None
    wanted = engine.run({"x": rows})["y"]
    assert wanted == [{3: -1, 5: -2}, {3: -3, 5: -4}]
    assert engine.quick({"x": rows}) == [wanted]
    assert engine.quick({"x": rows + 1}) == [[{3: -2, 5: -3}, {3: -4, 5: -5}]]
    for other in (rows[:1], rows.astype(np.float64), [[1.0, 2.0]]):
        assert engine.quick({"x": other}) is None
    assert engine.quick({"z": rows}) is None


@pytest.mark.parametrize("kind", ["machine", "native"])
def test_an_input_that_nothing_reads_has_the_sizes_of_the_others(kind: Any) -> None:
    graph = load(model("(float[n] x, float[n] unread) => (int64[1, m] y)", "y = NonZero(x)"))
    feeds = {"x": np.ones(2, np.float32), "unread": np.ones(3, np.float32)}
    with pytest.raises(FeedError, match=r"'unread'.*n=2"):
        make_engine(graph, kind).run(feeds)


@pytest.mark.parametrize("kind", ["machine", "native"])
def test_a_default_that_decides_sizes_is_replaced_by_what_is_fed(kind: str) -> None:
    """Also once other values have decided the same sizes before."""
    sign = "(int64 a, int64 b) => (int64[n] y) <int64 a = {1}, int64 c = {1}>"
    engine = make_engine(load(model(sign, "r = Range(a, b, c) y = Neg(r)")), kind)
    for a, b in ((None, 4), (0, 4), (None, 2), (3, 5), (None, 4), (2, 4)):
        feeds = {"b": np.array(b)} | ({} if a is None else {"a": np.array(a)})
        assert engine.run(feeds)["y"].tolist() == [-x for x in range(1 if a is None else a, b)]


@pytest.mark.parametrize("trips", ["n", '""'])
def test_a_loop_that_carries_nothing(trips: str) -> None:
    body = f"""y = Loop({trips}, "") <body = b (int64 i, bool c) => (bool d, int64 j) {{
      two = Constant<value_int = 2>()
      d = Less(i, two)
      j = Add(i, i)
    }}>"""
    (y,) = both(model("(int64 n) => (int64[m] y)", body), {"n": np.array(9)})
    assert y.tolist() == [0, 2, 4]


@pytest.mark.parametrize(
    ("kind", "value"),
    [("string[2]", np.array(["a", "b"], object)), ("seq(float[2])", [np.ones(2, np.float32)])],
)
def test_what_no_operation_reads_is_handed_on(kind: str, value: Any) -> None:
    """Also where all that is computed lies in M."""
    proto = model(f"({kind} t, float[2] x) => (float[2] y, {kind} t)", "y = Neg(x)")
    _, found = both(proto, {"x": np.ones(2, np.float32), "t": value})
    assert list(map(str, found)) == list(map(str, value))
    with pytest.raises(UnsupportedModel, match="'t'"):
        lower(load(proto))


@pytest.mark.parametrize(("states", "rows"), [(2, 3), (3, 2)])
def test_a_scan_whose_state_has_another_batch_is_refused(states: int, rows: int) -> None:
    body = """s, y = Scan<num_scan_inputs = 1, body = b (float a, float e) => (float t, float r) {
      t = Add(a, e)
      r = Neg(t)
    }>("", k, x)"""
    graph = load(model("(float[a] k, float[b, 1] x) => (float[a] s, float[b, 1] y)", body, 8))
    feeds = {"k": np.ones(states, np.float32), "x": np.ones((rows, 1), np.float32)}
    with pytest.raises(RunError, match="batches"):
        Machine(graph).run(feeds)
