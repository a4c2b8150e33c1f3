"""What no launch reads of a tensor is not computed."""

from __future__ import annotations

import numpy as np
import pytest
from nets import Net, check_any_batch, check_engines

from sardonyx.errors import RunError
from sardonyx.native import NativeEngine
from sardonyx.passes.constants import fold_constants
from sardonyx.passes.lower import lower
from sardonyx.passes.needed import compute_needed
from sardonyx.passes.places import known_places
from sardonyx.types import Array

ROWS, WIDTH = 12, 16


def random(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def layer(net: Net, x: str) -> str:
    """Attention among the rows, its sum with them, and a norm."""
    q, k, v = (net.op("MatMul", x, random(i, WIDTH, WIDTH)) for i in range(3))
    heads = [
        net.op("Transpose", net.op("Reshape", t, np.array([0, 0, 4, -1], np.int64)), perm=p)
        for t, p in ((q, [0, 2, 1, 3]), (k, [0, 2, 3, 1]), (v, [0, 2, 1, 3]))
    ]
    scores = net.op("Softmax", net.op("MatMul", *heads[:2]), axis=-1)
    y = net.op("Transpose", net.op("MatMul", scores, heads[2]), perm=[0, 2, 1, 3])
    y = net.op("Reshape", y, np.array([0, 0, -1], np.int64))
    y = net.op("Add", net.op("MatMul", y, random(3, WIDTH, WIDTH)), x)
    return net.op("LayerNormalization", y, random(4, WIDTH), axis=-1)


def classifier(at: int = 0, layers: int = 1) -> Net:
    net = Net()
    x = net.feed("x", random(9, 2, ROWS, WIDTH))
    for _ in range(layers):
        x = layer(net, x)
    net.give(net.op("Gather", x, np.array(at, np.int64), axis=1))
    return net


@pytest.mark.parametrize("at", [0, 5, -1])
def test_the_engines_agree(at: int) -> None:
    check_engines(classifier(at))
    check_engines(classifier(at, layers=2))
    check_any_batch(classifier(at))


def test_the_last_layer_makes_one_row_of_queries_and_all_of_keys() -> None:
    program = compute_needed(known_places(lower(classifier().graph())))
    products = [x for x in program.launches if x.kernel.name == "MatMul"]
    rows = [x.kernel.outputs[0].shape[-2] for x in products]
    assert rows == [1, ROWS, ROWS, 1, 1, 1]


def residual(net: Net, size: int, *steps: tuple[int, int]) -> str:
    """A block of a residual network, of which 1 x 1 convolutions read in steps."""
    x = net.feed("x", random(1, 1, 16, size, size))
    y = net.op("Relu", net.op("Conv", x, random(2, 16, 16, 3, 3), pads=[1, 1, 1, 1]))
    y = net.op("Conv", y, random(3, 16, 16, 1, 1))
    y = net.op("Relu", net.op("Add", y, x))
    for step in steps:
        net.give(net.op("Conv", y, random(4, 16, 16, 1, 1), strides=list(step)))
    return y


@pytest.mark.parametrize("size", [8, 9, 12])
def test_what_is_read_in_steps_is_made_in_steps(size: int) -> None:
    net = Net()
    y = residual(net, size, (2, 2), (4, 2))
    check_engines(net)
    program = compute_needed(lower(net.graph()))
    half = (size + 1) // 2
    assert program.tensors[y].shape == (1, 16, half, half)
    shapes = [x.kernel.outputs[0].shape for x in program.launches if x.kernel.name == "Conv"]
    assert shapes[:2] == [(1, 16, half, half)] * 2


@pytest.mark.parametrize("steps", [[(2, 2), (3, 2)], [(1, 2)], [(2, 2), (1, 1)]])
def test_steps_without_a_common_divisor_leave_the_dimension(steps: list[tuple[int, int]]) -> None:
    net = Net()
    y = residual(net, 9, *steps)
    check_engines(net)
    apart = (9 if any(a != 2 for a, _ in steps) else 5, 9 if (1, 1) in steps else 5)
    assert compute_needed(lower(net.graph())).tensors[y].shape == (1, 16, *apart)


def test_steps_begin_where_the_first_is_read() -> None:
    net = Net()
    y = net.op("Exp", net.feed("x", random(1, 4, 13)))
    for first, step in ((9, 4), (1, 4), (3, 6)):
        ends = (np.array([n], np.int64) for n in (first, 13, 1, step))
        net.give(net.op("Neg", net.op("Slice", y, *ends)))
    check_engines(net)
    assert compute_needed(lower(net.graph())).tensors[y].shape == (4, 5)  # 1, 3, 5, 7, 9


def test_halves_that_are_both_read_are_all_computed() -> None:
    net = Net()
    x = net.op("Exp", net.feed("x", random(1, 4, 8)))
    a, b = net.op("Split", x, count=2, axis=1, num_outputs=2)
    net.give(net.op("Mul", a, net.op("Sigmoid", b)))
    check_engines(net)
    assert compute_needed(lower(net.graph())).tensors[x].shape == (4, 8)


def test_what_nobody_reads_is_not_made() -> None:
    """Of a product only the shape is wanted."""
    net = Net()
    x = net.feed("x", random(9, 2, ROWS, WIDTH))
    unread = net.op("MatMul", x, random(1, WIDTH, 8))
    zeros = net.op("ConstantOfShape", net.op("Shape", unread))
    net.give(net.op("Concat", x, zeros, axis=-1))
    made = [
        x.kernel.name for x in compute_needed(fold_constants(lower(net.graph()), True)).launches
    ]
    assert made.count("MatMul") == 0 < made.count("Concat")
    check_engines(net)


def test_what_may_trap_is_computed_though_nobody_reads_it() -> None:
    net = Net()
    rows = net.op("Gather", random(1, 5, 8), net.feed("i", np.array([1, 0, 2, 3], np.int64)))
    net.give(net.op("Slice", rows, *(np.array([n], np.int64) for n in (0, 1, 0))))
    check_engines(net)
    assert compute_needed(lower(net.graph())).tensors[rows].shape == (4, 8)


def test_an_index_outside_is_an_error_though_nobody_reads_what_it_gives() -> None:
    net = Net()
    rows = net.op("Gather", random(1, 5, 8), net.feed("i", np.array([1, 7, 2, 3], np.int64)))
    net.give(net.op("Slice", rows, *(np.array([n], np.int64) for n in (0, 1, 0))))
    for schedule in (True, False):
        with pytest.raises(RunError, match="an index is out of bounds"):
            NativeEngine(net.graph(), schedule=schedule).run(net.feeds)


@pytest.mark.parametrize("read", [False, True])
def test_a_mask_that_nothing_reads_is_not_made(read: bool) -> None:
    """Of Dropout between convolutions, whose channels stay in blocks; where the batch is a symbol
    no pass knows the mask."""
    net = Net()
    x = net.op("Conv", net.feed("x", random(1, 2, 16, 9, 9)), random(2, 32, 16, 1, 1))
    y, mask = net.op("Dropout", x, count=2)
    net.give(net.op("Conv", y, random(3, 16, 32, 1, 1)), *([mask] if read else []))
    check_engines(net)
    check_any_batch(net)
    program = fold_constants(lower(net.graph("N")))
    (made,) = (x for x in program.launches if x.kernel.name == "Dropout")
    assert made.writes == ((y, mask) if read else (y,))
