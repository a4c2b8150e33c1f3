"""Movement, gathering, scattering, shapes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from op_runs import RANDOM, lowered, normal, run

from sardonyx.dims import symbol
from sardonyx.errors import InvalidModel, RunError, Undetermined
from sardonyx.kernel.interpret import evaluate
from sardonyx.kernel.verify import settle

N, H, W = symbol("N"), symbol("H"), symbol("W")


@pytest.mark.parametrize(
    ("start", "end", "step"),
    list(product([-9, -2, 0, 3, 9], [-9, -2, 0, 3, 9, 2**63 - 1], [1, 3]))
    + list(product([-5, -2, 0, 3, 9], [-9, -2, 0, 3, -(2**63)], [-1, -2])),
)
def test_slice_is_numpy_s(start: int, end: int, step: int) -> None:
    x = np.arange(5)
    expected = x[slice(start, None if end < -9 else end, step)]
    np.testing.assert_array_equal(run("Slice", x, [start], [end], [0], [step]), expected)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_pad_is_numpy_s(mode: str) -> None:
    x = RANDOM.integers(0, 99, (3, 4))
    y = run("Pad", x, [2, 1, 1, 7 if mode != "constant" else 3], mode=mode)
    np.testing.assert_array_equal(y, np.pad(x, [(2, 1), (1, 7 if mode != "constant" else 3)], mode))


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_a_negative_pad_cuts_before_the_others_pad(mode: str) -> None:
    x = np.arange(6)
    y = run("Pad", x, [-2, 3], mode=mode)
    np.testing.assert_array_equal(y, np.pad(x[2:], (0, 3), mode))


@pytest.mark.parametrize(
    ("op_type", "feeds", "attributes"),
    [
        ("Gather", ([1, 2], [2]), {}),
        ("GatherElements", ([1, 2], [-3]), {}),
        ("GatherND", ([1, 2], [[2]]), {}),
        ("ScatterElements", ([1, 2], [2], [7]), {}),
        ("ScatterND", ([1, 2], [[-3]], [7]), {}),
    ],
)
def test_an_index_out_of_range_is_a_run_time_error(
    op_type: str, feeds: Any, attributes: dict[str, Any]
) -> None:
    with pytest.raises(RunError):
        run(op_type, *feeds, **attributes)


def test_top_k_puts_a_nan_before_every_number_and_equals_in_order() -> None:
    x = np.array([1, np.nan, 3, 3, -np.inf], np.float32)
    values, indices = run("TopK", x, [4], outputs=2)
    np.testing.assert_array_equal(values, [np.nan, 3, 3, 1])
    np.testing.assert_array_equal(indices, [1, 2, 3, 0])


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize(("shape", "axis"), [((3, 40), 1), ((40, 3), 0), ((2, 40, 2), 1)])
@pytest.mark.parametrize("count", [0, 1, 7, 39, 40])
def test_top_k_is_the_head_of_a_stable_sort(
    shape: tuple[int, ...], axis: int, count: int, largest: int
) -> None:
    x = RANDOM.integers(-9, 9, shape).astype(np.float32)
    x.flat[[5, 50]] = np.nan
    values, indices = run("TopK", x, [count], axis=axis, largest=largest, outputs=2)
    key = np.where(np.isnan(x), np.inf, x) * (-1 if largest else 1)
    order = np.argsort(key, axis, kind="stable").take(range(count), axis)
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(values, np.take_along_axis(x, order, axis))


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "u1", "i4", "u4", "i8", "u8"])
def test_top_k_orders_the_ends_of_each_type_and_zeros_as_equals(dtype: str, largest: int) -> None:
    if dtype[0] == "f":
        odd = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-7, -1e-7, -1.5, 2.5]
    else:
        odd = [*(int(x) for x in (np.iinfo(dtype).min, np.iinfo(dtype).max)), 0, 1, 3]
    x = RANDOM.permutation(np.array(odd * 5, dtype))
    _, indices = run("TopK", x, [len(x) - 3], largest=largest, outputs=2)
    rank = np.unique(np.where(x == x, x, np.array(np.nan if dtype[0] == "f" else 0, dtype)))
    place = np.searchsorted(rank, x) * (-1 if largest else 1)
    np.testing.assert_array_equal(indices, np.argsort(place, kind="stable")[:-3])


def test_moving_keeps_the_payload_of_a_nan() -> None:
    x = np.array([0x7FC12345, 0xFFC00001], np.uint32).view(np.float32)
    for y in (
        run("Concat", x, x, axis=0)[2:],
        run("Gather", x, [0, 1]),
        run("Pad", x, [0, 1])[:2],
        run("Slice", x, [1], [-3], [0], [-1])[::-1],
    ):
        np.testing.assert_array_equal(y.view(np.uint32), x.view(np.uint32))


SYMBOLIC: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    ("Conv", ((N, 16, H, W), (8, 16, 3, 3)), {"pads": [1] * 4}, "N, 8, H, W"),
    ("Conv", ((N, 16, H, W), (8, 16, 3, 3)), {"auto_pad": "SAME_UPPER"}, "N, 8, H, W"),
    ("ConvTranspose", ((N, 4, H, W), (4, 2, 2, 2)), {"strides": [2, 2]}, "N, 2, 2*H, 2*W"),
    ("GlobalAveragePool", ((N, 4, H, W),), {}, "N, 4, 1, 1"),
    ("Reshape", ((N, 16, H, W), [0, -1]), {}, "N, 16*H*W"),
    ("Reshape", ((N, H, 64), [0, 0, 8, 8]), {}, "N, H, 8, 8"),
    ("Reshape", ((N, H, 64), [N, H, 64]), {}, "N, H, 64"),
    ("Flatten", ((N, 16, H),), {}, "N, 16*H"),
    ("Transpose", ((N, 16, H),), {}, "H, 16, N"),
    ("Expand", ((N, 1, W), [N, H, 1]), {}, "N, H, W"),
    ("Concat", ((N, 4, H), (N, 4, W)), {"axis": 2}, "N, 4, H + W"),
    ("Split", ((N, 2 * H),), {"axis": 1, "num_outputs": 2}, "N, H"),
    ("Slice", ((N, H), [0], [H], [1]), {}, "N, H"),
    ("Slice", ((N, H), [-1], [-(2**63)], [1], [-1]), {}, "N, H"),
    ("Slice", ((N, 4 + H), [2], [-1], [1]), {}, "N, H + 1"),
    ("Pad", ((N, H), [0, 1, 0, 1]), {"mode": "reflect"}, "N, H + 2"),
    ("DepthToSpace", ((N, 4, H, W),), {"blocksize": 2}, "N, 1, 2*H, 2*W"),
    ("Shape", ((N, H),), {}, "2"),
    ("Resize", ((N, H, W), None, np.float32([1, 2, 0.5])), {}, "N, 2*H, floor(W/2)"),
    ("Resize", ((N, H), None, None, [N, 2 * H + 1]), {"mode": "cubic"}, "N, 2*H + 1"),
]  # fmt: skip


@pytest.mark.parametrize(("op_type", "operands", "attributes", "shape"), SYMBOLIC)
def test_symbolic_shapes(
    op_type: str, operands: tuple[Any, ...], attributes: dict[str, Any], shape: str
) -> None:
    """The output's shape is known, and every load is proven, for all values of the dims."""
    outputs = attributes.get("num_outputs", 1)
    kernel = lowered(op_type, *operands, outputs=outputs, **attributes)
    assert ", ".join(map(str, kernel.outputs[0].shape)) == shape
    assert settle(kernel)[1] == 0


