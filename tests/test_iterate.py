"""Iterate: a step applied many times; one walk at a time and eight at a time give the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernels import call, compile_all
from onnx import TensorProto, helper
from trees import classifier, regressor

from sardonyx import types as t
from sardonyx.engines import make_engine
from sardonyx.errors import InternalError
from sardonyx.kernel import interpret
from sardonyx.kernel.build import Builder, operand
from sardonyx.kernel.c99.print_c import print_c
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.kernel.expr import Expr, cast
from sardonyx.kernel.ir import Kernel
from sardonyx.kernel.verify import settle, verify
from sardonyx.resolve import resolve
from sardonyx.types import Array

SHAPES = ((1, 1), (3, 5), (1, 20), (20, 1), (2, 4), (3, 3, 7))


def hops(shape: tuple[int, ...], table: Array, count: int) -> Kernel:
    """Where `count` hops through a table lead from each place that the input names."""
    k = Builder(1)
    x = operand("x", t.int64, shape)
    held, last = k.constant(table), len(table)

    def place(*i: Expr) -> Expr:
        return k.iterate(last, x[i] & 7, lambda s: cast(held[s], t.int64), count)

    return k.kernel("hops", [x], [k.compute(shape, place, t.int64)])


def expected(x: Array, table: Array, count: int) -> Array:
    value = x & 7
    for _ in range(count):
        value = table[value]
    return value.astype(np.int64)


CHAIN = np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 9], np.int32)
RING = np.array([1, 2, 3, 4, 5, 6, 7, 0, 1, 2], np.int32)


@pytest.mark.parametrize("table", [CHAIN, RING], ids=["chain", "ring"])
def test_a_step_is_applied_as_often_as_the_count_says(table: Array, tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(-9, 99, 64)
    cases = [(s, c) for s in SHAPES for c in (0, 1, 4, 40)]
    kernels = [settle(hops(s, table, c))[0] for s, c in cases]
    printed = [(print_c(k), print_scheduled(k)) for k in kernels]
    texts = [f.named(f"k{i}_{j}") for i, pair in enumerate(printed) for j, f in enumerate(pair)]
    library = compile_all(texts, tmp_path, "gcc", ["-O2"])
    for i, ((shape, count), kernel) in enumerate(zip(cases, kernels, strict=True)):
        given = np.resize(x, shape)
        want = expected(given, table, count)
        np.testing.assert_array_equal(interpret.evaluate(kernel, [given])[0], want)
        for j, function in enumerate(printed[i]):
            out = np.full(shape, -1, np.int64)
            (source,), (target,) = kernel.inputs, kernel.outputs
            assert source is not None
            tables: dict[Any, Array] = {b: b.data for b in kernel.constants if b.data is not None}
            call(function, getattr(library, f"k{i}_{j}"), {source: given, target: out, **tables})
            np.testing.assert_array_equal(out, want)


def test_a_value_that_may_leave_its_extent_is_refused() -> None:
    kernel = hops((3, 3), np.array([1, 10], np.int32), 3)
    with pytest.raises(InternalError, match="iterated value stays"):
        verify(kernel)


@pytest.mark.parametrize("case", [regressor(40, "r", trees=11), classifier(41, "c")], ids=str)
def test_the_native_engine_gives_the_machine_s_bytes_for_every_number_of_rows(case: Any) -> None:
    kinds = (TensorProto.INT64, TensorProto.FLOAT)[2 - case.outputs :]
    graph = helper.make_graph(
        [case.node()],
        "trees",
        [helper.make_tensor_value_info("x0", TensorProto.FLOAT, ["N", case.feeds[0].shape[1]])],
        [helper.make_tensor_value_info(f"y{i}", k, None) for i, k in enumerate(kinds)],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    machine, native = (make_engine(resolve(model), kind) for kind in ("machine", "native"))
    for rows in (1, 2, 7, 8, 9, 37):
        feeds = {"x0": case.feeds[0][:rows]}
        want, found = machine.run(feeds), native.run(feeds)
        for name in want:
            assert np.asarray(found[name]).tobytes() == np.asarray(want[name]).tobytes()
