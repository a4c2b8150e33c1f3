"""Where long chains are cut: what a cut hands on is little, and nothing is lost."""

from __future__ import annotations

from sardonyx.kernel import elementary as fn
from sardonyx.kernel.build import operand
from sardonyx.kernel.c99.cuts import cuts_of
from sardonyx.kernel.expr import Axis, Cast, Expr, Load
from sardonyx.kernel.walk import walk
from sardonyx.types import float16, float32


def element() -> tuple[Load, Axis]:
    """x[i], and i."""
    x, i = operand("x", float32, (64,)), Axis("i", 64)
    e = x[(i,)]
    assert isinstance(e, Load)
    return e, i


def sizes(e: Expr, i: Axis) -> list[int]:
    return [len(cut) for cut in cuts_of(e, i)]


def test_a_long_chain_is_cut_where_few_values_cross() -> None:
    x, i = element()
    y = x + 1
    assert sizes(x * fn.sigmoid(x), i) == [3]
    assert sizes(y * fn.sigmoid(y), i) == [3, 3]
    assert sizes(fn.sinh(x), i) == sizes(y * (fn.erf(y / 2) + 1) * 0.5, i) == [], "much would cross"


def test_a_short_chain_is_not_cut() -> None:
    x, i = element()
    assert sizes(x * 2 + 1, i) == sizes(fn.exp(x), i) == []


def test_no_value_is_handed_on_twice_and_none_is_a_condition() -> None:
    x, i = element()
    values = [e for cut in cuts_of(x * fn.sigmoid(x), i) for e in cut]
    assert len(values) == len(set(values)) > 0
    assert all(e.dtype.bits == 32 and not isinstance(e, Load) for e in values)


def test_a_chain_of_float16_is_cut_behind_what_is_rounded() -> None:
    x, i = element()

    def near(e: Expr) -> Expr:
        return Cast(Cast(e, float16), float32)

    y = near(near(x) + 1)
    gelu = near(near(y * near(near(fn.erf(near(y / 3))) + 1)) * 0.5)
    cuts = cuts_of(gelu, i)
    assert len(cuts) > 1
    assert max(map(len, cuts)) <= 2
    values = [e for cut in cuts for e in cut]
    rounded = {e.x for e in walk(gelu) if isinstance(e, Cast) and e.dtype is float16}
    assert rounded.isdisjoint(values), "what is rounded next is not stored before"