@pytest.mark.parametrize(
    ("op_type", "operands", "attributes"),
    [
        ("Reshape", ((N, 6), [4, -1]), {}),
        ("Reshape", ((N, 6), [H, 6]), {}),
        ("Squeeze", ((N, 6), [0]), {}),
        ("Slice", ((N, 6), [H - 3], [H], [0]), {}),
        ("Concat", ((N, 6), (H, 6)), {"axis": 1}),
        ("Resize", ((N, 6), None, np.float32([0.3, 1])), {}),
        ("Conv", ((1, N, 9, 9), (4, 3, 3, 3)), {}),
    ],
)
def test_what_depends_on_symbolic_dims_is_undetermined(
    op_type: str, operands: tuple[Any, ...], attributes: dict[str, Any]
) -> None:
    with pytest.raises(Undetermined):
        lowered(op_type, *operands, **attributes)


@pytest.mark.parametrize(
    ("op_type", "operands", "attributes"),
    [
        ("Conv", ((1, 4, 9, 9), (4, 3, 3, 3)), {}),
        ("Conv", ((1, 3, 9, 9), (4, 3, 3, 3)), {"kernel_shape": [5, 5]}),
        ("Conv", ((1, 3, 9, 9), (4, 3, 3, 3)), {"pads": [1, 1]}),
        ("Conv", ((1, 6, 9, 9), (3, 3, 3, 3)), {"group": 2}),
        ("MaxPool", ((1, 3, 9, 9),), {"kernel_shape": [3]}),
        ("MaxPool", ((1, 3, 9, 9),), {"kernel_shape": [3, 3], "auto_pad": "SAME"}),
        ("Reshape", ((4, 6), [5, -1]), {}),
        ("Reshape", ((4, 6), [-1, -1]), {}),
        ("Reshape", ((4, 6), [1, 1, 0, 24]), {}),
        ("Squeeze", ((4, 6), [0]), {}),
        ("Transpose", ((4, 6),), {"perm": [0, 0]}),
        ("Concat", ((4, 6), (5, 6)), {"axis": 1}),
        ("Split", ((4, 6), [1, 2]), {}),
        ("Slice", ((4, 6), [0], [1], [0], [0]), {}),
        ("Slice", ((4, 6), [0], [1], [2]), {}),
        ("Pad", ((4, 6), [0, 0, 0]), {}),
        ("Resize", ((4, 6), None, np.float32([1, -1])), {}),
        ("Resize", ((4, 6),), {}),
    ],
)
def test_a_broken_rule_is_named(
    op_type: str, operands: tuple[Any, ...], attributes: dict[str, Any]
) -> None:
    with pytest.raises(InvalidModel, match=r"\w"):
        lowered(op_type, *operands, **attributes)


