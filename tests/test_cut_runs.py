"""Long runs of the terms of a product are cut (kernel/c99/print_product.py)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sardonyx.kernel.c99.print_product import LONGEST, cut


def runs(terms: int, rows: int, step: int) -> list[tuple[int, int, int]]:
    """Of each run its terms, where it begins in x, and the rows of W for it."""
    found = []
    for n, s, held, count, _, _, along, _, _, x in cut(terms, rows, step):
        assert s == step
        found += [(int(n), int(x + i * along), int(held)) for i in range(int(count))]
    return found


@given(st.integers(1, 5000), st.integers(0, 7), st.integers(1, 9))
def test_the_runs_are_all_terms_in_their_order(terms: int, more: int, step: int) -> None:
    at = lines = 0
    for n, x, held in runs(terms, terms + more, step):
        assert x == at * step
        assert held >= n
        at, lines = at + n, lines + held
    assert (at, lines) == (terms, terms + more)


@pytest.mark.parametrize(
    ("terms", "each"),
    [(256, 256), (320, 160), (384, 192), (672, 224), (768, 256), (1152, 192), (1500, 300)],
)
def test_runs_are_equal_where_a_multiple_of_four_divides(terms: int, each: int) -> None:
    assert {n for n, *_ in runs(terms, terms, 1)} == {each}


def test_what_cannot_be_equal_is_long_runs_and_the_rest() -> None:
    assert [n for n, *_ in runs(1030, 1030, 1)] == [LONGEST] * 4 + [6]
