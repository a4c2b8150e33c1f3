"""Sums that are finished in registers (kernel/c99/print_plain.py): which they are, and
that the tiles give the bytes of the machine and of plain loops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nets import Net, check_engines

from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.machine import Machine
from sardonyx.native import NativeEngine
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise

Rng = np.random.Generator
ODD = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, -3e-23, 3e-23], np.float32)
SCALES = tuple(np.float32(x) for x in (0.3, -1.7, -0.0, np.inf, np.nan))
LIMITS = ((0, 6), (-1, 1), (2, 1), (-0.0, 0), (0, -0.0), (-np.inf, 3), (0.5, np.inf))
# rows, terms, lanes; channels, filters, groups
MATRICES = (
    *((1, 3, 16), (7, 2, 48), (49, 1300, 24), (271, 5, 40), (3, 40, 34)),
    *((13, 4, 80), (40, 1, 7)),
)
CONVOLUTIONS = ((3, 32, 1), (32, 24, 1), (48, 32, 2), (48, 48, 48))


def values(rng: Rng, odd: float, *shape: int) -> Any:
    x = rng.standard_normal(shape) * np.exp2(rng.integers(-6, 7, shape))
    return np.where(rng.random(shape) < odd, rng.choice(ODD, shape), x).astype(np.float32)


def finish(made: Net, y: str, rng: Rng, channels: int, like: tuple[int, ...], which: int) -> str:
    """Some of scale, bias, residual and bounds after y."""
    shape = (channels,) if len(like) == 2 else (channels, 1, 1)
    if which % 3 == 0:
        y = made.op("Mul", *((y, SCALES[which % 5]) if which % 2 else (SCALES[which % 5], y)))
    if which & 1:
        y = made.op("Add", y, values(rng, 0.02, *shape))
    if which & 2:
        y = made.op("Add", made.feed(f"r{len(made.feeds)}", values(rng, 0.05, *like)), y)
    if which & 4:
        low, high = LIMITS[(which >> 3) % len(LIMITS)]
        return str(made.op("Clip", y, np.float32(low), np.float32(high)))
    return str(made.op("Relu", y)) if which & 8 else y


def normalised(made: Net, y: str, slope: Any, bias: Any) -> str:
    """A batch normalisation, which is one fused step."""
    none, one = np.zeros_like(bias), np.full_like(bias, 1 - 1e-5)
    return str(made.op("BatchNormalization", y, slope, bias, none, one))


def net() -> Net:
    """Matrices and convolutions, of whole blocks and not, of few and of many rows and terms."""
    made, rng = Net(), np.random.default_rng(3)
    for i, (rows, terms, lanes) in enumerate(MATRICES * 4):
        x = made.feed(f"m{i}", values(rng, 0.1 / terms, rows, terms))
        y = made.op("MatMul", x, values(rng, 0.01, terms, lanes))
        made.give(finish(made, y, rng, lanes, (rows, lanes), 5 * i + i // 7))
    for i, (channels, lanes, group) in enumerate(CONVOLUTIONS * 5):
        x = made.op("Relu", made.feed(f"c{i}", values(rng, 0.001, 2, channels, 9, 11)))
        about = {"pads": [1, 1, 1, 1], "group": group, "strides": [1 + i % 2] * 2}
        y = made.op("Conv", x, values(rng, 0.01, lanes, channels // group, 3, 3), **about)
        like = (2, lanes, 5, 6) if i % 2 else (2, lanes, 9, 11)
        if i % 4 == i // 4 % 4:
            y = normalised(made, y, values(rng, 0.02, lanes), values(rng, 0.05, lanes))
        y = finish(made, y, rng, lanes, like, 3 * i + i // 4)
        if i % 3 == 0:  # it writes what has borders then
            y = made.op("Conv", y, values(rng, 0.0, 16, lanes, 3, 3), pads=[1, 1, 1, 1])
        made.give(y)
    return made


def text(*inputs: Any, op: str = "Conv", more: str = "", **attributes: Any) -> str:
    made, rng = Net(), np.random.default_rng(1)
    x = made.feed("x", values(rng, 0, 1, 16, 20, 20))
    y = made.op(op, x, *inputs, **attributes)
    made.give(made.op(more, y) if more else y)
    program = optimise(lower(made.graph(), overridable=False))
    return "\n".join(print_scheduled(x.kernel).text for x in program.launches)


def test_what_is_finished_in_registers() -> None:
    rng = np.random.default_rng(1)
    for channels, where in ((32, "&plain, 0, 0,"), (24, "&plain, @_finish0, &self,")):
        w, bias = values(rng, 0, channels, 16, 3, 3), values(rng, 0, channels)
        assert where in text(w, bias)
        assert where in text(w, bias, more="Relu")
        assert "0, @_finish0, &self," in text(w, bias, more="Sigmoid")


def test_batch_normalisation_and_borders_are_finished_in_registers() -> None:
    made, rng = Net(), np.random.default_rng(1)
    y = made.feed("x", values(rng, 0, 1, 16, 20, 20))
    for _ in range(3):
        w = values(rng, 0, 16, 16, 3, 3)
        y = normalised(made, made.op("Conv", y, w, pads=[1, 1, 1, 1]), *values(rng, 0, 2, 16))
        y = made.op("Relu", y)
    made.give(y)
    program = optimise(lower(made.graph(), overridable=False))
    texts = [print_scheduled(launch.kernel).text for launch in program.launches]
    assert sum("&plain, 0, 0," in text for text in texts) == 3


def test_one_number_for_all_sums_is_multiplied_in_registers() -> None:
    rng = np.random.default_rng(1)
    b, lanes = values(rng, 0, 20, 32), values(rng, 0, 32)
    for scale, where in ((np.float32(0.3), "&plain, 0, 0,"), (lanes, "0, @_finish0, &self,")):
        made = Net()
        product = made.op("MatMul", made.feed("x", values(rng, 0, 40, 20)), b)
        made.give(made.op("Add", made.op("Mul", product, scale), lanes))
        (launch,) = optimise(lower(made.graph(), overridable=False)).launches
        assert where in print_scheduled(launch.kernel).text


def test_scheduled_equals_plain_equals_machine() -> None:
    check_engines(net())


@pytest.mark.parametrize("lanes", [448, 450])
def test_lines_of_long_sums_are_asked_for_and_change_nothing(lanes: int) -> None:
    rows, terms = 300, 260
    made, rng = Net(), np.random.default_rng(5)
    x, r = (made.feed(n, values(rng, 0, rows, k)) for n, k in (("x", terms), ("r", lanes)))
    y = made.op("MatMul", x, values(rng, 0, terms, lanes))
    made.give(made.op("Tanh", made.op("Add", y, r)))
    program = optimise(lower(made.graph(), overridable=False))
    printed = "".join(print_scheduled(launch.kernel).text for launch in program.launches)
    assert "&plain, @_finish0, &self" in printed
    engines = (NativeEngine(made.graph(), schedule=s) for s in (True, False))
    (a,), (b,) = (e.run(made.feeds).values() for e in engines)
    assert a.tobytes() == b.tobytes()


def test_every_height_of_a_tile_with_few_terms_and_many() -> None:
    made, rng = Net(), np.random.default_rng(5)
    for i, rows in enumerate((*range(7, 16), 100)):
        for terms in (3, 4, 6, 384, 1030, 1500):
            x = made.feed(f"x{rows}.{terms}", values(rng, 0.1 / terms, rows, terms))
            y = made.op("MatMul", x, values(rng, 0.01, terms, 32))
            made.give(finish(made, y, rng, 32, (rows, 32), i + terms))
            made.give(made.op("Tanh", made.op("MatMul", x, values(rng, 0.01, terms, 32))))
    check_engines(made)


def test_products_below_the_least_number_are_no_less_than_zero() -> None:
    """A fused step gives -0 where its exact result is negative and below 2^-150."""
    made, rng = Net(), np.random.default_rng(7)
    small = [0.0, -0.0, 2.0**-149, -(2.0**-149), 2.0**-148, 1e-30, -1e-30, 1.0]
    bias = np.resize(np.array(small, np.float32), 32)
    tiny = np.array([2.0**-74, 2.0**-75, 2.0**-76 * 1.5, 0.0], np.float32)
    for i, slope in enumerate((2.0**-75, 2.0**-75 * 1.25, 1.0)):
        x = made.feed(f"x{i}", rng.choice(np.concatenate([tiny, -tiny]), (1, 32, 4, 5)))
        y = made.op("Conv", x, np.eye(32, dtype=np.float32)[:, :, None, None])
        y = normalised(made, y, np.full(32, slope, np.float32), bias)
        if i == 1:
            y = made.op("Add", y, made.op("Mul", x, np.float32(-0.0)))
        y = made.op("Relu", y)
        made.give(made.op("Div", np.float32(1.0), y))
        made.give(y)
    check_engines(made)


def test_bytes_do_not_depend_on_threads(small_units: None) -> None:
    made = net()
    graph = made.graph()
    expected = Machine(graph).run(made.feeds)
    found = NativeEngine(graph, threads=3).run(made.feeds)
    assert all(found[n].tobytes() == expected[n].tobytes() for n in graph.outputs)


def test_what_is_between_bounds_keeps_zeros_and_nan_where_arithmetic_reads_it() -> None:
    made, rng = Net(), np.random.default_rng(5)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, -3.0, 3.0, 1e-44, -1e-44]
    x = np.concatenate([special, rng.normal(size=87) * 4]).astype(np.float32).reshape(3, 32)
    x.view(np.uint32)[0, 9] = 0xFFABCDEF  # another NaN
    fed = made.feed("x", x)
    for least, most in ((0, 6), (-1, 1), (-6, -1), (-1, 0), (-1, -0.0)):
        bounds = (np.float32(least), np.float32(most))
        y = made.op("Clip", made.op("Add", fed, np.float32(-0.0)), *bounds)
        made.give(made.op("Div", fed, y))
    check_engines(made)
    program = optimise(lower(made.graph(), overridable=False))
    texts = [print_scheduled(launch.kernel).text for launch in program.launches]
    assert sum("sx_between_f32(" in text for text in texts) == 3
