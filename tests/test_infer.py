"""Types and values through a graph: infer, bind, value_inputs; symbolic kernels."""

from __future__ import annotations

import gc
import pickle
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sardonyx import infer as module
from sardonyx import types as t
from sardonyx.dims import Dim, evaluate, floordiv, symbol
from sardonyx.errors import FeedError, InvalidModel, Undetermined, UnsupportedModel
from sardonyx.graph import Graph, Operation, Origin
from sardonyx.infer import bind, infer, kernel_of, traps_of, undetermined, value_inputs
from sardonyx.kernel import interpret, symbolic
from sardonyx.kernel.build import Builder, Tensor, concrete, operand
from sardonyx.kernel.expr import Expr, alu, const, where
from sardonyx.types import Array, TensorType

n, h, w = symbol("n"), symbol("h"), symbol("w")


def f32(*shape: Dim) -> TensorType:
    return TensorType(t.float32, shape)


def i64(*shape: Dim) -> TensorType:
    return TensorType(t.int64, shape)


def node(op: str, since: int, inputs: str, outputs: str, **attributes: Any) -> Operation:
    split = [tuple(s.split(",")) for s in (inputs, outputs)]
    return Operation(op, "", since, split[0], split[1], attributes, Origin(f"my_{op}", (0,)))


def graph(
    inputs: Mapping[str, TensorType],
    operations: list[Operation],
    initializers: Mapping[str, Array] | None = None,
    declared: Mapping[str, TensorType] | None = None,
    overridable: tuple[str, ...] = (),
) -> Graph:
    values = dict(initializers or {})
    known = {k: TensorType(_dtype(v), v.shape) for k, v in values.items()}
    names = tuple(i for i in inputs if i not in overridable)
    outputs = operations[-1].outputs
    types = {**inputs, **known}
    return Graph(
        "g", names, outputs, overridable, values, tuple(operations), types, declared or {}, {}, {}
    )


def _dtype(v: Array) -> t.DType:
    found = t.by_numpy(v.dtype)
    assert found is not None
    return found


def ints(*v: int) -> Array:
    return np.array(v, np.int64)


def test_shape_chains_are_known_symbolically() -> None:
    ops = [
        node("Shape", 15, "x", "s"),
        node("Gather", 13, "s,zero", "batch"),
        node("Unsqueeze", 13, "batch,axes", "b1"),
        node("Concat", 13, "b1,minus", "target", axis=0),
        node("Reshape", 14, "x,target", "y"),
    ]
    tables = {"zero": np.array(0, np.int64), "axes": ints(0), "minus": ints(-1)}
    g = infer(graph({"x": f32(n, 3, h, 4)}, ops, tables))
    assert g.types["y"] == f32(n, 12 * h)
    assert g.values["target"].tolist() == [n, -1]
    assert g.values["s"].tolist() == [n, 3, h, 4]
    assert not undetermined(g)


def test_constants_are_computed_by_the_interpreter() -> None:
    ops = [node("Add", 14, "a,b", "c"), node("Cast", 13, "c", "d", to=7)]
    g = infer(graph({}, ops, {"a": np.float32([1.5, 2.5]), "b": np.float32([1, 1])}))
    assert g.values["c"].dtype == np.float32
    assert g.values["d"].dtype == np.int64
    assert g.values["d"].tolist() == [2, 3]


def test_an_operation_whose_value_is_missing_keeps_the_declared_type() -> None:
    ops = [node("Reshape", 14, "x,s", "y"), node("Relu", 14, "y", "z")]
    inputs = {"x": f32(n, 4), "s": i64(2)}
    g = infer(graph(inputs, ops, declared={"y": f32(n, 4)}))
    assert g.types["y"] == f32(n, 4)
    assert g.types["z"] == f32(n, 4)
    assert infer(graph(inputs, ops)).types["z"] == TensorType(t.float32, None)
    with pytest.raises(Undetermined, match=r"Reshape 'my_Reshape': .*x1 = 's' int64\[2\]"):
        kernel_of(g, g.operations[0])