@pytest.mark.parametrize(
    ("op_type", "operands", "attributes"),
    [
        ("Reshape", ((4, 6), [6, 4]), {}),
        ("Flatten", ((4, 6, 2),), {}),
        ("Squeeze", ((4, 1), [1]), {}),
        ("Unsqueeze", ((4, 6), [0]), {}),
        ("Transpose", ((N, 6, 1),), {"perm": [0, 2, 1]}),
        ("Slice", ((N, 6), [0], [2**63 - 1], [1]), {}),
        ("Expand", ((N, 6), [1, 1, 6]), {}),
        ("Resize", ((N, 6), None, np.float32([1, 1])), {}),
    ],
)
def test_what_only_renames_the_shape_is_a_view(
    op_type: str, operands: tuple[Any, ...], attributes: dict[str, Any]
) -> None:
    assert lowered(op_type, *operands, **attributes).views == ((0, 0),)


def test_a_view_copies_when_it_is_run() -> None:
    x = normal(4, 6)
    kernel = lowered("Reshape", x, [6, 4])
    np.testing.assert_array_equal(evaluate(kernel, [x, np.array([6, 4])])[0], x.reshape(6, 4))


def test_tensor_scatter_beyond_the_cache_is_a_run_time_error() -> None:
    cache, update = normal(1, 4, 2), normal(1, 2, 2)
    at = np.array([3])
    with pytest.raises(RunError, match="outside"):
        run("TensorScatter", cache, update, at, opset=24)
    found = run("TensorScatter", cache, update, at, opset=24, mode="circular")
    np.testing.assert_array_equal(found[:, [3, 0]], update)
    np.testing.assert_array_equal(found[:, 1:3], cache[:, 1:3])
