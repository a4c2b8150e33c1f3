"""The run-time monitor: what is seen, and what is done about it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.helper import make_node

from sardonyx import types as t
from sardonyx.checker import all_rules, check
from sardonyx.checker.finding import Decided
from sardonyx.checker.samples import model
from sardonyx.errors import FeedError, RunError
from sardonyx.graph import Graph
from sardonyx.kernel import elementary
from sardonyx.kernel.build import Builder, operand
from sardonyx.kernel.expr import Expr, cast
from sardonyx.kernel.interpret import evaluate
from sardonyx.kernel.ir import Kernel
from sardonyx.kernel.obligations import obligations
from sardonyx.kernel.verify import verify
from sardonyx.loading import load
from sardonyx.machine import Machine
from sardonyx.monitor import Monitor, Policy, policy_of
from sardonyx.resolve import graph_from_nodes
from sardonyx.types import Array, DType, TensorType
from sardonyx.watched import WatchedEngine

EXACT: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
}


def pairwise(dtype: DType, function: Callable[[Expr, Expr], Expr]) -> Kernel:
    """f on all pairs of two rows."""
    k = Builder(1)
    a, b = operand("a", dtype, (1,)), operand("b", dtype, (1,))
    return k.kernel("f", [a, b], [k.compute((1,), lambda i: function(a[i], b[i]))])


def raised(kernel: Kernel, *inputs: Array) -> list[int]:
    check = obligations(kernel)
    assert check is not None
    verify(check)
    found: list[int] = evaluate(check, inputs)[0].tolist()
    return found


@pytest.mark.parametrize("dtype", [t.int8, t.uint8, t.int32, t.int64, t.uint64], ids=str)
@pytest.mark.parametrize("op", EXACT)
@settings(max_examples=60)
@given(data=st.data())
def test_arithmetic_wraps_just_where_the_exact_result_does_not_fit(
    dtype: DType, op: str, data: st.DataObject
) -> None:
    near = st.sampled_from([dtype.min, dtype.max, 0, 1, dtype.max // 2, 3]).map(int)
    value = st.one_of(near, st.integers(dtype.min, dtype.max))
    a, b = data.draw(value), data.draw(value)
    kernel = pairwise(dtype, EXACT[op])
    wraps = not dtype.min <= EXACT[op](a, b) <= dtype.max
    given_ = [np.array([v], dtype.numpy) for v in (a, b)]
    assert raised(kernel, *given_) == [0, wraps, 0, 0]


@pytest.mark.parametrize(
    ("a", "b", "flags"),
    [(7, 2, [0, 0]), (7, 0, [0, 1]), (-128, -1, [1, 0]), (-128, 1, [0, 0])],
)
def test_division_by_zero_and_of_the_least_value_are_seen(a: int, b: int, flags: list[int]) -> None:
    kernel = pairwise(t.int8, lambda x, y: x / y)
    assert raised(kernel, np.array([a], np.int8), np.array([b], np.int8)) == [0, *flags, 0]


@pytest.mark.parametrize("dtype", [t.int32, t.int64], ids=str)
@pytest.mark.parametrize("large", [False, True])
def test_a_sum_of_products_wraps_where_its_value_does_not_fit(dtype: DType, large: bool) -> None:
    k = Builder(1)
    a, b = operand("a", dtype, (2, 4)), operand("b", dtype, (4, 3))
    y = k.compute((2, 3), lambda i, j: k.dot((4,), lambda q: (a[i, q], b[q, j])))
    x = np.full((2, 4), 1 << (dtype.bits // 2 - 2), dtype.numpy)
    w = np.full((4, 3), 1 << (dtype.bits // 2 - 2 + large), dtype.numpy)
    assert raised(k.kernel("mm", [a, b], [y]), x, w) == [0, large, 0, 0]


def test_what_is_inside_of_an_elementary_function_has_no_obligations() -> None:
    k = Builder(1)
    x = operand("x", t.float32, (4,))
    y = k.compute((4,), lambda i: elementary.tanh(x[i]))
    assert obligations(k.kernel("tanh", [x], [y])) is None


@pytest.mark.parametrize("dtype", [t.float32, t.float64], ids=str)
@pytest.mark.parametrize("op", ["mul", "div"])
@settings(max_examples=80)
@given(data=st.data())
def test_a_result_underflows_just_where_it_is_0_and_exactly_is_not(
    dtype: DType, op: str, data: st.DataObject
) -> None:
    width = dtype.bits
    small = st.floats(-(2.0**-70), 2.0**-70, width=width)
    a, b = (data.draw(st.one_of(small, st.floats(width=width))) for _ in range(2))
    kernel = pairwise(dtype, (lambda x, y: x * y) if op == "mul" else (lambda x, y: x / y))
    given_ = [np.array([v], dtype.numpy) for v in (a, b)]
    result = float(evaluate(kernel, given_)[0][0])
    finite = math.isfinite(a) and math.isfinite(b)
    exact = finite and a != 0 and (op == "div" or b != 0)
    assert raised(kernel, *given_) == [result == 0 and exact, 0, 0, 0]


@pytest.mark.parametrize(
    ("function", "x", "y", "underflows"),
    [
        *[("exp", x, 0, f) for x, f in ((-103, 0), (-110, 1), (-math.inf, 0), (math.nan, 0))],
        *[("exp2", x, 0, f) for x, f in ((-149, 0), (-151, 1), (-math.inf, 0))],
        *[("sigmoid", x, 0, f) for x, f in ((-103, 0), (-110, 1), (-math.inf, 0))],
        *[("pow", 0.5, y, f) for y, f in ((149, 0), (151, 1), (math.inf, 0))],
        *[("pow", x, -2, f) for x, f in ((math.inf, 0), (1e30, 1), (1e20, 0))],
        *[("pow", 0, y, f) for y, f in ((2, 0), (0, 0))],
    ],
)
def test_a_function_underflows_where_it_is_0_and_exactly_is_not(
    function: str, x: float, y: float, underflows: int
) -> None:
    made = getattr(elementary, function)
    kernel = pairwise(t.float32, made if function == "pow" else lambda x, y: made(x) + y)
    found = raised(kernel, np.array([x], np.float32), np.array([y], np.float32))
    assert found == [underflows, 0, 0, 0]


def test_what_underflows_on_the_way_to_another_result_is_not_told() -> None:
    kernel = pairwise(t.float32, lambda x, y: elementary.exp(x) + y)
    x = np.array([-110], np.float32)
    assert [raised(kernel, x, np.array([y], np.float32))[0] for y in (0, 5)] == [1, 0]


def test_a_conversion_underflows_and_what_a_fold_adds_up_does_not() -> None:
    k = Builder(1)
    x = operand("x", t.float32, (3,))
    half = k.compute((3,), lambda i: cast(x[i], t.float16))
    total = k.compute((), lambda: k.sum((3,), lambda i: x[i] * x[i]))
    tiny = np.array([1, 1e-30, 0], np.float32)
    assert raised(k.kernel("half", [x], [half]), tiny) == [1, 0, 0, 0]
    assert raised(k.kernel("half", [x], [half]), np.array([1, 1e-6, 0], np.float32)) == [0] * 4
    assert obligations(k.kernel("total", [x], [total])) is None


def network(op: str, dtype: DType, name: str = "it") -> Graph:
    return graph_from_nodes(
        [make_node(op, ["a", "b"], ["y"], name=name)],
        types={n: TensorType(dtype, (3,)) for n in "ab"},
    )


def seen(op: str, dtype: DType, a: list[float], b: list[float]) -> list[str]:
    monitor = Monitor()
    feeds = {"a": np.array(a, dtype.numpy), "b": np.array(b, dtype.numpy)}
    Machine(network(op, dtype), monitor=monitor).run(feeds)
    return [finding.kind for finding in monitor.findings]


INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize(
    ("op", "a", "b", "kinds"),
    [
        ("Div", [1, 2, 3], [1, 1, 1], []),
        ("Div", [1, 2, 3], [1, 0, 1], ["infinity"]),
        ("Div", [1, 0, 3], [1, 0, 1], ["nan"]),
        ("Div", [1, 0, 3], [0, 0, 1], ["nan", "infinity"]),
        ("Add", [INF, 0, 3], [0, 0, 1], []),
        ("Add", [NAN, 0, 3], [0, 0, 1], []),
        ("Sub", [INF, 0, 3], [INF, 0, 1], ["nan"]),
        ("Mul", [3e38, 0, 3], [3e38, 0, 1], ["infinity"]),
    ],
)
def test_special_values_that_an_operation_makes_are_seen(
    op: str, a: list[float], b: list[float], kinds: list[str]
) -> None:
    assert seen(op, t.float32, a, b) == kinds


def test_integers_are_seen_as_the_machine_runs() -> None:
    assert seen("Add", t.int32, [2**31 - 1, 0, 0], [1, 0, 0]) == ["wrap"]
    assert seen("Div", t.int32, [1, 0, 0], [1, 0, 1]) == ["division"]


def test_an_index_out_of_range_is_noted_and_ends_the_run() -> None:
    graph = graph_from_nodes(
        [make_node("Gather", ["a", "b"], ["y"])],
        types={"a": TensorType(t.float32, (3,)), "b": TensorType(t.int64, (1,))},
    )
    monitor = Monitor()
    with pytest.raises(RunError, match="out of bounds"):
        Machine(graph, monitor=monitor).run({"a": np.zeros(3, np.float32), "b": np.array([7])})
    assert [f.kind for f in monitor.findings] == ["index"]


def test_a_policy_stops_ignores_and_records_by_kind_node_and_operator() -> None:
    graph = network("Div", t.float32)
    feeds = {"a": np.ones(3, np.float32), "b": np.zeros(3, np.float32)}
    with pytest.raises(RunError, match="the monitor stopped at infinity"):
        Machine(graph, monitor=Monitor(policy_of(["infinity=stop"]))).run(feeds)
    for text in ("infinity=ignore", "it:infinity=ignore", "Div:infinity=ignore"):
        ignoring = Monitor(policy_of(["nan=stop", text]))
        Machine(graph, monitor=ignoring).run(feeds)
        assert not ignoring.findings
    recording = Monitor(policy_of(["infinity=stop", "it:infinity=record"]))
    Machine(graph, monitor=recording).run(feeds)
    assert [str(f) for f in recording.findings] == ["step 0, Div 'it': infinity"]


def domains(op: str, dtype: DType, *operands: object) -> list[str]:
    """The flags of an operator on operands, by the machine and by the watched engine."""
    names = "abc"[: len(operands)]
    feeds = {n: np.array(x, dtype.numpy) for n, x in zip(names, operands, strict=True)}
    graph = graph_from_nodes(
        [make_node(op, list(names), ["y"])],
        types={n: TensorType(dtype, x.shape) for n, x in feeds.items()},
    )
    found = []
    for run in (
        lambda m: Machine(graph, monitor=m).run(feeds),
        lambda m: WatchedEngine(graph, m).run(feeds),
    ):
        run(monitor := Monitor())
        found.append([finding.kind for finding in monitor.findings])
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize(
    ("op", "dtype", "operands", "kinds"),
    [
        ("Log", t.float32, [[1, 2, INF]], []),
        ("Log", t.float32, [[1, 0, INF]], ["domain"]),  # the infinity might have come in
        ("Log", t.float16, [[1, -1]], ["nan", "domain"]),
        ("Sqrt", t.float64, [[0, -0.0, 1]], []),
        ("Sqrt", t.float64, [[-1, NAN]], ["domain"]),
        ("Pow", t.int32, [[2, 3], [1, 0]], []),
        ("Pow", t.int32, [[2, 3], [1, -1]], ["domain"]),
        ("Clip", t.float32, [[1, 2], 0, 1], []),
        ("Clip", t.float32, [[1, 2], -0.0, 0.0], []),
        ("Clip", t.float32, [[1, 2], 0.0, -0.0], ["domain"]),
        ("Clip", t.float32, [[1, 2], 2, 1], ["domain"]),
        ("Clip", t.float32, [[1, 2], NAN, 1], ["domain"]),
        ("Clip", t.int8, [[1, 2], 2, 1], ["domain"]),
        ("Clip", t.int8, [[1, 2], 1, 1], []),
        ("Mul", t.float32, [[1e-30, 0], [1e-30, 1]], ["underflow"]),
        ("Mul", t.float32, [[1e-10, 0], [1e-30, 1]], []),
        ("Div", t.float64, [[1e-300, 0], [1e300, 1]], ["underflow"]),
        ("Mul", t.float16, [[1e-4, 0], [1e-4, 1]], ["underflow"]),
        ("Exp", t.float32, [[-110, 0]], ["underflow"]),
        ("Softplus", t.float32, [[-110, 0]], ["underflow"]),
        ("Elu", t.float32, [[-110, 0]], []),
    ],
)
def test_what_an_operation_must_not_be_given_or_lose_is_seen_in_both_engines(
    op: str, dtype: DType, operands: list[object], kinds: list[str]
) -> None:
    assert domains(op, dtype, *operands) == kinds


BINARY = "g (int32[2] a, int32[2] b) => (int32[2] y) {{ y = {} (a, b) }}"
UNARY = "g ({0}[2] a) => ({0}[2] y) {{ y = {1} (a) }}"
LEFT = {  # what the checker leaves to run time: a model, and a run of it that breaks the rule
    "Clip.2": ("g (float[2] a, float b, float c) => (float[2] y) { y = Clip (a, b, c) }",
               t.float32, [1, 2], 3, 1),
    "Div.1": (BINARY.format("Div"), t.int32, [1, 2], [1, 0]),
    "Div.2": (BINARY.format("Div"), t.int32, [1, -(2**31)], [1, -1]),
    "Abs.1": (UNARY.format("int8", "Abs"), t.int8, [1, -128]),
    "Pow.1": (BINARY.format("Pow"), t.int32, [1, 2], [1, -1]),
    "Log.1": (UNARY.format("float", "Log"), t.float32, [1, 0]),
    "Sqrt.1": (UNARY.format("float", "Sqrt"), t.float32, [1, -1]),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT)
def test_what_the_checker_leaves_to_run_time_is_seen_there(name: str) -> None:
    text, dtype, *operands = LEFT[name]
    proto = model(text)
    left = [f for f in check(proto).of(name) if f.decided == Decided.AT_RUN_TIME]
    assert left
    feeds = {n: np.array(v, dtype.numpy) for n, v in zip("abc", operands, strict=False)}
    graph = load(proto)
    for engine in (lambda m: Machine(graph, monitor=m), lambda m: WatchedEngine(graph, m)):
        engine(monitor := Monitor()).run(feeds)
        assert {f.monitor for f in left} <= {f.kind for f in monitor.findings}


def test_every_rule_about_values_is_among_them() -> None:
    rules = {r.id for r in all_rules() if r.check.__module__.endswith(".domains")}
    assert rules == set(LEFT)


def test_a_result_without_elements_is_seen() -> None:
    at = {"s": [2], "e": [2]}
    nodes = [make_node("Slice", ["a", "s", "e"], ["b"]), make_node("Relu", ["b"], ["y"])]
    types = {"a": TensorType(t.float32, (3,)), **{n: TensorType(t.int64, (1,)) for n in at}}
    graph = graph_from_nodes(nodes, types=types)
    feeds = {"a": np.ones(3, np.float32), **{n: np.array(v) for n, v in at.items()}}
    for engine in (lambda m: Machine(graph, monitor=m), lambda m: WatchedEngine(graph, m)):
        engine(monitor := Monitor()).run(feeds)
        assert [str(f) for f in monitor.findings] == ["step 0, Slice '#0': empty"]


STAGED = """<ir_version: 10, opset_import: ["" : 22]>
g (int32[4] x, int64 n) => (int32[k] y, int64[1, j] z) {
  true = Constant <value = bool {1}> ()
  y = Loop (n, true, x) <body = b (int64 i, bool c, int32[4] v) => (bool d, int32[4] w) {
    d = Identity (c)
    w = Mul (v, v)
  }>
  z = NonZero (y)
}"""


def test_a_graph_in_stages_is_watched_in_both_engines() -> None:
    """The steps count as a trace counts them; a subgraph's operations raise flags each time."""
    graph = load(onnx.parser.parse_model(STAGED))
    feeds = {"x": np.array([70000, 1, 0, 3], np.int32), "n": np.array(2)}
    found = []
    for engine in (lambda m: Machine(graph, monitor=m), lambda m: WatchedEngine(graph, m)):
        monitor = Monitor()
        outputs = engine(monitor).run(feeds)
        found.append(([str(f) for f in monitor.findings], monitor.steps, outputs["y"].tolist()))
    assert found[0] == found[1]
    assert found[0][0] == ["step 2, Mul '#1.1': wrap", "step 4, Mul '#1.1': wrap"]
    assert found[0][1] == 8


@pytest.mark.parametrize("text", ["nan", "nan=halt", "overflow=stop", "", ":nan=stop"])
def test_a_policy_that_cannot_be_read_is_an_error(text: str) -> None:
    with pytest.raises(FeedError, match="expected"):
        policy_of([text])


def test_the_default_is_to_record() -> None:
    assert Policy().mode(network("Add", t.int8).operations[0], "wrap") == "record"
