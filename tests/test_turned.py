"""Arithmetic on what lies along another axis: the bytes of plain loops, at every size of a tile."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nets import Net, check_any_batch, check_engines

from sardonyx.kernel.c99.print_tiles import across, dealt
from sardonyx.kernel.c99.print_turned import turned_of
from sardonyx.kernel.ir import Compute
from sardonyx.native import NativeEngine
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.types import Array

SIZES = [1, 7, 8, 15, 16, 17, 31, 33, 40, 48]


def random(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def turned(rows: int, columns: int, batch: int = 2, second: bool = False) -> Net:
    """Activations of a transposed tensor, with a vector, and another that is transposed too."""
    net = Net()
    x = net.op("Transpose", net.feed("x", random(1, batch, rows, columns)), perm=[0, 2, 1])
    x = net.op("Mul", net.op("Add", x, random(2, rows)), np.array(1.7, np.float32))
    if second:
        y = net.op("Transpose", net.feed("y", random(3, batch, rows, columns)), perm=[0, 2, 1])
        x = net.op("Sub", x, y)
    net.give(net.op("Sigmoid", x))
    return net


def takes_tiles(net: Net) -> bool:
    for launch in optimise(lower(net.graph())).launches:
        for s in launch.kernel.body:
            p = across(s) if isinstance(s, Compute) else None
            if p is not None and isinstance(s, Compute) and turned_of(s, p) is not None:
                return True
    return False


@pytest.mark.parametrize("second", [False, True])
def test_such_launches_take_tiles(second: bool) -> None:
    assert takes_tiles(turned(40, 24, second=second))


@pytest.mark.parametrize("columns", [8, 10, 15])
def test_columns_that_fill_no_tile_are_read_as_they_lie(columns: int) -> None:
    assert not takes_tiles(turned(90, columns))


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("columns", [8, 10, 16, 33])
def test_the_engines_agree(rows: int, columns: int) -> None:
    check_engines(turned(rows, columns, second=rows % 2 == 0))


def test_with_any_batch_the_schedule_is_the_same() -> None:
    check_any_batch(turned(40, 24, second=True))


@settings(max_examples=12, derandomize=True)
@given(st.integers(8, 200), st.integers(8, 200), st.integers(1, 3), st.booleans())
def test_threads_give_the_bytes_of_one(rows: int, columns: int, batch: int, second: bool) -> None:
    net = turned(rows, columns, batch, second)
    one, two = (NativeEngine(net.graph(), threads=n).run(net.feeds) for n in (1, 2))
    assert [one[n].tobytes() for n in net.outputs] == [two[n].tobytes() for n in net.outputs]


@pytest.mark.parametrize("keys", [16, 24, 33, 70])
def test_a_scaled_operand_is_packed_in_tiles(keys: int) -> None:
    net = Net()
    k = net.op("Transpose", net.feed("k", random(1, 3, keys, 20)), perm=[0, 2, 1])
    k = net.op("Mul", k, np.array(0.3, np.float32))
    net.give(net.op("MatMul", net.feed("q", random(2, 3, 11, 20)), k))
    assert takes_tiles(net)
    check_engines(net)


def test_rows_of_bytes_are_quantised_in_tiles() -> None:
    net = Net()
    x = net.op("Transpose", net.feed("x", random(1, 2, 40, 37)), perm=[0, 2, 1])
    net.give(net.op("QuantizeLinear", x, np.array(0.02, np.float32), np.array(7, np.uint8)))
    assert takes_tiles(net)
    check_engines(net)


@pytest.mark.parametrize(("rows", "columns"), [(40, 24), (17, 40), (56, 33), (24, 24)])
def test_no_element_is_computed_twice(rows: int, columns: int) -> None:
    """The result may lie where an operand lay, which is read no more after."""
    net = Net()
    kept = net.op("MatMul", net.feed("a", random(1, 2, rows, 8)), random(2, 8, columns))
    net.give(net.op("MatMul", kept, random(3, columns, 8)))
    x = net.op("Transpose", net.feed("x", random(4, 2, columns, rows)), perm=[0, 2, 1])
    y = net.op("Add", net.op("Relu", x), net.op("Mul", kept, np.array(0.7, np.float32)))
    net.give(net.op("MatMul", y, random(5, columns, 8)))
    assert takes_tiles(net)
    check_engines(net)


@pytest.mark.parametrize("mode", ["SpaceToDepth", "CRD", "DCR"])
@pytest.mark.parametrize("by", [2, 3])
def test_rows_that_are_dealt_out_are_the_machines(by: int, mode: str) -> None:
    net = Net(opsets={"": 13})
    x = net.feed("x", random(1, 2, 4 * by * by, 6 * by, 35 * by))
    how = {} if mode == "SpaceToDepth" else {"mode": mode}
    net.give(net.op("DepthToSpace" if how else mode, x, blocksize=by, **how))
    check_engines(net)


def test_a_row_is_read_once_where_it_is_dealt_out() -> None:
    """The loop over what lies between neighbours is the last but that over these."""
    net = Net(opsets={"": 13})
    net.give(net.op("SpaceToDepth", net.feed("x", random(1, 1, 3, 64, 66)), blocksize=2))
    (launch,) = optimise(lower(net.graph())).launches
    (s,) = launch.kernel.body
    assert isinstance(s, Compute)
    assert [a.extent for a in dealt(s)] == [2, 96, 2, 33]
