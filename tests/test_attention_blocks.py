"""Attention goes block of rows by block of rows, its scores stay in the cache, bits as they are."""

from __future__ import annotations

from itertools import product as cartesian
from math import prod

import numpy as np
import pytest
from nets import Net, check_any_batch
from test_passes import check, values

from sardonyx.dims import evaluate, product, symbol
from sardonyx.emit import model
from sardonyx.graph import Graph
from sardonyx.kernel.c99 import share
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.kernel.expr import lift
from sardonyx.kernel.ir import Compute, For, If, Kernel, Store, statements
from sardonyx.kernel.verify import unproven, verify
from sardonyx.machine import Machine
from sardonyx.native import NativeEngine
from sardonyx.passes import attention, blocks
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.program import Launch, Program
from sardonyx.types import Array

HEADS, PART = 2, 20


@pytest.fixture(params=[1 << 10, 1 << 20], ids=["blocks and a rest", "one block"])
def room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many bytes of scores there is room for; every attention is worth it."""
    monkeypatch.setattr(attention, "LEAST", 0)
    monkeypatch.setattr(blocks, "ROOM", request.param)
    return int(request.param)


def heads(net: Net, x: str) -> str:
    y = net.op("Reshape", x, np.array([0, 0, HEADS, PART]))
    return net.op("Transpose", y, perm=[0, 2, 1, 3])


def exported(rows: int, keys: int, *, odd: bool = False, shown: bool = False) -> Net:
    """Attention as graphs have it, with a mask; `shown`: the weights are an output too."""
    net, rng, width = Net(), np.random.default_rng(5), HEADS * PART

    def fed(name: str, *shape: int) -> str:
        plain = rng.standard_normal(shape).astype(np.float32)
        return net.feed(name, values(len(name), *shape) if odd else plain)

    q, k, v = (fed(n, 2, m, width) for n, m in (("q", rows), ("ke", keys), ("val", keys)))
    q, k, v = (heads(net, x) for x in (q, k, v))
    scores = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 1, 3, 2]))
    scores = net.op("Mul", scores, np.float32(0.3))
    scores = net.op("Add", scores, fed("mask", 2, 1, rows, keys))
    weights = net.op("Softmax", scores, axis=-1)
    mixed = net.op("Transpose", net.op("MatMul", weights, v), perm=[0, 2, 1, 3])
    net.give(net.op("Reshape", mixed, np.array([0, 0, width])))
    if shown:
        net.give(weights)
    return net


def operator(rows: int, keys: int) -> Net:
    """The same as one operation."""
    net, width = Net(), HEADS * PART
    q, k, v = (
        net.feed(n, np.random.default_rng(i).standard_normal((2, m, width)).astype(np.float32))
        for i, (n, m) in enumerate((("q", rows), ("k", keys), ("v", keys)))
    )
    given = {"q_num_heads": HEADS, "kv_num_heads": HEADS}
    net.give(net.op("Attention", q, k, v, **given))
    return net


def fused(program: Program) -> list[Launch]:
    """The launches with both products."""
    found = [
        x for x in program.launches if x.performs("", "Softmax") or x.performs("", "Attention")
    ]
    return [x for x in found if any(isinstance(s, For | If) for s in x.kernel.body)]


@pytest.mark.parametrize(("rows", "keys"), [(31, 19), (30, 16)])
def test_blocks_of_rows_keep_the_bits(rows: int, keys: int, room: int) -> None:
    (launch,) = fused(check(exported(rows, keys, odd=True)))
    assert {x.op_type for x in launch.operations} >= {"MatMul", "Softmax", "Mul", "Add"}


def test_scores_have_the_memory_of_a_block(room: int) -> None:
    (launch,) = fused(optimise(lower(exported(70, 50).graph())))
    most = max(room, 4 * blocks.FEWEST * 50)
    packed = [b for b in launch.kernel.temporaries if b.name.startswith("packed")]
    assert len(packed) == 2
    assert all(4 * prod(b.shape) <= most for b in launch.kernel.temporaries if b not in packed)


@pytest.mark.parametrize("net", [exported(70, 50), operator(60, 33)], ids=["graph", "operator"])
def test_c_has_the_bytes_of_plain_loops(
    net: Net, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share, "UNIT", 64)
    monkeypatch.setattr(model, "UNIT", 64)
    graph = net.graph()
    assert fused(optimise(lower(graph)))
    want = NativeEngine(graph, schedule=False).run(net.feeds)
    for threads in (1, 2, 3):
        found = NativeEngine(graph, threads=threads).run(net.feeds)
        assert all(found[n].tobytes() == y.tobytes() for n, y in want.items())


def test_any_batch_goes_block_by_block(room: int) -> None:
    net = operator(60, 33)
    assert fused(optimise(lower(net.graph("N"))))
    check_any_batch(net)


def anyhow(net: Net, *sizes: tuple[int, str]) -> tuple[Graph, Kernel]:
    """The graph with symbols for the batch and these sizes; the kernel of its attention."""
    graph = net.graph("N", dict(sizes))
    (launch,) = fused(optimise(lower(graph), roomy=True))
    return graph, launch.kernel


def fed(net: Net, batch: int, rows: int, keys: int) -> dict[str, Array]:
    """Numbers for the inputs, of other sizes where these are a batch, 7 rows and 11 keys."""
    to, rng = {7: rows, 11: keys}, np.random.default_rng(rows)
    shapes = {n: (batch, *(to.get(d, d) for d in v.shape[1:])) for n, v in net.feeds.items()}
    return {n: rng.normal(0, 2, shape).astype(net.feeds[n].dtype) for n, shape in shapes.items()}


def masked() -> Net:
    """Attention of tokens with themselves, as exported, each key shown or not."""
    net, width = Net(), HEADS * PART
    x = net.feed("x", values(1, 2, 7, width))
    mask = net.feed("mask", np.ones((2, 7), np.int64))
    q, k, v = (heads(net, net.op("MatMul", x, values(i, width, width))) for i in (2, 3, 4))
    scores = net.op("MatMul", q, net.op("Transpose", k, perm=[0, 1, 3, 2]))
    shown = net.op("Cast", net.op("Unsqueeze", mask, np.array([1, 2])), to=1)
    hidden = net.op("Mul", net.op("Sub", np.float32(1), shown), np.float32(-1e4))
    weights = net.op("Softmax", net.op("Add", scores, hidden), axis=-1)
    mixed = net.op("Transpose", net.op("MatMul", weights, v), perm=[0, 2, 1, 3])
    net.give(net.op("Reshape", mixed, np.array([0, 0, width])))
    return net


TOKENS = (1, 2, 3, 4, 5, 17, 28, 29, 57, 83, 84, 85, 100, 168, 169, 256)
SYMBOLS = ((7, "S"), (11, "T"))


@pytest.mark.parametrize(
    ("net", "sizes"),
    [(masked(), SYMBOLS[:1]), (exported(7, 11), SYMBOLS), (operator(7, 11), SYMBOLS)],
    ids=["mask", "graph", "operator"],
)
def test_any_number_of_tokens_goes_block_by_block(
    net: Net, sizes: tuple[tuple[int, str], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One program has the bytes of plain loops for all sizes, on any number of threads."""
    monkeypatch.setattr(share, "UNIT", 64)
    monkeypatch.setattr(model, "UNIT", 64)
    graph, _ = anyhow(net, *sizes)
    plain = NativeEngine(graph, schedule=False)
    engines = [NativeEngine(graph, threads=n) for n in (1, 2)]
    for batch, rows in (*cartesian((1, 3), TOKENS[:6]), *cartesian((1,), TOKENS[6:])):
        feeds = fed(net, batch, rows, 1 + 2 * rows % 71)
        wanted = [*plain.run(feeds).values()]
        found = [[*engine.run(feeds).values()] for engine in engines]
        if rows < 6:
            found.append([*Machine(graph).run(feeds).values()])
        assert all([y.tobytes() for y in ys] == [y.tobytes() for y in wanted] for ys in found)


