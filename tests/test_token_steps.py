"""Decoders as they are exported: the sizes of the cache, and the values that say how much of it is
held, change with every token, and are served by one program; an empty cache by another."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from nets import Net

from sardonyx.engines import make_engine
from sardonyx.graph import Graph
from sardonyx.machine import Machine
from sardonyx.native import NativeEngine
from sardonyx.types import Array

HEADS, SHARED, SIZE, PLACES = 4, 2, 8, 64
MICROSOFT = {"": 21, "com.microsoft": 1}


def decoder(past: int, new: int) -> Net:
    """One layer of GroupQueryAttention with rotary positions, and a product behind it."""
    rng = np.random.default_rng(past * 100 + new)

    def normal(*shape: int) -> Array:
        return rng.standard_normal(shape, np.float32)

    net = Net(opsets=MICROSOFT)
    angles = np.outer(np.arange(PLACES), 10.0 ** -np.arange(SIZE // 2)).astype(np.float32)
    sizes = (("q", HEADS), ("k", SHARED), ("v", SHARED))
    given = [net.feed(n, normal(1, new, heads * SIZE)) for n, heads in sizes]
    given += [net.feed(n, normal(1, SHARED, past, SIZE)) for n in ("pk", "pv")]
    given.append(net.feed("ends", np.array([past + new - 1], np.int32)))
    given.append(net.feed("total", np.array(past + new, np.int32)))
    caches = [net.weight(f(angles)) for f in (np.cos, np.sin)]
    mixed, keys, values = net.op(
        "GroupQueryAttention",
        *given,
        *caches,
        count=3,
        domain="com.microsoft",
        num_heads=HEADS,
        kv_num_heads=SHARED,
        do_rotary=1,
    )
    weights = np.random.default_rng(5).standard_normal((HEADS * SIZE, 24), np.float32)
    net.give(net.op("MatMul", mixed, weights), keys, values)
    return net


def symbolic() -> Graph:
    return decoder(37, 41).graph(sizes={37: "P", 41: "S"})


def generation(prompt: int, count: int) -> Iterator[Net]:
    """The prompt, then a token at a time."""
    yield decoder(0, prompt)
    for i in range(count):
        yield decoder(prompt + i, 1)


def check(engine: NativeEngine, net: Net) -> None:
    want, found = Machine(net.graph()).run(net.feeds), engine.run(net.feeds)
    assert [found[n].tobytes() for n in net.outputs] == [want[n].tobytes() for n in net.outputs]


def made() -> NativeEngine:
    engine = make_engine(symbolic(), "native")
    assert isinstance(engine, NativeEngine)
    return engine


def test_prompts_and_tokens_of_all_lengths_are_two_programs(compiled: list[str]) -> None:
    engine = made()
    for prompt in (7, 1, 12):
        for net in generation(prompt, 3):
            check(engine, net)
    check(engine, decoder(9, 5))
    assert len(compiled) <= 3  # a prompt of one token ends at 0, which is a value of its own


@pytest.mark.parametrize("past", [0, 6])
def test_a_prompt_begins_anew(past: int) -> None:
    """Where the total is the query's length nothing of the cache is held."""
    net = decoder(past, 5)
    net.feeds["total"], net.feeds["ends"] = np.array(5, np.int32), np.array([4], np.int32)
    check(made(), net)


def test_a_cache_with_room_keeps_its_size() -> None:
    net = decoder(40, 1)
    net.feeds["total"], net.feeds["ends"] = np.array(11, np.int32), np.array([10], np.int32)
    engine = made()
    check(engine, net)
    assert engine.run(net.feeds)[net.outputs[1]].shape == (1, SHARED, 40, SIZE)
