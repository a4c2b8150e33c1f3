"""Operators whose output sizes depend on data: a kernel that counts, and one that fills."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ml_dtypes
import node_cases
import numpy as np
import pytest
from kernels import Case, check, compile_all
from onnx.backend.test.case.test_case import TestCase
from op_runs import as_operand, version

from sardonyx.dims import symbol
from sardonyx.errors import RunError, Undetermined
from sardonyx.kernel.build import operand
from sardonyx.kernel.c99.print_c import print_c
from sardonyx.kernel.c99.schedule import print_scheduled
from sardonyx.kernel.interpret import evaluate
from sardonyx.kernel.verify import settle
from sardonyx.ops.registry import INTERNAL, Operator, find, lower, sized_by, sized_operators
from sardonyx.types import Array, int64

NAN, INF = np.nan, np.inf
OPERANDS = {"NonZero": 1, "Compress": 2, "Unique": 1, "NonMaxSuppression": 5}
FLOATS = ("float32", "float64", "float16", "bfloat16")
RANDOM = np.random.default_rng(11)


def pair(op_type: str, opset: int = 28) -> tuple[Operator, Operator]:
    """The operators that count and fill."""
    names = sized_by("", op_type, version(op_type, opset))
    assert names is not None
    count, fill = (find(INTERNAL, name, 1) for name in names)
    assert count is not None
    assert fill is not None
    return count, fill


def steps(op_type: str, *feeds: Any, outputs: int = 1, **attributes: Any) -> list[Case]:
    """The two kernels with their inputs; the second is lowered for what the first counts."""
    count, fill = pair(op_type)
    arrays = [None if x is None else np.asarray(x) for x in feeds]
    arrays += [None] * (OPERANDS[op_type] - len(arrays))
    given = [as_operand(i, x) for i, x in enumerate(arrays)]
    work = 4 if op_type == "Unique" else 2 if op_type == "NonMaxSuppression" else 1
    first, _ = settle(lower(count, given, attributes, [True] * work))
    counted = evaluate(first, arrays)
    arrays_2 = [*arrays, *counted]
    given_2 = [as_operand(i, x) for i, x in enumerate(arrays_2)]
    second, unproven = settle(lower(fill, given_2, attributes, [True] * outputs))
    assert unproven == 0
    return [(first, arrays), (second, arrays_2)]


def run(op_type: str, *feeds: Any, outputs: int = 1, **attributes: Any) -> list[Array]:
    return evaluate(*steps(op_type, *feeds, outputs=outputs, **attributes)[1])


def values(dtype: Any, *shape: int) -> Array:
    """Few distinct values, so that they repeat."""
    if dtype in FLOATS:
        few = np.array([0.0, -0.0, 1.5, -2, INF, -INF, NAN, 3], np.float64)
        return RANDOM.choice(few, shape).astype(getattr(ml_dtypes, dtype, dtype))
    if dtype == "bool":
        return RANDOM.integers(0, 2, shape).astype(bool)
    info = np.iinfo(dtype)
    return RANDOM.choice(np.array([info.min, info.max, 0, 1, 5], dtype), shape)


DTYPES = (
    *FLOATS, "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"
)  # fmt: skip


def wide(x: Array) -> Array:
    return x.astype(np.float32) if x.dtype == ml_dtypes.bfloat16 else x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 0, 3), (2, 3, 2), ()])
def test_non_zero_is_numpy_s(dtype: str, shape: tuple[int, ...]) -> None:
    """Of a scalar the indices have no rows, as the text of the operator says."""
    x = values(dtype, *shape)
    (found,) = run("NonZero", x)
    if shape:
        expected = np.array(np.nonzero(wide(x)), np.int64).reshape(len(shape), -1)
    else:
        expected = np.zeros((0, int(bool(x))), np.int64)
    np.testing.assert_array_equal(found, expected, strict=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_compress_is_numpy_s(dtype: str) -> None:
    x = values(dtype, 3, 4, 2)
    for axis, size in ((None, 20), (0, 3), (1, 3), (-1, 2), (1, 0)):
        condition = RANDOM.integers(0, 2, size).astype(bool)
        (found,) = run("Compress", x, condition, **({} if axis is None else {"axis": axis}))
        expected = np.compress(condition, x, axis=axis)
        assert (found.shape, found.tobytes()) == (expected.shape, expected.tobytes())


def test_compress_refuses_a_condition_that_is_true_beyond_the_axis() -> None:
    with pytest.raises(RunError, match="index 3"):
        run("Compress", np.ones(3, np.float32), np.array([True, False, False, True]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [0, 1, 2, 5, 33])
def test_unique_without_an_axis_is_numpy_s(dtype: str, size: int) -> None:
    x = values(dtype, size)
    found = run("Unique", x, outputs=4)
    expected = np.unique(wide(x), True, True, True)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_array_equal(wide(got), want)


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_unique_along_an_axis_is_numpy_s(dtype: str, axis: int) -> None:
    x = values("bool", 4, 5, 3).astype(dtype)
    x = x[:, :, :1] if axis == 1 else x[:1] if axis == -1 else x
    found = run("Unique", x, outputs=4, axis=axis)
    expected = np.unique(x, True, True, True, axis=axis)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_array_equal(got, want.reshape(got.shape))


def test_unique_along_an_axis_takes_slices_with_nan_for_equal() -> None:
    x = np.array([[NAN, 1], [0, NAN], [NAN, 1], [0, NAN], [-0.0, 5]], np.float32)
    y, indices, inverse, counts = run("Unique", x, outputs=4, axis=0)
    np.testing.assert_array_equal(y, np.array([[0, 5], [0, NAN], [NAN, 1]], np.float32))
    assert [indices.tolist(), inverse.tolist(), counts.tolist()] == [
        [4, 1, 0],
        [2, 1, 2, 1, 0],
        [1, 2, 2],
    ]


def test_unique_of_slices_without_elements_is_one_slice() -> None:
    y, indices, inverse, counts = run("Unique", np.zeros((3, 0), np.float32), outputs=4, axis=0)
    assert y.shape == (1, 0)
    assert [indices.tolist(), inverse.tolist(), counts.tolist()] == [[0], [0, 0, 0], [3]]


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_unique_not_sorted_keeps_the_order_of_first_occurrence(axis: int | None) -> None:
    x = RANDOM.integers(0, 2, (6, 4)).astype(np.int32)
    given = {} if axis is None else {"axis": axis}
    y, indices, inverse, counts = run("Unique", x, outputs=4, sorted=0, **given)
    assert (np.diff(indices) > 0).all()
    flat = x.reshape(-1) if axis is None else np.moveaxis(x, axis, 0)
    rows = y if axis is None else np.moveaxis(y, axis, 0)
    np.testing.assert_array_equal(rows[inverse], flat)
    np.testing.assert_array_equal(flat[indices], rows)
    np.testing.assert_array_equal(counts, np.bincount(inverse))


def boxes_of(count: int, batches: int, classes: int) -> tuple[Array, Array]:
    corner = RANDOM.random((batches, count, 2))
    boxes = np.concatenate([corner, corner + RANDOM.random((batches, count, 2)) * 0.4], -1)
    scores = np.round(RANDOM.random((batches, classes, count)), 2)
    return boxes.astype(np.float32), scores.astype(np.float32)


@pytest.mark.parametrize("center", [0, 1])
@pytest.mark.parametrize(("limit", "iou", "least"), [(3, 0.3, None), (50, 0.5, 0.4), (7, 0.1, 0.0)])
def test_non_max_suppression_is_onnxruntime_s(
    center: int, limit: int, iou: float, least: float | None
) -> None:
    ort = pytest.importorskip("onnxruntime")
    from onnx import TensorProto, helper

    boxes, scores = boxes_of(40, 2, 3)
    feeds = [boxes, scores, np.array([limit]), np.array([iou], np.float32)]
    feeds += [] if least is None else [np.array([least], np.float32)]
    names = [f"x{i}" for i in range(len(feeds))]
    node = helper.make_node("NonMaxSuppression", names, ["y"], center_point_box=center)
    codes = [TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT64, TensorProto.FLOAT]
    infos = [
        helper.make_tensor_value_info(n, c, x.shape)
        for n, c, x in zip(names, [*codes, TensorProto.FLOAT], feeds, strict=False)
    ]
    out = helper.make_tensor_value_info("y", TensorProto.INT64, None)
    graph = helper.make_graph([node], "g", infos, [out])
    opsets = [helper.make_opsetid("", 11)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, dict(zip(names, feeds, strict=True)))
    (found,) = run("NonMaxSuppression", *feeds, center_point_box=center)
    np.testing.assert_array_equal(found, expected)


def test_non_max_suppression_selects_nothing_without_a_limit() -> None:
    (found,) = run("NonMaxSuppression", *boxes_of(5, 1, 1))
    assert found.shape == (0, 3)


CASES = [c for c in node_cases.cases(*OPERANDS) if not c.name.endswith("_string")]


@pytest.mark.parametrize("case", CASES, ids=lambda c: str(c.name))
def test_node_case(case: TestCase) -> None:
    (node,) = case.model.graph.node
    for stored_inputs, stored_outputs in case.data_sets:
        named = dict(zip((i.name for i in case.model.graph.input), stored_inputs, strict=True))
        feeds = [node_cases.array(named[i]) if i else None for i in node.input]
        found = run(node.op_type, *feeds, outputs=4 if node.op_type == "Unique" else 1,
                    **node_cases.attributes(node))  # fmt: skip
        used = [x for x, name in zip(found, node.output, strict=False) if name]
        for got, want in zip(used, map(node_cases.array, stored_outputs), strict=True):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_array_equal(wide(got), wide(want))


def test_printed_c_gives_the_interpreter_s_bytes(tmp_path: Path) -> None:
    boxes, scores = boxes_of(12, 2, 2)
    some = [np.array(x) for x in (5, np.float32(0.3), np.float32(0.2))]
    cases = [
        *(c for d in DTYPES for c in steps("NonZero", values(d, 3, 4))),
        *(c for d in DTYPES for c in steps("Unique", values(d, 13), outputs=4)),
        *steps("Unique", values("float16", 4, 6), outputs=4, axis=1, sorted=0),
        *steps("Unique", values("float32", 0), outputs=4),
        *steps("NonZero", np.float32(3)),
        *steps("Compress", values("bfloat16", 3, 4), np.array([True, False, True]), axis=1),
        *steps("NonMaxSuppression", boxes, scores, *some),
        *steps("NonMaxSuppression", boxes, scores, *some, center_point_box=1),
    ]
    texts = [print_c(kernel).named(f"k{i}") for i, (kernel, _) in enumerate(cases)]
    library = compile_all(texts, tmp_path, "gcc", ["-O1"])
    for i, case in enumerate(cases):
        check(case, library[f"k{i}"])


@pytest.mark.parametrize(("domain", "name", "since"), sized_operators())
def test_the_size_is_asked_for_and_may_be_symbolic(domain: str, name: str, since: int) -> None:
    count, fill = pair(name)
    n, size = symbol("N"), symbol("K")
    shapes = {"NonMaxSuppression": [(1, n, 4), (1, 2, n)]}.get(name, [(n,), (n,)])
    given = [as_operand(i, s) for i, s in enumerate(shapes[: OPERANDS[name]])]
    if name == "Compress":
        given[1] = operand("x1", as_operand(1, np.array([True])).dtype, (n,))
    given += [None] * (OPERANDS[name] - len(given))
    work = 4 if name == "Unique" else 2 if name == "NonMaxSuppression" else 1
    first, _ = settle(lower(count, given, {}, [True] * work))
    made = [operand(f"w{i}", b.dtype, b.shape) for i, b in enumerate(first.outputs)]
    with pytest.raises(Undetermined, match="w0"):
        lower(fill, [*given, *made], {}, [True])
    made[0] = operand("w0", int64, (), np.array(size, object))
    second, _ = settle(lower(fill, [*given, *made], {}, [True]))
    assert size in second.outputs[0].shape


def test_a_box_is_compared_with_those_selected_and_no_others() -> None:
    first = steps("NonMaxSuppression", *boxes_of(400, 1, 1), np.array(400))[0][0]
    until = r"if \(!\(\(!s\d+\) & \(0 < s\d+\)\)\) break;"
    assert re.search(until, print_scheduled(first).text)
