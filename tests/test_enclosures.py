"""Enclosures hold exact results, elementary functions are recognised, bounds hold of networks."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.helper import make_node

from sardonyx import types as t
from sardonyx.accuracy.double import exact, reference
from sardonyx.accuracy.shadow import shadow
from sardonyx.cli import main
from sardonyx.errors import UnsupportedModel
from sardonyx.kernel import elementary
from sardonyx.kernel.build import Builder, operand
from sardonyx.kernel.enclose import DOMAIN
from sardonyx.kernel.expr import Alu, Axis, Buffer, Const, Expr, Load, alu, cast, where
from sardonyx.kernel.interpret import evaluate
from sardonyx.kernel.intervals import intervals
from sardonyx.kernel.ir import Kernel
from sardonyx.kernel.recognise import calls
from sardonyx.kernel.verify import verify
from sardonyx.machine import Machine
from sardonyx.resolve import graph_from_nodes
from sardonyx.types import Array, TensorType

DIGITS = Path(__file__).parents[1] / "examples" / "digits"
UNARY = [name for name in elementary.__all__ if name != "pow"]
NUMBER = st.one_of(
    st.floats(-4, 4), st.floats(-1e-300, 1e-300), st.floats(allow_nan=False, allow_infinity=False)
)


def applied(f: Callable[..., Expr], count: int, n: int = 1) -> Kernel:
    """f of `count` tensors, element by element."""
    k = Builder(1)
    xs = [operand(f"x{i}", t.float64, (n,)) for i in range(count)]
    return k.kernel("f", xs, [k.compute((n,), lambda i: f(*(x[i] for x in xs)))])


def ends(kernel: Kernel, *arrays: tuple[Array, Array]) -> tuple[Array, Array]:
    made = intervals(kernel)
    verify(made.kernel)
    low, high = evaluate(made.kernel, [end for pair in arrays for end in pair])
    return low, high


@pytest.mark.parametrize("name", elementary.__all__)
@pytest.mark.parametrize("dtype", [t.float32, t.float64], ids=str)
def test_every_elementary_function_is_recognised(name: str, dtype: t.DType) -> None:
    b, i = Buffer("b", dtype, (4,)), Axis("i", 4)
    args = [Load(b, (i,)), Load(b, (Const(0, t.int64),)) + 1.0][: 2 if name == "pow" else 1]
    e = getattr(elementary, name)(*args)
    found = calls([e * 2.0])
    assert list(found) == [e]
    assert found[e] == (name, tuple(args))


def test_a_power_of_a_constant_exponent_is_recognised() -> None:
    x = Load(Buffer("b", t.float32, (4,)), (Axis("i", 4),))
    e = elementary.pow(x, Const(0.75, t.float32))
    ((name, (base, exponent)),) = calls([e]).values()
    assert (name, base) == ("pow", x)
    assert isinstance(exponent, Const)
    assert exponent.value == 0.75


def test_what_is_nearly_a_function_is_none() -> None:
    b, i = Buffer("b", t.float32, (4,)), Axis("i", 4)
    e = elementary.exp(Load(b, (i,)))
    assert isinstance(e, Alu)
    assert not calls([Alu("add", e.args, e.dtype)])


@pytest.mark.parametrize("name", UNARY)
@settings(max_examples=40)
@given(data=st.data())
def test_the_enclosure_of_a_function_holds_its_values(name: str, data: st.DataObject) -> None:
    bottom, top = DOMAIN.get(name, (None, None))
    size = data.draw(st.sampled_from([1e-8, 1.0, 30.0, 800.0]))
    low = -size if bottom is None else bottom
    high = size if top is None else top
    if bottom is not None and top is None:
        high = bottom + size
    a, b = sorted(data.draw(st.floats(low, high)) for _ in range(2))
    if data.draw(st.booleans()):
        b = a
    found = ends(applied(getattr(elementary, name), 1), (np.array([a]), np.array([b])))
    inside = [a, b, min(b, a + (b - a) * data.draw(st.floats(0, 1)))]
    singular = {"log": 0.0, "log2": 0.0, "log1p": -1.0}.get(name)
    for x in inside:
        if x == singular or (name == "atanh" and abs(x) == 1):
            continue
        with mpmath.workprec(200):
            value = exact(reference(name), [x])
            assert found[0][0] <= value <= found[1][0], (x, value)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "fma"])
@settings(max_examples=100)
@given(data=st.data())
def test_the_enclosure_of_arithmetic_holds_the_exact_result(op: str, data: st.DataObject) -> None:
    count = 3 if op == "fma" else 2
    pairs = [sorted(data.draw(NUMBER) for _ in range(2)) for _ in range(count)]
    arrays = [(np.array([a]), np.array([b])) for a, b in pairs]
    low, high = ends(applied(lambda *x: alu(op, *x), count), *arrays)
    xs = [Fraction(data.draw(st.sampled_from(pair))) for pair in pairs]
    if op == "div" and xs[1] == 0:
        assert (low[0], high[0]) == (-np.inf, np.inf)
        return
    value = {
        "add": lambda: xs[0] + xs[1],
        "sub": lambda: xs[0] - xs[1],
        "mul": lambda: xs[0] * xs[1],
        "div": lambda: xs[0] / xs[1],
        "fma": lambda: xs[0] * xs[1] + xs[2],
    }[op]()
    assert low[0] <= value
    assert value <= high[0]


@settings(max_examples=60)
@given(data=st.data())
def test_a_power_of_any_base_holds_its_values(data: st.DataObject) -> None:
    a, b = sorted(data.draw(st.floats(-50, 50)) for _ in range(2))
    y = float(data.draw(st.integers(0, 7)))
    arrays = [(np.array([a]), np.array([b])), (np.array([y]), np.array([y]))]
    low, high = ends(applied(elementary.pow, 2), *arrays)
    for x in (a, b, (a + b) / 2):
        assert low[0] <= Fraction(x) ** int(y) <= high[0]


@pytest.mark.parametrize("kind", ["dot", "sum"])
@settings(max_examples=40)
@given(data=st.data())
def test_the_enclosure_of_a_sum_holds_the_exact_sum(kind: str, data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 40))
    row = st.lists(st.floats(-1e20, 1e20), min_size=n, max_size=n)
    x, w = np.array(data.draw(row)), np.array(data.draw(row))
    k = Builder(1)
    a, b = operand("a", t.float64, (n,)), operand("b", t.float64, (n,))

    def term(r: Expr) -> object:
        return (a[r], b[r]) if kind == "dot" else a[r] * b[r]

    y = k.compute((1,), lambda i: k.fold(kind, (n,), term))
    low, high = ends(k.kernel("f", [a, b], [y]), (x, x), (w, w))
    value = sum(Fraction(p) * Fraction(q) for p, q in zip(x.tolist(), w.tolist(), strict=True))
    assert low[0] <= value <= high[0]


def test_a_choice_that_is_open_encloses_both() -> None:
    kernel = applied(lambda x: where(x < 1.0, x * 2.0, 10.0), 1, 3)
    low, high = ends(kernel, (np.array([0.0, 0.0, 2.0]), np.array([0.5, 3.0, 3.0])))
    assert low.tolist()[2] == high.tolist()[2] == 10
    assert low[1] <= 0
    assert high[1] >= 10
    assert abs(high[0] - 1) < 1e-12


def test_an_integer_that_depends_on_a_float_is_not_followed() -> None:
    kernel = applied(lambda x: cast(cast(x, t.int32), t.float64), 1)
    with pytest.raises(UnsupportedModel, match="depends on a float"):
        intervals(kernel)


def test_the_bound_holds_of_a_product_and_a_softmax() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 9)).astype("f4"), rng.normal(size=(9, 5)).astype("f4")
    graph = graph_from_nodes(
        [make_node("MatMul", ["x", "w"], ["h"]), make_node("Softmax", ["h"], ["y"], axis=1)],
        {"w": w},
        types={"x": TensorType(t.float32, (2, 9))},
    )
    value = Machine(graph).run({"x": x})["y"]
    rows = {row.tensor: row for row in shadow(graph, {"x": x})}
    with mpmath.workprec(200):
        worst = 0
        for i in range(2):
            h = [
                sum(mpmath.mpf(float(a)) * float(b) for a, b in zip(x[i], w[:, j], strict=True))
                for j in range(5)
            ]
            e = [mpmath.exp(v) for v in h]
            worst = max(worst, *(abs(float(value[i, j]) - e[j] / sum(e)) for j in range(5)))
        assert worst <= rows["y"].error <= 1.0001 * worst + 1e-12
    assert rows["y"].likely <= rows["y"].error


@pytest.mark.parametrize("columns", [1, 2])
def test_the_enclosure_of_a_running_product_holds_it(columns: int) -> None:
    x = np.array([[0.7, -0.3], [-1.3, 1.9], [-0.6, -2.1], [1.1, -0.2]], np.float32)[:, :columns]
    graph = graph_from_nodes(
        [make_node("CumProd", ["x", "axis"], ["y"])],
        {"axis": np.array(0)},
        types={"x": TensorType(t.float32, x.shape)},
    )
    value = Machine(graph).run({"x": x})["y"]
    (row,) = shadow(graph, {"x": x})
    worst = 0.0
    for j in range(columns):
        product = Fraction(1)
        for i in range(4):
            product *= Fraction(float(x[i, j]))
            worst = max(worst, float(abs(product - Fraction(float(np.asarray(value)[i, j])))))
    assert worst <= row.error <= worst + 1e-14


@pytest.mark.parametrize(
    ("dtype", "x", "least"), [(np.float64, 1e-310, 5e-324), (np.float32, 1e-42, 2.0**-149)]
)
def test_the_unit_of_a_subnormal_is_the_least(dtype: type, x: float, least: float) -> None:
    value = np.array([x], dtype)
    own = t.by_numpy(value.dtype)
    assert own is not None
    nodes = [make_node("Add", ["x", "x"], ["y"])]
    (row,) = shadow(graph_from_nodes(nodes, types={"x": TensorType(own, (1,))}), {"x": value})
    assert row.error > 0
    assert row.ulps == row.error / least


def test_what_cannot_be_followed_has_no_bound_and_says_why() -> None:
    graph = graph_from_nodes(
        [make_node("Cast", ["x"], ["i"], to=6), make_node("Cast", ["i"], ["z"], to=1),
         make_node("CumProd", ["x", "axis"], ["y"])],
        {"axis": np.array(0)},
        types={"x": TensorType(t.float32, (3,))},
    )  # fmt: skip
    rows = {row.tensor: row for row in shadow(graph, {"x": np.array([1.5, 2, 3], np.float32)})}
    assert rows["z"].error <= 1e-300
    assert "i" not in rows


def test_the_command_bounds_the_digits(capsys: pytest.CaptureFixture[str]) -> None:
    model, feed = str(DIGITS / "digits.onnx"), str(DIGITS / "digit.npz")
    assert main(["accuracy", model, "--dim", "N=1", "--input", feed]) == 0
    scores = next(x for x in capsys.readouterr().out.splitlines() if "scores" in x).split()
    assert float(scores[-2]) < 1e-7
