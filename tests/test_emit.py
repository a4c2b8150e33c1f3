"""Whole programs as C."""

from __future__ import annotations

import ctypes
import ctypes.util
import platform

import numpy as np
import pytest
from nets import Net, check_engines
from programs import Made, call, planned, sample

from sardonyx.build import library, load
from sardonyx.dims import evaluate, extreme, floordiv, symbol
from sardonyx.emit import emit, model
from sardonyx.emit.names import escaped
from sardonyx.emit.places import dim_text
from sardonyx.kernel import interpret
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.passes.lower import lower
from sardonyx.passes.pipeline import optimise
from sardonyx.passes.timeline import timeline_of
from sardonyx.plan import plan
from sardonyx.plan.outline import Slot
from sardonyx.types import Array

OUTSIDE = ("w", "x", "at", "y")


def feeds(n: int, at: tuple[int, ...] = (0, -1, 33)) -> list[Array]:
    x = np.random.default_rng(5).normal(size=(n, 30)).astype(np.float32)
    return [x, np.array(at, np.int64)]


def expected(made: Made, given: list[Array]) -> list[Array]:
    values = {**dict(zip(made.inputs, given, strict=True)), **made.weights}
    for launch in made.launches:
        results = interpret.evaluate(launch.kernel, [values[name] for name in launch.reads])
        values.update(zip(launch.writes, results, strict=True))
    return [values[name] for name in made.outputs]


@pytest.mark.parametrize("units", [1, 3])
@pytest.mark.parametrize("outside", [(), OUTSIDE])
def test_a_program_with_a_plan_gives_the_interpreters_bytes(outside, units) -> None:
    made, given = sample(), feeds(4)
    found = planned(made, outside)
    source = emit(made, found, units=units)
    want = expected(made, given)
    results = [np.zeros_like(x) for x in want]
    code = load(library(source.files()))
    assert call(code, source, given, results, found.size) == (0, -1)
    assert [r.tobytes() for r in results] == [w.tobytes() for w in want]


@pytest.mark.parametrize("n", [1, 2, 17])
def test_a_program_with_symbolic_dims_serves_every_shape(n: int) -> None:
    source = emit(sample(symbol("N")), symbols=["N"])
    made, given = sample(n), feeds(n, (0, 1, -2))
    found = planned(made, OUTSIDE)
    offsets = {s: found.offsets[s.tensor] for s in source.slots if s.tensor}
    want = expected(made, given)
    results = [np.zeros_like(x) for x in want]
    code = load(library(source.files()))
    assert set(source.slots) == {Slot(tensor=name) for name in "abcd"}
    assert call(code, source, given, results, found.size, [n], offsets) == (0, -1)
    assert [r.tobytes() for r in results] == [w.tobytes() for w in want]


def test_a_trap_names_its_kind_and_its_operation() -> None:
    made, given = sample(), feeds(4, (0, 80, 1))
    found = planned(made)
    source = emit(made, found)
    results = [np.zeros_like(x) for x in expected(made, feeds(4))]
    assert call(load(library(source.files())), source, given, results, found.size) == (1, 4)


def test_kernels_of_equal_text_are_one_function() -> None:
    assert emit(sample(), planned(sample())).main.count("static void k") == 3


def test_a_view_needs_no_kernel() -> None:
    assert "Nothing to do" in emit(sample(), planned(sample())).main


def test_an_output_that_takes_the_place_of_its_input_is_one_pointer() -> None:
    main = emit(sample(), planned(sample())).main
    assert "_relu(float *restrict out0, int64_t n0) {" in main


def test_names_of_the_model_are_escaped_in_comments() -> None:
    main = emit(sample(), planned(sample())).main
    assert "a\\x20node\\x20\\x2a\\x2f\\x20with" in main
    assert "*/ with" not in main


def test_long_names_are_cut() -> None:
    assert escaped("é" * 100) == "\\xc3\\xa9" * 8


def test_the_weights_are_aligned_and_stored_once() -> None:
    blob = emit(sample(), planned(sample())).blob
    assert [offset % 64 for offset, _ in blob.arrays] == [0, 0]
    assert blob.add(blob.arrays[0][1].copy()) == 0
    assert sum(map(len, blob.pieces())) == blob.size


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the number of a rounding mode")
def test_the_callers_floating_point_environment_changes_nothing_and_is_restored() -> None:
    made, given = sample(), feeds(4)
    found = planned(made)
    source = emit(made, found)
    want = expected(made, given)
    results = [np.zeros_like(x) for x in want]
    code, libm = load(library(source.files())), ctypes.CDLL(ctypes.util.find_library("m"))
    upward = 0x800
    libm.fesetround(upward)
    try:
        error = call(code, source, given, results, found.size)
        left = libm.fegetround()
    finally:
        libm.fesetround(0)
    assert (error, left) == ((0, -1), upward)
    assert [r.tobytes() for r in results] == [w.tobytes() for w in want]


@pytest.mark.parametrize("values", [(1, 1), (7, 3), (64, 1000)])
def test_sizes_in_c_are_the_dims(values: tuple[int, int]) -> None:
    n, m = symbol("N"), symbol("M")
    names = {"N": "n", "M": "m"}
    functions = {
        "sx_idiv_i64": lambda a, b: a // b,
        "sx_max_i64": max,
        "sx_min_i64": min,
        "n": values[0],
        "m": values[1],
    }
    for dim in (
        *(n, n * m * 3 - 2, (n + 5) // 4, floordiv(n * n - 3, m), extreme("max", n - m, 4)),
        *(extreme("min", n * 2, m + 1) * 3, n - n * m, 5, n * -1 + m),
    ):
        text = dim_text(dim, names)
        assert eval(text, functions) == evaluate(dim, {"N": values[0], "M": values[1]}), text


@pytest.mark.parametrize(("rows", "one"), [((1, 1), True), ((1, 2), False)])
def test_products_of_one_row_alone_need_no_other_tiles(rows: tuple[int, int], one: bool) -> None:
    net, rng = Net(), np.random.default_rng(1)
    for i, count in enumerate(rows):
        x = net.feed(f"x{i}", rng.standard_normal((count, 40)).astype(np.float32))
        net.give(net.op("MatMul", x, rng.standard_normal((40, 75)).astype(np.float32)))
    program = optimise(lower(net.graph()))
    text = emit(program, plan(timeline_of(program)), printer=print_scheduled).main
    assert ("#define SX_ONE_ROW" in text) == one
    check_engines(net)


def test_tiles_of_one_row_serve_any_product(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which tiles there are decides no bit, and no sum depends on one that is not compiled."""
    monkeypatch.setattr(model, "_rows", lambda program: iter([1]))
    net, rng = Net(), np.random.default_rng(2)
    for rows, terms, n in ((2, 40, 75), (65, 60, 40), (7, 90, 20)):
        x = net.feed(f"x{rows}", rng.standard_normal((rows, terms)).astype(np.float32))
        net.give(net.op("MatMul", x, rng.standard_normal((terms, n)).astype(np.float32)))
    check_engines(net)
