"""The first elements of a row, taken one by one: trees of several levels (ops/contest.py)."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from op_runs import RANDOM, lowered, run

from sardonyx.engines import Engine, make_engine
from sardonyx.errors import InvalidModel
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.kernel.expr import Size, alu, const
from sardonyx.kernel.ranges import bounds
from sardonyx.loading import load
from sardonyx.types import Array, int64

SIZES = (1, 15, 16, 17, 32, 255, 256, 257, 4113)


def row(size: int, dtype: str) -> Array:
    """Elements that are often equal, the ends of the type among them."""
    x = RANDOM.integers(-20, 20, size).astype(dtype)
    ends = [-np.inf, np.inf, np.nan, -0.0] if dtype[0] == "f" else [np.iinfo(dtype).min] * 2
    x[RANDOM.random(size) < 0.2] = RANDOM.choice(np.array(ends, dtype))
    return x


def places(x: Array, count: int, largest: int) -> Array:
    rank = np.unique(x, return_inverse=True)[1]  # a NaN is the last
    return np.argsort(-rank if largest else rank, kind="stable")[:count]


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
@pytest.mark.parametrize("size", SIZES)
def test_the_first_of_many_are_the_head_of_a_stable_sort(
    size: int, dtype: str, largest: int
) -> None:
    x, count = row(size, dtype), min(size, 20)
    _, indices = run("TopK", x, [count], largest=largest, outputs=2)
    np.testing.assert_array_equal(indices, places(x, count, largest))


@pytest.fixture(scope="module")
def of_any_size() -> Engine:
    text = '<ir_version: 10, opset_import: ["": 21]> g (float[N] x, int64[1] k)'
    return make_engine(
        load(onnx.parser.parse_model(text + " => (int64[K] i) { v, i = TopK(x, k) }"))
    )


@pytest.mark.parametrize("size", SIZES)
def test_the_size_may_be_a_symbol(of_any_size: Engine, size: int) -> None:
    x, count = row(size, "f4"), min(size, 20)
    found = of_any_size.run({"x": x, "k": np.array([count])})["i"]
    np.testing.assert_array_equal(found, places(x, count, 1))


def test_a_row_of_more_elements_than_there_are_bits_for_is_refused() -> None:
    with pytest.raises(InvalidModel, match="bits"):
        lowered("TopK", (2**32,), [1], outputs=2)


def test_the_loops_over_sixteen_are_not_unrolled_before_they_are_vectors() -> None:
    text = print_scheduled(lowered("TopK", (4, 1000), [10], outputs=2)).text
    sixteen = [line for line in text.splitlines() if "< 16; r" in line]
    assert all(line.lstrip().startswith("sx_rolled() for") for line in sixteen)


def test_a_minimum_with_a_number_has_its_upper_bound_whatever_the_other_operand() -> None:
    unknown = alu("mul", Size(1 << 50), Size(1 << 50))
    assert bounds(alu("min", unknown, const(9, int64)))[1] == 9