def test_blocks_of_any_number_of_rows_are_proven_and_shared_out(room: int) -> None:
    _, kernel = anyhow(masked(), (7, "S"))
    verify(kernel)
    assert not any(unproven(kernel).values())
    stores = [s for s in statements(kernel.body) if isinstance(s, Store)]
    assert all(s.proven for s in stores if s.buffer.root in kernel.outputs)
    (choice,) = (s for s in kernel.body if isinstance(s, If))
    blocks = next(s for s in choice.otherwise if isinstance(s, For))
    found = share.share_of_loop(blocks, kernel)
    assert found is not None
    assert [a.name for a in found.axes] == ["h0", "h1", "b"]


def test_for_few_rows_nothing_is_packed(room: int) -> None:
    _, kernel = anyhow(exported(7, 11), *SYMBOLS)
    (choice,) = (s for s in kernel.body if isinstance(s, If))
    assert str(choice.cond) == str(lift(symbol("S")) < 4)
    few, many = (
        [s.buffer.name for s in statements(side) if isinstance(s, Compute)]
        for side in (choice.then, choice.otherwise)
    )
    assert not any(name.startswith("packed") for name in few)
    assert sum(name.startswith("packed") for name in many) == 2


def test_any_number_of_keys_is_packed_in_lines() -> None:
    _, kernel = anyhow(masked(), (7, "S"))
    assert "sx_across_wide" in print_scheduled(kernel).text


