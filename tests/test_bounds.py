"""Bounds over ranges of inputs hold of every input that is tried."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import NodeProto
from onnx.helper import make_node

from sardonyx import types as t
from sardonyx.accuracy.ranges import ranged
from sardonyx.cli import main
from sardonyx.errors import FeedError
from sardonyx.kernel import elementary
from sardonyx.kernel.bounds import bounds
from sardonyx.kernel.build import Builder, operand
from sardonyx.kernel.expr import Expr, alu, where
from sardonyx.kernel.interpret import evaluate
from sardonyx.kernel.verify import verify
from sardonyx.loading import load
from sardonyx.machine import Machine
from sardonyx.resolve import graph_from_nodes
from sardonyx.types import Array, TensorType

DIGITS = Path(__file__).parents[1] / "examples" / "digits"
Reals = Callable[[Array], Array]
RNG = np.random.default_rng(0)
W = RNG.normal(size=(6, 4)).astype(np.float32)
B = RNG.normal(size=4).astype(np.float32)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def layer(op: str, *more: str, **attributes: object) -> list[NodeProto]:
    return [make_node(op, ["x", *more], ["y"], **attributes)]


WIDE, WIDE_B = W.astype(np.longdouble), B.astype(np.longdouble)
NETWORKS: dict[str, tuple[list[NodeProto], Reals]] = {
    "gemm": (layer("Gemm", "w", "b"), lambda x: x @ WIDE + WIDE_B),
    "relu": (layer("Relu"), lambda x: np.maximum(x, 0)),
    "leaky": (layer("LeakyRelu", alpha=0.25), lambda x: np.where(x < 0, x / 4, x)),
    "exp": (layer("Exp"), np.exp),
    "sigmoid": (layer("Sigmoid"), lambda x: 1 / (1 + np.exp(-x))),
    "tanh": (layer("Tanh"), np.tanh),
    "softmax": (layer("Softmax", axis=-1), softmax),
    "mean": (layer("ReduceMean", keepdims=0), lambda x: np.asarray(x.mean())),
    "product": (layer("Mul", "x"), lambda x: x * x),
    "root": ([make_node("Abs", ["x"], ["a"]), make_node("Sqrt", ["a"], ["y"])],
             lambda x: np.sqrt(abs(x))),
    "net": ([make_node("MatMul", ["x", "w"], ["h"]), make_node("Tanh", ["h"], ["g"]),
             make_node("Add", ["g", "b"], ["s"]), make_node("Softmax", ["s"], ["y"], axis=-1)],
            lambda x: softmax(np.tanh(x @ WIDE) + WIDE_B)),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
@settings(max_examples=15)
@given(data=st.data())
def test_every_input_of_the_range_is_within_the_bounds(name: str, data: st.DataObject) -> None:
    nodes, reals = NETWORKS[name]
    used = {n for node in nodes for n in node.input}
    weights = {n: v for n, v in {"w": W, "b": B}.items() if n in used}
    graph = graph_from_nodes(nodes, weights, types={"x": TensorType(t.float32, (2, 6))})
    low = data.draw(st.floats(-3, 3))
    high = low + data.draw(st.sampled_from([0.0, 1e-3, 1.0, 4.0]))
    low32, high32 = np.float32(low), np.float32(high)
    row = list(ranged(graph, {"x": (float(low32), float(high32))}, {}))[-1]
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))
    for _ in range(5):
        x = rng.uniform(low32, high32, (2, 6)).astype(np.float32).clip(low32, high32)
        exact = reals(x.astype(np.longdouble))
        found = np.asarray(Machine(graph).run({"x": x})["y"]).astype(np.longdouble)
        assert (row.low <= exact + 1e-16).all()
        assert (exact - 1e-16 <= row.high).all()
        assert (abs(found - exact) <= row.error + 1e-17).all()
    if high == low:
        assert row.error < 1e-3


@pytest.mark.parametrize(
    ("f", "x", "error"),
    [
        (lambda x: x * 2.0, (1.0, 1.0), 1e-6),
        (lambda x: x * 1e30 * 1e30, (1.0, 1.0), np.inf),
        (lambda x: elementary.sin(x * 1e30 * 1e30), (1.0, 1.0), np.inf),
        (lambda x: 1.0 / x, (-1.0, 1.0), np.inf),
        (lambda x: alu("sqrt", x), (-1.0, 1.0), np.inf),
        (lambda x: where(x < 1.0, x, 10.0), (0.0, 0.5), 1e-6),
        (lambda x: where(x + 1e-9 < 1.0, x, 10.0), (0.0, 1.0), 20.0),
        (lambda x: where(alu("isnan", x / x), x * 0.0 + 5.0, x * 0.0 + 6.0), (-1.0, 1.0), 2.0),
    ],
)
def test_what_may_go_wrong_is_in_the_error(
    f: Callable[[Expr], Expr], x: tuple[float, float], error: float
) -> None:
    k = Builder(1)
    a = operand("a", t.float32, (1,))
    made = bounds(k.kernel("f", [a], [k.compute((1,), lambda i: f(a[i]))]))
    verify(made.kernel)
    found = evaluate(made.kernel, [np.array([x[0]]), np.array([x[1]]), np.zeros(1)])
    assert found[2][0] <= error
    assert found[2][0] >= (error if error > 1e-6 and error != 20.0 else 0) * 0.49


def test_a_power_of_a_zero_with_a_sign_has_no_upper_end() -> None:
    graph = graph_from_nodes(
        [make_node("Neg", ["x"], ["n"]), make_node("Pow", ["n", "e"], ["y"])],
        {"e": np.array([-1], np.float32)},
        types={"x": TensorType(t.float32, (1,))},
    )
    row = list(ranged(graph, {"x": (-2, 0)}, {}))[-1]
    assert row.high == np.inf


@pytest.mark.parametrize(
    ("source", "target", "x"),
    [
        (t.bfloat16, t.float16, 1e5),
        (t.bfloat16, t.float16, 1e-9),
        (t.float8e4m3fn, t.float8e5m2, 1.125),
        (t.float8e8m0, t.float16, 2.0**17),
    ],
)
def test_a_cast_to_what_does_not_hold_the_value_rounds(
    source: t.DType, target: t.DType, x: float
) -> None:
    graph = graph_from_nodes(
        [make_node("Cast", ["x"], ["y"], to=target.onnx)],
        types={"x": TensorType(source, (1,))},
    )
    value = np.array([x]).astype(source.numpy)
    exact = float(value[0])
    found = float(np.asarray(Machine(graph).run({"x": value})["y"]).astype(np.float64)[0])
    (row,) = ranged(graph, {"x": (exact, exact)}, {})
    assert found != exact
    assert abs(found - exact) <= row.error


@pytest.mark.parametrize("test", ["IsNaN", "LessOrEqual"])
def test_what_a_nan_decides_has_no_bound_where_one_may_be(test: str) -> None:
    graph = graph_from_nodes(
        [make_node("Exp", ["x"], ["e"]), make_node("Sub", ["e", "e"], ["z"]),
         make_node(test, ["z"] if test == "IsNaN" else ["z", "far"], ["c"]),
         make_node("Where", ["c", "one", "two"], ["y"])],
        {n: np.array([v], np.float32) for n, v in {"one": 1, "two": 2, "far": np.inf}.items()},
        types={"x": TensorType(t.float32, (1,))},
    )  # fmt: skip
    results = {float(Machine(graph).run({"x": np.array([x], "f4")})["y"][0]) for x in (0, 200)}
    assert results == {1.0, 2.0}
    assert list(ranged(graph, {"x": (0, 200)}, {}))[-1].error == np.inf


def test_a_range_may_lie_beyond_the_type_of_its_input() -> None:
    nodes = [make_node("Exp", ["x"], ["y"])]
    graph = graph_from_nodes(nodes, types={"x": TensorType(t.float16, (1,))})
    (row,) = ranged(graph, {"x": (1e6, 2e6)}, {})
    assert row.error == np.inf


def test_the_digits_are_bounded_for_every_image() -> None:
    graph = load(DIGITS / "digits.onnx", dims={"N": 1})
    rows = {row.tensor: row for row in ranged(graph, {"image": (0, 16)}, {})}
    assert rows["x0"].high < 1.0001
    assert rows["logits"].error < 0.1
    with np.load(DIGITS / "test.npz") as archive:
        images = archive["images"][:5].astype(np.float32)
    for image in images:
        logits = np.asarray([_logits(graph, image)])
        assert rows["logits"].low < logits.min()
        assert logits.max() < rows["logits"].high


def _logits(graph: object, image: Array) -> Array:
    machine = Machine(graph).start({"image": image.reshape(1, 1, 8, 8)})
    while (record := machine.step()) is not None:
        if record.writes[0].name == "logits":
            break
    return np.asarray(machine.value("logits"))


def test_the_command_takes_ranges(capsys: pytest.CaptureFixture[str]) -> None:
    model = str(DIGITS / "digits.onnx")
    assert main(["accuracy", model, "--dim", "N=1", "--range", "0:16"]) == 0
    assert "logits" in capsys.readouterr().out
    assert main(["accuracy", model, "--dim", "N=1", "--range", "x=0:16"]) == 2
    assert main(["accuracy", model, "--dim", "N=1", "--range", "0"]) == 2
    with pytest.raises(FeedError, match="low end"):
        list(ranged(load(model, dims={"N": 1}), {"image": (1, 0)}, {}))