def test_bind_settles_shapes_and_the_values_they_depend_on() -> None:
    ops = [node("Reshape", 14, "x,s", "y"), node("Relu", 14, "y", "z")]
    g = infer(graph({"x": f32(n, 4), "s": i64(2)}, ops))
    assert value_inputs(g) == ("s",)
    bound = bind(g, {"x": f32(6, 4), "s": i64(2)}, {"x": np.ones((6, 4)), "s": ints(3, -1)})
    assert bound.types["z"] == f32(3, 8)
    assert set(bound.values) == {"s"}
    assert not undetermined(bound)


def test_values_are_followed_back_through_what_computes_them_but_not_through_shape() -> None:
    ops = [
        node("Shape", 15, "x", "s"),
        node("Add", 14, "s,k", "sum"),
        node("Expand", 13, "x,sum", "y"),
    ]
    g = infer(graph({"x": f32(n), "k": i64(1)}, ops))
    assert value_inputs(g) == ("k",)
    assert bind(g, {"x": f32(1)}, {"k": ints(4)}).types["y"] == f32(5)


def test_overridable_initializers_are_known_once_bound() -> None:
    ops = [node("Reshape", 14, "x,s", "y")]
    inputs = {"x": f32(8), "s": i64(2)}
    g = infer(graph(inputs, ops, {"s": ints(2, 4)}, overridable=("s",)))
    assert g.types["y"].shape is None
    assert bind(g, {}, {}).types["y"] == f32(2, 4)
    other = bind(g, {}, {"s": ints(4, 2)})
    assert other.types["y"] == f32(4, 2)
    assert other.initializers["s"].tolist() == [4, 2]
    assert g.initializers["s"].tolist() == [2, 4]


def test_a_symbolic_dim_has_one_size() -> None:
    g = infer(graph({"a": f32(n), "b": f32(n)}, [node("Add", 14, "a,b", "c")]))
    assert bind(g, {"a": f32(3), "b": f32(3)}, {}).types["c"] == f32(3)
    with pytest.raises(FeedError, match=r"'b' is float32\[n\], found float32\[4\].*n=3"):
        bind(g, {"a": f32(3), "b": f32(4)}, {})
    with pytest.raises(FeedError, match="found float32"):
        bind(g, {"a": f32(3, 1)}, {})
    with pytest.raises(FeedError, match="is float32, found int64"):
        bind(g, {"a": i64(3)}, {})
    with pytest.raises(FeedError, match="no input 'q'"):
        bind(g, {"q": i64(3)}, {})


def test_a_declared_type_that_contradicts_the_operator_is_an_error() -> None:
    def declared(found: TensorType) -> Graph:
        return graph({"x": f32(n, 4)}, [node("Relu", 14, "x", "y")], declared={"y": found})

    infer(declared(f32(symbol("other"), 4)))
    for wrong in (f32(n, 5), f32(n), i64(n, 4)):
        with pytest.raises(InvalidModel, match=r"Relu 'my_Relu' gives 'y' the type .* declares"):
            infer(declared(wrong))


def test_an_unknown_operator_leaves_the_declared_type_and_has_no_kernel() -> None:
    op = node("Frobnicate", 1, "x", "y")
    g = infer(graph({"x": f32(2)}, [op], declared={"y": f32(3)}))
    assert g.types["y"] == f32(3)
    with pytest.raises(UnsupportedModel, match="Frobnicate-1"):
        kernel_of(g, op)


def test_bad_operands_are_an_invalid_model_that_names_the_operation() -> None:
    with pytest.raises(InvalidModel, match=r"Add 'my_Add'.*x0 = 'a' float32\[2\]"):
        infer(graph({"a": f32(2), "b": f32(3)}, [node("Add", 14, "a,b", "c")]))


def test_kernels_are_made_once_and_die_with_their_graph() -> None:
    ops = [node("Relu", 14, "x", "y"), node("Reshape", 14, "y,s", "z")]
    g = infer(graph({"x": f32(n, 4), "s": i64(2)}, ops))
    op = g.operations[0]
    assert list(undetermined(g)) == [g.operations[1]]
    assert kernel_of(g, op) is kernel_of(g, op)
    assert traps_of(g, op) == 0
    gone = weakref.ref(g)
    again = pickle.loads(pickle.dumps(g))
    assert kernel_of(again, again.operations[0]) is not kernel_of(g, op)
    del g
    gc.collect()
    assert gone() is None