@pytest.mark.parametrize("grown", ["S", "T"])
def test_no_memory_shrinks_where_sizes_grow(grown: str) -> None:
    """A plan for the largest sizes is one for all: exported C whose sizes data decide has one."""
    _, kernel = anyhow(exported(7, 11), *SYMBOLS)
    for b in kernel.temporaries:
        sizes = [evaluate(product(b.shape), {"N": 1, "S": 9, "T": 9, grown: n}) for n in TOKENS]
        assert sizes == sorted(sizes)


def test_blocks_are_shared_out_among_threads(room: int) -> None:
    (launch,) = fused(optimise(lower(exported(250, 200).graph())))
    assert isinstance(launch.kernel.body[-1], For)
    assert share.share_of_loop(launch.kernel.body[-1], launch.kernel) is not None
    assert print_scheduled(launch.kernel, None, threads=True).shares


def test_weights_that_are_wanted_stay_apart(room: int) -> None:
    program = check(exported(31, 16, shown=True))
    found = [x for x in program.launches if x.performs("", "Softmax")]
    assert all(not x.performs("", "MatMul") for x in found)


@pytest.mark.parametrize(
    ("count", "each", "heads", "rows"),
    [(1500, 6000, 6, 42), (384, 1536, 12, 96), (128, 512, 12, 128), (4096, 16384, 8, 28)],
)
def test_blocks_fill_tiles_of_six_and_of_fourteen_rows(
    count: int, each: int, heads: int, rows: int
) -> None:
    assert blocks.rows_of(count, each, heads) == rows


@pytest.mark.parametrize(("count", "heads", "rows"), [(197, 3, 49), (257, 3, 64), (196, 3, 49)])
def test_blocks_are_as_many_for_each_of_two_threads(count: int, heads: int, rows: int) -> None:
    """Three heads of two blocks and a rest were two rests for one thread, one for the other."""
    assert blocks.rows_of(count, 4 * count, heads) == rows
    assert count // rows * heads % 2 == 0
    assert count % rows <= 1


def test_few_scores_are_not_worth_it() -> None:
    program = optimise(lower(exported(31, 16).graph()))
    assert len([x for x in program.launches if x.performs("", "MatMul")]) == 2


def test_tokens_of_a_convolution_are_not_taken_for_channels() -> None:
    """After Conv and Transpose the second axis counts tokens: features stay neighbours."""
    net = Net()
    x = net.feed("x", values(1, 1, 16, 50))
    y = net.op("Conv", x, values(2, 32, 16, 3), pads=[1, 1])
    y = net.op("Transpose", net.op("Erf", y), perm=[0, 2, 1])
    net.give(net.op("MatMul", y, values(3, 32, 24)))
    program = check(net)
    (product,) = [s for s in program.launches if s.performs("", "MatMul")]
    assert (1, 50, 32) in [b.shape for b in product.kernel.inputs if b is not None]


def test_the_loop_over_neighbours_is_not_shared_out_point_by_point() -> None:
    """A cache of keys and one more: whole rows are copied."""
    net = Net()
    past, now = net.feed("past", values(1, 6, 255, 64)), net.feed("now", values(2, 6, 1, 64))
    net.give(net.op("Concat", past, now, axis=1))
    (launch,) = optimise(lower(net.graph())).launches
    (loop,) = (s for s in launch.kernel.body if isinstance(s, For) and big(s))
    found = share.share_of_loop(loop, launch.kernel)
    assert found is not None
    assert [a.extent for a in found.axes] == [6]


def big(s: For) -> bool:
    """Whether it copies the cache."""
    inner = [x.axis.extent for x in statements((s,)) if isinstance(x, For)]
    return not any(isinstance(x, Compute) for x in statements((s,))) and 255 * 64 in inner


def test_what_a_loop_makes_is_no_part_of_an_attention(room: int) -> None:
    """Neither sums along an axis nor another attention is rows of scores."""
    net = Net()
    x, v = (net.feed(n, values(len(n), 2, 40, 40)) for n in ("x", "val"))
    net.give(net.op("MatMul", net.op("CumSum", x, np.array(1)), v))
    weights = net.op("Softmax", net.op("MatMul", x, net.op("Transpose", v, perm=[0, 2, 1])))
    net.give(net.op("MatMul", net.op("MatMul", weights, x), values(3, 40, 20)))
    check(net)


def test_weights_of_other_rows_are_not_those_of_a_block(room: int) -> None:
    """What is added to the products is the transposed weights."""
    net, rng = Net(), np.random.default_rng(2)
    x, v = (net.feed(n, rng.standard_normal((2, 40, 40)).astype(np.float32)) for n in "xv")
    weights = net.op("Softmax", net.op("MatMul", x, net.op("Transpose", v, perm=[0, 2, 1])))
    mixed = net.op("MatMul", weights, v)
    net.give(net.op("Add", mixed, net.op("Transpose", weights, perm=[0, 2, 1])))
    assert not any(x.performs("", "Softmax") and x.performs("", "Add") for x in fused(check(net)))
