"""The verifier: what is legal, and which loads are proven in bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sardonyx import types as t
from sardonyx.dims import Dim, evaluate, extreme, floordiv, substitute, symbol
from sardonyx.errors import InternalError
from sardonyx.kernel.build import Builder, Tensor, operand
from sardonyx.kernel.expr import (
    Alu,
    Axis,
    Cast,
    Const,
    Expr,
    Fold,
    Load,
    Where,
    alu,
    cast,
    const,
    where,
)
from sardonyx.kernel.forms import Forms
from sardonyx.kernel.ir import Compute, Kernel, expressions, statements
from sardonyx.kernel.verify import checks, settle, unproven, verify
from sardonyx.kernel.walk import walk

n, m, h = symbol("n"), symbol("m"), symbol("h")


def x_of(*shape: Dim, dtype: t.DType = t.float32) -> Tensor:
    return operand("x", dtype, shape)


def kernel(k: Builder, out: Tensor, *inputs: Tensor) -> Kernel:
    return k.kernel("test", inputs, [out])


def modes(k: Kernel) -> list[str]:
    roots = [e for s in statements(k.body) for e in expressions(s)]
    return [e.mode for e in walk(*roots) if isinstance(e, Load)]


def traps(k: Builder, out: Tensor, *inputs: Tensor) -> int:
    return settle(kernel(k, out, *inputs))[1]


def test_a_matrix_product_is_proven_for_all_sizes() -> None:
    a, b, k = x_of(n, m), operand("y", t.float32, (m, h)), Builder(1)
    c = k.compute((n, h), lambda i, j: k.dot((m,), lambda q: (a[i, q], b[q, j])))
    assert traps(k, c, a, b) == 0


def test_concat_is_proven_by_its_conditions() -> None:
    a, b, c, k = x_of(n), operand("y", t.float32, (m,)), operand("z", t.float32, (h,)), Builder(1)
    out = k.compute(
        (n + m + h,),
        lambda i: where(i < n, a[i], where(i < n + m, b[i - n], c[i - n - m])),
    )
    assert traps(k, out, a, b, c) == 0


def test_a_concat_of_five_hundred_tensors_is_proven_without_recursion() -> None:
    xs, k = [operand(f"x{i}", t.float32, (n,)) for i in range(500)], Builder(1)

    def element(i: Expr) -> Expr:
        e = xs[499][i - 499 * n]
        for q in range(498, -1, -1):
            e = where(i < (q + 1) * n, xs[q][i - q * n], e)
        return e

    assert traps(k, k.compute((500 * n,), element), *xs) == 0


def test_flattened_indices_are_proven_through_quotients_and_remainders() -> None:
    x, k = x_of(n, m, 4), Builder(1)
    out = k.compute((n * m * 4,), lambda i: x[i // (m * 4), i // 4 % m, i % 4])
    assert traps(k, out, x) == 0


def test_a_strided_slice_backwards_is_proven() -> None:
    x, k = x_of(n), Builder(1)
    out = k.compute((floordiv(n + 1, 2),), lambda i: x[n - 1 - 2 * i])
    assert traps(k, out, x) == 0


def test_a_slice_with_clamped_ends_is_proven_for_sizes_of_any_order() -> None:
    x, k = x_of(n), Builder(1)
    low, high = extreme("min", n, 3), extreme("min", n, 10)
    for extent, step in [
        (high - low, 1),
        (extreme("max", floordiv(high - low + 1, 2), 0), 2),
        (n - 2 * floordiv(n + 2, 3), 1),
    ]:
        first = low if extent != n - 2 * floordiv(n + 2, 3) else 2 * floordiv(n + 2, 3)
        out = k.compute((extent,), lambda i, s=step, f=first: x[i * s + f])
        assert traps(k, out, x) == 0


def test_the_predicate_of_a_fold_proves_its_terms() -> None:
    x, k = x_of(n, h), Builder(1)

    def row(i: Expr, r: Expr) -> Expr:
        return 2 * i + r - 1

    out = k.compute(
        (n, floordiv(h - 1, 2) + 1),
        lambda b, i: k.fold(
            "max", (3,), lambda r: x[b, row(i, r)], lambda r: (row(i, r) >= 0) & (row(i, r) < h)
        ),
    )
    assert traps(k, out, x) == 0


def test_windows_without_padding_are_proven_without_conditions() -> None:
    x, k = x_of(h), Builder(1)
    out = k.compute(
        (floordiv(h - 3, 2) + 1,), lambda i: k.fold("max", (3,), lambda r: x[2 * i + r])
    )
    assert traps(k, out, x) == 0


def test_a_clamped_index_is_proven_whatever_the_data() -> None:
    x, i, k = x_of(n), operand("i", t.int64, (m,)), Builder(1)
    out = k.compute((m,), lambda q: x[alu("max", alu("min", i[q], n - 1), 0)])
    assert traps(k, out, x, i) == 0


def test_a_data_dependent_index_becomes_a_trap_and_is_counted() -> None:
    x, i, k = x_of(n), operand("i", t.int64, (m,)), Builder(1)
    settled, count = settle(kernel(k, k.compute((m,), lambda q: x[i[q]]), x, i))
    assert count == 1
    assert sorted(modes(settled)) == ["proven", "trap"]


def test_a_sum_of_unbounded_data_proves_nothing_since_it_may_wrap() -> None:
    x, i, k = x_of(n), operand("i", t.int64, (m,)), Builder(1)

    def element(q: Expr) -> Expr:
        at = i[q]
        return where((at + 1 >= 1) & (at < n), x[at], 0)

    assert traps(k, k.compute((m,), element), x, i) == 1


def test_a_checked_data_dependent_index_is_proven() -> None:
    x, i, k = x_of(n), operand("i", t.int64, (m,)), Builder(1)
    out = k.compute((m,), lambda q: where((i[q] >= 0) & (i[q] < n), x[i[q]], 0))
    assert traps(k, out, x, i) == 0


def test_a_concrete_kernel_out_of_bounds_is_refused_with_its_load() -> None:
    x, k = x_of(4), Builder(1)
    out = k.compute((5,), lambda i: x[i])
    with pytest.raises(InternalError, match=r"test: the load of x\[4\] at i0 \(dimension 0\)"):
        settle(kernel(k, out, x))


def test_a_load_shared_with_an_unconditional_user_may_not_use_the_condition() -> None:
    x, k = x_of(n), Builder(1)

    def element(i: Expr) -> Expr:
        shared = x[i]
        return where(i < n, shared, 0) + shared

    assert traps(k, k.compute((n + 1,), element), x) == 1


def test_an_axis_without_points_proves_everything() -> None:
    x, k = x_of(0, 0), Builder(1)
    assert traps(k, k.compute((0, 3), lambda i, j: x[i, j % 2]), x) == 0


def test_guards_are_checked_only_where_they_may_be_outside() -> None:
    x, k = x_of(n, h), Builder(1)
    out = k.compute((n, h + 2), lambda i, j: x.guard((i, j - 1)))
    (load,) = [e for e in unproven(kernel(k, out, x)) if isinstance(e, Load)]
    assert checks(load) == (1,)
    assert unproven(kernel(k, out, x))[load] == (1,)


@pytest.mark.parametrize(("beyond", "mode"), [(0, "proven"), (1, "guard")])
def test_a_guard_that_is_never_needed_goes(beyond: int, mode: str) -> None:
    x, k = x_of(n, h), Builder(1)
    out = k.compute((n, h + beyond), lambda i, j: x.guard((i, j)))
    assert modes(settle(kernel(k, out, x))[0]) == [mode]


def test_the_condition_of_an_if_is_lost_when_its_body_changes_what_it_read() -> None:
    def build(changed: bool) -> int:
        x, k = x_of(n), Builder(1)
        out = k.tensor((1,), t.float32)
        v = k.local(const(0, t.int64))
        with k.when((v >= 0) & (v < n)):
            if changed:
                k.set(v, v + 5)
            k.store(out, (0,), x[v])
        return traps(k, out, x)

    assert build(False) == 0
    assert build(True) == 1


def _broken() -> list[tuple[str, Expr]]:
    i, f16 = Axis("i", 3), Const(1.0, t.float16)
    x = x_of(3).buffer
    one = Const(1.0, t.float32)
    return [
        ("no arithmetic in storage types", Cast(Alu("add", (f16, f16), t.float16), t.float32)),
        ("operands agree in type", Alu("add", (one, Const(1.0, t.float64)), t.float32)),
        ("number of operands", Alu("sqrt", (one, one), t.float32)),
        ("operation is in the table", Alu("frobnicate", (one,), t.float32)),
        ("a kind it takes", Cast(Alu("sqrt", (Const(1, t.int32),), t.int32), t.float32)),
        ("one index per dimension", Load(x, ())),
        ("just a guard has a default", Load(x, (i,), "proven", one)),
        ("an index is int64", Load(x, (Const(0, t.int32),))),
        ("a condition is bool", Where(Const(1, t.int64), one, one)),
        ("a fold has its terms", Fold("dot", (Axis("r", 2),), (one,))),
        ("a fold is of a known kind", Fold("xor", (Axis("r", 2),), (one,))),
        ("an axis or local is used inside its scope", cast(Axis("stray", 3), t.float32)),
        ("a buffer is declared by the kernel", Load(operand("y", t.float32, (3,)).buffer, (i,))),
        ("what is written has the buffer's type", const(1, t.int64)),
        ("a constant fits its type", Cast(Const(300, t.uint8), t.float32)),
    ]


@pytest.mark.parametrize(("rule", "e"), _broken(), ids=[r for r, _ in _broken()])
def test_each_rule_refuses_what_breaks_it(rule: str, e: Expr) -> None:
    x, out = x_of(3).buffer, operand("t", t.float32, (3,)).buffer
    axis = next((a for a in walk(e) if isinstance(a, Axis) and a.name == "i"), Axis("i", 3))
    k = Kernel("test", (x,), (out,), (), (), (Compute(out, (axis,), e),))
    with pytest.raises(InternalError, match=rule):
        verify(k)


def test_memory_rules_refuse_second_writers_early_reads_and_written_inputs() -> None:
    x, out = x_of(3).buffer, operand("t", t.float32, (3,)).buffer
    i = Axis("i", 3)
    copy, back = Compute(out, (i,), Load(x, (i,))), Compute(x, (i,), Load(out, (i,)))
    good = Kernel("test", (x,), (out,), (), (), (copy,))
    verify(good)
    for body, rule in [
        ((copy, copy), "the only one"),
        ((copy, back), "inputs and constants are not written"),
        ((back,), "written before it is read"),
        ((), "an output or temporary is written"),
        ((Compute(out, (i,), Load(out, (i,))),), "does not read what it writes"),
        ((Compute(out, (Axis("j", 4),), Const(0.0, t.float32)),), "axes span the buffer"),
    ]:
        with pytest.raises(InternalError, match=rule):
            verify(replace(good, body=body))


AXES = (Axis("i", 7), Axis("j", n), Axis("k", n + 2))
TABLE = operand("table", t.int64, (7,)).buffer


def _grow(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    two = st.sampled_from(["add", "sub", "mul", "min", "max"])
    cond = st.builds(alu, st.sampled_from(["lt", "le", "eq", "ne"]), inner, inner)
    return st.one_of(
        st.builds(alu, two, inner, inner),
        st.builds(alu, st.sampled_from(["idiv", "imod", "tdiv", "fmod"]), inner, st.integers(1, 6)),
        st.builds(alu, st.just("shr"), inner, st.integers(0, 3)),
        st.builds(where, cond, inner, inner),
    )


LEAVES: st.SearchStrategy[Expr] = st.one_of(
    st.sampled_from([*AXES, Load(TABLE, (AXES[0],))]),
    st.builds(lambda v: const(v, t.int64), st.integers(-6, 6)),
)
POINTS = st.tuples(st.integers(0, 6), st.integers(0, 20), st.integers(0, 20), st.integers(1, 21))


def value(e: Expr, at: Mapping[Expr, int], size: int) -> int:
    """e at a point, in Python's integers."""
    found: dict[Expr, int] = {}
    for x in walk(e):
        match x:
            case Const(v, _):
                found[x] = int(v)
            case Axis() | Load():
                found[x] = at[x] if isinstance(x, Axis) else at[x.index[0]] ** 2 - 9
            case Alu(op, args, _):
                found[x] = MEANING[op](*(found[a] for a in args))
            case Where(c, a, b):
                found[x] = found[a] if found[c] else found[b]
            case _:
                found[x] = evaluate(x.dim, {"n": size})
    return found[e]