def test_a_graph_of_many_operations_is_inferred_without_recursion() -> None:
    ops = [node("Relu", 14, f"x{i}", f"x{i + 1}") for i in range(1500)]
    assert infer(graph({"x0": f32(n)}, ops)).types["x1500"] == f32(n)


def _grow(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    op = st.sampled_from(["add", "sub", "mul", "min", "max", "idiv", "imod", "tdiv", "fmod"])
    cond = st.sampled_from(["lt", "le", "eq", "ne"])
    return st.one_of(st.tuples(op, inner, inner), st.tuples(st.just("where"), cond, *[inner] * 4))


TREES = st.recursive(
    st.one_of(st.integers(-5, 5), st.sampled_from(["i", "x"])), _grow, max_leaves=7
)


def _expr(tree: Any, i: Expr, x: Tensor) -> Expr:
    match tree:
        case int():
            return const(tree, t.int64)
        case "i":
            return i
        case "x":
            return x[i]
        case ("where", cond, *parts):
            a, b, c, d = (_expr(p, i, x) for p in parts)
            return where(alu(cond, a, b), c, d)
        case _:
            return alu(tree[0], _expr(tree[1], i, x), _expr(tree[2], i, x))


@given(TREES, st.sampled_from(["sum", "prod", "min", "max", "dot"]), st.integers(1, 9))
def test_symbolic_evaluation_agrees_with_the_interpreter(tree: Any, kind: str, size: int) -> None:
    k, x = Builder(1), operand("x", t.int64, (4,))

    def term(r: Expr) -> Any:
        e = _expr(tree, r, x)
        return (e, r - 1) if kind == "dot" else e

    a = k.compute((4,), lambda i: _expr(tree, i, x))
    b = k.compute((), lambda: k.fold(kind, (4,), term, lambda r: r > 0))
    kernel = k.kernel("test", [x], [a, b])
    values: list[Dim] = [n, 2 * n + 1, -3, floordiv(n + 1, 2)]
    try:
        found = symbolic.evaluate(kernel, [concrete(values)])
    except Undetermined:
        return
    env = {"n": size}
    wanted = interpret.evaluate(kernel, [concrete([evaluate(v, env) for v in values])])
    for f, expected in zip(found, wanted, strict=True):
        assert [evaluate(v, env) for v in f.reshape(-1).tolist()] == expected.reshape(-1).tolist()


def test_what_is_not_decided_for_all_sizes_is_undetermined() -> None:
    x = operand("x", t.int64, (1,))

    def run(element: Any, value: Dim = n) -> Any:
        k = Builder(1)
        out = k.compute((1,), lambda i: element(x[i]))
        return symbolic.evaluate(k.kernel("test", [x], [out]), [concrete([value])])[0].tolist()[0]

    assert run(lambda v: where(v.eq(-1), 7, v)) == n
    assert run(lambda v: where(v < 0, v + 7, v)) == n
    assert run(lambda v: where(v.eq(0), 7, v)) == n
    assert run(lambda v: v.cast(t.int32).cast(t.int64)) == n
    for undecided in (
        lambda v: where(v.eq(3), 7, v),
        lambda v: v.cast(t.int8).cast(t.int64),
        lambda v: v // (v - 1),
    ):
        with pytest.raises(Undetermined):
            run(undecided)
    k = Builder(1)
    copy = k.kernel("test", [x], [k.compute((1,), lambda i: x[i])])
    with pytest.raises(Undetermined, match="not known"):
        symbolic.evaluate(copy, [None])


def test_the_limit_of_followed_values_is_kept() -> None:
    big = {"a": np.zeros(module.LIMIT + 1, np.float32)}
    assert "b" not in infer(graph({}, [node("Relu", 14, "a", "b")], big)).values
