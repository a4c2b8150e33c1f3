"""Sizes: polynomials over symbolic dims."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sardonyx.dims import (
    Dim,
    at_least,
    divide,
    evaluate,
    extreme,
    floordiv,
    greatest,
    nonnegative,
    product,
    str_dim,
    substitute,
    symbol,
    symbols,
)

n, m, h = symbol("n"), symbol("m"), symbol("h")
ENV = st.fixed_dictionaries({k: st.integers(1, 40) for k in ("n", "m", "h")})


def _grow(inner: st.SearchStrategy[Dim]) -> st.SearchStrategy[Dim]:
    return st.one_of(
        st.builds(lambda a, b: a + b, inner, inner),
        st.builds(lambda a, b: a - b, inner, inner),
        st.builds(lambda a, b: a * b, inner, inner),
        st.builds(floordiv, inner, st.integers(1, 5)),
        st.builds(extreme, st.sampled_from(["min", "max"]), inner, inner),
    )


LEAVES: st.SearchStrategy[Dim] = st.one_of(st.integers(-4, 4), st.sampled_from([n, m, h]))
DIMS = st.recursive(LEAVES, _grow, max_leaves=6)


@given(DIMS, DIMS, DIMS)
def test_dims_are_a_commutative_ring(a: Dim, b: Dim, c: Dim) -> None:
    assert a + b == b + a
    assert a * b == b * a
    assert (a + b) + c == a + (b + c)
    assert (a * b) * c == a * (b * c)
    assert a * (b + c) == a * b + a * c
    assert a - a == 0


@given(DIMS, DIMS, st.integers(1, 7), ENV)
def test_evaluation_commutes_with_the_operations(
    a: Dim, b: Dim, k: int, env: dict[str, int]
) -> None:
    x, y = evaluate(a, env), evaluate(b, env)
    assert evaluate(a + b, env) == x + y
    assert evaluate(a - b, env) == x - y
    assert evaluate(a * b, env) == x * y
    assert evaluate(floordiv(a, k), env) == x // k
    assert evaluate(floordiv(a, -k), env) == x // -k
    assert evaluate(extreme("max", a, b), env) == max(x, y)
    assert evaluate(extreme("min", a, b), env) == min(x, y)


@given(DIMS, st.integers(-5, 5), ENV)
def test_at_least_never_claims_what_is_false(a: Dim, bound: int, env: dict[str, int]) -> None:
    assert not at_least(a, bound) or evaluate(a, env) >= bound


@given(DIMS, ENV, ENV)
def test_no_smaller_sizes_give_more_than_the_greatest(
    a: Dim, env: dict[str, int], more: dict[str, int]
) -> None:
    most = {k: max(n, more[k]) for k, n in env.items()}
    assert evaluate(a, env) <= greatest(a, most)


def test_the_greatest_of_what_grows_is_its_value() -> None:
    assert greatest(floordiv(2 * n + m - 3, 2) + 1, {"n": 8, "m": 5}) == 10


@given(DIMS, st.lists(DIMS, max_size=3), ENV)
def test_a_proof_from_facts_holds_wherever_the_facts_do(
    a: Dim, facts: list[Dim], env: dict[str, int]
) -> None:
    if nonnegative(a, tuple(facts)) and all(evaluate(f, env) >= 0 for f in facts):
        assert evaluate(a, env) >= 0


@given(DIMS, DIMS)
def test_a_product_divides_by_its_factors(a: Dim, b: Dim) -> None:
    quotient = divide(a * b, b) if b != 0 else a
    assert quotient == a


POLYNOMIALS = st.builds(lambda a, b, c, d: a * n * m + b * h + c * n + d, *[st.integers(-9, 9)] * 4)


@given(POLYNOMIALS, st.integers(1, 6), st.integers(1, 6))
def test_a_quotient_of_a_quotient_is_one_quotient(a: Dim, b: int, c: int) -> None:
    assert floordiv(floordiv(a, b), c) == floordiv(a, b * c)


def test_equal_sizes_of_pooling_layers_are_equal_objects() -> None:
    assert floordiv(n - 1, 2) + 1 == floordiv(n + 1, 2)
    assert floordiv(n + 2 * 3 - 7, 2) + 1 == floordiv(n - 1, 2) + 1
    assert extreme("max", n, m) == extreme("max", m, n)


def test_what_holds_for_every_symbolic_dim_is_proven() -> None:
    assert at_least(n * m - n, 0)
    assert at_least(n - floordiv(n, 2), 0)
    assert at_least(floordiv(n + 1, 2), 1)
    assert at_least(n - 2 * floordiv(n - 1, 2) - 1, 0)
    assert at_least(n * m - n - m + 1, 0)
    blocks = floordiv(n - 1, m) + 1
    assert at_least(n - floordiv(n, blocks) * blocks, 0)
    assert at_least(n - extreme("min", n, m), 0)
    assert at_least(extreme("max", n, m) - m, 0)
    assert not at_least(n, 2)
    assert not at_least(n - m, 0)
    assert nonnegative(n - m, (n - h, h - m))


def test_sizes_print_as_people_write_them() -> None:
    assert str_dim(2 * n * m - n + 3) == "2*m*n - n + 3"
    assert str_dim(floordiv(n + 1, 2)) == "floor((n + 1)/2)"
    assert symbols(floordiv(n * h, 2)) == {"n", "h"}
    assert product((2, n, 3)) == 6 * n
    assert substitute(n * m, lambda a: 5 if str(a) == "n" else None) == 5 * m