MEANING = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": min,
    "max": max,
    "idiv": lambda a, b: a // b,
    "imod": lambda a, b: a % b,
    "tdiv": lambda a, b: abs(a) // b * (1 if a >= 0 else -1),
    "fmod": lambda a, b: abs(a) % b * (1 if a >= 0 else -1),
    "shr": lambda a, b: a >> b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}


@given(st.recursive(LEAVES, _grow, max_leaves=8), POINTS, st.integers(-30, 30), st.booleans())
def test_what_is_proven_of_an_index_holds_at_every_point(
    e: Expr, point: tuple[int, int, int, int], bound: int, upper: bool
) -> None:
    i, j, k, size = point
    at: dict[Expr, int] = {AXES[0]: i, AXES[1]: j % size, AXES[2]: k % (size + 2)}
    forms = Forms()
    form = forms.form(e)
    if forms.holds(bound - form if upper else form - bound):
        v = value(e, at, size)
        assert v <= bound if upper else v >= bound


@given(st.recursive(LEAVES, _grow, max_leaves=6), st.recursive(LEAVES, _grow, max_leaves=4), POINTS)
def test_facts_of_a_condition_hold_where_it_does(
    a: Expr, b: Expr, point: tuple[int, int, int, int]
) -> None:
    i, j, k, size = point
    at: dict[Expr, int] = {AXES[0]: i, AXES[1]: j % size, AXES[2]: k % (size + 2)}
    for op in ("lt", "le", "eq", "ne"):
        cond = alu(op, a, b)
        truth = bool(value(cond, at, size))
        for fact in Forms().facts(cond, truth):
            number = substitute(fact, lambda x: size if str(x) == "n" else at.get(x))
            assert not isinstance(number, int) or number >= 0


def test_a_deep_shared_dag_is_verified_in_linear_time() -> None:
    x, k = x_of(n), Builder(1)

    def element(i: Expr) -> Expr:
        e = x[i]
        for _ in range(3000):
            e = where(e < 0.0, e * e, e + e)
        return e

    assert traps(k, k.compute((n,), element), x) == 0


def test_constant_tables_bound_the_indices_they_hold() -> None:
    x, k = x_of(9), Builder(1)
    table = k.constant(np.array([8, 0, 3], np.int64))
    assert traps(k, k.compute((3,), lambda i: x[table[i]]), x) == 0


def test_constant_tables_of_uint64_bound_what_is_shifted_out_of_them() -> None:
    x, k = x_of(9), Builder(1)
    table = k.constant(np.array([8 << 5 | 3, 31], np.uint64))
    assert traps(k, k.compute((2,), lambda i: x[cast(alu("shr", table[i], 5), t.int64)]), x) == 0
