"""Sums of products whose last block of lanes is at most half in use: the tiles of half a block
(kernel/c99/contract_half.h) give the bytes of the machine and of plain loops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nets import Net, check_engines
from targets import WITH_SANITIZERS, Target
from test_targets import check_net

from sardonyx.clocked import clocked
from sardonyx.dims import symbol
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.machine import Machine
from sardonyx.native import NativeEngine
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.threads import ALONE
from sardonyx.tune import CANDIDATES, MODEL, Choice

FILTERS = (1, 7, 8, 9, 24, 34, 40)
HALVES = (1, 7, 8, 24, 34, 40)  # of them, whose last block has at most 8 lanes
Rng = np.random.Generator


def values(rng: Rng, *shape: int) -> Any:
    x = rng.standard_normal(shape) * np.exp2(rng.integers(-6, 7, shape))
    return np.where(rng.random(shape) < 0.05, np.copysign(0.0, x), x).astype(np.float32)


def add(made: Net, rng: Rng, filters: int) -> None:
    """Matrices of few rows, of a tile and of more, of few and of many terms; convolutions, in
    groups and transposed, with what finishes them."""

    def fed(*shape: int) -> str:
        return made.feed(f"x{len(made.feeds)}", values(rng, *shape))

    def weights(*shape: int) -> str:
        return made.weight(values(rng, *shape))

    for rows, terms in ((1, 3), (2, 37), (3, 1), (5, 1300), (7, 6), (11, 21), (13, 530), (271, 33)):
        y = made.op("MatMul", fed(rows, terms), weights(terms, filters))
        made.give(y, made.op("Sigmoid", made.op("Add", y, weights(filters))))
    pads = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    x = made.op("Conv", fed(2, 19, 7, 5), weights(48, 19, 3, 3), **pads)
    y = made.op("Conv", x, weights(filters, 48, 3, 3), weights(filters), **pads)
    z = made.op("Relu", made.op("Conv", x, weights(2 * filters, 48, 1, 1)))
    z = made.op("Conv", z, weights(2 * filters, filters, 1, 1), group=2)
    up = made.op("ConvTranspose", x, weights(48, filters, 2, 2), strides=[2, 2])
    made.give(made.op("Relu", y), z, made.op("Sigmoid", up))


def net(*filters: int) -> Net:
    made, rng = Net(), np.random.default_rng(1)
    for n in filters:
        add(made, rng, n)
    return made


def test_scheduled_equals_plain_equals_machine() -> None:
    made = net(*FILTERS)
    check_engines(made)


@pytest.mark.slow
def test_bytes_do_not_depend_on_threads_nor_on_a_choice(small_units: None) -> None:
    made = net(8, 40)
    graph = made.graph()
    expected = Machine(graph).run(made.feeds)
    for threads in (2, 3):
        found = NativeEngine(graph, threads=threads).run(made.feeds)
        assert all(found[n].tobytes() == expected[n].tobytes() for n in graph.outputs), threads
    program = optimise(lower(graph, overridable=False))
    symbols = Choice._fields
    tile, wide, chunk, terms = map(symbol, symbols)
    run = clocked(program, ALONE, choices=lambda shape: (tile, wide, chunk, terms), symbols=symbols)
    for given in (MODEL, *CANDIDATES, Choice(2, 2, 7, 5), Choice(3, 4, 9999, 9999)):
        run.dims[:] = given
        found, _ = run(made.feeds)
        assert all(found[n].tobytes() == expected[n].tobytes() for n in graph.outputs), given


@pytest.mark.parametrize("filters", FILTERS)
def test_halves_go_to_their_tiles(filters: int) -> None:
    made, rng = Net(), np.random.default_rng(1)
    x = made.feed("x", values(rng, 1, 20, 5, 3))
    made.give(made.op("Conv", x, values(rng, filters, 20, 3, 3)))
    program = optimise(lower(made.graph(), overridable=False))
    text = "\n".join(print_scheduled(x.kernel).text for x in program.launches)
    assert ("sx_contract_half(" in text) == (filters in HALVES)
    assert ("sx_contract(" in text) == (filters not in HALVES)


@pytest.mark.parametrize("compiler", ["gcc", pytest.param("clang", marks=pytest.mark.slow)])
def test_the_sanitizers_have_nothing_to_report(compiler: str, tmp_path: Path) -> None:
    made, rng = Net(), np.random.default_rng(1)
    for i, (filters, terms) in enumerate(((24, 30), (8, 5))):
        x = made.feed(f"x{i}", values(rng, 1, terms, 5, 3))
        made.give(made.op("Relu", made.op("Conv", x, values(rng, filters, terms, 3, 3))))
    check_net(made, Target(compiler, (*WITH_SANITIZERS[compiler], "-mavx2", "-mfma")), tmp_path)
