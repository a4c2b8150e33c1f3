"""Attention of grouped queries as exporters write it: keys that heads share are not repeated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nets import Net, check_any_batch, check_engines

from sardonyx.dims import product
from sardonyx.native import NativeEngine
from sardonyx.passes.heads import share_heads
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.types import Array

WIDTH = 16


def random(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def sizes(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def repeated(net: Net, x: str, groups: int, members: int, keys: int, flat: bool) -> str:
    """(n, groups, keys, WIDTH) for each member of a group; flat: without the batch of one."""
    x = net.op("Unsqueeze", x, sizes(2))
    x = net.op("Expand", x, sizes(1, groups, members, keys, WIDTH))
    heads = groups * members
    shape = sizes(heads, keys, WIDTH) if flat else sizes(0, heads, keys, WIDTH)
    return str(net.op("Reshape", x, shape))


def attention(
    rows: int, keys: int, groups: int = 2, members: int = 4, batch: int = 1, given: bool = False
) -> Net:
    """What PyTorch's exporter makes of scaled_dot_product_attention with a mask; given: the scores
    are an output too."""
    net, heads = Net(), groups * members
    q = net.op(
        "Reshape", net.feed("q", random(1, batch, rows, heads * WIDTH)), sizes(0, 0, heads, -1)
    )
    k, v = (net.feed(n, random(i, batch, groups, keys, WIDTH)) for i, n in ((2, "k"), (3, "v")))
    flat = batch == 1
    k = repeated(net, k, groups, members, keys, flat)
    turned = net.op("Transpose", k, perm=[0, 2, 1] if flat else [0, 1, 3, 2])
    k = net.op("Reshape", turned, sizes(1, heads, WIDTH, keys)) if flat else turned
    scale = np.array(0.3, np.float32)
    q = net.op("Mul", net.op("Transpose", q, perm=[0, 2, 1, 3]), scale)
    scores = net.op("MatMul", q, net.op("Mul", k, scale))
    mask = np.where(np.tri(rows, keys, keys - rows) > 0, 0, -np.inf).astype(np.float32)
    mask[0] = -np.inf  # a row without keys: its softmax is NaN
    scores = net.op("Add", scores, mask[None, None])
    p = net.op("Softmax", scores, axis=-1)
    p = net.op("Where", net.op("IsNaN", p), np.array(0, np.float32), p)
    y = net.op("MatMul", p, repeated(net, v, groups, members, keys, False))
    y = net.op("Transpose", y, perm=[0, 2, 1, 3])
    net.give(net.op("Reshape", y, sizes(0, 0, heads * WIDTH)), *([scores] if given else []))
    return net


@pytest.mark.parametrize(("rows", "keys"), [(1, 40), (3, 33), (5, 5), (40, 48), (70, 130)])
@pytest.mark.parametrize("given", [False, True])
def test_the_engines_agree(rows: int, keys: int, given: bool) -> None:
    check_engines(attention(rows, keys, given=given))
    check_engines(attention(rows, keys, given=given, batch=2))


def test_with_any_batch_the_schedule_is_the_same() -> None:
    check_any_batch(attention(64, 96, batch=2))


@settings(max_examples=30, derandomize=True)
@given(
    st.integers(1, 9), st.integers(1, 40), st.integers(1, 3), st.integers(1, 5), st.integers(1, 2)
)
def test_schedules_give_the_bytes_of_plain_loops(
    rows: int, keys: int, groups: int, members: int, batch: int
) -> None:
    net = attention(rows, keys + rows, groups, members, batch)
    graph = net.graph()
    fast, plain = (NativeEngine(graph, schedule=s).run(net.feeds) for s in (True, False))
    assert [fast[n].tobytes() for n in net.outputs] == [plain[n].tobytes() for n in net.outputs]


@pytest.mark.parametrize("groups", [1, 2])
def test_nothing_is_repeated_and_attention_is_one_launch(groups: int) -> None:
    program = optimise(lower(attention(64, 160, groups).graph()), roomy=True)
    (whole,) = [x for x in program.launches if any(o.op_type == "Softmax" for o in x.operations)]
    assert [o.op_type for o in whole.operations].count("MatMul") == 2
    large = 4 * groups * 160 * WIDTH
    made = [program.tensors[n].shape for x in program.launches for n in x.writes]
    assert all(product(shape or ()) != large for shape in made)


def test_for_one_row_keys_are_read_as_they_lie() -> None:
    program = optimise(lower(attention(1, 96).graph()), roomy=True)
    readers = [x for x in program.launches if "k" in x.reads and not x.kernel.views]
    seen = {n for x in program.launches if x.kernel.views and "k" in x.reads for n in x.writes}
    readers += [x for x in program.launches if seen & set(x.reads) and not x.kernel.views]
    assert ["MatMul" in [o.op_type for o in x.operations] for x in readers] == [True]


def test_what_no_product_of_heads_reads_stays() -> None:
    net = Net()
    k = net.feed("k", random(1, 1, 2, 6, WIDTH))
    net.give(net.op("Exp", repeated(net, k, 2, 3, 6, False)))
    check_engines(net)
    program = lower(net.graph())
    assert share_heads(program) is program
