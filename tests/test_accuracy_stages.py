"""Bounds on errors hold where data decide branches, trips and sizes; an open choice has none."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import onnx.parser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sardonyx.accuracy.ranges import ranged
from sardonyx.accuracy.shadow import Row, shadow
from sardonyx.graph import Graph
from sardonyx.kernel.build import Builder, operand
from sardonyx.kernel.decide import followed
from sardonyx.kernel.expr import cast
from sardonyx.kernel.interpret import evaluate
from sardonyx.loading import load
from sardonyx.machine import Machine
from sardonyx.types import Value, float64, int32

TURN = "a comparison that rounding may turn"
TENTH, FIFTH, MORE = (np.float32(x) for x in (0.1, 0.2, 0.7))
NUMBERS = (TENTH, FIFTH, MORE, -TENTH, np.float32(0.5))
OPS = ("Add", "Sub", "Mul")
Step = tuple[str, str, tuple[int, ...], int]  # kind, operation, registers, turns


def graph_of(sign: str, body: str) -> Graph:
    text = f'<ir_version: 10, opset_import: ["": 21]> g {sign} {{ {body} }}'
    return load(onnx.parser.parse_model(text))


def bounds_of(graph: Graph, **feeds: Value) -> dict[str, Row]:
    return {row.tensor: row for row in shadow(graph, feeds)}


def calculated(op: str, x: Fraction, y: Fraction) -> Fraction:
    return {"Add": x + y, "Sub": x - y, "Mul": x * y}[op]


def text_of(step: Step, k: int) -> str:
    """The step as ONNX: what it gives is r{k}."""
    kind, op, at, turns = step
    a, b, c, d = (f"r{i}" for i in at)
    then = f"t{k} () => (float u{k}) {{ u{k} = {op}({a}, {b}) }}"
    other = f"e{k} () => (float v{k}) {{ v{k} = Sub({b}, {d}) }}"
    match kind:
        case "op":
            return f"r{k} = {op}({a}, {b})"
        case "if":
            return (f"c{k} = Less({c}, {d}) r{k} = If(c{k})<then_branch = {then}, "
                    f"else_branch = {other}>")  # fmt: skip
        case "trips":
            body = f"(int64 i{k}, bool g{k}, float s{k}) => (bool h{k}, float o{k})"
            return (f"c{k} = Less({c}, {d}) n{k} = Cast<to = 7>(c{k}) y{k} = Constant<value = bool "
                    f"{{1}}>() r{k} = Loop(n{k}, y{k}, {a})<body = b{k} {body} "
                    f"{{ h{k} = Identity(g{k}) o{k} = {op}(s{k}, {b}) }}>")  # fmt: skip
    body = f"(int64 i{k}, bool g{k}, float s{k}) => (bool h{k}, float o{k})"
    inner = then.replace(f"({a}", f"(s{k}"), other.replace(f"({b}", f"(s{k}")
    return (f"n{k} = Constant<value_int = {turns}>() y{k} = Constant<value = bool {{1}}>() "
            f"r{k} = Loop(n{k}, y{k}, {a})<body = b{k} {body} {{ j{k} = Less(s{k}, {d}) "
            f"o{k} = If(j{k})<then_branch = {inner[0]}, else_branch = {inner[1]}> "
            f"h{k} = Less(o{k}, {c}) }}>")  # fmt: skip


def exactly(step: Step, r: list[Fraction]) -> Fraction:
    """What the step gives in rational arithmetic."""
    kind, op, at, turns = step
    a, b, c, d = (r[i] for i in at)
    match kind:
        case "op":
            return calculated(op, a, b)
        case "if":
            return calculated(op, a, b) if c < d else b - d
        case "trips":
            return calculated(op, a, b) if c < d else a
    for _ in range(turns):
        a = calculated(op, a, b) if a < d else a - d
        if not a < c:
            break
    return a


@st.composite
def programs(draw: st.DrawFn) -> list[Step]:
    """r3 is r0 op r1; what follows compares it with r2 more often than other registers."""
    steps: list[Step] = [("op", draw(st.sampled_from(OPS)), (0, 1, 2, 2), 0)]
    for k in range(1, draw(st.integers(2, 4))):
        at = tuple(draw(st.integers(0, 2 + k)) for _ in range(2))
        compared = draw(st.sampled_from([(2, 3), (3, 2), (2 + k, 2), (0, 2 + k)]))
        kind = draw(st.sampled_from(["op", "if", "trips", "loop"]))
        steps.append((kind, draw(st.sampled_from(OPS)), (*at, *compared), draw(st.integers(0, 3))))
    return steps


@settings(max_examples=30)
@given(steps=programs(), data=st.data())
def test_no_element_is_further_from_rational_arithmetic(
    steps: list[Step], data: st.DataObject
) -> None:
    fed = [data.draw(st.sampled_from(NUMBERS)) for _ in range(2)]
    edge = {"Add": fed[0] + fed[1], "Sub": fed[0] - fed[1], "Mul": fed[0] * fed[1]}[steps[0][1]]
    fed.append(data.draw(st.sampled_from([edge, np.nextafter(edge, np.float32(9)), TENTH])))
    body = " ".join(text_of(step, 3 + k) for k, step in enumerate(steps))
    outputs = ", ".join(f"float r{3 + k}" for k in range(len(steps)))
    graph = graph_of(f"(float r0, float r1, float r2) => ({outputs})", body)
    feeds: dict[str, Value] = {f"r{i}": np.array(x, np.float32) for i, x in enumerate(fed)}
    exact = [Fraction(float(x)) for x in fed]
    for step in steps:
        exact.append(exactly(step, exact))
    found, rows = Machine(graph).run(feeds), bounds_of(graph, **feeds)
    points = {n: (float(np.asarray(v)),) * 2 for n, v in feeds.items()}
    spread = {row.tensor: row for row in ranged(graph, points, {})}
    for k in range(3, len(exact)):
        apart = abs(Fraction(float(np.asarray(found[f"r{k}"]))) - exact[k])
        for error in (rows[f"r{k}"].error, spread[f"r{k}"].error):
            assert error == np.inf or apart <= Fraction(error)


BRANCH = graph_of(
    "(float x, float y, float z) => (float o, float p)",
    """s = Add(x, y) c = Less(s, z) o = If(c)<then_branch = t () => (float a) { a = Add(x, z) },
       else_branch = e () => (float b) { b = Mul(x, z) }> p = Neg(o)""",
)


def scalars(*values: float) -> dict[str, Value]:
    return {n: np.array(v, np.float32) for n, v in zip("xyz", values, strict=True)}


def test_a_branch_that_the_enclosure_decides_has_a_bound() -> None:
    rows = bounds_of(BRANCH, **scalars(0.1, 0.2, 0.5))
    assert rows["o"].error < 1e-7
    assert rows["p"].error < 1e-7
    assert not rows["p"].why


def test_a_branch_that_rounding_turns_has_no_bound_and_neither_has_what_follows() -> None:
    x, y = np.float32(0.1), np.float32(0.2)
    exact = Fraction(float(x)) + Fraction(float(y))
    near = x + y  # the machine's sum is not the exact one
    turned = near if exact < Fraction(float(near)) else np.nextafter(near, np.float32(1))
    rows = bounds_of(BRANCH, **scalars(x, y, turned))
    assert (x + y < turned) != (exact < Fraction(float(turned)))
    assert TURN in rows["o"].why
    assert rows["o"].error == rows["p"].error == np.inf
    assert rows["s"].error < 1e-7


def test_a_branch_at_the_edge_is_open() -> None:
    rows = bounds_of(
        graph_of(
            "(float x) => (float o)",
            """e = Exp(x) l = Log(e) c = Less(l, x)
               o = If(c)<then_branch = t () => (float a) { a = Neg(x) },
               else_branch = f () => (float b) { b = Abs(x) }>""",
        ),
        x=np.array(0.3, np.float32),
    )
    assert rows["o"].error == np.inf
    assert TURN in rows["o"].why


@pytest.mark.parametrize(("low", "bounded"), [(0.1, True), (-1.0, False)])
def test_a_range_decides_a_branch_only_where_all_of_it_does(low: float, bounded: bool) -> None:
    points = {n: (v, v) for n, v in {"x": 0.0, "z": 0.0}.items()}
    rows = {r.tensor: r for r in ranged(BRANCH, {**points, "y": (low, 1.0)}, {})}
    assert (rows["p"].error < 1e-6) is bounded
    assert bounded or TURN in rows["p"].why


def test_sizes_that_data_decide() -> None:
    graph = graph_of(
        "(float[N] x, float t) => (float[M] y, int64[2] n)",
        """e = Exp(x) d = Sub(e, t) c = Relu(d) i = NonZero(c) m = Constant<value_ints = [-1]>()
           j = Reshape(i, m) y = Gather(x, j) n = Shape(i)""",
    )
    x, t = np.array([0, 1, 2], np.float32), np.array(2, np.float32)
    assert bounds_of(graph, x=x, t=t)["y"].error < 1e-300
    row = bounds_of(graph, x=np.log(np.array([2, 3], np.float32)), t=t)["y"]
    assert row.error == np.inf
    assert TURN in row.why


def test_the_elements_that_are_chosen_and_a_sequence_keep_their_bounds() -> None:
    graph = graph_of(
        "(float[N] x) => (float[1] y, float z)",
        """e = Exp(x) s = SequenceConstruct(e, x) o = Constant<value_int = 0>()
           u = SequenceAt(s, o) k = Constant<value_ints = [1]>() y, i = TopK(u, k)
           a = ArgMax<axis = 0, keepdims = 0>(u) z = Gather(x, a)""",
    )
    rows = bounds_of(graph, x=np.array([0, 1, 2], np.float32))
    assert 0 < rows["u"].error < 1e-6
    assert rows["y"].error < 1e-6
    assert rows["z"].error < 1e-300
    rows = bounds_of(graph, x=np.array([2, 1, 2], np.float32))
    assert rows["y"].error == rows["z"].error == np.inf


def test_a_scan_and_captured_tensors_keep_their_bounds() -> None:
    graph = graph_of(
        "(float[3] x, float w, float[N] q) => (float s, float[3] y, float[M] r)",
        """i = NonZero(q) m = Constant<value_ints = [-1]>() j = Reshape(i, m) r = Gather(q, j)
           v = Exp(w) b = Mul(w, w)
           s, y = Scan<num_scan_inputs = 1, body = f (float t, float e) => (float n, float o)
             { p = Mul(e, v) n = Add(t, p) o = Identity(n) }>(b, x)""",
    )
    x, w = np.array([1, 2, 3], np.float32), np.array(0.1, np.float32)
    rows = bounds_of(graph, x=x, w=w, q=np.array([1, 0], np.float32))
    wide, unit = x.astype(np.longdouble), np.longdouble(w)
    exact = unit * unit + np.exp(unit) * wide.cumsum()
    values = Machine(graph).run({"x": x, "w": w, "q": x})
    apart = abs(np.asarray(values["y"]).astype(np.longdouble) - exact).max()
    assert apart <= rows["y"].error < 1e-5
    assert rows["s"].error <= rows["y"].error


def test_work_of_the_host_that_is_not_followed_says_so() -> None:
    graph = graph_of(
        "(float x) => (float y)", "e = Exp(x) s = Cast<to = 8>(e) f = Cast<to = 1>(s) y = Neg(f)"
    )
    row = bounds_of(graph, x=np.array(0.5, np.float32))["y"]
    assert row.error == np.inf
    assert "host" in row.why


def test_a_conversion_is_decided_by_its_enclosure() -> None:
    k = Builder(1)
    a = operand("a", float64, (3,))
    kernel = k.kernel("f", [a], [k.compute((3,), lambda i: cast(a[i] + 0.0, int32), int32)])
    made = followed(kernel)
    low, high = np.array([1.2, 1.9, -0.5]), np.array([1.3, 2.1, 0.5])
    results = evaluate(made.made.kernel, [low, high])
    assert results[made.doubts].tolist() == [False, True, False]
    assert results[0].tolist()[::2] == [1, 0]
